//! Rules of custody, which node files and scenarios give alike.

use crate::input::Input;
use crate::keys::{Fallback, Key, Kind, key, other};
use crate::reader::Reader;
use farlink_base::{DataVolume, Duration, EndpointId};

use Fallback::{Absent, Is};

/// A list of patterns of endpoint IDs.
pub const PATTERNS: Kind = other("patterns", "[\"ipn:2.*\"]");

/// The keys of the rules.
pub const RULES: &[Key] = &[
    key(
        "from",
        PATTERNS,
        Absent,
        "Neighbours it is taken from and who are answered, by their node IDs; without it, all whose name is sure.",
    ),
    key("to", PATTERNS, Absent, "Destinations of bundles it is taken of; without it, all."),
    key("capacity", Kind::Volume, Absent, "Most bytes in custody; without it, half of the store's."),
    key("timeout_max", Kind::Duration, Is("1 h"), "The longest that a timeout becomes as it doubles."),
    key(
        "aggregate",
        Kind::Flag,
        Is("true"),
        "Whether bundles of version 6 carry numbers, so that one signal is about many (CCSDS 734.2-B-1).",
    ),
    key("signal_delay", Kind::Duration, Is("1 s"), "How long such signals gather."),
    key("signal_bundles", Kind::Count(1, 100_000), Is("1000"), "Bundles after which one leaves at once."),
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
pub struct CustodyRules {
    /// Patterns of the neighbours it is taken from.
    pub from: Vec<String>,
    /// Patterns of the destinations of what it is taken of.
    pub to: Vec<String>,
    /// Most bytes; `None`: half of the store's.
    pub capacity: Option<DataVolume>,
    /// The longest wait for a signal.
    pub timeout_max: Duration,
    /// Whether bundles of version 6 carry numbers.
    pub aggregate: bool,
    /// How long signals gather.
    pub signal_delay: Duration,
    /// After how many bundles they leave at once.
    pub signal_bundles: u64,
}

/// Reads the rules.
pub fn custody(reader: &Reader<'_>) -> CustodyRules {
    let all = || vec!["*".to_string()];
    CustodyRules {
        from: patterns(reader, "from").unwrap_or_else(all),
        to: patterns(reader, "to").unwrap_or_else(all),
        capacity: reader.volume("capacity"),
        timeout_max: reader.duration("timeout_max").unwrap_or_default(),
        aggregate: reader.flag("aggregate").unwrap_or_default(),
        signal_delay: reader.duration("signal_delay").unwrap_or_default(),
        signal_bundles: reader.count("signal_bundles").unwrap_or(1),
    }
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
