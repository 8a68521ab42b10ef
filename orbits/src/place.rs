//! Positions of nodes: on the ground of a body, or on an orbit around one.

use crate::kepler::{Elements, Kepler};
use crate::reach::MotionBounds;
use crate::satellite::Satellite;
use crate::sky::{BodyId, Sky};
use crate::vector::{StateVector, Vector, vector};
use libm::sincos;

#[derive(Clone, Debug)]
enum How {
    /// Position and zenith, relative to axes that rotate with the body.
    Ground {
        place: Vector,
        up: Vector,
    },
    Orbit(Box<Kepler>),
    Satellite(Box<Satellite>),
}

/// Position of a node at every time of a plan.
#[derive(Clone, Debug)]
pub struct Trajectory {
    /// Body on which the node stands or around which it orbits.
    pub centre: BodyId,
    how: How,
    reach: MotionBounds,
}

/// Geodetic coordinates: latitude and longitude in radians, and altitude in kilometres.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroundSite {
    /// Geodetic latitude, north positive.
    pub latitude: f64,
    /// Longitude from the prime meridian, east positive.
    pub longitude: f64,
    /// Altitude above the ellipsoid.
    pub altitude_km: f64,
}

impl Trajectory {
    /// Creates a position on the ground; `None` if the body has none.
    pub fn ground(sky: &Sky, centre: BodyId, site: GroundSite) -> Option<Trajectory> {
        let body = sky.body(centre);
        let spin = body.spin?;
        let ((sp, cp), (sl, cl)) = (sincos(site.latitude), sincos(site.longitude));
        // The formulae of WGS 84 hold for every ellipsoid of revolution.
        let squeezed = (1.0 - body.flattening) * (1.0 - body.flattening);
        let curve = body.radius_km / (1.0 - (1.0 - squeezed) * sp * sp).sqrt();
        let across = (curve + site.altitude_km) * cp;
        let place = vector(across * cl, across * sl, (curve * squeezed + site.altitude_km) * sp);
        let distance = place.length();
        let turn = spin.rate.abs();
        let reach = MotionBounds {
            nearest_km: distance * (1.0 - 1e-9),
            farthest_km: distance * (1.0 + 1e-9),
            // The margins cover rounding.
            speed_km_s: across.abs() * turn * 1.0001,
            turn_km_s2: across.abs() * turn * turn * 1.0001,
        };
        Some(Trajectory { centre, how: How::Ground { place, up: vector(cp * cl, cp * sl, sp) }, reach })
    }

    /// Creates a position on an ellipse relative to the body's own axes.
    ///
    /// # Errors
    /// When the ellipse meets the body, or the elements describe no ellipse.
    pub fn orbit(sky: &Sky, centre: BodyId, elements: &Elements) -> Result<Trajectory, String> {
        let body = sky.body(centre);
        body.holds(elements)?;
        let orbit = Kepler::new(elements, &body.pull, &body.axes);
        Ok(Trajectory { centre, reach: orbit.reach(), how: How::Orbit(Box::new(orbit)) })
    }

    /// Creates a position from two-line elements; `None` in a sky without the Earth.
    pub fn satellite(sky: &Sky, satellite: Satellite) -> Option<Trajectory> {
        let centre = sky.find("earth")?;
        Some(Trajectory { centre, reach: satellite.reach(), how: How::Satellite(Box::new(satellite)) })
    }

    /// Bounds of distance, speed and acceleration relative to its centre.
    pub fn reach(&self) -> MotionBounds {
        self.reach
    }

    /// Whether the node stands on the ground.
    pub fn is_ground(&self) -> bool {
        matches!(self.how, How::Ground { .. })
    }

    /// Relative cost of computing the position. A line of sight evaluates the costlier end less often.
    pub(crate) fn cost(&self) -> u8 {
        match self.how {
            How::Ground { .. } => 0,
            How::Orbit(_) => 1,
            How::Satellite(_) => 2,
        }
    }

    /// Age of a satellite's elements at a time in nanoseconds from the plan's start, in whole days; `None` for a node
    /// without two-line elements.
    pub fn age_days(&self, time: i64) -> Option<i64> {
        self.by_elements().map(|satellite| satellite.age_days(time))
    }

    /// Satellite with two-line elements; `None` for another node.
    pub(crate) fn by_elements(&self) -> Option<&Satellite> {
        match &self.how {
            How::Satellite(satellite) => Some(satellite),
            _ => None,
        }
    }

    /// Position and velocity of the node relative to the centre of its trajectory, at a time in nanoseconds from the
    /// plan's start.
    ///
    /// # Errors
    /// When the elements of the node's orbit are not valid at that time.
    pub fn state(&self, sky: &Sky, time: i64) -> Result<StateVector, String> {
        match &self.how {
            How::Ground { place, .. } => {
                let Some(spin) = &sky.body(self.centre).spin else { return Ok(StateVector::default()) };
                let position = spin.ground(time).outward(*place);
                Ok(StateVector { position, velocity: spin.turning().cross(position) })
            }
            How::Orbit(orbit) => Ok(orbit.state(time)),
            How::Satellite(satellite) => satellite.state(time),
        }
    }

    /// Zenith direction of a node on the ground; `None` for a node on an orbit.
    pub fn up(&self, sky: &Sky, time: i64) -> Option<Vector> {
        let How::Ground { up, .. } = &self.how else { return None };
        sky.body(self.centre).spin.as_ref().map(|spin| spin.ground(time).outward(*up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::SECOND;
    use farlink_base::DtnTime;

    fn sky() -> Sky {
        Sky::new(DtnTime::parse_utc("2026-11-20T09:00:00Z").unwrap())
    }
    fn site(latitude: f64, longitude: f64, altitude_km: f64) -> GroundSite {
        GroundSite { latitude: latitude.to_radians(), longitude: longitude.to_radians(), altitude_km }
    }

    #[test]
    fn the_ellipsoid_is_wgs_84() {
        let sky = sky();
        let earth = sky.find("earth").unwrap();
        let at = |latitude, altitude| match Trajectory::ground(&sky, earth, site(latitude, 0.0, altitude)).unwrap().how
        {
            How::Ground { place, up } => (place, up),
            _ => unreachable!(),
        };
        assert!((at(90.0, 0.0).0 - vector(0.0, 0.0, 6_356.752_314_245)).length() < 1e-6);
        assert!((at(0.0, 1.0).0 - vector(6379.137, 0.0, 0.0)).length() < 1e-9);
        // Geocentric coordinates at 45 degrees: 4517.590879 km from the axis, 4487.348409 km from
        // the equator (NIMA TR8350.2).
        assert!((at(45.0, 0.0).0 - vector(4_517.590_879, 0.0, 4_487.348_409)).length() < 1e-5);
        let (place, up) = at(45.0, 0.0);
        assert!((at(45.0, 2.0).0 - place - up * 2.0).length() < 1e-9, "altitude is straight up");
    }

    #[test]
    fn ground_velocity_matches_motion() {
        let sky = sky();
        for name in ["earth", "moon", "mars", "venus"] {
            let place = Trajectory::ground(&sky, sky.find(name).unwrap(), site(50.0, 8.0, 0.1)).unwrap();
            for hour in 0..100 {
                let time = hour * 3600 * SECOND;
                let state = place.state(&sky, time).unwrap();
                let moved = place.state(&sky, time + SECOND).unwrap().position
                    - place.state(&sky, time - SECOND).unwrap().position;
                assert!((moved * 0.5 - state.velocity).length() < 1e-8, "{name}");
                assert!(state.velocity.length() <= place.reach().speed_km_s);
                assert!(state.position.dot(place.up(&sky, time).unwrap()) > 0.999 * state.position.length());
            }
        }
    }

    #[test]
    fn impossible_sites_and_orbits_are_refused() {
        let sky = sky();
        let find = |name| sky.find(name).unwrap();
        assert!(Trajectory::ground(&sky, find("sun"), site(0.0, 0.0, 0.0)).is_none());
        let elements = |semi_major_km, eccentricity| Elements {
            semi_major_km,
            eccentricity,
            inclination: 0.0,
            node: 0.0,
            periapsis: 0.0,
            anomaly: 0.0,
            at: 0,
        };
        for (a, e) in [(7000.0, 0.1), (7000.0, 1.0), (7000.0, -0.1), (f64::NAN, 0.0), (7000.0, f64::NAN)] {
            assert!(Trajectory::orbit(&sky, find("earth"), &elements(a, e)).is_err(), "{a} {e}");
        }
        assert!(Trajectory::orbit(&sky, find("moon"), &elements(1838.0, 0.0)).is_ok());
    }
}
