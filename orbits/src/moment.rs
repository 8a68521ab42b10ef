//! Time in whole nanoseconds from the start of a plan, and the astronomical time scales derived from it.

use farlink_base::DtnTime;
use std::f64::consts::TAU;

/// Nanoseconds per second.
pub const SECOND: i64 = 1_000_000_000;

/// Converts nanoseconds to seconds.
pub fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Converts seconds to whole nanoseconds, rounding up: an edge lies in the first whole nanosecond that is not before
/// it. All conversions go through this function.
pub fn whole(seconds: f64) -> i64 {
    (seconds * 1e9).ceil() as i64
}

// Terrestrial time minus UTC in seconds, valid since 2017. In 2000 it was 5 s less, in which a
// planet moves 200 km.
const UNIFORM_AHEAD_S: f64 = 69.184;

// Days in a Julian century.
const CENTURY_D: f64 = 36_525.0;

/// Rotation rate of the Earth relative to its equinox, in rad/s (IAU 1982).
pub const EARTH_TURN: f64 = TAU * 1.002_737_909_350_795 / 86_400.0;

/// Days of UTC since noon of 2000-01-01.
fn days_utc(time: DtnTime) -> f64 {
    // DTN time begins at midnight, twelve hours before this epoch.
    let (days, ms) = (time.as_millis() / 86_400_000, time.as_millis() % 86_400_000);
    days as f64 - 0.5 + ms as f64 / 86_400_000.0
}

/// Days of terrestrial time since J2000.0.
pub fn days_uniform(time: DtnTime) -> f64 {
    days_utc(time) + UNIFORM_AHEAD_S / 86_400.0
}

/// Julian centuries of terrestrial time since J2000.0.
pub fn centuries(time: DtnTime) -> f64 {
    days_uniform(time) / CENTURY_D
}

/// Seconds in a Julian century.
pub const CENTURY_S: f64 = CENTURY_D * 86_400.0;

/// Greenwich mean sidereal time in radians (IAU 1982; Aoki et al. 1982). UTC stands in for UT1: they differ by less
/// than 0.9 s, in which a point on the equator moves by 420 m.
pub fn sidereal(time: DtnTime) -> f64 {
    let centuries = days_utc(time) / CENTURY_D;
    let seconds =
        67_310.548_41 + (876_600.0 * 3600.0 + 8_640_184.812_866) * centuries + 0.093_104 * centuries * centuries
            - 6.2e-6 * centuries * centuries * centuries;
    (seconds / 86_400.0).rem_euclid(1.0) * TAU
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> DtnTime {
        DtnTime::parse_utc(text).unwrap()
    }

    #[test]
    fn sidereal_time_is_the_almanacs() {
        // Sidereal time at noon of 2000-01-01: 18 h 41 min 50.54841 s (Explanatory Supplement,
        // 2.24).
        assert!((sidereal(utc("2000-01-01T12:00:00Z")).to_degrees() - 280.460_618_37).abs() < 1e-8);
        // In a day the Earth turns by 0.98564736629 degrees more than once.
        let turned = sidereal(utc("2000-01-02T12:00:00Z")) - sidereal(utc("2000-01-01T12:00:00Z"));
        assert!((turned.to_degrees() - 0.985_647_366).abs() < 1e-7);
        assert!((EARTH_TURN * 86_400.0 - TAU - turned).abs() < 1e-9);
    }

    #[test]
    fn edges_round_up() {
        assert_eq!([whole(1.0), whole(1.2e-9), whole(-1.2e-9), whole(0.0)], [SECOND, 2, -1, 0]);
        assert_eq!(seconds(1_500_000_000), 1.5);
    }

    #[test]
    fn uniform_time_is_ahead() {
        let ahead = days_uniform(utc("2000-01-01T12:00:00Z")) * 86_400.0;
        assert!((ahead - 69.184).abs() < 1e-6);
        assert!((centuries(utc("2026-01-01T12:00:00Z")) - 0.260_013_7).abs() < 1e-6);
    }
}
