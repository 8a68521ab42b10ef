//! Where the nodes of a scenario are, for whoever shows or records a run: beside the simulation, which moves them
//! itself (`contacts/kinetic.rs`), from the same legs.

use super::{Leg, Mobility, Point, advance};
use crate::contacts::ways;
use farlink_scenario::Scenario;

/// A node on its way.
struct Walker {
    motion: Box<dyn Mobility>,
    leg: Leg,
}

/// The ways of a scenario's nodes, by their places in it, each as far as it was asked for.
pub struct Ways {
    nodes: Vec<Option<Walker>>,
}

impl Ways {
    /// Those of a scenario: they follow from it and its seed alone.
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
    /// The least and the largest coordinates that nodes will have, about, in metres; `None`: no node has any.
    pub fn bounds(&self) -> Option<[Point; 2]> {
        let all = self.nodes.iter().flatten().map(|walker| walker.motion.bounds());
        all.reduce(|[low, high], [least, most]| {
            [[low[0].min(least[0]), low[1].min(least[1])], [high[0].max(most[0]), high[1].max(most[1])]]
        })
    }
    /// The leg that a node is on, as far as it was asked for; `None` of one without a position.
    pub fn leg(&self, node: usize) -> Option<Leg> {
        Some(self.nodes.get(node)?.as_ref()?.leg)
    }
    /// Goes on to a node's next leg, which takes time.
    pub fn go_on(&mut self, node: usize) {
        if let Some(Walker { motion, leg }) = self.nodes.get_mut(node).and_then(Option::as_mut) {
            *leg = advance(motion.as_mut(), leg);
        }
    }
    /// Where a node is, in metres east and north, at a time in seconds from the start of the run, which is not before
    /// one that was asked for; `None` of a node without a position.
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
