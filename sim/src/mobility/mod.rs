//! Movement of nodes in straight legs at constant speed, each computed when the previous one ends.
//!
//! There are no time steps: a position at any time follows from the current leg, and so does the time at which two
//! nodes come near each other (`contacts/kinetic.rs`). Positions are metres on a plane, times seconds from the start of
//! the run. The legs of a node depend only on a seed and its number: other random draws of a run do not change them.

pub mod city;
pub mod map;
pub mod stationary;
pub mod trace;
pub mod walk;
pub mod waypoint;
pub mod ways;

use farlink_base::Rng;

/// Point on the plane: metres east and north.
pub type Point = [f64; 2];

/// Straight movement at constant speed, or a pause: from `start` to just before `end`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Leg {
    /// Start in seconds from the start of the run.
    pub start: f64,
    /// End in seconds from the start of the run; infinite for a pause without end.
    pub end: f64,
    /// Position of the node at the start.
    pub from: Point,
    /// Velocity, metres a second.
    pub velocity: Point,
}

impl Leg {
    /// Makes a pause at a position.
    pub fn rest(at: Point, start: f64, seconds: f64) -> Leg {
        Leg { start, end: start + seconds, from: at, velocity: [0.0; 2] }
    }
    /// Makes the straight leg to a position at a speed. A leg without length becomes a pause of no duration; a leg at
    /// speed zero becomes a pause without end.
    pub fn way(from: Point, to: Point, start: f64, speed: f64) -> Leg {
        let length = distance(from, to);
        if length == 0.0 {
            return Leg::rest(from, start, 0.0);
        }
        let seconds = length / speed;
        // A leg too short or too slow for floating point would have no finite velocity.
        if !(seconds > 0.0 && seconds < f64::MAX) {
            return Leg::rest(from, start, if speed > 0.0 { 0.0 } else { f64::INFINITY });
        }
        let velocity = [(to[0] - from[0]) / seconds, (to[1] - from[1]) / seconds];
        Leg { start, end: start + seconds, from, velocity }
    }
    /// Makes the straight leg between two positions from `start` to `end`.
    pub fn between(from: Point, to: Point, start: f64, end: f64) -> Leg {
        let seconds = end - start;
        if seconds > 0.0 && seconds < f64::MAX {
            let velocity = [(to[0] - from[0]) / seconds, (to[1] - from[1]) / seconds];
            return Leg { start, end, from, velocity };
        }
        Leg { start, end: end.max(start), from, velocity: [0.0; 2] }
    }
    /// Position at a time, as if the leg had neither start nor end.
    pub fn at(&self, time: f64) -> Point {
        // Zero times infinity is no number: a pause must not multiply.
        if self.is_rest() {
            return self.from;
        }
        let since = time - self.start;
        [self.from[0] + self.velocity[0] * since, self.from[1] + self.velocity[1] * since]
    }
    /// Whether the node stands still.
    pub fn is_rest(&self) -> bool {
        self.velocity == [0.0; 2]
    }
}

/// Movement model of one node.
pub trait Mobility: Send {
    /// First leg, which starts at time zero.
    fn first_leg(&mut self) -> Leg;
    /// Next leg, which starts when and where `last` ends.
    fn next_leg(&mut self, last: &Leg) -> Leg;
    /// Approximate bounds of the node's coordinates, which size the grid and affect nothing else.
    fn bounds(&self) -> [Point; 2];
}

/// Largest number of consecutive legs of no duration; then the node pauses for a second, so that time advances.
const HASTE: u32 = 1000;

/// Next leg of positive duration.
pub fn advance(motion: &mut dyn Mobility, leg: &Leg) -> Leg {
    let mut last = *leg;
    for _ in 0..HASTE {
        let next = motion.next_leg(&last);
        // Guards against models whose legs end before they start.
        last = Leg { start: last.end, end: next.end.max(last.end), ..next };
        if last.end > last.start {
            return last;
        }
    }
    Leg::rest(last.from, last.start, 1.0)
}

/// Distance of two points, metres.
pub fn distance(a: Point, b: Point) -> f64 {
    let (x, y) = (b[0] - a[0], b[1] - a[1]);
    (x * x + y * y).sqrt()
}

/// Random stream of one node's movement.
pub fn stream(seed: u64, node: u32) -> Rng {
    /// Index of the stream, apart from all others of a run.
    const MOVEMENT: u64 = 16;
    Rng::stream(seed, MOVEMENT << 32 | u64::from(node))
}

/// Draws uniformly from an interval.
pub(crate) fn draw(random: &mut Rng, [least, most]: [f64; 2]) -> f64 {
    least + (most - least) * random.unit()
}

/// Common parameters of models that wander in a rectangle with pauses.
#[derive(Clone, Debug)]
pub struct Wander {
    /// Corner opposite to the origin, metres.
    pub area: Point,
    /// Smallest and largest speed, metres a second.
    pub speed: [f64; 2],
    /// Shortest and longest pause between two ways, seconds.
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
    fn appear(&self, random: &mut Rng) -> Leg {
        // The drawn pause keeps nodes from setting out all at once.
        let at = self.point(random);
        Leg::rest(at, 0.0, draw(random, self.pause))
    }
    fn rests_after(&self, last: &Leg) -> bool {
        // A pause follows each movement, unless pauses are configured to take no time.
        !last.is_rest() && self.pause[1] > 0.0
    }
}

/// Movement from goal to goal in a rectangle, with a pause at each.
#[derive(Clone, Debug)]
struct Wanderer {
    wander: Wander,
    random: Rng,
    /// Present position or destination.
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
    fn next_leg(&mut self, last: &Leg, next_goal: impl FnOnce(&Wander, &mut Rng, Point) -> Point) -> Leg {
        // The goal is drawn only when the pause is over, so that draws follow the order of legs.
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
