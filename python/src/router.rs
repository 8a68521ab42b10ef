//! Routers written in Python.

use crate::policy::{Policy, Shared};
use crate::views::Peer;
use crate::copy_offer::{Wait, CopyOffer};
use farlink_base::{Instant, PeerId};
use farlink_book as book;
use farlink_book::{EventMask, Held, NextHop, PolicyEvent, Node, Actions, DeliveryForecast, RouteDecision};
use farlink_routing::Router;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Router of one node, written in Python.
#[derive(Debug)]
pub struct PythonRouter {
    policy: Policy,
    copies: bool,
    summaries: bool,
}

impl PythonRouter {
    /// Creates the router by calling `maker`.
    ///
    /// # Errors
    /// If the call raises an exception, or returns no router.
    pub fn new(maker: &Bound<'_, PyAny>, shared: Shared) -> PyResult<PythonRouter> {
        let policy = Policy::new(maker, "Router", shared)?;
        let flag = |name| policy.flag(maker.py(), name);
        Ok(PythonRouter { copies: flag("copies")?, summaries: flag("asks_summaries")?, policy })
    }
}

impl DeliveryForecast for PythonRouter {}

impl Router for PythonRouter {
    fn hears(&self) -> EventMask {
        self.policy.hears
    }
    fn copies(&self) -> bool {
        self.copies
    }
    fn asks_summaries(&self) -> bool {
        self.summaries
    }
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        self.policy.tell(node, news, out);
    }
    fn route(&mut self, node: &Node<'_>, held: &Held, tried: &[PeerId], out: &mut Actions) -> RouteDecision {
        self.policy.ask("route", node, RouteDecision::Carry, |asked| {
            let refused = tried.iter().filter_map(|id| node.peers.get(*id)).map(|peer| asked.peer(peer));
            let refused = refused.collect::<PyResult<Vec<_>>>()?;
            let answer = asked.object.call_method1("route", (&asked.node, asked.bundle(node, held)?, refused))?;
            asked.orders(node.now, out)?;
            way_of(&answer, node)
        })
    }
    fn wants(&self, node: &Node<'_>, peer: &book::Peer, held: &Held) -> Option<book::CopyOffer> {
        self.policy.ask("wants", node, None, |asked| {
            let told = (&asked.node, asked.peer(peer)?, asked.bundle(node, held)?);
            let answer = asked.object.call_method1("wants", told)?;
            want_of(&answer, node, held)
        })
    }
}

/// Converts the answer of `wants`: None and False offer nothing, True offers a copy, and a `CopyOffer` is itself.
fn want_of(answer: &Bound<'_, PyAny>, node: &Node<'_>, held: &Held) -> PyResult<Option<book::CopyOffer>> {
    if answer.is_none() {
        return Ok(None);
    }
    if let Ok(plain) = answer.extract::<bool>() {
        return Ok(plain.then(|| book::CopyOffer::copy(held, held.number)));
    }
    match answer.cast::<CopyOffer>() {
        Ok(want) => Ok(Some(want.get().engine(node, held, None))),
        Err(_) => Err(wrong("wants", "None, True or a farlink.CopyOffer", answer)),
    }
}

/// Converts the answer of `route`: None carries the bundle, `Wait` waits, a peer gets the bundle, several peers get a
/// copy each.
fn way_of(answer: &Bound<'_, PyAny>, node: &Node<'_>) -> PyResult<RouteDecision> {
    if answer.is_none() {
        return Ok(RouteDecision::Carry);
    }
    if let Ok(wait) = answer.cast::<Wait>() {
        return Ok(RouteDecision::Wait(wait.get().until(node.now)?));
    }
    if let Ok(peer) = answer.cast::<Peer>() {
        return Ok(leg_to(peer.get(), node)?.map_or(RouteDecision::Wait(Instant::MAX), RouteDecision::One));
    }
    let wrong = || wrong("route", "None, a farlink.Wait, a peer or a list of peers", answer);
    let mut legs = Vec::new();
    for item in answer.try_iter().map_err(|_| wrong())? {
        legs.extend(leg_to(item?.cast::<Peer>().map_err(|_| wrong())?.get(), node)?);
    }
    // If no listed peer is up, the bundle waits until something changes.
    Ok(if legs.is_empty() { RouteDecision::Wait(Instant::MAX) } else { RouteDecision::All(legs) })
}

fn leg_to(peer: &Peer, node: &Node<'_>) -> PyResult<Option<NextHop>> {
    // Takes the first link that is up. A peer that the router remembers may have lost all links since; then there is no
    // next hop.
    let peer = node.peers.get(peer.id_at(node.me)?);
    let leg = peer.and_then(|peer| {
        let until = peer.until.unwrap_or(Instant::MAX);
        peer.up.first().map(|link| NextHop { link: *link, not_before: node.now, until })
    });
    Ok(leg)
}

/// Creates the exception for an answer whose type is not among the `expected` ones.
pub fn wrong(method: &str, expected: &str, answer: &Bound<'_, PyAny>) -> PyErr {
    let found = answer.get_type().name().map_or_else(|_| "something else".into(), |name| name.to_string());
    PyTypeError::new_err(format!("`{method}` returned a {found}\nhint: return {expected}"))
}
