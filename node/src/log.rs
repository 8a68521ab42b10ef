//! Structured logs on stderr, with a level that can change while the node runs.

use farlink_base::LogFormat;
use farlink_base::node::LogSettings;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::time::{Duration, Instant};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

/// Handle that changes the log level.
#[derive(Clone)]
pub struct LogLevel(reload::Handle<LevelFilter, Registry>);

impl LogLevel {
    /// Starts logging; a second call in one process returns a handle without effect.
    pub fn init(log: &LogSettings) -> LogLevel {
        let (filter, handle) = reload::Layer::new(filter(log.level.word()).unwrap_or(LevelFilter::INFO));
        let registry = tracing_subscriber::registry().with(filter);
        let _ = if log.format == LogFormat::Json {
            registry.with(fmt::layer().json().with_writer(std::io::stderr)).try_init()
        } else {
            registry.with(fmt::layer().with_ansi(false).with_writer(std::io::stderr)).try_init()
        };
        LogLevel(handle)
    }
    /// Current level.
    pub fn get(&self) -> String {
        self.0.with_current(|level| level.to_string().to_lowercase()).unwrap_or_default()
    }
    /// Sets the level.
    ///
    /// # Errors
    /// If the word is not a level.
    pub fn set(&self, level: &str) -> Result<(), String> {
        let filter = filter(level)
            .ok_or_else(|| format!("`{level}` is not a log level\nhint: error, warn, info, debug or trace"))?;
        self.0.modify(|current| *current = filter).map_err(|why| why.to_string())
    }
}

/// Interval in which a message is not repeated.
const QUIET: Duration = Duration::from_secs(60);
/// Most messages remembered; while that many were logged within the interval, other messages are dropped.
const SAID_MAX: usize = 1000;

/// Limits each message to one a minute, with the number of repetitions, so that a flood of errors does not fill the
/// disk.
#[derive(Debug)]
pub struct Repeats<K> {
    said: HashMap<K, (Instant, u64)>,
}
impl<K> Default for Repeats<K> {
    fn default() -> Self {
        Repeats { said: HashMap::new() }
    }
}
impl<K: Eq + Hash> Repeats<K> {
    /// Returns `None` if `what` must not be logged now, else how often it was suppressed since it was last logged.
    pub fn say(&mut self, what: K, now: Instant) -> Option<u64> {
        if self.said.len() >= SAID_MAX && !self.said.contains_key(&what) {
            self.said.retain(|_, (at, _)| now.duration_since(*at) < QUIET);
            if self.said.len() >= SAID_MAX {
                return None;
            }
        }
        match self.said.entry(what) {
            Entry::Vacant(entry) => {
                entry.insert((now, 0));
                Some(0)
            }
            Entry::Occupied(mut entry) => {
                let (at, times) = entry.get_mut();
                if now.duration_since(*at) < QUIET {
                    *times += 1;
                    return None;
                }
                *at = now;
                Some(std::mem::take(times))
            }
        }
    }
}

/// Greatest number of log lines a minute about events that any peer can cause, each time under another name.
const CROWD: u64 = 20;

/// Limits messages of one kind to twenty a minute, and counts those suppressed.
#[derive(Default, Debug)]
pub struct Crowd {
    since: Option<Instant>,
    said: u64,
    unsaid: u64,
}
impl Crowd {
    /// Returns `None` if another message must not be logged now, else how many were suppressed since the last one.
    pub fn say(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= QUIET) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said >= CROWD {
            self.unsaid += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// End of a log line: how often the event was suppressed; empty if never.
pub fn more(times: u64) -> String {
    if times == 0 { String::new() } else { format!(" (and {times} times more since it was said last)") }
}

fn filter(level: &str) -> Option<LevelFilter> {
    match level {
        "error" => Some(LevelFilter::ERROR),
        "warn" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        "trace" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowd_is_logged_once_with_count() {
        let (mut crowd, now) = (Crowd::default(), Instant::now());
        let said = (0..1000).filter(|_| crowd.say(now) == Some(0)).count();
        assert_eq!(said as u64, CROWD);
        assert_eq!(crowd.say(now + QUIET), Some(1000 - CROWD), "the next minute begins with how many there were");
        assert_eq!(crowd.say(now + QUIET), Some(0));
    }

    #[test]
    fn message_repeats_once_a_minute_with_count() {
        let mut repeats = Repeats::default();
        let now = Instant::now();
        assert_eq!(repeats.say("a", now), Some(0));
        assert!((0..500).all(|ms| repeats.say("a", now + Duration::from_millis(ms)).is_none()));
        assert_eq!(repeats.say("b", now), Some(0));
        let later = now + QUIET;
        assert_eq!((repeats.say("a", later), repeats.say("a", later)), (Some(500), None));
        let mut many = Repeats::default();
        assert_eq!((0..5000).filter(|n| many.say(*n, now).is_some()).count(), SAID_MAX);
        assert_eq!(many.said.len(), SAID_MAX);
        assert_eq!(many.say(4999, later), Some(0));
    }
}
