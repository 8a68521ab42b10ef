//! Conversion of one value of a file, or of the text of a default, to its type.

use crate::errors::nearest;
use crate::keys::Kind;
use farlink_base::{DataRate, DataVolume, DtnTime, Setting, Unit, parse_duration};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// Value to convert.
#[derive(Clone, Copy)]
pub enum Input<'v, 'a> {
    /// Value from the file.
    Given(&'v DeValue<'a>),
    /// Default from the table of keys, as text.
    Default(&'static str),
}

impl<'v, 'a> Input<'v, 'a> {
    /// Describes the value found, for messages.
    pub fn found(self) -> String {
        match self {
            Input::Given(DeValue::Integer(i)) => format!("the bare number {i}"),
            Input::Given(DeValue::Float(f)) => format!("the bare number {f}"),
            // Arrays and tables may be long: their type suffices in a message.
            Input::Given(value) => value.type_str().to_string(),
            Input::Default(text) => format!("`{text}`"),
        }
    }
    /// Converts to text.
    ///
    /// # Errors
    /// If the value has another type or is out of range; the text describes the value found, here and below.
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
    /// Returns the index of the value among these words.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn word(self, words: &[&str]) -> Result<usize, String> {
        let text = self.text().map_err(|_| format!("expected one of {}, found {}", list(words), self.found()))?;
        choose(text, words)
    }
    /// Converts a text, or a list of texts, to a list of texts.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn texts(self) -> Result<Vec<String>, String> {
        match self {
            Input::Given(DeValue::Array(items)) => {
                items.iter().map(|item| Input::Given(item.get_ref()).text().map(str::to_string)).collect()
            }
            other => other.text().map(|text| vec![text.to_string()]),
        }
    }
    /// Converts to a list of values.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn items(self) -> Result<&'v [Spanned<DeValue<'a>>], String> {
        match self {
            Input::Given(DeValue::Array(items)) => Ok(items),
            other => Err(format!("expected a list, found {}", other.found())),
        }
    }
    /// Converts to a volume; only 0 may lack a unit.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn volume(self) -> Result<DataVolume, String> {
        let text = self.text()?;
        let volume: DataVolume = text.parse()?;
        if volume.0 > 0 && !text.trim_end().ends_with(char::is_alphabetic) {
            return Err(format!("`{text}` has no unit"));
        }
        Ok(volume)
    }
    /// Converts to a table.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn table(self) -> Result<&'v DeTable<'a>, String> {
        match self {
            Input::Given(DeValue::Table(table)) => Ok(table),
            other => Err(format!("expected a table, found {}", other.found())),
        }
    }
    /// Converts to a finite number.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn number(self) -> Result<f64, String> {
        let text = match self {
            Input::Given(DeValue::Integer(i)) => i.as_str(),
            Input::Given(DeValue::Float(f)) => f.as_str(),
            Input::Default(text) => text,
            other => return Err(format!("expected a number, found {}", other.found())),
        };
        // TOML allows underscores between digits, `inf` and `nan`.
        let number = text.replace('_', "").parse::<f64>().ok().filter(|n| n.is_finite());
        number.ok_or_else(|| format!("`{text}` is no number"))
    }
    /// Converts to a whole number.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn integer(self) -> Result<u64, String> {
        self.integer_in(0, u64::MAX)
    }
    /// Converts to a whole number. The caller must check the range: `min` and `max` only appear in the message about a
    /// number beyond 64 bits.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn integer_in(self, min: u64, max: u64) -> Result<u64, String> {
        match self {
            Input::Given(DeValue::Integer(i)) => {
                whole(i).ok_or_else(|| format!("`{i}` is not a whole number from {min} to {max}"))
            }
            Input::Default(text) => text.parse().map_err(|_| format!("`{text}` is no number")),
            other => Err(format!("expected a whole number, found {}", other.found())),
        }
    }
    /// Converts to a number from 0 to 1; percentages such as `"0.1 %"` are allowed.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn share(self) -> Result<f64, String> {
        let percent = |text: &str| text.trim().strip_suffix('%').and_then(|t| t.trim().parse::<f64>().ok());
        let (number, wrong) = match self {
            Input::Given(DeValue::String(text)) => {
                let number =
                    percent(text).ok_or_else(|| format!("`{text}` is not a share: write 0.001 or \"0.1 %\""))?;
                (number / 100.0, format!("`{text}` is not between 0 % and 100 %"))
            }
            other => other.number().map(|number| (number, format!("{number} is not between 0 and 1")))?,
        };
        if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(wrong) }
    }
    /// Converts to `true` or `false`.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn flag(self) -> Result<bool, String> {
        match self {
            Input::Given(DeValue::Boolean(flag)) => Ok(*flag),
            // The program contains the defaults, which need no check.
            Input::Default(text) => Ok(text == "true"),
            other => Err(format!("expected `true` or `false`, found {}", other.found())),
        }
    }
    /// Converts to a UTC time, quoted or not.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn time(self) -> Result<DtnTime, String> {
        let text = match self {
            Input::Given(DeValue::Datetime(time)) => time.to_string(),
            other => other.text()?.to_string(),
        };
        DtnTime::parse_utc(&text).ok_or_else(|| format!("`{text}` is not a UTC time"))
    }
    /// Converts to the value of a setting in its unit, and checks its range.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn setting(self, setting: &Setting) -> Result<u64, String> {
        let value = match setting.unit {
            Unit::Count => self.integer_in(setting.min, setting.max)?,
            Unit::Flag => u64::from(self.flag()?),
            Unit::Choice(words) => self.word(words)? as u64,
            Unit::Bytes => self.volume()?.0,
            Unit::Nanoseconds | Unit::Offset => return setting.parse(self.text()?),
        };
        setting.check(value).map(|()| value)
    }
    /// Converts to a parameter of a policy: a number, 0 or 1 for a flag, or a quantity in seconds, bytes or bits per
    /// second.
    ///
    /// # Errors
    /// As [`Input::text`].
    pub fn parameter(self) -> Result<f64, String> {
        match self {
            Input::Given(DeValue::Boolean(flag)) => Ok(f64::from(u8::from(*flag))),
            Input::Given(DeValue::String(text)) => parse_duration(text)
                .map(|d| d.as_secs_f64())
                // The units differ, so the order of the attempts does not matter.
                .or_else(|_| text.parse::<DataVolume>().map(|v| v.0 as f64))
                .or_else(|_| text.parse::<DataRate>().map(|r| r.0 as f64))
                .map_err(|_| format!("`{text}` is not a quantity")),
            other => other.number(),
        }
    }
}

fn whole(integer: &DeInteger<'_>) -> Option<u64> {
    // TOML also has hexadecimal, octal and binary integers.
    u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
}

/// Returns the index of a word in a list.
///
/// # Errors
/// If the word is not in the list; the message has the list, and the most similar word if there is one.
pub fn choose(word: &str, words: &[&str]) -> Result<usize, String> {
    words.iter().position(|w| *w == word).ok_or_else(|| {
        let near = nearest(word, words.iter().copied()).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
        format!("`{word}` is none of {}{near}", list(words))
    })
}

/// Formats words in backquotes, separated by commas.
pub(crate) fn list(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

/// Parses a rate above zero.
///
/// # Errors
/// If it is not a rate, or zero.
pub fn positive_rate(text: &str) -> Result<DataRate, String> {
    let rate: DataRate = text.parse()?;
    if rate.0 == 0 { Err("a rate must be above zero; a contact plan turns links off".to_string()) } else { Ok(rate) }
}

/// Example of a value of this kind, in TOML.
pub fn example(kind: Kind) -> String {
    match kind {
        Kind::Text | Kind::Name => "\"words\"".into(),
        Kind::File => "\"contacts.plan\"".into(),
        Kind::Duration => "\"600 ms\"".into(),
        Kind::Rate => "\"100 Mbit/s\"".into(),
        Kind::Volume => "\"100 kB\"".into(),
        Kind::Time => "\"2026-11-20T09:00:00Z\"".into(),
        Kind::Count(min, _) => (min + 1).to_string(),
        Kind::Share => "0.001".into(),
        Kind::Flag => "true".into(),
        Kind::Choice(words) => format!("\"{}\"", words[0]),
        Kind::Choices(words) => format!("[\"{}\"]", words[0]),
        Kind::Setting(setting) => setting.in_toml(setting.default),
        Kind::Table(_) | Kind::Tables(_) => "{ ... }".into(),
        Kind::Other { example, .. } => example.into(),
    }
}
