//! What a copy is worth where the contact plan knows its destination: whether it can still make it from there
//! by itself, who else can, and how long it would take room.

use super::carriers::Carriers;
use super::value::power;
use alloc::collections::BTreeMap;
use core::cell::RefCell;
use farlink_base::{Duration, Instant, NodeId};
use farlink_book::{Held, Journey, Journeys, Node};

/// Answers remembered.
const KNOWN_MAX: usize = 8192;
/// How long an answer holds while its first contact runs.
const RUNNING: Duration = Duration::from_secs(60);

/// From, to, whom to avoid, size, and from when where that is not now.
type Question = (u32, u32, u32, u64, Option<Instant>);

#[derive(Default)]
struct Known {
    edition: u64,
    ways: BTreeMap<Question, (Instant, Option<Journey>)>,
}

/// The plan's half of the control.
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
}

impl<'a> Asked<'a> {
    pub fn of(node: &Node<'a>, held: &Held) -> Option<Asked<'a>> {
        let plan = node.plan?;
        let (here, to) = (plan.place(node.me)?, plan.place(held.destination())?);
        Some(Asked { plan, here, to, nodes: plan.nodes() })
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

    /// The earliest way, from memory where that still holds.
    fn way(&self, plan: &dyn Journeys, now: Instant, question: Question, avoid: &[u32]) -> Option<Journey> {
        let (from, to, _, size, at) = question;
        let mut known = self.known.borrow_mut();
        if known.edition != plan.edition() || known.ways.len() >= KNOWN_MAX {
            (known.edition, known.ways) = (plan.edition(), BTreeMap::new());
        }
        if let Some((asked, way)) = known.ways.get(&question).filter(|(asked, _)| *asked <= now) {
            let Some(way) = way else { return None };
            let runs = now <= way.departs_by && now <= *asked + RUNNING;
            if at.is_some() || now <= way.departs || runs {
                return Some(Journey { departs: way.departs.max(now), ..*way });
            }
        }
        let way = plan.journey(from, to, at.unwrap_or(now), size, avoid);
        known.ways.insert(question, (now, way));
        way
    }

    /// What a copy at this place adds per byte to the chance that its bundle arrives, given who had it.
    pub fn worth(&self, asked: Asked<'_>, now: Instant, at: u32, held: &Held, carriers: Carriers) -> f64 {
        let (plan, to, size) = (asked.plan, asked.to, held.size().next_power_of_two());
        let others = carriers.without(at);
        let places = others.places();
        let in_time = |way: &Journey| way.arrives <= held.expires;
        let own = self.way(plan, now, (at, to, others.label, size, None), &places).filter(in_time);
        let Some(own) = own else { return 0.0 };
        let me = Carriers { label: 0, nodes: asked.nodes }.with(at);
        let can =
            |from: &&u32| self.way(plan, now, (**from, to, me.label, size, None), &[at]).filter(in_time).is_some();
        let chances = places.iter().filter(can).count();
        let later = self.later < 1.0
            && places.iter().any(|from| {
                let end = plan.contact_end(at, *from, now);
                self.way(plan, now, (*from, to, 0, size, end), &[]).filter(in_time).is_some()
            });
        let waits = own.departs.since(now).as_secs_f64();
        let waits = if self.wait_s > 0.0 { 1.0 + waits / self.wait_s } else { 1.0 };
        let chance = power(self.fails, chances) * if later { self.later } else { 1.0 };
        chance / waits / held.size().max(1) as f64
    }
}
