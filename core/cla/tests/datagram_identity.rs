//! Tests of how an LTP engine attributes segments, limits senders that cannot be identified, and answers them; and of
//! rules of RFC 5326 that a hostile peer may try to bend.

use crate::datagram_common::{LINK, bundle, split};
use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Bytes, Event, Instant, LinkId, NodeId, Payload};
use farlink_cla::ltp::segment::{Data, Segment, SegmentBody, SessionId, kind, reason};
use farlink_cla::ltp::{Config, Ltp, SpanConfig, Usage};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Engine 2; its neighbour is engine 1, at [`home`].
struct IdentityBench {
    ltp: Ltp,
    now: Instant,
    malformed: Vec<&'static str>,
    ends: Vec<&'static str>,
}
fn home() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 1113))
}
/// Another port of the neighbour's host.
fn beside() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 40_000))
}
fn elsewhere() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 66], 1113))
}
impl IdentityBench {
    fn new(tune: impl Fn(&mut Config, &mut SpanConfig)) -> IdentityBench {
        let mut config = Config { engine: 2, seed: 5, split, ..Config::default() };
        let mut span = SpanConfig { link: LINK, engine: 1, node: NodeId(1), ..SpanConfig::default() };
        tune(&mut config, &mut span);
        let ltp = Ltp::new(config, vec![span]);
        let mut bench = IdentityBench { ltp, now: Instant(1_000_000_000), malformed: Vec::new(), ends: Vec::new() };
        bench.input(Input::Link { link: LINK, state: LinkState::UP });
        bench.input(Input::Socket(socket::Input::Located { link: LINK, addresses: vec![home()] }));
        bench
    }
    /// Passes an input; returns the outputs that send or offer something.
    fn input(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.ltp.handle(self.now, input, &mut out);
        while self.ltp.next_timeout().is_some_and(|t| t <= self.now) {
            self.ltp.handle(self.now, Input::Wake, &mut out);
        }
        for output in &out {
            match output {
                Output::Event(Event::Malformed { reason, .. }) => self.malformed.push(reason),
                Output::Event(Event::LtpSessionEnd { why, .. }) => self.ends.push(why),
                _ => {}
            }
        }
        out
    }
    fn datagram(&mut self, from: SocketAddr, bytes: impl Into<Bytes>) -> Vec<Output> {
        let train = DatagramBatch::single(Payload::from(bytes.into()));
        self.input(Input::Socket(socket::Input::Datagrams { from, train }))
    }
    fn segment(&mut self, from: SocketAddr, engine: u64, number: u64, body: SegmentBody) -> Vec<Output> {
        self.datagram(from, Segment { session: SessionId { engine, number }, body }.emit())
    }
    fn send(&mut self, id: u64, len: usize) -> Vec<Segment> {
        let out = self.input(Input::send(LINK, SendId(id), bundle(id, len), true));
        sent(&out)
    }
    fn later(&mut self, seconds: u64) -> Vec<Output> {
        self.now = Instant(self.now.0 + seconds * 1_000_000_000);
        self.input(Input::Wake)
    }
}
fn data(kind: u8, offset: u64, bytes: &'static [u8], checkpoint: u64) -> SegmentBody {
    let data = Data { kind, service: 1, offset, length: bytes.len() as u64, checkpoint, report: 0 };
    SegmentBody::Data(data, Bytes::from_static(bytes))
}
fn whole() -> SegmentBody {
    data(kind::BLOCK_END, 0, b"\0\0\0\x0cabcdefgh", 3)
}
fn sent(out: &[Output]) -> Vec<Segment> {
    let trains = out.iter().filter_map(|o| match o {
        Output::Socket(socket::Output::Datagrams { train, .. }) => Some(train),
        _ => None,
    });
    trains.flat_map(|train| train.datagrams().map(|d| Segment::parse(&d.to_bytes().unwrap()).unwrap())).collect()
}
fn offers(out: &[Output]) -> usize {
    out.iter().filter(|o| matches!(o, Output::Offer { .. })).count()
}

#[test]
fn neighbour_must_use_its_address() {
    let mut bench = IdentityBench::new(|_, _| {});
    assert!(sent(&bench.segment(elsewhere(), 1, 7, whole())).is_empty());
    assert_eq!(bench.ltp.usage().imports, 0, "data");
    bench.segment(home(), 1, 8, data(kind::RED, 0, b"abc", 0));
    let out = bench.segment(elsewhere(), 1, 8, data(kind::BLOCK_END, 3, b"abc", 3));
    assert_eq!((offers(&out), sent(&out).len()), (0, 0), "more of a session it began");
    bench.segment(elsewhere(), 1, 8, SegmentBody::Cancel { by_sender: true, reason: 0 });
    assert_eq!(bench.ltp.usage().imports, 1, "a cancel");
    let session = bench.send(1, 100)[0].session;
    let report = SegmentBody::Report { serial: 9, checkpoint: 0, lower: 0, upper: 100, claims: vec![(0, 100)] };
    let out = bench.segment(elsewhere(), 2, session.number, report.clone());
    assert!(out.iter().all(|o| !matches!(o, Output::Sent { .. })), "a report");
    assert!(
        sent(&bench.segment(elsewhere(), 2, session.number, SegmentBody::Cancel { by_sender: false, reason: 4 }))
            .is_empty()
    );
    assert_eq!(bench.ltp.usage().exports, 1);
    assert_eq!(bench.malformed.len(), 5, "each is counted: {:?}", bench.malformed);
    let out = bench.segment(beside(), 2, session.number, report);
    assert!(out.iter().any(|o| matches!(o, Output::Sent { .. })), "ION sends from a socket of its own");
}

#[test]
fn moved_neighbour_is_reported() {
    // The driver reports a new address of the neighbour, and segments from there are accepted.
    let mut bench = IdentityBench::new(|_, _| {});
    bench.input(Input::Socket(socket::Input::Located { link: LINK, addresses: vec![elsewhere()] }));
    assert_eq!(offers(&bench.segment(home(), 1, 7, whole())), 0);
    assert_eq!(offers(&bench.segment(elsewhere(), 1, 7, whole())), 1);
}

#[test]
fn active_dynamic_peer_is_not_displaced() {
    // Only a dynamic peer without sessions may have changed its address.
    let mut bench = IdentityBench::new(|_, _| {});
    let other = SocketAddr::from(([192, 0, 2, 67], 1113));
    bench.segment(elsewhere(), 77, 1, data(kind::RED, 0, b"abc", 0));
    assert_eq!(offers(&bench.segment(other, 77, 2, whole())), 0);
    bench.segment(elsewhere(), 77, 1, SegmentBody::Cancel { by_sender: true, reason: 0 });
    assert_eq!(offers(&bench.segment(other, 77, 3, whole())), 1, "it may have moved meanwhile");
}

#[test]
fn wrong_port_segments_lock_nobody_out() {
    // Other ports of the neighbour's host count as guests, which share a part of the sessions.
    let mut bench = IdentityBench::new(|_, _| {});
    for number in 0..130_000 {
        bench.segment(beside(), 1, 1_000_000 + number * 3, data(kind::RED, 1 << 20, b"x", 0));
    }
    let held = bench.ltp.usage().imports;
    assert!(held <= 100_000 / 16, "a sixteenth of all sessions: {held}");
    for number in 0..20_000 {
        assert_eq!(offers(&bench.segment(home(), 1, number, whole())), 1);
    }
    let many = |n: u32| SocketAddr::from(([192, 0, 2, n as u8], (n >> 8) as u16 + 1));
    for n in 0..130_000 {
        bench.segment(many(n), 100 + u64::from(n % 500), 9_000_000 + u64::from(n), data(kind::RED, 1 << 20, b"x", 0));
    }
    let guests = bench.ltp.usage().imports - 20_000;
    assert!(guests <= 25_000, "all of them together a quarter: {guests}");
}

#[test]
fn dynamic_peers_hold_quarter_of_memory() {
    // Guests may not use all of the memory; the rest stays available to configured neighbours.
    let mut bench = IdentityBench::new(|config, _| config.memory_bytes = 1 << 23);
    static BYTES: [u8; 1000] = [7; 1000];
    let mut hold = |ports: u64| {
        for n in 0..2000 {
            let from = SocketAddr::new(elsewhere().ip(), 2000 + (n % ports) as u16);
            bench.segment(from, 77, n % 40 * ports + n % ports, data(kind::RED, 2000 * (n / 40) + 1000, &BYTES, 0));
        }
        bench.ltp.usage().arriving_bytes
    };
    let one = hold(1);
    assert!((1 << 18..(1 << 19) + 1000).contains(&one), "of one address a sixteenth: {one}");
    let all = hold(8);
    assert!((1 << 20..(1 << 21) + 1000).contains(&all), "{all}");
}

#[test]
fn forged_segment_is_not_amplified() {
    // All answers to a forged address together have at most as many bytes as were received from it.
    let mut bench = IdentityBench::new(|_, _| {});
    let (mut asked, mut answered) = (0, 0);
    let size = |out: &[Output]| sent(out).iter().map(|s| s.emit().len()).sum::<usize>();
    // Some gaps, then many checkpoints that ask for them, each with another serial number.
    for n in 0..50 {
        let body = data(kind::RED, 10 + n * 10, b"x", 0);
        asked += Segment { session: SessionId { engine: 77, number: 1 }, body: body.clone() }.emit().len();
        answered += size(&bench.segment(elsewhere(), 77, 1, body));
    }
    for n in 0..200 {
        let body = data(kind::CHECKPOINT, 600 + n, b"x", n + 1);
        asked += Segment { session: SessionId { engine: 77, number: 1 }, body: body.clone() }.emit().len();
        answered += size(&bench.segment(elsewhere(), 77, 1, body));
    }
    // A session refused for its client service is answered by a cancel segment, sent only once to an address that may
    // be forged.
    let data = Data { kind: 0, service: 3, offset: 0, length: 1, checkpoint: 0, report: 0 };
    answered += size(&bench.segment(elsewhere(), 78, 1, SegmentBody::Data(data, Bytes::from_static(b"x"))));
    for _ in 0..50 {
        answered += size(&bench.later(10));
    }
    assert!(answered < asked, "{answered} bytes in answer to {asked}");
}

/// Keeps 5326-3.1-2, 5326-9.3-3.
#[test]
fn session_numbers_differ_by_neighbour() {
    // One neighbour must not be able to predict the session numbers used with another.
    let config = |seed| Config { engine: 2, seed, split, ..Config::default() };
    let span = |link, engine| SpanConfig { link: LinkId(link), engine, node: NodeId(engine), ..SpanConfig::default() };
    let mut firsts = BTreeSet::new();
    for seed in 0..20 {
        let mut ltp = Ltp::new(config(seed), vec![span(0, 1), span(1, 3)]);
        for link in 0..2 {
            let mut out = Vec::new();
            let link = LinkId(link);
            ltp.handle(Instant(1), Input::Link { link, state: LinkState::UP }, &mut out);
            for n in 0..2 {
                let id = SendId(u64::from(link.0) * 10 + n);
                ltp.handle(Instant(1), Input::send(link, id, bundle(1, 20), true), &mut out);
            }
            ltp.handle(Instant(1), Input::Wake, &mut out);
            let numbers: Vec<u64> = sent(&out).iter().map(|s| s.session.number).collect();
            assert_eq!(numbers[1], numbers[0] + 1, "they count up: a million closed ones are one run");
            assert!(firsts.iter().all(|other: &u64| other.abs_diff(numbers[0]) > 1000), "{firsts:?}");
            firsts.insert(numbers[0]);
        }
    }
}

#[test]
fn trailing_zeros_are_counted_and_tolerated() {
    // ION pads its secondary reports with zeros.
    let mut bench = IdentityBench::new(|_, _| {});
    let session = bench.send(1, 100)[0].session;
    let body = SegmentBody::Report { serial: 9, checkpoint: 0, lower: 0, upper: 100, claims: vec![(0, 100)] };
    let mut bytes = Segment { session, body }.emit().to_vec();
    bytes.extend([0; 6]);
    let out = bench.datagram(home(), bytes);
    assert!(out.iter().any(|o| matches!(o, Output::Sent { .. })));
    assert_eq!(bench.malformed, ["bytes after an LTP segment, which was read all the same"]);
}

/// Keeps 5326-6.17-2.
#[test]
fn cancel_reports_reason_and_side() {
    let mut bench = IdentityBench::new(|_, _| {});
    let session = bench.send(1, 100)[0].session;
    bench.segment(home(), 2, session.number, SegmentBody::Cancel { by_sender: false, reason: reason::LIMIT });
    bench.segment(home(), 1, 7, data(kind::RED, 0, b"abc", 0));
    bench.segment(home(), 1, 7, SegmentBody::Cancel { by_sender: true, reason: reason::USER });
    bench.segment(home(), 1, 8, data(kind::GREEN, 10, b"abc", 0));
    bench.segment(home(), 1, 8, data(kind::RED, 12, b"abc", 0));
    let ends = [
        "cancelled by the peer: RLEXC (retransmission limit)",
        "cancelled by the peer: USR_CNCLD (not wanted)",
        "cancelled here: MISCOLORED",
    ];
    assert_eq!(bench.ends, ends);
}

/// Keeps 5326-6.13-1, 5326-6.13-2.
#[test]
fn every_report_is_acknowledged() {
    // RFC 5326 6.13: a report is acknowledged whatever its contents.
    let mut bench = IdentityBench::new(|_, _| {});
    let session = bench.send(1, 5000)[0].session;
    let report = |serial, upper| SegmentBody::Report { serial, checkpoint: 0, lower: 0, upper, claims: vec![(0, 10)] };
    for (serial, upper, number, what) in [
        (9, 5000, session.number, "new"),
        (9, 5000, session.number, "repeated"),
        (10, 9000, session.number, "of more than was sent"),
        (11, 5000, 5, "of a closed session"),
    ] {
        bench.now = Instant(bench.now.0 + 20_000_000);
        let out = bench.segment(home(), 2, number, report(serial, upper));
        assert_eq!(sent(&out)[0].body, SegmentBody::ReportAck { serial }, "{what}");
    }
    assert_eq!(bench.ltp.usage().exports, 1);
}

/// Keeps 5326-6.8-1.
#[test]
fn repeated_checkpoint_ends_the_session() {
    // RFC 5326 6.8: a repeated report counts as a retransmission.
    let mut bench = IdentityBench::new(|_, span| span.attempts = 5);
    let mut reports = 0;
    for _ in 0..20 {
        for segment in sent(&bench.segment(home(), 1, 7, data(kind::CHECKPOINT, 10, b"abc", 3))) {
            match segment.body {
                SegmentBody::Report { .. } => reports += 1,
                body => assert_eq!(body, SegmentBody::Cancel { by_sender: false, reason: reason::LIMIT }),
            }
        }
    }
    assert!((5..=6).contains(&reports), "{reports}");
    assert_eq!(bench.ends, ["cancelled here: RLEXC (retransmission limit)"]);
}

#[test]
fn closed_session_cancels_are_rate_limited() {
    // A peer that restarted may reuse a session number, and would otherwise repeat its checkpoint up to the limit.
    let cancel = || SegmentBody::Cancel { by_sender: false, reason: reason::SYSTEM };
    let said = |out: Vec<Output>| sent(&out).into_iter().map(|segment| segment.body).collect::<Vec<_>>();
    let mut bench = IdentityBench::new(|_, _| {});
    // A session can be closed in two ways: cancelled by its sender, or completed.
    bench.segment(home(), 1, 7, data(kind::RED, 0, b"abc", 0));
    bench.segment(home(), 1, 7, SegmentBody::Cancel { by_sender: true, reason: 0 });
    let out = bench.segment(home(), 1, 8, whole());
    let Some(Output::Offer { ticket, .. }) = out.iter().find(|o| matches!(o, Output::Offer { .. })) else { panic!() };
    let SegmentBody::Report { serial, .. } = sent(&bench.input(Input::Accepted { ticket: *ticket }))[0].body else {
        panic!()
    };
    bench.segment(home(), 1, 8, SegmentBody::ReportAck { serial });
    for number in [7, 8] {
        bench.later(1);
        assert_eq!(said(bench.segment(elsewhere(), 1, number, whole())), []);
        assert_eq!(said(bench.segment(home(), 1, number, data(kind::RED, 0, b"abc", 0))), [], "no timer is left");
        assert_eq!(said(bench.segment(home(), 1, number, whole())), [cancel()]);
        assert_eq!(said(bench.segment(home(), 1, number, whole())), [], "a copy of it");
        assert_eq!(said(bench.later(60)), [], "not repeated without a checkpoint");
        assert_eq!(said(bench.segment(home(), 1, number, whole())), [cancel()]);
        bench.segment(home(), 1, number, SegmentBody::CancelAck { by_sender: false });
    }
    assert_eq!(bench.ltp.usage(), Usage::default());
}

/// Keeps 5326-6.11-7, 5326-6.11-9.
#[test]
fn large_report_is_split() {
    // The cost of a checkpoint must not depend on the number of gaps.
    let mut bench = IdentityBench::new(|_, span| span.report_every = 0);
    let holes = 20_000;
    for n in 0..holes {
        bench.segment(home(), 1, 7, data(kind::RED, 10 + n * 10, b"x", 0));
    }
    let few = |out: Vec<Output>| {
        assert!(sent(&out).len() <= 16, "{} reports at once", sent(&out).len());
        out
    };
    let mut out = few(bench.segment(home(), 1, 7, data(kind::CHECKPOINT, 10 * holes + 100, b"x", 3)));
    let (mut claims, mut rounds) = (BTreeSet::new(), 0);
    loop {
        let reports = sent(&out);
        if reports.is_empty() {
            break;
        }
        rounds += 1;
        bench.now = Instant(bench.now.0 + 20_000_000);
        out = few(bench.input(Input::Wake));
        for report in reports {
            let SegmentBody::Report { serial, claims: these, .. } = report.body else { panic!() };
            claims.extend(these);
            out.extend(few(bench.segment(home(), 1, 7, SegmentBody::ReportAck { serial })));
        }
    }
    assert_eq!(claims.len() as u64, holes + 1, "all is told in the end, in {rounds} rounds");
}

/// Sends a block of 1 MiB, or only its first `until` bytes, from a peer without a link. Returns whether the block's
/// bundle was offered and accepted.
fn stranger_sends(bench: &mut IdentityBench, number: u64, until: u64) -> bool {
    static REST: [u8; 1000] = [7; 1000];
    // A bundle of 1,048,576 bytes, which begins with its length in 4 bytes.
    bench.segment(elsewhere(), 77, number, data(kind::RED, 0, &[0, 16, 0, 0], 0));
    let mut at = 4;
    while at < until {
        let length = (until - at).min(1000);
        let end = at + length == 1 << 20;
        let body = data(if end { kind::BLOCK_END } else { kind::RED }, at, &REST[..length as usize], u64::from(end));
        for output in bench.segment(elsewhere(), 77, number, body) {
            if let Output::Offer { ticket, last: true, .. } = output {
                bench.input(Input::Accepted { ticket });
                return true;
            }
        }
        at += length;
    }
    false
}

#[test]
fn long_blocks_of_strangers_arrive() {
    // A block may exceed the memory share of one address, so its start must be offered before that share is used up.
    for memory in [1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24, 1 << 30] {
        let mut bench = IdentityBench::new(|config, _| config.memory_bytes = memory);
        for number in 1..=6 {
            assert!(stranger_sends(&mut bench, number, 1 << 20), "{memory} B, {number}: {:?}", bench.ltp.usage());
        }
    }
}

#[test]
fn ended_sessions_of_strangers_weigh_nothing() {
    let mut bench = IdentityBench::new(|config, _| config.memory_bytes = 1 << 22);
    for number in 1..=20 {
        // Each session holds more than a tenth of the memory share of one address until its sender cancels it.
        assert!(!stranger_sends(&mut bench, number, 30_000));
        bench.segment(elsewhere(), 77, number, SegmentBody::Cancel { by_sender: true, reason: 0 });
        assert_eq!(bench.ltp.usage().imports, 0);
    }
    assert!(stranger_sends(&mut bench, 21, 1 << 20), "{:?}", bench.ltp.usage());
}

#[test]
fn strangers_hold_at_most_half_of_memory() {
    static BYTES: [u8; 1000] = [7; 1000];
    for memory in [1 << 20, 1 << 21, 1 << 22, 1 << 23] {
        let mut bench = IdentityBench::new(|config, _| config.memory_bytes = memory);
        let part = (memory / 16).max(192 << 10) / 8;
        let from = |number: u64| SocketAddr::new(elsewhere().ip(), 2000 + (number % 8) as u16);
        for number in 0..96 {
            // Data beyond a gap, so much that the session may exceed its share to extend its contiguous start.
            for piece in 0..(2 * part).div_ceil(1000) {
                bench.segment(from(number), 77, number, data(kind::RED, 30_000_000 + 1000 * piece, &BYTES, 0));
            }
        }
        for number in 0..96 {
            // The start of a long bundle, up to just before a further part can be offered.
            bench.segment(from(number), 77, number, data(kind::RED, 0, &[0x7f, 16, 0, 0], 0));
            for piece in 0..((64 << 10) / part * part + 2 * part - 2000) / 1000 {
                bench.segment(from(number), 77, number, data(kind::RED, 4 + 1000 * piece, &BYTES, 0));
            }
        }
        let held = bench.ltp.usage().arriving_bytes;
        assert!(held <= memory / 2, "{held} of {memory} B");
    }
}
