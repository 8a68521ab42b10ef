//! Quotas of the store, shared by node files and scenarios.

use crate::custody::{PATTERNS, patterns};
use crate::keys::{Fallback::Absent, Key, Kind, key};
use crate::reader::Reader;
use farlink_base::DataVolume;

/// Keys of a quota.
pub const QUOTA: &[Key] = &[
    key("sources", PATTERNS, Absent, "Node IDs of the sources that share the quota."),
    key("neighbours", PATTERNS, Absent, "Node IDs of the neighbours that share the quota."),
    key("bytes", Kind::Volume, Absent, "Most bytes; default: no limit."),
    key("bundles", Kind::Count(1, u64::MAX), Absent, "Most bundles; default: no limit."),
    key("share", Kind::Count(1, 100), Absent, "Most bytes, as a percentage of the store's capacity."),
];

/// Part of a store that bundles of some sources, or from some neighbours, may fill together.
#[derive(Clone, PartialEq, Debug)]
pub struct Quota {
    /// Patterns of the sources' node IDs; empty if there are neighbours.
    pub sources: Vec<String>,
    /// Patterns of the neighbours' node IDs; empty if there are sources.
    pub neighbours: Vec<String>,
    /// Maximum bytes; `None` for no limit.
    pub bytes: Option<DataVolume>,
    /// Maximum number of bundles; `None` for no limit.
    pub bundles: Option<u64>,
    /// Maximum bytes, as a percentage of the store's capacity; `None` for no limit.
    pub share: Option<u64>,
}

impl Quota {
    /// Maximum bytes in a store of this capacity, the lesser of `bytes` and `share`.
    pub fn bytes_of(&self, capacity: DataVolume) -> u64 {
        // Divides first, so that nothing overflows.
        let share = self.share.map_or(u64::MAX, |percent| capacity.bytes() / 100 * percent);
        self.bytes.map_or(u64::MAX, DataVolume::bytes).min(share)
    }
}

/// Reads one quota and reports contradictions.
pub fn quota(reader: &Reader<'_>) -> Quota {
    let [sources, neighbours] = ["sources", "neighbours"].map(|key| {
        let named = patterns(reader, key);
        if named.as_ref().is_some_and(Vec::is_empty) {
            reader.fail(key, "names nobody", "write e.g. [\"ipn:2.*\"], or \"*\" for everybody");
        }
        // A pattern that cannot be read was reported already.
        named.unwrap_or_default()
    });
    let about = ["sources", "neighbours"].map(|key| reader.given(key));
    if about == [false; 2] {
        reader.fail("sources", "missing: a quota is about somebody", "add sources = [\"ipn:2.*\"], or neighbours");
    }
    // One quota with both keys would be ambiguous. With two quotas, a bundle counts to that of its source and also to
    // that of its neighbour.
    if about == [true; 2] {
        reader.fail("neighbours", "a bundle counts once: by its source or by who gave it", "write two `[[quota]]`");
    }
    let bounded = ["bytes", "bundles", "share"].iter().any(|key| reader.given(key));
    if !bounded {
        reader.fail("bytes", "missing: a quota has a bound", "add bytes, bundles or share");
    }
    Quota {
        sources,
        neighbours,
        bytes: reader.volume("bytes"),
        bundles: reader.count("bundles"),
        share: reader.count("share"),
    }
}
