//! Tables of what holds for all of a kind.

use farlink_config::{Reader, Section};
use toml::de::DeTable;

/// A table of `<what>_defaults`, with its keys checked.
pub fn defaults<'a>(top: &Reader<'a>, key: &str, sections: &[&'static Section]) -> Option<(String, &'a DeTable<'a>)> {
    let (path, table) = top.raw_table(key)?;
    Reader::check_keys(top.errors, &path, table, sections);
    Some((path, table))
}
