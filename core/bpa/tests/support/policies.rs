//! Policies made of closures.

use farlink_base::{Instant, PeerId, Refusal};
use farlink_book::{Actions, CopyOffer, DeliveryForecast, EventMask, Held, Node, Peer, PolicyEvent, RouteDecision};
use farlink_congestion::Control;
use farlink_routing::{PlacedPlan, Router};
use std::fmt;

/// A router without routes; static routes and direct links remain.
#[derive(Debug)]
pub struct NoRouter;
impl DeliveryForecast for NoRouter {}
impl Router for NoRouter {
    fn route(&mut self, _: &Node<'_>, _: &Held, _: &[PeerId], _: &mut Actions) -> RouteDecision {
        RouteDecision::Wait(Instant::MAX)
    }
}

type On = Box<dyn FnMut(&Node<'_>, &PolicyEvent<'_>, &mut Actions) + Send>;

/// A router made of closures.
pub struct Script {
    pub hears: EventMask,
    pub copies: bool,
    pub asks_summaries: bool,
    pub uses_plan: bool,
    pub on: On,
    /// Adds actions when the router is asked for a route or gets a plan.
    pub when_asked: Box<dyn FnMut(Instant, &mut Actions) + Send>,
    pub on_plan: Box<dyn FnMut(&PlacedPlan<'_>) + Send>,
    pub route: Box<dyn FnMut(&Node<'_>, &Held, &[PeerId]) -> RouteDecision + Send>,
    pub part: Box<dyn Fn(&Node<'_>, u64) -> Option<farlink_book::NextHop> + Send>,
    pub wants: Box<dyn Fn(&Node<'_>, &Peer, &Held) -> Option<CopyOffer> + Send>,
}
impl Default for Script {
    fn default() -> Self {
        Script {
            hears: EventMask::NOTHING,
            copies: false,
            asks_summaries: false,
            uses_plan: false,
            on: Box::new(|_, _, _| {}),
            when_asked: Box::new(|_, _| {}),
            on_plan: Box::new(|_| {}),
            route: Box::new(|_, _, _| RouteDecision::Carry),
            part: Box::new(|_, _| None),
            wants: Box::new(|_, _, _| None),
        }
    }
}
impl Script {
    /// A router that copies every bundle to every neighbour, oldest first.
    pub fn flood() -> Script {
        Script {
            copies: true,
            wants: Box::new(|_, _, held| Some(CopyOffer::copy(held, held.number))),
            ..Script::default()
        }
    }
    /// [`Script::flood`] with summaries.
    pub fn epidemic() -> Script {
        Script { asks_summaries: true, ..Script::flood() }
    }
}
impl DeliveryForecast for Script {}
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}
impl Router for Script {
    fn hears(&self) -> EventMask {
        self.hears
    }
    fn copies(&self) -> bool {
        self.copies
    }
    fn asks_summaries(&self) -> bool {
        self.asks_summaries
    }
    fn uses_plan(&self) -> bool {
        self.uses_plan
    }
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        (self.on)(node, news, out);
    }
    fn on_plan(&mut self, node: &Node<'_>, plan: &PlacedPlan<'_>, out: &mut Actions) {
        (self.when_asked)(node.now, out);
        (self.on_plan)(plan);
    }
    fn route(&mut self, node: &Node<'_>, held: &Held, tried: &[PeerId], out: &mut Actions) -> RouteDecision {
        (self.when_asked)(node.now, out);
        (self.route)(node, held, tried)
    }
    fn route_part(&self, node: &Node<'_>, _: &Held, size: u64, _: &[PeerId]) -> Option<farlink_book::NextHop> {
        (self.part)(node, size)
    }
    fn wants(&self, node: &Node<'_>, peer: &Peer, held: &Held) -> Option<CopyOffer> {
        (self.wants)(node, peer, held)
    }
}

/// A control made of closures.
pub struct Rule {
    pub hears: EventMask,
    pub on: On,
    pub admit: Box<dyn Fn(&Held) -> Result<f64, Refusal> + Send>,
    pub worth: Box<dyn Fn(&Held) -> Option<f64> + Send>,
    pub allow: Box<dyn Fn(&Peer, &Held, Option<CopyOffer>) -> Option<CopyOffer> + Send>,
    pub rehome: Box<dyn Fn(&Node<'_>, &Held) -> Option<PeerId> + Send>,
}
impl Default for Rule {
    fn default() -> Self {
        Rule {
            hears: EventMask::NOTHING,
            on: Box::new(|_, _, _| {}),
            admit: Box::new(|_| Ok(f64::INFINITY)),
            worth: Box::new(|_| None),
            allow: Box::new(|_, _, want| want),
            rehome: Box::new(|_, _| None),
        }
    }
}
/// A control that evicts nothing.
#[derive(Debug)]
pub struct OnlyRoom;
impl Control for OnlyRoom {
    fn asks_for_room_only(&self) -> bool {
        true
    }
}
impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rule")
    }
}
impl Control for Rule {
    fn hears(&self) -> EventMask {
        self.hears
    }
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        (self.on)(node, news, out);
    }
    fn admit(&self, _: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        (self.admit)(new)
    }
    fn worth(&self, _: &Node<'_>, held: &Held) -> Option<f64> {
        (self.worth)(held)
    }
    fn allow(&self, _: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        (self.allow)(peer, held, want)
    }
    fn rehome(&self, node: &Node<'_>, held: &Held) -> Option<PeerId> {
        (self.rehome)(node, held)
    }
}
