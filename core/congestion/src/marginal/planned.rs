//! Worth of a copy where the contact plan knows its destination: whether it can still be delivered from there, who
//! else can deliver, and how long it would occupy space.

use super::carriers::Carriers;
use super::value::power;
use alloc::collections::BTreeMap;
use core::cell::RefCell;
use farlink_base::{Duration, Instant, NodeId};
use farlink_book::{Held, Journey, Journeys, Node, Reporters};

/// Maximum number of search results remembered.
const KNOWN_MAX: usize = 8192;
/// Validity of a result while its first contact runs.
const RUNNING: Duration = Duration::from_secs(60);

/// Validity of a light time to a neighbour.
const LIGHT: Duration = Duration::from_secs(1);
/// Cost of a search per node of the plan, charged to the previous node of the bundle. A previous node that exceeds its
/// budget gets no searches for a while. With ten nodes that allows 6,400 searches a second, with a thousand 64.
const PLACE: Duration = Duration::from_nanos(15_625);
/// Budget that may be spent at once, since all bundles are weighed when a contact begins.
const SAVED: Duration = Duration::from_secs(16);
/// Maximum number of previous nodes with a budget of their own, besides this node and the unauthenticated ones.
const GIVERS_MAX: usize = 256;

/// Key of a search: from, to, label of avoided nodes, size, and start if that is not now.
type JourneyKey = (u32, u32, u32, u64, Option<Instant>);

#[derive(Default, Debug)]
struct SearchMemory {
    edition: u64,
    ways: BTreeMap<JourneyKey, (Instant, Option<Journey>)>,
    /// Light times between indices, with the time of the search.
    light: BTreeMap<(u32, u32), (Instant, Option<Duration>)>,
    /// Time up to which the budget of each previous node is spent.
    spent: BTreeMap<NodeId, Instant>,
}

/// Error of a search for which the budget is spent.
#[derive(Debug)]
struct Spent;

impl SearchMemory {
    /// Clears the memory if the plan changed or too much is remembered.
    fn follow(&mut self, plan: &dyn Journeys) {
        if self.edition != plan.edition() || self.ways.len() >= KNOWN_MAX || self.light.len() >= KNOWN_MAX {
            (self.edition, self.ways, self.light) = (plan.edition(), BTreeMap::new(), BTreeMap::new());
        }
    }
    /// Charges a search of a plan of `nodes` nodes to a previous node. Searches depend on labels, which any sender
    /// may forge.
    fn spend(&mut self, now: Instant, giver: NodeId, nodes: u32) -> Result<(), Spent> {
        // Budgets that have recovered need no entry.
        if self.spent.len() >= GIVERS_MAX && !self.spent.contains_key(&giver) {
            self.spent.retain(|_, until| *until > now);
        }
        // Further previous nodes share the budget of the unauthenticated ones.
        let giver = if self.spent.len() < GIVERS_MAX || self.spent.contains_key(&giver) { giver } else { NodeId::NULL };
        let until = self.spent.entry(giver).or_default();
        if *until > now + SAVED {
            return Err(Spent);
        }
        *until = (*until).max(now) + PLACE * nodes.max(1);
        Ok(())
    }
}

/// Part of the control that follows the contact plan.
#[derive(Debug)]
pub(super) struct Planned {
    /// Chance that a planned route fails.
    pub fails: f64,
    /// Factor on copies whose bundle another holder can still forward after this contact.
    pub later: f64,
    /// Time until departure that halves the worth, s; 0 for no effect.
    pub wait_s: f64,
    /// Meetings with nodes of the plan, and how many of them were not planned.
    meetings: u32,
    unplanned: u32,
    known: RefCell<SearchMemory>,
}

/// A plan that knows this node and a bundle's destination.
#[derive(Clone, Copy)]
pub(super) struct PlanView<'a> {
    pub plan: &'a dyn Journeys,
    /// Index of this node, and of the destination.
    pub here: u32,
    pub to: u32,
    /// Number of nodes in the plan.
    pub nodes: u32,
    /// Previous node charged for searches: this node itself, a neighbour, or null for unauthenticated ones.
    giver: NodeId,
}

impl<'a> PlanView<'a> {
    pub fn of(node: &Node<'a>, held: &Held) -> Option<PlanView<'a>> {
        let plan = node.plan?;
        let (here, to) = (plan.place(node.me)?, plan.place(held.destination())?);
        let reporter = || node.peers.get(held.from).map_or(NodeId::NULL, Reporters::<u32>::name);
        let giver = if held.is_own() { node.me } else { reporter() };
        Some(PlanView { plan, here, to, nodes: plan.nodes(), giver })
    }
    /// Carriers according to a label, including this node.
    pub fn carriers(self, label: u32) -> Carriers {
        Carriers { label, nodes: self.nodes }.with(self.here)
    }
}

impl Planned {
    pub fn new(fails: f64, later: f64, wait_s: f64) -> Self {
        Planned { fails, later, wait_s, meetings: 0, unplanned: 0, known: RefCell::default() }
    }

    /// Records a meeting of two nodes of the plan. Unplanned meetings lower the trust in the plan.
    pub fn meet(&mut self, plan: &dyn Journeys, now: Instant, me: NodeId, peer: NodeId) {
        let Some((here, there)) = plan.place(me).zip(plan.place(peer)) else { return };
        // A contact in either direction counts as planned.
        let planned = plan.contact_end(here, there, now).or(plan.contact_end(there, here, now)).is_some();
        self.meetings = self.meetings.saturating_add(1);
        self.unplanned = self.unplanned.saturating_add(u32::from(!planned));
    }
    /// Mixes the worth by plan and by meetings, according to how often the plan was right so far.
    pub fn mix(&self, by_plan: f64, by_chance: impl FnOnce() -> f64) -> f64 {
        if self.unplanned == 0 {
            return by_plan;
        }
        // Two more meetings than counted: a single surprise does not discard the plan.
        let doubt = f64::from(self.unplanned) / (f64::from(self.meetings) + 2.0);
        (1.0 - doubt) * by_plan + doubt * by_chance()
    }

    /// Travel time of data sent now on the earliest path between two nodes, given by index; `None` without a path.
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

    /// The earliest path, from the memory of earlier searches if that is still valid.
    fn way(
        &self,
        who: PlanView<'_>,
        now: Instant,
        question: JourneyKey,
        avoid: &[u32],
    ) -> Result<Option<Journey>, Spent> {
        let (from, to, _, size, at) = question;
        let mut known = self.known.borrow_mut();
        known.follow(who.plan);
        if let Some((asked, way)) = known.ways.get(&question).filter(|(asked, _)| *asked <= now) {
            let Some(way) = way else { return Ok(None) };
            // While the path's first contact runs, the result stays valid until the latest departure, but at most for
            // `RUNNING`.
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

    /// Chance of delivery per byte that a copy at the node with index `at` adds, given the bundle's carriers.
    pub fn worth(&self, asked: PlanView<'_>, now: Instant, at: u32, held: &Held, carriers: Carriers) -> f64 {
        let (plan, to) = (asked.plan, asked.to);
        // Sizes are rounded up, so that similar bundles share results.
        let size = held.size().checked_next_power_of_two().unwrap_or(u64::MAX);
        let others = carriers.without(at);
        let places = others.places();
        let way = |question, avoid: &[u32]| {
            let way = self.way(asked, now, question, avoid);
            way.map(|way| way.filter(|way| way.arrives <= held.expires))
        };
        // Without budget the reported carriers are not avoided.
        let own = way((at, to, others.label, size, None), &places).or_else(|Spent| way((at, to, 0, size, None), &[]));
        let Ok(Some(own)) = own else { return 0.0 };
        let me = Carriers { label: 0, nodes: asked.nodes }.with(at);
        let can = |from: &&u32| matches!(way((**from, to, me.label, size, None), &[at]), Ok(Some(_)));
        // Each other holder that can deliver independently leaves less for this copy.
        let chances = places.iter().filter(can).count();
        // Another holder that can forward the bundle later makes this copy less urgent.
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
