//! Parsing and printing of quantities with units: `"100 kB"`, `"2.5 Mbit/s"`, `"1.3 s"`. Prefixes are decimal; KiB,
//! MiB, GiB and TiB are binary.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// Data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct DataRate(pub u64);

/// Amount of data in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct DataVolume(pub u64);

impl DataRate {
    /// Rate for a number of bytes per second (the unit of ION's contact plans), saturating.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        DataRate(bytes.saturating_mul(8))
    }
    /// Value in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
    /// Transmission time of `bytes`, rounded up to a nanosecond; [`Duration::MAX`] at rate 0.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanoseconds = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
    /// Number of whole bytes transmitted in `duration`.
    pub fn volume_in(self, duration: Duration) -> u64 {
        let bits = u128::from(self.0).saturating_mul(duration.as_nanos()) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }
}

impl DataVolume {
    /// Value in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

fn split_number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .char_indices()
        .find(|(i, c)| {
            // An `e` belongs to the number only before digits or a sign; otherwise it begins a unit.
            let exponent = matches!(c, 'e' | 'E')
                && text[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-' || d == '+');
            let sign = matches!(c, '+' | '-') && (*i == 0 || text[..*i].ends_with(['e', 'E']));
            !(c.is_ascii_digit() || *c == '.' || *c == '_' || exponent || sign)
        })
        .map_or(text.len(), |(i, _)| i);
    let number: String = text[..end].chars().filter(|c| *c != '_').collect();
    let value: f64 = number.parse().ok()?;
    (value.is_finite() && value >= 0.0).then(|| (value, text[end..].trim()))
}

fn scale(prefix: &str) -> Option<f64> {
    Some(match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    })
}

/// Rounds to an integer; the error of a value too large is `most`, the maximum as text.
fn rounded(value: f64, most: &'static str) -> Result<u64, &'static str> {
    // The bound leaves a margin to u64::MAX, about 18.4e18, since doubles of that size are not exact.
    if value < 18e18 { Ok((value + 0.5) as u64) } else { Err(most) }
}
/// Error message for a quantity above the maximum.
fn too_much(text: &str, most: &str) -> String {
    format!("`{text}` is more than {most}, the maximum")
}

impl FromStr for DataRate {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (value, unit) = split_number(text)?;
            let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps"))?;
            let (factor, prefix) = if let Some(p) = unit.strip_suffix("bit") {
                (1.0, p)
            } else if let Some(p) = unit.strip_suffix('B') {
                (8.0, p)
            } else {
                (1.0, unit.strip_suffix('b')?)
            };
            // Rates count bits: the factor converts from bytes.
            Some(rounded(value * factor * scale(prefix)?, "18000000 Tbit/s"))
        };
        let rate = parse()
            .ok_or_else(|| format!("`{text}` is not a data rate; write e.g. \"100 Mbit/s\" or \"12.5 MB/s\""))?;
        rate.map(DataRate).map_err(|most| too_much(text, most))
    }
}

impl FromStr for DataVolume {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (value, unit) = split_number(text)?;
            let factor = if unit.is_empty() { 1.0 } else { scale(unit.strip_suffix('B')?)? };
            Some(rounded(value * factor, "18000000 TB"))
        };
        let volume =
            parse().ok_or_else(|| format!("`{text}` is not a data volume; write e.g. \"100 kB\" or \"64 MiB\""))?;
        volume.map(DataVolume).map_err(|most| too_much(text, most))
    }
}

/// Parses a duration with units ns, us (or µs), ms, s, min, h or d; several parts may follow each other ("1 h 30 min").
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let parse = || {
        let mut rest = text.trim();
        let mut total = 0.0f64;
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let (value, after) = split_number(rest)?;
            let end = after.find(|c: char| c.is_ascii_digit() || c.is_whitespace()).unwrap_or(after.len());
            let seconds = match &after[..end] {
                "ns" => 1e-9,
                "us" | "µs" | "μs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
            total += value * seconds;
            rest = after[end..].trim_start();
        }
        // Round to the nanosecond: 1.3 s is 1,300,000,000 ns, not 1,299,999,999.
        Some(rounded(total * 1e9, "208333 d"))
    };
    let nanoseconds =
        parse().ok_or_else(|| format!("`{text}` is not a duration; write e.g. \"600 ms\", \"1.3 s\" or \"4 h\""))?;
    nanoseconds.map(Duration::from_nanos).map_err(|most| too_much(text, most))
}

/// Formats up to three decimals, without trailing zeros.
fn decimal(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn with_prefix(value: f64, unit: &str) -> String {
    for (factor, prefix) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= factor {
            return format!("{} {prefix}{unit}", decimal(value / factor));
        }
    }
    format!("{} {unit}", decimal(value))
}

/// Formats a duration for people: "600 ms", "1.3 s", "4 h".
pub fn format_duration(duration: Duration) -> String {
    let s = duration.as_secs_f64();
    if s == 0.0 {
        "0 s".to_string()
    } else if s < 1e-6 {
        format!("{} ns", decimal(s * 1e9))
    } else if s < 1e-3 {
        format!("{} us", decimal(s * 1e6))
    } else if s < 1.0 {
        format!("{} ms", decimal(s * 1e3))
    // Durations below two hours are shown in seconds, and those below two days in hours.
    } else if s < 7200.0 {
        format!("{} s", decimal(s))
    } else if s < 172_800.0 {
        format!("{} h", decimal(s / 3600.0))
    } else {
        format!("{} d", decimal(s / 86_400.0))
    }
}

impl fmt::Display for DataRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_prefix(self.0 as f64, "bit/s"))
    }
}
impl fmt::Display for DataVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_prefix(self.0 as f64, "B"))
    }
}

#[cfg(feature = "serde")]
mod serde_impl {
    use super::{DataRate, DataVolume};
    use alloc::string::{String, ToString};
    macro_rules! text {
        ($t:ty) => {
            impl serde::Serialize for $t {
                fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                    s.serialize_str(&self.to_string())
                }
            }
            impl<'de> serde::Deserialize<'de> for $t {
                fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                    let text = <String as serde::Deserialize>::deserialize(d)?;
                    text.parse().map_err(serde::de::Error::custom)
                }
            }
        };
    }
    text!(DataRate);
    text!(DataVolume);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_volume_text_round_trips() {
        for (text, bits) in [
            ("100 Mbit/s", 100_000_000),
            ("2.5Mbit/s", 2_500_000),
            ("1 kB/s", 8_000),
            ("9600 bit/s", 9600),
            ("1 Gbps", 1_000_000_000),
        ] {
            assert_eq!(text.parse::<DataRate>(), Ok(DataRate(bits)), "{text}");
        }
        assert_eq!(DataRate(2_500_000).to_string(), "2.5 Mbit/s");
        for (text, bytes) in [("100 kB", 100_000), ("64 MiB", 67_108_864), ("1360 B", 1360), ("7", 7)] {
            assert_eq!(text.parse::<DataVolume>(), Ok(DataVolume(bytes)), "{text}");
        }
        // `kb` is ambiguous between bits and bytes, a volume cannot be negative, 1e400 is infinite.
        for bad in ["", "fast", "-1 kB", "1 kb", "1 bit", "1e400 B", "1 XB"] {
            assert!(bad.parse::<DataVolume>().is_err(), "{bad}");
        }
        assert!("100".parse::<DataRate>().is_err(), "a rate without a unit is ambiguous");
    }

    #[test]
    fn durations_read_and_print_with_units() {
        assert_eq!(parse_duration("1.3 s"), Ok(Duration::from_millis(1300)));
        assert_eq!(parse_duration("1 h 30 min"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("600ms"), Ok(Duration::from_millis(600)));
        assert!(parse_duration("600").is_err());
        assert_eq!(format_duration(Duration::from_millis(600)), "600 ms");
        assert_eq!(format_duration(Duration::from_secs(14400)), "4 h");
    }

    #[test]
    fn oversized_quantity_error_names_maximum() {
        let most = |what: &str, most: &str| format!("`{what}` is more than {most}, the maximum");
        assert_eq!(parse_duration("99999999999 d"), Err(most("99999999999 d", "208333 d")));
        assert_eq!("1e9 TB".parse::<DataVolume>(), Err(most("1e9 TB", "18000000 TB")));
        assert_eq!("1e9 Tbit/s".parse::<DataRate>(), Err(most("1e9 Tbit/s", "18000000 Tbit/s")));
        // 18e18 ns are 208,333.3 days.
        assert!(parse_duration("208333 d").is_ok() && parse_duration("208334 d").is_err());
    }

    #[test]
    fn transmission_time_rounds_up_volume_down() {
        let rate = DataRate(8_000_000);
        assert_eq!(rate.time_for(1), Duration::from_micros(1));
        assert_eq!(DataRate(3).time_for(1), Duration::from_nanos(2_666_666_667));
        assert_eq!(rate.volume_in(Duration::from_micros(1)), 1);
        assert_eq!(DataRate(0).time_for(1), Duration::MAX);
        assert_eq!(DataRate(u64::MAX).volume_in(Duration::MAX), u64::MAX);
    }
}
