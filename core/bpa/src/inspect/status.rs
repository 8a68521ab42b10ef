//! Operator requests: status, routes, links, plan.

use crate::agent::Agent;
use crate::app::{AdminInput, LinkStatus, Status};
use crate::context::Context;
use crate::io::{Output, Pressure};
use crate::neighbours::link::Link;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use farlink_base::{AgentSettings, DeleteReason, EndpointId, Instant, Limits, LinkId, NodeId, Sink};
use farlink_book::{Held, Why};
use farlink_routing::PlanIndex;

impl Agent {
    pub(crate) fn on_admin<S: Sink<Output>>(&mut self, cx: &mut Context<'_, S>, input: AdminInput) {
        match input {
            AdminInput::SetPlan(plan) => self.set_plan(cx, plan),
            AdminInput::AddRoute { pattern, next_hop } => {
                self.settings.routes.retain(|(p, _)| *p != pattern);
                self.settings.routes.push((pattern, next_hop));
                // A new route may change the choice for every queued bundle.
                self.let_queues_go();
            }
            AdminInput::RemoveRoute { pattern } => {
                self.settings.routes.retain(|(p, _)| *p != pattern);
                self.let_queues_go();
            }
            AdminInput::SetLink { link, enabled } => self.enable_link(cx, &link, enabled),
            // 9171-5.12-1, 9171-5.12-2, 5050-5.15-1, 5050-5.15-2
            AdminInput::Cancel { bundle } => {
                if let Some(handle) = self.book.by_number(bundle.0).map(Held::handle) {
                    self.depart(cx, handle, Why::Deleted(DeleteReason::Cancelled), None);
                }
            }
            AdminInput::LastRun { at, downtime_max, ran_ms } => {
                self.wall_clock.ran_before(cx.now, ran_ms);
                self.wall_clock.ran(cx.now, at, u64::try_from(downtime_max.as_millis()).unwrap_or(u64::MAX));
            }
            AdminInput::ConfirmClock => self.wall_clock.confirm(),
            AdminInput::Shutdown => {
                self.terminating = true;
                cx.out.push(Output::Shutdown);
            }
        }
    }

    /// A snapshot of the node's state for operators.
    pub fn status(&self, now: Instant) -> Status {
        Status {
            node_ids: self.settings.node_ids.clone(),
            bundles: self.book.len() as u64,
            bytes: self.book.bytes(),
            capacity: self.settings.capacity_bytes,
            strangers: self.bounds.fair_share.strange(),
            quotas: self.bounds.fair_share.quotas.status(),
            links: self.neighbours.links().map(|link| self.link_status(now, link)).collect(),
            registrations: self.deliveries.registered().cloned().collect(),
            contacts: self.plan().map_or(0, |plan| plan.plan().contacts.len() as u64),
        }
    }

    fn link_status(&self, now: Instant, link: &Link) -> LinkStatus {
        let hindered = self.what_hinders(now, link);
        LinkStatus {
            name: String::from(&*link.name),
            peer: self.neighbours.peers().get(link.peer).map(farlink_book::Peer::endpoint).unwrap_or_default(),
            up: hindered.is_none(),
            state: hindered.unwrap_or("up").to_string(),
            queued: self.outbound.queues.of(link.id).0,
            in_flight: link.in_flight,
        }
    }

    /// Reason why no bundle can leave over a link now; `None` if one can.
    pub(super) fn what_hinders(&self, now: Instant, link: &Link) -> Option<&'static str> {
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

    /// State of a link, as in [`LinkStatus::state`]; `None` if there is no such link.
    pub fn link_state(&self, now: Instant, link: LinkId) -> Option<&'static str> {
        let link = self.neighbours.link(link)?;
        Some(self.what_hinders(now, link).unwrap_or("up"))
    }

    /// Settings and bounds that the agent obeys now.
    pub fn plain_settings(&self) -> (&AgentSettings, &Limits) {
        (&self.settings.node, &self.settings.limits)
    }
    /// Static routes in the order in which they were added: pattern and next hop.
    pub fn routes(&self) -> &[(String, EndpointId)] {
        &self.settings.routes
    }

    /// Node ID of a node that an event names by number; null if the ID is not known here.
    pub fn node_name(&self, node: NodeId) -> EndpointId {
        // The number of an ipn node is its name; of other nodes only this node and its neighbours are known by name.
        if !node.is_named() {
            return EndpointId::ipn(node.0, 0);
        }
        let own = self.settings.node_ids.iter();
        let neighbours = self.neighbours.peers().all().flat_map(|peer| peer.names.iter().map(|name| &name.id));
        own.chain(neighbours).find(|id| id.node() == node).map(EndpointId::node_id).unwrap_or_default()
    }

    /// Contact plan of the node, if any.
    pub fn plan(&self) -> Option<&Arc<PlanIndex>> {
        self.plan.index()
    }

    /// Number of bundles held, their bytes, and the capacity in bytes.
    pub fn fill(&self) -> (u64, u64, u64) {
        (self.book.len() as u64, self.book.bytes(), self.settings.capacity_bytes)
    }

    /// Current scarcity of memory.
    pub fn pressure(&self) -> Pressure {
        self.bounds.memory.pressure()
    }
}
