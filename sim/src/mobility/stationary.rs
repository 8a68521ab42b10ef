//! Nodes that stay where they are.

use super::{Leg, Mobility, Point};

/// A node that does not move.
#[derive(Clone, Copy, Debug)]
pub struct Stationary {
    /// Where it is.
    pub at: Point,
}

impl Mobility for Stationary {
    fn first_leg(&mut self) -> Leg {
        Leg::rest(self.at, 0.0, f64::INFINITY)
    }
    fn next_leg(&mut self, last: &Leg) -> Leg {
        Leg::rest(self.at, last.end, f64::INFINITY)
    }
    fn bounds(&self) -> [Point; 2] {
        [self.at; 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stationary_node_has_one_leg() {
        let leg = Stationary { at: [3.0, -4.0] }.first_leg();
        assert!(leg.is_rest() && leg.end == f64::INFINITY && leg.at(1e9) == [3.0, -4.0]);
    }
}
