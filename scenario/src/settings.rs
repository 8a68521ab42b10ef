//! Plain settings of nodes: the rows of [`farlink_base::node`] as keys of `[[node]]`, and their defaults in scenarios.
//!
//! Rows at the top of a node file have the same names here. Those of its `[store]` have the prefix `store_`, because
//! `store` is a key of scenarios; those of other tables are in tables of the same name, as `[node.limits]`.

use crate::keys::ROW_TABLES;
use crate::types::Node;
use farlink_base::node::{Given, params_of};
use farlink_base::{DataVolume, Duration, NodeParam, NodeSettings};
use farlink_config::node::{RowsAt, node_settings, row_key};
use farlink_config::{Fallback, Key, Reader};

/// Prefix of the names of rows of `[store]`.
const STORE: &str = "store_";

/// Default settings of a node in a scenario.
pub(crate) fn usual() -> NodeSettings {
    // Clocks of a simulation are exact unless a fault sets them wrong.
    let mut usual = NodeSettings { clock_error: Duration::ZERO, ..NodeSettings::default() };
    usual.store.capacity = DataVolume(1_000_000_000);
    usual.shutdown_timeout = Duration::from_secs(2);
    usual
}

/// Notes on settings whose defaults differ between scenarios and node files, by path.
const NOTES: &[(&str, &str)] = &[
    ("clock_error", "In the testbed 1 ms, unless given."),
    ("hand_over_ahead", "In the testbed 100 ms where nodes get the processor late, unless given."),
    ("seed", "In scenarios it follows from theirs, unless given."),
    ("store.strangers", "In scenarios it is all, unless given."),
];

pub(crate) fn row_keys(table: &str) -> Vec<Key> {
    // Keys live as long as the program: the sections that hold them are made once, so their texts may leak.
    let usual = usual();
    let key = |row: &'static NodeParam| {
        let key = row_key(row);
        let name = if table == "store" { format!("{STORE}{}", key.name).leak() } else { key.name };
        // The documented default is that of scenarios, where it differs from a node file's.
        let default = match (key.default, (row.get)(&usual)) {
            (Fallback::Is(_), Some(value)) => Fallback::Is(row.setting().text(value).leak()),
            (other, _) => other,
        };
        let note =
            NOTES.iter().find(|(path, _)| *path == row.path).map_or(String::new(), |(_, note)| format!(" {note}"));
        let ignored = row.unsimulated.map_or(String::new(), |why| format!(" Simulations ignore it: {why}."));
        Key { name, default, help: format!("{}{note}{ignored}", key.help).leak(), ..key }
    };
    params_of(table).map(key).collect()
}

/// Settings that a table of the scenario gives to its nodes.
pub(crate) fn given(reader: &Reader<'_>) -> Given {
    let tables: Vec<_> = ROW_TABLES.iter().map(|(table, section)| (*table, reader.overlaid(table, section))).collect();
    let tables = tables.iter().map(|(table, reader)| RowsAt { table, prefix: "", reader });
    // Rows of `[store]` stand in the table of the node itself, with a prefix; see the head of this file.
    let own = [RowsAt { table: "", prefix: "", reader }, RowsAt { table: "store", prefix: STORE, reader }];
    node_settings(&tables.chain(own).collect::<Vec<_>>(), usual()).1
}

impl Node {
    /// Settings of the node: those given, else the defaults. Defaults that depend on other settings are not computed
    /// yet.
    pub fn settings(&self) -> NodeSettings {
        let mut settings = usual();
        settings.apply(&self.given);
        settings
    }
    /// Whether the scenario sets the setting at this path, such as `store.capacity`, for the node.
    pub fn gives(&self, path: &str) -> bool {
        self.given.iter().any(|(known, _)| *known == path)
    }
}
