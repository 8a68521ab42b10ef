//! How nodes move: in straight lines at one speed, a leg at a time, each computed as the one before ends.
//!
//! Nobody steps through time here: where a node is follows from its leg at any moment, and so does, of
//! two of them, when they come near (`contacts/kinetic.rs`). Positions are metres on a plane, times
//! seconds from the start of the run. A node's legs follow from a seed and its own number alone:
//! whatever else is drawn in a run, it goes the same ways.

pub mod city;
pub mod map;
pub mod stationary;
pub mod trace;
pub mod walk;
pub mod waypoint;
pub mod ways;

use farlink_base::Rng;

/// A point on the plane: metres east and north.
pub type Point = [f64; 2];

/// A straight way at one speed, or a rest: from `start` to just before `end`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Leg {
    /// Seconds from the start of the run.
    pub start: f64,
    /// Seconds from the start of the run; infinite for a rest that does not end.
    pub end: f64,
    /// Where the node is at the start.
    pub from: Point,
    /// Metres a second.
    pub velocity: Point,
}

impl Leg {
    /// A rest at a place.
    pub fn rest(at: Point, start: f64, seconds: f64) -> Leg {
        Leg { start, end: start + seconds, from: at, velocity: [0.0; 2] }
    }
    /// The straight way to a place at a speed; no way at all is a rest that ends as it starts, and one
    /// that is never gone (no speed) a rest without end.
    pub fn way(from: Point, to: Point, start: f64, speed: f64) -> Leg {
        let length = distance(from, to);
        if length == 0.0 {
            return Leg::rest(from, start, 0.0);
        }
        let seconds = length / speed;
        // Of a way too short or too slow for these numbers, a velocity would be none.
        if !(seconds > 0.0 && seconds < f64::MAX) {
            return Leg::rest(from, start, if speed > 0.0 { 0.0 } else { f64::INFINITY });
        }
        let velocity = [(to[0] - from[0]) / seconds, (to[1] - from[1]) / seconds];
        Leg { start, end: start + seconds, from, velocity }
    }
    /// The same from one time to another.
    pub fn between(from: Point, to: Point, start: f64, end: f64) -> Leg {
        let seconds = end - start;
        if seconds > 0.0 && seconds < f64::MAX {
            let velocity = [(to[0] - from[0]) / seconds, (to[1] - from[1]) / seconds];
            return Leg { start, end, from, velocity };
        }
        Leg { start, end: end.max(start), from, velocity: [0.0; 2] }
    }
    /// Where the node is at a time, as if the leg had neither beginning nor end.
    pub fn at(&self, time: f64) -> Point {
        if self.is_rest() {
            return self.from;
        }
        let since = time - self.start;
        [self.from[0] + self.velocity[0] * since, self.from[1] + self.velocity[1] * since]
    }
    /// Whether the node does not move.
    pub fn is_rest(&self) -> bool {
        self.velocity == [0.0; 2]
    }
}

/// How one node moves.
pub trait Mobility: Send {
    /// The first leg: it starts at time zero.
    fn first_leg(&mut self) -> Leg;
    /// The leg after this one: it starts when and where this one ends.
    fn next_leg(&mut self, last: &Leg) -> Leg;
    /// The least and the largest coordinates the node will have, about: they divide the plane well, and
    /// nothing more hangs on them.
    fn bounds(&self) -> [Point; 2];
}

/// Legs in a row that take no time, after which a node rests for a second: time must go on.
const HASTE: u32 = 1000;

/// The leg of a node after this one, the first that takes time.
pub fn advance(motion: &mut dyn Mobility, leg: &Leg) -> Leg {
    let mut last = *leg;
    for _ in 0..HASTE {
        let next = motion.next_leg(&last);
        last = Leg { start: last.end, end: next.end.max(last.end), ..next };
        if last.end > last.start {
            return last;
        }
    }
    Leg::rest(last.from, last.start, 1.0)
}

/// Metres between two points.
pub fn distance(a: Point, b: Point) -> f64 {
    let (x, y) = (b[0] - a[0], b[1] - a[1]);
    (x * x + y * y).sqrt()
}

/// The generator of one node's movement.
pub fn stream(seed: u64, node: u32) -> Rng {
    /// Apart from every other purpose that a run draws for.
    const MOVEMENT: u64 = 16;
    Rng::stream(seed, MOVEMENT << 32 | u64::from(node))
}

/// A value drawn uniformly from the least to the most.
pub(crate) fn draw(random: &mut Rng, [least, most]: [f64; 2]) -> f64 {
    least + (most - least) * random.unit()
}

/// What nodes that wander in a rectangle, now walking, now resting, have in common.
#[derive(Clone, Debug)]
pub struct Wander {
    /// The rectangle reaches from the origin to here, metres.
    pub area: Point,
    /// Least and largest speed, metres a second.
    pub speed: [f64; 2],
    /// Least and largest rest between two ways, seconds.
    pub pause: [f64; 2],
}

impl Wander {
    fn point(&self, random: &mut Rng) -> Point {
        let x = random.unit() * self.area[0];
        [x, random.unit() * self.area[1]]
    }
    fn bounds(&self) -> [Point; 2] {
        [[0.0; 2], self.area]
    }
    /// The first leg of all who wander: a rest at a random place.
    fn appear(&self, random: &mut Rng) -> Leg {
        let at = self.point(random);
        Leg::rest(at, 0.0, draw(random, self.pause))
    }
    /// Whether a rest is due after a leg.
    fn rests_after(&self, last: &Leg) -> bool {
        !last.is_rest() && self.pause[1] > 0.0
    }
}

/// A node that goes from goal to goal in a rectangle, and rests at each.
#[derive(Clone, Debug)]
struct Wanderer {
    wander: Wander,
    random: Rng,
    /// Where it goes, or is.
    goal: Point,
}

impl Wanderer {
    fn new(wander: Wander, random: Rng) -> Wanderer {
        Wanderer { wander, random, goal: [0.0; 2] }
    }
    fn first_leg(&mut self) -> Leg {
        let leg = self.wander.appear(&mut self.random);
        self.goal = leg.from;
        leg
    }
    /// A rest after a way, and after a rest a way from where it is to what `next_goal` draws.
    fn next_leg(&mut self, last: &Leg, next_goal: impl FnOnce(&Wander, &mut Rng, Point) -> Point) -> Leg {
        if self.wander.rests_after(last) {
            return Leg::rest(self.goal, last.end, draw(&mut self.random, self.wander.pause));
        }
        let from = self.goal;
        self.goal = next_goal(&self.wander, &mut self.random, from);
        Leg::way(from, self.goal, last.end, draw(&mut self.random, self.wander.speed))
    }
    fn bounds(&self) -> [Point; 2] {
        self.wander.bounds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leg_ends_at_target_on_time() {
        let leg = Leg::way([1.0, 2.0], [4.0, 6.0], 10.0, 2.5);
        assert_eq!((leg.start, leg.end, leg.velocity), (10.0, 12.0, [1.5, 2.0]));
        assert_eq!((leg.at(10.0), leg.at(11.0), leg.at(12.0)), ([1.0, 2.0], [2.5, 4.0], [4.0, 6.0]));
        assert_eq!(Leg::between([1.0, 2.0], [4.0, 6.0], 10.0, 12.0), leg);
        let rest = Leg::rest([3.0, 3.0], 5.0, f64::INFINITY);
        assert!(rest.is_rest() && rest.at(1e300) == [3.0, 3.0], "no product of zero and infinity");
    }

    #[test]
    fn empty_leg_is_a_rest() {
        for (to, speed) in [([1.0, 1.0], 5.0), ([2.0, 1.0], 0.0), ([1.0, 1.0], 0.0), ([1.0 + 1e-16, 1.0], f64::MAX)] {
            let leg = Leg::way([1.0, 1.0], to, 3.0, speed);
            assert!(leg.is_rest() && leg.end >= leg.start, "{to:?} {speed}: {leg:?}");
        }
        assert_eq!(Leg::way([0.0; 2], [1.0, 0.0], 3.0, 0.0).end, f64::INFINITY);
        assert!(Leg::between([0.0; 2], [1.0, 0.0], 3.0, 3.0).is_rest());
        assert_eq!(Leg::between([0.0; 2], [1.0, 0.0], 3.0, 1.0).end, 3.0, "time does not go back");
    }

    #[test]
    fn streams_depend_on_node_and_seed() {
        let first = |seed, node| stream(seed, node).next_u64();
        assert_eq!(first(1, 2), first(1, 2));
        assert!(first(1, 2) != first(1, 3) && first(1, 2) != first(2, 2));
    }
}
