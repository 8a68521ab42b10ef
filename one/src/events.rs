//! External events: lines of event files and messages from generators, merged in time order.

use super::java::{Random, string_hash};
use super::settings::{Generator, Mistake, Source};
use std::path::Path;

/// Event of the world at a given time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time, seconds.
    pub time: f64,
    /// Kind of event, with its details.
    pub what: EventKind,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A contact of two hosts begins or ends.
    Contact {
        /// The host named first.
        a: u32,
        /// The host named second.
        b: u32,
        /// True when the contact begins.
        up: bool,
    },
    /// Creation of a message.
    Message {
        /// Name of the message.
        id: String,
        /// Number of the sending host.
        from: u32,
        /// Number of the receiving host.
        to: u32,
        /// Length in bytes.
        size: i32,
    },
}

/// Reads a file of events, whose times must not decrease.
///
/// # Errors
/// Reports the first line that is malformed or not supported.
pub fn read(file: &Path, text: &str, hosts: u32) -> Result<Vec<Event>, Mistake> {
    let mut events: Vec<Event> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let event = event(line, hosts).map_err(|(what, hint)| Mistake::at(file, number + 1, what, hint))?;
        if events.last().is_some_and(|last| last.time > event.time) {
            return Err(Mistake::at(file, number + 1, "earlier than the line before", "sort the lines by time"));
        }
        events.push(event);
    }
    Ok(events)
}

type Wrong = (String, &'static str);

fn event(line: &str, hosts: u32) -> Result<Event, Wrong> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let time = words[0].parse::<f64>().ok().filter(|time| time.is_finite() && *time >= 0.0);
    let time = time.ok_or_else(|| (format!("`{}` is no time", words[0]), "write seconds from 0"))?;
    let what = match words[1..] {
        ["CONN", a, b, state @ ("up" | "down")] => {
            let (a, b) = (host(a, hosts)?, host(b, hosts)?);
            EventKind::Contact { a, b, up: state == "up" }
        }
        ["C", id, from, to, size] | ["C", id, from, to, size, "0"] => {
            let size = size.parse::<i32>().ok().filter(|&size| size > 0);
            let size = size.ok_or_else(|| ("no size in bytes".to_string(), "write a whole number from 1"))?;
            EventKind::Message { id: id.into(), from: host(from, hosts)?, to: host(to, hosts)?, size }
        }
        _ => {
            let hint = "covered are `TIME CONN HOST HOST up|down` and `TIME C MESSAGE FROM TO SIZE`";
            return Err((format!("`{line}` is not covered"), hint));
        }
    };
    Ok(Event { time, what })
}

/// Parses a host number, which letters may precede.
fn host(word: &str, hosts: u32) -> Result<u32, Wrong> {
    let digits = word.trim_start_matches(|c: char| c.is_alphabetic());
    let number = digits.parse::<u32>().ok().filter(|&number| number < hosts);
    number.ok_or_else(|| (format!("`{word}` is no host of this run"), "write a number of a host, from 0"))
}

/// Message generator with its random numbers and the time of its next message.
struct Drawing {
    settings: Generator,
    random: Random,
    next: f64,
    made: u64,
}

impl Drawing {
    fn new(settings: &Generator) -> Drawing {
        // The ONE seeds a generator with the hash of its prefix, so equal prefixes draw equal sequences.
        let mut random = Random::new(string_hash(&settings.prefix).into());
        let begin = settings.time.map_or(0.0, |[begin, _]| begin);
        let next = begin + f64::from(draw(&mut random, settings.interval));
        Drawing { settings: settings.clone(), random, next, made: 0 }
    }
    fn event(&mut self) -> Event {
        let from = draw(&mut self.random, self.settings.from);
        let mut to = draw(&mut self.random, self.settings.to);
        // Redrawn until it differs, as in The ONE: this consumes random numbers and so changes later draws.
        while to == from {
            to = draw(&mut self.random, self.settings.to);
        }
        let size = draw(&mut self.random, self.settings.size);
        let interval = draw(&mut self.random, self.settings.interval);
        self.made += 1;
        let id = format!("{}{}", self.settings.prefix, self.made);
        let event = Event { time: self.next, what: EventKind::Message { id, from: from as u32, to: to as u32, size } };
        self.next += f64::from(interval);
        if self.settings.time.is_some_and(|[_, end]| self.next > end) {
            self.next = f64::INFINITY;
        }
        event
    }
}

/// Draws from `first` up to but not including `end`; if both are equal, returns `first` and draws nothing.
fn draw(random: &mut Random, [first, end]: [i32; 2]) -> i32 {
    first + random.below(end - first)
}

enum Queue {
    Drawing(Box<Drawing>),
    File(std::iter::Peekable<std::vec::IntoIter<Event>>),
}

/// Event sources of a run; at equal times the event of the source listed first comes first.
pub struct Queues(Vec<Queue>);

impl Queues {
    /// Starts all sources from their beginning.
    pub fn new(sources: &[Source]) -> Queues {
        let queue = |source: &Source| match source {
            Source::Generator(settings) => Queue::Drawing(Box::new(Drawing::new(settings))),
            Source::File(events) => Queue::File(events.clone().into_iter().peekable()),
        };
        Queues(sources.iter().map(queue).collect())
    }
    /// The next event, if it is not later than `until`.
    pub fn next(&mut self, until: f64) -> Option<Event> {
        // Strict comparison below keeps the source order at equal times.
        let mut first = (f64::INFINITY, 0);
        for (place, queue) in self.0.iter_mut().enumerate() {
            let time = match queue {
                Queue::Drawing(drawing) => drawing.next,
                Queue::File(events) => events.peek().map_or(f64::INFINITY, |event| event.time),
            };
            if time < first.0 {
                first = (time, place);
            }
        }
        if first.0 > until {
            return None;
        }
        match self.0.get_mut(first.1)? {
            Queue::Drawing(drawing) => Some(drawing.event()),
            Queue::File(events) => events.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator() -> Generator {
        let prefix = "A".to_string();
        Generator { interval: [20, 60], size: [50_000, 100_000], from: [0, 12], to: [0, 12], prefix, time: None }
    }
    fn times(queues: &mut Queues, until: f64) -> Vec<f64> {
        std::iter::from_fn(|| queues.next(until)).map(|event| event.time).collect()
    }

    #[test]
    fn generator_matches_known_log() {
        let mut queues = Queues::new(&[Source::Generator(generator())]);
        // 40.0 C n7 A1, 63.0 C n11 A2, 109.0 C n8 A3, 166.0 C n3 A4 in the log of The ONE.
        let made: Vec<(f64, String, u32)> = std::iter::from_fn(|| queues.next(170.0))
            .map(|event| match event.what {
                EventKind::Message { id, from, .. } => (event.time, id, from),
                EventKind::Contact { .. } => (event.time, String::new(), 0),
            })
            .collect();
        let known = [(40.0, "A1", 7), (63.0, "A2", 11), (109.0, "A3", 8), (166.0, "A4", 3)];
        assert_eq!(made, known.map(|(time, id, from)| (time, id.to_string(), from)));
    }

    #[test]
    fn window_bounds_generator() {
        let mut queues = Queues::new(&[Source::Generator(Generator { time: Some([1000.0, 1200.0]), ..generator() })]);
        let drawn = times(&mut queues, 5000.0);
        assert!(drawn.len() > 3 && drawn[0] == 1040.0 && drawn.iter().all(|time| *time <= 1200.0), "{drawn:?}");
    }

    #[test]
    fn equal_times_keep_source_order() {
        let file = |text: &str| Source::File(read(Path::new("x"), text, 5).expect("it can be read"));
        let mut queues =
            Queues::new(&[file("5 C M1 0 1 10\n9 CONN 0 n1 down"), file("4 CONN 0 1 up\n5 C M2 a0 1 10 0")]);
        assert_eq!(times(&mut queues, 4.5), [4.0]);
        let names: Vec<String> =
            std::iter::from_fn(|| queues.next(100.0)).map(|event| format!("{:?}", event.what)).collect();
        assert!(names[0].contains("M1") && names[1].contains("M2") && names[2].contains("up: false"), "{names:?}");
    }

    #[test]
    fn unsupported_lines_are_reported() {
        for (line, told) in [
            ("x CONN 0 1 up", "no time"),
            ("-1 CONN 0 1 up", "no time"),
            ("1", "not covered"),
            ("1 CONN 0 1 up wifi", "not covered"),
            ("1 CONN 0 9 up", "no host"),
            ("1 CONN x 1 up", "no host"),
            ("1 S M1 0 1", "not covered"),
            ("1 C M1 0 1 0", "no size"),
            ("1 C M1 0 1 99999999999", "no size"),
            ("1 C M1 0 1 5 7", "not covered"),
        ] {
            let text = format!("# talk\n\n{line}\n");
            let mistake = read(Path::new("events.txt"), &text, 5).expect_err(line);
            assert!(mistake.to_string().starts_with("events.txt:3: ") && mistake.what.contains(told), "{mistake}");
        }
        assert!(read(Path::new("x"), "2 CONN 0 1 up\n1 CONN 0 1 down", 5).expect_err("back").what.contains("earlier"));
    }
}
