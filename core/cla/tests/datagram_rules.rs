//! Tests of rules of RFC 5326 on single fields and steps, one test for each.

use crate::datagram_common::{LINK, bundle, split};
use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{Bytes, Event, Instant, NodeId, Payload, Refusal};
use farlink_cla::ltp::segment::{Data, Segment, SegmentBody, SessionId, kind, reason};
use farlink_cla::ltp::{Config, Ltp, SpanConfig, Usage};
use farlink_cla::sdnv;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Engine 2; its neighbour is engine 1, at [`peer`].
struct RulesBench {
    ltp: Ltp,
    now: Instant,
    malformed: usize,
    /// Reasons of failed sends.
    failed: Vec<Option<Refusal>>,
}
fn peer() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1113))
}
impl RulesBench {
    fn new(tune: impl Fn(&mut Config, &mut SpanConfig)) -> RulesBench {
        let mut config = Config { engine: 2, seed: 5, split, ..Config::default() };
        let mut span = SpanConfig { link: LINK, engine: 1, node: NodeId(1), ..SpanConfig::default() };
        tune(&mut config, &mut span);
        let ltp = Ltp::new(config, vec![span]);
        let mut bench = RulesBench { ltp, now: Instant(1_000_000_000), malformed: 0, failed: Vec::new() };
        bench.link(LinkState::UP);
        bench.input(Input::Socket(socket::Input::Located { link: LINK, addresses: vec![peer()] }));
        bench
    }
    fn link(&mut self, state: LinkState) -> Vec<Segment> {
        sent(&self.input(Input::Link { link: LINK, state }))
    }
    fn input(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.ltp.handle(self.now, input, &mut out);
        while self.ltp.next_timeout().is_some_and(|t| t <= self.now) {
            self.ltp.handle(self.now, Input::Wake, &mut out);
        }
        for output in &out {
            match output {
                Output::Event(Event::Malformed { .. }) => self.malformed += 1,
                Output::SendFailed { refused, .. } => self.failed.push(*refused),
                _ => {}
            }
        }
        out
    }
    fn datagram(&mut self, bytes: impl Into<Bytes>) -> Vec<Output> {
        let train = DatagramBatch::single(Payload::from(bytes.into()));
        self.input(Input::Socket(socket::Input::Datagrams { from: peer(), train }))
    }
    fn receive(&mut self, engine: u64, number: u64, body: SegmentBody) -> Vec<Output> {
        self.datagram(Segment { session: SessionId { engine, number }, body }.emit())
    }
    /// Sends a bundle of this length; returns the segments that leave at once.
    fn send(&mut self, id: u64, len: usize, red: bool) -> Vec<Segment> {
        sent(&self.input(Input::send(LINK, SendId(id), bundle(id, len), red)))
    }
    fn later(&mut self, seconds: u64) -> Vec<Segment> {
        self.now = Instant(self.now.0 + seconds * 1_000_000_000);
        sent(&self.input(Input::Wake))
    }
}
fn data(kind: u8, offset: u64, bytes: &'static [u8], checkpoint: u64) -> SegmentBody {
    let data = Data { kind, service: 1, offset, length: bytes.len() as u64, checkpoint, report: 0 };
    SegmentBody::Data(data, Bytes::from_static(bytes))
}
const WHOLE: &[u8] = b"\0\0\0\x0cabcdefgh";
fn sent(out: &[Output]) -> Vec<Segment> {
    let trains = out.iter().filter_map(|o| match o {
        Output::Socket(socket::Output::Datagrams { train, .. }) => Some(train),
        _ => None,
    });
    trains.flat_map(|train| train.datagrams().map(|d| Segment::parse(&d.to_bytes().unwrap()).unwrap())).collect()
}
fn fields(segments: &[Segment]) -> Vec<Data> {
    let data = |segment: &Segment| if let SegmentBody::Data(data, _) = &segment.body { Some(*data) } else { None };
    segments.iter().filter_map(data).collect()
}
fn kinds(segments: &[Segment]) -> Vec<u8> {
    segments.iter().map(Segment::kind).collect()
}
fn report_serials(segments: &[Segment]) -> Vec<u64> {
    let serial = |s: &Segment| if let SegmentBody::Report { serial, .. } = &s.body { Some(*serial) } else { None };
    segments.iter().filter_map(serial).collect()
}
fn tickets(out: &[Output]) -> Vec<Ticket> {
    out.iter().filter_map(|o| if let Output::Offer { ticket, .. } = o { Some(*ticket) } else { None }).collect()
}

/// Keeps 5326-3.2.1-3, 5326-3.2.1-4, 5326-3.2.1-5, 5326-3.2.1-6, 5326-3.2.1-8, 5326-3.2.2-1, 5326-3.2.2-3.
/// Keeps 5326-3.2.2-4, 5326-9.1-1, 5326-9.3-2, 5326-9.3-3.
#[test]
fn serial_numbers_start_random_then_count() {
    let (mut checkpoints, mut reports) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..20 {
        let mut bench = RulesBench::new(|config, span| (config.seed, span.checkpoint_every) = (seed, 2000));
        let out = fields(&bench.send(1, 10_000, true));
        let serials: Vec<u64> = out.iter().filter(|data| data.is_checkpoint()).map(|data| data.checkpoint).collect();
        let first = serials[0];
        assert!(serials.len() > 3 && first > 0);
        assert!(serials.iter().zip(first..).all(|(serial, next)| *serial == next), "{serials:?}");
        let again = fields(&bench.later(60));
        assert!(!again.is_empty() && again.iter().all(|data| serials.contains(&data.checkpoint)), "{again:?}");
        checkpoints.insert(first);
        // The engine as receiver: two checkpoints get two reports, each of which is repeated.
        let first = report_serials(&sent(&bench.receive(1, 7, data(kind::CHECKPOINT, 0, b"abc", 3))))[0];
        let second = report_serials(&sent(&bench.receive(1, 7, data(kind::CHECKPOINT, 3, b"abc", 4))));
        assert_eq!((first > 0, second), (true, vec![first + 1]));
        let again: BTreeSet<u64> = report_serials(&bench.later(60)).into_iter().collect();
        assert_eq!(again, BTreeSet::from([first, first + 1]));
        reports.insert(first);
    }
    assert!(checkpoints.len() > 15 && reports.len() > 15, "{checkpoints:?} {reports:?}");
    // Each session has its own start, even to the same node.
    let mut bench = RulesBench::new(|_, _| {});
    let (mut checkpoints, mut reports) = (BTreeSet::new(), BTreeSet::new());
    for number in 1..=20 {
        checkpoints.extend(fields(&bench.send(number, 100, true)).iter().map(|data| data.checkpoint));
        let report = sent(&bench.receive(1, 100 + number, data(kind::CHECKPOINT, 0, b"abc", 3)));
        reports.extend(report_serials(&report));
    }
    assert!(checkpoints.len() > 15 && reports.len() > 15, "{checkpoints:?} {reports:?}");
}

/// Keeps 5326-4.1-1, 5326-4.1-2, 5326-4.1-3, 5326-4.1-4, 5326-4.1-5.
#[test]
fn only_last_segment_ends_block() {
    for (red, inner, last) in [(true, kind::RED, kind::BLOCK_END), (false, kind::GREEN, kind::GREEN_END)] {
        let mut bench = RulesBench::new(|_, _| {});
        let out = bench.send(1, 5000, red);
        let mut wanted = vec![inner; out.len() - 1];
        wanted.push(last);
        assert_eq!(kinds(&out), wanted);
        let mut end = 0;
        for data in fields(&out) {
            assert_eq!(data.offset, end, "they follow each other");
            end = data.end();
        }
        assert_eq!(end, 5000, "all of one colour");
    }
}

/// Keeps 5326-3.1-1, 5326-3.1.2-1, 5326-6-1.
#[test]
fn undefined_versions_and_types_are_dropped() {
    let mut bench = RulesBench::new(|_, _| {});
    let good = Segment { session: SessionId { engine: 1, number: 7 }, body: data(kind::BLOCK_END, 0, WHOLE, 3) }.emit();
    let controls = (1..16).map(|version| version << 4 | kind::BLOCK_END).chain([5, 6, 10, 11]);
    for (count, control) in controls.enumerate() {
        let mut other = good.to_vec();
        other[0] = control;
        assert!(sent(&bench.datagram(other)).is_empty());
        assert_eq!((bench.malformed, bench.ltp.usage()), (count + 1, Usage::default()), "{control:02x}");
    }
    assert_eq!(tickets(&bench.datagram(good)).len(), 1);
}

/// Keeps 5326-5-2, 7122-3.3-1.
#[test]
fn a_datagram_is_one_segment() {
    let mut bench = RulesBench::new(|_, span| span.datagram_bytes = 500);
    let out = bench.input(Input::send(LINK, SendId(1), bundle(1, 5000), true));
    let mut lengths = Vec::new();
    for output in &out {
        if let Output::Socket(socket::Output::Datagrams { train, .. }) = output {
            lengths.extend(train.datagrams().map(|datagram| datagram.len()));
        }
    }
    assert!(lengths.len() > 9 && lengths.iter().all(|len| *len <= 500), "{lengths:?}");
    // Two segments in one datagram are invalid.
    let segment = |offset, bytes| {
        let body = data(kind::RED, offset, bytes, 0);
        Segment { session: SessionId { engine: 1, number: 7 }, body }.emit()
    };
    bench.datagram([segment(0, b"abc"), segment(3, b"def")].concat());
    assert_eq!((bench.malformed, bench.ltp.usage().imports), (1, 0));
}

/// Keeps 5326-3.2.2-4, 5326-3.2.2-7, 5326-3.2.2-8, 5326-3.2.2-9, 5326-3.2.2-10, 5326-9.3-1.
#[test]
fn report_with_invalid_claims_is_dropped() {
    let mut bench = RulesBench::new(|_, _| {});
    let number = bench.send(1, 100, true)[0].session.number;
    let report = |fields: &[u64]| {
        let mut bytes = vec![kind::REPORT];
        for (place, field) in [2, number, 0].iter().chain(fields).enumerate() {
            // The extension count is one byte, 0.
            let mut sdnv = [0; sdnv::LEN_MAX];
            let len = sdnv::encode(*field, &mut sdnv);
            assert!(place != 2 || sdnv[..len] == [0]);
            bytes.extend_from_slice(&sdnv[..len]);
        }
        bytes
    };
    // Serial number, checkpoint, upper bound, lower bound, number of claims; then offset and length of each claim.
    let wrong: [(&[u64], &str); 9] = [
        (&[0, 0, 100, 0, 1, 0, 100], "no serial number"),
        (&[9, 0, 50, 50, 1, 0, 0], "nothing in its scope"),
        (&[9, 0, 40, 50, 1, 0, 1], "a scope that ends before it begins"),
        (&[9, 0, 100, 0, 1, 0, 0], "an empty claim"),
        (&[9, 0, 100, 50, 1, 0, 51], "a claim longer than the scope"),
        (&[9, 0, 100, 0, 1, 99, 2], "a claim beyond the scope"),
        (&[9, 0, 100, 0, 2, 0, 10, 10, 10], "a claim that touches the one before"),
        (&[9, 0, 100, 0, 2, 20, 10, 0, 10], "a claim before the one before"),
        (&[9, 0, 100, 0, 9, 0, 10], "fewer claims than it says"),
    ];
    for (count, (fields, why)) in wrong.into_iter().enumerate() {
        assert!(sent(&bench.datagram(report(fields))).is_empty(), "{why}");
        assert_eq!((bench.malformed, bench.ltp.usage().exports), (count + 1, 1), "{why}");
    }
    let out = bench.datagram(report(&[9, 0, 100, 0, 2, 0, 10, 11, 89]));
    assert_eq!(kinds(&sent(&out))[0], kind::REPORT_ACK);
    let out = bench.datagram(report(&[10, 0, 100, 0, 1, 0, 100]));
    assert!(out.iter().any(|o| matches!(o, Output::Sent { id: SendId(1), .. })));
}

/// Keeps 5326-6.13-1.
#[test]
fn report_acknowledgment_precedes_retransmission() {
    // RFC 5326 6.13: first the acknowledgment, then the requested data.
    let mut bench = RulesBench::new(|_, _| {});
    let number = bench.send(1, 5000, true)[0].session.number;
    let claims = vec![(0, 1000), (2000, 5000)];
    let mut left = sent(&bench.receive(
        2,
        number,
        SegmentBody::Report { serial: 9, checkpoint: 0, lower: 0, upper: 5000, claims },
    ));
    left.extend(bench.later(1));
    assert_eq!((left[0].kind(), &left[0].body), (kind::REPORT_ACK, &SegmentBody::ReportAck { serial: 9 }));
    let again = fields(&left[1..]);
    assert_eq!((again[0].offset, again[0].end(), again[0].report), (1000, 2000, 9), "{again:?}");
}

/// Keeps 5326-6.13-5, 5326-6.22-2.
#[test]
fn report_limit_ends_session_with_reason() {
    // RFC 5326 6.13: the reason is RXMTCYCEXC.
    let mut bench = RulesBench::new(|_, _| {});
    let number = bench.send(1, 100, true)[0].session.number;
    let mut left = Vec::new();
    for serial in 1..50_000 {
        let claims = vec![(0, 50)];
        let report = SegmentBody::Report { serial, checkpoint: 0, lower: 0, upper: 100, claims };
        left = sent(&bench.receive(2, number, report));
        if bench.ltp.usage().exports == 0 {
            break;
        }
    }
    assert_eq!((bench.failed.len(), bench.ltp.usage().exports), (1, 0), "a session without end");
    left.extend(bench.later(1));
    assert!(left.iter().any(|s| s.body == SegmentBody::Cancel { by_sender: true, reason: reason::CYCLES }), "{left:?}");
}

/// Keeps 5326-6.1-1, 5326-6.4-1.
#[test]
fn down_link_sends_nothing() {
    // While the link is down, retries are not counted either.
    let silent = LinkState { transmit: false, ..LinkState::UP };
    let mut bench = RulesBench::new(|_, _| {});
    assert!(bench.link(silent).is_empty());
    assert!(bench.send(1, 5000, true).is_empty());
    assert!(sent(&bench.receive(1, 7, data(kind::CHECKPOINT, 0, b"abc", 3))).is_empty(), "no report");
    assert!(bench.later(600).is_empty());
    let left = kinds(&bench.link(LinkState::UP));
    assert_eq!(left, [kind::REPORT, kind::RED, kind::RED, kind::RED, kind::BLOCK_END]);
    assert!(bench.link(silent).is_empty());
    assert!(bench.later(600).is_empty(), "nothing again");
    assert_eq!(bench.ltp.usage().exports, 1, "and nothing is given up meanwhile");
}

/// Keeps 5326-6.18-1.
#[test]
fn acknowledged_cancel_is_not_resent() {
    for acknowledged in [false, true] {
        let mut bench = RulesBench::new(|_, span| span.attempts = 2);
        let unknown = Data { kind: kind::RED, service: 3, offset: 0, length: 1, checkpoint: 0, report: 0 };
        let left = sent(&bench.receive(1, 7, SegmentBody::Data(unknown, Bytes::from_static(b"x"))));
        assert_eq!(left[0].body, SegmentBody::Cancel { by_sender: false, reason: reason::UNREACHABLE });
        if acknowledged {
            bench.receive(1, 7, SegmentBody::CancelAck { by_sender: false });
        }
        assert_eq!(bench.later(60).len(), usize::from(!acknowledged), "of a receiver");
        let mut bench = RulesBench::new(|_, span| span.attempts = 2);
        let number = bench.send(1, 100, true)[0].session.number;
        let left: Vec<Segment> = (0..2).flat_map(|_| bench.later(2)).collect();
        let cancel = SegmentBody::Cancel { by_sender: true, reason: reason::LIMIT };
        assert_eq!(left.iter().filter(|segment| segment.body == cancel).count(), 1, "{left:?}");
        if acknowledged {
            bench.receive(2, number, SegmentBody::CancelAck { by_sender: true });
        }
        assert_eq!(bench.later(60).len(), usize::from(!acknowledged), "of a sender");
    }
}

/// Keeps 5326-4.2-3.
#[test]
fn receiver_cancel_carries_reason() {
    // The sender's agent decides by the reason whether to retry.
    for (refusal, why) in [
        (Refusal::NoResources, reason::SYSTEM),
        (Refusal::StoreFailed, reason::SYSTEM),
        (Refusal::NotAcceptable, reason::USER),
        (Refusal::TooLarge, reason::USER),
    ] {
        let mut bench = RulesBench::new(|_, _| {});
        let ticket = tickets(&bench.receive(1, 7, data(kind::BLOCK_END, 0, WHOLE, 3)))[0];
        let left = sent(&bench.input(Input::Refused { ticket, reason: refusal }));
        let cancel = Segment {
            session: SessionId { engine: 1, number: 7 },
            body: SegmentBody::Cancel { by_sender: false, reason: why },
        };
        assert_eq!(left, [cancel], "{refusal:?}");
    }
}

/// Keeps 5326-6.13-3.
#[test]
fn report_stops_only_its_checkpoints_timer() {
    // Timers of other checkpoints go on.
    let mut bench = RulesBench::new(|_, span| span.checkpoint_every = 2000);
    let out = bench.send(1, 10_000, true);
    let (number, all) = (out[0].session.number, fields(&out));
    let checkpoints: Vec<&Data> = all.iter().filter(|data| data.is_checkpoint()).collect();
    let timers = |bench: &RulesBench| bench.ltp.usage().timers;
    let before = timers(&bench);
    assert!(before >= checkpoints.len() && checkpoints.len() > 3, "{before}");
    let report = |serial, checkpoint, upper| SegmentBody::Report {
        serial,
        checkpoint,
        lower: 0,
        upper,
        claims: vec![(0, upper)],
    };
    bench.receive(2, number, report(5, checkpoints[0].checkpoint, checkpoints[0].end()));
    assert_eq!(timers(&bench), before - 1);
    // A report without a checkpoint number stops no timer.
    bench.receive(2, number, report(6, 0, checkpoints[1].end()));
    assert_eq!(timers(&bench), before - 1);
    let again: BTreeSet<u64> = fields(&bench.later(60)).iter().map(|data| data.checkpoint).collect();
    assert!(!again.is_empty() && !again.contains(&checkpoints[0].checkpoint), "{again:?}");
}
