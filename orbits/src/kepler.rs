//! Motion on an ellipse about one body, with orbital plane and periapsis drifting by the body's flattening.

use crate::moment::seconds;
use crate::reach::MotionBounds;
use crate::vector::{Axes, StateVector, Vector};
use libm::{cos, sin, sincos};
use std::f64::consts::{PI, TAU};

/// Mean elements of an orbit; angles in radians.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Elements {
    /// Semi-major axis in kilometres.
    pub semi_major_km: f64,
    /// Eccentricity, from 0 for a circle to less than 1.
    pub eccentricity: f64,
    /// Inclination to the reference plane.
    pub inclination: f64,
    /// Longitude of the ascending node, from the first axis.
    pub node: f64,
    /// Argument of the periapsis, from the node.
    pub periapsis: f64,
    /// Mean anomaly at the epoch.
    pub anomaly: f64,
    /// Epoch in nanoseconds from the plan's start.
    pub at: i64,
}

/// Gravity field of a central body.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pull {
    /// Gravitational parameter, in km³/s².
    pub gm: f64,
    /// Second zonal harmonic (J2), without a unit.
    pub j2: f64,
    /// Equatorial radius to which J2 refers, in kilometres.
    pub radius_km: f64,
}

/// An orbit about one body.
#[derive(Clone, Debug)]
pub struct Kepler {
    axes: Axes,
    semi_major_km: f64,
    eccentricity: f64,
    /// Ratio of the minor to the major axis.
    ratio: f64,
    inclination: f64,
    /// Angle in radians at the plan's start, and its rate in rad/s.
    node: [f64; 2],
    periapsis: [f64; 2],
    anomaly: [f64; 2],
    reach: MotionBounds,
}

impl Kepler {
    /// Creates an orbit relative to `axes`, whose third is normal to the reference plane. Node, periapsis and mean
    /// anomaly drift by the first-order effect of J2 (Vallado, Fundamentals of Astrodynamics, 9.6.1).
    pub fn new(elements: &Elements, pull: &Pull, axes: &Axes) -> Kepler {
        let Elements { semi_major_km: a, eccentricity: e, inclination, .. } = *elements;
        let motion = (pull.gm / (a * a * a)).sqrt();
        let parameter = a * (1.0 - e * e);
        let drift = 1.5 * pull.j2 * (pull.radius_km / parameter) * (pull.radius_km / parameter) * motion;
        let (sine, cosine) = sincos(inclination);
        let rates = [
            -drift * cosine,
            drift * (2.0 - 2.5 * sine * sine),
            motion + drift * (1.0 - e * e).sqrt() * (1.0 - 1.5 * sine * sine),
        ];
        Kepler::drifting(elements, rates, axes)
    }

    /// Creates an orbit whose node, periapsis and mean anomaly drift at the given rates in rad/s.
    pub fn drifting(elements: &Elements, rates: [f64; 3], axes: &Axes) -> Kepler {
        let Elements { semi_major_km: a, eccentricity: e, .. } = *elements;
        let since = -seconds(elements.at);
        let at_start = |angle: f64, rate: f64| [(angle + rate * since).rem_euclid(TAU), rate];
        let (near, far) = (a * (1.0 - e), a * (1.0 + e));
        let turning = rates[0].abs() + rates[1].abs();
        // The speed is greatest at the periapsis; the drift of the ellipse adds little.
        let speed = rates[2].abs() * a * ((1.0 + e) / (1.0 - e)).sqrt() + far * turning;
        let pull = rates[2] * rates[2] * a * a * a / (near * near);
        Kepler {
            axes: *axes,
            semi_major_km: a,
            eccentricity: e,
            ratio: (1.0 - e * e).sqrt(),
            inclination: elements.inclination,
            node: at_start(elements.node, rates[0]),
            periapsis: at_start(elements.periapsis, rates[1]),
            anomaly: at_start(elements.anomaly, rates[2]),
            reach: MotionBounds {
                nearest_km: near,
                farthest_km: far,
                // The margin covers the rounding of the bounds themselves.
                speed_km_s: speed * 1.0001,
                turn_km_s2: (pull + 2.0 * turning * speed + turning * turning * far) * 1.0001,
            },
        }
    }

    /// Bounds of distance, speed and acceleration.
    pub fn reach(&self) -> MotionBounds {
        self.reach
    }

    /// Position and velocity at a time in nanoseconds from the plan's start.
    pub fn state(&self, time: i64) -> StateVector {
        let t = seconds(time);
        let now = |[angle, rate]: [f64; 2]| angle + rate * t;
        let eccentric = eccentric(now(self.anomaly), self.eccentricity);
        let (sine, cosine) = sincos(eccentric);
        let (a, e) = (self.semi_major_km, self.eccentricity);
        let rate = self.anomaly[1] / (1.0 - e * cosine);
        let (along, across) = self.plane(now(self.node), now(self.periapsis));
        let position = along * (a * (cosine - e)) + across * (a * self.ratio * sine);
        let velocity = along * (-a * sine * rate) + across * (a * self.ratio * cosine * rate);
        // Velocity added by the drift of the ellipse: about the pole by the node, about the orbit's
        // normal by the periapsis.
        let turned = self.axes.z * self.node[1] + along.cross(across) * self.periapsis[1];
        StateVector { position, velocity: velocity + turned.cross(position) }
    }

    /// Unit vectors in the orbital plane: towards the periapsis, and 90 degrees ahead.
    fn plane(&self, node: f64, periapsis: f64) -> (Vector, Vector) {
        let ((sn, cn), (sp, cp), (si, ci)) = (sincos(node), sincos(periapsis), sincos(self.inclination));
        let ascending = self.axes.x * cn + self.axes.y * sn;
        let upward = (self.axes.y * cn - self.axes.x * sn) * ci + self.axes.z * si;
        (ascending * cp + upward * sp, upward * cp - ascending * sp)
    }
}

/// Eccentric anomaly E of a mean anomaly M, the solution of `M = E - e sin E`.
fn eccentric(mean: f64, e: f64) -> f64 {
    let turns = (mean / TAU).round();
    let rest = mean - turns * TAU;
    let target = rest.abs();
    // The function is convex on [0, pi], so Newton's method converges from one side for every
    // eccentricity below 1 if it starts at or above the root.
    let mut angle = (target + e).min(PI);
    for _ in 0..60 {
        let step = (angle - e * sin(angle) - target) / (1.0 - e * cos(angle));
        // 60 steps are far more than needed; the limit guarantees an end.
        angle -= step;
        if step.abs() < 1e-15 * (1.0 + angle) {
            break;
        }
    }
    turns * TAU + if rest < 0.0 { -angle } else { angle }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::SECOND;

    const EARTH: Pull = Pull { gm: 398_600.441_8, j2: 1.082_626_68e-3, radius_km: 6378.137 };

    fn orbit(a: f64, e: f64, inclination: f64, j2: f64) -> Kepler {
        let elements = Elements {
            semi_major_km: a,
            eccentricity: e,
            inclination: inclination.to_radians(),
            node: 1.0,
            periapsis: 2.0,
            anomaly: 3.0,
            at: 5 * SECOND,
        };
        Kepler::new(&elements, &Pull { j2, ..EARTH }, &Axes::OWN)
    }

    #[test]
    fn keplers_equation_holds_for_eccentricities() {
        for e in [0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.999_999] {
            for step in -200..200 {
                let mean = f64::from(step) * 0.1;
                let found = eccentric(mean, e);
                assert!((found - e * sin(found) - mean).abs() < 1e-13 * (1.0 + mean.abs()), "{e} {mean}");
            }
        }
    }

    #[test]
    fn orbit_obeys_period_and_vis_viva() {
        let orbit = orbit(10_000.0, 0.3, 40.0, 0.0);
        let period = TAU * (10_000f64.powi(3) / EARTH.gm).sqrt();
        let (first, again) = (orbit.state(0), orbit.state((period * 1e9) as i64));
        assert!((first.position - again.position).length() < 1e-4);
        for minute in 0..170 {
            let StateVector { position, velocity } = orbit.state(minute * 60 * SECOND);
            let (r, v) = (position.length(), velocity.length());
            assert!((v * v - EARTH.gm * (2.0 / r - 1.0 / 10_000.0)).abs() < 1e-9, "{minute}");
            assert!((7000.0..=13_000.0).contains(&r) && v <= orbit.reach().speed_km_s);
        }
    }

    #[test]
    fn velocity_is_derivative_of_position() {
        let orbit = orbit(7000.0, 0.02, 97.0, EARTH.j2);
        for minute in 0..100 {
            let time = minute * 60 * SECOND;
            let (before, after) = (orbit.state(time - SECOND / 10), orbit.state(time + SECOND / 10));
            let moved = (after.position - before.position) * 5.0;
            assert!((moved - orbit.state(time).velocity).length() < 1e-6, "{minute}");
            let turned = (after.velocity - before.velocity) * 5.0;
            assert!(turned.length() <= orbit.reach().turn_km_s2);
        }
    }

    #[test]
    fn sun_synchronous_plane_turns_once_yearly() {
        // At an inclination of 98.19 degrees and 700 km the node drifts by 0.9856 degrees a day
        // (Vallado, 11.4.1).
        let orbit = orbit(6378.137 + 700.0, 0.0, 98.19, EARTH.j2);
        let a_day = orbit.node[1] * 86_400.0;
        assert!((a_day.to_degrees() - 0.9856).abs() < 0.002, "{}", a_day.to_degrees());
    }

    #[test]
    fn ascending_node_lies_on_first_axis() {
        let elements = Elements {
            semi_major_km: 8000.0,
            eccentricity: 0.0,
            inclination: 1.0,
            node: 0.0,
            periapsis: 0.0,
            anomaly: 0.0,
            at: 0,
        };
        let StateVector { position, velocity } = Kepler::new(&elements, &EARTH, &Axes::OWN).state(0);
        assert!((position - Axes::OWN.x * 8000.0).length() < 1e-9);
        assert!(velocity.z > 0.0 && velocity.y > 0.0);
    }
}
