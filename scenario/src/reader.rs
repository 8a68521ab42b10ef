//! Reads typed values out of TOML tables, collecting every error with its line instead of stopping
//! at the first.

use crate::keys::{Fallback, Key, Kind, Section};
use farlink_base::{ConfigError, DataRate, DataVolume, DtnTime, Duration, parse_duration};
use std::cell::RefCell;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub type Value<'a> = Spanned<DeValue<'a>>;

/// Where errors go, and the text they point into.
pub struct Errors<'a> {
    text: &'a str,
    list: RefCell<Vec<ConfigError>>,
}

impl<'a> Errors<'a> {
    pub fn new(text: &'a str) -> Self {
        Errors { text, list: RefCell::new(Vec::new()) }
    }
    pub fn push(&self, path: impl Into<String>, expected: impl Into<String>, hint: impl Into<String>) {
        let error = ConfigError { path: path.into(), expected: expected.into(), hint: hint.into() };
        // A key that holds for both directions of a link is read twice.
        let mut list = self.list.borrow_mut();
        if !list.contains(&error) {
            list.push(error);
        }
    }
    pub fn into_list(self) -> Vec<ConfigError> {
        self.list.into_inner()
    }
    pub fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }
    pub fn at(&self, path: &str, offset: usize) -> String {
        format!("{path} (line {})", self.line(offset))
    }
}

/// One table (or several laid over each other: the first that has a key wins) of one section.
pub struct Reader<'a> {
    pub errors: &'a Errors<'a>,
    section: &'static Section,
    layers: Vec<(String, &'a DeTable<'a>)>,
}

/// The nearest of these words, when it is near enough to be meant.
pub fn nearest<'w>(word: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    words
        .map(|w| (strsim::damerau_levenshtein(&word.to_lowercase(), &w.to_lowercase()), w))
        .filter(|(distance, w)| *distance <= w.len().max(word.len()).div_ceil(3) && *distance < w.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, w)| w)
}

fn list(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

impl<'a> Reader<'a> {
    /// Over these tables, the first winning; keys are not checked yet.
    pub fn new(errors: &'a Errors<'a>, section: &'static Section, layers: Vec<(String, &'a DeTable<'a>)>) -> Self {
        Reader { errors, section, layers }
    }

    /// Reports keys of `table` that none of `sections` has.
    pub fn check_keys(errors: &Errors<'_>, path: &str, table: &DeTable<'_>, sections: &[&'static Section]) {
        let known = || sections.iter().flat_map(|s| s.keys).map(|k| k.name);
        for key in table.keys() {
            let name: &str = key.get_ref();
            if known().any(|k| k == name) {
                continue;
            }
            let hint = match nearest(name, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", list(&known().collect::<Vec<_>>())),
            };
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            errors.push(errors.at(&path, key.span().start), "unknown key", hint);
        }
    }

    fn key(&self, name: &str) -> &'static Key {
        let found = self.section.keys.iter().find(|k| k.name == name);
        found.unwrap_or_else(|| panic!("section {} declares no key {name}", self.section.name))
    }
    /// The table's own path, for errors about the whole of it.
    pub fn path(&self) -> &str {
        self.layers.first().map_or("", |(path, _)| path)
    }
    /// Path and value of a key that is given.
    pub fn get(&self, name: &str) -> Option<(String, &'a Value<'a>)> {
        self.layers.iter().find_map(|(path, table)| {
            let value = table.get(name)?;
            let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
            Some((self.errors.at(&path, value.span().start), value))
        })
    }
    pub fn given(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
    pub fn fail(&self, name: &str, expected: impl Into<String>, hint: impl Into<String>) {
        let path = match self.get(name) {
            Some((path, _)) => path,
            None if self.path().is_empty() => name.to_string(),
            None => format!("{}.{name}", self.path()),
        };
        self.errors.push(path, expected, hint);
    }

    /// Reads a key with `read`; what is wrong is reported and `None` returned. Absent keys take
    /// the default of the section; required ones are reported.
    fn value<T>(&self, name: &str, read: impl Fn(Input<'_, 'a>) -> Result<T, String>) -> Option<T> {
        let key = self.key(name);
        let (path, result) = match self.get(name) {
            Some((path, value)) => (path, read(Input::Given(value.get_ref()))),
            None => match key.default {
                Fallback::Required => {
                    self.fail(name, "missing", format!("add `{name} = {}`: {}", example(key.kind), key.help));
                    return None;
                }
                Fallback::Absent => return None,
                Fallback::Is(text) => (name.to_string(), read(Input::Default(text))),
            },
        };
        match result {
            Ok(value) => Some(value),
            Err(expected) => {
                // Quantities say themselves how to write them; here the hint does, with the key.
                let found = expected.split("; write e.g.").next().unwrap_or(&expected);
                self.errors.push(path, found, format!("write e.g. `{name} = {}`", example(key.kind)));
                None
            }
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.value(name, |input| input.text().map(str::to_string))
    }
    /// A name: reported when it has other characters than letters, digits, `-`, `_`, `.`.
    pub fn name(&self, name: &str) -> Option<String> {
        self.value(name, |input| {
            let text = input.text()?;
            let fine = !text.is_empty()
                && text.len() <= 64
                && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
            let why = "must be 1 to 64 letters, digits, `-`, `_` or `.`";
            if fine { Ok(text.to_string()) } else { Err(format!("`{text}` {why}")) }
        })
    }
    pub fn duration(&self, name: &str) -> Option<Duration> {
        self.value(name, |input| parse_duration(input.text()?))
    }
    pub fn rate(&self, name: &str) -> Option<DataRate> {
        self.value(name, |input| positive_rate(input.text()?))
    }
    pub fn volume(&self, name: &str) -> Option<DataVolume> {
        self.value(name, |input| input.text()?.parse())
    }
    /// A volume that must fit 32 bits.
    pub fn volume_u32(&self, name: &str) -> Option<u32> {
        self.value(name, |input| {
            let volume: DataVolume = input.text()?.parse()?;
            u32::try_from(volume.0).map_err(|_| format!("{volume} is more than {}", DataVolume(u64::from(u32::MAX))))
        })
    }
    pub fn time(&self, name: &str) -> Option<DtnTime> {
        self.value(name, |input| {
            let text = match input {
                Input::Given(DeValue::Datetime(time)) => time.to_string(),
                other => other.text()?.to_string(),
            };
            DtnTime::parse_utc(&text).ok_or_else(|| format!("`{text}` is not a UTC time"))
        })
    }
    pub fn count(&self, name: &str) -> Option<u64> {
        let Kind::Count(min, max) = self.key(name).kind else { panic!("{name} is not a count") };
        self.value(name, |input| {
            let number = input.integer()?;
            if (min..=max).contains(&number) {
                Ok(number)
            } else {
                Err(format!("{number} is not between {min} and {max}"))
            }
        })
    }
    pub fn share(&self, name: &str) -> Option<f64> {
        self.value(name, |input| {
            let percent = |text: &str| text.trim().strip_suffix('%').and_then(|t| t.trim().parse::<f64>().ok());
            let number = match input {
                Input::Given(DeValue::String(text)) => {
                    percent(text).ok_or_else(|| format!("`{text}` is no share: write 0.001 or \"0.1 %\""))? / 100.0
                }
                other => other.number()?,
            };
            if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(format!("{number} is not between 0 and 1")) }
        })
    }
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.value(name, |input| match input {
            Input::Given(DeValue::Boolean(flag)) => Ok(*flag),
            Input::Default(text) => Ok(text == "true"),
            other => Err(format!("expected `true` or `false`, found {}", other.found())),
        })
    }
    /// Index of the word chosen.
    pub fn choice(&self, name: &str) -> Option<usize> {
        let Kind::Choice(words) = self.key(name).kind else { panic!("{name} is not a choice") };
        self.value(name, |input| choose(input.text()?, words))
    }
    /// Indices of the words chosen.
    pub fn choices(&self, name: &str) -> Option<Vec<usize>> {
        let Kind::Choices(words) = self.key(name).kind else { panic!("{name} is not a list of choices") };
        self.value(name, |input| {
            input.items()?.iter().map(|v| choose(Input::Given(v.get_ref()).text()?, words)).collect()
        })
    }
    /// Anything else, read by the caller.
    pub fn custom<T>(&self, name: &str, read: impl Fn(Input<'_, 'a>) -> Result<T, String>) -> Option<T> {
        self.value(name, read)
    }

    /// A table inside, with its keys checked.
    pub fn table(&self, name: &str, section: &'static Section) -> Option<Reader<'a>> {
        self.key(name);
        let (path, value) = self.get(name)?;
        let DeValue::Table(table) = value.get_ref() else {
            self.fail(name, format!("expected a table, found {}", value.get_ref().type_str()), "");
            return None;
        };
        let path = path.split(" (line").next().unwrap_or_default().to_string();
        Reader::check_keys(self.errors, &path, table, &[section]);
        Some(Reader::new(self.errors, section, vec![(path, table)]))
    }

    /// The tables of an array of tables, each with the path it is called by in errors:
    /// `link[space]`, or `link[2]` when it has no name.
    pub fn tables(&self, name: &str) -> Vec<(String, &'a DeTable<'a>)> {
        self.key(name);
        let Some((_, value)) = self.get(name) else { return Vec::new() };
        let DeValue::Array(array) = value.get_ref() else {
            self.fail(
                name,
                format!("expected tables `[[{name}]]`, found {}", value.get_ref().type_str()),
                format!("write `[[{name}]]`"),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for (index, item) in array.iter().enumerate() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let label = table.get("name").and_then(|v| v.get_ref().as_str().map(str::to_string));
                    tables.push((format!("{name}[{}]", label.unwrap_or_else(|| (index + 1).to_string())), table));
                }
                other => self.fail(name, format!("expected a table, found {}", other.type_str()), ""),
            }
        }
        tables
    }
}

pub fn choose(word: &str, words: &[&str]) -> Result<usize, String> {
    words.iter().position(|w| *w == word).ok_or_else(|| {
        let near = nearest(word, words.iter().copied()).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        format!("`{word}` is none of {}{near}", list(words))
    })
}

pub fn positive_rate(text: &str) -> Result<DataRate, String> {
    let rate: DataRate = text.parse()?;
    if rate.0 == 0 { Err("a rate must be above zero; a contact plan turns links off".to_string()) } else { Ok(rate) }
}

/// A value as given, or the text of the default.
#[derive(Clone, Copy)]
pub enum Input<'v, 'a> {
    Given(&'v DeValue<'a>),
    Default(&'static str),
}

impl<'v, 'a> Input<'v, 'a> {
    pub fn found(self) -> String {
        match self {
            Input::Given(DeValue::Integer(i)) => format!("the bare number {i}"),
            Input::Given(DeValue::Float(f)) => format!("the bare number {f}"),
            Input::Given(value) => value.type_str().to_string(),
            Input::Default(text) => format!("`{text}`"),
        }
    }
    pub fn text(self) -> Result<&'v str, String> {
        match self {
            Input::Given(DeValue::String(text)) => Ok(text),
            Input::Default(text) => Ok(text),
            Input::Given(DeValue::Integer(_) | DeValue::Float(_)) => {
                Err(format!("expected text, with its unit where it is a quantity; found {}", self.found()))
            }
            _ => Err(format!("expected text, found {}", self.found())),
        }
    }
    pub fn items(self) -> Result<&'v [Value<'a>], String> {
        match self {
            Input::Given(DeValue::Array(items)) => Ok(items),
            other => Err(format!("expected a list, found {}", other.found())),
        }
    }
    pub fn number(self) -> Result<f64, String> {
        let text = match self {
            Input::Given(DeValue::Integer(i)) => i.as_str(),
            Input::Given(DeValue::Float(f)) => f.as_str(),
            Input::Default(text) => text,
            other => return Err(format!("expected a number, found {}", other.found())),
        };
        text.replace('_', "")
            .parse::<f64>()
            .ok()
            .filter(|n| n.is_finite())
            .ok_or_else(|| format!("`{text}` is no number"))
    }
    fn integer(self) -> Result<u64, String> {
        match self {
            Input::Given(DeValue::Integer(i)) => u64::from_str_radix(&i.as_str().replace('_', ""), i.radix())
                .map_err(|_| format!("`{i}` is not a whole number from 0")),
            Input::Default(text) => text.parse().map_err(|_| format!("`{text}` is no number")),
            other => Err(format!("expected a whole number, found {}", other.found())),
        }
    }
}

/// A value of this kind as one would write it.
pub fn example(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::Name => "\"words\"".into(),
        Kind::Node => "\"ground\"".into(),
        Kind::Link => "\"space\"".into(),
        Kind::NodePair => "[\"orbiter\", \"ground\"]".into(),
        Kind::File => "\"contacts.plan\"".into(),
        Kind::Duration | Kind::DelayOverTime => "\"600 ms\"".into(),
        Kind::Rate | Kind::RateOverTime => "\"100 Mbit/s\"".into(),
        Kind::Volume | Kind::VolumeRange => "\"100 kB\"".into(),
        Kind::Time => "\"2026-11-20T09:00:00Z\"".into(),
        Kind::Count(min, _) => (min + 1).to_string(),
        Kind::Share => "0.001".into(),
        Kind::Flag => "true".into(),
        Kind::Choice(words) => format!("\"{}\"", words[0]),
        Kind::Choices(words) => format!("[\"{}\"]", words[0]),
        Kind::EndpointIds => "\"ipn:1.0\"".into(),
        Kind::Params => "{ copies = 8 }".into(),
        Kind::Routes => "{ \"ipn:4.*\" = \"relay\" }".into(),
        Kind::Point => "[0.1, 0.5]".into(),
        Kind::Table(_) | Kind::Tables(_) => "{ ... }".into(),
    }
}
