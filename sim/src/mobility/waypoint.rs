//! Random waypoint: a uniformly drawn point of the area, a straight way there at a speed drawn per way, a pause, and so
//! on (Johnson and Maltz, 1996).
//!
//! A node starts at a random position with a pause. As is known of this model, nodes concentrate in the middle of the
//! area, and slow ways take long: choose a minimum speed well above zero.

use super::{Leg, Mobility, Point, Wander, Wanderer};
use farlink_base::Rng;

/// Movement of a random waypoint node.
#[derive(Clone, Debug)]
pub struct Waypoint(Wanderer);

impl Waypoint {
    /// Makes the movement of a node, with its own random stream.
    pub fn new(wander: Wander, random: Rng) -> Waypoint {
        Waypoint(Wanderer::new(wander, random))
    }
}

impl Mobility for Waypoint {
    fn first_leg(&mut self) -> Leg {
        self.0.first_leg()
    }
    fn next_leg(&mut self, last: &Leg) -> Leg {
        self.0.next_leg(last, |wander, random, _| wander.point(random))
    }
    fn bounds(&self) -> [Point; 2] {
        self.0.bounds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mobility::{distance, stream};

    fn wander() -> Wander {
        Wander { area: [1000.0, 500.0], speed: [0.5, 1.5], pause: [0.0, 120.0] }
    }

    #[test]
    fn rests_and_legs_alternate_within_bounds() {
        let mut node = Waypoint::new(wander(), stream(7, 3));
        let mut leg = node.first_leg();
        let (mut rested, mut gone, mut far) = (0.0, 0, 0.0);
        assert!(leg.is_rest() && leg.start == 0.0);
        for _ in 0..20_000 {
            let next = node.next_leg(&leg);
            assert_eq!(next.start, leg.end);
            assert_ne!(next.is_rest(), leg.is_rest());
            let end = leg.at(leg.end);
            assert!(distance(end, next.from) < 1e-9, "it begins where the other ended");
            assert!((0.0..=1000.0).contains(&next.from[0]) && (0.0..=500.0).contains(&next.from[1]));
            if next.is_rest() {
                rested += next.end - next.start;
            } else {
                let speed = distance([0.0; 2], next.velocity);
                assert!((0.5 - 1e-9..1.5 + 1e-9).contains(&speed), "{speed}");
                gone += 1;
                far += speed * (next.end - next.start);
            }
            leg = next;
        }
        assert!((rested / f64::from(gone) - 60.0).abs() < 2.0, "{rested} s in {gone} rests");
        // The mean distance of two random points in a rectangle of 1 by 0.5 is 0.402 of the longer side.
        assert!((far / f64::from(gone) - 402.0).abs() < 8.0, "{far} m in {gone} ways");
    }

    #[test]
    fn zero_rest_continues_at_once() {
        let mut node = Waypoint::new(Wander { pause: [0.0; 2], ..wander() }, stream(1, 1));
        let mut leg = node.first_leg();
        assert_eq!((leg.start, leg.end), (0.0, 0.0));
        for _ in 0..100 {
            leg = node.next_leg(&leg);
            assert!(!leg.is_rest() && leg.end > leg.start);
        }
    }
}
