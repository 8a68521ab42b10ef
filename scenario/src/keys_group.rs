//! Keys of a group: its own, and those of its nodes.

use crate::keys::NODE;
use farlink_config::Fallback::Required;
use farlink_config::Kind::Count;
use farlink_config::{Key, Kind, Section, key};
use std::sync::LazyLock;

/// Keys of `[[group]]`.
pub static GROUP: LazyLock<Section> = LazyLock::new(|| {
    // Names and IDs are made for each member, and a position would be the same for all.
    let own = GROUP_KEYS.iter().chain(NODE.keys.iter().filter(|key| !matches!(key.name, "name" | "id" | "position")));
    Section {
        name: "group",
        help: "Nodes that differ in nothing but their names and IDs: `[[group]]` for each, with the keys of a node. [[traffic]] may go from and to a group.",
        keys: own.copied().collect::<Vec<_>>().leak(),
    }
});

const GROUP_KEYS: &[Key] = &[
    key("name", Kind::Name, Required, "Its name; its nodes are called so, with their numbers from 1."),
    key("count", Count(1, 100_000), Required, "How many nodes."),
    key("first_id", Count(1, 1 << 40), Required, "Number of its first node: `ipn:NUMBER.0`; the others follow."),
];
