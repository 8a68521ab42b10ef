//! Parsing of lengths, angles and coordinates.

/// Splits a text into a number and the rest.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    number.is_finite().then(|| (number, text.get(end..).unwrap_or("").trim()))
}

/// Parses a length with its unit m, km or AU (astronomical units); in kilometres.
///
/// # Errors
/// A message if the text is no length.
pub fn length_km(text: &str) -> Result<f64, String> {
    let length = split(text).and_then(|(number, unit)| {
        let unit_km = match unit {
            "m" => 1e-3,
            "km" => 1.0,
            "AU" | "au" => crate::bodies::UNIT_KM,
            _ => return None,
        };
        Some(number * unit_km).filter(|km| km.abs() < 1e13)
    });
    length.ok_or_else(|| format!("`{text}` is not a length; write e.g. \"550 km\", \"120 m\" or \"1.5 AU\""))
}

/// Parses an angle with its unit deg, ° or rad; in radians.
///
/// # Errors
/// A message if the text is no angle.
pub fn angle(text: &str) -> Result<f64, String> {
    let angle = split(text).and_then(|(number, unit)| match unit {
        "deg" | "°" => Some(number.to_radians()),
        "rad" => Some(number),
        _ => None,
    });
    let angle = angle.filter(|angle| angle.abs() <= 1e4);
    angle.ok_or_else(|| format!("`{text}` is not an angle; write e.g. \"53 deg\""))
}

/// Parses a latitude or longitude, as an angle or as degrees with a letter (`52.5 N`, `13.4 E`); in radians.
///
/// # Errors
/// A message if the text is no coordinate, or exceeds `most` degrees.
pub fn coordinate(text: &str, [positive, negative]: [char; 2], most: f64) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not one; write e.g. \"52.5 {positive}\", \"52.5 {negative}\" or \"-52.5 deg\"");
    let trimmed = text.trim();
    let radians = match trimmed.chars().last() {
        Some(letter) if letter == positive || letter == negative => {
            let rest = trimmed.trim_end_matches(letter).trim_end();
            let rest = rest.strip_suffix("deg").or(rest.strip_suffix('°')).unwrap_or(rest);
            let (number, nothing) = split(rest).ok_or_else(wrong)?;
            if !nothing.is_empty() || number < 0.0 {
                return Err(wrong());
            }
            if letter == positive { number.to_radians() } else { -number.to_radians() }
        }
        _ => angle(text).map_err(|_| wrong())?,
    };
    // The tolerance lets the limit itself pass after the conversion to radians.
    if radians.abs() <= most.to_radians() + 1e-12 {
        Ok(radians)
    } else {
        Err(format!("`{text}` is beyond {most} degrees"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_angles_have_units() {
        assert_eq!(length_km("550 km"), Ok(550.0));
        assert_eq!(length_km("-400m"), Ok(-0.4));
        assert_eq!(length_km("1 AU"), Ok(149_597_870.7));
        assert_eq!(angle("180 deg"), Ok(std::f64::consts::PI));
        assert_eq!(angle("90°"), Ok(std::f64::consts::FRAC_PI_2));
        assert_eq!(angle("1 rad"), Ok(1.0));
        for bad in ["", "km", "550", "5 miles", "nan km", "1e3 km", "--1 km", "99999999999999 km"] {
            assert!(length_km(bad).is_err(), "{bad}");
        }
        for bad in ["", "53", "53 grad", "inf deg", "deg", "9999999 deg"] {
            assert!(angle(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn coordinates_may_name_their_side() {
        let latitude = |text| coordinate(text, ['N', 'S'], 90.0);
        assert_eq!(latitude("52.5 N"), Ok(52.5f64.to_radians()));
        assert_eq!(latitude("52.5° S"), Ok((-52.5f64).to_radians()));
        assert_eq!(latitude("-52.5 deg"), latitude("52.5 deg S"));
        for bad in ["52.5", "N", "52.5 E", "-3 N", "90.1 N", "1 2 N", "5 N N x"] {
            assert!(latitude(bad).is_err(), "{bad}");
        }
        assert!(coordinate("180 W", ['E', 'W'], 180.0).is_ok());
    }
}
