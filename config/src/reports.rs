//! Compressed reporting (CCSDS 734.6-O-1), shared by node files and scenarios.

use crate::custody::{PATTERNS, patterns, terms};
use crate::keys::{Fallback::Absent, Key, key};
use crate::reader::Reader;
use farlink_base::{REPORT_TERMS, ReportTerms};

/// Keys of the rules. The keys of [`REPORT_TERMS`] follow them in the table.
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
    /// Patterns of the endpoint IDs to which reports may be sent.
    pub to: Vec<String>,
    /// Patterns of the destinations for which bundles created here request compressed reports.
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
