//! Plain settings of a node, common to node files and scenarios. The rows of [`farlink_base::node`] define keys and
//! values.

use crate::keys::{Fallback, Key, Kind, key};
use crate::reader::Reader;
use farlink_base::node::{Given, params_of};
use farlink_base::{NodeParam, NodeSettings};

/// Declares the key of a row. Use it only for tables that are built once: the text of the default is leaked.
pub fn row_key(row: &NodeParam) -> Key {
    let setting = row.setting();
    let default = row.default().map_or(Fallback::Absent, |value| Fallback::Is(setting.text(value).leak()));
    key(setting.name, Kind::Setting(setting), default, row.help)
}

/// Declares the keys of one table of a node file, one for each setting ([`NodeParam`]) in it; the empty name stands for
/// the settings outside any table.
pub fn row_keys(table: &str) -> Vec<Key> {
    params_of(table).map(row_key).collect()
}

/// Keys by which a file has the settings of one table: those of a reader, each with a prefix.
pub struct RowsAt<'r, 'a> {
    /// Name of the table in node files; empty for the top.
    pub table: &'static str,
    /// Prefix of each key in this file, such as `store_`; often empty.
    pub prefix: &'static str,
    /// Reader of the table that has the keys.
    pub reader: &'r Reader<'a>,
}
impl RowsAt<'_, '_> {
    fn key(&self, row: &NodeParam) -> String {
        format!("{}{}", self.prefix, row.name())
    }
}

/// Rewrites a hint: replaces paths of rows in backquotes by the keys that this file has for them.
fn spelled(hint: &str, places: &[RowsAt<'_, '_>]) -> String {
    let key = |path: &str| {
        let row = NodeParam::named(path)?;
        let place = places.iter().find(|at| at.table == row.table())?;
        // A prefix stands for the table: `store_capacity` in scenarios, `store.capacity` in node files.
        Some(if place.prefix.is_empty() { row.path.to_string() } else { place.key(row) })
    };
    let parts = hint.split('`').enumerate();
    let spelled = |(at, part): (usize, &str)| match at % 2 {
        1 => format!("`{}`", key(part).unwrap_or_else(|| part.into())),
        _ => part.into(),
    };
    parts.map(spelled).collect()
}

/// Reads the settings of a node, and reports contradictions. Settings that the file lacks keep their value in `usual`.
/// Returns all settings, and those that the file has.
pub fn node_settings(places: &[RowsAt<'_, '_>], usual: NodeSettings) -> (NodeSettings, Given) {
    let mut given = Given::new();
    for place in places {
        given.extend(params_of(place.table).filter_map(|row| Some((row.path, place.reader.setting(&place.key(row))?))));
    }
    let mut settings = usual;
    settings.apply(&given);
    for (path, what, hint) in settings.contradictions(|path| given.iter().any(|(known, _)| *known == path)) {
        let place =
            NodeParam::named(path).and_then(|row| Some((row, places.iter().find(|at| at.table == row.table())?)));
        if let Some((row, place)) = place {
            place.reader.fail(&place.key(row), what, spelled(hint, places));
        }
    }
    (settings, given)
}
