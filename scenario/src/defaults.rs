//! Tables of defaults: `[node_defaults]` and `[link_defaults]`.

use farlink_config::{Reader, Section};
use toml::de::DeTable;

/// Path and table of the defaults at this key, once the table's keys are checked; `None` without such a table.
pub fn defaults<'a>(top: &Reader<'a>, key: &str, sections: &[&'static Section]) -> Option<(String, &'a DeTable<'a>)> {
    let (path, table) = top.raw_table(key)?;
    Reader::check_keys(top.errors, &path, table, sections);
    Some((path, table))
}
