//! What goes wrong as the scenario says: nodes that are killed and start again, nodes that hear each other no
//! more, clocks, nodes that lie. That links of cables are down is part of their windows; here it is told.
//!
//! A killed node keeps its disk, and of that what was synced. Its operating system resets its streams; datagrams to
//! it are lost, and so is what was on its way to or from it in whole bundles. Nobody is told that it is down.

use super::{Happening, World};
use crate::build;
use crate::contacts::ContactEdge;
use crate::liar::{Crossed, Liar, Lies};
use crate::node::SimulatedNode;
use crate::observe::Observer;
use crate::own::{OwnPolicies, Registered};
use farlink_base::{BundleMeta, Clock, ConfigError, Duration, Event, Instant, LinkId, NodeId};
use farlink_routing::PlanIndex;
use farlink_scenario::{Fault, FaultKind, Lie, Scenario};
use farlink_stack::Input;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A clock that drifts is told anew each time it is this much further off,
const DRIFT_STEP_S: f64 = 0.001;
/// and not more often than so.
const DRIFT_EVERY: Duration = Duration::from_secs(1);

/// A scenario with faults, and what is wrong now.
pub(super) struct Faults {
    scenario: Scenario,
    plan: Arc<PlanIndex>,
    /// Per node, by how many faults it is down.
    down: Vec<u32>,
    /// Per node, how far its clock is off by jumps, in nanoseconds, and by drifts: how fast, and since when.
    jumped_ns: Vec<i64>,
    drifts: Vec<Vec<(f64, Instant)>>,
    /// Who is near enough to hear whom: radio, smaller node, larger node.
    near: BTreeSet<(u16, u32, u32)>,
    /// Who hears each other by no radio, by how many faults.
    deaf: BTreeMap<(u32, u32), u32>,
    /// Where somebody will lie: who does, what of, and whom there is to speak of.
    lies: Option<Lying>,
}

struct Lying {
    nodes: Vec<Lies>,
    names: Vec<NodeId>,
    crossed: Crossed,
}

impl Faults {
    /// Those of a scenario, if it has any.
    ///
    /// # Errors
    /// When policies that know the whole network would have to be told what a killed node no longer has, or those of a
    /// killed node are not in the registry, to be made again.
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
    /// What a node's clock shows.
    fn clock(&self, node: usize, now: Instant) -> Clock {
        let right = build::clock(&self.scenario, node);
        let drifted: f64 =
            self.drifts[node].iter().map(|(ppm, since)| ppm * 1e-6 * now.since(*since).as_secs_f64()).sum();
        let off_ms = self.jumped_ns[node] / 1_000_000 + (drifted * 1e3) as i64;
        let utc = right.utc.map(|utc| farlink_base::DtnTime(utc.0.saturating_add_signed(off_ms).max(1)));
        Clock { utc, ..right }
    }
    /// Who this node is when it speaks, if it lies.
    fn liar(&self, node: usize) -> Option<Liar<'_>> {
        let Lying { nodes, names, crossed } = self.lies.as_ref()?;
        let own = &self.scenario.nodes[node];
        let lies = nodes[node];
        let (router, control) = (own.router.name.as_str(), own.control.name.as_str());
        (lies != Lies::default()).then_some(Liar { lies, me: own.number, router, control, nodes: names, crossed })
    }
    fn hear(&self, edge: &(u16, u32, u32)) -> bool {
        let (_, a, b) = *edge;
        [a, b].iter().all(|node| self.down[*node as usize] == 0) && !self.deaf.contains_key(&(a, b))
    }
}

fn edge(now: Instant, (radio, a, b): (u16, u32, u32), up: bool) -> ContactEdge {
    ContactEdge { at: now, a, b, radio, up }
}

impl<O: Observer> World<O> {
    /// Sets the time at which each fault begins.
    pub(super) fn await_faults(&mut self) {
        let Some(faults) = &self.faults else { return };
        for (index, fault) in faults.scenario.faults.iter().enumerate() {
            if let FaultKind::Restart { node } = fault.kind {
                self.nodes[node].disk.may_forget();
            }
            self.queue.arm(Instant::ZERO + fault.at, Happening::Fault { index, ends: false });
        }
    }

    /// A fault begins or ends.
    pub(super) fn fault(&mut self, index: usize, ends: bool) {
        let Some(fault) = self.faults.as_ref().map(|faults| faults.scenario.faults[index].clone()) else { return };
        let drifts = matches!(fault.kind, FaultKind::ClockDrift { .. });
        if !ends {
            if let Some(every) = fault.every {
                self.queue.arm(self.now + every, Happening::Fault { index, ends: false });
            }
            if !fault.lasts.is_zero() {
                self.queue.arm(self.now + fault.lasts, Happening::Fault { index, ends: true });
            }
        }
        if !(ends && drifts) {
            self.injected += u64::from(!ends);
            self.trace.add(&[self.now.0, 7, index as u64, u64::from(ends)]);
        }
        match fault.kind {
            FaultKind::Restart { node } => self.restart(node, ends),
            FaultKind::LinkDown { link } => {
                for end in self.cables[link].ends {
                    self.tell_fault(end.node, Some(end.link), if ends { "link up" } else { "link down" });
                }
            }
            FaultKind::Unheard { between } => self.unheard(between, ends),
            FaultKind::Lie { node, says } => {
                if let Some(lies) = self.faults.as_mut().and_then(|faults| faults.lies.as_mut()) {
                    let own = &mut lies.nodes[node];
                    match says {
                        Lie::Met => own.met = true,
                        Lie::Arrived => own.arrived = true,
                        Lie::Has => own.has = true,
                    }
                }
                self.tell_fault(node, None, "lie");
            }
            FaultKind::ClockJump { node, by_ns } => {
                if let Some(faults) = &mut self.faults {
                    faults.jumped_ns[node] = faults.jumped_ns[node].saturating_add(by_ns);
                }
                self.tell_fault(node, None, "clock");
                self.tell_clock(node);
            }
            FaultKind::ClockDrift { node, ppm } => {
                let now = self.now;
                if let Some(faults) = self.faults.as_mut().filter(|_| !ends) {
                    faults.drifts[node].push((ppm, now));
                    self.tell_fault(node, None, "clock");
                } else {
                    self.tell_clock(node);
                }
                if ppm != 0.0 {
                    let step = Duration::try_from_secs_f64(DRIFT_STEP_S / (ppm.abs() * 1e-6)).unwrap_or(Duration::MAX);
                    let next = self.now.saturating_add(step.max(DRIFT_EVERY));
                    self.queue.arm(next, Happening::Fault { index, ends: true });
                }
            }
        }
    }

    /// What a node tells its neighbour of itself, as it says it: in place of words that leave freely.
    pub(super) fn said_of_itself(&self, node: usize, content: Vec<u8>) -> Vec<u8> {
        let liar = self.faults.as_ref().and_then(|faults| faults.liar(node));
        liar.and_then(|liar| liar.hello(&content)).unwrap_or(content)
    }
    /// The same in a bundle of so many bytes; other bundles leave as they are.
    pub(super) fn said_in(&mut self, node: usize, bundle: Arc<BundleMeta>, size: u64) -> (Arc<BundleMeta>, u64) {
        let Some(faults) = self.faults.as_mut().filter(|faults| faults.lies.is_some()) else { return (bundle, size) };
        if !bundle.is_administrative() {
            faults.lies.iter_mut().for_each(|lies| lies.crossed.note(bundle.id));
            return (bundle, size);
        }
        let told = faults.liar(node).and_then(|liar| liar.payload(bundle.version, &bundle.payload.to_bytes()?));
        let Some(told) = told else { return (bundle, size) };
        let size = size.saturating_sub(bundle.payload.len()) + told.len() as u64;
        let mut lie = BundleMeta::clone(&bundle);
        lie.payload = told.into();
        (Arc::new(lie), size)
    }

    fn tell_fault(&mut self, node: usize, link: Option<LinkId>, what: &'static str) {
        let event = Event::Fault { link, what };
        if self.traced {
            self.trace.event(self.now, node, &event);
        }
        if self.observer.wants(event.class()) {
            self.observer.event(self.now, node, &event);
        }
    }

    fn tell_clock(&mut self, node: usize) {
        if let Some(clock) = self.faults.as_ref().map(|faults| faults.clock(node, self.now)) {
            self.tell(node, Input::Clock(clock));
        }
    }

    /// A node is killed, or starts again; by several faults at once it is down until the last of them ends.
    fn restart(&mut self, node: usize, ends: bool) {
        let Some(faults) = &mut self.faults else { return };
        let before = faults.down[node];
        faults.down[node] = if ends { before.saturating_sub(1) } else { before + 1 };
        match (before, faults.down[node]) {
            (0, 1) => self.kill(node),
            (1, 0) => self.start_again(node),
            _ => {}
        }
    }

    fn kill(&mut self, node: usize) {
        self.tell_fault(node, None, "node down");
        self.nodes[node].stop(self.now, &mut self.queue);
        self.applications.lose(node);
        self.part_all(|near| near.1 as usize == node || near.2 as usize == node);
        for connection in self.streams.kill(self.now, node) {
            self.settle_streams(connection);
        }
        let cables: Vec<usize> = self.nodes[node].cables().map(|(_, cable, _)| cable).collect();
        if let Some(crossings) = &mut self.crossings {
            for link in cables.into_iter().filter(|cable| *cable < self.cables.len()) {
                crossings.part(self.now, link, &mut self.queue, &mut self.todo);
                crossings.rest(link, &mut self.todo);
            }
        }
        self.drain();
    }

    fn start_again(&mut self, node: usize) {
        let Some(faults) = &self.faults else { return };
        let (scenario, clock) = (&faults.scenario, faults.clock(node, self.now));
        let fresh: Result<SimulatedNode, ConfigError> =
            build::node(scenario, node, faults.plan.clone(), self.nodes[node].life + 1, None, &Registered);
        let changes = build::changes(scenario);
        debug_assert!(fresh.is_ok() && changes.is_ok(), "both were made as the run began");
        let (Ok(fresh), Ok(changes)) = (fresh, changes) else { return };
        self.nodes[node].start(fresh);
        self.streams.wake_up(node);
        self.tell_fault(node, None, "node up");
        self.tell(node, Input::Clock(clock));
        self.links_until_now(node, changes);
        let places = self.nodes[node].places(None);
        places.into_iter().for_each(|place| self.tell(node, place));
        let cables: Vec<(LinkId, usize, usize)> = self.nodes[node].cables().collect();
        for (link, cable, end) in cables {
            if !self.cables[cable].has_carrier() {
                self.tell(node, Input::LinkDown { link });
            }
            let other = self.cables[cable].ends[1 - end].node;
            if let Some(crossings) = self.crossings.as_mut().filter(|_| !self.nodes[other].stopped) {
                crossings.begin(self.now, cable, &mut self.queue, &mut self.todo);
            }
        }
        self.drain();
        let register = self.applications.begin_again(self.now, node, &mut self.queue);
        self.todo.extend(register);
        self.drain();
        self.meet_all(|near| near.1 as usize == node || near.2 as usize == node);
    }

    /// A node that starts has the links that it got, less those that it lost.
    fn links_until_now(&mut self, node: usize, changes: Vec<build::Change>) {
        let now = self.now;
        for change in changes.into_iter().filter(|change| change.at <= now) {
            let ends = self.cables[change.link].ends;
            let Some(side) = ends.iter().position(|end| end.node == node) else { continue };
            let link = ends[side].link;
            self.at_node(node, |node, now, said| match change.appears {
                None => node.remove_link(now, link, said),
                Some(configs) => {
                    let added = node.add_link(now, link, &configs[side], said);
                    debug_assert!(added.is_ok(), "the scenario was checked: {added:?}");
                }
            });
        }
    }

    /// Two nodes hear each other by no radio, or do again.
    fn unheard(&mut self, between: [usize; 2], ends: bool) {
        let pair = (between[0] as u32, between[1] as u32);
        let Some(faults) = &mut self.faults else { return };
        let count = faults.deaf.entry(pair).or_default();
        *count = if ends { count.saturating_sub(1) } else { *count + 1 };
        let (count, of_pair) = (*count, move |near: &(u16, u32, u32)| (near.1, near.2) == pair);
        if count == 0 {
            faults.deaf.remove(&pair);
        }
        between.into_iter().for_each(|node| self.tell_fault(node, None, if ends { "link up" } else { "link down" }));
        match (count, ends) {
            (0, true) => self.meet_all(of_pair),
            (1, false) => self.part_all(of_pair),
            _ => {}
        }
    }

    /// Two nodes come near each other, or part; whether they begin or cease to hear each other by that.
    pub(super) fn heeds(&mut self, edge: &ContactEdge) -> bool {
        let Some(faults) = &mut self.faults else { return true };
        let near = (edge.radio, edge.a.min(edge.b), edge.a.max(edge.b));
        if edge.up {
            faults.near.insert(near)
        } else {
            faults.near.remove(&near)
        };
        faults.hear(&near)
    }
    /// Those of these who are near hear each other no more. Who did not before has no link to lose.
    fn part_all(&mut self, which: impl Fn(&(u16, u32, u32)) -> bool) {
        let Some(faults) = &self.faults else { return };
        let all: Vec<_> = faults.near.iter().filter(|near| which(near)).copied().collect();
        all.into_iter().for_each(|near| self.part(edge(self.now, near, false)));
    }
    /// Those of these who are near, and whom nothing else keeps from it, hear each other.
    fn meet_all(&mut self, which: impl Fn(&(u16, u32, u32)) -> bool) {
        let Some(faults) = &self.faults else { return };
        let all: Vec<_> = faults.near.iter().filter(|near| which(near) && faults.hear(near)).copied().collect();
        all.into_iter().for_each(|near| self.meet(edge(self.now, near, true)));
    }
}
