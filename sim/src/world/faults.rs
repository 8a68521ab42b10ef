//! Application of a scenario's faults: nodes that are killed and restart, radio pairs that cannot communicate, wrong
//! clocks, Byzantine nodes. Outages of cables are part of their contact windows; here they are only reported.
//!
//! A killed node keeps its disk with everything synced. Its operating system resets its streams; datagrams to it, and
//! whole bundles on their way to or from it, are lost. No other node is notified.

use super::World;
use crate::build;
use crate::contacts::ContactEdge;
use crate::node::SimulatedNode;
use crate::observe::Observer;
use crate::own::Registered;
use crate::sim_event::SimEvent;
use farlink_base::{BundleMeta, ConfigError, Duration, Event, Instant, LinkId};
use farlink_scenario::{FaultKind, Lie};
use farlink_stack::Input;
use std::sync::Arc;

/// Drift after which a node's clock is updated, seconds.
const DRIFT_STEP_S: f64 = 0.001;
/// Shortest interval between two updates.
const DRIFT_EVERY: Duration = Duration::from_secs(1);

fn edge(now: Instant, (radio, a, b): (u16, u32, u32), up: bool) -> ContactEdge {
    ContactEdge { at: now, a, b, radio, up }
}

impl<O: Observer> World<O> {
    /// Schedules the start of each fault.
    pub(super) fn await_faults(&mut self) {
        let Some(faults) = &self.faults else { return };
        for (index, fault) in faults.scenario.faults.iter().enumerate() {
            if let FaultKind::Restart { node } = fault.kind {
                self.nodes[node].disk.may_forget();
            }
            self.queue.arm(Instant::ZERO + fault.at, SimEvent::Fault { index, ends: false });
        }
    }

    /// Applies the start or the end of a fault.
    pub(super) fn fault(&mut self, index: usize, ends: bool) {
        let Some(fault) = self.faults.as_ref().map(|faults| faults.scenario.faults[index].clone()) else { return };
        // The end event of a drift only repeats the clock update; it is no end of the fault.
        let drifts = matches!(fault.kind, FaultKind::ClockDrift { .. });
        if !ends {
            if let Some(every) = fault.every {
                self.queue.arm(self.now + every, SimEvent::Fault { index, ends: false });
            }
            if !fault.lasts.is_zero() {
                self.queue.arm(self.now + fault.lasts, SimEvent::Fault { index, ends: true });
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
                    self.emit_fault(end.node, Some(end.link), if ends { "link up" } else { "link down" });
                }
            }
            FaultKind::Unheard { between } => self.block_pair(between, ends),
            FaultKind::Lie { node, says } => {
                if let Some(lies) = self.faults.as_mut().and_then(|faults| faults.lies.as_mut()) {
                    let own = &mut lies.nodes[node];
                    match says {
                        Lie::Met => own.met = true,
                        Lie::Arrived => own.arrived = true,
                        Lie::Has => own.has = true,
                    }
                }
                self.emit_fault(node, None, "lie");
            }
            FaultKind::ClockJump { node, by_ns } => {
                if let Some(faults) = &mut self.faults {
                    faults.jumped_ns[node] = faults.jumped_ns[node].saturating_add(by_ns);
                }
                self.emit_fault(node, None, "clock");
                self.set_clock(node);
            }
            FaultKind::ClockDrift { node, ppm } => {
                let now = self.now;
                if let Some(faults) = self.faults.as_mut().filter(|_| !ends) {
                    faults.drifts[node].push((ppm, now));
                    self.emit_fault(node, None, "clock");
                } else {
                    self.set_clock(node);
                }
                if ppm != 0.0 {
                    let step = Duration::try_from_secs_f64(DRIFT_STEP_S / (ppm.abs() * 1e-6)).unwrap_or(Duration::MAX);
                    let next = self.now.saturating_add(step.max(DRIFT_EVERY));
                    self.queue.arm(next, SimEvent::Fault { index, ends: true });
                }
            }
        }
    }

    /// Content of a hello that a node sends without a transfer; a lie replaces it if the node is Byzantine.
    pub(super) fn outgoing_hello(&self, node: usize, content: Vec<u8>) -> Vec<u8> {
        let byzantine = self.faults.as_ref().and_then(|faults| faults.byzantine(node));
        byzantine.and_then(|byzantine| byzantine.hello(&content)).unwrap_or(content)
    }
    /// Bundle as it leaves a node: a hello of a Byzantine node is replaced by a lie, others are unchanged. Returns the
    /// new size, too.
    pub(super) fn outgoing_bundle(
        &mut self,
        node: usize,
        bundle: Arc<BundleMeta>,
        size: u64,
    ) -> (Arc<BundleMeta>, u64) {
        let Some(faults) = self.faults.as_mut().filter(|faults| faults.lies.is_some()) else { return (bundle, size) };
        if !bundle.is_administrative() {
            faults.lies.iter_mut().for_each(|lies| lies.crossed.note(bundle.id));
            return (bundle, size);
        }
        let told =
            faults.byzantine(node).and_then(|byzantine| byzantine.payload(bundle.version, &bundle.payload.to_bytes()?));
        let Some(told) = told else { return (bundle, size) };
        let size = size.saturating_sub(bundle.payload.len()) + told.len() as u64;
        let mut lie = BundleMeta::clone(&bundle);
        // A copy of the bundle: the honest one may still be shared with other links.
        lie.payload = told.into();
        (Arc::new(lie), size)
    }

    fn emit_fault(&mut self, node: usize, link: Option<LinkId>, what: &'static str) {
        let event = Event::Fault { link, what };
        if self.traced {
            self.trace.event(self.now, node, &event);
        }
        if self.observer.wants(event.class()) {
            self.observer.event(self.now, node, &event);
        }
    }

    fn set_clock(&mut self, node: usize) {
        if let Some(clock) = self.faults.as_ref().map(|faults| faults.clock(node, self.now)) {
            self.input(node, Input::Clock(clock));
        }
    }

    fn restart(&mut self, node: usize, ends: bool) {
        // Overlapping faults are counted: the node is down until the last of them ends.
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
        self.emit_fault(node, None, "node down");
        self.nodes[node].stop(self.now, &mut self.queue);
        self.applications.lose(node);
        // Neighbours lose their radio links to it; its own ends are gone already.
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
        // No oracle and no policies of the caller: `Faults::new` refuses them together with restarts.
        let fresh: Result<SimulatedNode, ConfigError> =
            build::node(scenario, node, faults.plan.clone(), self.nodes[node].life + 1, None, &Registered);
        let changes = build::changes(scenario);
        debug_assert!(fresh.is_ok() && changes.is_ok(), "both were made as the run began");
        let (Ok(fresh), Ok(changes)) = (fresh, changes) else { return };
        self.nodes[node].start(fresh);
        self.streams.wake_up(node);
        self.emit_fault(node, None, "node up");
        self.input(node, Input::Clock(clock));
        self.links_until_now(node, changes);
        let places = self.nodes[node].places(None);
        places.into_iter().for_each(|place| self.input(node, place));
        let cables: Vec<(LinkId, usize, usize)> = self.nodes[node].cables().collect();
        for (link, cable, end) in cables {
            if !self.cables[cable].has_carrier() {
                self.input(node, Input::LinkDown { link });
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

    fn links_until_now(&mut self, node: usize, changes: Vec<build::Change>) {
        // Replay the link changes until now: a restarted node has only its initial links.
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

    fn block_pair(&mut self, between: [usize; 2], ends: bool) {
        // Overlapping faults on a pair are counted, too.
        let pair = (between[0] as u32, between[1] as u32);
        let Some(faults) = &mut self.faults else { return };
        let count = faults.deaf.entry(pair).or_default();
        *count = if ends { count.saturating_sub(1) } else { *count + 1 };
        let (count, of_pair) = (*count, move |near: &(u16, u32, u32)| (near.1, near.2) == pair);
        if count == 0 {
            faults.deaf.remove(&pair);
        }
        between.into_iter().for_each(|node| self.emit_fault(node, None, if ends { "link up" } else { "link down" }));
        match (count, ends) {
            (0, true) => self.meet_all(of_pair),
            (1, false) => self.part_all(of_pair),
            _ => {}
        }
    }

    /// Records a contact edge; returns whether the pair can communicate in spite of the faults.
    pub(super) fn heeds(&mut self, edge: &ContactEdge) -> bool {
        let Some(faults) = &mut self.faults else { return true };
        let near = (edge.radio, edge.a.min(edge.b), edge.a.max(edge.b));
        if edge.up {
            faults.near.insert(near)
        } else {
            faults.near.remove(&near)
        };
        faults.can_meet(&near)
    }
    fn part_all(&mut self, which: impl Fn(&(u16, u32, u32)) -> bool) {
        // Includes pairs that could not communicate before: they have no link to lose.
        let Some(faults) = &self.faults else { return };
        let all: Vec<_> = faults.near.iter().filter(|near| which(near)).copied().collect();
        all.into_iter().for_each(|near| self.part(edge(self.now, near, false)));
    }
    fn meet_all(&mut self, which: impl Fn(&(u16, u32, u32)) -> bool) {
        // Only pairs in range that no other fault affects regain a link.
        let Some(faults) = &self.faults else { return };
        let all: Vec<_> = faults.near.iter().filter(|near| which(near) && faults.can_meet(near)).copied().collect();
        all.into_iter().for_each(|near| self.meet(edge(self.now, near, true)));
    }
}
