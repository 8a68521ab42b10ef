//! Satellites around the Earth and stations on it: angles in radians, lengths in metres.

use farlink_config::Input;
use std::f64::consts::FRAC_PI_2;

/// A Walker constellation around the Earth: satellites evenly over planes, planes evenly around the equator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Walker {
    /// Number of orbital planes.
    pub planes: u32,
    /// Number of satellites in each plane.
    pub per_plane: u32,
    /// Inclination of each plane to the equator.
    pub inclination: f64,
    /// Altitude above the equatorial radius.
    pub altitude: f64,
    /// Phase by which each plane is ahead of the previous one, in units of a full turn divided by the number of all
    /// satellites.
    pub phasing: u32,
    /// Whether ascending nodes spread over half of the equator instead of all of it.
    pub star: bool,
}

impl Walker {
    /// Number of all satellites.
    pub fn count(&self) -> usize {
        self.planes as usize * self.per_plane as usize
    }
}

/// A place on the ground of the Earth.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Site {
    /// Geodetic latitude, north positive.
    pub latitude: f64,
    /// Longitude, east positive.
    pub longitude: f64,
    /// Altitude above the ellipsoid.
    pub altitude: f64,
}

/// Line-of-sight rule for pairs of satellites and stations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sight {
    /// Pairs that may be in contact.
    pub neighbours: Neighbours,
    /// Greatest distance; `None`: unlimited.
    pub range: Option<f64>,
    /// Least elevation at which a station sees a satellite.
    pub mask: f64,
    /// Least height above the ground of the line between two satellites.
    pub clearance: f64,
}

/// Pairs of nodes that may be in contact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Neighbours {
    /// Each station and each satellite.
    Ground,
    /// Satellites that follow each other in a plane of a constellation.
    Ring,
    /// As `Ring`, and satellites beside each other in neighbouring planes.
    Grid,
    /// All pairs that include a satellite.
    All,
}

/// Words of `neighbours`, in the order of [`Neighbours`].
pub const NEIGHBOURS: &[&str] = &["ground", "ring", "grid", "all"];
/// Values of the words of [`NEIGHBOURS`], in the same order.
pub const ALL_NEIGHBOURS: [Neighbours; 4] = [Neighbours::Ground, Neighbours::Ring, Neighbours::Grid, Neighbours::All];

/// Angle in radians: `"53 deg"`, between bounds in degrees.
///
/// # Errors
/// The text is no angle, or out of bounds.
pub fn angle(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let trimmed = text.trim();
    let number = trimmed.strip_suffix("deg").or(trimmed.strip_suffix('°'));
    let degrees = number.and_then(|number| number.trim().parse::<f64>().ok()).filter(|degrees| degrees.is_finite());
    let degrees = degrees.ok_or_else(|| format!("`{text}` is not an angle; write e.g. \"53 deg\""))?;
    match (least..=most).contains(&degrees) {
        true => Ok(degrees.to_radians()),
        false => Err(format!("`{text}` is not between {least} and {most} degrees")),
    }
}

/// Latitude or longitude in radians: degrees with a letter (`52.5 N`), or with `deg` and a sign.
fn coordinate(text: &str, [positive, negative]: [char; 2], most: f64) -> Result<f64, String> {
    let trimmed = text.trim();
    let sign = match trimmed.chars().last() {
        Some(letter) if letter == positive => 1.0,
        Some(letter) if letter == negative => -1.0,
        _ => return angle(text, -most, most),
    };
    // A letter gives the sign, so the number before it must not have one: the least is 0.
    let rest = trimmed.trim_end_matches([positive, negative]);
    let degrees = angle(&format!("{} deg", rest.trim_end().trim_end_matches("deg").trim_end_matches('°')), 0.0, most);
    let wrong = |_| format!("`{text}` is none; write e.g. \"52.5 {positive}\" or \"52.5 {negative}\", up to {most}");
    degrees.map(|radians| sign * radians).map_err(wrong)
}

/// Places on the ground: a list of [latitude, longitude] or [latitude, longitude, altitude].
///
/// # Errors
/// The first entry that is no place.
pub fn sites(input: Input<'_, '_>) -> Result<Vec<Site>, String> {
    input.items()?.iter().map(|item| site(Input::Given(item.get_ref()))).collect()
}

fn site(input: Input<'_, '_>) -> Result<Site, String> {
    let items = input.items()?;
    let text = |place: usize| items.get(place).map_or(Ok("0 m"), |item| Input::Given(item.get_ref()).text());
    if !(2..=3).contains(&items.len()) {
        return Err(format!("expected latitude, longitude and perhaps altitude, found {} entries", items.len()));
    }
    let height = text(2)?;
    // Lengths are never negative, but places such as the Dead Sea lie below the ellipsoid.
    let (below, height) = height.trim().strip_prefix('-').map_or((1.0, height), |rest| (-1.0, rest));
    let altitude = below * super::quantities::length(height)?;
    if altitude.abs() > 1e5 {
        return Err("an altitude of more than 100 km is not on the ground".into());
    }
    let (latitude, longitude) = (coordinate(text(0)?, ['N', 'S'], 90.0)?, coordinate(text(1)?, ['E', 'W'], 180.0)?);
    // The conversion to radians may round 90 degrees up, past the pole.
    Ok(Site { latitude: latitude.clamp(-FRAC_PI_2, FRAC_PI_2), longitude, altitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_and_coordinates_need_units() {
        assert_eq!(
            (angle("180 deg", 0.0, 180.0), angle("-5°", -10.0, 90.0)),
            (Ok(std::f64::consts::PI), Ok((-5f64).to_radians()))
        );
        let latitude = |text| coordinate(text, ['N', 'S'], 90.0);
        assert_eq!((latitude("52.5 N"), latitude("52.5 S")), (Ok(52.5f64.to_radians()), Ok((-52.5f64).to_radians())));
        assert_eq!((latitude("-3 deg"), latitude("3 deg S")), (Ok((-3f64).to_radians()), Ok((-3f64).to_radians())));
        for wrong in ["", "N", "52.5", "91 N", "-3 N", "5 E", "5 N S", "nan N", "1e999 N", "inf deg", "NN", "5 NN deg"]
        {
            assert!(latitude(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "53", "deg", "53 rad", "191 deg", "-11 deg", "NaN deg"] {
            assert!(angle(wrong, -10.0, 190.0).is_err(), "{wrong}");
        }
    }
}
