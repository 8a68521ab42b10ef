//! Compressed reporting (CCSDS 734.6-O-1), shared by node files and scenarios.

use crate::custody::{PATTERNS, patterns, terms};
use crate::keys::{Fallback::Absent, Key, key};
use crate::reader::Reader;
use farlink_base::{REPORT_TERMS, ReportTerms};

/// Keys of the rules; those of the terms follow.
pub const RULES: &[Key] = &[
    key("to", PATTERNS, Absent, "Endpoint IDs that reports may be sent to; default: any report-to endpoint ID."),
    key(
        "request",
        PATTERNS,
        Absent,
        "Destinations for which bundles created here request compressed reports instead of status reports; default: none.",
    ),
];

/// Rules of compressed reporting.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportRules {
    /// Endpoint ID patterns that reports may be sent to.
    pub to: Vec<String>,
    /// Destination patterns of the bundles created here that request compressed reports.
    pub request: Vec<String>,
    /// Time and number of bundles after which reports are sent.
    pub terms: ReportTerms,
}

/// Reads the rules of compressed reporting.
pub fn reports(reader: &Reader<'_>) -> ReportRules {
    ReportRules {
        to: patterns(reader, "to").unwrap_or_else(|| vec!["*".into()]),
        request: patterns(reader, "request").unwrap_or_default(),
        terms: terms(reader, REPORT_TERMS),
    }
}
