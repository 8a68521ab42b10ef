//! Marginal utility: every copy is worth what it adds to the chance that its bundle arrives, per byte. The
//! least worth makes room, the most goes first, and a neighbour is given nothing that it would refuse.
//!
//! Where the contact plan knows a bundle's destination its worth follows from the plan (`planned.rs`): whether
//! the copy can still make it from there, and who else can. Where it does not, from who met the destination
//! when (`encounters.rs`, `value.rs`). What arrived is told on (`arrived.rs`): it is worth nothing then, and
//! what its destination itself says it has is deleted. A node protects the newest of what it made (`own.rs`).
//! What nodes tell each other travels in their hellos (`message.rs`), who had a bundle in its label
//! (`carriers.rs`). The idea, and where it loses: `docs/explanation/congestion.md`.

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
use arrived::{Arrived, Known};
use encounters::{Encounters, seconds};
use farlink_base::{Duration, Instant, NodeId, PeerId, Refusal};
use farlink_book::{
    Action, Actions, CopyOffer, EventMask, Handle, Held, Identity, Node, Peer, PolicyEvent, Reporters,
    RetentionConstraint, Why,
};
use message::{Letter, Part, parts};
use own::Own;
use params::Settings;
use planned::{Asked, Planned};
use value::rank;

/// Worth of what arrived: less than anything's.
const NOTHING: f64 = -1.0;
/// What is added to the worth of own bundles that are protected: more than any other's, less than a
/// newcomer's that is for this node or made here.
const PROTECTED: f64 = 1e200;
/// Neighbours that are up of whom it is asked whether they hold a bundle.
const ASKED_MAX: usize = 64;
/// Bundles held up to which all are looked at when a neighbour says what it holds.
const LOOKED_MAX: usize = 1024;
/// How long what was learnt is gathered before it is told on.
const GATHER: Duration = Duration::from_secs(1);

/// The control of one node.
#[derive(Debug)]
pub struct MarginalUtility {
    settings: Settings,
    arrived: Arrived,
    /// Learnt and not told on yet, with who told it.
    fresh: Vec<(u128, Instant, NodeId)>,
    met: Encounters,
    theirs: BTreeMap<PeerId, Encounters>,
    own: Own,
    planned: Planned,
}

impl MarginalUtility {
    /// `params` are values of [`MarginalUtility::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let settings = Settings::of(params);
        MarginalUtility {
            arrived: Arrived::new(settings.ids),
            fresh: Vec::new(),
            met: Encounters::default(),
            theirs: BTreeMap::new(),
            own: Own::default(),
            planned: Planned::new(settings.fails, settings.later, settings.wait_s),
            settings,
        }
    }

    /// The plan, where it knows the bundle's destination.
    fn asked<'a>(&self, node: &Node<'a>, held: &Held) -> Option<Asked<'a>> {
        if self.settings.by_plan { Asked::of(node, held) } else { None }
    }

    /// Worth by encounters, of a copy held by somebody with this memory, beside so many others.
    fn by_chance(&self, node: &Node<'_>, met: &Encounters, held: &Held, others: usize) -> f64 {
        let left_s = held.remaining(node.now).as_secs_f64();
        if left_s <= 0.0 {
            return 0.0;
        }
        let mut rates = met.rates(held.destination(), node.now, self.settings.hop_s);
        if !self.settings.by_encounters {
            rates.own = rates.others;
        }
        rates.gain(others as f64, self.settings.ends / left_s) / held.size().max(1) as f64
    }

    /// What a copy here is worth, whoever made it.
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

    /// Remembers what arrived, and tells it on soon.
    fn learn(&mut self, now: Instant, id: u128, until: Instant, teller: NodeId, out: &mut Actions) {
        let until = until.min(now + self.settings.remember);
        if until > now && self.arrived.learn(id, until, teller) && self.settings.tell > 0 {
            if self.fresh.is_empty() {
                out.push(Action::Wake(now + GATHER));
            }
            if self.fresh.len() < self.settings.tell {
                self.fresh.push((id, until, teller));
            }
        }
    }
    /// This node knows of its own that a bundle arrived.
    fn saw(&mut self, node: &Node<'_>, bundle: Handle, out: &mut Actions) {
        let Some(held) = node.get(bundle).filter(|held| !held.bundle.is_anonymous()) else { return };
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
        letter.met(&self.met.told(node.now, self.settings.meetings));
        out.tell(peer.id, letter.0);
    }
    fn meet(&mut self, node: &Node<'_>, peer: &Peer) {
        if peer.node != NodeId::NULL {
            self.met.meet(peer.node, seconds(node.now), peer.identity() >= Identity::Address);
            self.met.settle(node.now, self.settings.hop_s);
        }
    }

    /// What was learnt is told to whoever is there and did not say it.
    fn tell_on(&mut self, node: &Node<'_>, out: &mut Actions) {
        let fresh = core::mem::take(&mut self.fresh);
        for peer in node.peers.up().filter(|peer| peer.node != NodeId::NULL && !self.is_far(node, peer)) {
            let news = fresh.iter().filter(|(_, _, teller)| *teller != peer.node);
            let news = news.map(|&(id, until, teller)| Known { id, until, seen: teller == NodeId::NULL });
            let mut letter = Letter::default();
            letter.arrived(node.now, &news.collect::<Vec<_>>());
            if !letter.0.is_empty() {
                out.tell(peer.id, letter.0);
            }
        }
    }

    /// Whether a neighbour is so far by the plan that nothing is told it but as it is met.
    fn is_far(&self, node: &Node<'_>, peer: &Peer) -> bool {
        let Some(plan) = node.plan.filter(|_| self.settings.by_plan) else { return false };
        let way = plan.place(node.me).zip(plan.place(peer.node));
        way.is_some_and(|(here, there)| self.planned.light(plan, node.now, here, there) > Some(self.settings.far))
    }

    /// What a message says twice is heard once: each identity costs one order at most.
    fn heard(&mut self, node: &Node<'_>, peer: &Peer, bytes: &[u8], out: &mut Actions) {
        let (mut arrived, mut gone, mut met) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for part in parts(bytes) {
            match part {
                Part::Arrived(ids, seen) => {
                    for (id, left) in ids.iter().filter(|(id, _)| arrived.insert((*id, seen))) {
                        self.heard_of(node, peer, (*id, *left, seen), out);
                    }
                }
                Part::Met(told) => met.push(told),
                Part::Gone(ids) => {
                    ids.iter().filter(|id| gone.insert(**id)).for_each(|id| forget_carrier(node, peer, *id, out));
                }
            }
        }
        self.heard_met(node, peer, &met);
        self.compare(node, peer, out);
    }
    /// A neighbour says that a bundle arrived. Only its destination's word deletes, that it saw it arrive: what
    /// destinations heard may be a lie about bundles that they wait for.
    fn heard_of(&mut self, node: &Node<'_>, peer: &Peer, (id, left_s, seen): (u128, u32, bool), out: &mut Actions) {
        let until = node.now + Duration::from_secs(u64::from(left_s));
        self.learn(node.now, id, until, peer.node, out);
        let Some(held) = node.book.find(id) else { return };
        let vouched =
            seen && peer.identity_as(held.destination()).is_some_and(|identity| identity >= Identity::Address);
        if vouched || self.settings.hearsay > 1 {
            out.delete(held.handle(), Why::Acked);
        }
    }
    /// Whom a neighbour met, as often as it says so; whom it met last is what its copies are worth.
    fn heard_met(&mut self, node: &Node<'_>, peer: &Peer, told: &[Vec<(NodeId, u32)>]) {
        let (hop_s, now_s, teller) = (self.settings.hop_s, seconds(node.now), Reporters::<NodeId>::name(peer));
        let Some(last) = told.last() else { return };
        let known = |told: &[(NodeId, u32)]| {
            let told = told.iter().take(encounters::NODES_MAX).filter(|(who, _)| *who != NodeId::NULL);
            told.map(|(who, age)| (*who, now_s - f64::from(*age))).collect::<Vec<_>>()
        };
        for (who, at) in told.iter().flat_map(|told| known(told)).filter(|(who, _)| *who != node.me) {
            self.met.hear(who, at - hop_s, teller);
        }
        let mut theirs = Encounters::default();
        known(last).into_iter().for_each(|(who, at)| theirs.hear(who, at, NodeId::NULL));
        theirs.settle(node.now, hop_s);
        self.met.settle(node.now, hop_s);
        self.theirs.insert(peer.id, theirs);
    }
    /// A neighbour said what it holds: who carries what is known better.
    fn compare(&self, node: &Node<'_>, peer: &Peer, out: &mut Actions) {
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

    /// A copy for a neighbour that the plan judges: also one that the router does not want, where there is room.
    fn allow_planned(
        &self,
        node: &Node<'_>,
        peer: &Peer,
        held: &Held,
        want: Option<CopyOffer>,
        asked: Asked<'_>,
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
        let all = carriers.with(place).label;
        Some(CopyOffer { rank: rank(worth, wished), ..want }.with(node, all, all))
    }
}

/// Neighbours that are up and hold it.
fn others(node: &Node<'_>, held: &Held) -> usize {
    node.peers.up().take(ASKED_MAX).filter(|peer| peer.has(&held.bundle)).count()
}

/// Whether a bundle was made here. What its source says is not enough: a neighbour can write this node's name there.
fn is_made_here(node: &Node<'_>, held: &Held) -> bool {
    held.is_own() && held.bundle.source.node() == node.me
}

/// A neighbour no longer carries a bundle.
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
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        match *news {
            PolicyEvent::Up { peer } => {
                if let Some(peer) = node.peers.get(peer).filter(|peer| peer.node != NodeId::NULL) {
                    self.up(node, peer, out);
                }
            }
            PolicyEvent::Down { peer } => {
                self.theirs.remove(&peer);
                if let Some(peer) = node.peers.get(peer) {
                    self.meet(node, peer);
                }
            }
            PolicyEvent::Heard { from, bytes } => {
                if let Some(peer) = self.settings.trust.heeds(node, from) {
                    self.heard(node, peer, bytes, out);
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
                    let holders = node.peers.up().take(ASKED_MAX).filter(|peer| peer.has(&held.bundle));
                    for peer in holders.filter(|peer| !self.is_far(node, peer)) {
                        let mut letter = Letter::default();
                        letter.gone(&[held.bundle.id]);
                        out.tell(peer.id, letter.0);
                    }
                }
            }
            PolicyEvent::Wake => self.tell_on(node, out),
            _ => {}
        }
    }
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        if new.destination() == node.me {
            return Ok(f64::INFINITY);
        }
        let (made_here, planned) = (is_made_here(node, new), self.asked(node, new).is_some());
        if made_here && !planned {
            return Ok(f64::INFINITY);
        }
        let worth = self.value(node, new);
        Ok(if worth > 0.0 { worth * self.settings.margin } else { worth })
    }
    /// What a router that plans has put into a link's queue is the only copy there is, and has its room booked on
    /// the way: it is not given up.
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        if held.has(RetentionConstraint::Queue) {
            return None;
        }
        let worth = self.value(node, held);
        let protected = worth >= 0.0 && self.own.keeps(held.number) && self.asked(node, held).is_none();
        Some(if protected { PROTECTED + worth } else { worth })
    }
    fn allow(&self, node: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
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
