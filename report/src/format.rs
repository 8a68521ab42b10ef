//! Number formatting for people: three significant digits and a unit.

/// Kind of quantity, which determines the unit and the number format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// A number of items, written as an integer.
    Count,
    /// A duration in seconds.
    Seconds,
    /// A data rate in bit/s.
    Rate,
    /// A data volume in bytes.
    Bytes,
    /// A fraction from 0 to 1, written in percent.
    Share,
    /// A dimensionless ratio.
    Ratio,
    /// A percentage, which may exceed 100: use of several processors.
    Percent,
}

/// Formats with three significant digits and without trailing zeros; all digits before the decimal point are kept. `-`
/// if the value is not finite.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "-".into() };
    }
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Formats an integer with commas between groups of thousands.
pub fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if value < 0.0 { format!("-{out}") } else { out }
}

/// A number of things with their noun: `1 bundle`, `1,200 bundles`.
pub fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(number as f64))
}

/// Formats a relative difference: `+5 %`, `-0.3 %`, `equal`; `< 0.01 %` below half of that.
pub fn difference(relative: f64) -> String {
    if relative == 0.0 {
        return "equal".into();
    }
    if relative.abs() < 5e-5 {
        return "< 0.01 %".into();
    }
    let sign = if relative > 0.0 { "+" } else { "-" };
    let percent = relative.abs() * 100.0;
    // Two significant digits suffice for a small difference.
    let digit = if percent < 10.0 { 10f64.powf(percent.log10().floor() - 1.0) } else { 0.1 };
    format!("{sign}{} %", significant((percent / digit).round() * digit))
}

impl Quantity {
    /// Base unit, as in JSON: `s`, `bit/s`, `B`, `%`, or empty.
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::Seconds => "s",
            Quantity::Rate => "bit/s",
            Quantity::Bytes => "B",
            Quantity::Percent => "%",
            Quantity::Count | Quantity::Share | Quantity::Ratio => "",
        }
    }
    /// Formats the value with its unit.
    pub fn text(self, value: f64) -> String {
        if self == Quantity::Count {
            return grouped(value);
        }
        // One lost in ten thousand must not read as 100 %.
        if self == Quantity::Share && (0.995..1.0).contains(&value) {
            let missing = (1.0 - value) * 100.0;
            let decimals = (-(missing * 1.0001).log10().floor() as i32).clamp(1, 9) as usize;
            return format!("{:.decimals$} %", value * 100.0);
        }
        let scale = self.scale(value.abs());
        let number = significant(value / scale.factor);
        match scale.unit.as_str() {
            "" => number,
            unit => format!("{number} {unit}"),
        }
    }
    /// Chooses the factor and unit for values up to `largest`.
    pub fn scale(self, largest: f64) -> Scale {
        // A value that rounds up to the next unit is written in it: 1 ms, not 1000 µs.
        let largest = largest * 1.0005;
        let prefixed = |unit: &str| {
            let (factor, prefix) = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
                .into_iter()
                .find(|(factor, _)| largest >= *factor)
                .unwrap_or((1.0, ""));
            Scale { factor, unit: format!("{prefix}{unit}") }
        };
        let plain = |factor: f64, unit: &str| Scale { factor, unit: unit.to_string() };
        match self {
            Quantity::Rate => prefixed("bit/s"),
            Quantity::Bytes => prefixed("B"),
            Quantity::Share => plain(0.01, "%"),
            Quantity::Count | Quantity::Ratio => plain(1.0, ""),
            Quantity::Percent => plain(1.0, "%"),
            Quantity::Seconds if largest == 0.0 => plain(1.0, "s"),
            Quantity::Seconds if largest < 1e-3 => plain(1e-6, "µs"),
            Quantity::Seconds if largest < 1.0 => plain(1e-3, "ms"),
            Quantity::Seconds if largest < 120.0 => plain(1.0, "s"),
            Quantity::Seconds if largest < 7200.0 => plain(60.0, "min"),
            Quantity::Seconds if largest < 172_800.0 => plain(3600.0, "h"),
            Quantity::Seconds if largest < 63_115_200.0 => plain(86_400.0, "d"),
            Quantity::Seconds => plain(31_557_600.0, "years"),
        }
    }
}

/// Factor and unit shared by the values of one axis or cell.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    /// Divisor from base units to `unit`.
    pub factor: f64,
    /// Unit of the scaled values, such as `ms`.
    pub unit: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_short_and_have_units() {
        for (quantity, value, text) in [
            (Quantity::Count, 1_234_567.0, "1,234,567"),
            (Quantity::Count, 800.0, "800"),
            (Quantity::Seconds, 0.0, "0 s"),
            (Quantity::Seconds, 0.000_021_3, "21.3 µs"),
            (Quantity::Seconds, 1.30049, "1.3 s"),
            (Quantity::Seconds, 0.000_999_9, "1 ms"),
            (Quantity::Seconds, 75.0, "75 s"),
            (Quantity::Seconds, 1450.0, "24.2 min"),
            (Quantity::Seconds, 8000.0, "2.22 h"),
            (Quantity::Seconds, 31_557_600.0, "365 d"),
            (Quantity::Seconds, 94_672_800.0, "3 years"),
            (Quantity::Rate, 94_260_000.0, "94.3 Mbit/s"),
            (Quantity::Rate, 999.0, "999 bit/s"),
            (Quantity::Bytes, 2.0e8, "200 MB"),
            (Quantity::Share, 0.9999, "99.99 %"),
            (Quantity::Share, 1.0, "100 %"),
            (Quantity::Share, 0.001, "0.1 %"),
            (Quantity::Ratio, 3.1249, "3.12"),
            (Quantity::Percent, 187.3, "187 %"),
        ] {
            assert_eq!(quantity.text(value), text);
        }
    }

    #[test]
    fn single_things_have_singular_nouns() {
        let texts = [0, 1, 1200].map(|number| counted(number, "bundle"));
        assert_eq!(texts, ["0 bundles", "1 bundle", "1,200 bundles"]);
    }

    #[test]
    fn differences_have_sign_and_percent() {
        assert_eq!(difference(0.0), "equal");
        assert_eq!(difference(0.05), "+5 %");
        assert_eq!(difference(-0.1234), "-12.3 %");
        assert_eq!(difference(0.035_14), "+3.5 %");
        assert_eq!(difference(0.002_44), "+0.24 %");
        assert_eq!(difference(2.5), "+250 %");
        assert_eq!(difference(1e-6), "< 0.01 %");
        assert_eq!(significant(1234.5), "1234");
        assert_eq!(significant(f64::NAN), "-");
    }
}
