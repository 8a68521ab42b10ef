//! Number formatting: `Double.toString` and `String.format("%.4f")`.

/// Shortest digits that identify a number, without leading or trailing zeros, and the power of ten of the first digit.
fn digits(value: f64) -> (String, i32) {
    let text = format!("{:e}", value.abs());
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: String = digits.chars().filter(|&c| c != '.').collect();
    (digits, power.parse().unwrap_or(0))
}

/// Formats as `Double.toString`: at least one decimal, exponents from 10^7 and below 10^-3.
pub fn double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_infinite() {
        return format!("{sign}Infinity");
    }
    if value == 0.0 {
        return format!("{sign}0.0");
    }
    let (digits, power) = digits(value);
    if !(-3..7).contains(&power) {
        let (first, rest) = digits.split_at(1);
        return format!("{sign}{first}.{}E{power}", if rest.is_empty() { "0" } else { rest });
    }
    let (whole, part) = at_point(&digits, power);
    format!("{sign}{whole}.{}", if part.is_empty() { "0" } else { &part })
}

/// Digits before and after the decimal point.
fn at_point(digits: &str, power: i32) -> (String, String) {
    if power < 0 {
        return ("0".into(), "0".repeat((-power - 1) as usize) + digits);
    }
    let before = power as usize + 1;
    if digits.len() <= before {
        return (digits.to_string() + &"0".repeat(before - digits.len()), String::new());
    }
    (digits[..before].into(), digits[before..].into())
}

/// Formats as `String.format("%.<places>f")`: Java rounds the digits of `Double.toString`, halves away from zero.
pub fn fixed(value: f64, places: usize) -> String {
    if !value.is_finite() {
        return double(value);
    }
    let (digits, power) = if value == 0.0 { ("0".into(), 0) } else { digits(value) };
    let (whole, mut part) = at_point(&digits, power);
    // Java rounds the shortest decimal digits, not the binary value: 0.12345 becomes 0.1235.
    let up = part.as_bytes().get(places).is_some_and(|&digit| digit >= b'5');
    part.truncate(places);
    part += &"0".repeat(places - part.len());
    let mut all = (whole + &part).into_bytes();
    if up {
        raise(&mut all);
    }
    let text = String::from_utf8(all).unwrap_or_default();
    let (whole, part) = text.split_at(text.len() - places);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// Adds one to the last of decimal digits.
fn raise(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit != b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_in_java() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (95.19999999999887, "95.19999999999887"),
            (43200.1, "43200.1"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (123_456_789.5, "1.234567895E8"),
            (-2.5e-7, "-2.5E-7"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(double(value), text);
        }
        assert_eq!(double(f64::NAN), "NaN");
    }

    #[test]
    fn fixed_numbers_round_half_up() {
        for (value, places, text) in [
            (0.2585034, 4, "0.2585"),
            (0.00005, 4, "0.0001"),
            (0.12345, 4, "0.1235"), // below one half in binary: what C prints ends in 4
            (1.00005, 4, "1.0001"),
            (999.99995, 4, "1000.0000"),
            (43200.0, 4, "43200.0000"),
            (-0.5, 0, "-1"),
            (1e9, 2, "1000000000.00"),
            (3e-9, 4, "0.0000"),
            (0.0, 4, "0.0000"),
        ] {
            assert_eq!(fixed(value, places), text, "{value}");
        }
        assert_eq!(fixed(f64::NAN, 4), "NaN");
    }
}
