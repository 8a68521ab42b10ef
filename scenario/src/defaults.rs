//! Tables of defaults: `[node_defaults]` and `[link_defaults]`.

use farlink_config::{Reader, Section};
use toml::de::DeTable;

/// Checks the keys of the table of defaults at `key` and returns its path and content; `None` without such a table.
pub fn defaults<'a>(top: &Reader<'a>, key: &str, sections: &[&'static Section]) -> Option<(String, &'a DeTable<'a>)> {
    let (path, table) = top.raw_table(key)?;
    Reader::check_keys(top.errors, &path, table, sections);
    Some((path, table))
}
