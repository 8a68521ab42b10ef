//! Names that keys refer to: nodes, links, presets.

use farlink_config::{Reader, choose, nearest};
use std::collections::{HashMap, HashSet};
use toml::de::DeValue;

/// Names of one kind, with their indices in the order of the file.
#[derive(Default)]
pub struct Names {
    list: Vec<String>,
    places: HashMap<String, usize>,
    /// Names of tables that have mistakes of their own.
    broken: HashSet<String>,
}
impl Names {
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Names {
        let mut all = Names::default();
        for name in names {
            all.add(name);
        }
        all
    }
    /// Adds the names of the tables `[[table]]` that could not be read. Their mistakes are reported; that nothing has
    /// such a name would be wrong.
    pub fn or_broken(mut self, top: &Reader<'_>, table: &str) -> Names {
        let Some(DeValue::Array(tables)) = top.get(table).map(|value| value.get_ref()) else { return self };
        let names = tables.iter().filter_map(|table| table.get_ref().as_table()?.get("name")?.get_ref().as_str());
        self.broken = names.filter(|name| !self.places.contains_key(*name)).map(String::from).collect();
        self
    }
    /// Adds the next name; false if the same name is there already.
    pub fn add(&mut self, name: &str) -> bool {
        let place = self.list.len();
        // A repeated name keeps its own place, so that places stay indices of nodes or links; lookups find the first.
        self.list.push(name.into());
        let mut new = false;
        self.places.entry(name.into()).or_insert_with(|| {
            new = true;
            place
        });
        new
    }
    /// All names in the order of the file.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(String::as_str)
    }
    /// Name with this index.
    pub fn at(&self, place: usize) -> &str {
        &self.list[place]
    }
    /// Index of a name; of the first if it is repeated.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
    /// Index of a name that stands in a key. An unknown name is reported, and gives `None`.
    pub fn find(&self, reader: &Reader<'_>, key: &str, what: &str, name: &str) -> Option<usize> {
        let place = self.place(name);
        if place.is_none() {
            self.unknown(reader, key, what, name);
        }
        place
    }
    /// Index of the name that a key gives. An unknown name is reported, and gives `None`.
    pub fn named(&self, reader: &Reader<'_>, key: &str, what: &str) -> Option<usize> {
        self.find(reader, key, what, &reader.text(key)?)
    }
    /// Indices that the key `nodes` of a table names; all if it is absent.
    pub fn of_nodes(&self, reader: &Reader<'_>) -> Vec<usize> {
        let words = || self.list().collect::<Vec<_>>();
        let place = |name: &String| self.place(name).map_or_else(|| choose(name, &words()), Ok);
        let named = reader.custom("nodes", |input| input.texts()?.iter().map(place).collect::<Result<Vec<_>, _>>());
        if named.as_ref().is_some_and(Vec::is_empty) {
            reader.fail("nodes", "names no node", "name some, or take it out: then it is about all");
        }
        match reader.given("nodes") {
            true => {
                let mut named = named.unwrap_or_default();
                // A node named twice counts once.
                named.sort_unstable();
                named.dedup();
                named
            }
            false => (0..self.list.len()).collect(),
        }
    }
    /// Reports an unknown name, with the nearest known one as a hint.
    pub fn unknown(&self, reader: &Reader<'_>, key: &str, what: &str, name: &str) {
        if self.broken.contains(name) {
            return;
        }
        let words = || self.list.iter().map(String::as_str);
        let hint = match nearest(name, words()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.list.is_empty() => format!("there is no `[[{what}]]` yet"),
            None => format!("known names: {}", words().take(20).collect::<Vec<_>>().join(", ")),
        };
        reader.fail(key, format!("no {what} is called `{name}`"), hint);
    }
}
