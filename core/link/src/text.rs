//! Text form of link specifications: keys and values with units, the same in scenario files and on the command line.

use crate::preset::PRESETS;
use crate::spec::{
    ContactWindow, Delay, DirectionSpec, Jitter, JitterShape, LinkSpec, Loss, Outages, Rate, Reorder, Spread,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use farlink_base::{ConfigError, DataRate, Duration, Instant, format_duration, parse_duration};

impl DirectionSpec {
    /// Keys of [`DirectionSpec::set`], each with an example and its meaning.
    pub const KEYS: [(&str, &str, &str); 12] = [
        ("rate", "100 Mbit/s", "\"unlimited\", a rate, or steps \"0 s: 1 Mbit/s; 60 s: 2 Mbit/s\""),
        ("delay", "600 ms", "one-way delay, or a table \"0 s: 400 ms; 1 h: 700 ms\" with straight lines between"),
        ("jitter", "5 ms", "most extra delay; \"normal 5 ms\" for its shape, \"5 ms reorder\" to let packets overtake"),
        ("loss", "1 %", "loss of packets; \"gilbert P R [BAD [GOOD]]\" for bursts"),
        ("bit_error_rate", "1e-6", "probability of each bit to be wrong; a wrong bit loses the packet"),
        ("duplicate", "0.1 %", "packets that arrive twice"),
        ("reorder", "1 % 20 ms", "packets that arrive this much later than their turn"),
        ("corrupt", "1e-4", "packets that arrive with a flipped bit"),
        ("queue", "256 kB", "bytes that may wait for transmission; sized from rate and delay when left out"),
        ("overhead", "24 B", "bytes every packet costs beyond its IP length"),
        ("windows", "0 s .. 10 s; 20 s .. 30 s", "when it may transmit; always when left out"),
        ("outages", "exponential 60 s 10 s", "random outages: \"fixed\" or \"exponential\", mean up, mean down"),
    ];

    /// Sets one key from text. An error names the key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let value = value.trim();
        let fail = |reason: String| ConfigError { path: key.to_owned(), expected: reason, hint: Self::hint(key) };
        match key {
            "rate" => self.rate = rate(value).map_err(fail)?,
            "delay" => self.delay = delay(value).map_err(fail)?,
            "jitter" => self.jitter = jitter(value).map_err(fail)?,
            "loss" => self.loss = loss(value).map_err(fail)?,
            "bit_error_rate" => self.bit_error_rate = probability(value).map_err(fail)?,
            "duplicate" => self.duplicate = probability(value).map_err(fail)?,
            "reorder" => self.reorder = Some(reorder(value).map_err(fail)?),
            "corrupt" => self.corrupt = probability(value).map_err(fail)?,
            "queue" => self.queue = Some(value.parse().map_err(fail)?),
            "overhead" => {
                let bytes = value.parse::<farlink_base::DataVolume>().map_err(fail)?.bytes();
                self.overhead = u32::try_from(bytes).map_err(|_| fail(format!("`{value}` is more than 4 GB")))?;
            }
            "windows" => self.windows = Some(windows(value).map_err(fail)?),
            "outages" => self.outages = Some(outages(value).map_err(fail)?),
            _ => {
                let known: Vec<&str> = Self::KEYS.iter().map(|(key, ..)| *key).collect();
                let expected = format!("unknown key `{key}`");
                return Err(ConfigError {
                    path: key.to_owned(),
                    expected,
                    hint: format!("keys are {}", known.join(", ")),
                });
            }
        }
        Ok(())
    }

    /// Value of one key, as text that [`DirectionSpec::set`] accepts; `None` if it has the default or the key is
    /// unknown.
    pub fn get(&self, key: &str) -> Option<String> {
        let share = |p: f64| (p > 0.0).then(|| p.to_string());
        match key {
            "rate" => match &self.rate {
                Rate::Unlimited => None,
                Rate::Constant(rate) => Some(exact_rate(*rate)),
                Rate::Steps(steps) => Some(table(steps.iter().map(|(at, rate)| (*at, exact_rate(*rate))))),
            },
            "delay" => match &self.delay {
                Delay::Constant(delay) if delay.is_zero() => None,
                Delay::Constant(delay) => Some(exact_time(*delay)),
                Delay::Table(points) => Some(table(points.iter().map(|(at, delay)| (*at, exact_time(*delay))))),
            },
            "jitter" => self.jitter.map(|jitter| {
                let shape = if jitter.shape == JitterShape::Normal { "normal " } else { "" };
                format!("{shape}{}{}", exact_time(jitter.most), if jitter.reorders { " reorder" } else { "" })
            }),
            "loss" => match self.loss {
                Loss::None => None,
                Loss::Bernoulli(p) => Some(p.to_string()),
                Loss::GilbertElliott { p, r, bad, good } => Some(format!("gilbert {p} {r} {bad} {good}")),
            },
            "bit_error_rate" => share(self.bit_error_rate),
            "duplicate" => share(self.duplicate),
            "reorder" => self.reorder.map(|r| format!("{} {}", r.probability, exact_time(r.gap))),
            "corrupt" => share(self.corrupt),
            "queue" => self.queue.map(|queue| format!("{} B", queue.bytes())),
            "overhead" => (self.overhead > 0).then(|| format!("{} B", self.overhead)),
            "windows" => self.windows.as_ref().map(|windows| window_text(windows)),
            "outages" => self.outages.map(|o| {
                let spread = if o.spread == Spread::Fixed { "fixed" } else { "exponential" };
                format!("{spread} {} {}", exact_time(o.up), exact_time(o.down))
            }),
            _ => None,
        }
    }

    fn hint(key: &str) -> String {
        let known = Self::KEYS.iter().find(|(k, ..)| *k == key);
        known.map(|(_, example, meaning)| format!("e.g. {key} = \"{example}\": {meaning}")).unwrap_or_default()
    }
}

impl LinkSpec {
    /// Parses text such as `rate=10 Mbit/s,delay=600 ms,loss=1 %`: keys of [`DirectionSpec::set`] for both directions,
    /// or for one with the prefix `forward.` or `reverse.`. A preset may come first: `preset=geo`, or just `geo`.
    pub fn parse(text: &str) -> Result<LinkSpec, ConfigError> {
        let mut spec = LinkSpec::default();
        for (index, item) in text.split(',').map(str::trim).filter(|item| !item.is_empty()).enumerate() {
            match item.split_once('=') {
                Some((key, value)) if key.trim() != "preset" => spec.set(key.trim(), value)?,
                other => {
                    let name = other.map_or(item, |(_, value)| value).trim();
                    if index > 0 && other.is_none() {
                        let expected = format!("`key=value`, found `{item}`");
                        return Err(ConfigError { path: "link".into(), expected, hint: usage() });
                    }
                    // A preset replaces everything set before it.
                    spec = LinkSpec::preset(name).ok_or_else(|| unknown_preset(name))?;
                }
            }
        }
        spec.check("")?;
        Ok(spec)
    }

    /// Sets one key of both directions, or of one direction with the prefix `forward.` or `reverse.`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        if let Some(key) = key.strip_prefix("forward.") {
            return self.forward.set(key, value);
        }
        if let Some(key) = key.strip_prefix("reverse.") {
            return self.reverse.set(key, value);
        }
        self.forward.set(key, value)?;
        self.reverse.set(key, value)
    }
}

fn usage() -> String {
    "e.g. \"rate=10 Mbit/s,delay=600 ms,loss=1 %\" or \"geo,forward.rate=1 Mbit/s\"".to_owned()
}

fn unknown_preset(name: &str) -> ConfigError {
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    ConfigError {
        path: "preset".into(),
        expected: format!("a preset, not `{name}`"),
        hint: format!("presets are {}; or write keys, {}", names.join(", "), usage()),
    }
}

/// Parses a probability: `1 %`, `0.01` or `1e-2`.
fn probability(text: &str) -> Result<f64, String> {
    let (number, divisor) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (text, 1.0),
    };
    match number.parse::<f64>().map(|p| p / divisor) {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err(format!("`{text}` is not a probability; write e.g. \"1 %\" or \"1e-6\"")),
    }
}

/// Parses rows `time: value`, separated by semicolons.
fn rows<T>(text: &str, value: impl Fn(&str) -> Result<T, String>) -> Result<Vec<(Duration, T)>, String> {
    let row = |row: &str| {
        let (at, rest) = row.split_once(':').ok_or_else(|| format!("`{}` is not \"time: value\"", row.trim()))?;
        Ok((parse_duration(at)?, value(rest.trim())?))
    };
    text.split(';').filter(|r| !r.trim().is_empty()).map(row).collect()
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "unlimited" {
        return Ok(Rate::Unlimited);
    }
    if text.contains(':') {
        return Ok(Rate::Steps(rows(text, |rate| rate.parse())?));
    }
    text.parse().map(Rate::Constant)
}

fn delay(text: &str) -> Result<Delay, String> {
    if text.contains(':') {
        return Ok(Delay::Table(rows(text, parse_duration)?));
    }
    parse_duration(text).map(Delay::Constant)
}

fn jitter(text: &str) -> Result<Option<Jitter>, String> {
    let (text, reorders) = match text.strip_suffix("reorder") {
        Some(rest) => (rest.trim(), true),
        None => (text, false),
    };
    let (most, shape) = match (text.strip_prefix("normal"), text.strip_prefix("uniform")) {
        (Some(rest), _) => (rest, JitterShape::Normal),
        (_, Some(rest)) => (rest, JitterShape::Uniform),
        _ => (text, JitterShape::Uniform),
    };
    let most = parse_duration(most)?;
    Ok((!most.is_zero()).then_some(Jitter { most, shape, reorders }))
}

fn loss(text: &str) -> Result<Loss, String> {
    let Some(rest) = text.strip_prefix("gilbert") else {
        let p = probability(text)?;
        return Ok(if p > 0.0 { Loss::Bernoulli(p) } else { Loss::None });
    };
    // The percent sign may be separated from its number.
    let joined = rest.replace(" %", "%");
    let values: Vec<f64> = joined.split_whitespace().map(probability).collect::<Result<_, _>>()?;
    match values[..] {
        [p, r] => Ok(Loss::GilbertElliott { p, r, bad: 1.0, good: 0.0 }),
        [p, r, bad] => Ok(Loss::GilbertElliott { p, r, bad, good: 0.0 }),
        [p, r, bad, good] => Ok(Loss::GilbertElliott { p, r, bad, good }),
        _ => Err(format!("`{text}` is not \"gilbert P R [BAD [GOOD]]\"")),
    }
}

fn reorder(text: &str) -> Result<Reorder, String> {
    let joined = text.replace(" %", "%");
    let (share, gap) =
        joined.split_once(' ').ok_or_else(|| format!("`{text}` is not \"share time\", e.g. \"1 % 20 ms\""))?;
    Ok(Reorder { probability: probability(share)?, gap: parse_duration(gap)? })
}

/// Parses two durations in a row, each of which may have several words.
fn two_durations(text: &str) -> Option<(Duration, Duration)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // In `1 h 30 min 10 s`, the first cut that leaves two valid durations counts.
    (1..words.len()).find_map(|cut| {
        let (a, b) = (words[..cut].join(" "), words[cut..].join(" "));
        Some((parse_duration(&a).ok()?, parse_duration(&b).ok()?))
    })
}

fn outages(text: &str) -> Result<Outages, String> {
    let wrong = || format!("`{text}` is not \"exponential UP DOWN\" or \"fixed UP DOWN\"");
    let (kind, times) = text.split_once(' ').ok_or_else(wrong)?;
    let spread = match kind {
        "exponential" => Spread::Exponential,
        "fixed" => Spread::Fixed,
        _ => return Err(wrong()),
    };
    let (up, down) = two_durations(times).ok_or_else(wrong)?;
    Ok(Outages { up, down, spread })
}

/// Parses windows `start .. end`, separated by semicolons; a window's own rate follows after `@`, its own delay after
/// `&`.
fn windows(text: &str) -> Result<Vec<ContactWindow>, String> {
    let window = |text: &str| {
        let (start, end) = text.split_once("..").ok_or_else(|| format!("`{}` is not \"start .. end\"", text.trim()))?;
        let (end, own) = end.split_once('@').unwrap_or((end, ""));
        let (rate, delay) = own.split_once('&').unwrap_or((own, ""));
        let at = |text: &str| parse_duration(text).map(|d| Instant::ZERO + d);
        Ok(ContactWindow {
            rate: (!rate.trim().is_empty()).then(|| rate.trim().parse()).transpose()?,
            delay: (!delay.trim().is_empty()).then(|| parse_duration(delay)).transpose()?,
            ..ContactWindow::new(at(start)?, at(end)?)
        })
    };
    text.split(';').filter(|w| !w.trim().is_empty()).map(window).collect()
}

fn window_text(windows: &[ContactWindow]) -> String {
    let one = |w: &ContactWindow| {
        let at = |t: Instant| exact_time(t - Instant::ZERO);
        let mut text = format!("{} .. {}", at(w.start), at(w.end));
        if w.rate.is_some() || w.delay.is_some() {
            text.push_str(&format!(" @ {}", w.rate.map(exact_rate).unwrap_or_default()));
        }
        if let Some(delay) = w.delay {
            text.push_str(&format!(" & {}", exact_time(delay)));
        }
        text
    };
    windows.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn table(rows: impl Iterator<Item = (Duration, String)>) -> String {
    rows.map(|(at, value)| format!("{}: {value}", exact_time(at))).collect::<Vec<_>>().join("; ")
}

/// Formats a duration with a suitable unit if that is exact, otherwise in nanoseconds.
fn exact_time(duration: Duration) -> String {
    let text = format_duration(duration);
    if parse_duration(&text) == Ok(duration) { text } else { format!("{} ns", duration.as_nanos()) }
}

fn exact_rate(rate: DataRate) -> String {
    let text = rate.to_string();
    if text.parse() == Ok(rate) { text } else { format!("{} bit/s", rate.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DataVolume;

    #[test]
    fn link_spec_parses_from_one_line() {
        let spec = LinkSpec::parse("rate=10 Mbit/s, delay=600 ms, loss=1 %, reverse.rate=1 Mbit/s").unwrap();
        assert_eq!(spec.forward.rate, Rate::Constant(DataRate(10_000_000)));
        assert_eq!(spec.reverse.rate, Rate::Constant(DataRate(1_000_000)));
        assert_eq!(spec.forward.delay, Delay::Constant(Duration::from_millis(600)));
        assert_eq!(spec.reverse.loss, Loss::Bernoulli(0.01));
        // `preset=` may be left out, and later keys override the preset.
        let geo = LinkSpec::preset("geo").unwrap();
        assert_eq!(LinkSpec::parse("geo"), Ok(geo.clone()));
        assert_eq!(LinkSpec::parse("preset=geo,queue=1 MB").unwrap().forward.queue, Some(DataVolume(1_000_000)));
    }

    #[test]
    fn every_key_example_round_trips() {
        for (key, example, meaning) in DirectionSpec::KEYS {
            let mut spec = DirectionSpec::default();
            spec.set(key, example).unwrap();
            assert_ne!(spec, DirectionSpec::default(), "{key}");
            let mut again = DirectionSpec::default();
            again.set(key, &spec.get(key).unwrap()).unwrap();
            assert_eq!(spec, again, "{key}");
            assert!(!meaning.is_empty());
        }
    }

    #[test]
    fn compound_values_round_trip() {
        for (key, value) in [
            ("rate", "0 s: 1 Mbit/s; 1 min: 1234567 bit/s"),
            ("delay", "0 s: 400 ms; 1 h: 700.000001 ms"),
            ("jitter", "normal 5 ms reorder"),
            ("loss", "gilbert 1 % 10 % 50% 1e-6"),
            ("windows", "0 s .. 10 s @ 1 Mbit/s & 300 ms; 20 s .. 30 s @ & 1 s"),
            ("outages", "fixed 1 h 30 min 10 s"),
        ] {
            let mut spec = DirectionSpec::default();
            spec.set(key, value).unwrap();
            let text = spec.get(key).unwrap();
            let mut again = DirectionSpec::default();
            again.set(key, &text).unwrap();
            assert_eq!(spec, again, "{value} -> {text}");
        }
    }

    #[test]
    fn parse_errors_have_hints() {
        for (text, path, hint) in [
            ("rate=fast", "rate", "100 Mbit/s"),
            ("delay=600", "delay", "600 ms"),
            ("loss=200 %", "loss", "1 %"),
            ("speed=1 Mbit/s", "speed", "keys are rate, delay"),
            ("moon", "preset", "lunar-relay"),
            ("geo,loss", "link", "geo,forward.rate"),
            ("reorder=1 %", "reorder", "1 % 20 ms"),
            ("outages=sometimes", "outages", "exponential"),
            // Found by the check of the whole link, which names the direction as well.
            ("windows=9 s .. 1 s", "forward.windows", "the earlier time first"),
        ] {
            let error = LinkSpec::parse(text).unwrap_err();
            assert_eq!(error.path, path, "{text}");
            assert!(error.hint.contains(hint), "{text}: {error}");
        }
    }
}
