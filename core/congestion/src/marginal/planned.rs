//! What a copy is worth where the contact plan knows its destination: whether it can still make it from there
//! by itself, who else can, and how long it would take room.

use super::carriers::Carriers;
use super::value::power;
use alloc::collections::BTreeMap;
use core::cell::RefCell;
use farlink_base::{Duration, Instant};
use farlink_book::{Forecast, Held, Journey, Node};

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
    known: RefCell<Known>,
}

/// A plan that knows this node and a bundle's destination.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub plan: &'a dyn Forecast,
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
        Planned { fails, later, wait_s, known: RefCell::default() }
    }

    /// The earliest way, from memory where that still holds.
    fn way(&self, plan: &dyn Forecast, now: Instant, question: Question, avoid: &[u32]) -> Option<Journey> {
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
        let can = |from: &&u32| self.way(plan, now, (**from, to, me.label, size, None), &[at]).filter(in_time).is_some();
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
