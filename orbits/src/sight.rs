//! Lines of sight between nodes, and light times.
//!
//! Light leaves one end at one time and reaches the other end later, so the ends are evaluated at different times.
//! Times passed to this module refer to the end whose position is costlier to compute (the *anchor*); the other end's
//! time follows from the light time.

use crate::edges::Look;
use crate::moment::whole;
use crate::place::Trajectory;
use crate::reach::MotionBounds;
use crate::sky::{BodyId, Sky};
use crate::vector::{StateVector, Vector};
use libm::sin;

/// Speed of light in km/s.
pub const LIGHT: f64 = 299_792.458;

// Relative margin on every bound. It covers motion seen over a finite light time, and velocities
// that are not exact derivatives of positions.
const SLACK: f64 = 2e-3;

/// Limits that a link imposes on a line of sight.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Greatest distance in kilometres.
    pub range_km: Option<f64>,
    /// Least altitude of the line above the ground of a body in between, in kilometres.
    pub clearance_km: f64,
}

/// Failure to compute the position of an end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Failed end: 0 sends, 1 receives.
    pub end: usize,
    /// Reason, in words.
    pub why: String,
}

/// One end of a line of sight.
struct SightEnd<'a> {
    place: &'a Trajectory,
    /// Elevation mask, for nodes on the ground.
    mask: Option<Mask>,
}

/// Elevation mask, with the bounds that make steps safe.
struct Mask {
    sine: f64,
    /// Greatest rate of change of `up . d - sine |d|`, in km/s.
    speed: f64,
    /// Bound on the acceleration of `up . d - sine |d|`, in km/s²; `None` where the other end may come arbitrarily
    /// close.
    turn: Option<f64>,
    /// Greatest speed of the other end relative to the rotating ground, in km/s.
    seen_speed: f64,
}

/// A body that may block the line of sight.
struct Screen {
    body: BodyId,
    radius_km: f64,
    /// Greatest speed at which the line may approach the body's centre, in km/s.
    speed: f64,
    /// End nearer to the body, whose time determines the body's position.
    end: usize,
}

/// A line of sight, from the sending to the receiving end.
pub struct Sight<'a> {
    sky: &'a Sky,
    /// Sending and receiving end.
    ends: [SightEnd<'a>; 2],
    /// Body relative to which both ends are computed.
    frame: BodyId,
    /// End to which times refer.
    anchor: usize,
    screens: Vec<Screen>,
    range_km: Option<f64>,
    /// Greatest speed at which the ends may separate, in km/s.
    speed: f64,
}

/// Both ends, at the times of emission and reception.
struct LightPath {
    states: [StateVector; 2],
    times: [i64; 2],
    light_s: f64,
}

impl<'a> Sight<'a> {
    /// Creates a line of sight between two positions; `masks` are the least elevations in radians, used for ends on the
    /// ground.
    pub fn new(sky: &'a Sky, [from, to]: [&'a Trajectory; 2], masks: [f64; 2], limits: &Limits) -> Sight<'a> {
        let frame = sky.common(from.centre, to.centre);
        let places = [from, to];
        let reaches = places.map(|place| sky.reach(place.reach(), place.centre, frame));
        let end = |end: usize| {
            let mask = places[end].is_ground().then(|| mask(sky, places, end, masks[end]));
            SightEnd { place: places[end], mask }
        };
        let speed = (reaches[0].speed_km_s + reaches[1].speed_km_s) * (1.0 + SLACK);
        Sight {
            sky,
            ends: [end(0), end(1)],
            frame,
            anchor: usize::from(to.cost() >= from.cost()),
            screens: screens(sky, places, frame, limits.clearance_km),
            range_km: limits.range_km,
            speed,
        }
    }

    /// End to which times refer: 0 sends, 1 receives.
    pub fn anchor(&self) -> usize {
        self.anchor
    }

    /// Greatest change of the light time, in seconds per second.
    pub fn stretch(&self) -> f64 {
        self.speed / LIGHT
    }

    fn state(&self, end: usize, time: i64) -> Result<StateVector, Lost> {
        let place = self.ends[end].place;
        let state = place.state(self.sky, time).map_err(|why| Lost { end, why })?;
        Ok(state.from(self.sky.state(place.centre, self.frame, time)))
    }

    /// Evaluates both ends, given a time at one of them.
    fn line(&self, fixed: usize, time: i64) -> Result<LightPath, Lost> {
        let there = 1 - fixed;
        let sign = if fixed == 0 { 1.0 } else { -1.0 };
        let (mut states, mut times) = ([StateVector::default(); 2], [time; 2]);
        states[fixed] = self.state(fixed, time)?;
        let mut light_s = 0.0;
        // Each iteration leaves a ten-thousandth of the error, so two or three suffice.
        for _ in 0..12 {
            states[there] = self.state(there, times[there])?;
            light_s = (states[1].position - states[0].position).length() / LIGHT;
            let found = time.saturating_add((sign * light_s * 1e9).round() as i64);
            if found == times[there] {
                break;
            }
            times[there] = found;
        }
        Ok(LightPath { states, times, light_s })
    }

    /// Light time of a signal sent at `time`, in seconds.
    ///
    /// # Errors
    /// When the position of an end cannot be computed.
    pub fn light(&self, time: i64) -> Result<f64, Lost> {
        Ok(self.line(0, time)?.light_s)
    }

    /// Light time of the signal that is at the anchor at `time`, in seconds.
    ///
    /// # Errors
    /// As [`Sight::light`].
    pub fn anchored_light(&self, time: i64) -> Result<f64, Lost> {
        Ok(self.line(self.anchor, time)?.light_s)
    }

    /// Anchor time of a signal sent at `time`: its arrival, if the anchor receives.
    ///
    /// # Errors
    /// As [`Sight::light`].
    pub fn anchored(&self, time: i64) -> Result<i64, Lost> {
        Ok(self.line(0, time)?.times[self.anchor])
    }

    /// Transmission time of the signal that is at the anchor at `time`; rounded up to a nanosecond if the anchor
    /// receives.
    ///
    /// # Errors
    /// As [`Sight::light`].
    pub fn sent(&self, time: i64) -> Result<i64, Lost> {
        if self.anchor == 0 {
            return Ok(time);
        }
        let light_s = self.line(1, time)?.light_s;
        Ok(time.saturating_add(whole(-light_s)))
    }

    /// Visibility of the ends at an anchor time: margin, and time for which the state certainly persists.
    ///
    /// # Errors
    /// As [`Sight::light`].
    pub fn look(&self, time: i64) -> Result<Look, Lost> {
        let line = self.line(self.anchor, time)?;
        let mut sum = Conjunction::default();
        let apart = line.states[1].position - line.states[0].position;
        if let Some(range) = self.range_km {
            sum.add(range - apart.length(), self.speed, None);
        }
        for (end, mask) in [(0, &self.ends[0].mask), (1, &self.ends[1].mask)] {
            if let Some(mask) = mask {
                self.elevation(end, mask, &line, &mut sum);
            }
        }
        for screen in &self.screens {
            let centre = self.sky.state(screen.body, self.frame, line.times[screen.end]).position;
            let ends = line.states.map(|state| state.position - centre);
            sum.add(distance(ends) - screen.radius_km, screen.speed, None);
        }
        Ok(sum.look())
    }

    /// Adds the condition that the far end is above the mask of an end on the ground.
    fn elevation(&self, end: usize, mask: &Mask, line: &LightPath, sum: &mut Conjunction) {
        let (place, time) = (self.ends[end].place, line.times[end]);
        let body = self.sky.body(place.centre);
        let (Some(up), Some(spin)) = (place.up(self.sky, time), &body.spin) else { return };
        let (here, there) = (line.states[end], line.states[1 - end]);
        let apart = there.position - here.position;
        let distance = apart.length();
        let value = up.dot(apart) - mask.sine * distance;
        // In the rotating frame the zenith is fixed, and the far end moves relative to the ground.
        let centre = self.sky.state(place.centre, self.frame, time);
        let seen = there.position - centre.position;
        let moving = there.velocity - centre.velocity - spin.turning().cross(seen);
        let change = up.dot(moving) - mask.sine * moving.dot(apart) / distance.max(1e-9);
        let change = (change, SLACK * mask.seen_speed);
        sum.add(value, mask.speed, mask.turn.map(|turn| (change, turn)));
    }
}

/// Bounds of the elevation at one end.
fn mask(sky: &Sky, places: [&Trajectory; 2], end: usize, elevation: f64) -> Mask {
    let (here, there) = (places[end], places[1 - end]);
    // Relative to the centre on which `here` stands; if the far end belongs to another body, both
    // motions add up.
    let frame = sky.common(here.centre, there.centre);
    let far = sky.reach(there.reach(), there.centre, frame);
    let own = sky.reach(MotionBounds::default(), here.centre, frame);
    let seen = if here.centre == frame { far } else { far.around(own) };
    let rate = sky.body(here.centre).spin.as_ref().map_or(0.0, |spin| spin.rate.abs());
    let speed = seen.speed_km_s + rate * seen.farthest_km;
    // Acceleration in the rotating frame: the Coriolis and centrifugal terms are added to the far
    // end's own.
    let turn = seen.turn_km_s2 + 2.0 * rate * speed + rate * rate * seen.farthest_km;
    let sine = sin(elevation);
    let gap = sky.reach(here.reach(), here.centre, frame).gap(far);
    Mask {
        sine,
        speed: speed * (1.0 + sine.abs()) * (1.0 + SLACK),
        turn: gap.map(|gap| (turn * (1.0 + sine.abs()) + sine.abs() * speed * speed / gap) * (1.0 + SLACK)),
        seen_speed: speed,
    }
}

/// Bodies that may block the line between two positions: those they orbit, and the parents of these up to the common
/// one. A body with a station on it is left out, because the horizon already excludes lines through it.
fn screens(sky: &Sky, places: [&Trajectory; 2], frame: BodyId, clearance_km: f64) -> Vec<Screen> {
    let stands_on = |body| places.iter().any(|place| place.is_ground() && place.centre == body);
    let speeds = places.map(|place| sky.reach(place.reach(), place.centre, frame).speed_km_s);
    let mut screens: Vec<Screen> = Vec::new();
    for (end, place) in places.iter().enumerate() {
        let mut here = Some(place.centre);
        while let Some(body) = here {
            if !stands_on(body) && screens.iter().all(|screen| screen.body != body) {
                let own = sky.reach(MotionBounds::default(), body, frame).speed_km_s;
                screens.push(Screen {
                    body,
                    radius_km: sky.body(body).radius_km + clearance_km,
                    speed: (speeds[0].max(speeds[1]) + own) * (1.0 + SLACK),
                    end,
                });
            }
            here = sky.body(body).around.filter(|_| body != frame);
        }
    }
    screens
}

/// Distance between the origin and the line segment. If both ends move by at most some amount, so does every point of
/// the segment.
fn distance([from, to]: [Vector; 2]) -> f64 {
    let along = to - from;
    let square = along.dot(along);
    let share = if square > 0.0 { (-from.dot(along) / square).clamp(0.0, 1.0) } else { 0.0 };
    (from + along * share).length()
}

/// Conjunction of several conditions.
struct Conjunction {
    value: f64,
    /// Shortest guarantee among the conditions that hold.
    holds: f64,
    /// Longest guarantee among the conditions that fail.
    fails: f64,
}
impl Default for Conjunction {
    fn default() -> Conjunction {
        Conjunction { value: f64::INFINITY, holds: f64::INFINITY, fails: 0.0 }
    }
}
impl Conjunction {
    /// Adds a condition that holds while `value` (km) is not negative; the value changes by at most `speed` (km/s).
    /// `bend`, if given, holds the value's current rate with its error bound (km/s), and the greatest change of that
    /// rate (km/s²).
    fn add(&mut self, value: f64, speed: f64, bend: Option<((f64, f64), f64)>) {
        let size = value.abs();
        let mut stays = size / speed;
        if let Some(((change, slack), bend)) = bend {
            // Time until the value can reach zero: it starts at `size`, at rate `away` (negative
            // towards zero), with the greatest acceleration towards zero.
            let away = (if value < 0.0 { -change } else { change }) - slack;
            let root = (away * away + 2.0 * bend * size).sqrt();
            let bent = if away > 0.0 { (away + root) / bend } else { 2.0 * size / (root - away) };
            if bent.is_finite() {
                stays = stays.max(bent);
            }
        }
        self.value = self.value.min(value / speed);
        if value >= 0.0 {
            self.holds = self.holds.min(stays);
        } else {
            self.fails = self.fails.max(stays);
        }
    }

    fn look(&self) -> Look {
        let hold = if self.value >= 0.0 { self.holds } else { self.fails };
        // Without any condition the state holds forever; the clamps keep the arithmetic finite.
        Look { value: self.value.min(f64::MAX), hold: hold.min(1e9) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::vector;

    #[test]
    fn segment_distance_is_that_of_nearest() {
        let near = |from: [f64; 3], to: [f64; 3]| distance([from, to].map(|[x, y, z]| vector(x, y, z)));
        assert_eq!(near([-5.0, 3.0, 0.0], [5.0, 3.0, 0.0]), 3.0);
        assert_eq!(near([3.0, 4.0, 0.0], [30.0, 40.0, 0.0]), 5.0, "the nearer end");
        assert_eq!(near([0.0, 0.0, 2.0], [0.0, 0.0, 2.0]), 2.0, "no line at all");
    }

    #[test]
    fn condition_persists_until_earliest_zero() {
        let stays = |value, change, bend| {
            let mut sum = Conjunction::default();
            sum.add(value, 1e9, Some(((change, 0.0), bend)));
            sum.look().hold
        };
        // 100 km away, falling at 10 km/s and accelerating by 1 km/s²: 100 = 10 t + t²/2.
        let t = stays(100.0, -10.0, 1.0);
        assert!((10.0 * t + 0.5 * t * t - 100.0).abs() < 1e-9);
        assert_eq!(t, stays(-100.0, 10.0, 1.0), "from below as from above");
        // A value that rises at first takes longer to reach zero: up at 10 km/s, then down.
        let t = stays(100.0, 10.0, 1.0);
        assert!((100.0 + 10.0 * t - 0.5 * t * t).abs() < 1e-9);
        assert_eq!(stays(0.0, 10.0, 1.0), 20.0, "just begun");
    }

    #[test]
    fn conditions_hold_together() {
        let mut sum = Conjunction::default();
        assert!(sum.look().value > 1e300);
        sum.add(10.0, 1.0, None);
        sum.add(20.0, 10.0, None);
        assert_eq!((sum.look().value, sum.look().hold), (2.0, 2.0));
        sum.add(-7.0, 1.0, None);
        sum.add(-1.0, 1.0, None);
        assert_eq!((sum.look().value, sum.look().hold), (-7.0, 7.0));
    }
}
