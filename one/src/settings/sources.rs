//! Event sources: generators of messages, and event files.

use super::mistake::Mistake;
use super::setup::{not_covered, parts, refuse};
use super::values::{Value, Values};
use crate::events::{self, Event};

/// Largest event file, bytes.
const LONGEST_EVENTS: u64 = 1 << 30;

/// Source of external events.
#[derive(Clone, Debug)]
pub enum Source {
    /// Event class `MessageEventGenerator` of The ONE.
    Generator(Generator),
    /// Event class `ExternalEventsQueue` of The ONE: events in time order.
    File(Vec<Event>),
}

/// Parameters of a message generator.
#[derive(Clone, Debug)]
pub struct Generator {
    /// Seconds between two messages, from the first up to but not including the second.
    pub interval: [i32; 2],
    /// Length of a message in bytes, from the first number up to but not including the second.
    pub size: [i32; 2],
    /// Range of senders, excluding the end.
    pub from: [i32; 2],
    /// Range of receivers, excluding the end.
    pub to: [i32; 2],
    /// First part of message names; also the seed.
    pub prefix: String,
    /// Start and end of generation, seconds.
    pub time: Option<[f64; 2]>,
}

pub(super) fn of(values: &Values, hosts: u32) -> Result<Vec<Source>, Mistake> {
    // Sources numbered beyond the count have no effect; `Values::beyond` reports them.
    let count = values.find(&["Events"], "nrof").map_or(Ok(0), |value| parts(&value))?;
    (1..=count).map(|number| source(values, &format!("Events{number}"), hosts)).collect()
}

fn source(values: &Values, space: &str, hosts: u32) -> Result<Source, Mistake> {
    refuse(values, "EventsK", &[space])?;
    if let Some(file) = values.find(&[space], "filePath") {
        let (file, bytes) = values.file(&file, LONGEST_EVENTS)?;
        return events::read(&file, &String::from_utf8_lossy(&bytes), hosts).map(Source::File);
    }
    let class = values.need(&[space], "class")?;
    if class.text != "MessageEventGenerator" {
        return Err(not_covered(&class, "covered are MessageEventGenerator and ExternalEventsQueue (with filePath)"));
    }
    let need = |key: &str| values.need(&[space], key);
    let (interval, size, from) = (need("interval")?, need("size")?, need("hosts")?);
    let to = values.find(&[space], "tohosts").unwrap_or_else(|| from.clone());
    let time = values.find(&[space], "time");
    let generator = Generator {
        interval: interval.whole_range()?,
        size: size.whole_range()?,
        from: among(&from, hosts)?,
        to: among(&to, hosts)?,
        prefix: need("prefix")?.text,
        time: time.map(|value| value.range()).transpose()?,
    };
    // Draws stay below the second number, or equal the first if both are the same.
    let [least, most] = generator.interval;
    if least == 0 && most <= 1 {
        return Err(interval.wrong("no time passes between messages", "write for instance 25,35"));
    }
    if generator.size[0] < 1 {
        return Err(size.wrong("a message of no bytes", "write 1 or more"));
    }
    // A sender's draw of a receiver repeats until it differs from the sender: it must be able to end.
    let ([only, end], [first, last]) = (generator.to, generator.from);
    if end - only <= 1 && (first..last.max(first + 1)).contains(&only) {
        return Err(to.wrong("a host that sends would have nobody to send to", "write more hosts"));
    }
    Ok(Source::Generator(generator))
}

fn among(value: &Value, hosts: u32) -> Result<[i32; 2], Mistake> {
    let [first, end] = value.whole_range()?;
    if i64::from(end.max(first.saturating_add(1))) > i64::from(hosts) {
        let there = match hosts {
            0 => "there are no hosts".to_string(),
            _ => format!("there are hosts 0 to {}", hosts - 1),
        };
        return Err(value.wrong(there, "write numbers of hosts"));
    }
    Ok([first, end])
}
