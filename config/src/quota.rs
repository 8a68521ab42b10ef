//! Quotas of the store, which node files and scenarios give alike.

use crate::custody::{PATTERNS, patterns};
use crate::keys::{Fallback::Absent, Key, Kind, key};
use crate::reader::Reader;
use farlink_base::DataVolume;

/// The keys of a quota.
pub const QUOTA: &[Key] = &[
    key("sources", PATTERNS, Absent, "Node IDs of sources that share it."),
    key("neighbours", PATTERNS, Absent, "Node IDs of neighbours that share it."),
    key("bytes", Kind::Volume, Absent, "Most bytes; without it, as many as fit."),
    key("bundles", Kind::Count(1, u64::MAX), Absent, "Most bundles; without it, as many as fit."),
    key("share", Kind::Count(1, 100), Absent, "Most bytes, in percent of the store's capacity."),
];

/// What some sources, or what some neighbours give, may fill of a store.
#[derive(Clone, PartialEq, Debug)]
pub struct Quota {
    /// Patterns of the node IDs of sources.
    pub sources: Vec<String>,
    /// Patterns of the node IDs of neighbours; none where there are sources.
    pub neighbours: Vec<String>,
    /// Most bytes.
    pub bytes: Option<DataVolume>,
    /// Most bundles.
    pub bundles: Option<u64>,
    /// Most bytes, in percent of the store's capacity.
    pub share: Option<u64>,
}

impl Quota {
    /// Most bytes, of a store with this capacity.
    pub fn bytes_of(&self, capacity: DataVolume) -> u64 {
        let share = self.share.map_or(u64::MAX, |percent| capacity.bytes() / 100 * percent);
        self.bytes.map_or(u64::MAX, DataVolume::bytes).min(share)
    }
}

/// Reads one quota and says what contradicts itself in it.
pub fn quota(reader: &Reader<'_>) -> Quota {
    let [sources, neighbours] = ["sources", "neighbours"].map(|key| {
        let named = patterns(reader, key);
        if named.as_ref().is_some_and(Vec::is_empty) {
            reader.fail(key, "names nobody", "write e.g. [\"ipn:2.*\"], or \"*\" for everybody");
        }
        // What cannot be read is told already.
        named.unwrap_or_default()
    });
    let about = ["sources", "neighbours"].map(|key| reader.given(key));
    if about == [false; 2] {
        reader.fail("sources", "missing: a quota is about somebody", "add sources = [\"ipn:2.*\"], or neighbours");
    }
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
