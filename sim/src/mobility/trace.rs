//! Recorded movement: straight lines between recorded positions. The node waits at the first and stays at the last.

use super::{Leg, Mobility, Point};
use std::sync::Arc;

/// Recorded position at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Fix {
    /// Time in seconds from the start of the run.
    pub at: f64,
    /// Position of the node.
    pub position: Point,
}

/// Movement along recorded positions.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Positions in time order.
    fixes: Arc<[Fix]>,
    /// Number of positions already passed.
    passed: usize,
}

impl Traced {
    /// Makes the movement of a node; times must not decrease.
    pub fn new(fixes: Arc<[Fix]>) -> Traced {
        Traced { fixes, passed: 0 }
    }
    fn from(&mut self, start: f64) -> Leg {
        // Of several positions at one time, or before the run, the last counts.
        while self.fixes.get(self.passed).is_some_and(|fix| fix.at <= start) {
            self.passed += 1;
        }
        let before = self.passed.checked_sub(1).and_then(|last| self.fixes.get(last));
        match (before, self.fixes.get(self.passed)) {
            // A leg that began before the run starts in the middle.
            (Some(a), Some(b)) if a.at < start => {
                let whole = Leg::between(a.position, b.position, a.at, b.at);
                Leg { start, from: whole.at(start), ..whole }
            }
            (Some(a), Some(b)) => Leg::between(a.position, b.position, start, b.at),
            (None, Some(first)) => Leg::rest(first.position, start, first.at - start),
            (Some(last), None) => Leg::rest(last.position, start, f64::INFINITY),
            (None, None) => Leg::rest([0.0; 2], start, f64::INFINITY),
        }
    }
}

impl Mobility for Traced {
    fn first_leg(&mut self) -> Leg {
        self.from(0.0)
    }
    fn next_leg(&mut self, last: &Leg) -> Leg {
        self.from(last.end)
    }
    fn bounds(&self) -> [Point; 2] {
        let first = self.fixes.first().map_or([0.0; 2], |fix| fix.position);
        let join = |[low, high]: [Point; 2], fix: &Fix| {
            let p = fix.position;
            [[low[0].min(p[0]), low[1].min(p[1])], [high[0].max(p[0]), high[1].max(p[1])]]
        };
        self.fixes.iter().fold([first, first], join)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legs(fixes: &[(f64, f64)], count: usize) -> Vec<(f64, f64, f64, f64)> {
        let fixes: Vec<Fix> = fixes.iter().map(|(at, x)| Fix { at: *at, position: [*x, 0.0] }).collect();
        let mut node = Traced::new(fixes.into());
        let mut legs = vec![node.first_leg()];
        while legs.len() < count {
            let next = node.next_leg(&legs[legs.len() - 1]);
            legs.push(next);
        }
        legs.iter().map(|leg| (leg.start, leg.end, leg.from[0], leg.velocity[0])).collect()
    }
    const EVER: f64 = f64::INFINITY;

    #[test]
    fn trace_waits_moves_and_stays() {
        let fixes = [(10.0, 5.0), (20.0, 25.0), (20.0, 30.0), (25.0, 30.0)];
        let expected =
            [(0.0, 10.0, 5.0, 0.0), (10.0, 20.0, 5.0, 2.0), (20.0, 25.0, 30.0, 0.0), (25.0, EVER, 30.0, 0.0)];
        assert_eq!(legs(&fixes, 4), expected, "of two places at one time the last holds");
    }

    #[test]
    fn positions_before_start_are_under_way() {
        assert_eq!(legs(&[(-10.0, 0.0), (10.0, 20.0)], 2), [(0.0, 10.0, 10.0, 1.0), (10.0, EVER, 20.0, 0.0)]);
        assert_eq!(legs(&[(-10.0, 3.0)], 1), [(0.0, EVER, 3.0, 0.0)]);
        assert_eq!(legs(&[], 1), [(0.0, EVER, 0.0, 0.0)]);
    }
}
