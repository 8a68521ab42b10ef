//! Lengths and speeds with their units, and spans of them.

use super::text::Point;
use farlink_base::parse_duration;
use farlink_config::Input;
use toml::de::DeValue;

/// Splits a quantity into a number, not negative, and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_alphabetic())?;
    let number = text[..unit].trim().parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number, &text[unit..]))
}

/// Length in metres: `"150 m"`, `"1.5 km"`; not negative.
///
/// # Errors
/// The text is no length.
pub fn length(text: &str) -> Result<f64, String> {
    let metres = match split(text) {
        Some((number, "m")) => number,
        Some((number, "km")) => number * 1e3,
        _ => return Err(format!("`{text}` is not a length; write e.g. \"150 m\" or \"1.5 km\"")),
    };
    // Beyond 1e12 m a double no longer resolves a tenth of a millimetre.
    if metres <= 1e12 { Ok(metres) } else { Err(format!("`{text}` is more than 1000000000 km")) }
}

/// Speed in metres a second: `"1.5 m/s"`, `"50 km/h"`, `"7.6 km/s"`; above zero.
///
/// # Errors
/// The text is no speed.
pub fn speed(text: &str) -> Result<f64, String> {
    let speed = match split(text) {
        Some((number, "m/s")) => number,
        Some((number, "km/h")) => number / 3.6,
        Some((number, "km/s")) => number * 1e3,
        _ => return Err(format!("`{text}` is not a speed; write e.g. \"1.5 m/s\" or \"50 km/h\"")),
    };
    // Slower than 1 mm/s is standing still; 1000 km/s is faster than any probe.
    if (1e-3..=1e6).contains(&speed) { Ok(speed) } else { Err(format!("`{text}` is not between 1 mm/s and 1000 km/s")) }
}

/// Duration in seconds: `"2 min"`, `"600 ms"`.
///
/// # Errors
/// The text is no duration.
pub fn seconds(text: &str) -> Result<f64, String> {
    parse_duration(text).map(|duration| duration.as_secs_f64())
}

/// One quantity, or the least and the largest.
///
/// # Errors
/// A wrong unit, or a least above the largest.
pub fn span(input: Input<'_, '_>, read: impl Fn(&str) -> Result<f64, String>) -> Result<[f64; 2], String> {
    if let Input::Given(DeValue::Array(items)) = input {
        let [least, most] = &items[..] else {
            return Err(format!("expected [least, most], found {} entries", items.len()));
        };
        let value = |item: &farlink_config::SpannedValue<'_>| read(Input::Given(item.get_ref()).text()?);
        let span = [value(least)?, value(most)?];
        return if span[0] <= span[1] { Ok(span) } else { Err("the least is more than the most".into()) };
    }
    let value = read(input.text()?)?;
    Ok([value; 2])
}

/// The side of a square, or width and height of a rectangle; above zero.
///
/// # Errors
/// A wrong unit, or a side of zero.
pub fn area(input: Input<'_, '_>) -> Result<Point, String> {
    let area = match input {
        Input::Given(DeValue::Array(_)) => pair(input)?,
        _ => [length(input.text()?)?; 2],
    };
    if area.iter().all(|side| *side > 0.0) { Ok(area) } else { Err("an area of no width or no height".into()) }
}

/// Points: a list of [x, y].
///
/// # Errors
/// The first entry that is no pair of lengths.
pub fn points(input: Input<'_, '_>) -> Result<Vec<Point>, String> {
    input.items()?.iter().map(|item| pair(Input::Given(item.get_ref()))).collect()
}

fn pair(input: Input<'_, '_>) -> Result<Point, String> {
    let items = input.items()?;
    let [x, y] = items else { return Err(format!("expected two lengths, found {}", items.len())) };
    Ok([length(Input::Given(x.get_ref()).text()?)?, length(Input::Given(y.get_ref()).text()?)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_speeds_need_units() {
        assert_eq!((length("150 m"), length("1.5km"), length(" 0 m ")), (Ok(150.0), Ok(1500.0), Ok(0.0)));
        assert_eq!((speed("1.5 m/s"), speed("36 km/h"), speed("7.5 km/s")), (Ok(1.5), Ok(10.0), Ok(7500.0)));
        for wrong in ["", "150", "m", "1 mile", "-5 m", "NaN m", "1e400 m", "1 2 m", "5 m/s", "1e13 m", "m 5"] {
            assert!(length(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0 m/s", "5 m", "-1 m/s", "9e9 m/s"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
