//! Invariants checked from the events of a run of any scenario.
//!
//! - A durable node that restarts still has every bundle it accepted.
//! - An accepted bundle arrives, expires, or is held by some node; a memory store or a control that evicts may lose it.
//! - No bundle arrives twice, outlives its lifetime, or arrives at another node or with other content. A bundle that
//! arrived just before its node was killed may arrive again.
//! - A durable node that restarts no longer has a bundle that it had deleted more than a moment before.
//! - No bundle makes more hops than allowed, or overtakes a more urgent one (`ways.rs`).
//! - No node keeps more bundles of a source than its quotas allow.
//! - No store exceeds its capacity, or differs at the end from the bundles present, in number and bytes.
//! - If the scenario's description promises it, all stored bundles arrive; and if a router makes no copies, no node
//! keeps an arrived bundle for long.
//!
//! The last copy may also be lost if the description permits losses, and if a router deletes bundles on hearsay while a
//! node lies about arrivals.

use super::draft::{DRAINS, LOSES};
use super::ways::Ways;
use farlink_base::store::Usage;
use farlink_base::{
    BundleHandle, BundleKey, DeleteReason, Duration, EndpointId, Event, EventClass, Instant, pattern_rank,
};
use farlink_scenario::{Custody, FaultKind, Lie, Quota, SENDER_SERVICE, Scenario, StoreKind};
use farlink_sim::Observer;
use std::collections::{BTreeMap, HashMap};

/// Time after which a receiver's answer is on its disk.
const COMMITTED: Duration = Duration::from_secs(2);
/// Largest size of a node's pending hellos, with few bundles to report.
const HELLOS: u64 = 100_000;
/// Time after which holders of an arrived bundle know of its arrival, without faults.
const LONG_AGO: Duration = Duration::from_secs(600);
/// Number of events beyond which a run is stopped as endless; no run of these sizes has so many. Full stores that evict
/// each other's bundles go on as long as there are contacts: ten million events in one of two hundred throngs.
const EVENTS_MAX: u64 = 20_000_000;
/// Largest number of complaints kept.
const COMPLAINTS_MAX: usize = 20;

/// Source, service, time and sequence number of a bundle.
type Id = (u64, u64, u64, u64);
fn id(key: &BundleKey) -> Id {
    (key.source.0, key.service, key.time, key.sequence)
}

/// State of one bundle in the whole network.
struct Life {
    created: Instant,
    lifetime: Duration,
    to: u64,
    accepted: bool,
    /// Number of copies and fragments held by nodes.
    held: u32,
    delivered: Option<Instant>,
    /// Whether no node has to hold the bundle any more.
    excused: bool,
}

/// State of a bundle at one node.
#[derive(Clone, Copy)]
struct Copy {
    id: Id,
    accepted: bool,
    /// Whether the bundle was reassembled: its fragments have the records on disk.
    joined: bool,
    /// Identity, including that of a fragment.
    key: BundleKey,
}

#[derive(Default)]
struct WatchedNode {
    name: String,
    durable: bool,
    capacity: u64,
    /// Quotas: sources, and the most bundles of all of them.
    quotas: Vec<(Vec<u64>, u64)>,
    gives_up: bool,
    number: u64,
    /// Bytes above the capacity, for hellos in transfer, which are not in the store.
    hellos: u64,
    copies: HashMap<BundleHandle, Copy>,
    /// Bundles present, including those of no application.
    present: i64,
    usage: Usage,
    copies_made: bool,
    /// Bundles on the disk of a node that is down, until it reports their recovery.
    asleep: BTreeMap<Id, u32>,
    /// Bundles that the node deleted from its disk, with the time, until they arrive again.
    gone: HashMap<BundleKey, Instant>,
    /// Time of the last kill, and of the last start.
    killed: Option<Instant>,
    started: Option<Instant>,
}

/// Observer that checks the invariants at the top of this file.
pub struct Watch {
    nodes: Vec<WatchedNode>,
    ways: Ways,
    bundles: BTreeMap<Id, Life>,
    entries: u64,
    /// Sum of all clock errors.
    clocks: Duration,
    drains: bool,
    /// Whether a bundle that no node holds may still arrive, inside another bundle.
    inside: bool,
    /// Whether bundles may be lost.
    loses: bool,
    /// Whether the hop limit is below the number of nodes.
    few_hops: bool,
    /// Latest end of the run.
    end: Instant,
    pub hops: u64,
    /// Number of bundles lost where that is permitted.
    pub lost: u64,
    events: u64,
    pub complaints: Vec<String>,
    /// Whether every event is printed.
    tells: bool,
}

impl Watch {
    pub fn new(scenario: &Scenario) -> Watch {
        let tree = scenario.links.len() < scenario.nodes.len();
        let node = |node: &farlink_scenario::Node| WatchedNode {
            name: node.name.clone(),
            durable: node.store == StoreKind::Durable,
            capacity: node.settings().store.capacity.bytes(),
            quotas: node.quotas.iter().filter_map(|quota| limited(scenario, quota)).collect(),
            gives_up: !matches!(node.control.name.as_str(), "none" | "ion"),
            number: node.number.0,
            // Without a disk, the outer bundle of a tunnel is counted in addition.
            hellos: match (node.router.name.as_str(), node.control.name.as_str()) {
                _ if !node.tunnels.is_empty() => node.settings().store.capacity.bytes() + HELLOS,
                ("sabr", "none") => 0,
                _ => HELLOS,
            },
            // Signals that take another route than their bundles miss some custodians, which then keep their copies.
            copies_made: node.router.name != "sabr" || node.custody != Custody::None && !tree,
            ..WatchedNode::default()
        };
        let off = |fault: &farlink_scenario::Fault| match fault.kind {
            FaultKind::ClockJump { by_ns, .. } => Duration::from_nanos(by_ns.unsigned_abs()),
            FaultKind::ClockDrift { ppm, .. } => scenario.duration.mul_f64(ppm.abs() * 1e-6),
            _ => Duration::ZERO,
        };
        let lies = |lie: Lie| {
            let is = |fault: &farlink_scenario::Fault| matches!(fault.kind, FaultKind::Lie { says, .. } if says == lie);
            scenario.faults.iter().any(is)
        };
        // MaxProp and RAPID, as their papers define them, delete bundles that neighbours report as arrived.
        let hearsay = scenario.nodes.iter().any(|node| matches!(node.router.name.as_str(), "maxprop" | "rapid"));
        Watch {
            nodes: scenario.nodes.iter().map(node).collect(),
            ways: Ways::new(scenario),
            bundles: BTreeMap::new(),
            entries: scenario.traffic.len() as u64,
            clocks: scenario.faults.iter().map(off).sum::<Duration>() + Duration::from_secs(1),
            end: Instant::ZERO + scenario.duration,
            drains: scenario.description.contains(DRAINS),
            inside: scenario.nodes.iter().any(|node| !node.tunnels.is_empty()),
            few_hops: scenario
                .nodes
                .iter()
                .any(|node| usize::from(node.settings().agent.hop_limit) < scenario.nodes.len()),
            loses: scenario.description.contains(LOSES) || hearsay && lies(Lie::Arrived),
            hops: 0,
            lost: 0,
            events: 0,
            complaints: Vec::new(),
            tells: std::env::var_os("FARLINK_SIMFUZZ_TELL").is_some(),
        }
    }

    fn complain(&mut self, at: Instant, what: String) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(format!("{:.6} s: {what}", at.as_secs_f64()));
        }
    }

    fn let_go(&mut self, at: Instant, node: usize, id: Id) {
        // The bundle has one copy less; the loss of its last copy must be permitted.
        let clocks = self.clocks;
        let Some(life) = self.bundles.get_mut(&id) else { return };
        life.held = life.held.saturating_sub(1);
        // A node with a fast clock may have found it expired on arrival.
        let alive = at + clocks < life.created + life.lifetime;
        if life.held == 0 && life.accepted && life.delivered.is_none() && !life.excused && alive {
            if self.inside {
                return;
            }
            life.excused = true;
            if self.loses {
                self.lost += 1;
                return;
            }
            self.complain(
                at,
                format!("{} let go of the last copy of {id:?}, which did not arrive", self.nodes[node].name),
            );
        }
    }

    fn seen(&mut self, at: Instant, node: usize, event: &Event) {
        let Event::Seen { bundle, key, destination, lifetime_ms, .. } = event else { return };
        let first = u64::from(SENDER_SERVICE);
        if !(first..first + self.entries).contains(&key.service) {
            return;
        }
        let id = id(key);
        let lifetime = Duration::from_millis(*lifetime_ms);
        let life = self.bundles.entry(id).or_insert(Life {
            created: at,
            lifetime,
            to: destination.0,
            accepted: false,
            held: 0,
            delivered: None,
            excused: false,
        });
        life.held += 1;
        let before = self.nodes[node].copies.insert(*bundle, Copy { id, accepted: false, joined: false, key: *key });
        if let Some(before) = before {
            self.complain(at, format!("{}: {bundle:?} is {id:?} and {:?}", self.nodes[node].name, before.id));
        }
    }

    fn accepted(&mut self, at: Instant, node: usize, bundle: BundleHandle) {
        let WatchedNode { copies, quotas, number, name, gone, .. } = &mut self.nodes[node];
        let Some(copy) = copies.get_mut(&bundle) else { return };
        copy.accepted = true;
        let id = copy.id;
        gone.remove(&copy.key);
        if let Some(life) = self.bundles.get_mut(&id).filter(|_| id.0 == *number) {
            life.accepted = true;
        }
        for (sources, most) in quotas.iter().filter(|(sources, _)| sources.contains(&id.0)) {
            let counts = |copy: &&Copy| copy.accepted && !copy.joined && sources.contains(&copy.id.0);
            let kept = copies.values().filter(counts).count() as u64;
            if kept > *most {
                let what = format!("{name} keeps {kept} bundles like {id:?}, more than the quota of {most}");
                return self.complain(at, what);
            }
        }
    }

    fn deleted(&mut self, at: Instant, node: usize, bundle: BundleHandle, reason: DeleteReason) {
        let Some(copy) = self.nodes[node].copies.remove(&bundle) else { return };
        if copy.accepted && self.nodes[node].durable {
            self.nodes[node].gone.insert(copy.key, at);
        }
        let (gives_up, clocks) = (self.nodes[node].gives_up, self.clocks);
        let Some(life) = self.bundles.get_mut(&copy.id) else { return };
        let ends = life.created + life.lifetime;
        // Bundles that expire while a node is down are deleted at its start.
        let late = self.nodes[node].started.is_none_or(|started| started + COMMITTED < at);
        match reason {
            DeleteReason::Done => {}
            DeleteReason::Expired if at > ends + clocks + COMMITTED && late => {
                let name = &self.nodes[node].name;
                let what = format!("{name} had {:?} still, which lived until {ends:?}", copy.id);
                self.complain(at, what);
            }
            DeleteReason::Expired if at + clocks >= ends => life.excused = true,
            DeleteReason::Expired => {
                self.complain(
                    at,
                    format!("{}: {:?} expired, and lives until {ends:?}", self.nodes[node].name, copy.id),
                );
            }
            _ if gives_up => life.excused = true,
            DeleteReason::HopLimit if self.few_hops => life.excused = true,
            reason => self.complain(at, format!("{} gave {:?} up: {reason:?}", self.nodes[node].name, copy.id)),
        }
        self.let_go(at, node, copy.id);
    }

    fn delivered(&mut self, at: Instant, node: usize, bundle: BundleHandle) {
        let Some(copy) = self.nodes[node].copies.get(&bundle).copied() else { return };
        let WatchedNode { durable, killed, number, .. } = self.nodes[node];
        let clocks = self.clocks;
        let Some(life) = self.bundles.get_mut(&copy.id) else { return };
        let (before, to, ends) = (life.delivered.replace(at), life.to, life.created + life.lifetime);
        if to != number {
            self.complain(at, format!("{} took {:?}, which is for {to}", self.nodes[node].name, copy.id));
        }
        if at > ends + clocks {
            self.complain(at, format!("{} took {:?}, which lived until {ends:?}", self.nodes[node].name, copy.id));
        }
        if let Some(before) = before {
            let forgot = killed.is_some_and(|killed| killed >= before && (!durable || killed <= before + COMMITTED));
            if !forgot {
                self.complain(
                    at,
                    format!("{} took {:?} again, which it took at {before:?}", self.nodes[node].name, copy.id),
                );
            }
        }
    }

    fn killed(&mut self, at: Instant, node: usize) {
        let here = &mut self.nodes[node];
        (here.killed, here.started, here.present) = (Some(at), None, 0);
        let durable = here.durable;
        let mut copies: Vec<Copy> = std::mem::take(&mut here.copies).into_values().collect();
        copies.sort_by_key(|copy| copy.id);
        // Bundles inside others produce no events: they may have been here.
        let unseen = |life: &&mut Life| life.held == 0 && life.delivered.is_none();
        let unseen = self.bundles.values_mut().filter(unseen);
        unseen.filter(|_| self.inside && !durable).for_each(|life| life.excused = true);
        for copy in copies {
            if copy.accepted && durable {
                *self.nodes[node].asleep.entry(copy.id).or_default() += 1;
                continue;
            }
            if let Some(life) = self.bundles.get_mut(&copy.id).filter(|_| copy.accepted) {
                // The previous holder may be about to learn that this node accepted it.
                life.excused = true;
            }
            self.let_go(at, node, copy.id);
        }
    }

    fn recovered(&mut self, at: Instant, node: usize, bundle: BundleHandle) {
        let Some(copy) = self.nodes[node].copies.get_mut(&bundle) else { return };
        copy.accepted = true;
        let (id, key) = (copy.id, copy.key);
        let killed = self.nodes[node].killed.unwrap_or(at);
        if let Some(gone) = self.nodes[node].gone.remove(&key).filter(|gone| *gone + COMMITTED < killed) {
            let what = format!("{} had {key:?} again, which it let go at {gone:?}", self.nodes[node].name);
            self.complain(at, what);
        }
        // A deletion that was reported may not be on disk yet.
        let Some(count) = self.nodes[node].asleep.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            self.nodes[node].asleep.remove(&id);
        }
        self.let_go(at, node, id);
    }

    fn tidy(&mut self, at: Instant) {
        // No store may hold more than the bundles present, and no node may keep bundles that arrived long ago.
        for node in 0..self.nodes.len() {
            let WatchedNode { usage, present, copies_made, killed, ref copies, .. } = self.nodes[node];
            // Hellos and bundles arriving now are in no store yet.
            let fits = usage.bundles as i64 <= present && (present > 0 || usage.bytes == 0);
            let kept = copies.values().map(|copy| copy.id).filter(|id| {
                let arrived = self.bundles.get(id).and_then(|life| life.delivered);
                arrived.is_some_and(|arrived| arrived + LONG_AGO < at)
            });
            let kept = kept.min().filter(|_| self.drains && !copies_made && at >= self.end);
            if !fits && killed.is_none_or(|killed| killed + COMMITTED < at) {
                self.complain(at, format!("{} has {present} bundles, and keeps {usage:?}", self.nodes[node].name));
            }
            if let Some(id) = kept {
                self.complain(at, format!("{} still has {id:?}, which arrived", self.nodes[node].name));
            }
        }
    }

    /// Checks the state at the end of the run.
    pub fn ended(&mut self, at: Instant) {
        self.tidy(at);
        for node in 0..self.nodes.len() {
            let up = self.nodes[node].started.is_some_and(|started| at > started + COMMITTED);
            let asleep: Vec<Id> = self.nodes[node].asleep.keys().filter(|_| up).copied().collect();
            for id in asleep {
                // Fragments of a bundle that arrived whole are ignored.
                let open = |life: &Life| life.delivered.is_none() && at < life.created + life.lifetime;
                if self.bundles.get(&id).is_some_and(open) {
                    self.complain(
                        at,
                        format!(
                            "{} said that it keeps {id:?}, and had it no more as it started",
                            self.nodes[node].name
                        ),
                    );
                }
            }
        }
        let open = |life: &Life| life.accepted && life.delivered.is_none() && !life.excused;
        let left = |life: &Life| open(life) && at + self.clocks < life.created + life.lifetime;
        let waiting: Vec<Id> = self.bundles.iter().filter(|(_, life)| left(life)).map(|(id, _)| *id).collect();
        // A bundle offered again after a restart may arrive as two bundles and end the run early.
        let waiting = if self.drains && at >= self.end { waiting } else { Vec::new() };
        for id in waiting {
            let holds = |node: &WatchedNode| node.copies.values().any(|copy| copy.id == id);
            let holders: Vec<String> =
                self.nodes.iter().filter(|node| holds(node)).map(|node| node.name.clone()).collect();
            self.complain(at, format!("{id:?} did not arrive, though all is well: it is with {holders:?}"));
        }
    }
}

fn limited(scenario: &Scenario, quota: &Quota) -> Option<(Vec<u64>, u64)> {
    // Patterns are resolved once, not for each of millions of events; quotas of bytes alone are not checked.
    let of = |number: u64| {
        let source = EndpointId::ipn(number, 0);
        quota.sources.iter().any(|pattern| pattern_rank(pattern, &source, &source.to_string()).is_some())
    };
    let sources: Vec<u64> = scenario.nodes.iter().map(|node| node.number.0).filter(|number| of(*number)).collect();
    Some((sources, quota.bundles?))
}

impl Observer for Watch {
    fn wants(&self, class: EventClass) -> bool {
        matches!(class, EventClass::Bundle | EventClass::Node | EventClass::Link)
    }
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        self.events += 1;
        if self.tells {
            println!("{:.6} {} {event:?}", at.as_secs_f64(), self.nodes[node].name);
        }
        if let Some(what) = self.ways.event(node, event) {
            self.complain(at, format!("{}: {what}", self.nodes[node].name));
        }
        match event {
            Event::Seen { .. } => {
                self.nodes[node].present += 1;
                self.seen(at, node, event);
            }
            Event::Received { .. } => self.hops += 1,
            Event::Accepted { bundle } => self.accepted(at, node, *bundle),
            Event::Reassembled { bundle } => {
                self.nodes[node].copies.get_mut(bundle).into_iter().for_each(|copy| copy.joined = true);
            }
            Event::Delivered { bundle } => self.delivered(at, node, *bundle),
            Event::Deleted { bundle, reason } => {
                self.nodes[node].present -= 1;
                self.deleted(at, node, *bundle, *reason);
            }
            Event::Recovered { bundle } => self.recovered(at, node, *bundle),
            Event::StoreDamage { .. } | Event::StoreFailed { .. } => {
                self.complain(at, format!("{}: {event:?}", self.nodes[node].name));
            }
            Event::Fault { what: "node down", .. } => self.killed(at, node),
            Event::Fault { what: "node up", .. } => self.nodes[node].started = Some(at),
            _ => {}
        }
    }
    fn node_sample(&mut self, at: Instant, node: usize, usage: &Usage) {
        self.nodes[node].usage = *usage;
        let capacity = self.nodes[node].capacity;
        if usage.bytes > capacity + self.nodes[node].hellos {
            self.complain(at, format!("{} keeps {} B of at most {capacity}", self.nodes[node].name, usage.bytes));
        }
    }
    fn stopped(&self) -> bool {
        self.events > EVENTS_MAX || self.complaints.len() >= COMPLAINTS_MAX
    }
}
