//! Reads a TOML file section by section and collects every mistake, each with its line, what was
//! expected and the nearest key that exists.

use farlink_base::{ConfigError, DataRate, DataVolume, Duration, parse_duration};
use std::cell::RefCell;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One file being read: its text and the mistakes found so far.
pub struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> Reader<'a> {
    /// A reader of `text`, called `name` in messages.
    pub fn new(name: &'a str, text: &'a str) -> Self {
        Reader { name, text, errors: RefCell::new(Vec::new()) }
    }
    /// Adds a mistake at a byte offset of the file.
    pub fn error(&self, at: Option<usize>, path: &str, expected: impl Into<String>, hint: impl Into<String>) {
        let place = match at {
            Some(at) => {
                let line = self.text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
                format!("{}:{line}: {path}", self.name)
            }
            None => format!("{}: {path}", self.name),
        };
        self.errors.borrow_mut().push(ConfigError { path: place, expected: expected.into(), hint: hint.into() });
    }
    /// The mistakes found.
    pub fn into_errors(self) -> Vec<ConfigError> {
        self.errors.into_inner()
    }
}

/// One table of the file. Every key asked for is known; the others are mistakes ([`Section::finish`]).
pub struct Section<'a> {
    reader: &'a Reader<'a>,
    path: String,
    table: Option<&'a DeTable<'a>>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn root(reader: &'a Reader<'a>, table: &'a DeTable<'a>) -> Self {
        Section { reader, path: String::new(), table: Some(table), asked: RefCell::default() }
    }
    /// Whether the table is in the file at all.
    pub fn present(&self) -> bool {
        self.table.is_some()
    }
    /// Path of a key in messages.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }
    fn raw(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table?.iter().find(|(k, _)| k.get_ref() == key).map(|(_, v)| v)
    }
    fn value(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        self.raw(key)
    }
    /// Reports a mistake in the value of a key (or its absence).
    pub fn error(&self, key: &str, expected: impl Into<String>, hint: impl Into<String>) {
        self.reader.error(self.raw(key).map(|v| v.span().start), &self.path_of(key), expected, hint);
    }
    fn wrong(&self, key: &str, wanted: &str, found: &DeValue<'_>, hint: &str) {
        self.error(key, format!("expected {wanted}, found {}", describe(found)), hint);
    }
    /// A string.
    pub fn string(&self, key: &'static str) -> Option<String> {
        match self.value(key)?.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            other => {
                self.wrong(key, "a string", other, "write it in quotes");
                None
            }
        }
    }
    /// A string that must be there.
    pub fn required_string(&self, key: &'static str, example: &str) -> Option<String> {
        let text = self.string(key);
        if text.is_none() && self.raw(key).is_none() {
            self.error(key, "missing", format!("add e.g. {key} = \"{example}\""));
        }
        text
    }
    /// A string or a list of strings.
    pub fn strings(&self, key: &'static str) -> Option<Vec<String>> {
        match self.value(key)?.get_ref() {
            DeValue::String(text) => Some(vec![text.to_string()]),
            DeValue::Array(items) => Some(
                items
                    .iter()
                    .filter_map(|item| match item.get_ref() {
                        DeValue::String(text) => Some(text.to_string()),
                        other => {
                            self.wrong(key, "strings", other, "write each in quotes");
                            None
                        }
                    })
                    .collect(),
            ),
            other => {
                self.wrong(key, "a string or a list of strings", other, "write [\"a\", \"b\"]");
                None
            }
        }
    }
    /// Something written as a string: endpoint, address, time.
    pub fn parsed<T: FromStr>(&self, key: &'static str, what: &str, example: &str) -> Option<T> {
        let text = self.string(key)?;
        let value = text.parse().ok();
        if value.is_none() {
            self.error(key, format!("`{text}` is not {what}"), format!("write e.g. {key} = \"{example}\""));
        }
        value
    }
    /// One of a few words.
    pub fn choice<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.string(key)?;
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            let hint = nearest(&text, choices.iter().map(|(name, _)| *name))
                .map_or_else(|| format!("one of {}", names.join(", ")), |near| format!("did you mean \"{near}\"?"));
            self.error(key, format!("`{text}` is not one of {}", names.join(", ")), hint);
        }
        found
    }
    /// true or false.
    pub fn boolean(&self, key: &'static str) -> Option<bool> {
        match self.value(key)?.get_ref() {
            DeValue::Boolean(value) => Some(*value),
            other => {
                self.wrong(key, "true or false", other, "without quotes");
                None
            }
        }
    }
    /// A whole number in a range.
    pub fn integer(&self, key: &'static str, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
        let value = match self.value(key)?.get_ref() {
            DeValue::Integer(value) => u64::from_str_radix(&value.as_str().replace('_', ""), value.radix()).ok(),
            _ => None,
        };
        if value.is_none_or(|value| !range.contains(&value)) {
            let wanted = format!("a whole number from {} to {}", range.start(), range.end());
            if let Some(found) = self.raw(key) {
                self.wrong(key, &wanted, found.get_ref(), "without quotes and unit");
            }
            return None;
        }
        value
    }
    /// A duration with its unit.
    pub fn duration(&self, key: &'static str) -> Option<Duration> {
        let text = self.string(key)?;
        parse_duration(&text).map_err(|why| self.error(key, why, "every quantity carries its unit")).ok()
    }
    /// A number of bytes with its unit.
    pub fn volume(&self, key: &'static str) -> Option<u64> {
        if let Some(DeValue::Integer(_)) = self.raw(key).map(Spanned::get_ref) {
            return self.integer(key, 0..=u64::MAX);
        }
        let text = self.string(key)?;
        text.parse::<DataVolume>()
            .map_err(|why| self.error(key, why, "e.g. \"100 kB\" or \"64 MiB\""))
            .ok()
            .map(|v| v.0)
    }
    /// A data rate with its unit.
    pub fn rate(&self, key: &'static str) -> Option<DataRate> {
        let text = self.string(key)?;
        text.parse().map_err(|why: String| self.error(key, why, "e.g. \"2.5 Mbit/s\"")).ok()
    }
    /// A table inside this one; an absent one reads as empty.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        let table = match self.value(key).map(Spanned::get_ref) {
            Some(DeValue::Table(table)) => Some(table),
            Some(other) => {
                self.wrong(key, "a table", other, &format!("write [{}]", self.path_of(key)));
                None
            }
            None => None,
        };
        Section { reader: self.reader, path: self.path_of(key), table, asked: RefCell::default() }
    }
    /// The tables inside the table `key`, by name, in the order of the file.
    pub fn sections(&self, key: &'static str) -> Vec<(String, Section<'a>)> {
        let outer = self.section(key);
        let mut found = Vec::new();
        for (name, value) in outer.table.into_iter().flat_map(DeTable::iter) {
            let path = outer.path_of(name.get_ref());
            match value.get_ref() {
                DeValue::Table(table) => found.push((
                    name.span().start,
                    name.get_ref().to_string(),
                    Section { reader: self.reader, path, table: Some(table), asked: RefCell::default() },
                )),
                other => outer.wrong(name.get_ref(), "a table", other, &format!("write [{path}]")),
            }
        }
        found.sort_by_key(|(at, ..)| *at);
        found.into_iter().map(|(_, name, section)| (name, section)).collect()
    }
    /// All entries of a table whose keys are free (routes), as strings.
    pub fn free_strings(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (name, value) in self.table.into_iter().flat_map(DeTable::iter) {
            match value.get_ref() {
                DeValue::String(text) => found.push((name.span().start, name.get_ref().to_string(), text.to_string())),
                other => self.wrong(name.get_ref(), "a string", other, "write it in quotes"),
            }
        }
        found.sort_by_key(|(at, ..)| *at);
        found.into_iter().map(|(_, name, text)| (name, text)).collect()
    }
    /// The numbers of this table under keys not asked for: parameters of a router or control.
    pub fn free_numbers(&self) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        for (name, value) in self.table.into_iter().flat_map(DeTable::iter) {
            if self.asked.borrow().iter().any(|asked| asked == name.get_ref()) {
                continue;
            }
            let number = match value.get_ref() {
                DeValue::Integer(v) => v.as_str().replace('_', "").parse().ok(),
                DeValue::Float(v) => v.as_str().replace('_', "").parse().ok(),
                _ => None,
            };
            match number {
                Some(number) => found.push((name.get_ref().to_string(), number)),
                None => self.wrong(name.get_ref(), "a number", value.get_ref(), "parameters are plain numbers"),
            }
        }
        found
    }
    /// Reports every key nobody asked for, with the nearest one that exists.
    pub fn finish(&self) {
        let asked = self.asked.borrow();
        for (name, _) in self.table.into_iter().flat_map(DeTable::iter) {
            if asked.iter().any(|known| known == name.get_ref()) {
                continue;
            }
            let mut known: Vec<&str> = asked.clone();
            known.sort_unstable();
            known.dedup();
            let hint = match nearest(name.get_ref(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.reader.error(Some(name.span().start), &self.path_of(name.get_ref()), "unknown key", hint);
        }
    }
}

/// The nearest of some words, when near enough to be meant.
pub fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    words
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(word.len()) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string \"{text}\""),
        DeValue::Integer(number) => number.as_str().to_string(),
        DeValue::Float(number) => number.as_str().to_string(),
        DeValue::Boolean(value) => format!("{value}"),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
