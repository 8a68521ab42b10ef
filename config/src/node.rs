//! The plain settings of a node, which node files and scenarios give alike: keys and values by the rows of
//! [`farlink_base::node`].

use crate::keys::{Fallback, Key, Kind, key};
use crate::reader::Reader;
use farlink_base::node::{Given, params_of};
use farlink_base::{NodeParam, NodeSettings};

/// The key of a row, for tables of keys that are made once and kept: the text of its default is never freed.
pub fn row_key(row: &NodeParam) -> Key {
    let setting = row.setting();
    let default = row.default().map_or(Fallback::Absent, |value| Fallback::Is(setting.text(value).leak()));
    key(setting.name, Kind::Setting(setting), default, row.help)
}

/// Keys of the rows of one table of a node file; the empty name is the top.
pub fn row_keys(table: &str) -> Vec<Key> {
    params_of(table).map(row_key).collect()
}

/// Where a file has the rows of one table: under the keys of a reader, behind a prefix.
pub struct RowsAt<'r, 'a> {
    /// The table of a node file.
    pub table: &'static str,
    /// Before each name.
    pub prefix: &'static str,
    /// Whose keys they are.
    pub reader: &'r Reader<'a>,
}
impl RowsAt<'_, '_> {
    fn key(&self, row: &NodeParam) -> String {
        format!("{}{}", self.prefix, row.name())
    }
}

/// A hint in which paths of rows, in backticks, are spelled as keys of this file.
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

/// The settings of a node whose file has its rows there, and what it says of them; the rest is as usual. Says what
/// contradicts itself.
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
