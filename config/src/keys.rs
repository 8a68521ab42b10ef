//! Declarations of keys, by which files are read and from which reference pages are generated.

use farlink_base::Setting;

/// Kind of a key's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Text without restrictions.
    Text,
    /// Name of letters, digits, `-`, `_` and `.`; unique among its kind.
    Name,
    /// Path of a file, relative to the file that is read.
    File,
    /// Duration with its unit.
    Duration,
    /// Data rate with its unit.
    Rate,
    /// Data volume with its unit.
    Volume,
    /// Point in time, UTC.
    Time,
    /// Whole number within these bounds.
    Count(u64, u64),
    /// Number from 0 to 1, or a percentage such as `"0.1 %"`.
    Share,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// List of some of these words.
    Choices(&'static [&'static str]),
    /// Setting of a table, such as a parameter of a convergence layer.
    Setting(Setting),
    /// Table, described by the section of this name.
    Table(&'static str),
    /// Any number of tables, each described by the section of this name.
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
    /// No value: the key is required.
    Required,
    /// No value, or one that only the key's help describes.
    Absent,
    /// This value, written as in the file.
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

/// Declares a kind of value that only its reader interprets, by a description and an example.
pub const fn other(what: &'static str, example: &'static str) -> Kind {
    Kind::Other { what, example }
}

/// Declares keys for settings. Use it only for tables that are built once: the texts of the defaults are leaked.
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
    /// If the section does not declare the key: names come from the program, not from the file.
    pub fn key(&self, name: &str) -> &'static Key {
        let found = self.keys.iter().find(|key| key.name == name);
        found.unwrap_or_else(|| panic!("section {} declares no key {name}", self.name))
    }
}
