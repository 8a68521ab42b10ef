//! Rules of custody, shared by node files and scenarios.

use crate::input::Input;
use crate::keys::{Fallback, Key, Kind, key, other};
use crate::reader::Reader;
use farlink_base::{DataVolume, Duration, EndpointId};

use Fallback::{Absent, Is};

/// Kind of value: a list of endpoint ID patterns.
pub const PATTERNS: Kind = other("patterns", "[\"ipn:2.*\"]");

/// Keys of the rules.
pub const RULES: &[Key] = &[
    key(
        "from",
        PATTERNS,
        Absent,
        "Neighbours from which custody is accepted, and to which signals are sent, by node ID; default: all that are configured or authenticated.",
    ),
    key("to", PATTERNS, Absent, "Destinations of the bundles for which custody is accepted; default: all."),
    key("capacity", Kind::Volume, Absent, "Most bytes in custody; default: half of the store's capacity."),
    key("timeout_max", Kind::Duration, Is("1 h"), "Longest retransmission timeout, which doubles with each attempt."),
    key(
        "aggregate",
        Kind::Flag,
        Is("true"),
        "Whether BPv6 bundles carry custody IDs for aggregate custody signals (CCSDS 734.2-B-1).",
    ),
    key("signal_delay", Kind::Duration, Is("1 s"), "Time for which such signals are collected."),
    key(
        "signal_bundles",
        Kind::Count(1, 100_000),
        Is("1000"),
        "Number of bundles after which a signal is sent at once.",
    ),
];
/// Key for the destinations for which a node requests custody.
pub const REQUEST: Key = key(
    "request",
    PATTERNS,
    Absent,
    "Destinations for which bundles created here request custody; default: none. Needs a durable store.",
);

/// Rules of accepting and signalling custody.
#[derive(Clone, PartialEq, Debug)]
pub struct CustodyRules {
    /// Node ID patterns of the neighbours from which custody is accepted.
    pub from: Vec<String>,
    /// Destination patterns of the bundles for which custody is accepted.
    pub to: Vec<String>,
    /// Most bytes in custody; `None`: half of the store's capacity.
    pub capacity: Option<DataVolume>,
    /// Longest retransmission timeout.
    pub timeout_max: Duration,
    /// Whether BPv6 bundles carry custody IDs.
    pub aggregate: bool,
    /// Time for which signals are collected.
    pub signal_delay: Duration,
    /// Number of bundles after which a signal is sent at once.
    pub signal_bundles: u64,
}

/// Reads the rules of custody.
pub fn custody(reader: &Reader<'_>) -> CustodyRules {
    // Absent patterns match everything; an empty list matches nothing.
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

/// Reads endpoint ID patterns; `None` if the key is absent.
pub fn patterns(reader: &Reader<'_>, key: &str) -> Option<Vec<String>> {
    reader.custom(key, |input: Input<'_, '_>| {
        let texts = input.texts()?;
        match texts.iter().find(|text| !EndpointId::is_pattern(text)) {
            Some(text) => Err(format!("`{text}` matches no endpoint: write `ipn:5.*`, `dtn://node/` or `*`")),
            None => Ok(texts),
        }
    })
}
