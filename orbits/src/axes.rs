//! Reference axes in which positions and rotations of the bodies are given.

use crate::bodies::SpinRow;
use crate::moment::{centuries, days_uniform, seconds};
use crate::vector::{Axes, Vector, vector};
use farlink_base::DtnTime;
use libm::sincos;

// Obliquity of the ecliptic at J2000, in degrees (IAU 1976).
const TILT: f64 = 23.439_291_11;

/// Rotation of a body.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    /// Body axes at rest: `z` is the axis of rotation, and `x` the origin of the prime meridian's angle.
    pub axes: Axes,
    /// Angle of the prime meridian at the plan's start, in radians.
    pub(crate) start: f64,
    /// Rotation rate in rad/s.
    pub rate: f64,
}
impl Spin {
    /// Axes that rotate with the body: through the prime meridian, 90 degrees east, and north.
    pub fn ground(&self, time: i64) -> Axes {
        self.axes.turned(self.start + self.rate * seconds(time))
    }
    /// Angular velocity in rad/s.
    pub fn turning(&self) -> Vector {
        self.axes.z * self.rate
    }
}

/// Axes of the ecliptic of J2000, relative to the equator of J2000.
pub fn ecliptic() -> Axes {
    let (sine, cosine) = sincos(TILT.to_radians());
    Axes { x: vector(1.0, 0.0, 0.0), y: vector(0.0, cosine, sine), z: vector(0.0, -sine, cosine) }
}

/// Precession: the axes of J2000 relative to the equator of a date, in Julian centuries since J2000 (IAU 1976; Lieske
/// 1979).
pub fn precession(t: f64) -> Axes {
    let angle = |[one, two, three]: [f64; 3]| sincos(((one + (two + three * t) * t) * t / 3600.0).to_radians());
    let (s1, c1) = angle([2306.2181, 0.301_88, 0.017_998]);
    let (s2, c2) = angle([2306.2181, 1.094_68, 0.018_203]);
    let (s3, c3) = angle([2004.3109, -0.426_65, -0.041_833]);
    Axes {
        x: vector(c2 * c3 * c1 - s2 * s1, s2 * c3 * c1 + c2 * s1, s3 * c1),
        y: vector(-c2 * c3 * s1 - s2 * c1, -s2 * c3 * s1 + c2 * c1, -s3 * s1),
        z: vector(-c2 * s3, -s2 * s3, c3),
    }
}

/// Rotation of a body from the plan's start on.
pub fn turning(name: &str, row: &SpinRow, start: DtnTime, precession: &Axes) -> Spin {
    let (t, days) = (centuries(start), days_uniform(start));
    let [mut ascension, ascension_rate, mut declination, declination_rate, mut meridian, a_day] = *row;
    ascension += ascension_rate * t;
    declination += declination_rate * t;
    if name == "moon" {
        // Largest term of the libration in the pole and meridian, with a period of 18.6 years.
        let (sine, cosine) = sincos((125.045 - 0.052_992_1 * days).to_radians());
        ascension -= 3.8787 * sine;
        declination += 1.5419 * cosine;
        meridian += 3.5610 * sine;
    }
    let ((sa, ca), (sd, cd)) = (sincos(ascension.to_radians()), sincos(declination.to_radians()));
    let z = vector(cd * ca, cd * sa, sd);
    let x = vector(-sa, ca, 0.0);
    let axes = precession.carry(&Axes { x, y: z.cross(x), z });
    // The number of turns since J2000 is large, so whole turns are removed before the conversion.
    let turned = (meridian + (a_day * days).rem_euclid(360.0)).to_radians();
    Spin { axes, start: turned, rate: a_day.to_radians() / 86_400.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precession_moves_equinox_as_published() {
        let moved = precession(0.26);
        for (one, other) in [(moved.x, moved.y), (moved.y, moved.z), (moved.z, moved.x)] {
            assert!(one.dot(other).abs() < 1e-15 && (one.length() - 1.0).abs() < 1e-15, "the axes stay orthonormal");
        }
        // Right ascension of the old equinox after 26 years (Meeus, chapter 21).
        let grown = libm::atan2(moved.x.y, moved.x.x).to_degrees() * 3600.0;
        assert!((grown - 26.0 * 46.125).abs() < 1.0, "{grown}");
        let along = moved.carry(&ecliptic());
        let apart = libm::acos(along.x.dot(Axes::OWN.x)).to_degrees() * 3600.0;
        assert!((apart - 26.0 * 50.29).abs() < 1.0, "{apart}");
    }
}
