//! Rules of custody, which node files and scenarios give alike.

use crate::input::Input;
use crate::keys::{Fallback, Key, Kind, key, other};
use crate::reader::Reader;
use farlink_base::{CUSTODY_TERMS, CustodyTerms, DataVolume, EndpointId, LayerParam, apply_settings};

use Fallback::Absent;

/// A list of patterns of endpoint IDs.
pub const PATTERNS: Kind = other("patterns", "[\"ipn:2.*\"]");

/// The keys of the rules; those of the terms follow.
pub const RULES: &[Key] = &[
    key(
        "from",
        PATTERNS,
        Absent,
        "Neighbours it is taken from and who are answered, by their node IDs; without it, all whose name is sure.",
    ),
    key("to", PATTERNS, Absent, "Destinations of bundles it is taken of; without it, all."),
    key("capacity", Kind::Volume, Absent, "Most bytes in custody; without it, half of the store's."),
];
/// For which of its own bundles a node asks for custody, where a file says so in such words.
pub const REQUEST: Key = key(
    "request",
    PATTERNS,
    Absent,
    "Destinations for which bundles made here ask for it; without it, none. Needs a durable store.",
);

/// What custody is taken of, and how it is signalled.
#[derive(Clone, PartialEq, Debug)]
pub struct Custody {
    /// Patterns of the neighbours it is taken from.
    pub from: Vec<String>,
    /// Patterns of the destinations of what it is taken of.
    pub to: Vec<String>,
    /// Most bytes; `None`: half of the store's.
    pub capacity: Option<DataVolume>,
    /// How it is signalled.
    pub terms: CustodyTerms,
}

/// Reads the rules.
pub fn custody(reader: &Reader<'_>) -> Custody {
    let all = || vec!["*".to_string()];
    Custody {
        from: patterns(reader, "from").unwrap_or_else(all),
        to: patterns(reader, "to").unwrap_or_else(all),
        capacity: reader.volume("capacity"),
        terms: terms(reader, CUSTODY_TERMS),
    }
}

/// The terms that a reader gives, by the rows of their table.
pub fn terms<T: Default>(reader: &Reader<'_>, rows: &[LayerParam<T>]) -> T {
    let mut terms = T::default();
    apply_settings(rows, &mut terms, &reader.settings());
    terms
}

/// Patterns of endpoints; `None` where none are given.
pub fn patterns(reader: &Reader<'_>, key: &str) -> Option<Vec<String>> {
    reader.custom(key, |input: Input<'_, '_>| {
        let texts = input.texts()?;
        match texts.iter().find(|text| !EndpointId::is_pattern(text)) {
            Some(text) => Err(format!("`{text}` matches no endpoint: write `ipn:5.*`, `dtn://node/` or `*`")),
            None => Ok(texts),
        }
    })
}
