//! Compressed reporting (CCSDS 734.6-O-1), shared by node files and scenarios.

use crate::custody::{PATTERNS, patterns};
use crate::keys::{Fallback, Key, Kind, key};
use crate::reader::Reader;
use farlink_base::Duration;

use Fallback::{Absent, Is};

/// Keys of the rules.
pub const RULES: &[Key] = &[
    key("to", PATTERNS, Absent, "Endpoint IDs that reports may be sent to; default: any report-to endpoint ID."),
    key(
        "request",
        PATTERNS,
        Absent,
        "Destinations for which bundles created here request compressed reports instead of status reports; default: none.",
    ),
    key("delay", Kind::Duration, Is("10 s"), "Time for which reports are collected."),
    key("bundles", Kind::Count(1, 100_000), Is("1000"), "Number of bundles after which reports are sent at once."),
];

/// Rules of compressed reporting.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportRules {
    /// Endpoint ID patterns that reports may be sent to.
    pub to: Vec<String>,
    /// Destination patterns of the bundles created here that request compressed reports.
    pub request: Vec<String>,
    /// Time for which reports are collected.
    pub delay: Duration,
    /// Number of bundles after which reports are sent at once.
    pub bundles: u64,
}

/// Reads the rules of compressed reporting.
pub fn reports(reader: &Reader<'_>) -> ReportRules {
    ReportRules {
        to: patterns(reader, "to").unwrap_or_else(|| vec!["*".into()]),
        request: patterns(reader, "request").unwrap_or_default(),
        delay: reader.duration("delay").unwrap_or_default(),
        bundles: reader.count("bundles").unwrap_or(1),
    }
}
