//! Random walk: a uniformly drawn direction and distance, a pause, and so on. A step that would leave the area is drawn
//! again.
//!
//! With steps of 0 to 50 m and a pause after each, this is The ONE's model of that name, whose nodes hardly leave their
//! neighbourhood. Directions are drawn without sine and cosine, so that every machine computes the same ways.

use super::{Leg, Mobility, Point, Wander, Wanderer, draw};
use farlink_base::Rng;

/// Rejected steps after which the node walks towards a random point of the area.
const TRIES: u32 = 64;

/// Movement of a random walk.
#[derive(Clone, Debug)]
pub struct Walk {
    wanderer: Wanderer,
    /// Shortest and longest step, metres.
    step: [f64; 2],
}

impl Walk {
    /// Makes the movement of a node, with its own random stream.
    pub fn new(wander: Wander, step: [f64; 2], random: Rng) -> Walk {
        Walk { wanderer: Wanderer::new(wander, random), step }
    }
}

fn next_goal(wander: &Wander, random: &mut Rng, from: Point, step: [f64; 2]) -> Point {
    let [width, height] = wander.area;
    for _ in 0..TRIES {
        let [x, y] = direction(random);
        let step = draw(random, step);
        let to = [from[0] + x * step, from[1] + y * step];
        if (0.0..=width).contains(&to[0]) && (0.0..=height).contains(&to[1]) {
            return to;
        }
    }
    wander.point(random)
}

fn direction(random: &mut Rng) -> Point {
    // Uniform: a point in the unit disc, scaled to its rim. Square root and division are exact on every machine, sine
    // and cosine are not.
    loop {
        let (x, y) = (2.0 * random.unit() - 1.0, 2.0 * random.unit() - 1.0);
        let square = x * x + y * y;
        // Points near the centre are rejected: their direction would be inexact.
        if square > 1e-12 && square <= 1.0 {
            let length = square.sqrt();
            return [x / length, y / length];
        }
    }
}

impl Mobility for Walk {
    fn first_leg(&mut self) -> Leg {
        self.wanderer.first_leg()
    }
    fn next_leg(&mut self, last: &Leg) -> Leg {
        let step = self.step;
        self.wanderer.next_leg(last, |wander, random, from| next_goal(wander, random, from, step))
    }
    fn bounds(&self) -> [Point; 2] {
        self.wanderer.bounds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mobility::{distance, stream};

    fn walk(step: [f64; 2], area: f64) -> Walk {
        Walk::new(Wander { area: [area; 2], speed: [1.0, 1.0], pause: [0.0, 10.0] }, step, stream(1, 9))
    }

    #[test]
    fn steps_stay_inside_the_area() {
        let mut node = walk([10.0, 50.0], 2000.0);
        let mut leg = node.first_leg();
        let mut quadrants = [0u32; 4];
        for _ in 0..20_000 {
            leg = node.next_leg(&leg);
            let to = leg.at(leg.end);
            assert!(to.iter().all(|c| (-1e-9..=2000.0 + 1e-9).contains(c)));
            if !leg.is_rest() {
                assert!((10.0 - 1e-9..=50.0 + 1e-9).contains(&distance(leg.from, to)));
                quadrants[usize::from(leg.velocity[0] > 0.0) * 2 + usize::from(leg.velocity[1] > 0.0)] += 1;
            }
        }
        assert!(quadrants.iter().all(|n| (2200..2800).contains(n)), "{quadrants:?}");
    }

    #[test]
    fn oversized_step_ends_inside_area() {
        let mut node = walk([500.0, 600.0], 100.0);
        let mut leg = node.first_leg();
        for _ in 0..100 {
            leg = node.next_leg(&leg);
            assert!(leg.at(leg.end).iter().all(|c| (-1e-9..=100.0 + 1e-9).contains(c)), "{leg:?}");
        }
    }
}
