//! Declarations of keys, from which files are read and reference pages generated.

use farlink_base::Setting;

/// Kind of value of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text without restrictions.
    Text,
    /// Name of letters, digits, `-`, `_` and `.`; unique among its kind.
    Name,
    /// Path of a file, relative to the file that is read.
    File,
    /// A duration with its unit.
    Duration,
    /// A data rate with its unit.
    Rate,
    /// A data volume with its unit.
    Volume,
    /// A point in time, UTC.
    Time,
    /// A whole number within these bounds.
    Count(u64, u64),
    /// A number from 0 to 1, or a percentage such as `"0.1 %"`.
    Share,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// A parameter of a layer, or another setting of a table.
    Setting(Setting),
    /// A table, described by the section of this name.
    Table(&'static str),
    /// Any number of tables, described by the section of this name.
    Tables(&'static str),
    /// Any other value, with a description and an example.
    Other {
        /// Description, for reference pages.
        what: &'static str,
        /// Example in TOML.
        example: &'static str,
    },
}

/// Value of a key that is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// None: the key is required.
    Required,
    /// None, or as its help describes.
    Absent,
    /// This value, as in the file.
    Is(&'static str),
}

/// Declaration of a key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in the file.
    pub name: &'static str,
    /// Kind of value.
    pub kind: Kind,
    /// Value if the key is absent.
    pub default: Fallback,
    /// Meaning, for reference pages and hints.
    pub help: &'static str,
}

/// Declaration of a table.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name of the table in the file.
    pub name: &'static str,
    /// Purpose of the table.
    pub help: &'static str,
    /// Keys that the table may have.
    pub keys: &'static [Key],
}

/// Declares a key in one line.
pub const fn key(name: &'static str, kind: Kind, default: Fallback, help: &'static str) -> Key {
    Key { name, kind, default, help }
}

/// Declares a kind of value that only its reader interprets: its description, and an example.
pub const fn other(what: &'static str, example: &'static str) -> Kind {
    Kind::Other { what, example }
}

/// Declares keys for settings. For tables built once: the texts of the defaults are leaked.
pub fn setting_keys(settings: &[Setting]) -> Vec<Key> {
    let one = |setting: &Setting| {
        // Keys hold static texts; this runs once per table.
        let default = Fallback::Is(setting.text(setting.default).leak());
        key(setting.name, Kind::Setting(*setting), default, setting.help)
    };
    settings.iter().map(one).collect()
}

impl Section {
    /// Key of this name.
    ///
    /// # Panics
    /// If the section does not declare it: names come from the program, not from the file.
    pub fn key(&self, name: &str) -> &'static Key {
        let found = self.keys.iter().find(|key| key.name == name);
        found.unwrap_or_else(|| panic!("section {} declares no key {name}", self.name))
    }
}
