//! Compressed reporting (CCSDS 734.6-O-1), which node files and scenarios give alike.

use crate::custody::{PATTERNS, patterns};
use crate::keys::{Fallback, Key, Kind, key};
use crate::reader::Reader;
use farlink_base::Duration;

use Fallback::{Absent, Is};

/// The keys of the rules.
pub const RULES: &[Key] = &[
    key("to", PATTERNS, Absent, "Who may be told; without it, whoever a bundle names."),
    key(
        "request",
        PATTERNS,
        Absent,
        "Destinations for which bundles made here that ask for status reports ask for these instead; without it, none.",
    ),
    key("delay", Kind::Duration, Is("10 s"), "How long reports gather."),
    key("bundles", Kind::Count(1, 100_000), Is("1000"), "Bundles after which they leave at once."),
];

/// Who is told of many bundles at once, and when.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportRules {
    /// Patterns of those who may be told.
    pub to: Vec<String>,
    /// Patterns of the destinations of bundles made here that ask for them.
    pub request: Vec<String>,
    /// How long reports gather.
    pub delay: Duration,
    /// After how many bundles they leave at once.
    pub bundles: u64,
}

/// Reads the rules.
pub fn reports(reader: &Reader<'_>) -> ReportRules {
    ReportRules {
        to: patterns(reader, "to").unwrap_or_else(|| vec!["*".into()]),
        request: patterns(reader, "request").unwrap_or_default(),
        delay: reader.duration("delay").unwrap_or_default(),
        bundles: reader.count("bundles").unwrap_or(1),
    }
}
