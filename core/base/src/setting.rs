//! Settings of layers: one table beside the code that obeys them serves node files, scenarios, simulator, testbed,
//! references and forms.

use crate::{DataVolume, Duration, parse_duration};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Unit of a setting, which determines its notation in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Plain number, such as `20`.
    Count,
    /// Bytes, written with a unit: `"1360 B"`, `"64 MiB"`.
    Bytes,
    /// Nanoseconds, written as a duration: `"200 ms"`.
    Nanoseconds,
    /// Nanoseconds with a sign, kept as the bits of an `i64`: `"-1 h"`. Any value is in range.
    Offset,
    /// 0 or 1, written `false` or `true`.
    Flag,
    /// Index in this list of words, written as the word: `"forbid"`.
    Choice(&'static [&'static str]),
}
impl Unit {
    /// Whether files write values of this unit in quotes.
    pub const fn is_quoted(self) -> bool {
        !matches!(self, Unit::Count | Unit::Flag)
    }
}

/// Setting as files, references and forms know it, independent of the configuration that has it as a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Key in configuration files.
    pub name: &'static str,
    /// One sentence about the setting's effect.
    pub help: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Value if the key is absent.
    pub default: u64,
    /// Smallest value accepted.
    pub min: u64,
    /// Largest value accepted.
    pub max: u64,
}

/// Row of a layer's table: a [`Setting`] with access to its field in the layer's configuration `C`. The field's value
/// in `C::default()`, or in another given configuration, is the setting's default.
#[derive(Debug)]
pub struct LayerParam<C: 'static> {
    /// Key in configuration files.
    pub name: &'static str,
    /// One sentence about the setting's effect.
    pub help: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Smallest value accepted.
    pub min: u64,
    /// Largest value accepted.
    pub max: u64,
    /// Reads the value from a configuration.
    pub get: fn(&C) -> u64,
    /// Writes a value within the range.
    pub set: fn(&mut C, u64),
}

impl<C> LayerParam<C> {
    /// The row as a [`Setting`], with the default of `C`.
    pub fn setting(&self) -> Setting
    where
        C: Default,
    {
        self.setting_of(&C::default())
    }
    /// The row as a [`Setting`], with its value in `defaults` as default.
    pub fn setting_of(&self, defaults: &C) -> Setting {
        let LayerParam { name, help, unit, min, max, .. } = *self;
        Setting { name, help, unit, default: (self.get)(defaults), min, max }
    }
}

/// Settings of a table in order, with the defaults of `C`.
pub fn settings<C: Default>(table: &[LayerParam<C>]) -> Vec<Setting> {
    settings_of(table, &C::default())
}

/// Settings of a table in order, with their values in `defaults` as defaults.
pub fn settings_of<C>(table: &[LayerParam<C>], defaults: &C) -> Vec<Setting> {
    table.iter().map(|row| row.setting_of(defaults)).collect()
}

/// Applies values to a configuration. Unknown names and values out of range are ignored, since the reader of the file
/// has reported them.
pub fn apply_settings<C>(table: &[LayerParam<C>], config: &mut C, values: &[(&str, u64)]) {
    for (name, value) in values {
        let known = table.iter().find(|row| row.name == *name && (row.min..=row.max).contains(value));
        if let Some(row) = known {
            (row.set)(config, *value);
        }
    }
}

impl Setting {
    /// Formats a value as in a file, without quotes: `1360 B`, `200 ms`, `20`, `true`.
    pub fn text(&self, value: u64) -> String {
        match self.unit {
            Unit::Count => value.to_string(),
            Unit::Bytes => exact_volume(value),
            Unit::Nanoseconds => exact_duration(Duration::from_nanos(value)),
            Unit::Offset => {
                let sign = if (value as i64) < 0 { "-" } else { "" };
                format!("{sign}{}", exact_duration(Duration::from_nanos((value as i64).unsigned_abs())))
            }
            Unit::Flag => (value != 0).to_string(),
            Unit::Choice(words) => words.get(value as usize).map_or_else(|| value.to_string(), |w| (*w).to_string()),
        }
    }
    /// Formats a value as TOML, in quotes if its unit requires them.
    pub fn in_toml(&self, value: u64) -> String {
        let text = self.text(value);
        if self.unit.is_quoted() { format!("\"{text}\"") } else { text }
    }
    /// Parses a value in any notation of its unit: the inverse of [`Setting::text`].
    ///
    /// # Errors
    /// If the text is malformed or the value out of range.
    pub fn parse(&self, text: &str) -> Result<u64, String> {
        let value = match self.unit {
            Unit::Count => text.parse().map_err(|_| format!("`{text}` is not a whole number"))?,
            Unit::Bytes => text.parse::<DataVolume>()?.0,
            Unit::Nanoseconds => nanoseconds(parse_duration(text)?),
            Unit::Offset => parse_offset(text)?.cast_unsigned(),
            Unit::Flag => {
                u64::from(text.parse::<bool>().map_err(|_| format!("`{text}` is neither `true` nor `false`"))?)
            }
            Unit::Choice(words) => {
                let place = words.iter().position(|word| *word == text);
                place.ok_or_else(|| format!("`{text}` is none of `{}`", words.join("`, `")))? as u64
            }
        };
        self.check(value).map(|()| value)
    }
    /// Checks that a value is in the range.
    ///
    /// # Errors
    /// If the value is out of range; the message names the range.
    pub fn check(&self, value: u64) -> Result<(), String> {
        if (self.min..=self.max).contains(&value) {
            return Ok(());
        }
        let show = |value| self.text(value);
        Err(format!("{} is not between {} and {}", show(value), show(self.min), show(self.max)))
    }
}

/// Parses a signed duration into nanoseconds; without a sign it is positive.
///
/// # Errors
/// If the text is malformed or the duration exceeds 292 years.
pub fn parse_offset(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let length = i64::try_from(parse_duration(rest)?.as_nanos());
    length.map(|length| sign * length).map_err(|_| format!("`{text}` is longer than 292 years"))
}

/// Converts a duration to nanoseconds, at most `u64::MAX`.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Formats a duration in the largest unit in which it is a whole number.
pub fn exact_duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let units: [(u128, &str); 5] =
        [(3_600_000_000_000, "h"), (60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
    match units.iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", ns / unit),
        None if ns == 0 => "0 s".into(),
        None => format!("{ns} ns"),
    }
}

/// Formats a number of bytes in the largest unit in which it is a whole number.
pub fn exact_volume(bytes: u64) -> String {
    let units: [(u64, &str); 6] =
        [(1 << 30, "GiB"), (1_000_000_000, "GB"), (1 << 20, "MiB"), (1_000_000, "MB"), (1 << 10, "KiB"), (1000, "kB")];
    match units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct SampleConfig {
        bytes: u32,
        wait: Duration,
        on: bool,
        colour: u64,
    }
    const TABLE: &[LayerParam<SampleConfig>] = &[
        LayerParam {
            name: "size",
            help: "",
            unit: Unit::Bytes,
            min: 0,
            max: 4096,
            get: |c| c.bytes.into(),
            set: |c, v| c.bytes = v as u32,
        },
        LayerParam {
            name: "wait",
            help: "",
            unit: Unit::Nanoseconds,
            min: 0,
            max: u64::MAX,
            get: |c| nanoseconds(c.wait),
            set: |c, v| c.wait = Duration::from_nanos(v),
        },
        LayerParam {
            name: "on",
            help: "",
            unit: Unit::Flag,
            min: 0,
            max: 1,
            get: |c| c.on.into(),
            set: |c, v| c.on = v != 0,
        },
        LayerParam {
            name: "colour",
            help: "",
            unit: Unit::Choice(&["red", "green"]),
            min: 0,
            max: 1,
            get: |c| c.colour,
            set: |c, v| c.colour = v,
        },
    ];

    #[test]
    fn apply_settings_ignores_invalid_values() {
        let mut config = SampleConfig::default();
        let values = [
            ("size", 4000),
            ("wait", 1_500_000),
            ("on", 1),
            ("unknown", 1),
            // Above the maximum of 4096.
            ("size", 5000),
            ("colour", 1),
            ("colour", 2),
        ];
        apply_settings(TABLE, &mut config, &values);
        assert_eq!((config.bytes, config.wait, config.on), (4000, Duration::from_micros(1500), true));
        assert_eq!(config.colour, 1, "2 is out of range");
        assert_eq!(settings(TABLE).iter().map(|s| s.default).collect::<Vec<_>>(), [0; 4]);
    }

    #[test]
    fn setting_text_round_trips() {
        for setting in settings(TABLE) {
            for value in [0, 1, 999, 1000, 1024, 1360, 4096, 60_000_000_000, 1_234_567_891, 7_200_000_000_000] {
                if setting.check(value).is_ok() {
                    assert_eq!(setting.parse(&setting.text(value)), Ok(value), "{}", setting.name);
                }
            }
        }
        let [size, wait, on, colour] = [0, 1, 2, 3].map(|i| TABLE[i].setting());
        assert_eq!(
            (size.text(4096), wait.text(200_000_000), on.text(1)),
            ("4 KiB".into(), "200 ms".into(), "true".into())
        );
        assert_eq!(size.parse("5 kB"), Err("5 kB is not between 0 B and 4 KiB".into()));
        assert!(wait.parse("5").is_err() && on.parse("yes").is_err());
        let offset = Setting { unit: Unit::Offset, max: u64::MAX, ..wait };
        for (text, ns) in [("-1 h", -3_600_000_000_000), ("+2 s", 2_000_000_000), ("5 ms", 5_000_000), ("0 s", 0)] {
            assert_eq!(offset.parse(text), Ok(i64::cast_unsigned(ns)), "{text}");
            assert_eq!(offset.parse(&offset.text(i64::cast_unsigned(ns))), Ok(i64::cast_unsigned(ns)), "{text}");
        }
        assert!(offset.parse("-300 y").is_err() && offset.parse("-").is_err());
        assert_eq!(colour.parse("blue"), Err("`blue` is none of `red`, `green`".into()));
        assert_eq!((colour.in_toml(1), on.in_toml(1)), ("\"green\"".into(), "true".into()));
    }
}
