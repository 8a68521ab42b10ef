//! The agent: one node's bundles, from arrival to departure. This file holds its state and the way
//! in; each procedure of RFC 9171 5 has a file of its own:
//!
//! | file | procedure |
//! |---|---|
//! | `receive.rs` | 5.2 transmission requests, 5.6 reception, admission, keeping |
//! | `dispatch.rs` | 5.3 dispatching, routing, 5.4 contraindication |
//! | `forward.rs` | 5.4 forwarding, contacts, pace, priorities, 5.8 fragmentation |
//! | `deliver.rs` | 5.7 local delivery, registrations, 5.9 reassembly |
//! | `lifetime.rs` | 5.5 expiration, 5.10 deletion, clocks, residence |
//! | `report.rs` | 5.1 status reports, one-hop signals of policies |
//! | `contacts.rs` | the contact plan on this process's clock |

use crate::app::{AppInput, DeliveryId, RegistrationId, SendRequest};
use crate::contacts::LocalContact;
use crate::deliver::{Endpoint, Registration};
use crate::held::Held;
use crate::io::{Input, Output};
use crate::link::Link;
use crate::names::Names;
use crate::remembered::Deliveries;
use crate::settings::Settings;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::layer::SendId;
use farlink_base::{
    BundleHandle, BundleKey, Clock, Event, EventClass, Instant, LinkId, Map, NodeId, Sink, TimerQueue, map,
};
use farlink_bundle::{EndpointId, Reassembler, ReassemblyLimits};
use farlink_congestion::Control;
use farlink_routing::{ContactPlan, Router, RouterOutput};

/// Requests of applications kept while the store is opening.
const DEFERRED_MAX: usize = 100_000;

/// Things to do when a deadline passes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Timer {
    /// A lifetime ends.
    Expire(BundleHandle),
    /// A contact begins or ends somewhere.
    Contacts,
    /// A queued bundle's contact ended, or a waiting bundle is to be asked about again.
    Route(BundleHandle),
    /// A link is no longer busy.
    Pace(LinkId),
}

/// Steps that follow from an input; drained before `handle` returns, never by recursion.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Decide what happens with a bundle.
    Dispatch(BundleHandle),
    /// Move bundles from a link's queue to its layer.
    Pump(LinkId),
    /// Hand bundles to the applications of an endpoint.
    Deliver(EndpointId),
    /// Ask again about every bundle that waits.
    Reconsider,
}

/// A transmission under way.
pub(crate) struct Sending {
    pub bundle: BundleHandle,
    pub link: LinkId,
    pub next_hop: NodeId,
    pub copy: Option<u32>,
}

/// Identities given to bundles created here.
#[derive(Default)]
pub(crate) struct Creation {
    /// Time of the last one, DTN ms.
    pub last_ms: u64,
    /// Its sequence number.
    pub sequence: u64,
    /// Next number of a node without clock.
    pub counter: u64,
    /// Numbers below this are durably reserved.
    pub reserved: u64,
    /// Requests waiting for a reservation.
    pub waiting: VecDeque<(crate::app::RequestId, SendRequest)>,
}

/// The bundle protocol agent of one node.
pub struct Agent {
    pub(crate) settings: Settings,
    pub(crate) names: Names,
    pub(crate) local: Vec<NodeId>,
    pub(crate) clock: Clock,
    pub(crate) open: bool,
    pub(crate) terminating: bool,
    pub(crate) deferred: VecDeque<AppInput>,
    pub(crate) bundles: BTreeMap<BundleHandle, Held>,
    pub(crate) by_fingerprint: Map<u128, BundleHandle>,
    pub(crate) delivered: Deliveries,
    pub(crate) kept_bytes: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) next_bundle: u64,
    pub(crate) next_send: u64,
    pub(crate) next_delivery: u64,
    pub(crate) creation: Creation,
    /// Boxed: a map node holds room for eleven values, and most nodes have few links.
    pub(crate) links: BTreeMap<LinkId, Box<Link>>,
    pub(crate) waiting: BTreeSet<BundleHandle>,
    pub(crate) sends: Map<SendId, Sending>,
    pub(crate) endpoints: BTreeMap<EndpointId, Endpoint>,
    pub(crate) registrations: BTreeMap<RegistrationId, Registration>,
    pub(crate) deliveries: Map<DeliveryId, (RegistrationId, BundleHandle)>,
    pub(crate) releasing: Map<BundleHandle, RegistrationId>,
    pub(crate) reassembler: Reassembler<BundleHandle>,
    pub(crate) plan: Option<Arc<ContactPlan>>,
    pub(crate) plan_epoch: Option<Instant>,
    pub(crate) local_contacts: Vec<LocalContact>,
    pub(crate) timers: TimerQueue<Timer>,
    pub(crate) steps: VecDeque<Step>,
    pub(crate) router: Box<dyn Router>,
    pub(crate) router_said: Vec<RouterOutput>,
    pub(crate) control: Box<dyn Control>,
}

impl Agent {
    /// An agent with its policies. It takes bundles once the store has said `Opened`.
    pub fn new(settings: Settings, router: Box<dyn Router>, control: Box<dyn Control>) -> Self {
        let seed = settings.seed;
        let mut names = Names::new(seed);
        let local = settings.node_ids.iter().map(|id| names.node(id)).collect();
        let links = settings
            .links
            .iter()
            .map(|link| {
                let peer = names.node(&link.peer);
                (link.link, Box::new(Link::new(link, peer)))
            })
            .collect();
        let limits = settings.limits;
        Agent {
            names,
            local,
            clock: Clock::UNTRUSTED,
            open: false,
            terminating: false,
            deferred: VecDeque::new(),
            bundles: BTreeMap::new(),
            by_fingerprint: map(seed ^ 1),
            delivered: Deliveries::new(limits.remembered, seed ^ 2),
            kept_bytes: 0,
            resident_bytes: 0,
            next_bundle: 1,
            next_send: 0,
            next_delivery: 0,
            creation: Creation::default(),
            links,
            waiting: BTreeSet::new(),
            sends: map(seed ^ 3),
            endpoints: BTreeMap::new(),
            registrations: BTreeMap::new(),
            deliveries: map(seed ^ 4),
            releasing: map(seed ^ 5),
            reassembler: Reassembler::new(ReassemblyLimits {
                bundles: limits.fragments,
                fragments: limits.fragments,
                bytes: limits.memory_bytes,
            }),
            plan: None,
            plan_epoch: None,
            local_contacts: Vec::new(),
            timers: TimerQueue::new(),
            steps: VecDeque::new(),
            router,
            router_said: Vec::new(),
            control,
            settings,
        }
    }

    /// When to call with [`Input::Wake`] at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Takes one input at `now`; pushes what follows from it.
    pub fn handle<S: Sink<Output>>(&mut self, now: Instant, input: Input, out: &mut S) {
        self.take(now, input, out);
        self.fire_timers(now, out);
        self.drain(now, out);
    }

    fn take<S: Sink<Output>>(&mut self, now: Instant, input: Input, out: &mut S) {
        match input {
            Input::Wake => {}
            Input::Clock(clock) => self.on_clock(now, clock, out),
            Input::Received { link, token, bundle, size } => self.on_received(now, link, token, bundle, size, out),
            Input::Malformed { link, token, error } => self.on_malformed(link, token, error, out),
            Input::Carrier { link, up } => self.on_carrier(now, link, up, out),
            Input::Ready { link, ready } => {
                if let Some(l) = self.links.get_mut(&link) {
                    l.ready = ready;
                    if ready {
                        self.steps.push_back(Step::Pump(link));
                    }
                }
            }
            Input::Sent { id } => self.on_sent(now, id, out),
            Input::SendFailed { id, refused } => self.on_send_failed(now, id, refused, out),
            Input::PeerUp { link, node_id, node } => self.on_peer_up(now, link, node_id, node, out),
            Input::PeerDown { link } => self.on_peer_down(now, link, out),
            Input::Store(output) => self.on_store(now, output, out),
            Input::App(input) if !self.open => {
                if self.deferred.len() < DEFERRED_MAX {
                    self.deferred.push_back(input);
                }
            }
            Input::App(input) => self.on_app(now, input, out),
            Input::Admin(input) => self.on_admin(now, input, out),
        }
    }

    fn fire_timers<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        while let Some((_, timer)) = self.timers.pop_due(now) {
            match timer {
                Timer::Expire(bundle) => self.on_lifetime_end(now, bundle, out),
                Timer::Contacts => self.on_contact_edge(now, out),
                Timer::Route(bundle) => self.on_route_deadline(now, bundle, out),
                Timer::Pace(link) => {
                    if let Some(l) = self.links.get_mut(&link) {
                        l.pace_armed = false;
                        self.steps.push_back(Step::Pump(link));
                    }
                }
            }
        }
    }

    fn drain<S: Sink<Output>>(&mut self, now: Instant, out: &mut S) {
        loop {
            while let Some(step) = self.steps.pop_front() {
                match step {
                    Step::Dispatch(bundle) => self.dispatch(now, bundle, out),
                    Step::Pump(link) => self.pump(now, link, out),
                    Step::Deliver(endpoint) => self.pump_deliveries(now, &endpoint, out),
                    Step::Reconsider => {
                        let waiting: Vec<BundleHandle> = self.waiting.iter().copied().collect();
                        for bundle in waiting {
                            self.dispatch(now, bundle, out);
                        }
                    }
                }
            }
            if self.router_said.is_empty() {
                return;
            }
            for said in core::mem::take(&mut self.router_said) {
                self.on_router_output(now, said, out);
            }
        }
    }

    pub(crate) fn is_local(&self, node: NodeId) -> bool {
        self.local.contains(&node)
    }

    /// The node ID this node speaks as.
    pub(crate) fn node_id(&self) -> EndpointId {
        self.settings.node_ids.first().cloned().unwrap_or(EndpointId::Null)
    }

    pub(crate) fn event<S: Sink<Output>>(&self, out: &mut S, event: Event) {
        if out.wants(event.class()) {
            out.push(Output::Event(event));
        }
    }

    /// Names a bundle to whoever follows events.
    pub(crate) fn event_seen<S: Sink<Output>>(&mut self, bundle: BundleHandle, out: &mut S) {
        if !out.wants(EventClass::Bundle) {
            return;
        }
        let Some(held) = self.bundles.get(&bundle) else { return };
        let primary = &held.bundle.primary;
        let event = Event::Seen {
            bundle,
            key: bundle_key(&mut self.names, &held.bundle),
            destination: held.view.destination,
            destination_service: primary.destination.service_number(),
            payload: held.view.payload_size,
            size: held.view.size,
            priority: held.view.priority,
            lifetime_ms: primary.lifetime_ms,
        };
        out.push(Output::Event(event));
    }
}

/// The identity of a bundle in numbers.
pub(crate) fn bundle_key(names: &mut Names, bundle: &farlink_bundle::Bundle) -> BundleKey {
    let primary = &bundle.primary;
    BundleKey {
        source: names.node(&primary.source),
        service: primary.source.service_number(),
        time: primary.creation.time.0,
        sequence: primary.creation.sequence,
        fragment: primary.fragment.map(|f| (f.offset, bundle.payload.len())),
    }
}
