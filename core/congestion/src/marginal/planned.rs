//! What a copy is worth where the contact plan knows its destination: whether it can still make it from there
//! by itself, who else can, and how long it would take room.

use super::carriers::Carriers;
use super::value::power;
use alloc::collections::BTreeMap;
use core::cell::RefCell;
use farlink_base::{Duration, Instant, NodeId};
use farlink_book::{Held, Journey, Journeys, Node, Reporters};

/// Answers remembered.
const KNOWN_MAX: usize = 8192;
/// How long an answer holds while its first contact runs.
const RUNNING: Duration = Duration::from_secs(60);

/// How long the light to a neighbour is remembered.
const LIGHT: Duration = Duration::from_secs(1);
/// What a search of the plan costs its giver for each node there is: one that takes longer than it may, on the whole,
/// searches no more for a while. With ten nodes that is 6,400 searches a second, with a thousand 64.
const PLACE: Duration = Duration::from_nanos(15_625);
/// What may be spent at once: all bundles are weighed when a contact begins.
const SAVED: Duration = Duration::from_secs(16);
/// Givers told apart, besides this node and those who only claim a name.
const GIVERS_MAX: usize = 256;

/// From, to, whom to avoid, size, and from when where that is not now.
type Question = (u32, u32, u32, u64, Option<Instant>);

#[derive(Default, Debug)]
struct Known {
    edition: u64,
    ways: BTreeMap<Question, (Instant, Option<Journey>)>,
    /// How long light takes from place to place, and as of when.
    light: BTreeMap<(u32, u32), (Instant, Option<Duration>)>,
    /// Until when each giver's time for searches is spent.
    spent: BTreeMap<NodeId, Instant>,
}

/// There is no time for another search.
#[derive(Debug)]
struct Spent;

impl Known {
    /// Begins anew with another plan, and where too much is known.
    fn follow(&mut self, plan: &dyn Journeys) {
        if self.edition != plan.edition() || self.ways.len() >= KNOWN_MAX || self.light.len() >= KNOWN_MAX {
            (self.edition, self.ways, self.light) = (plan.edition(), BTreeMap::new(), BTreeMap::new());
        }
    }
    /// Whether somebody's bundles may cost a search of a plan of so many nodes; it is spent then. What is asked
    /// follows from labels, and whoever gives a bundle writes what it likes there.
    fn spend(&mut self, now: Instant, giver: NodeId, nodes: u32) -> Result<(), Spent> {
        if self.spent.len() >= GIVERS_MAX && !self.spent.contains_key(&giver) {
            self.spent.retain(|_, until| *until > now);
        }
        let giver = if self.spent.len() < GIVERS_MAX || self.spent.contains_key(&giver) { giver } else { NodeId::NULL };
        let until = self.spent.entry(giver).or_default();
        if *until > now + SAVED {
            return Err(Spent);
        }
        *until = (*until).max(now) + PLACE * nodes.max(1);
        Ok(())
    }
}

/// The plan's half of the control.
#[derive(Debug)]
pub(super) struct Planned {
    /// Chance that a way of the plan comes to nothing.
    pub fails: f64,
    /// Factor on copies whose bundle another holder can still bring on after this contact.
    pub later: f64,
    /// Time until departure that halves the worth, s; 0: none does.
    pub wait_s: f64,
    /// Meetings of nodes of the plan, and those among them that were not planned.
    meetings: u32,
    unplanned: u32,
    known: RefCell<Known>,
}

/// A plan that knows this node and a bundle's destination.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub plan: &'a dyn Journeys,
    /// This node's place, and the destination's.
    pub here: u32,
    pub to: u32,
    /// How many nodes there are.
    pub nodes: u32,
    /// Who gave the bundle: this node itself, a neighbour, or, null, whoever only claims a name.
    giver: NodeId,
}

impl<'a> Asked<'a> {
    pub fn of(node: &Node<'a>, held: &Held) -> Option<Asked<'a>> {
        let plan = node.plan?;
        let (here, to) = (plan.place(node.me)?, plan.place(held.destination())?);
        let teller = || node.peers.get(held.from).map_or(NodeId::NULL, Reporters::<u32>::name);
        let giver = if held.is_own() { node.me } else { teller() };
        Some(Asked { plan, here, to, nodes: plan.nodes(), giver })
    }
    /// Who had a bundle, as its label says, and this node.
    pub fn carriers(self, label: u32) -> Carriers {
        Carriers { label, nodes: self.nodes }.with(self.here)
    }
}

impl Planned {
    pub fn new(fails: f64, later: f64, wait_s: f64) -> Self {
        Planned { fails, later, wait_s, meetings: 0, unplanned: 0, known: RefCell::default() }
    }

    /// Two nodes of the plan meet: whether the plan said so tells how far it is to be believed.
    pub fn meet(&mut self, plan: &dyn Journeys, now: Instant, me: NodeId, peer: NodeId) {
        let Some((here, there)) = plan.place(me).zip(plan.place(peer)) else { return };
        let planned = plan.contact_end(here, there, now).or(plan.contact_end(there, here, now)).is_some();
        self.meetings = self.meetings.saturating_add(1);
        self.unplanned = self.unplanned.saturating_add(u32::from(!planned));
    }
    /// The worth by a plan that is believed as far as it was right so far, and by encounters for the rest.
    pub fn mix(&self, by_plan: f64, by_chance: impl FnOnce() -> f64) -> f64 {
        if self.unplanned == 0 {
            return by_plan;
        }
        let doubt = f64::from(self.unplanned) / (f64::from(self.meetings) + 2.0);
        (1.0 - doubt) * by_plan + doubt * by_chance()
    }

    /// How long what is sent now takes from place to place at least.
    pub fn light(&self, plan: &dyn Journeys, now: Instant, from: u32, to: u32) -> Option<Duration> {
        let mut known = self.known.borrow_mut();
        known.follow(plan);
        if let Some((asked, light)) = known.light.get(&(from, to)).filter(|(asked, _)| *asked <= now)
            && now < *asked + LIGHT
        {
            return *light;
        }
        let light = plan.journey(from, to, now, 1, &[]).map(|way| way.arrives.since(way.departs));
        known.light.insert((from, to), (now, light));
        light
    }

    /// The earliest way, from memory where that still holds.
    fn way(&self, who: Asked<'_>, now: Instant, question: Question, avoid: &[u32]) -> Result<Option<Journey>, Spent> {
        let (from, to, _, size, at) = question;
        let mut known = self.known.borrow_mut();
        known.follow(who.plan);
        if let Some((asked, way)) = known.ways.get(&question).filter(|(asked, _)| *asked <= now) {
            let Some(way) = way else { return Ok(None) };
            let runs = now <= way.departs_by && now <= *asked + RUNNING;
            if at.is_some() || now <= way.departs || runs {
                return Ok(Some(Journey { departs: way.departs.max(now), ..*way }));
            }
        }
        known.spend(now, who.giver, who.nodes)?;
        let way = who.plan.journey(from, to, at.unwrap_or(now), size, avoid);
        known.ways.insert(question, (now, way));
        Ok(way)
    }

    /// What a copy at this place adds per byte to the chance that its bundle arrives, given who had it.
    pub fn worth(&self, asked: Asked<'_>, now: Instant, at: u32, held: &Held, carriers: Carriers) -> f64 {
        let (plan, to) = (asked.plan, asked.to);
        let size = held.size().checked_next_power_of_two().unwrap_or(u64::MAX);
        let others = carriers.without(at);
        let places = others.places();
        let way = |question, avoid: &[u32]| {
            let way = self.way(asked, now, question, avoid);
            way.map(|way| way.filter(|way| way.arrives <= held.expires))
        };
        // Where there is no time to ask, who is said to have had it is not counted.
        let own = way((at, to, others.label, size, None), &places).or_else(|Spent| way((at, to, 0, size, None), &[]));
        let Ok(Some(own)) = own else { return 0.0 };
        let me = Carriers { label: 0, nodes: asked.nodes }.with(at);
        let can = |from: &&u32| matches!(way((**from, to, me.label, size, None), &[at]), Ok(Some(_)));
        let chances = places.iter().filter(can).count();
        let later = self.later < 1.0
            && places.iter().any(|from| {
                let end = plan.contact_end(at, *from, now);
                matches!(way((*from, to, 0, size, end), &[]), Ok(Some(_)))
            });
        let waits = own.departs.since(now).as_secs_f64();
        let waits = if self.wait_s > 0.0 { 1.0 + waits / self.wait_s } else { 1.0 };
        let chance = power(self.fails, chances) * if later { self.later } else { 1.0 };
        chance / waits / held.size().max(1) as f64
    }
}
