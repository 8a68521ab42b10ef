//! Nodes that do not move.

use super::{Leg, Mobility, Point};

/// Movement model of a stationary node.
#[derive(Clone, Copy, Debug)]
pub struct Stationary {
    /// Position of the node.
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
