//! Motion and rotation of the bodies during a plan, and the axes to which orbits around each refer.
//!
//! All vectors refer to the mean equator and equinox of the plan's start, which then stay fixed. The elements of Earth
//! satellites (TEME) and sidereal time agree with these axes at that moment.

pub use crate::axes::Spin;
use crate::axes::{ecliptic, precession, turning};
use crate::bodies::{BODIES, MOON_SHARE, Path, PlanetRow, UNIT_KM};
use crate::kepler::{Elements, Kepler, Pull};
use crate::moment::{CENTURY_S, EARTH_TURN, centuries, sidereal};
use crate::moon::Moon;
use crate::reach::MotionBounds;
use crate::vector::{Axes, StateVector};
use farlink_base::DtnTime;

/// Index of a body in a [`Sky`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BodyId(usize);

/// Size and gravity of a body.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Size {
    /// Radius in kilometres.
    pub radius_km: f64,
    /// Gravitational parameter in km³/s²; 0 for a body without satellites.
    pub gm: f64,
}

#[derive(Clone, Debug)]
enum Motion {
    Still,
    Ellipse(Box<Kepler>),
    Moon(Box<Moon>),
    /// Motion of a body around its common centre with a moon; the centre follows the ellipse.
    Pair(Box<Kepler>, Box<Moon>),
}

/// One body of the sky.
#[derive(Clone, Debug)]
pub struct SkyBody {
    /// Name as written in files.
    pub name: String,
    /// Parent body, around which this body moves.
    pub around: Option<BodyId>,
    /// Equatorial radius in kilometres.
    pub radius_km: f64,
    /// Flattening of the ellipsoid: 1 - polar radius / equatorial radius.
    pub flattening: f64,
    /// Gravity field for orbits around this body.
    pub pull: Pull,
    /// Rotation; `None` for a body without ground.
    pub spin: Option<Spin>,
    /// Axes to which elements of orbits around it refer: its equator, and the ascending node of its equator on the
    /// Earth's equator; for the Sun, the ecliptic and the equinox of J2000.
    pub axes: Axes,
    motion: Motion,
    reach: MotionBounds,
}

/// The bodies during one plan.
#[derive(Clone, Debug)]
pub struct Sky {
    start: DtnTime,
    bodies: Vec<SkyBody>,
}

impl Sky {
    /// Creates the Sun, the planets and the Moon from `start` on.
    pub fn new(start: DtnTime) -> Sky {
        let then = centuries(start);
        let precession = precession(then);
        let ecliptic = precession.carry(&ecliptic());
        let mut sky = Sky { start, bodies: Vec::with_capacity(BODIES.len()) };
        for row in &BODIES {
            let spin = match row.spin {
                Some(spin) => Some(turning(row.name, &spin, start, &precession)),
                None if row.name == "earth" => Some(Spin { axes: Axes::OWN, start: sidereal(start), rate: EARTH_TURN }),
                None => None,
            };
            let planet = |row| Box::new(planet(row, then, &ecliptic));
            let moon = || Box::new(Moon::new(then));
            let motion = match &row.path {
                Path::Still => Motion::Still,
                Path::Planet(row) => Motion::Ellipse(planet(row)),
                Path::Moon => Motion::Moon(moon()),
                Path::WithMoon(row) => Motion::Pair(planet(row), moon()),
            };
            let body = SkyBody {
                name: row.name.into(),
                around: row.around.and_then(|name| sky.find(name)),
                radius_km: row.radius_km,
                flattening: row.flattening,
                pull: Pull { gm: row.gm, j2: row.j2, radius_km: row.radius_km },
                spin,
                axes: spin.map_or(ecliptic, |spin| spin.axes),
                reach: motion.reach(),
                motion,
            };
            sky.bodies.push(body);
        }
        sky
    }

    /// Adds a body on an ellipse, relative to the axes of its parent. It has no ground.
    ///
    /// # Errors
    /// When the ellipse is not possible, or another body has this name.
    pub fn add(&mut self, name: &str, around: BodyId, elements: &Elements, size: Size) -> Result<BodyId, String> {
        if self.find(name).is_some() {
            return Err(format!("`{name}` is the name of another body"));
        }
        let parent = self.body(around);
        parent.holds(elements)?;
        let motion = Motion::Ellipse(Box::new(Kepler::new(elements, &parent.pull, &parent.axes)));
        let body = SkyBody {
            name: name.into(),
            around: Some(around),
            radius_km: size.radius_km,
            flattening: 0.0,
            pull: Pull { gm: size.gm, j2: 0.0, radius_km: size.radius_km },
            spin: None,
            axes: parent.axes,
            reach: motion.reach(),
            motion,
        };
        self.bodies.push(body);
        Ok(BodyId(self.bodies.len() - 1))
    }

    /// Start of the plan, from which times count.
    pub fn start(&self) -> DtnTime {
        self.start
    }
    /// Looks up a body by name.
    pub fn find(&self, name: &str) -> Option<BodyId> {
        self.bodies.iter().position(|body| body.name == name).map(BodyId)
    }
    /// Names of all bodies.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.bodies.iter().map(|body| body.name.as_str())
    }
    /// The body of an index.
    pub fn body(&self, id: BodyId) -> &SkyBody {
        &self.bodies[id.0]
    }
    /// Nearest common ancestor of two bodies, each counted among its own ancestors.
    pub fn common(&self, one: BodyId, other: BodyId) -> BodyId {
        let mut here = one;
        loop {
            let mut there = Some(other);
            while let Some(body) = there {
                if body == here {
                    return here;
                }
                there = self.body(body).around;
            }
            match self.body(here).around {
                Some(around) => here = around,
                None => return here,
            }
        }
    }
    /// Position and velocity of a body relative to one of its ancestors.
    pub fn state(&self, body: BodyId, from: BodyId, time: i64) -> StateVector {
        let (mut state, mut here) = (StateVector::default(), body);
        while here != from {
            state = state.from(self.body(here).motion.state(time));
            match self.body(here).around {
                Some(around) => here = around,
                None => break,
            }
        }
        state
    }
    /// Bounds of an object that keeps to `reach` around a body, relative to one of the body's ancestors.
    pub fn reach(&self, reach: MotionBounds, body: BodyId, from: BodyId) -> MotionBounds {
        let (mut reach, mut here) = (reach, body);
        while here != from {
            reach = reach.around(self.body(here).reach);
            match self.body(here).around {
                Some(around) => here = around,
                None => break,
            }
        }
        reach
    }
}

impl SkyBody {
    /// Checks that an ellipse around the body is possible.
    ///
    /// # Errors
    /// A message with the reason.
    pub fn holds(&self, elements: &Elements) -> Result<(), String> {
        let name = &self.name;
        if !(0.0..1.0).contains(&elements.eccentricity) {
            return Err(format!("an eccentricity of {} is no ellipse", elements.eccentricity));
        }
        if self.pull.gm.is_nan() || self.pull.gm <= 0.0 {
            return Err(format!("{name} holds nothing: it has no gravitational parameter"));
        }
        let lowest = elements.semi_major_km * (1.0 - elements.eccentricity);
        if lowest.is_nan() || lowest < self.radius_km {
            return Err(format!("the orbit comes to {lowest:.0} km from the centre of {name}: that is inside"));
        }
        Ok(())
    }
}

impl Motion {
    fn state(&self, time: i64) -> StateVector {
        match self {
            Motion::Still => StateVector::default(),
            Motion::Ellipse(orbit) => orbit.state(time),
            Motion::Moon(moon) => moon.state(time),
            Motion::Pair(orbit, moon) => {
                let (centre, moon) = (orbit.state(time), moon.state(time));
                StateVector {
                    position: centre.position - moon.position * MOON_SHARE,
                    velocity: centre.velocity - moon.velocity * MOON_SHARE,
                }
            }
        }
    }

    fn reach(&self) -> MotionBounds {
        match self {
            Motion::Still => MotionBounds::default(),
            Motion::Ellipse(orbit) => orbit.reach(),
            Motion::Moon(moon) => moon.reach(),
            Motion::Pair(orbit, moon) => {
                let moon = moon.reach();
                let aside = MotionBounds {
                    nearest_km: moon.nearest_km * MOON_SHARE,
                    farthest_km: moon.farthest_km * MOON_SHARE,
                    speed_km_s: moon.speed_km_s * MOON_SHARE,
                    turn_km_s2: moon.turn_km_s2 * MOON_SHARE,
                };
                aside.around(orbit.reach())
            }
        }
    }
}

/// Ellipse of a planet at the plan's start, with its secular drift.
fn planet(row: &PlanetRow, then: f64, ecliptic: &Axes) -> Kepler {
    let [axis, eccentricity, inclination, longitude, perihelion, node] = row.map(|[value, rate]| value + rate * then);
    let elements = Elements {
        semi_major_km: axis * UNIT_KM,
        eccentricity,
        inclination: inclination.to_radians(),
        node: node.to_radians(),
        periapsis: (perihelion - node).to_radians(),
        anomaly: (longitude - perihelion).to_radians(),
        at: 0,
    };
    let a_second = |degrees: f64| degrees.to_radians() / CENTURY_S;
    // The row gives longitudes: the argument of the perihelion and the mean anomaly are differences
    // of them.
    let rates = [a_second(row[5][1]), a_second(row[4][1] - row[5][1]), a_second(row[3][1] - row[4][1])];
    Kepler::drifting(&elements, rates, ecliptic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::SECOND;
    use crate::vector::Vector;

    fn sky(utc: &str) -> Sky {
        Sky::new(DtnTime::parse_utc(utc).unwrap())
    }
    fn place(sky: &Sky, body: &str, from: &str, time: i64) -> Vector {
        let find = |name| sky.find(name).unwrap();
        sky.state(find(body), find(from), time).position
    }

    #[test]
    fn mars_distances_match_published_oppositions() {
        // Published closest approaches, in astronomical units.
        for (date, units) in [
            ("2003-08-27T09:51:00Z", 0.372_72),
            ("2018-07-31T07:50:00Z", 0.384_96),
            ("2020-10-06T14:18:00Z", 0.414_92),
            ("2022-12-01T02:17:00Z", 0.544_47),
            ("2025-01-12T13:37:00Z", 0.642_28),
        ] {
            let sky = sky(date);
            let apart = (place(&sky, "mars", "sun", 0) - place(&sky, "earth", "sun", 0)).length() / UNIT_KM;
            assert!((apart - units).abs() < 4e-4, "{date}: {apart} instead of {units}");
        }
    }

    #[test]
    fn moon_covers_sun_at_2017_eclipse() {
        // Greatest eclipse at 2017-08-21 18:26 UTC, with the shadow's axis 0.44 Earth radii from
        // the Earth's centre: 0.43 degrees.
        let sky = sky("2017-08-21T18:26:00Z");
        let moon = place(&sky, "moon", "earth", 0).direction();
        let sun = -place(&sky, "earth", "sun", 0).direction();
        let apart = libm::acos(moon.dot(sun)).to_degrees();
        assert!((0.1..0.8).contains(&apart), "{apart} degrees");
    }

    #[test]
    fn sun_on_mars_matches_published_example() {
        // The worked example of Allison and McEwen 2000: 174.726 degrees west.
        let sky = sky("2000-01-06T00:00:00Z");
        let mars = sky.find("mars").unwrap();
        let ground = sky.body(mars).spin.unwrap().ground(0);
        let sun = -place(&sky, "mars", "sun", 0).direction();
        let west = -libm::atan2(sun.dot(ground.y), sun.dot(ground.x)).to_degrees();
        assert!((west - 174.726).abs() < 0.2, "{west} degrees west");
        // Late northern autumn, Ls = 277.2: the Sun is near its lowest declination of 25.19 degrees
        // south.
        let south = -libm::asin(sun.dot(ground.z)).to_degrees();
        assert!((south - 24.98).abs() < 0.1, "{south} degrees south");
    }

    #[test]
    fn moon_faces_earth() {
        let sky = sky("2026-11-20T09:00:00Z");
        let moon = sky.find("moon").unwrap();
        for day in 0..60 {
            let time = day * 86_400 * SECOND;
            let ground = sky.body(moon).spin.unwrap().ground(time);
            let earth = -place(&sky, "moon", "earth", time).direction();
            // Optical libration: at most 7.9 degrees in longitude, 6.9 in latitude.
            assert!(earth.dot(ground.x) > libm::cos(11f64.to_radians()), "day {day}");
        }
    }

    #[test]
    fn common_body_is_nearest_ancestor() {
        let sky = sky("2026-11-20T09:00:00Z");
        let find = |name| sky.find(name).unwrap();
        assert_eq!(sky.common(find("moon"), find("earth")), find("earth"));
        assert_eq!(sky.common(find("moon"), find("moon")), find("moon"));
        assert_eq!(sky.common(find("moon"), find("mars")), find("sun"));
        let direct = place(&sky, "moon", "sun", 7) - place(&sky, "earth", "sun", 7);
        assert!((direct - place(&sky, "moon", "earth", 7)).length() < 1e-3);
        let reach = sky.reach(MotionBounds::default(), find("moon"), find("sun"));
        assert!((145e6..148e6).contains(&reach.nearest_km) && (28.0..33.0).contains(&reach.speed_km_s));
    }

    #[test]
    fn planet_bounds_hold_for_years() {
        let sky = sky("2026-11-20T09:00:00Z");
        for name in ["mercury", "venus", "earth", "mars", "jupiter"] {
            let body = sky.find(name).unwrap();
            let reach = sky.reach(MotionBounds::default(), body, sky.find("sun").unwrap());
            for day in 0..1000 {
                let StateVector { position, velocity } =
                    sky.state(body, sky.find("sun").unwrap(), day * 86_400 * SECOND);
                assert!((reach.nearest_km..=reach.farthest_km).contains(&position.length()), "{name} {day}");
                assert!(velocity.length() <= reach.speed_km_s && velocity.length() > 0.5 * reach.speed_km_s);
            }
        }
    }
}
