//! Faults of a scenario, and which of them are active; `world/faults.rs` applies them to nodes and links.

use crate::build;
use crate::byzantine::{ByzantineNode, Crossed, Lies};
use crate::own::OwnPolicies;
use farlink_base::{Clock, ConfigError, Instant, NodeId};
use farlink_routing::PlanIndex;
use farlink_scenario::{Fault, FaultKind, Scenario};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Scenario with its active faults.
pub(crate) struct Faults {
    pub scenario: Scenario,
    pub plan: Arc<PlanIndex>,
    /// Per node, the number of faults that keep it down.
    pub down: Vec<u32>,
    /// Per node, the clock's offset from jumps in nanoseconds, and its drifts with rate in ppm and start.
    pub jumped_ns: Vec<i64>,
    pub drifts: Vec<Vec<(f64, Instant)>>,
    /// Pairs in radio range: radio, lower node, higher node.
    pub near: BTreeSet<(u16, u32, u32)>,
    /// Pairs that a fault keeps from communicating by radio, with the number of such faults.
    pub deaf: BTreeMap<(u32, u32), u32>,
    /// State of Byzantine nodes, if the scenario has any.
    pub lies: Option<Lying>,
}

/// Byzantine nodes, with the names and bundles that their lies use.
pub(crate) struct Lying {
    pub nodes: Vec<Lies>,
    pub names: Vec<NodeId>,
    pub crossed: Crossed,
}

impl Faults {
    /// Reads the faults of a scenario, if it has any.
    ///
    /// # Errors
    /// Fails if nodes restart while a policy depends on the oracle, which cannot follow a loss, or while the caller
    /// brings policies, which cannot be made again.
    pub fn new(
        scenario: &Scenario,
        plan: &Arc<PlanIndex>,
        own: &dyn OwnPolicies,
    ) -> Result<Option<Box<Faults>>, ConfigError> {
        if scenario.faults.is_empty() {
            return Ok(None);
        }
        let restarts = |fault: &Fault| matches!(fault.kind, FaultKind::Restart { .. });
        let refused = |why: &str| ConfigError {
            path: "fault".into(),
            expected: why.into(),
            hint: "take the restarts out, or choose another router and control".into(),
        };
        if scenario.faults.iter().any(restarts) {
            if scenario.needs_oracle().is_some() {
                return Err(refused("a policy knows the whole network, and a node that restarts forgets"));
            }
            if own.any() {
                return Err(refused("a node that restarts has the router and control of the scenario, not its own"));
            }
        }
        let nodes = scenario.nodes.len();
        Ok(Some(Box::new(Faults {
            scenario: scenario.clone(),
            plan: plan.clone(),
            down: vec![0; nodes],
            jumped_ns: vec![0; nodes],
            drifts: vec![Vec::new(); nodes],
            near: BTreeSet::new(),
            deaf: BTreeMap::new(),
            lies: scenario.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Lie { .. })).then(|| Lying {
                nodes: vec![Lies::default(); nodes],
                names: scenario.nodes.iter().map(|node| node.number).collect(),
                crossed: Crossed::default(),
            }),
        })))
    }
    /// Clock of a node with its jumps and drifts until `now`, as a configuration for the start of the run: `utc` is the
    /// time that such a clock would have shown then.
    pub fn clock(&self, node: usize, now: Instant) -> Clock {
        // Jumps and drifts add up; a drift is proportional to the time since it began.
        let right = build::clock(&self.scenario, node);
        let drifted: f64 =
            self.drifts[node].iter().map(|(ppm, since)| ppm * 1e-6 * now.since(*since).as_secs_f64()).sum();
        let off_ms = self.jumped_ns[node] / 1_000_000 + (drifted * 1e3) as i64;
        let utc = right.utc.map(|utc| farlink_base::DtnTime(utc.0.saturating_add_signed(off_ms).max(1)));
        Clock { utc, ..right }
    }
    /// Byzantine view of a node, if it lies.
    pub fn byzantine(&self, node: usize) -> Option<ByzantineNode<'_>> {
        let Lying { nodes, names, crossed } = self.lies.as_ref()?;
        let own = &self.scenario.nodes[node];
        let lies = nodes[node];
        let (router, control) = (own.router.name.as_str(), own.control.name.as_str());
        (lies != Lies::default()).then_some(ByzantineNode {
            lies,
            me: own.number,
            router,
            control,
            nodes: names,
            crossed,
        })
    }
    pub fn can_meet(&self, edge: &(u16, u32, u32)) -> bool {
        let (_, a, b) = *edge;
        [a, b].iter().all(|node| self.down[*node as usize] == 0) && !self.deaf.contains_key(&(a, b))
    }
}
