//! Names that keys refer to: nodes, links, presets.

use farlink_config::{Reader, nearest};
use std::collections::HashMap;

/// Names of one kind and their places in the file.
#[derive(Default)]
pub struct Names {
    list: Vec<String>,
    places: HashMap<String, usize>,
}
impl Names {
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Names {
        let mut all = Names::default();
        for name in names {
            all.add(name);
        }
        all
    }
    /// The next name; false when there is one like it already.
    pub fn add(&mut self, name: &str) -> bool {
        let place = self.list.len();
        self.list.push(name.into());
        let mut new = false;
        self.places.entry(name.into()).or_insert_with(|| {
            new = true;
            place
        });
        new
    }
    /// All, in the order of the file.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(String::as_str)
    }
    /// The name at a place.
    pub fn at(&self, place: usize) -> &str {
        &self.list[place]
    }
    /// The place of a name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
    /// The place of a name that stands in a key; reported when there is none.
    pub fn find(&self, reader: &Reader<'_>, key: &str, what: &str, name: &str) -> Option<usize> {
        let place = self.place(name);
        if place.is_none() {
            self.unknown(reader, key, what, name);
        }
        place
    }
    /// The place of the name that a key gives.
    pub fn named(&self, reader: &Reader<'_>, key: &str, what: &str) -> Option<usize> {
        self.find(reader, key, what, &reader.text(key)?)
    }
    /// Reports a name that refers to nothing.
    pub fn unknown(&self, reader: &Reader<'_>, key: &str, what: &str, name: &str) {
        let words = || self.list.iter().map(String::as_str);
        let hint = match nearest(name, words()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("{what}s: {}", words().take(20).collect::<Vec<_>>().join(", ")),
        };
        reader.fail(key, format!("no {what} is called `{name}`"), hint);
    }
}
