//! The node's two policies: how they are shown the node, told news, and asked.

use crate::neighbours::Neighbours;
use crate::neighbours::plan::Plan;
use crate::settings::Settings;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use farlink_base::{Instant, NodeId, PeerId, Refusal};
use farlink_book::{
    Action, Actions, Book, CopyOffer, DeliveryEstimate, DeliveryForecast, EventMask, Held, Journeys, NextHop, Node,
    Oracle, Peer, Peers, PolicyEvent, RouteDecision, Side,
};
use farlink_congestion::Control;
use farlink_routing::{PlacedPlan, Router};

/// The node as it is shown to a policy.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub now: Instant,
    pub me: NodeId,
    pub book: &'a Book,
    pub peers: &'a Peers,
    pub capacity: u64,
    /// For the control.
    pub plan: &'a dyn Journeys,
}

/// The node as its policies see it; a function, so that a policy may be borrowed beside.
pub(crate) fn seen<'a>(
    (book, neighbours, plan): (&'a Book, &'a Neighbours, &'a Plan),
    settings: &Settings,
    local: &[NodeId],
    now: Instant,
) -> Seen<'a> {
    let me = local.first().copied().unwrap_or(NodeId::NULL);
    Seen { now, me, book, peers: neighbours.peers(), capacity: settings.capacity_bytes, plan }
}

/// A router and a control.
pub(crate) struct Policies {
    router: Box<dyn Router>,
    control: Box<dyn Control>,
    router_hears: EventMask,
    control_hears: EventMask,
    oracle: Option<Box<dyn Oracle + Send>>,
    orders: Actions,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What an oracle knows is no state of this node.
        let Policies { router, control, router_hears, control_hears, oracle: _, orders } = self;
        f.debug_tuple("Policies")
            .field(router)
            .field(control)
            .field(router_hears)
            .field(control_hears)
            .field(orders)
            .finish()
    }
}

fn node<'a>(
    seen: Seen<'a>,
    side: Side,
    router: Option<&'a dyn DeliveryForecast>,
    oracle: Option<&'a dyn Oracle>,
) -> Node<'a> {
    let Seen { now, me, book, peers, capacity, plan } = seen;
    let plan = (side == Side::Control && plan.nodes() > 0).then_some(plan);
    Node { now, me, side, book, peers, capacity, router, oracle, plan }
}

impl Policies {
    /// These two.
    pub fn new(router: Box<dyn Router>, control: Box<dyn Control>) -> Self {
        let (router_hears, control_hears) = (router.hears(), control.hears());
        Policies { router, control, router_hears, control_hears, oracle: None, orders: Actions::default() }
    }
    /// Another router, before anything was asked or told.
    pub fn set_router(&mut self, router: Box<dyn Router>) {
        self.router_hears = router.hears();
        self.router = router;
    }
    /// Another control, before anything was asked or told.
    pub fn set_control(&mut self, control: Box<dyn Control>) {
        self.control_hears = control.hears();
        self.control = control;
    }
    /// Knowledge no node can have; given by the simulator only.
    pub fn set_oracle(&mut self, oracle: Box<dyn Oracle + Send>) {
        self.oracle = Some(oracle);
    }
    /// What a driver knows, to be told what this node does.
    pub fn oracle(&mut self) -> Option<&mut (dyn Oracle + Send)> {
        self.oracle.as_deref_mut().map(|oracle| oracle as _)
    }
    /// Whether neighbours are offered what is carried.
    pub fn offers(&self) -> bool {
        self.router.copies() || self.control.wishes()
    }
    /// Whether neighbours tell each other what they hold before anything is copied.
    pub fn asks_summaries(&self) -> bool {
        self.router.asks_summaries()
    }
    /// Things the router looks at for each message.
    pub fn looks(&self) -> usize {
        self.router.looks()
    }
    /// Whether links of the plan are the router's alone.
    pub fn uses_plan(&self) -> bool {
        self.router.uses_plan()
    }
    /// Whether any policy wants this.
    pub fn wants(&self, side: Side, news: &PolicyEvent<'_>) -> bool {
        match side {
            Side::Router => self.router_hears.wants(news),
            Side::Control => self.control_hears.wants(news),
        }
    }
    /// Tells one policy; what it orders is taken with [`Policies::orders`].
    pub fn tell(&mut self, seen: Seen<'_>, side: Side, news: &PolicyEvent<'_>) {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        match side {
            Side::Router => self.router.on(&node(seen, side, None, oracle), news, &mut self.orders),
            Side::Control => {
                let outlook: &dyn DeliveryForecast = &*self.router;
                self.control.on(&node(seen, side, Some(outlook), oracle), news, &mut self.orders);
            }
        }
    }
    /// Gives the router the contact plan.
    pub fn plan(&mut self, seen: Seen<'_>, plan: &PlacedPlan<'_>) {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        self.router.on_plan(&node(seen, Side::Router, None, oracle), plan, &mut self.orders);
    }
    /// What was ordered since it was taken last.
    pub fn orders(&mut self) -> Vec<Action> {
        if self.orders.is_empty() { Vec::new() } else { self.orders.drain().collect() }
    }
    /// Where a bundle goes.
    pub fn route(&mut self, seen: Seen<'_>, held: &Held, tried: &[PeerId]) -> RouteDecision {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        self.router.route(&node(seen, Side::Router, None, oracle), held, tried, &mut self.orders)
    }
    /// Where a piece of this size would go; nothing is booked.
    pub fn route_part(&self, seen: Seen<'_>, held: &Held, size: u64, tried: &[PeerId]) -> Option<NextHop> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        self.router.route_part(&node(seen, Side::Router, None, oracle), held, size, tried)
    }
    /// What both policies want of a carried bundle for a neighbour that is up and lacks it.
    /// `direct`: it is the bundle's destination, to which it goes first, and moves.
    pub fn wish(&self, seen: Seen<'_>, peer: &Peer, held: &Held, direct: bool) -> Option<CopyOffer> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let want = if direct {
            Some(CopyOffer::give(held, 0))
        } else {
            let asked = node(seen, Side::Router, None, oracle);
            self.router.wants(&asked, peer, held)
        };
        if want.is_none() && !self.control.wishes() {
            return None;
        }
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.allow(&node(seen, Side::Control, Some(outlook), oracle), peer, held, want)
    }
    /// Whether the control lets a bundle follow the router's plan to a neighbour.
    pub fn allows(&self, seen: Seen<'_>, peer: &Peer, held: &Held) -> bool {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        let asked = node(seen, Side::Control, Some(outlook), oracle);
        self.control.allow(&asked, peer, held, Some(CopyOffer::give(held, 0))).is_some()
    }
    /// How the router expects a bundle to fare given to a neighbour.
    pub fn prospect(&self, seen: Seen<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        self.router.prospect(&node(seen, Side::Router, None, oracle), held, via)
    }
    /// Whether only room decides about a newcomer.
    pub fn ask_for_room_only(&self) -> bool {
        self.control.asks_for_room_only()
    }
    /// May this newcomer in, and what is it worth?
    pub fn admit(&self, seen: Seen<'_>, new: &Held) -> Result<f64, Refusal> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.admit(&node(seen, Side::Control, Some(outlook), oracle), new)
    }
    /// What a held bundle is worth; `None`: it is never given up.
    pub fn worth(&self, seen: Seen<'_>, held: &Held) -> Option<f64> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.worth(&node(seen, Side::Control, Some(outlook), oracle), held)
    }
    /// Whether what came first is worth least.
    pub fn keep_newest(&self) -> bool {
        self.control.keeps_newest()
    }
    /// Where a victim may move instead of being deleted.
    pub fn rehome(&self, seen: Seen<'_>, held: &Held) -> Option<PeerId> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.rehome(&node(seen, Side::Control, Some(outlook), oracle), held)
    }
}
