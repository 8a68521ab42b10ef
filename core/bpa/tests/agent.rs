//! The agent's procedures, one test each, in virtual time, with a store that answers when told.

use farlink_base::layer::{SendId, Ticket};
use farlink_base::{
    Accel, BundleHandle, Clock, DataRate, DeleteReason, DtnTime, Duration, Event, Instant, LayerId, LinkId, NodeId,
    Payload, Priority, Proposal, Refusal, store,
};
use farlink_bpa::app::{AdminInput, AppInput, AppOutput, Delivery, DeliveryId, RegistrationId, RequestId, SendRequest};
use farlink_bpa::{Agent, Input, Limits, LinkSettings, OfferToken, Output, Settings};
use farlink_bundle::{
    AdministrativeRecord, BlockData, BlockFlags, Bundle, BundleFlags, CrcType, CreationTimestamp, EndpointId,
    ExtensionBlock, fragment,
};
use farlink_congestion::Control;
use farlink_routing::{Contact, ContactPlan, PlanTime, Question, Router};
use std::sync::Arc;

struct NoRouter;
impl Router for NoRouter {
    fn name(&self) -> &'static str {
        "direct"
    }
    fn propose(&mut self, _: Instant, _: Question<'_>, _: &mut Vec<Proposal>) {}
}
struct Keep;
impl Control for Keep {
    fn name(&self) -> &'static str {
        "none"
    }
}

const NOW_UTC: DtnTime = DtnTime(800_000_000_000);

/// A node `ipn:1.0` with links to `ipn:2.0` (number 0) and `ipn:3.0` (number 1).
struct Node {
    agent: Agent,
    now: Instant,
    /// Whether the store says `Stored` by itself.
    commit: bool,
    said: Vec<Output>,
}

fn settings() -> Settings {
    let link = |n: u32| LinkSettings {
        link: LinkId(n),
        name: format!("to{}", n + 2),
        peer: EndpointId::ipn(u64::from(n) + 2, 0),
        rate: None,
        one_way_delay: Duration::ZERO,
        wire_bytes_per_million: 1_000_000,
    };
    Settings {
        node_ids: vec![EndpointId::ipn(1, 0)],
        links: vec![link(0), link(1)],
        routes: vec![("ipn:9.*".into(), EndpointId::ipn(3, 0))],
        limits: Limits::default(),
        capacity_bytes: 1 << 20,
        crc: CrcType::Crc32c,
        status_reports: false,
        previous_node_block: true,
        hop_limit: 10,
        seed: 1,
        accel: Accel::default(),
    }
}

impl Node {
    fn new() -> Node {
        Node::with(settings(), None)
    }
    fn with(settings: Settings, plan: Option<ContactPlan>) -> Node {
        let mut agent = Agent::new(settings, Box::new(NoRouter), Box::new(Keep));
        if let Some(plan) = plan {
            agent.preload_plan(Arc::new(plan));
        }
        let mut node = Node { agent, now: Instant::ZERO, commit: true, said: Vec::new() };
        node.tell(Input::Clock(Clock { at: Instant::ZERO, utc: Some(NOW_UTC), error_ms: 0 }));
        node.tell(Input::Store(store::Output::Opened { counter: 0, last_bundle: 0 }));
        for link in [0, 1] {
            node.tell(Input::Ready { link: LinkId(link), ready: true });
        }
        node.said.clear();
        node
    }
    fn tell(&mut self, input: Input) {
        let before = self.said.len();
        self.agent.handle(self.now, input, &mut self.said);
        let answers: Vec<store::Output> = self.said[before..]
            .iter()
            .filter_map(|o| match o {
                Output::Put { bundle, .. } if self.commit => {
                    Some(store::Output::Stored { bundle: *bundle, payload: None })
                }
                Output::Store(store::Input::Delete { bundle, .. }) if self.commit => {
                    Some(store::Output::Deleted { bundle: *bundle })
                }
                _ => None,
            })
            .collect();
        for answer in answers {
            self.tell(Input::Store(answer));
        }
    }
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(next) = self.agent.next_timeout().filter(|t| *t <= end) {
            self.now = self.now.max(next);
            self.tell(Input::Wake);
        }
        self.now = end;
        self.tell(Input::Wake);
    }
    fn send(&mut self, to: EndpointId, priority: Priority) {
        self.tell(Input::App(AppInput::Send { request: RequestId(7), bundle: request(to, priority) }));
    }
    fn receive(&mut self, ticket: u64, bundle: Bundle) {
        let size = bundle.encoded_len();
        let token = Some(token(ticket));
        self.tell(Input::Received { link: LinkId(0), token, bundle: Box::new(bundle), size });
    }
    fn register(&mut self, service: u32) {
        let endpoint = EndpointId::ipn(1, service);
        self.tell(Input::App(AppInput::Register { registration: RegistrationId(1), endpoint, window: 1 }));
    }
    fn sent(&self) -> Vec<(LinkId, SendId, Bundle)> {
        let pick = |o: &Output| match o {
            Output::Send { link, id, bundle, .. } => Some((*link, *id, (**bundle).clone())),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    fn verdicts(&self) -> Vec<(u64, Result<(), Refusal>)> {
        let pick = |o: &Output| match o {
            Output::Verdict { token, result } => Some((token.ticket.0, *result)),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    fn deliveries(&self) -> Vec<(DeliveryId, Delivery)> {
        let pick = |o: &Output| match o {
            Output::App(AppOutput::Deliver { delivery, bundle, .. }) => Some((*delivery, bundle.clone())),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    fn results(&self) -> Vec<bool> {
        let pick = |o: &Output| match o {
            Output::App(AppOutput::SendResult { result, .. }) => Some(result.is_ok()),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    fn deleted(&self) -> Vec<DeleteReason> {
        let pick = |o: &Output| match o {
            Output::Event(Event::Deleted { reason, .. }) => Some(*reason),
            _ => None,
        };
        self.said.iter().filter_map(pick).collect()
    }
    fn held(&self) -> u64 {
        self.agent.status(self.now).bundles
    }
}

fn token(ticket: u64) -> OfferToken {
    OfferToken { layer: LayerId(0), ticket: Ticket(ticket) }
}

fn request(to: EndpointId, priority: Priority) -> SendRequest {
    SendRequest {
        source: EndpointId::ipn(1, 5),
        destination: to,
        report_to: EndpointId::Null,
        flags: 0,
        lifetime_ms: 60_000,
        priority,
        hop_limit: 0,
        reliable: true,
        payload: Payload::fill(1, 1000),
    }
}

fn from_two(sequence: u64, to: EndpointId) -> Bundle {
    let creation = CreationTimestamp { time: NOW_UTC, sequence };
    Bundle::new(EndpointId::ipn(2, 5), to, creation).lifetime_ms(60_000).payload(Payload::fill(2, 1000)).build()
}

#[test]
fn an_application_is_answered_only_after_the_commit_but_forwarding_overtakes_it() {
    let mut node = Node::new();
    node.commit = false;
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent().len(), 1, "forwarding does not wait for the disk");
    assert!(node.results().is_empty(), "the application waits for it");
    node.tell(Input::Store(store::Output::Stored { bundle: BundleHandle(1), payload: None }));
    assert_eq!(node.results(), [true]);
}

#[test]
fn a_confirmed_bundle_leaves_the_store_and_a_verdict_still_owed_is_given() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(4, from_two(1, EndpointId::ipn(3, 1)));
    let (link, id, _) = node.sent()[0].clone();
    assert_eq!(link, LinkId(1));
    node.tell(Input::Sent { id });
    assert!(node.said.iter().any(|o| matches!(o, Output::Store(store::Input::Delete { .. }))));
    assert!(node.verdicts().is_empty());
    node.tell(Input::Store(store::Output::Stored { bundle: BundleHandle(1), payload: None }));
    assert_eq!(node.verdicts(), [(4, Ok(()))]);
    assert_eq!(node.held(), 0);
}

#[test]
fn a_full_disk_is_told_to_the_neighbour_and_nothing_is_kept() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(4, from_two(1, EndpointId::ipn(1, 1)));
    node.tell(Input::Store(store::Output::Refused { bundle: BundleHandle(1), reason: Refusal::NoResources }));
    assert_eq!(node.verdicts(), [(4, Err(Refusal::NoResources))]);
    assert_eq!(node.held(), 0);
}

#[test]
fn a_duplicate_is_acknowledged_no_sooner_than_the_first_is_kept() {
    let mut node = Node::new();
    node.commit = false;
    node.receive(1, from_two(1, EndpointId::ipn(1, 1)));
    node.receive(2, from_two(1, EndpointId::ipn(1, 1)));
    assert!(node.verdicts().is_empty());
    node.tell(Input::Store(store::Output::Stored { bundle: BundleHandle(1), payload: None }));
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Ok(()))]);
    node.receive(3, from_two(1, EndpointId::ipn(1, 1)));
    assert_eq!(node.verdicts().last(), Some(&(3, Ok(()))));
    assert_eq!(node.held(), 1);
}

#[test]
fn delivery_is_one_at_a_time_and_the_next_waits_for_the_commit_of_the_last() {
    let mut node = Node::new();
    node.register(1);
    node.commit = false;
    for n in 1..=2 {
        node.receive(n, from_two(n, EndpointId::ipn(1, 1)));
        assert_eq!(node.deliveries().len() as u64, n - 1, "a crash now would deliver it again, unmarked");
        node.tell(Input::Store(store::Output::Stored { bundle: BundleHandle(n), payload: None }));
    }
    assert_eq!(node.deliveries().len(), 1);
    let (delivery, bundle) = node.deliveries()[0].clone();
    assert!(!bundle.redelivered);
    node.tell(Input::App(AppInput::DeliveryDone { registration: RegistrationId(1), delivery, taken: true }));
    assert!(node.said.iter().any(|o| matches!(o, Output::Store(store::Input::Delete { remember: Some(_), .. }))));
    assert_eq!(node.deliveries().len(), 1, "a crash now repeats one delivery, not two");
    node.tell(Input::Store(store::Output::Deleted { bundle: BundleHandle(1) }));
    assert_eq!(node.deliveries().len(), 2);
    // The neighbour that missed the acknowledgment sends it again: acknowledged, not delivered.
    node.receive(9, from_two(1, EndpointId::ipn(1, 1)));
    assert_eq!(node.verdicts().last(), Some(&(9, Ok(()))));
    assert_eq!(node.deliveries().len(), 2);
}

#[test]
fn an_unanswered_delivery_returns_marked_when_its_application_comes_back() {
    let mut node = Node::new();
    node.receive(1, from_two(1, EndpointId::ipn(1, 1)));
    assert!(node.agent.bundles(node.now, 9)[0].waits_for.contains("an application at ipn:1.1"));
    node.register(1);
    node.tell(Input::App(AppInput::Unregister { registration: RegistrationId(1) }));
    node.register(1);
    let redelivered: Vec<bool> = node.deliveries().iter().map(|(_, d)| d.redelivered).collect();
    assert_eq!(redelivered, [false, true]);
}

#[test]
fn a_bundle_expires_on_the_monotonic_clock_and_a_clock_step_expires_nothing() {
    let mut node = Node::new();
    node.receive(1, from_two(1, EndpointId::ipn(1, 1)));
    let year_ahead = DtnTime(NOW_UTC.0 + 31_536_000_000);
    node.tell(Input::Clock(Clock { at: node.now, utc: Some(year_ahead), error_ms: 0 }));
    assert!(node.said.iter().any(|o| matches!(o, Output::Event(Event::ClockStepped { step_ms: 31_536_000_000 }))));
    node.wait(Duration::from_secs(59));
    assert_eq!(node.held(), 1);
    node.wait(Duration::from_secs(2));
    assert_eq!((node.held(), node.deleted()), (0, vec![DeleteReason::Expired]));
}

#[test]
fn an_expired_or_future_bundle_is_judged_by_clock_and_age() {
    let mut node = Node::new();
    let made = |time: u64, age: Option<u64>| {
        let creation = CreationTimestamp { time: DtnTime(time), sequence: time };
        let mut b = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(1, 1), creation).lifetime_ms(1000);
        if let Some(age) = age {
            b = b.block(BlockData::Age(age));
        }
        b.payload(Payload::fill(0, 1)).build()
    };
    node.receive(1, made(NOW_UTC.0 - 2000, None));
    node.receive(2, made(NOW_UTC.0 + 999_999_999, None));
    node.receive(3, made(0, Some(1500)));
    node.receive(4, made(0, Some(500)));
    let expired = Err(Refusal::Expired);
    let mut verdicts = node.verdicts();
    verdicts.sort_by_key(|(ticket, _)| *ticket);
    assert_eq!(verdicts, [(1, expired), (2, Ok(())), (3, expired), (4, Ok(()))]);
}

fn plan(start_s: u64, end_s: u64, rate: u64) -> ContactPlan {
    let contact = |from: u64, to: u64| Contact {
        from: NodeId::ipn(from),
        to: NodeId::ipn(to),
        link: None,
        start: PlanTime(start_s * 1_000_000_000),
        end: PlanTime(end_s * 1_000_000_000),
        rate: DataRate(rate),
        one_way_delay: Duration::from_millis(600),
        confidence: 1.0,
    };
    ContactPlan { epoch: Some(NOW_UTC), contacts: vec![contact(1, 2), contact(2, 1)] }
}

#[test]
fn a_planned_link_carries_bundles_only_in_its_contact_and_at_its_rate() {
    let mut node = Node::with(settings(), Some(plan(10, 20, 80_000)));
    for _ in 0..3 {
        node.send(EndpointId::ipn(2, 1), Priority::Normal);
    }
    assert!(node.sent().is_empty());
    assert_eq!(node.agent.bundles(node.now, 1)[0].waits_for, "contact with ipn:2.0 starts in 10 s");
    node.wait(Duration::from_millis(10_001));
    assert_eq!(node.sent().len(), 1, "the others wait for their turn at 80 kbit/s");
    node.wait(Duration::from_millis(300));
    assert_eq!(node.sent().len(), 3);
    node.wait(Duration::from_secs(10));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert_eq!(node.sent().len(), 3, "the contact is over");
}

#[test]
fn urgent_bundles_overtake_and_what_is_left_of_a_contact_is_filled_with_a_fragment() {
    let mut node = Node::with(settings(), Some(plan(0, 1, 80_000)));
    node.tell(Input::Ready { link: LinkId(0), ready: false });
    node.tell(Input::Admin(AdminInput::AddRoute { pattern: "*".into(), next_hop: EndpointId::ipn(2, 0) }));
    let mut big = request(EndpointId::ipn(2, 1), Priority::Bulk);
    big.payload = Payload::fill(3, 50_000);
    node.tell(Input::App(AppInput::Send { request: RequestId(1), bundle: big }));
    node.send(EndpointId::ipn(2, 1), Priority::Expedited);
    node.tell(Input::Ready { link: LinkId(0), ready: true });
    node.wait(Duration::from_millis(900));
    let sent = node.sent();
    assert_eq!(sent[0].2.payload.len(), 1000, "the urgent one first");
    // 80 kbit/s for 1 s are 10,000 bytes: the rest of them goes to a fragment of the big one.
    assert!(sent[1].2.primary.fragment.is_some() && sent[1].2.payload.len() > 7000, "{:?}", sent[1].2.payload.len());
    assert!(sent.iter().map(|s| s.2.encoded_len()).sum::<u64>() <= 10_000);
}

#[test]
fn a_refusing_neighbour_is_tried_again_later_and_a_lost_session_at_once() {
    let mut node = Node::new();
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    let id = node.sent()[0].1;
    node.tell(Input::SendFailed { id, refused: None });
    assert_eq!(node.sent().len(), 2);
    let id = node.sent()[1].1;
    node.tell(Input::SendFailed { id, refused: Some(Refusal::NoResources) });
    assert_eq!(node.sent().len(), 2);
    assert!(node.agent.bundles(node.now, 1)[0].waits_for.contains("ipn:2.0 refused it"));
    node.wait(Duration::from_secs(5));
    assert_eq!(node.sent().len(), 3);
    // "Already received" is as good as sent.
    let id = node.sent()[2].1;
    node.tell(Input::SendFailed { id, refused: Some(Refusal::Duplicate) });
    assert_eq!(node.held(), 0);
}

#[test]
fn a_bundle_too_large_for_a_neighbour_goes_in_pieces() {
    let mut node = Node::new();
    let mut big = request(EndpointId::ipn(2, 1), Priority::Normal);
    big.payload = Payload::fill(3, 50_000);
    node.tell(Input::App(AppInput::Send { request: RequestId(1), bundle: big }));
    let mut confirmed = 0;
    let mut answered = 0;
    while answered < node.sent().len() {
        let (_, id, bundle) = node.sent()[answered].clone();
        answered += 1;
        if bundle.encoded_len() > 16_000 {
            node.tell(Input::SendFailed { id, refused: Some(Refusal::TooLarge) });
        } else {
            confirmed += bundle.payload.len();
            node.tell(Input::Sent { id });
        }
    }
    assert_eq!(confirmed, 50_000, "every byte, in pieces the neighbour takes");
    assert_eq!(node.held(), 0);
}

#[test]
fn pieces_of_an_accepted_bundle_outlive_a_full_disk() {
    let mut node = Node::new();
    let mut big = request(EndpointId::ipn(2, 1), Priority::Normal);
    big.payload = Payload::fill(3, 20_000);
    node.tell(Input::App(AppInput::Send { request: RequestId(1), bundle: big }));
    let id = node.sent()[0].1;
    node.commit = false;
    node.tell(Input::SendFailed { id, refused: Some(Refusal::TooLarge) });
    let pieces = [BundleHandle(2), BundleHandle(3)];
    for bundle in pieces {
        node.tell(Input::Store(store::Output::Refused { bundle, reason: Refusal::NoResources }));
    }
    let sent: u64 = node.sent()[1..].iter().map(|s| s.2.payload.len()).sum();
    assert_eq!((sent, node.held()), (20_000, 2), "still here until the neighbour has them");
}

#[test]
fn what_leaves_carries_previous_node_hop_count_and_age() {
    let mut node = Node::new();
    let creation = CreationTimestamp { time: DtnTime(0), sequence: 3 };
    let bundle = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(9, 1), creation)
        .lifetime_ms(60_000)
        .hop_limit(3)
        .block(BlockData::Age(100))
        .payload(Payload::fill(0, 5))
        .build();
    node.tell(Input::Ready { link: LinkId(1), ready: false });
    node.receive(1, bundle);
    node.wait(Duration::from_millis(250));
    node.tell(Input::Ready { link: LinkId(1), ready: true });
    let (link, _, sent) = node.sent()[0].clone();
    assert_eq!(link, LinkId(1), "by the static route ipn:9.*");
    assert_eq!(sent.previous_node(), Some(&EndpointId::ipn(1, 0)));
    assert_eq!(sent.hop_count().map(|h| h.count), Some(1));
    assert_eq!(sent.age_ms(), Some(350));
}

#[test]
fn hop_limit_and_unknown_blocks_are_obeyed() {
    let mut node = Node::new();
    let mut tired = from_two(1, EndpointId::ipn(3, 1));
    tired.set_block(BlockData::HopCount(farlink_bundle::HopCount { limit: 2, count: 3 }));
    node.receive(1, tired);
    let unknown = |number, flags| ExtensionBlock {
        kind: 200,
        number,
        flags: BlockFlags(flags),
        crc: CrcType::None,
        data: BlockData::Unknown(vec![1, 2].into()),
        raw: None,
    };
    let mut doomed = from_two(2, EndpointId::ipn(3, 1));
    doomed.extensions.push(unknown(9, BlockFlags::DELETE_BUNDLE));
    node.receive(2, doomed);
    let mut trimmed = from_two(3, EndpointId::ipn(3, 1));
    trimmed.extensions.push(unknown(9, BlockFlags::DISCARD));
    trimmed.extensions.push(unknown(10, 0));
    node.receive(3, trimmed);
    assert_eq!(node.deleted(), [DeleteReason::HopLimit, DeleteReason::BlockUnsupported]);
    let kept: Vec<u64> = node.sent()[0].2.extensions.iter().filter(|b| b.kind == 200).map(|b| b.number).collect();
    assert_eq!(kept, [10]);
}

#[test]
fn reports_are_made_only_where_configured_and_never_about_reports() {
    for enabled in [false, true] {
        let mut node = Node::with(Settings { status_reports: enabled, ..settings() }, None);
        let creation = CreationTimestamp { time: NOW_UTC, sequence: 1 };
        let flags = BundleFlags::REPORT_RECEPTION | BundleFlags::REPORT_FORWARDING | BundleFlags::STATUS_TIME;
        let bundle = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(3, 1), creation)
            .flags(flags)
            .report_to(EndpointId::ipn(2, 0))
            .lifetime_ms(60_000)
            .payload(Payload::fill(0, 5))
            .build();
        node.receive(1, bundle);
        let id = node.sent().iter().find(|s| s.0 == LinkId(1)).map(|s| s.1).unwrap();
        node.tell(Input::Sent { id });
        let reports: Vec<Bundle> = node.sent().into_iter().filter(|s| s.0 == LinkId(0)).map(|s| s.2).collect();
        assert_eq!(reports.len(), if enabled { 2 } else { 0 });
        for report in reports {
            assert_eq!(report.primary.flags.0 & BundleFlags::REPORTS, 0);
            let record = AdministrativeRecord::decode(&report.payload.to_bytes().unwrap()).unwrap();
            let AdministrativeRecord::Status(status) = record else { panic!("a status report") };
            assert_eq!(status.creation, creation);
            assert!(status.received.asserted != status.forwarded.asserted);
        }
    }
}

#[test]
fn fragments_are_joined_before_delivery() {
    let mut node = Node::new();
    node.register(1);
    let creation = CreationTimestamp { time: NOW_UTC, sequence: 1 };
    let content: Vec<u8> = (0..=255).collect();
    let whole = Bundle::new(EndpointId::ipn(2, 5), EndpointId::ipn(1, 1), creation)
        .lifetime_ms(60_000)
        .payload(Payload::from(content.clone()))
        .build();
    let (a, rest) = fragment(&whole, 100).unwrap();
    let (b, c) = fragment(&rest, 100).unwrap();
    for (ticket, piece) in [(1, c), (2, a), (3, b)] {
        node.receive(ticket, piece);
    }
    let got: Vec<_> = node.deliveries().iter().map(|(_, d)| d.payload.to_bytes().unwrap().to_vec()).collect();
    assert_eq!(got, [content]);
    assert_eq!(node.verdicts().len(), 3);
    assert_eq!(node.held(), 1, "only the whole is kept");
}

#[test]
fn a_node_without_a_clock_numbers_bundles_durably_and_ages_them() {
    let mut node = Node::new();
    node.tell(Input::Clock(Clock::UNTRUSTED));
    node.send(EndpointId::ipn(2, 1), Priority::Normal);
    assert!(node.sent().is_empty(), "no number before one is durable");
    let value = node.said.iter().find_map(|o| match o {
        Output::Store(store::Input::SetCounter { value }) => Some(*value),
        _ => None,
    });
    node.tell(Input::Store(store::Output::CounterSet { value: value.unwrap() }));
    let bundle = &node.sent()[0].2;
    assert_eq!((bundle.primary.creation.time, bundle.age_ms()), (DtnTime(0), Some(0)));
}

#[test]
fn a_full_node_refuses_and_does_not_acknowledge() {
    let mut node = Node::with(Settings { capacity_bytes: 2500, ..settings() }, None);
    for n in 1..=3 {
        node.receive(n, from_two(n, EndpointId::ipn(1, 1)));
    }
    assert_eq!(node.verdicts(), [(1, Ok(())), (2, Ok(())), (3, Err(Refusal::NoResources))]);
}

#[test]
fn recovered_bundles_count_the_downtime_and_are_marked_when_delivered() {
    let mut node = Node::new();
    let bundle = from_two(1, EndpointId::ipn(1, 1));
    let index = store::IndexEntry {
        priority: Priority::Normal,
        expires: None,
        stored_at: Some(DtnTime(NOW_UTC.0 - 50_000)),
        age_ms: 5_000,
        quota: 0,
        fingerprint: bundle.id().fingerprint(),
        flags: 0,
    };
    let size = bundle.encoded_len();
    let now = node.now;
    node.agent.on_recovered(now, BundleHandle(40), &index, Box::new(bundle), size, &mut node.said);
    node.register(1);
    assert!(node.deliveries()[0].1.redelivered);
    assert!(node.agent.bundles(now, 1)[0].remaining_ms <= 5_000);
    node.wait(Duration::from_secs(6));
    assert_eq!(node.deleted(), [DeleteReason::Expired]);
}
