//! What a table of keys is made of.

use farlink_base::Setting;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Free text.
    Text,
    /// Letters, digits, `-`, `_` and `.`; unique among its kind.
    Name,
    /// A file, relative to the one that is read.
    File,
    /// A duration with its unit.
    Duration,
    /// A data rate with its unit.
    Rate,
    /// A data volume with its unit.
    Volume,
    /// A UTC time.
    Time,
    /// A whole number from the first to the second.
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
    /// A table, described in the section of this name.
    Table(&'static str),
    /// Any number of tables, described in the section of this name.
    Tables(&'static str),
    /// Anything else: what it is, and how one would write it.
    Other {
        /// In words, for references.
        what: &'static str,
        /// In TOML.
        example: &'static str,
    },
}

/// What holds when a key is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The key must be given.
    Required,
    /// Nothing, or what the help says.
    Absent,
    /// This value.
    Is(&'static str),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// As written in the file.
    pub name: &'static str,
    /// How its value is written.
    pub kind: Kind,
    /// What holds without it.
    pub default: Fallback,
    /// What it does.
    pub help: &'static str,
}

/// The keys of one table.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// As written in the file.
    pub name: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

/// A key in one line.
pub const fn key(name: &'static str, kind: Kind, default: Fallback, help: &'static str) -> Key {
    Key { name, kind, default, help }
}

/// A kind of value that its reader alone understands: what it is, and one as written.
pub const fn other(what: &'static str, example: &'static str) -> Kind {
    Kind::Other { what, example }
}

/// The keys of settings, for tables of keys that are made once and kept: the texts of their defaults
/// are never freed.
pub fn setting_keys(settings: &[Setting]) -> Vec<Key> {
    let one = |setting: &Setting| {
        let default = Fallback::Is(setting.text(setting.default).leak());
        key(setting.name, Kind::Setting(*setting), default, setting.help)
    };
    settings.iter().map(one).collect()
}

impl Section {
    /// The key of this name.
    ///
    /// # Panics
    /// When there is none: whoever asks is in the program, not in the file.
    pub fn key(&self, name: &str) -> &'static Key {
        let found = self.keys.iter().find(|key| key.name == name);
        found.unwrap_or_else(|| panic!("section {} declares no key {name}", self.name))
    }
}
