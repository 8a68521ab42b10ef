//! What operators ask and change: status, stored bundles and why each waits, routes, links, plan.

use crate::agent::{Agent, Step};
use crate::app::{AdminInput, BundleStatus, LinkStatus, Status};
use crate::held::{Held, Place};
use crate::io::Output;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use farlink_base::{DeleteReason, Instant, Sink, format_duration};

impl Agent {
    pub(crate) fn on_admin<S: Sink<Output>>(&mut self, now: Instant, input: AdminInput, out: &mut S) {
        match input {
            AdminInput::SetPlan(plan) => self.set_plan(now, plan, out),
            AdminInput::AddRoute { pattern, next_hop } => {
                self.settings.routes.retain(|(p, _)| *p != pattern);
                self.settings.routes.push((pattern, next_hop));
                self.steps.push_back(Step::Reconsider);
            }
            AdminInput::RemoveRoute { pattern } => self.settings.routes.retain(|(p, _)| *p != pattern),
            AdminInput::SetLink { link, enabled } => {
                if let Some(l) = self.links.values_mut().find(|l| l.name == link) {
                    l.enabled = enabled;
                }
                self.tell_links(now, out);
            }
            AdminInput::Cancel { bundle } => self.delete(now, bundle, DeleteReason::Cancelled, out),
            AdminInput::Shutdown => {
                self.terminating = true;
                out.push(Output::Shutdown);
            }
        }
    }

    /// A snapshot for operators.
    pub fn status(&self, now: Instant) -> Status {
        let link = |l: &crate::link::Link| LinkStatus {
            name: l.name.clone(),
            peer: self.names.endpoint(l.peer),
            up: l.is_up(now),
            queued: l.queue.len() as u64,
            in_flight: l.in_flight,
        };
        Status {
            node_ids: self.settings.node_ids.clone(),
            bundles: self.bundles.len() as u64,
            bytes: self.kept_bytes,
            capacity: self.settings.capacity_bytes,
            links: self.links.values().map(|l| link(l)).collect(),
            registrations: self.registrations.values().map(|r| r.endpoint.clone()).collect(),
            contacts: self.plan.as_ref().map_or(0, |p| p.contacts.len() as u64),
        }
    }

    /// Static routes as given: pattern and next hop.
    pub fn routes(&self) -> &[(String, farlink_bundle::EndpointId)] {
        &self.settings.routes
    }

    /// The administrative endpoint of a node named in an event.
    pub fn node_name(&self, node: farlink_base::NodeId) -> farlink_bundle::EndpointId {
        self.names.endpoint(node)
    }

    /// The contact plan in force.
    pub fn plan(&self) -> Option<&alloc::sync::Arc<farlink_routing::ContactPlan>> {
        self.plan.as_ref()
    }

    /// The first `limit` held bundles and why each is still here.
    pub fn bundles(&self, now: Instant, limit: usize) -> Vec<BundleStatus> {
        let row = |held: &Held| BundleStatus {
            handle: held.view.bundle,
            id: held.bundle.id(),
            destination: held.bundle.primary.destination.clone(),
            payload: held.view.payload_size,
            priority: held.view.priority,
            remaining_ms: held.view.expires.since(now).as_millis() as u64,
            waits_for: self.waits_for(now, held),
        };
        self.bundles.values().take(limit).map(row).collect()
    }

    fn waits_for(&self, now: Instant, held: &Held) -> String {
        match &held.place {
            Place::New | Place::Cutting { .. } => "being dispatched".to_string(),
            Place::Waiting { .. } if !held.view.excluded.is_empty() => {
                format!("{} refused it; will be tried again", self.names.text(held.view.excluded[0]))
            }
            Place::Waiting { .. } => format!("no route to {}", self.names.text(held.view.destination)),
            Place::Queued { link, .. } | Place::Loading { link } => {
                let Some(l) = self.links.get(link) else { return "its link".to_string() };
                let peer = self.names.text(l.peer);
                if l.is_up(now) {
                    format!("its turn on link {} to {peer} ({} bundles queued)", l.name, l.queue.len())
                } else {
                    match l.transmit.iter().find(|w| w.start > now) {
                        Some(w) => format!("contact with {peer} starts in {}", format_duration(w.start.since(now))),
                        None => format!("link {} to {peer} is down", l.name),
                    }
                }
            }
            Place::InFlight { link, .. } => {
                let name = self.links.get(link).map_or("?", |l| l.name.as_str());
                format!("acknowledgment on link {name}")
            }
            Place::ForDelivery => format!("an application at {}", held.bundle.primary.destination),
            Place::Delivering { .. } => format!("the answer of the application at {}", held.bundle.primary.destination),
            Place::Fragment => "the other fragments".to_string(),
            Place::Leaving => "the store".to_string(),
        }
    }
}
