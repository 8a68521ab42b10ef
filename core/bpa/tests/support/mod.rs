//! A node of one agent in virtual time, with a store that answers on demand.
//!
//! Its edge has no wire format: bundles of "version 99" are made, fragmented and joined as values, so that the tests
//! hold for every version.
#![allow(dead_code, unused_imports, reason = "each test file uses its part of it")]

pub mod meeting;
mod net;
mod policies;
pub mod toy;
pub mod tunnels;

pub use net::Net;
pub use policies::{NoRouter, OnlyRoom, Rule, Script};
pub use toy::{Bundle, Toy, from_two, piece};

use farlink_base::layer::{SendId, Ticket};
use farlink_base::{
    AgentSettings, BundleHandle, BundleMeta, Clock, DataRate, DeleteReason, DtnTime, Duration, EndpointId, Event,
    Facts, HopState, Instant, LayerId, LinkId, LinkTerms, NodeId, Payload, Priority, Refusal, store,
};
use farlink_bpa::app::{AdminInput, AppInput, AppOutput, Delivery, DeliveryId, RegistrationId, RequestId, SendRequest};
use farlink_bpa::{Agent, Input, Limits, LinkSettings, OfferToken, Output, Reading, Settings};
use farlink_congestion::Control;
use farlink_routing::{Contact, ContactPlan, PlanIndex, PlanTime, Router};
use std::ops::Range;
use std::sync::Arc;

pub const NOW_UTC: DtnTime = DtnTime(800_000_000_000);
/// Largest book that is audited after every call.
const AUDIT_MAX: u64 = 300;

/// A transmission as a layer receives it.
#[derive(Clone, Debug)]
pub struct Sent {
    pub link: LinkId,
    pub id: SendId,
    pub bundle: Arc<BundleMeta>,
    pub hop: HopState,
    pub cut: Option<Range<u64>>,
}
impl Sent {
    /// Payload bytes of the transmission.
    pub fn len(&self) -> u64 {
        self.cut.as_ref().map_or(self.bundle.payload.len(), |range| range.end - range.start)
    }
    /// The bundle as it arrives at the neighbour.
    pub fn arrives(&self) -> Bundle {
        let meta = match &self.cut {
            Some(range) => piece(&self.bundle, range.clone()),
            None => (*self.bundle).clone(),
        };
        Bundle { meta, hop: self.hop.clone() }
    }
}

/// A node `ipn:1.0` with links to `ipn:2.0` (number 0) and `ipn:3.0` (number 1).
pub struct Node {
    pub agent: Agent,
    pub edge: Toy,
    pub now: Instant,
    /// Whether the store confirms each record at once.
    pub commit: bool,
    pub said: Vec<Output>,
}

/// A link to `ipn:{n + 2}.0`.
pub fn link(n: u32) -> LinkSettings {
    LinkSettings {
        link: LinkId(n),
        name: format!("to{}", n + 2),
        peer: EndpointId::ipn(u64::from(n) + 2, 0),
        rate: None,
        one_way_delay: Duration::ZERO,
        terms: LinkTerms::default(),
        wire_bytes_per_million: 1_000_000,
        sessions: false,
        largest: None,
    }
}

/// Settings with these bounds.
pub fn bounded(limits: Limits) -> Settings {
    Settings { limits, ..settings() }
}

/// Settings of a node with or without status reports.
pub fn reporting(status_reports: bool) -> Settings {
    let settings = settings();
    Settings { node: AgentSettings { status_reports, ..settings.node }, ..settings }
}

pub fn settings() -> Settings {
    Settings {
        node_ids: vec![EndpointId::ipn(1, 0)],
        links: vec![link(0), link(1)],
        routes: vec![("ipn:9.*".into(), EndpointId::ipn(3, 0))],
        limits: Limits::default(),
        node: AgentSettings { hop_limit: 10, ..AgentSettings::default() },
        capacity_bytes: 1 << 20,
        record_bytes: 0,
        durable: true,
        custody: None,
        rare: None,
        version: toy::VERSION,
        shard: 0,
        seed: 1,
    }
}

impl Node {
    pub fn new() -> Node {
        Node::with(settings(), None)
    }
    pub fn with(settings: Settings, plan: Option<ContactPlan>) -> Node {
        Node::of(settings, plan, NoRouter, Rule::default())
    }
    /// A node with this router.
    pub fn routed(router: impl Router + 'static) -> Node {
        Node::of(settings(), None, router, Rule::default())
    }
    /// A node whose links are ready.
    pub fn of(
        settings: Settings,
        plan: Option<ContactPlan>,
        router: impl Router + 'static,
        control: impl Control + 'static,
    ) -> Node {
        let mut node = Node::closed(settings, plan, router, control);
        node.tell(Input::Clock(clock_at(Instant::ZERO)));
        node.open();
        // The hellos of the start are dropped; tests look at later transmissions.
        for sent in node.take_sent() {
            node.confirm(sent.id);
        }
        node.said.clear();
        node
    }
    /// A node whose store is still being read.
    pub fn closed(
        settings: Settings,
        plan: Option<ContactPlan>,
        router: impl Router + 'static,
        control: impl Control + 'static,
    ) -> Node {
        let mut agent = Agent::new(settings, Box::new(router), Box::new(control));
        if let Some(plan) = plan {
            agent.preload_plan(Arc::new(PlanIndex::new(plan)));
        }
        Node { agent, edge: Toy, now: Instant::ZERO, commit: true, said: Vec::new() }
    }
    pub fn open(&mut self) {
        self.tell(Input::Store(store::Output::Opened { counter: 0, last_bundle: 0, secret: 0 }));
        let links: Vec<u32> = (0..self.agent.status(self.now).links.len() as u32).collect();
        for link in links {
            self.ready(link, true);
        }
    }
    /// Makes one call without follow-up work.
    pub fn once(&mut self, input: Input) {
        self.agent.handle(self.now, input, &mut self.edge, &mut self.said);
        if self.held() <= AUDIT_MAX {
            self.agent.audit();
        }
    }
    /// Passes one input, runs its follow-up work, and answers for the store.
    pub fn tell(&mut self, input: Input) {
        let before = self.said.len();
        self.once(input);
        self.settle();
        self.answer(before);
    }
    /// Runs all work that is due now.
    pub fn settle(&mut self) {
        let mut calls = 0;
        while self.agent.next_timeout().is_some_and(|at| at <= self.now) {
            self.once(Input::Wake);
            calls += 1;
            assert!(calls < 100_000, "the agent does not come to rest");
        }
    }
    /// Answers for the store to outputs since `before`.
    fn answer(&mut self, before: usize) {
        if !self.commit {
            return;
        }
        let answer = |o: &Output| match o {
            Output::Put { bundle, .. } => Some(store::Output::Stored { bundle: *bundle, payload: None }),
            Output::Store(store::Input::Delete { bundle, .. }) => Some(store::Output::Deleted { bundle: *bundle }),
            _ => None,
        };
        let answers: Vec<store::Output> = self.said[before..].iter().filter_map(answer).collect();
        for answer in answers {
            self.tell(Input::Store(answer));
        }
    }
    pub fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(next) = self.agent.next_timeout().filter(|t| *t <= end) {
            self.now = self.now.max(next);
            self.tell(Input::Wake);
        }
        self.now = end;
        self.tell(Input::Wake);
    }
    pub fn wait_ms(&mut self, ms: u64) {
        self.wait(Duration::from_millis(ms));
    }
    /// Confirms that the store has this bundle.
    pub fn stored(&mut self, bundle: u64) {
        self.tell(Input::Store(store::Output::Stored { bundle: BundleHandle(bundle), payload: None }));
    }
    pub fn store_refuses(&mut self, bundle: u64) {
        let bundle = BundleHandle(bundle);
        self.tell(Input::Store(store::Output::Refused { bundle, reason: Refusal::NoResources }));
    }
    pub fn send(&mut self, to: EndpointId, priority: Priority) {
        self.ask(request(to, priority));
    }
    pub fn send_bytes(&mut self, to: EndpointId, bytes: u64) {
        self.ask(SendRequest { payload: Payload::fill(3, bytes), ..request(to, Priority::Normal) });
    }
    pub fn ask(&mut self, bundle: SendRequest) {
        self.tell(Input::App(AppInput::Send { request: RequestId(7), bundle }));
    }
    pub fn receive(&mut self, ticket: u64, bundle: Bundle) {
        self.receive_over(0, ticket, bundle);
    }
    pub fn receive_over(&mut self, link: u32, ticket: u64, bundle: Bundle) {
        let (bundle, hop) = bundle.parts();
        self.tell(Input::Arrived { link: LinkId(link), token: token(ticket), bundle, hop });
    }
    pub fn begins(&mut self, link: u32, ticket: u64, bundle: Bundle) {
        let (bundle, hop) = bundle.parts();
        self.tell(Input::Begun { link: LinkId(link), token: token(ticket), bundle, hop });
    }
    pub fn register(&mut self, service: u32) {
        let endpoint = EndpointId::ipn(1, service);
        self.tell(Input::App(AppInput::Register { registration: RegistrationId(1), endpoint, window: 1 }));
    }
    pub fn done(&mut self, delivery: DeliveryId, taken: bool) {
        self.tell(Input::App(AppInput::DeliveryDone { registration: RegistrationId(1), delivery, taken }));
    }
    pub fn confirm(&mut self, id: SendId) {
        self.tell(Input::Sent { id });
    }
    pub fn fail(&mut self, id: SendId, refused: Option<Refusal>) {
        self.tell(Input::SendFailed { id, refused });
    }
    pub fn unreadable(&mut self, what: Reading, for_good: bool) {
        self.tell(Input::Unreadable { what, for_good });
    }
    pub fn ready(&mut self, link: u32, ready: bool) {
        self.tell(Input::Ready { link: LinkId(link), ready });
    }
    pub fn carrier(&mut self, link: u32, up: bool) {
        self.tell(Input::Carrier { link: LinkId(link), up });
    }
    pub fn admin(&mut self, input: AdminInput) {
        self.tell(Input::Admin(input));
    }
    /// Connects an unconfigured peer over dynamic link `n`; returns its link number.
    pub fn comes(&mut self, n: u32, claimed: EndpointId) -> u32 {
        let link = LinkId(LinkId::DYNAMIC | n);
        self.tell(Input::PeerUp { link, claimed: Some(claimed), node: None, proven: None });
        self.ready(link.0, true);
        link.0
    }
    pub fn goes(&mut self, link: u32) {
        self.tell(Input::PeerDown { link: LinkId(link) });
    }
    pub fn add_link(&mut self, settings: &LinkSettings) {
        assert!(self.agent.add_link(self.now, settings, &mut self.edge, &mut self.said));
        self.ready(settings.link.0, true);
    }
    pub fn remove_link(&mut self, link: u32) {
        self.agent.remove_link(self.now, LinkId(link), &mut self.edge, &mut self.said);
        self.settle();
    }

    /// All transmissions so far.
    pub fn sent(&self) -> Vec<Sent> {
        let pick = |o: &Output| match o {
            Output::Send { link, id, bundle, hop, cut, .. } => {
                Some(Sent { link: *link, id: *id, bundle: bundle.clone(), hop: (**hop).clone(), cut: cut.clone() })
            }
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    /// Transmissions since the last call; drops all other outputs.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        let sent = self.sent();
        self.said.clear();
        sent
    }
    /// Sequence numbers of the bundles that left over a link.
    pub fn sent_over(&self, link: u32) -> Vec<u64> {
        self.sent().iter().filter(|s| s.link == LinkId(link)).map(|s| s.bundle.sequence).collect()
    }
    pub fn verdicts(&self) -> Vec<(u64, Result<(), Refusal>)> {
        let pick = |o: &Output| match o {
            Output::Verdict { token, result } => Some((token.ticket.0, *result)),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    pub fn deliveries(&self) -> Vec<(DeliveryId, Delivery)> {
        let pick = |o: &Output| match o {
            Output::App(AppOutput::Deliver { delivery, bundle, .. }) => Some((*delivery, bundle.clone())),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    pub fn results(&self) -> Vec<bool> {
        let pick = |o: &Output| match o {
            Output::App(AppOutput::SendResult { result, .. }) => Some(result.is_ok()),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    pub fn events(&self) -> Vec<Event> {
        let pick = |o: &Output| if let Output::Event(event) = o { Some(*event) } else { None };
        self.said.iter().filter_map(pick).collect()
    }
    /// Reasons of deletions, in order.
    pub fn deleted(&self) -> Vec<DeleteReason> {
        let pick = |e: Event| if let Event::Deleted { reason, .. } = e { Some(reason) } else { None };
        self.events().into_iter().filter_map(pick).collect()
    }
    /// Deletions requested from the store; whether the bundle is remembered.
    pub fn forgotten(&self) -> Vec<(u64, bool)> {
        let pick = |o: &Output| match o {
            Output::Store(store::Input::Delete { bundle, remember }) => Some((bundle.0, remember.is_some())),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    /// Numbers of the bundles handed to the store.
    pub fn put(&self) -> Vec<u64> {
        let pick = |o: &Output| if let Output::Put { bundle, .. } = o { Some(bundle.0) } else { None };
        self.said.iter().filter_map(pick).collect()
    }
    pub fn held(&self) -> u64 {
        self.agent.status(self.now).bundles
    }
    /// Reason why the oldest bundle is still held.
    pub fn waits_for(&self) -> String {
        self.agent.bundles(self.now, BundleHandle(0), 1)[0].waits_for.clone()
    }
    /// Reason why the bundle with this number is still held.
    pub fn why(&self, bundle: u64) -> String {
        let rows = self.agent.bundles(self.now, BundleHandle(0), usize::MAX);
        rows.into_iter().find(|row| row.handle.0 == bundle).map(|row| row.waits_for).unwrap_or_default()
    }
}

pub fn clock_at(now: Instant) -> Clock {
    Clock { at: now, utc: Some(NOW_UTC.saturating_add_ms(now.0 / 1_000_000)), error_ms: 0 }
}

pub fn token(ticket: u64) -> OfferToken {
    OfferToken { layer: LayerId(0), ticket: Ticket(ticket) }
}

pub fn request(to: EndpointId, priority: Priority) -> SendRequest {
    SendRequest {
        source: EndpointId::ipn(1, 5),
        destination: to,
        report_to: EndpointId::Null,
        facts: Facts(0),
        lifetime_ms: 60_000,
        priority,
        hop_limit: 0,
        reliable: true,
        payload: Payload::fill(1, 1000),
    }
}

/// Contacts from 1 to `peer` and back.
pub fn contacts(peer: u64, start_s: u64, end_s: u64, rate: u64) -> Vec<Contact> {
    let contact = |from: u64, to: u64| Contact {
        from: NodeId::ipn(from),
        to: NodeId::ipn(to),
        link: None,
        start: PlanTime::from_secs(start_s),
        end: PlanTime::from_secs(end_s),
        rate: DataRate(rate),
        one_way_delay: Duration::from_millis(600),
        confidence: 1.0,
    };
    vec![contact(1, peer), contact(peer, 1)]
}

/// One contact with `ipn:2.0`.
pub fn plan(start_s: u64, end_s: u64, rate: u64) -> ContactPlan {
    ContactPlan { epoch: Some(NOW_UTC), contacts: contacts(2, start_s, end_s, rate) }
}
