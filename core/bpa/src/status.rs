//! What operators ask and change: status, stored bundles and why each waits, routes, links, plan.

use crate::agent::{Agent, deleted};
use crate::app::{AdminInput, BundleStatus, LinkStatus, Status};
use crate::edge::Edge;
use crate::io::{Output, Pressure};
use crate::link::Link;
use crate::waits::Turned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{BundleHandle, DeleteReason, EndpointId, Instant, LinkId, NodeId, Sink, format_duration};
use farlink_book::{Held, Reason};
use farlink_routing::PlanIndex;

impl Agent {
    pub(crate) fn on_admin<S: Sink<Output>>(
        &mut self,
        now: Instant,
        input: AdminInput,
        edge: &mut dyn Edge,
        out: &mut S,
    ) {
        match input {
            AdminInput::SetPlan(plan) => self.set_plan(now, plan, out),
            AdminInput::AddRoute { pattern, next_hop } => {
                self.settings.routes.retain(|(p, _)| *p != pattern);
                self.settings.routes.push((pattern, next_hop));
                self.let_queues_go();
            }
            AdminInput::RemoveRoute { pattern } => {
                self.settings.routes.retain(|(p, _)| *p != pattern);
                self.let_queues_go();
            }
            AdminInput::SetLink { link, enabled } => self.enable_link(now, &link, enabled, out),
            // 9171-5.12-1, 9171-5.12-2, 5050-5.15-1, 5050-5.15-2
            AdminInput::Cancel { bundle } => {
                if let Some(handle) = self.book.by_number(bundle.0).map(Held::handle) {
                    self.depart(now, handle, deleted(DeleteReason::Cancelled), None, edge, out);
                }
            }
            AdminInput::Shutdown => {
                self.terminating = true;
                out.push(Output::Shutdown);
            }
        }
    }

    /// A snapshot for operators.
    pub fn status(&self, now: Instant) -> Status {
        Status {
            node_ids: self.settings.node_ids.clone(),
            bundles: self.book.len() as u64,
            bytes: self.book.bytes(),
            capacity: self.settings.capacity_bytes,
            strangers: self.shares.strange(),
            links: self.neighbours.links().map(|link| self.link_status(now, link)).collect(),
            registrations: self.deliveries.registered().cloned().collect(),
            contacts: self.plan().map_or(0, |plan| plan.plan().contacts.len() as u64),
        }
    }

    fn link_status(&self, now: Instant, link: &Link) -> LinkStatus {
        let hindered = self.what_hinders(now, link);
        LinkStatus {
            name: link.name.clone(),
            peer: self.neighbours.peers().get(link.peer).map(farlink_book::Peer::endpoint).unwrap_or_default(),
            up: hindered.is_none(),
            state: hindered.unwrap_or("up").to_string(),
            queued: self.queues.of(link.id).0,
            in_flight: link.in_flight,
        }
    }

    /// Why no bundle can leave over a link now.
    fn what_hinders(&self, now: Instant, link: &Link) -> Option<&'static str> {
        if !link.enabled {
            Some("disabled")
        } else if !link.carrier {
            Some("no carrier")
        } else if !link.is_up(self.plan.placed(), now) {
            Some("no contact")
        } else if link.session == Some(false) {
            Some("no session")
        } else {
            None
        }
    }

    /// What a link can do now, as [`LinkStatus::state`] has it; `None`: there is none.
    pub fn link_state(&self, now: Instant, link: LinkId) -> Option<&'static str> {
        let link = self.neighbours.link(link)?;
        Some(self.what_hinders(now, link).unwrap_or("up"))
    }

    /// Static routes as given: pattern and next hop.
    pub fn routes(&self) -> &[(String, EndpointId)] {
        &self.settings.routes
    }

    /// The administrative endpoint of a node named in an event; null for a node known to nobody
    /// here by more than its number.
    pub fn node_name(&self, node: NodeId) -> EndpointId {
        if !node.is_named() {
            return EndpointId::ipn(node.0, 0);
        }
        let own = self.settings.node_ids.iter();
        let neighbours = self.neighbours.peers().all().flat_map(|peer| peer.names.iter().map(|name| &name.id));
        own.chain(neighbours).find(|id| id.node() == node).map(EndpointId::node_id).unwrap_or_default()
    }

    /// The contact plan in force.
    pub fn plan(&self) -> Option<&Arc<PlanIndex>> {
        self.plan.index()
    }

    /// Bundles held, their bytes, and the most bytes that may be.
    pub fn fill(&self) -> (u64, u64, u64) {
        (self.book.len() as u64, self.book.bytes(), self.settings.capacity_bytes)
    }

    /// How scarce memory is.
    pub fn pressure(&self) -> Pressure {
        self.memory.pressure()
    }

    /// The first `limit` held bundles by number, from behind `after` on, and why each is still here.
    pub fn bundles(&self, now: Instant, after: BundleHandle, limit: usize) -> Vec<BundleStatus> {
        // Those of a store that was read again are not in the order of their numbers.
        let mut first = BTreeMap::new();
        for held in self.book.all().filter(|held| held.number > after.0) {
            if first.len() < limit {
                first.insert(held.number, held.handle());
            } else if first.last_key_value().is_some_and(|(last, _)| held.number < *last) {
                first.pop_last();
                first.insert(held.number, held.handle());
            }
        }
        let row = |held: &Held| BundleStatus {
            handle: held.name(),
            id: held.bundle.identity(),
            destination: held.bundle.destination.clone(),
            payload: held.bundle.payload.len(),
            priority: held.bundle.priority,
            remaining_ms: held.remaining(now).as_millis() as u64,
            waits_for: self.waits_for(now, held),
        };
        first.into_values().filter_map(|handle| self.book.get(handle)).map(row).collect()
    }

    fn waits_for(&self, now: Instant, held: &Held) -> String {
        let meta = &held.bundle;
        let for_members = meta.is_for_group() && held.has(Reason::Whole) && !held.has(Reason::Route);
        if held.has(Reason::Deliver) || for_members {
            return match self.deliveries.is_open(held.handle()) {
                _ if !self.is_durable(held) => "the store".to_string(),
                true => format!("the answer of the application at {}", meta.destination),
                false => format!("an application at {}", meta.destination),
            };
        }
        if held.has(Reason::Fragment) {
            return "the other fragments".to_string();
        }
        if held.has(Reason::Whole) {
            return "the delivery of what it is part of".to_string();
        }
        if let Some(text) = self.waits_for_tunnel(now, held) {
            return text;
        }
        if let Some(text) = self.waits_for_custody(now, held) {
            return text;
        }
        if let Some(link) = self.queues.link_of(held) {
            return self.waits_for_link(now, link);
        }
        let sending = self.sends.of(held.handle()).next().map(|(_, sending)| sending.link);
        match sending {
            Some(link) if !held.has(Reason::Route) => format!("acknowledgment on link {}", self.link_name(link)),
            _ => match self.turned(held) {
                Some((peer, why)) => format!("{peer} {why}; will be tried again"),
                None if held.has(Reason::Route) && self.waits.is_unfit(held.handle()) => {
                    format!("a link towards {} that takes a bundle of its length", meta.destination.node_id())
                }
                None if held.has(Reason::Route) => match self.disabled_link_to(&meta.destination) {
                    Some(link) => format!("no route to {}: link {link} is disabled", meta.destination.node_id()),
                    None => format!("no route to {}", meta.destination.node_id()),
                },
                None => "the store".to_string(),
            },
        }
    }

    /// The first neighbour that counts as having refused a bundle, and why.
    fn turned(&self, held: &Held) -> Option<(EndpointId, Turned)> {
        let id = *self.tried(held).first()?;
        Some((self.neighbours.peers().get(id)?.endpoint(), self.waits.why(held.handle(), id)?))
    }

    /// A link an operator took out of use, to a neighbour or to the next hop of the route to a node.
    fn disabled_link_to(&self, destination: &EndpointId) -> Option<&str> {
        let peer = self.neighbours.of_node(self.next_hop(destination).unwrap_or_else(|| destination.node()))?;
        let links = peer.links.iter().filter_map(|link| self.neighbours.link(*link));
        links.filter(|link| !link.enabled).map(|link| link.name.as_str()).next()
    }

    fn waits_for_link(&self, now: Instant, link: LinkId) -> String {
        let Some(l) = self.neighbours.link(link) else { return "its link".to_string() };
        let peer = self.neighbours.peers().get(l.peer).map(farlink_book::Peer::endpoint).unwrap_or_default();
        let name = &l.name;
        match (self.what_hinders(now, l), l.next_contact(self.plan.placed(), now)) {
            (None, _) => format!("its turn on link {name} to {peer} ({} bundles queued)", self.queues.of(link).0),
            (Some("no session"), _) => format!("a session with {peer} on link {name}: it does not answer there"),
            (Some("disabled"), _) => format!("link {name} to {peer}, which is disabled"),
            (_, Some(window)) => format!("contact with {peer} starts in {}", format_duration(window.start.since(now))),
            (_, None) => format!("link {name} to {peer} is down"),
        }
    }
}
