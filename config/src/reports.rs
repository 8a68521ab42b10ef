//! Compressed reporting (CCSDS 734.6-O-1), which node files and scenarios give alike.

use crate::custody::{PATTERNS, patterns, terms};
use crate::keys::{Fallback::Absent, Key, key};
use crate::reader::Reader;
use farlink_base::{REPORT_TERMS, ReportTerms};

/// The keys of the rules; those of the terms follow.
pub const RULES: &[Key] = &[
    key("to", PATTERNS, Absent, "Who may be told; without it, whoever a bundle names."),
    key(
        "request",
        PATTERNS,
        Absent,
        "Destinations for which bundles made here that ask for status reports ask for these instead; without it, none.",
    ),
];

/// Who is told of many bundles at once, and when.
#[derive(Clone, PartialEq, Debug)]
pub struct Reports {
    /// Patterns of those who may be told.
    pub to: Vec<String>,
    /// Patterns of the destinations of bundles made here that ask for them.
    pub request: Vec<String>,
    /// How they are made.
    pub terms: ReportTerms,
}

/// Reads the rules.
pub fn reports(reader: &Reader<'_>) -> Reports {
    Reports {
        to: patterns(reader, "to").unwrap_or_else(|| vec!["*".into()]),
        request: patterns(reader, "request").unwrap_or_default(),
        terms: terms(reader, REPORT_TERMS),
    }
}
