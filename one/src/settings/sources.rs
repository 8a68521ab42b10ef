//! Sources of events: messages that are drawn, and files of events.

use super::mistake::Mistake;
use super::setup::{parts, refuse};
use super::values::{Value, Values};
use crate::events::{self, Event};

/// Longest file of events.
const LONGEST_EVENTS: u64 = 1 << 30;

/// Where events come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// `MessageEventGenerator`.
    Generator(Generator),
    /// `ExternalEventsQueue`: in the order of time.
    File(Vec<Event>),
}

/// How messages are drawn.
#[derive(Clone, Debug)]
pub struct Generator {
    /// Whole seconds between two.
    pub interval: [i32; 2],
    /// Bytes.
    pub size: [i32; 2],
    /// Numbers of senders, the second not among them.
    pub from: [i32; 2],
    /// Numbers of receivers, the second not among them.
    pub to: [i32; 2],
    /// First part of names, and the seed.
    pub prefix: String,
    /// When it begins and ends, seconds.
    pub time: Option<[f64; 2]>,
}

/// The sources of a run of so many hosts.
pub(super) fn of(values: &Values, hosts: u32) -> Result<Vec<Source>, Mistake> {
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
        return Err(
            class.wrong("not covered", "exact are MessageEventGenerator and ExternalEventsQueue (with filePath)")
        );
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
    // What is drawn is less than the second number, or the first where they are the same.
    let [least, most] = generator.interval;
    if least == 0 && most <= 1 {
        return Err(interval.wrong("no time passes between messages", "write for instance 25,35"));
    }
    if generator.size[0] < 1 {
        return Err(size.wrong("a message of no bytes", "write 1 or more"));
    }
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
