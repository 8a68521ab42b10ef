//! Tests of an LTP engine segment by segment: shared vectors, the withheld report, refusals, cancelling, unknown
//! engines and hostile datagrams.

use crate::datagram_common::{Channel, EnginePair, LINK, bundle, split};
use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Destination, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{Bytes, DataRate, Duration, Event, Instant, LinkId, NodeId, Payload, Refusal};
use farlink_cla::ltp::segment::{Segment, SegmentBody, SessionId, kind, reason};
use farlink_cla::ltp::{Config, Ltp, SpanConfig, Usage};
use farlink_cla::sdnv;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;

fn vectors(name: &str) -> Value {
    let path = format!("{}/../../tests/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
fn hex(text: &Value) -> Bytes {
    let text = text.as_str().unwrap();
    let byte = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}
fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1113))
}
fn unknown_peer() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 66], 1113))
}

/// Engine 2, driven by hand; its neighbour is engine 1.
struct EngineBench {
    ltp: Ltp,
    now: Instant,
}
impl EngineBench {
    fn new(tune: impl Fn(&mut Config, &mut SpanConfig)) -> EngineBench {
        let mut config = Config { engine: 2, seed: 5, split, ..Config::default() };
        let mut span = SpanConfig { link: LINK, engine: 1, node: NodeId(1), ..SpanConfig::default() };
        tune(&mut config, &mut span);
        let mut bench = EngineBench { ltp: Ltp::new(config, vec![span]), now: Instant(1_000_000_000) };
        bench.input(Input::Link { link: LINK, state: LinkState::UP });
        bench
    }
    fn input(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.ltp.handle(self.now, input, &mut out);
        while self.ltp.next_timeout().is_some_and(|t| t <= self.now) {
            self.ltp.handle(self.now, Input::Wake, &mut out);
        }
        out
    }
    fn datagram(&mut self, from: SocketAddr, bytes: impl Into<Bytes>) -> Vec<Output> {
        self.input(Input::Socket(socket::Input::Datagrams {
            from,
            train: DatagramBatch::single(Payload::from(bytes.into())),
        }))
    }
    fn segment(&mut self, from: SocketAddr, engine: u64, number: u64, body: SegmentBody) -> Vec<Output> {
        self.datagram(from, Segment { session: SessionId { engine, number }, body }.emit())
    }
    fn send(&mut self, id: u64, payload: Payload) -> Vec<Output> {
        self.input(Input::send(LINK, SendId(id), payload, true))
    }
    fn later(&mut self, seconds: u64) -> Vec<Output> {
        self.now = Instant(self.now.0 + seconds * 1_000_000_000);
        self.input(Input::Wake)
    }
}
fn data(kind: u8, offset: u64, bytes: &'static [u8], checkpoint: u64, report: u64) -> SegmentBody {
    let length = bytes.len() as u64;
    let data = farlink_cla::ltp::segment::Data { kind, service: 1, offset, length, checkpoint, report };
    SegmentBody::Data(data, Bytes::from_static(bytes))
}
/// Segments sent, with their destinations.
fn sent(out: &[Output]) -> Vec<(Destination, Segment)> {
    let mut segments = Vec::new();
    for output in out {
        if let Output::Socket(socket::Output::Datagrams { to, train }) = output {
            let parse = |d: Payload| Segment::parse(&d.to_bytes().unwrap()).expect("we send what parses");
            segments.extend(train.datagrams().map(|d| (*to, parse(d))));
        }
    }
    segments
}
fn offers(out: &[Output]) -> Vec<(Ticket, Payload, LinkId)> {
    let offer = |o: &Output| match o {
        Output::Offer { ticket, part, link, last: true, .. } => Some((*ticket, part.clone(), *link)),
        _ => None,
    };
    out.iter().filter_map(offer).collect()
}

/// Keeps 5326-3.1-1, 5326-3.1.4-1, 5326-3.2.1-1, 5326-3.2.1-2, 5326-3.2.1-6, 5326-3.2.1-8, 5326-9.3-1.
#[test]
fn segment_vectors_round_trip() {
    let ltp = vectors("ltp");
    for vector in ltp["segments"].as_array().unwrap() {
        let bytes = hex(&vector["hex"]);
        let segment = Segment::parse(&bytes).unwrap_or_else(|e| panic!("{}: {e}", vector["id"]));
        if vector["id"] != "header_ext_cookie" {
            assert_eq!(segment.emit(), bytes, "{}", vector["id"]);
        }
    }
    for vector in ltp["negative"].as_array().unwrap() {
        assert!(Segment::parse(&hex(&vector["hex"])).is_err(), "{}", vector["want"]);
    }
    let gap = ltp["segments"].as_array().unwrap().iter().find(|v| v["id"] == "report_gap").unwrap();
    let SegmentBody::Report { lower, upper, claims, .. } = Segment::parse(&hex(&gap["hex"])).unwrap().body else {
        panic!()
    };
    assert_eq!((lower, upper), (1000, 6000), "the example of RFC 5326 3.2.2");
    assert_eq!(claims, [(1000, 3000), (4000, 4500)]);
}

/// Keeps 5326-2-3, 5050-4.1-1, 5050-4.1-2.
#[test]
fn every_sdnv_vector() {
    let vectors = vectors("sdnv");
    for vector in vectors["valid"].as_array().unwrap() {
        let (bytes, value) = (hex(&vector["hex"]), vector["value"].as_str().unwrap().parse().unwrap());
        assert_eq!(sdnv::decode(&bytes), Ok((value, bytes.len())));
        let mut out = [0; sdnv::LEN_MAX];
        let n = sdnv::encode(value, &mut out);
        assert_eq!(out[..n], bytes);
    }
    for vector in vectors["non_minimal_but_decodable"].as_array().unwrap() {
        let bytes = hex(&vector["hex"]);
        assert_eq!(sdnv::decode(&bytes), Ok((vector["value"].as_str().unwrap().parse().unwrap(), bytes.len())));
    }
    for vector in vectors["invalid"].as_array().unwrap() {
        assert!(sdnv::decode(&hex(&vector["hex"])).is_err(), "{}", vector["why"]);
    }
}

/// Fields of a report in the vectors, except for its serial number.
fn report_fields(body: &SegmentBody) -> (u64, u64, u64, Vec<(u64, u64)>) {
    let SegmentBody::Report { checkpoint, lower, upper, claims, .. } = body else { panic!("{body:?}") };
    (*checkpoint, *lower, *upper, claims.clone())
}

/// Keeps 5326-3.2.2-3, 5326-3.2.2-6, 5326-4.1-1, 5326-6.3-1, 5326-6.8-1, 5326-6.9-1, 5326-6.11-1.
/// Keeps 5326-6.12-1, 5326-6.20-1.
#[test]
fn vector_session_withholds_report_until_accepted() {
    let v = vectors("ltp");
    let session = &v["session_bundle"];
    let mut bench = EngineBench::new(|config, _| config.split = farlink_cla::ltp::whole_block);
    assert!(offers(&bench.datagram(peer(), hex(&session["sender"][0]))).is_empty());
    let out = bench.datagram(peer(), hex(&session["sender"][1]));
    let offered = offers(&out);
    assert_eq!(offered.len(), 1);
    assert_eq!(offered[0].1.len(), 55);
    assert!(sent(&out).is_empty(), "nothing is acknowledged before it is kept");
    // A repeated checkpoint changes nothing.
    assert!(sent(&bench.datagram(peer(), hex(&session["sender"][1]))).is_empty());
    let out = bench.input(Input::Accepted { ticket: offered[0].0 });
    let reports = sent(&out);
    assert_eq!(reports.len(), 1);
    let want = Segment::parse(&hex(&session["receiver"][0])).unwrap();
    assert_eq!(reports[0].1.session, want.session);
    assert_eq!(report_fields(&reports[0].1.body), report_fields(&want.body));
    let SegmentBody::Report { serial, .. } = reports[0].1.body else { panic!() };
    // Without an acknowledgment the report is repeated; with one the session is over.
    assert_eq!(sent(&bench.later(1))[0].1, reports[0].1);
    bench.segment(peer(), 1, 7, SegmentBody::ReportAck { serial });
    assert_eq!(bench.ltp.usage(), Usage::default());
    assert!(offers(&bench.datagram(peer(), hex(&session["sender"][0]))).is_empty(), "late data opens nothing");
    assert_eq!(bench.ltp.usage(), Usage::default());
}

/// Keeps 5326-3.2.2-2, 5326-3.2.2-6, 5326-6.11-1, 5326-6.14-1.
#[test]
fn lossy_session_matches_vectors() {
    let v = vectors("ltp");
    let mut bench = EngineBench::new(|config, span| {
        config.split = farlink_cla::ltp::whole_block;
        span.copies = 1;
    });
    let reports = sent(&bench.datagram(peer(), hex(&v["session_bundle"]["sender"][1])));
    let want = Segment::parse(&hex(&v["session_loss"]["receiver_report"])).unwrap();
    assert_eq!(report_fields(&reports[0].1.body), report_fields(&want.body));
    let SegmentBody::Report { serial: first, .. } = reports[0].1.body else { panic!() };
    // The vector's retransmission names the vector's report serial number, which is replaced by this engine's.
    let mut again = Segment::parse(&hex(&v["session_loss"]["sender_retransmit"])).unwrap();
    let SegmentBody::Data(fields, _) = &mut again.body else { panic!() };
    fields.report = first;
    let out = bench.datagram(peer(), again.emit());
    assert!(sent(&out).is_empty());
    let out = bench.input(Input::Accepted { ticket: offers(&out)[0].0 });
    let want = Segment::parse(&hex(&v["session_loss"]["receiver_report_2"])).unwrap();
    let SegmentBody::Report { serial, .. } = sent(&out)[0].1.body else { panic!() };
    assert_eq!(serial, first + 1);
    assert_eq!(report_fields(&sent(&out)[0].1.body), report_fields(&want.body));
    assert_eq!(bench.ltp.usage().imports, 1, "the first report is not acknowledged");
    bench.segment(peer(), 1, 7, SegmentBody::ReportAck { serial });
    bench.segment(peer(), 1, 7, SegmentBody::ReportAck { serial: first });
    assert_eq!(bench.ltp.usage(), Usage::default());
}

#[test]
fn slow_storage_delays_only_final_report() {
    // Reports before the last one may leave at once, because they do not complete the red part.
    let span = SpanConfig { checkpoint_every: 20_000, ..SpanConfig::default() };
    let mut world = EnginePair::new(3, Channel::default(), span);
    world.keep = Duration::from_secs(2);
    world.record = true;
    world.offer(0, 1, bundle(1, 100_000), true);
    world.run(100_000);
    assert!(world.now.as_secs_f64() > 2.0, "Sent only after it was kept");
    assert_eq!(world.sides[1].offers[&1], 1);
    let claimed_early: Vec<_> = world.sides[1].events.iter().filter(|e| e.sent && e.kind == kind::REPORT).collect();
    assert!(claimed_early.len() >= 5, "the reports before the last did not wait");
    world.settle();
}

/// Keeps 5326-4.2-3, 5326-6.19-1, 5326-6.22-1.
#[test]
fn refused_block_is_cancelled_and_retried() {
    // The sender's agent learns of the refusal and sends the bundle again.
    for (refusal, want) in
        [(Refusal::NoResources, Refusal::NoResources), (Refusal::NotAcceptable, Refusal::NotAcceptable)]
    {
        let mut world = EnginePair::new(3, Channel::default(), SpanConfig::default());
        world.refuse.insert(1, refusal);
        world.offer(0, 1, bundle(1, 5000), true);
        world.input(0, Input::Wake);
        for _ in 0..60 {
            world.step();
        }
        assert!(world.sides[0].failed > 0, "{want}");
        world.refuse.clear();
        world.run(10_000);
        world.settle();
    }
    // Of several bundles one is refused as a duplicate; nothing must be sent again.
    let span = SpanConfig { aggregate_bytes: 3000, ..SpanConfig::default() };
    let mut world = EnginePair::new(3, Channel::default(), span);
    world.refuse.insert(2, Refusal::Duplicate);
    world.sides[1].accepted.insert(2);
    (1..=3).for_each(|n| world.offer(0, n, bundle(n, 1000), true));
    world.run(10_000);
    assert_eq!(world.sides[0].failed, 0);
    world.settle();
}

/// Keeps 5326-6.7-1, 5326-6.15-1, 5326-6.16-1, 5326-6.17-1, 5326-6.17-2, 5326-6.19-1.
#[test]
fn cancels_repeat_until_acknowledged() {
    // A cancel segment is acknowledged even if its session is unknown.
    let mut bench = EngineBench::new(|_, span| span.attempts = 3);
    bench.segment(peer(), 1, 7, data(kind::RED, 0, b"abc", 0, 0));
    assert!(
        sent(&bench.segment(unknown_peer(), 1, 7, SegmentBody::Cancel { by_sender: true, reason: 0 })).is_empty(),
        "forged"
    );
    assert_eq!(bench.ltp.usage().imports, 1);
    let out = bench.segment(peer(), 1, 7, SegmentBody::Cancel { by_sender: true, reason: 0 });
    assert_eq!(sent(&out)[0].1.body, SegmentBody::CancelAck { by_sender: true });
    assert_eq!(bench.ltp.usage(), Usage::default());
    let again = bench.segment(peer(), 1, 7, SegmentBody::Cancel { by_sender: true, reason: 0 });
    assert_eq!(sent(&again).len(), 1, "also when nothing is known of the session");

    // A session of this engine gets no answer: it is cancelled, the cancel segment is repeated up to the limit, and
    // then no state is left.
    let out = bench.send(9, bundle(9, 100));
    let number = sent(&out)[0].1.session.number;
    let mut kinds = Vec::new();
    let mut failed = 0;
    for _ in 0..10 {
        let out = bench.later(1);
        kinds.extend(sent(&out).iter().map(|(_, s)| s.kind()));
        failed += out.iter().filter(|o| matches!(o, Output::SendFailed { id: SendId(9), .. })).count();
    }
    let checkpoints = kinds.iter().filter(|k| **k == kind::BLOCK_END).count();
    assert_eq!((checkpoints, failed), (2, 1), "two more attempts");
    assert_eq!(kinds.iter().filter(|k| **k == kind::CANCEL_SENDER).count(), 3);
    assert_eq!(bench.ltp.usage(), Usage::default());
    assert!(bench.segment(peer(), 2, number, SegmentBody::CancelAck { by_sender: true }).is_empty());

    // In the other direction: a cancel segment from the receiver is acknowledged, and the bundle fails.
    let out = bench.send(10, bundle(10, 100));
    let number = sent(&out)[0].1.session.number;
    let out = bench.segment(peer(), 2, number, SegmentBody::Cancel { by_sender: false, reason: reason::SYSTEM });
    assert_eq!(sent(&out)[0].1.body, SegmentBody::CancelAck { by_sender: false });
    assert!(out.iter().any(|o| matches!(o, Output::SendFailed { refused: Some(Refusal::NoResources), .. })));
    assert_eq!(bench.ltp.usage(), Usage::default());
}

/// Keeps 5326-6-2, 5326-6.18-1, 5326-6.21-1, 5326-6.22-1.
#[test]
fn faults_cancel_with_their_reason() {
    let why = |out: &[Output]| match sent(out)[..] {
        [(_, Segment { body: SegmentBody::Cancel { by_sender: false, reason }, .. })] => Some(reason),
        _ => None,
    };
    let mut bench = EngineBench::new(|_, _| {});
    bench.segment(peer(), 1, 7, data(kind::GREEN, 10, b"abc", 0, 0));
    assert_eq!(why(&bench.segment(peer(), 1, 7, data(kind::RED, 12, b"abc", 0, 0))), Some(reason::MISCOLORED));
    // A second, different end of the red part is no miscoloring (RFC 5326 6.21), so the reason is another one.
    bench.segment(peer(), 1, 6, data(kind::RED_END, 40, b"abc", 3, 0));
    assert_eq!(why(&bench.segment(peer(), 1, 6, data(kind::RED_END, 30, b"abc", 4, 0))), Some(reason::SYSTEM));
    let service =
        farlink_cla::ltp::segment::Data { kind: 0, service: 3, offset: 0, length: 1, checkpoint: 0, report: 0 };
    let body = SegmentBody::Data(service, Bytes::from_static(b"x"));
    assert_eq!(why(&bench.segment(peer(), 1, 8, body)), Some(reason::UNREACHABLE));
    let far = data(kind::RED, 1 << 60, b"x", 0, 0);
    assert_eq!(why(&bench.segment(peer(), 1, 10, far)), Some(reason::SYSTEM), "longer than any block");
    // The segment answers a report that this engine sent before it restarted; the data claimed in it is lost.
    assert_eq!(why(&bench.segment(peer(), 1, 9, data(1, 0, b"abc", 5, 77))), Some(reason::SYSTEM));
    for number in 6..11 {
        bench.segment(peer(), 1, number, SegmentBody::CancelAck { by_sender: false });
    }
    assert_eq!(bench.ltp.usage(), Usage::default());
}

#[test]
fn unknown_engines_get_dynamic_links() {
    // Unknown engines are accepted unless the configuration forbids it.
    let mut bench = EngineBench::new(|_, _| {});
    let out = bench.segment(unknown_peer(), 77, 1, data(kind::BLOCK_END, 0, b"\0\0\0\x0cabcdefgh", 3, 0));
    let Some(Output::PeerUp { link, node, .. }) = out.first() else { panic!("{out:?}") };
    assert!(link.is_dynamic());
    assert_eq!(*node, Some(NodeId(77)));
    let offered = offers(&out);
    assert_eq!(offered[0].2, *link);
    let out = bench.input(Input::Accepted { ticket: offered[0].0 });
    assert_eq!(sent(&out)[0].0, Destination::Address(unknown_peer()));
    assert!(out.iter().all(|o| !matches!(o, Output::PeerUp { .. })));

    let mut closed = EngineBench::new(|config, _| config.accept_unknown = false);
    assert!(closed.segment(unknown_peer(), 77, 1, data(kind::BLOCK_END, 0, b"abc", 3, 0)).is_empty());
    assert_eq!(closed.ltp.usage(), Usage::default());
}

#[test]
fn freed_session_readies_every_link() {
    // The limit on sessions holds for all links together.
    let mut config = Config { engine: 2, sessions: 1, ..Config::default() };
    config.split = split;
    let span = |link, engine| SpanConfig { link: LinkId(link), engine, node: NodeId(engine), ..SpanConfig::default() };
    let mut bench = EngineBench { ltp: Ltp::new(config, vec![span(0, 1), span(1, 3)]), now: Instant(1) };
    bench.input(Input::Link { link: LinkId(0), state: LinkState::UP });
    bench.input(Input::Link { link: LinkId(1), state: LinkState::UP });
    let ready = |out: &[Output], link| {
        out.iter().rev().find_map(|o| match o {
            Output::Ready { link: l, ready } if l.0 == link => Some(*ready),
            _ => None,
        })
    };
    let out = bench.send(1, bundle(1, 100));
    assert_eq!(ready(&out, 1), Some(false), "the only session is taken");
    let number = sent(&out)[0].1.session.number;
    let out = bench.segment(peer(), 2, number, SegmentBody::Cancel { by_sender: false, reason: 0 });
    assert_eq!((ready(&out, 0), ready(&out, 1)), (Some(true), Some(true)));
}

#[test]
fn session_flood_leaves_room_for_neighbours() {
    // Sessions of unknown engines, however many there are, take at most a quarter of all sessions.
    let mut bench = EngineBench::new(|config, _| config.sessions = 1000);
    for n in 0..20_000 {
        bench.segment(unknown_peer(), 100 + n % 3000, n * 7919, data(kind::RED, 1 << 20, b"x", 0, 0));
    }
    let usage = bench.ltp.usage();
    assert!(usage.imports <= 250, "a quarter: {usage:?}");
    let out = bench.segment(peer(), 1, 1, data(kind::BLOCK_END, 0, b"\0\0\0\x0cabcdefgh", 3, 0));
    assert_eq!(offers(&out).len(), 1);
    for _ in 0..10 {
        bench.later(4000);
    }
    assert_eq!(bench.ltp.usage().imports, 1, "the idle are gone; the one with a verdict to come stays");
}

/// Keeps 5326-5-2, 7122-3.3-1, 5326-6-1.
#[test]
fn malformed_datagram_spares_its_batch() {
    // A batch is whatever the driver received at once, so its datagrams are independent.
    let mut bench = EngineBench::new(|_, _| {});
    let good = |number| {
        let body = data(kind::BLOCK_END, 0, b"\0\0\0\x0cabcdefgh", 3, 0);
        Segment { session: SessionId { engine: 1, number }, body }.emit()
    };
    let stride = good(1).len();
    let mut bytes = good(1).to_vec();
    bytes.extend(vec![0xff; stride]);
    bytes.extend(good(2));
    bytes.extend([0, 0, 0, 0]);
    let train = DatagramBatch { stride: stride as u32, data: Payload::from(bytes) };
    let out = bench.input(Input::Socket(socket::Input::Datagrams { from: peer(), train }));
    assert_eq!(offers(&out).len(), 2);
    let malformed = out.iter().filter(|o| matches!(o, Output::Event(Event::Malformed { link: Some(LINK), .. })));
    assert_eq!(malformed.count(), 1, "the four zero bytes are a keepalive");
}

#[test]
fn small_bundle_waits_aggregation_time_only() {
    // By default a bundle leaves at once; with aggregation it waits a few milliseconds.
    let mut bench = EngineBench::new(|_, _| {});
    assert_eq!(sent(&bench.send(1, bundle(1, 100))).len(), 1, "by default it leaves at once");
    let span = SpanConfig::default();
    assert!(span.aggregate_bytes == 0 && span.aggregate_wait <= Duration::from_millis(2));
    let mut bench = EngineBench::new(|_, span| span.aggregate_bytes = 10_000);
    assert!(sent(&bench.send(1, bundle(1, 100))).is_empty(), "told to, it waits");
    assert_eq!(sent(&bench.later(2)).len(), 1);
}

/// Keeps 5326-4.2-1.
#[test]
fn shutdown_returns_unstarted_bundles() {
    // Sessions that have begun are finished.
    let mut bench = EngineBench::new(|_, span| span.aggregate_bytes = 10_000);
    bench.input(Input::Link { link: LINK, state: LinkState { rate: Some(DataRate(8000)), ..LinkState::UP } });
    let failed =
        |out: &[Output], id| out.iter().any(|o| matches!(o, Output::SendFailed { id: i, .. } if *i == SendId(id)));
    bench.send(1, bundle(1, 500));
    assert!(failed(&bench.input(Input::CancelSend { link: LINK, id: SendId(1) }), 1), "while it waits for others");
    assert!(!sent(&bench.send(2, bundle(2, 20_000))).is_empty());
    bench.send(3, bundle(3, 20_000));
    assert!(failed(&bench.input(Input::CancelSend { link: LINK, id: SendId(3) }), 3), "behind the other");
    bench.send(4, bundle(4, 20_000));
    let out = bench.input(Input::Shutdown);
    assert!(failed(&out, 4) && !failed(&out, 2));
    assert!(failed(&bench.send(5, bundle(5, 10)), 5));
    assert!(bench.segment(peer(), 1, 1, data(kind::RED, 0, b"abc", 0, 0)).is_empty(), "no new sessions");
}

/// Keeps 9171-7.2-1, 5326-5-4.
#[test]
fn link_accepts_bundles_at_its_rate() {
    // About 50 ms of the link's rate are queued; the rest stays with the agent.
    let mut world =
        EnginePair::new(1, Channel { rate: Some(DataRate(1_000_000)), ..Channel::default() }, SpanConfig::default());
    (0..100).for_each(|n| world.offer(0, n, bundle(n, 1000), true));
    world.input(0, Input::Wake);
    let queued = world.usage()[0].in_flight_bytes;
    assert!((5000..9000).contains(&queued), "about 50 ms of 1 Mbit/s: {queued}");
    world.run(100_000);
    let rate = world.sides[0].sent_bytes as f64 * 8.0 / (world.now.as_secs_f64() - 0.02);
    assert!((0.93e6..1.02e6).contains(&rate), "{rate}");
    let mut down = EnginePair::new(1, Channel { down: vec![(0.0, 5.0)], ..Channel::default() }, SpanConfig::default());
    down.offer(0, 1, bundle(1, 1000), true);
    down.input(0, Input::Wake);
    assert!(!down.sides[0].ready, "not ready while the contact is down");
    down.run(1000);
    assert!(down.now.as_secs_f64() > 5.0);
}

#[test]
fn segments_are_independent_of_timing() {
    // Without loss, the segments of each session depend on seed and bundles alone, not on timing or batches.
    let run = |rate: Option<u64>, delay_ms: u64, join: usize, keep: u64| {
        let channel =
            Channel { rate: rate.map(DataRate), delay: [Duration::from_millis(delay_ms); 2], ..Channel::default() };
        let span = SpanConfig { checkpoint_every: 30_000, aggregate_bytes: 4000, ..SpanConfig::default() };
        let span = SpanConfig { aggregate_wait: Duration::from_secs(9), ..span };
        let mut world = EnginePair::new(11, channel, span);
        (world.join, world.keep, world.record) = (join, Duration::from_millis(keep), true);
        for number in 0..40 {
            world.offer(0, number, bundle(number, [300, 1500, 9000, 100_000][number as usize % 4]), true);
        }
        world.run(1_000_000);
        world.settle();
        let mut set = BTreeSet::new();
        for event in world.sides.iter().flat_map(|s| &s.events).filter(|e| !e.resend) {
            let place = (event.engine, event.session, event.kind, event.offset, event.length);
            set.insert((place, event.checkpoint, event.report));
        }
        set
    };
    let one = run(Some(100_000_000), 10, 1, 0);
    assert!(one.len() > 800);
    for (rate, delay, join, keep) in
        [(None, 0, 64, 0), (Some(10_000_000), 600, 7, 50), (Some(1_000_000_000), 1, 3, 150)]
    {
        assert_eq!(run(rate, delay, join, keep), one);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_segments_do_not_break_engine(
        datagrams in proptest::collection::vec(
            (0u8..16, 0u64..3, 0u64..4, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 1..200),
    ) {
        let mut bench = EngineBench::new(|config, _| config.sessions = 50);
        let out = bench.send(1, bundle(1, 3000));
        let own = sent(&out)[0].1.session.number;
        for (kind, engine, session, tail, raw) in datagrams {
            let mut bytes = Vec::new();
            if !raw {
                bytes.extend([kind, engine as u8]);
                let mut number = [0; 10];
                let n = sdnv::encode(if engine == 2 { own } else { session }, &mut number);
                bytes.extend(&number[..n]);
                bytes.push(0);
            }
            bytes.extend(tail);
            for output in bench.datagram(peer(), bytes) {
                if let Output::Offer { ticket, .. } = output {
                    bench.input(Input::Accepted { ticket });
                }
            }
            bench.now = Instant(bench.now.0 + 10_000_000);
        }
        for _ in 0..60 {
            bench.later(4000);
        }
        prop_assert_eq!(bench.ltp.usage(), Usage::default());
    }
}
