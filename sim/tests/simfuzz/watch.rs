//! What must hold whatever happens, checked from the events of a run of any scenario.
//!
//! - What a node said it keeps it has again after a restart, where its store is durable.
//! - A bundle that was accepted arrives, expires, or is with somebody; gone it may be with a store in memory only, or where
//!   a control gives bundles up.
//! - None arrives twice, or is there after its lifetime, or at another node than its own, or with another content. What arrived
//!   just before its node was killed may come again.
//! - What a durable node had done with longer than a moment ago it has no more after a restart.
//! - No bundle makes more hops than it may, or overtakes a more urgent one (`ways.rs`).
//! - No node keeps more bundles of a source than its quotas say.
//! - No store has more than it may, nor other than what is there at the end, in bundles and bytes.
//! - Where the scenario's description says that all that is kept arrives, it has; and where a router makes no copies,
//!   nobody keeps any longer what arrived.
//!
//! A last copy may be gone besides where the description says that links lose, and where a router lets go of what
//! others say arrived, and somebody lies about that.

use super::draft::{DRAINS, LOSES};
use super::ways::Ways;
use farlink_base::store::Usage;
use farlink_base::{
    BundleHandle, BundleKey, DeleteReason, Duration, EndpointId, Event, EventClass, Instant, pattern_rank,
};
use farlink_scenario::{Custody, FaultKind, Lie, Quota, SENDER_SERVICE, Scenario, StoreKind};
use farlink_sim::Observer;
use std::collections::{BTreeMap, HashMap};

/// A receiver's answer is on its disk by then.
const COMMITTED: Duration = Duration::from_secs(2);
/// Bytes of a node's hellos at once, of these few bundles.
const HELLOS: u64 = 100_000;
/// Who has what arrived that long ago has heard of it by then, where all is well.
const LONG_AGO: Duration = Duration::from_secs(600);
/// More events than any run of these sizes has: full stores that push each other's bundles out go on as long as there are
/// meetings, ten millions in one throng of two hundred.
const EVENTS_MAX: u64 = 20_000_000;
/// More complaints are not kept.
const COMPLAINTS_MAX: usize = 20;

/// Source, service, time, number.
type Id = (u64, u64, u64, u64);
fn id(key: &BundleKey) -> Id {
    (key.source.0, key.service, key.time, key.sequence)
}

/// One bundle, wherever it is.
struct Life {
    created: Instant,
    lifetime: Duration,
    to: u64,
    accepted: bool,
    /// Copies, and parts of it, that somebody has.
    held: u32,
    delivered: Option<Instant>,
    /// Nobody has to have it any more.
    excused: bool,
}

/// What a node has of a bundle.
#[derive(Clone, Copy)]
struct Copy {
    id: Id,
    accepted: bool,
    /// It has no record of its own: its parts have.
    joined: bool,
    /// Its identity, as a piece where it is one.
    key: BundleKey,
}

#[derive(Default)]
struct Node {
    name: String,
    durable: bool,
    capacity: u64,
    /// Most bundles of these sources together.
    quotas: Vec<(Vec<u64>, u64)>,
    gives_up: bool,
    number: u64,
    /// More bytes than its capacity that it may have: hellos on their way are not in the store.
    hellos: u64,
    copies: HashMap<BundleHandle, Copy>,
    /// All bundles there, also those of no application.
    present: i64,
    usage: Usage,
    copies_made: bool,
    /// What it has on its disk while it is down, and has not said since that it has.
    asleep: BTreeMap<Id, u32>,
    /// What it had on its disk and let go, and when, until it comes anew.
    gone: HashMap<BundleKey, Instant>,
    /// When it was killed last, and started last.
    killed: Option<Instant>,
    started: Option<Instant>,
}

/// See the top of this file.
pub struct Watch {
    nodes: Vec<Node>,
    ways: Ways,
    bundles: BTreeMap<Id, Life>,
    entries: u64,
    /// How wrong clocks may be together.
    clocks: Duration,
    drains: bool,
    /// Whether a bundle that nobody has any more may still arrive: it is inside another one.
    inside: bool,
    /// Whether one may be gone.
    loses: bool,
    /// Whether bundles may make fewer hops than there are nodes.
    few_hops: bool,
    /// When the run ends at the latest.
    end: Instant,
    pub hops: u64,
    /// Bundles of which nobody had a copy any more, where that may be.
    pub lost: u64,
    events: u64,
    pub complaints: Vec<String>,
    /// Whether all that happens is printed.
    tells: bool,
}

impl Watch {
    pub fn new(scenario: &Scenario) -> Watch {
        let tree = scenario.links.len() < scenario.nodes.len();
        let node = |node: &farlink_scenario::Node| Node {
            name: node.name.clone(),
            durable: node.store == StoreKind::Durable,
            capacity: node.settings().store.capacity.bytes(),
            quotas: node.quotas.iter().filter_map(|quota| limited(scenario, quota)).collect(),
            gives_up: !matches!(node.control.name.as_str(), "none" | "ion"),
            number: node.number.0,
            // What is around another in a tunnel is counted besides, where a store is in memory.
            hellos: match (node.router.name.as_str(), node.control.name.as_str()) {
                _ if !node.tunnels.is_empty() => node.settings().store.capacity.bytes() + HELLOS,
                ("sabr", "none") => 0,
                _ => HELLOS,
            },
            // Of signals that come by another way than their bundles went, custodians do not hear: they keep what they have.
            copies_made: node.router.name != "sabr" || node.custody != Custody::None && !tree,
            ..Node::default()
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
        // Their papers have them delete what others say arrived.
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

    /// Nobody has it any more: whether that may be.
    fn let_go(&mut self, at: Instant, node: usize, id: Id) {
        let clocks = self.clocks;
        let Some(life) = self.bundles.get_mut(&id) else { return };
        life.held = life.held.saturating_sub(1);
        // Somebody whose clock is ahead may have found it expired as it came.
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
        let Node { copies, quotas, number, name, gone, .. } = &mut self.nodes[node];
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
        // What expired while it was down it sees as it starts.
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
        let Node { durable, killed, number, .. } = self.nodes[node];
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
        // What is inside others nobody sees: it may have been here.
        let unseen = |life: &&mut Life| life.held == 0 && life.delivered.is_none();
        let unseen = self.bundles.values_mut().filter(unseen);
        unseen.filter(|_| self.inside && !durable).for_each(|life| life.excused = true);
        for copy in copies {
            if copy.accepted && durable {
                *self.nodes[node].asleep.entry(copy.id).or_default() += 1;
                continue;
            }
            if let Some(life) = self.bundles.get_mut(&copy.id).filter(|_| copy.accepted) {
                // Whoever gave it away may be about to hear that it is kept here.
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
        // What it had said to be gone may be on its disk still.
        let Some(count) = self.nodes[node].asleep.get_mut(&id) else { return };
        *count -= 1;
        if *count == 0 {
            self.nodes[node].asleep.remove(&id);
        }
        self.let_go(at, node, id);
    }

    /// What there is must be what was seen and not deleted, and nobody keeps what arrived long ago.
    fn tidy(&mut self, at: Instant) {
        for node in 0..self.nodes.len() {
            let Node { usage, present, copies_made, killed, ref copies, .. } = self.nodes[node];
            // Hellos, and what came this very moment, are in no store.
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

    /// The run ended then.
    pub fn ended(&mut self, at: Instant) {
        self.tidy(at);
        for node in 0..self.nodes.len() {
            let up = self.nodes[node].started.is_some_and(|started| at > started + COMMITTED);
            let asleep: Vec<Id> = self.nodes[node].asleep.keys().filter(|_| up).copied().collect();
            for id in asleep {
                // Parts of what arrived as a whole are left out.
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
        // What an application offered again after a restart may come twice as two bundles, and end the run early.
        let waiting = if self.drains && at >= self.end { waiting } else { Vec::new() };
        for id in waiting {
            let holds = |node: &Node| node.copies.values().any(|copy| copy.id == id);
            let holders: Vec<String> =
                self.nodes.iter().filter(|node| holds(node)).map(|node| node.name.clone()).collect();
            self.complain(at, format!("{id:?} did not arrive, though all is well: it is with {holders:?}"));
        }
    }
}

/// The sources that a quota is about, and how many of their bundles it lets in; nothing where it does not count them.
fn limited(scenario: &Scenario, quota: &Quota) -> Option<(Vec<u64>, u64)> {
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
