//! Rules of custody, shared by node files and scenarios.

use crate::input::Input;
use crate::keys::{Fallback, Key, Kind, key, other};
use crate::reader::Reader;
use farlink_base::{CUSTODY_TERMS, CustodyTerms, DataVolume, EndpointId, LayerParam, apply_settings};

use Fallback::Absent;

/// Kind of a value that is a list of endpoint ID patterns.
pub const PATTERNS: Kind = other("patterns", "[\"ipn:2.*\"]");

/// Keys of the rules. The keys of [`CUSTODY_TERMS`] follow them in the table.
pub const RULES: &[Key] = &[
    key(
        "from",
        PATTERNS,
        Absent,
        "Neighbours from which custody is accepted, and to which signals are sent, by node ID; default: all that are configured or authenticated.",
    ),
    key("to", PATTERNS, Absent, "Destinations of the bundles for which custody is accepted; default: all."),
    key("capacity", Kind::Volume, Absent, "Most bytes in custody; default: half of the store's capacity."),
];
/// Key of the destinations for which a node requests custody.
pub const REQUEST: Key = key(
    "request",
    PATTERNS,
    Absent,
    "Destinations for which bundles created here request custody; default: none. Needs a durable store.",
);

/// Rules of accepting and signalling custody.
#[derive(Clone, PartialEq, Debug)]
pub struct CustodyRules {
    /// Patterns of the node IDs of the neighbours from which custody is accepted.
    pub from: Vec<String>,
    /// Patterns of the destinations of the bundles for which custody is accepted.
    pub to: Vec<String>,
    /// Maximum bytes in custody; `None` for half of the store's capacity.
    pub capacity: Option<DataVolume>,
    /// Terms of custody signalling.
    pub terms: CustodyTerms,
}

/// Reads the rules of custody.
pub fn custody(reader: &Reader<'_>) -> CustodyRules {
    // Absent patterns match everything; an empty list matches nothing.
    let all = || vec!["*".to_string()];
    CustodyRules {
        from: patterns(reader, "from").unwrap_or_else(all),
        to: patterns(reader, "to").unwrap_or_else(all),
        capacity: reader.volume("capacity"),
        terms: terms(reader, CUSTODY_TERMS),
    }
}

/// Reads the settings of a table; those that are absent have the defaults of `T`.
pub fn terms<T: Default>(reader: &Reader<'_>, rows: &[LayerParam<T>]) -> T {
    let mut terms = T::default();
    apply_settings(rows, &mut terms, &reader.settings());
    terms
}

/// Reads endpoint ID patterns; `None` if the key is absent or a pattern cannot be read, which is reported.
pub fn patterns(reader: &Reader<'_>, key: &str) -> Option<Vec<String>> {
    reader.custom(key, |input: Input<'_, '_>| {
        let texts = input.texts()?;
        match texts.iter().find(|text| !EndpointId::is_pattern(text)) {
            Some(text) => Err(format!("`{text}` matches no endpoint: write `ipn:5.*`, `dtn://node/` or `*`")),
            None => Ok(texts),
        }
    })
}
