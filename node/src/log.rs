//! Structured logs on stderr, with a level that can change while the node runs.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

/// Changes the log level.
#[derive(Clone)]
pub struct LogLevel(reload::Handle<LevelFilter, Registry>);

impl LogLevel {
    /// Starts logging; a second call in one process only gives a handle that changes nothing.
    pub fn init(level: &str, json: bool) -> LogLevel {
        let (filter, handle) = reload::Layer::new(filter(level).unwrap_or(LevelFilter::INFO));
        let registry = tracing_subscriber::registry().with(filter);
        let _ = if json {
            registry.with(fmt::layer().json().with_writer(std::io::stderr)).try_init()
        } else {
            registry.with(fmt::layer().with_ansi(false).with_writer(std::io::stderr)).try_init()
        };
        LogLevel(handle)
    }
    /// The level now.
    pub fn get(&self) -> String {
        self.0.with_current(|level| level.to_string().to_lowercase()).unwrap_or_default()
    }
    /// Sets the level.
    ///
    /// # Errors
    /// When the word is no level.
    pub fn set(&self, level: &str) -> Result<(), String> {
        let filter = filter(level)
            .ok_or_else(|| format!("`{level}` is not a log level\nhint: error, warn, info, debug or trace"))?;
        self.0.modify(|current| *current = filter).map_err(|why| why.to_string())
    }
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
