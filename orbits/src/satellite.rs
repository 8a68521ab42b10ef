//! Earth satellites, by two-line elements and SGP4.

use crate::moment::{SECOND, seconds};
use crate::reach::MotionBounds;
use crate::tle::Tle;
use crate::vector::{StateVector, vector};
use farlink_base::DtnTime;
use std::f64::consts::TAU;
use std::sync::OnceLock;

// Gravitational parameter with which two-line elements are made, in km³/s² (WGS 72).
const GM: f64 = 398_600.8;
// Radius of the Earth in kilometres (WGS 84), the least possible distance.
const EARTH_KM: f64 = 6378.137;
// Margin on the bounds of an orbit, as a fraction of the semi-major axis: J2 and drag move low
// orbits by some tens of kilometres, and Sun and Moon move the perigees of high ones.
const MARGIN: f64 = 0.01;
// Nanoseconds per day.
const DAY_NS: i64 = 86_400_000_000_000;
// Step of the search for the end of an orbit: the air takes a satellite within minutes, near a perigee.
const FALL_STEP_NS: i64 = 10 * SECOND;
/// Greatest age of elements that is accepted, in days.
pub const OLDEST_D: i64 = 366;

/// A satellite in a plan.
#[derive(Clone, Debug)]
pub struct Satellite {
    constants: sgp4::Constants,
    /// Epoch of the elements, in nanoseconds from the plan's start.
    epoch: i64,
    reach: MotionBounds,
    /// Result of [`Satellite::falls`].
    falls: OnceLock<Option<i64>>,
}

impl Satellite {
    /// Creates a satellite in a plan that starts at `start`.
    ///
    /// # Errors
    /// When the elements describe no orbit, or are centuries away from the plan.
    pub fn new(tle: &Tle, start: DtnTime) -> Result<Satellite, String> {
        let elements = &tle.elements;
        // The AFSPC-compatible constants, with which elements and the published verification cases
        // are made.
        let constants = sgp4::Constants::from_elements_afspc_compatibility_mode(elements)
            .map_err(|error| format!("its elements are no orbit: {error}"))?;
        let start_ns = i64::try_from(start.as_unix_ms()).ok().and_then(|ms| ms.checked_mul(1_000_000));
        let epoch_ns = elements.datetime.and_utc().timestamp_nanos_opt();
        let epoch = start_ns.zip(epoch_ns).and_then(|(start, epoch)| epoch.checked_sub(start));
        let epoch = epoch.ok_or("its elements are centuries from the plan")?;
        let motion = elements.mean_motion * TAU / 86_400.0;
        let axis = libm::cbrt(GM / (motion * motion));
        let near = (axis * (1.0 - elements.eccentricity - MARGIN)).max(EARTH_KM);
        let far = axis * (1.0 + elements.eccentricity + MARGIN);
        if near >= far {
            return Err("its elements are an orbit through the ground".into());
        }
        // The speed is greatest at perigee (vis viva), for the largest semi-major axis within the
        // margin.
        let speed = (GM * (2.0 / near - 1.0 / (axis * (1.0 + MARGIN)))).sqrt() * (1.0 + MARGIN);
        let turn = GM / (near * near) * (1.0 + MARGIN);
        let reach = MotionBounds { nearest_km: near, farthest_km: far, speed_km_s: speed, turn_km_s2: turn };
        Ok(Satellite { constants, epoch, reach, falls: OnceLock::new() })
    }

    /// Bounds of distance, speed and acceleration; [`Satellite::state`] fails outside of them.
    pub fn reach(&self) -> MotionBounds {
        self.reach
    }

    /// Epoch of the elements, in nanoseconds from the plan's start.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Age of the elements at a time in nanoseconds from the plan's start, in whole days.
    pub fn age_days(&self, time: i64) -> i64 {
        time.saturating_sub(self.epoch).abs() / DAY_NS
    }

    /// Time at which the satellite leaves the orbit of its elements, within the first `duration` nanoseconds of the
    /// plan; `None` if it stays there. The search takes seconds for a long plan, and is made once.
    pub fn falls(&self, duration: i64) -> Option<i64> {
        *self.falls.get_or_init(|| {
            let mut times = (0..=duration / FALL_STEP_NS).map(|step| step * FALL_STEP_NS);
            times.find(|time| self.age_days(*time) <= OLDEST_D && self.state(*time).is_err())
        })
    }

    /// Result of [`Satellite::falls`] if that was asked.
    pub fn fallen(&self) -> Option<i64> {
        self.falls.get().copied().flatten()
    }

    /// Position and velocity relative to the Earth's equator and mean equinox (TEME).
    ///
    /// # Errors
    /// When the satellite has decayed, or its elements are too old.
    pub fn state(&self, time: i64) -> Result<StateVector, String> {
        if self.age_days(time) > OLDEST_D {
            return Err(format!("its elements are more than {OLDEST_D} days from {}", when(time)));
        }
        let minutes = time.saturating_sub(self.epoch) as f64 / 60e9;
        let found = self.constants.propagate_afspc_compatibility_mode(sgp4::MinutesSinceEpoch(minutes));
        let found = found.map_err(|error| format!("its elements lead nowhere at {}: {error}", when(time)))?;
        let ([x, y, z], [vx, vy, vz]) = (found.position, found.velocity);
        let state = StateVector { position: vector(x, y, z), velocity: vector(vx, vy, vz) };
        let (far, fast) = (state.position.length(), state.velocity.length());
        if far < EARTH_KM {
            return Err(format!("it has come down by {}", when(time)));
        }
        // Comparisons with NaN are false, so a NaN is rejected as well.
        let inside = far >= self.reach.nearest_km && far <= self.reach.farthest_km && fast <= self.reach.speed_km_s;
        if !inside {
            return Err(format!("its orbit is no longer that of its elements at {}", when(time)));
        }
        Ok(state)
    }
}

/// Formats a time for messages.
fn when(time: i64) -> String {
    format!("+{} s", seconds(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::SECOND;

    const ISS: &str = "1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082\n\
                       2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473";

    fn iss(start: &str) -> Satellite {
        let tle = &crate::tle::read(ISS).unwrap()[0];
        Satellite::new(tle, DtnTime::parse_utc(start).unwrap()).unwrap()
    }

    #[test]
    fn satellite_state_ignores_plan_start() {
        let (early, late) = (iss("2014-01-21T00:00:00Z"), iss("2014-01-21T01:00:00Z"));
        assert_eq!(early.state(7200 * SECOND), late.state(3600 * SECOND));
        assert_eq!((early.age_days(0), early.age_days(3 * DAY_NS)), (0, 3));
    }

    #[test]
    fn its_bounds_are_near_and_hold() {
        let iss = iss("2014-01-21T00:00:00Z");
        let reach = iss.reach();
        assert!((6640.0..6790.0).contains(&reach.nearest_km) && (7.6..7.9).contains(&reach.speed_km_s), "{reach:?}");
        for minute in 0..14 * 1440 {
            let StateVector { position, velocity } = iss.state(minute * 60 * SECOND).unwrap();
            assert!(position.length() > reach.nearest_km + 20.0 && velocity.length() < reach.speed_km_s - 0.05);
        }
    }

    #[test]
    fn old_elements_are_refused() {
        let error = iss("2015-03-01T00:00:00Z").state(0).unwrap_err();
        assert!(error.contains("more than 366 days"), "{error}");
        let error = iss("2014-01-21T00:00:00Z").state(i64::MAX).unwrap_err();
        assert!(error.contains("more than 366 days"), "{error}");
    }
}
