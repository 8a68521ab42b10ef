//! Positions of the nodes of a scenario, for display and recording, computed from the same legs as the simulation's own
//! (`contacts/kinetic.rs`).

use super::{Leg, Mobility, Point, advance};
use crate::contacts::ways;
use farlink_scenario::Scenario;

/// Node with its current leg.
struct Walker {
    motion: Box<dyn Mobility>,
    leg: Leg,
}

/// Movement of the nodes of a scenario by index, each advanced as far as requested.
pub struct Ways {
    nodes: Vec<Option<Walker>>,
}

impl Ways {
    /// Makes the movement of a scenario's nodes; it depends only on the scenario and its seed.
    pub fn of_scenario(scenario: &Scenario) -> Ways {
        let walker = |motion: Option<Box<dyn Mobility>>| {
            let mut motion = motion?;
            let first = motion.first_leg();
            let leg = if first.end > first.start { first } else { advance(motion.as_mut(), &first) };
            Some(Walker { motion, leg })
        };
        Ways { nodes: ways(scenario).into_iter().map(walker).collect() }
    }
    /// Whether no node has a position.
    pub fn is_empty(&self) -> bool {
        self.nodes.iter().all(Option::is_none)
    }
    /// Approximate bounds of all coordinates in metres; `None` if no node has a position.
    pub fn bounds(&self) -> Option<[Point; 2]> {
        let all = self.nodes.iter().flatten().map(|walker| walker.motion.bounds());
        all.reduce(|[low, high], [least, most]| {
            [[low[0].min(least[0]), low[1].min(least[1])], [high[0].max(most[0]), high[1].max(most[1])]]
        })
    }
    /// Current leg of a node; `None` without a position.
    pub fn leg(&self, node: usize) -> Option<Leg> {
        Some(self.nodes.get(node)?.as_ref()?.leg)
    }
    /// Advances a node to its next leg that takes time.
    pub fn go_on(&mut self, node: usize) {
        if let Some(Walker { motion, leg }) = self.nodes.get_mut(node).and_then(Option::as_mut) {
            *leg = advance(motion.as_mut(), leg);
        }
    }
    /// Position of a node in metres east and north, at a time in seconds from the start of the run; times must not
    /// decrease. `None` for a node without a position.
    pub fn at(&mut self, node: usize, time_s: f64) -> Option<Point> {
        while self.leg(node)?.end <= time_s {
            self.go_on(node);
        }
        Some(self.leg(node)?.at(time_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_requires_mobility() {
        let text = "name = \"x\"\nduration = \"1 min\"\nfidelity = \"message\"\n\
            [[mobility]]\nname = \"here\"\nmodel = \"stationary\"\npoints = [[\"3 m\", \"4 m\"]]\n\
            [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
            [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\nmobility = \"here\"\n";
        let scenario = Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let mut ways = Ways::of_scenario(&scenario);
        assert!(!ways.is_empty());
        assert_eq!((ways.at(0, 0.0), ways.at(1, 0.0), ways.at(1, 1e9), ways.at(2, 0.0)), {
            (None, Some([3.0, 4.0]), Some([3.0, 4.0]), None)
        });
        assert_eq!(ways.bounds(), Some([[3.0, 4.0]; 2]));
    }
}
