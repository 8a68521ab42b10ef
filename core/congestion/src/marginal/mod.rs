//! Marginal utility: the worth of a copy is the increase per byte in the chance that its bundle is delivered. The
//! least worth makes room, the greatest is sent first, and a neighbour is offered nothing it would refuse.
//!
//! Where the contact plan knows a bundle's destination, the worth follows from the plan (`planned.rs`): whether the
//! copy can still be delivered from there, and who else can deliver. Elsewhere it follows from meetings with the
//! destination (`encounters.rs`, `value.rs`). Deliveries are relayed (`arrived.rs`): a delivered bundle is worth
//! nothing, and one whose destination itself acknowledges it is deleted. A node protects the latest bundles created
//! here (`own.rs`). Messages travel in hellos (`message.rs`), the carriers of a bundle in its label (`carriers.rs`).
//! The idea and its limits: `docs/explanation/congestion.md`.

mod arrived;
mod carriers;
mod encounters;
mod message;
mod own;
mod params;
mod planned;
#[cfg(test)]
mod tests;
mod value;

use crate::control::Control;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use arrived::{Arrived, KnownArrival};
use encounters::{Encounters, seconds};
use farlink_base::{Duration, Instant, NodeId, PeerId, Refusal};
use farlink_book::{
    Action, Actions, CopyOffer, EventMask, Handle, Held, Identity, Node, Peer, PolicyEvent, Reporters,
    RetentionConstraint, Why,
};
use message::{Letter, MessagePart, parts};
use own::OwnBundles;
use params::MarginalSettings;
use planned::{PlanView, Planned};
use value::rank;

/// Worth of a delivered bundle; less than that of any other bundle.
const NOTHING: f64 = -1.0;
/// Added to the worth of protected own bundles: they are then worth more than any other bundle, but less than a
/// newcomer created here or for this node.
const PROTECTED: f64 = 1e200;
/// Maximum number of reachable neighbours that are checked for having a bundle.
const ASKED_MAX: usize = 64;
/// Number of held bundles up to which all are compared with a neighbour's list.
const LOOKED_MAX: usize = 1024;
/// Time for which new facts are gathered before they are relayed.
const GATHER: Duration = Duration::from_secs(1);

/// Marginal utility control of one node.
#[derive(Debug)]
pub struct MarginalUtility {
    settings: MarginalSettings,
    arrived: Arrived,
    /// Deliveries learned but not relayed yet, with their reporters.
    fresh: Vec<(u128, Instant, NodeId)>,
    met: Encounters,
    theirs: BTreeMap<PeerId, Encounters>,
    own: OwnBundles,
    planned: Planned,
}

impl MarginalUtility {
    /// Control with values of [`MarginalUtility::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let settings = MarginalSettings::of(params);
        MarginalUtility {
            arrived: Arrived::new(settings.ids),
            fresh: Vec::new(),
            met: Encounters::default(),
            theirs: BTreeMap::new(),
            own: OwnBundles::default(),
            planned: Planned::new(settings.fails, settings.later, settings.wait_s),
            settings,
        }
    }

    /// The contact plan's view of a bundle, if the plan is used and knows the destination.
    fn asked<'a>(&self, node: &Node<'a>, held: &Held) -> Option<PlanView<'a>> {
        if self.settings.by_plan { PlanView::of(node, held) } else { None }
    }

    /// Worth of a copy by meetings, at a node that remembers the meetings `met`, beside `others` copies.
    fn by_chance(&self, node: &Node<'_>, met: &Encounters, held: &Held, others: usize) -> f64 {
        let left_s = held.remaining(node.now).as_secs_f64();
        // An expired bundle cannot be delivered.
        if left_s <= 0.0 {
            return 0.0;
        }
        let mut rates = met.rates(held.destination(), node.now, self.settings.hop_s);
        // Without encounters all nodes are alike.
        if !self.settings.by_encounters {
            rates.own = rates.others;
        }
        rates.gain(others as f64, self.settings.ends / left_s) / held.size().max(1) as f64
    }

    /// Worth of a copy here, without protection of own bundles.
    fn value(&self, node: &Node<'_>, held: &Held) -> f64 {
        if self.has_arrived(held) {
            return NOTHING;
        }
        let by_chance = || self.by_chance(node, &self.met, held, others(node, held));
        let Some(asked) = self.asked(node, held) else { return by_chance() };
        let carriers = asked.carriers(node.label(held));
        let by_plan = self.planned.worth(asked, node.now, asked.here, held, carriers);
        self.planned.mix(by_plan, by_chance)
    }

    fn has_arrived(&self, held: &Held) -> bool {
        self.settings.hearsay > 0 && self.arrived.has(held.bundle.id)
    }

    /// Remembers a delivery and schedules its report to neighbours.
    fn learn(&mut self, now: Instant, id: u128, until: Instant, reporter: NodeId, out: &mut Actions) {
        // The neighbour claims the remaining lifetime, so it is bounded.
        let until = until.min(now + self.settings.remember);
        // A wake-up is requested once per batch.
        if until > now && self.arrived.learn(id, until, reporter) && self.settings.tell > 0 {
            if self.fresh.is_empty() {
                out.push(Action::Wake(now + GATHER));
            }
            if self.fresh.len() < self.settings.tell {
                self.fresh.push((id, until, reporter));
            }
        }
    }
    /// Records a delivery that this node observed.
    fn saw(&mut self, node: &Node<'_>, bundle: Handle, out: &mut Actions) {
        let Some(held) = node.get(bundle).filter(|held| !held.bundle.is_anonymous()) else { return };
        // A bundle for a group is not done after one delivery: other members still wait for it.
        if !held.bundle.is_for_group() {
            self.learn(node.now, held.bundle.id, held.expires, NodeId::NULL, out);
        }
    }

    fn up(&mut self, node: &Node<'_>, peer: &Peer, out: &mut Actions) {
        if let Some(plan) = node.plan.filter(|_| self.settings.by_plan) {
            self.planned.meet(plan, node.now, node.me, peer.node);
        }
        self.meet(node, peer);
        self.arrived.expire(node.now);
        let ids: Vec<_> = self.arrived.newest(peer.node).take(self.settings.tell).collect();
        let mut letter = Letter::default();
        letter.arrived(node.now, &ids);
        letter.met(&self.met.latest(node.now, self.settings.meetings));
        out.tell(peer.id, letter.0);
    }
    fn meet(&mut self, node: &Node<'_>, peer: &Peer) {
        if peer.node != NodeId::NULL {
            self.met.meet(peer.node, seconds(node.now), peer.identity() >= Identity::Address);
            self.met.settle(node.now, self.settings.hop_s);
        }
    }

    /// Relays new deliveries to all neighbours that are up, except their reporters.
    fn relay_deliveries(&mut self, node: &Node<'_>, out: &mut Actions) {
        let fresh = core::mem::take(&mut self.fresh);
        for peer in node.peers.up().filter(|peer| peer.node != NodeId::NULL && !self.is_far(node, peer)) {
            let entries = fresh.iter().filter(|(_, _, reporter)| *reporter != peer.node);
            let entries =
                entries.map(|&(id, until, reporter)| KnownArrival { id, until, seen: reporter == NodeId::NULL });
            let mut letter = Letter::default();
            letter.arrived(node.now, &entries.collect::<Vec<_>>());
            if !letter.0.is_empty() {
                out.tell(peer.id, letter.0);
            }
        }
    }

    /// Whether the plan puts a neighbour so far away that it is only informed when it is met.
    fn is_far(&self, node: &Node<'_>, peer: &Peer) -> bool {
        let Some(plan) = node.plan.filter(|_| self.settings.by_plan) else { return false };
        let way = plan.place(node.me).zip(plan.place(peer.node));
        way.is_some_and(|(here, there)| self.planned.light(plan, node.now, here, there) > Some(self.settings.far))
    }

    /// Reads a message; a repeated identity costs one action at most.
    fn on_message(&mut self, node: &Node<'_>, peer: &Peer, bytes: &[u8], out: &mut Actions) {
        let (mut arrived, mut gone, mut met) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for part in parts(bytes) {
            match part {
                MessagePart::Arrived(ids, seen) => {
                    for (id, left) in ids.iter().filter(|(id, _)| arrived.insert((*id, seen))) {
                        self.on_reported_delivery(node, peer, (*id, *left, seen), out);
                    }
                }
                MessagePart::Met(told) => met.push(told),
                MessagePart::Gone(ids) => {
                    ids.iter().filter(|id| gone.insert(**id)).for_each(|id| forget_carrier(node, peer, *id, out));
                }
            }
        }
        self.on_reported_meetings(node, peer, &met);
        self.compare(node, peer, out);
    }
    /// Handles a reported delivery. Only the destination's own observation deletes the bundle: a report relayed by
    /// the destination may be a lie about bundles it still waits for.
    fn on_reported_delivery(
        &mut self,
        node: &Node<'_>,
        peer: &Peer,
        (id, left_s, seen): (u128, u32, bool),
        out: &mut Actions,
    ) {
        let until = node.now + Duration::from_secs(u64::from(left_s));
        self.learn(node.now, id, until, peer.node, out);
        let Some(held) = node.book.find(id) else { return };
        let vouched =
            seen && peer.identity_as(held.destination()).is_some_and(|identity| identity >= Identity::Address);
        if vouched || self.settings.hearsay > 1 {
            out.delete(held.handle(), Why::Acked);
        }
    }
    /// Handles reported meetings: all of them update this node's memory; the last list gives the worth of copies at
    /// the neighbour.
    fn on_reported_meetings(&mut self, node: &Node<'_>, peer: &Peer, told: &[Vec<(NodeId, u32)>]) {
        let (hop_s, now_s, reporter) = (self.settings.hop_s, seconds(node.now), Reporters::<NodeId>::name(peer));
        // A message may repeat the part; only the last list is the neighbour's current one.
        let Some(last) = told.last() else { return };
        let known = |told: &[(NodeId, u32)]| {
            let told = told.iter().take(encounters::NODES_MAX).filter(|(who, _)| *who != NodeId::NULL);
            told.map(|(who, age)| (*who, now_s - f64::from(*age))).collect::<Vec<_>>()
        };
        for (who, at) in told.iter().flat_map(|told| known(told)).filter(|(who, _)| *who != node.me) {
            self.met.note_report(who, at - hop_s, reporter);
        }
        let mut theirs = Encounters::default();
        known(last).into_iter().for_each(|(who, at)| theirs.note_report(who, at, NodeId::NULL));
        theirs.settle(node.now, hop_s);
        self.met.settle(node.now, hop_s);
        self.theirs.insert(peer.id, theirs);
    }
    /// Updates the carriers of held bundles after a neighbour listed its bundles.
    fn compare(&self, node: &Node<'_>, peer: &Peer, out: &mut Actions) {
        // Comparing costs a pass over the book.
        if !peer.heard || node.book.len() > LOOKED_MAX {
            return;
        }
        for held in node.book.all() {
            let Some((asked, place)) = self.asked(node, held).and_then(|a| Some((a, a.plan.place(peer.node)?))) else {
                continue;
            };
            let (before, has) = (asked.carriers(node.label(held)), peer.has(&held.bundle));
            let after = if has { before.with(place) } else { before.without(place) };
            if after.label != node.label(held) {
                out.label(held.handle(), after.label);
            }
        }
    }

    /// Decides about a planned copy for a neighbour, including one that the router does not want, if there is space.
    fn allow_planned(
        &self,
        node: &Node<'_>,
        peer: &Peer,
        held: &Held,
        want: Option<CopyOffer>,
        asked: PlanView<'_>,
    ) -> Option<CopyOffer> {
        let place = asked.plan.place(peer.node)?;
        let carriers = asked.carriers(node.label(held));
        let by_plan = self.planned.worth(asked, node.now, place, held, carriers.with(place));
        let by_chance = || {
            let theirs = self.theirs.get(&peer.id);
            theirs.map_or(0.0, |theirs| self.by_chance(node, theirs, held, others(node, held) + 1))
        };
        let worth = self.planned.mix(by_plan, by_chance);
        let wished = want.is_none();
        if worth <= 0.0 || wished && (!self.settings.wishes || peer.free.is_none_or(|free| free < held.size())) {
            return None;
        }
        let want = want.unwrap_or_else(|| CopyOffer::copy(held, 0));
        // Both copies get the same label: all carriers, the neighbour included.
        let all = carriers.with(place).label;
        Some(CopyOffer { rank: rank(worth, wished), ..want }.with(node, all, all))
    }
}

/// Number of neighbours up that hold the bundle.
fn others(node: &Node<'_>, held: &Held) -> usize {
    node.peers.up().take(ASKED_MAX).filter(|peer| peer.has(&held.bundle)).count()
}

/// Whether a bundle was created here. Its source alone is no proof: a neighbour may write this node's name there.
fn is_made_here(node: &Node<'_>, held: &Held) -> bool {
    held.is_own() && held.bundle.source.node() == node.me
}

/// Removes a neighbour from the carriers of a bundle.
fn forget_carrier(node: &Node<'_>, peer: &Peer, id: u128, out: &mut Actions) {
    let Some((plan, held)) = node.plan.zip(node.book.find(id)) else { return };
    let Some(place) = plan.place(peer.node) else { return };
    let carriers = carriers::Carriers { label: node.label(held), nodes: plan.nodes() };
    if carriers.has(place) {
        out.label(held.handle(), carriers.without(place).label);
    }
}

impl Control for MarginalUtility {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::KEPT).and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn wishes(&self) -> bool {
        self.settings.by_plan && self.settings.wishes
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::Up { peer } => {
                if let Some(peer) = node.peers.get(peer).filter(|peer| peer.node != NodeId::NULL) {
                    self.up(node, peer, out);
                }
            }
            PolicyEvent::Down { peer } => {
                self.theirs.remove(&peer);
                // The meeting lasted until now, so its end is the last meeting.
                if let Some(peer) = node.peers.get(peer) {
                    self.meet(node, peer);
                }
            }
            PolicyEvent::Heard { from, bytes } => {
                if let Some(peer) = self.settings.trust.heeds(node, from) {
                    self.on_message(node, peer, bytes, out);
                }
            }
            PolicyEvent::Kept { bundle, wire } => {
                let Some(held) = node.get(bundle) else { return };
                if is_made_here(node, held) {
                    self.own.allow((node.capacity as f64 * self.settings.own) as u64);
                    self.own.add(held.number, held.size());
                }
                if let Some(asked) = self.asked(node, held) {
                    out.label(bundle, asked.carriers(wire.unwrap_or(0)).label);
                }
            }
            PolicyEvent::Sent { bundle, to, .. } => {
                let known = node.get(bundle).zip(node.peers.get(to));
                if known.is_some_and(|(held, peer)| peer.is(held.destination())) {
                    self.saw(node, bundle, out);
                }
            }
            PolicyEvent::Failed { bundle, to, .. } => {
                let Some((held, peer)) = node.get(bundle).zip(node.peers.get(to)) else { return };
                let Some((asked, place)) = self.asked(node, held).and_then(|a| Some((a, a.plan.place(peer.node)?)))
                else {
                    return;
                };
                let mut carriers = asked.carriers(node.label(held));
                if !peer.has(&held.bundle) {
                    carriers = carriers.without(place);
                }
                out.label(bundle, carriers.label);
            }
            PolicyEvent::Gone { bundle, why } => {
                let Some(held) = node.get(bundle) else { return };
                self.own.remove(held.number);
                if why == Why::Delivered {
                    self.saw(node, bundle, out);
                } else if why == Why::Overflow && self.asked(node, held).is_some() && !self.has_arrived(held) {
                    // Neighbours with a copy learn that this node evicted its copy: theirs is then worth more.
                    let holders = node.peers.up().take(ASKED_MAX).filter(|peer| peer.has(&held.bundle));
                    for peer in holders.filter(|peer| !self.is_far(node, peer)) {
                        let mut letter = Letter::default();
                        letter.gone(&[held.bundle.id]);
                        out.tell(peer.id, letter.0);
                    }
                }
            }
            PolicyEvent::Wake => self.relay_deliveries(node, out),
            _ => {}
        }
    }
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        if new.destination() == node.me {
            return Ok(f64::INFINITY);
        }
        let (made_here, planned) = (is_made_here(node, new), self.asked(node, new).is_some());
        // A planned bundle may be pushed back to the source instead.
        if made_here && !planned {
            return Ok(f64::INFINITY);
        }
        let worth = self.value(node, new);
        Ok(if worth > 0.0 { worth * self.settings.margin } else { worth })
    }
    /// A bundle that a planning router put into a link's queue is the only copy and has volume booked along its
    /// route: it is never evicted.
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        if held.has(RetentionConstraint::Queue) {
            return None;
        }
        let worth = self.value(node, held);
        let protected = worth >= 0.0 && self.own.keeps(held.number) && self.asked(node, held).is_none();
        Some(if protected { PROTECTED + worth } else { worth })
    }
    fn allow(&self, node: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        // The router's decision stands for a bundle that goes to its destination, and for one that leaves no copy here.
        if peer.is(held.destination()) || want.is_some_and(|want| !want.keep) {
            return want;
        }
        if self.has_arrived(held) {
            return None;
        }
        if let Some(asked) = self.asked(node, held) {
            return self.allow_planned(node, peer, held, want, asked);
        }
        let want = want?;
        let Some(theirs) = self.theirs.get(&peer.id) else { return Some(want) };
        let worth = self.by_chance(node, theirs, held, others(node, held) + 1);
        Some(CopyOffer { rank: rank(worth, false), ..want })
    }
}
