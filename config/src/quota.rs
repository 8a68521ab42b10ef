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

/// Part of a store that the bundles of some sources, or from some neighbours, may fill.
#[derive(Clone, PartialEq, Debug)]
pub struct Quota {
    /// Node ID patterns of the sources.
    pub sources: Vec<String>,
    /// Node ID patterns of the neighbours; empty if there are sources.
    pub neighbours: Vec<String>,
    /// Most bytes, if bounded.
    pub bytes: Option<DataVolume>,
    /// Most bundles, if bounded.
    pub bundles: Option<u64>,
    /// Most bytes, as a percentage of the store's capacity.
    pub share: Option<u64>,
}

impl Quota {
    /// Most bytes for a store of this capacity.
    pub fn bytes_of(&self, capacity: DataVolume) -> u64 {
        // Dividing first cannot overflow.
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
        // A pattern that cannot be read was reported.
        named.unwrap_or_default()
    });
    let about = ["sources", "neighbours"].map(|key| reader.given(key));
    if about == [false; 2] {
        reader.fail("sources", "missing: a quota is about somebody", "add sources = [\"ipn:2.*\"], or neighbours");
    }
    // One bundle may fall under a quota of its source and one of its neighbour: two tables state that clearly.
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
