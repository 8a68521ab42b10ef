//! The Moon, by the largest terms of its motion: the low-precision formulae of the Astronomical Almanac (page D22),
//! accurate to 0.3 degrees in ecliptic longitude, 0.2 in latitude, and 0.3 % in distance.

use crate::moment::{CENTURY_S, seconds};
use crate::reach::MotionBounds;
use crate::vector::{StateVector, Vector, vector};
use libm::{cos, sin, sincos};

/// Amplitude, phase at J2000, and phase change per century, all in degrees.
type Term = [f64; 3];

const LONGITUDE: [Term; 6] = [
    [6.29, 135.0, 477_198.87],
    [-1.27, 259.3, -413_335.36],
    [0.66, 235.7, 890_534.22],
    [0.21, 269.9, 954_397.74],
    [-0.19, 357.5, 35_999.05],
    [-0.11, 186.5, 966_404.03],
];
const LATITUDE: [Term; 4] =
    [[5.13, 93.3, 483_202.02], [0.28, 228.2, 960_400.89], [-0.28, 318.3, 6003.15], [-0.17, 217.6, -407_332.21]];
// Cosine terms of the parallax, in addition to the constant 0.9508 degrees.
const PARALLAX: [Term; 4] = [
    [0.0518, 135.0, 477_198.87],
    [0.0095, 259.3, -413_335.36],
    [0.0078, 235.7, 890_534.22],
    [0.0028, 269.9, 954_397.74],
];
// Radius of the Earth to which the parallax refers, in kilometres.
const EARTH_KM: f64 = 6378.14;

/// A periodic term: amplitude in radians, phase at the plan's start in radians, and rate in rad/s.
#[derive(Clone, Copy, Debug)]
struct Wave {
    weight: f64,
    start: f64,
    rate: f64,
}
impl Wave {
    fn new([weight, start, a_century]: Term, centuries: f64) -> Wave {
        Wave {
            weight: weight.to_radians(),
            start: (start + a_century * centuries).rem_euclid(360.0).to_radians(),
            rate: a_century.to_radians() / CENTURY_S,
        }
    }
    fn angle(&self, t: f64) -> f64 {
        self.start + self.rate * t
    }
}

/// The Moon's orbit around the Earth, relative to the equator and equinox of the plan's date.
#[derive(Clone, Debug)]
pub struct Moon {
    longitude: Wave,
    in_longitude: [Wave; 6],
    in_latitude: [Wave; 4],
    in_parallax: [Wave; 4],
    /// Sine and cosine of the obliquity of the ecliptic.
    tilt: (f64, f64),
}

// Half of the interval over which a velocity is computed, in nanoseconds.
const MOMENT_NS: i64 = 10_000_000_000;

impl Moon {
    /// Creates the orbit for plans that start at a date, in centuries of terrestrial time since J2000.0.
    pub fn new(centuries: f64) -> Moon {
        Moon {
            longitude: Wave::new([1.0, 218.32, 481_267.881], centuries),
            in_longitude: LONGITUDE.map(|term| Wave::new(term, centuries)),
            in_latitude: LATITUDE.map(|term| Wave::new(term, centuries)),
            in_parallax: PARALLAX.map(|term| Wave::new(term, centuries)),
            tilt: sincos((23.439_291 - 0.013_004_2 * centuries).to_radians()),
        }
    }

    /// Bounds of the orbit, from the sums of the absolute terms.
    pub fn reach(&self) -> MotionBounds {
        let rates = |waves: &[Wave]| waves.iter().map(|wave| (wave.weight * wave.rate).abs()).sum::<f64>();
        let parallaxes: f64 = self.in_parallax.iter().map(|wave| wave.weight.abs()).sum();
        let mean = 0.9508f64.to_radians();
        let (near, far) = (EARTH_KM / sin(mean + parallaxes), EARTH_KM / sin(mean - parallaxes));
        let along = far * (self.longitude.rate + rates(&self.in_longitude));
        let across = far * rates(&self.in_latitude);
        let outward = far * rates(&self.in_parallax) / (mean - parallaxes);
        let speed = (along * along + across * across + outward * outward).sqrt();
        // The gravity of Earth and Sun at perigee is 3.1e-6 km/s²; twice that covers the terms left
        // out.
        MotionBounds { nearest_km: near, farthest_km: far, speed_km_s: speed, turn_km_s2: 8e-6 }
    }

    /// Position and velocity at a time in nanoseconds from the plan's start.
    pub fn state(&self, time: i64) -> StateVector {
        // A central difference: the derivative of the series would repeat all terms.
        let apart = self.place(time + MOMENT_NS) - self.place(time - MOMENT_NS);
        StateVector { position: self.place(time), velocity: apart * (0.5 / seconds(MOMENT_NS)) }
    }

    /// Position relative to the Earth, in kilometres.
    pub fn place(&self, time: i64) -> Vector {
        let t = seconds(time);
        let sines = |waves: &[Wave]| waves.iter().map(|wave| wave.weight * sin(wave.angle(t))).sum::<f64>();
        let (sl, cl) = sincos(self.longitude.angle(t) + sines(&self.in_longitude));
        let (sb, cb) = sincos(sines(&self.in_latitude));
        let parallax = self.in_parallax.iter().map(|wave| wave.weight * cos(wave.angle(t))).sum::<f64>();
        let (se, ce) = self.tilt;
        let distance = EARTH_KM / sin(0.9508f64.to_radians() + parallax);
        vector(cb * cl, ce * cb * sl - se * sb, se * cb * sl + ce * sb) * distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::{SECOND, centuries};
    use farlink_base::DtnTime;

    fn moon(utc: &str) -> Moon {
        Moon::new(centuries(DtnTime::parse_utc(utc).unwrap()))
    }

    #[test]
    fn moon_distance_matches_published_perigee() {
        // The full moon of 2016-11-14, 11:23 UTC, at 356,509 km, was the closest of 2001 to 2025.
        let distance = moon("2016-11-14T11:23:00Z").place(0).length();
        assert!((distance - 356_509.0).abs() < 0.003 * 356_509.0, "{distance}");
    }

    #[test]
    fn moon_bounds_hold_for_a_year() {
        for date in ["2001-03-09T00:00:00Z", "2026-11-20T09:00:00Z"] {
            let moon = moon(date);
            let reach = moon.reach();
            assert!(reach.speed_km_s < 1.5 && reach.nearest_km > 350_000.0 && reach.farthest_km < 417_000.0);
            for hour in 0..9000 {
                let time = hour * 3600 * SECOND;
                let StateVector { position, velocity } = moon.state(time);
                assert!((reach.nearest_km..=reach.farthest_km).contains(&position.length()), "{hour}");
                assert!(velocity.length() <= reach.speed_km_s && velocity.length() > 0.9, "{hour}");
                let turned = (moon.state(time + 60 * SECOND).velocity - velocity).length() / 60.0;
                assert!(turned <= reach.turn_km_s2, "{hour}: {turned}");
            }
        }
    }
}
