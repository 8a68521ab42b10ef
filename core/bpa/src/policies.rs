//! The node's router and congestion control: their view of the node, events for them, and questions to them.

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

/// Parts of the node from which a policy's view is made.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub now: Instant,
    pub me: NodeId,
    pub book: &'a Book,
    pub peers: &'a Peers,
    pub capacity: u64,
    /// Contact plan, given to the congestion control only.
    pub plan: &'a dyn Journeys,
}

/// Builds the view for policies. A free function, so that callers can borrow the policies mutably at the same time.
pub(crate) fn seen<'a>(
    (book, neighbours, plan): (&'a Book, &'a Neighbours, &'a Plan),
    settings: &Settings,
    local: &[NodeId],
    now: Instant,
) -> Seen<'a> {
    let me = local.first().copied().unwrap_or(NodeId::NULL);
    Seen { now, me, book, peers: neighbours.peers(), capacity: settings.capacity_bytes, plan }
}

/// The router and the congestion control of a node.
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
        // An oracle's knowledge is not state of this node.
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
    // A router gets the plan through `on_plan`; an empty plan counts as absent.
    let plan = (side == Side::Control && plan.nodes() > 0).then_some(plan);
    Node { now, me, side, book, peers, capacity, router, oracle, plan }
}

impl Policies {
    pub fn new(router: Box<dyn Router>, control: Box<dyn Control>) -> Self {
        let (router_hears, control_hears) = (router.hears(), control.hears());
        Policies { router, control, router_hears, control_hears, oracle: None, orders: Actions::default() }
    }
    /// Replaces the router, before its first use.
    pub fn set_router(&mut self, router: Box<dyn Router>) {
        self.router_hears = router.hears();
        self.router = router;
    }
    /// Replaces the control, before its first use.
    pub fn set_control(&mut self, control: Box<dyn Control>) {
        self.control_hears = control.hears();
        self.control = control;
    }
    /// Sets the simulator's oracle, with knowledge beyond any real node.
    pub fn set_oracle(&mut self, oracle: Box<dyn Oracle + Send>) {
        self.oracle = Some(oracle);
    }
    /// The simulator's oracle, if any; the agent reports its own events to it.
    pub fn oracle(&mut self) -> Option<&mut (dyn Oracle + Send)> {
        self.oracle.as_deref_mut().map(|oracle| oracle as _)
    }
    /// Whether neighbours are offered copies of held bundles.
    pub fn offers(&self) -> bool {
        // Copies spread by a router's offer or by the control's wish.
        self.router.copies() || self.control.wishes()
    }
    /// Whether neighbours exchange summaries of their bundles before anything is copied.
    pub fn asks_summaries(&self) -> bool {
        self.router.asks_summaries()
    }
    /// Table entries that the router examines for each message of a neighbour.
    pub fn looks(&self) -> usize {
        self.router.looks()
    }
    /// Whether the router reads the contact plan; links of the plan are then used only as the router decides.
    pub fn uses_plan(&self) -> bool {
        self.router.uses_plan()
    }
    /// Whether this policy subscribed to the event.
    pub fn wants(&self, side: Side, news: &PolicyEvent<'_>) -> bool {
        match side {
            Side::Router => self.router_hears.wants(news),
            Side::Control => self.control_hears.wants(news),
        }
    }
    /// Passes an event to one policy; [`Policies::orders`] returns the actions that follow.
    pub fn notify(&mut self, seen: Seen<'_>, side: Side, news: &PolicyEvent<'_>) {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        match side {
            Side::Router => self.router.on(&node(seen, side, None, oracle), news, &mut self.orders),
            Side::Control => {
                // The control may ask the router for forecasts; the router never depends on the control.
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
    /// Takes the actions that policies have requested since the last call.
    pub fn orders(&mut self) -> Vec<Action> {
        // Most calls request no action: an empty vector does not allocate.
        if self.orders.is_empty() { Vec::new() } else { self.orders.drain().collect() }
    }
    /// The router's decision for one bundle.
    pub fn route(&mut self, seen: Seen<'_>, held: &Held, tried: &[PeerId]) -> RouteDecision {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        self.router.route(&node(seen, Side::Router, None, oracle), held, tried, &mut self.orders)
    }
    /// The router's next hop for a fragment of this size, if it knows one. No volume of a contact is booked.
    pub fn route_part(&self, seen: Seen<'_>, held: &Held, size: u64, tried: &[PeerId]) -> Option<NextHop> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        self.router.route_part(&node(seen, Side::Router, None, oracle), held, size, tried)
    }
    /// Copy offer on which both policies agree, for a neighbour that is up and lacks the bundle; `None` if one of them
    /// objects. `direct`: the neighbour is the bundle's destination, so the bundle itself moves there.
    pub fn wish(&self, seen: Seen<'_>, peer: &Peer, held: &Held, direct: bool) -> Option<CopyOffer> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        // The destination needs no consent of the router, but the control may still object.
        let want = if direct {
            Some(CopyOffer::give(held, 0))
        } else {
            let asked = node(seen, Side::Router, None, oracle);
            self.router.wants(&asked, peer, held)
        };
        // Only a control with wishes of its own may add an offer.
        if want.is_none() && !self.control.wishes() {
            return None;
        }
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.allow(&node(seen, Side::Control, Some(outlook), oracle), peer, held, want)
    }
    /// Whether the control lets a bundle follow the router's decision to a neighbour.
    pub fn allows(&self, seen: Seen<'_>, peer: &Peer, held: &Held) -> bool {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        let asked = node(seen, Side::Control, Some(outlook), oracle);
        self.control.allow(&asked, peer, held, Some(CopyOffer::give(held, 0))).is_some()
    }
    /// The router's estimate of a bundle's delivery if it goes `via` a neighbour, or from this node; `None` without an
    /// estimate.
    pub fn prospect(&self, seen: Seen<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        self.router.prospect(&node(seen, Side::Router, None, oracle), held, via)
    }
    /// Whether admission depends on free space alone.
    pub fn ask_for_room_only(&self) -> bool {
        self.control.asks_for_room_only()
    }
    /// The control's decision on a new bundle: its worth if admitted.
    pub fn admit(&self, seen: Seen<'_>, new: &Held) -> Result<f64, Refusal> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.admit(&node(seen, Side::Control, Some(outlook), oracle), new)
    }
    /// The control's worth of a held bundle; `None` if the bundle must never be evicted.
    pub fn worth(&self, seen: Seen<'_>, held: &Held) -> Option<f64> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.worth(&node(seen, Side::Control, Some(outlook), oracle), held)
    }
    /// Whether, within a class of service, the oldest bundle is always worth least.
    pub fn keep_newest(&self) -> bool {
        self.control.keeps_newest()
    }
    /// Neighbour to which an eviction candidate should move instead of being deleted, if the control names one.
    pub fn rehome(&self, seen: Seen<'_>, held: &Held) -> Option<PeerId> {
        let oracle = self.oracle.as_deref().map(|o| o as &dyn Oracle);
        let outlook: &dyn DeliveryForecast = &*self.router;
        self.control.rehome(&node(seen, Side::Control, Some(outlook), oracle), held)
    }
}
