//! Tests of LTP links that are added and removed while sessions are open, and of bundles that are withdrawn.

use crate::datagram_common::{Channel, EnginePair, LINK, bundle, split};
use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Bytes, DataRate, Duration, Instant, LinkId, NodeId, Payload};
use farlink_cla::ltp::segment::{Data, Segment, SegmentBody, SessionId, kind, reason};
use farlink_cla::ltp::{Config, Ltp, SpanConfig, Usage};
use std::net::SocketAddr;

fn add(world: &mut EnginePair, side: usize) {
    let span = world.sides[side].span.clone();
    let mut out = Vec::new();
    let now = world.now;
    assert!(world.sides[side].ltp.add_span(now, span, &mut out));
    world.carry_out(side, out);
    world.tell_links();
}
fn remove(world: &mut EnginePair, side: usize) {
    world.input(side, Input::RemoveLink { link: LINK });
    assert!(!world.sides[side].ready && world.sides[side].open.is_empty(), "everything was given back");
    let usage = world.usage()[side];
    assert_eq!((usage.exports, usage.imports, usage.cancelled, usage.in_flight_bytes), (0, 0, 0, 0));
}
/// Two engines that accept no unknown peers, because their agents know one link only.
fn world(seed: u64, channel: Channel, span: SpanConfig) -> EnginePair {
    EnginePair::with(seed, channel, span, |_, config| config.accept_unknown = false)
}
fn steps(world: &mut EnginePair, steps: u64) {
    for _ in 0..steps {
        world.step();
    }
}
fn slow() -> Channel {
    Channel { delay: [Duration::from_secs(1); 2], rate: Some(DataRate(1_000_000)), ..Channel::default() }
}

#[test]
fn link_readded_mid_transfer_loses_nothing() {
    // Unsent bundles return to the agent, and sessions under way are cancelled.
    for side in [0, 1] {
        for loss in [0.0, 0.2] {
            let mut world = world(1, Channel { loss: [loss; 2], ..slow() }, SpanConfig::default());
            for number in 0..40 {
                world.offer((number % 2) as usize, number, bundle(number, 5000), true);
            }
            (0..2).for_each(|side| world.input(side, Input::Wake));
            for _ in 0..4 {
                (0..60).for_each(|_| assert!(world.step()));
                remove(&mut world, side);
                steps(&mut world, 20);
                add(&mut world, side);
            }
            world.run(200_000);
            for (side, parity) in [(0, 1), (1, 0)] {
                assert!((0..40).filter(|n| n % 2 == parity).all(|n| world.sides[side].accepted.contains(&n)));
            }
            world.settle();
        }
    }
}

#[test]
fn thousand_flaps_leave_nothing() {
    let mut world = world(3, Channel::default(), SpanConfig { aggregate_bytes: 2500, ..SpanConfig::default() });
    for flap in 0..1000u64 {
        let side = (flap % 2) as usize;
        world.offer(side, flap, bundle(flap, 1000 + (flap as usize * 37) % 9000), flap % 3 > 0);
        world.input(side, Input::Wake);
        steps(&mut world, flap % 7);
        remove(&mut world, side);
        assert_eq!(world.sides[side].ltp.next_timeout(), None, "no timer without a link");
        add(&mut world, side);
        assert_eq!(world.sides[side].ltp.places(), 1);
        world.sides[side].waiting.clear();
    }
    world.settle();
    assert!(world.sides.iter().all(|side| side.peers.len() == 1));
}

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], 1113))
}
fn span(link: u32, engine: u64) -> SpanConfig {
    SpanConfig { link: LinkId(link), engine, node: NodeId(engine), ..SpanConfig::default() }
}
/// Engine 2 with spans given as (link, engine), driven by hand.
struct SpansBench {
    ltp: Ltp,
    now: Instant,
}
impl SpansBench {
    fn new(spans: &[(u32, u64)]) -> SpansBench {
        let config = Config { engine: 2, seed: 5, split, ..Config::default() };
        let ltp = Ltp::new(config, spans.iter().map(|(link, engine)| span(*link, *engine)).collect());
        let mut bench = SpansBench { ltp, now: Instant(1_000_000_000) };
        spans.iter().for_each(|(link, _)| drop(bench.up(*link)));
        bench
    }
    fn up(&mut self, link: u32) -> Vec<Output> {
        self.input(Input::Link { link: LinkId(link), state: LinkState::UP })
    }
    fn input(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        self.ltp.handle(self.now, input, &mut out);
        while self.ltp.next_timeout().is_some_and(|t| t <= self.now) {
            self.ltp.handle(self.now, Input::Wake, &mut out);
        }
        out
    }
    fn send(&mut self, link: u32, id: u64, len: usize) -> Vec<Output> {
        let bundle = bundle(id, len);
        self.input(Input::send(LinkId(link), SendId(id), bundle, true))
    }
    fn cancel(&mut self, link: u32, id: u64) -> Vec<Output> {
        self.input(Input::CancelSend { link: LinkId(link), id: SendId(id) })
    }
    fn segment(&mut self, from: SocketAddr, engine: u64, number: u64, body: SegmentBody) -> Vec<Output> {
        let bytes = Segment { session: SessionId { engine, number }, body }.emit();
        self.input(Input::Socket(socket::Input::Datagrams { from, train: DatagramBatch::single(Payload::from(bytes)) }))
    }
    fn add(&mut self, span: SpanConfig) -> Vec<Output> {
        let mut out = Vec::new();
        assert!(self.ltp.add_span(self.now, span, &mut out));
        out
    }
}
fn red(checkpoint: u64) -> SegmentBody {
    let kind = if checkpoint == 0 { kind::RED } else { kind::BLOCK_END };
    let bytes = Bytes::from_static(b"\0\0\0\x0cabcdefgh");
    SegmentBody::Data(Data { kind, service: 1, offset: 0, length: 12, checkpoint, report: 0 }, bytes)
}
fn sent(out: &[Output]) -> Vec<Segment> {
    let trains = out.iter().filter_map(|o| {
        if let Output::Socket(socket::Output::Datagrams { train, .. }) = o { Some(train) } else { None }
    });
    trains.flat_map(|train| train.datagrams().map(|d| Segment::parse(&d.to_bytes().unwrap()).unwrap())).collect()
}
fn failed(out: &[Output]) -> Vec<u64> {
    let id = |o: &Output| match o {
        Output::SendFailed { id, refused: None, .. } => Some(id.0),
        _ => None,
    };
    out.iter().filter_map(id).collect()
}
fn links_up(out: &[Output]) -> Vec<LinkId> {
    out.iter().filter_map(|o| if let Output::PeerUp { link, .. } = o { Some(*link) } else { None }).collect()
}

#[test]
fn link_removal_cancels_at_peer_only() {
    // Sessions of other links continue.
    let mut bench = SpansBench::new(&[(0, 1), (1, 3)]);
    bench.segment(address(1), 1, 7, red(0));
    bench.segment(address(3), 3, 7, red(0));
    bench.send(0, 1, 100);
    let kept = sent(&bench.send(1, 2, 100))[0].session.number;
    let out = bench.input(Input::RemoveLink { link: LinkId(0) });
    assert_eq!(failed(&out), [1]);
    let farewells: Vec<SegmentBody> = sent(&out).into_iter().map(|segment| segment.body).collect();
    let cancel = |by_sender, reason| SegmentBody::Cancel { by_sender, reason };
    assert_eq!(farewells, [cancel(true, reason::USER), cancel(false, reason::SYSTEM)]);
    let words: Vec<bool> = out
        .iter()
        .filter_map(|o| match o {
            Output::Ready { link: LinkId(0), ready: false } => Some(true),
            Output::PeerDown { link: LinkId(0) } => Some(false),
            _ => None,
        })
        .collect();
    assert_eq!(words, [true, false]);
    let usage = bench.ltp.usage();
    assert_eq!((usage.exports, usage.imports), (1, 1), "those of the other link");
    assert_eq!(failed(&bench.send(0, 3, 10)), [3], "there is no such link");
    let report = SegmentBody::Report { serial: 9, checkpoint: 0, lower: 0, upper: 100, claims: vec![(0, 100)] };
    let out = bench.segment(address(3), 2, kept, report);
    assert!(out.iter().any(|o| matches!(o, Output::Sent { id: SendId(2), link: LinkId(1) })));
    assert!(bench.input(Input::RemoveLink { link: LinkId(0) }).is_empty());
    // The unused entry is taken by another neighbour with another link number.
    bench.add(span(5, 4));
    bench.up(5);
    assert_eq!(bench.ltp.places(), 2);
    let out = bench.segment(address(4), 4, 1, red(3));
    assert!(out.iter().any(|o| matches!(o, Output::Offer { link: LinkId(5), .. })));
}

#[test]
fn restarted_link_cancels_old_sessions() {
    // The sessions of the removed link are cancelled until the peer acknowledges.
    let mut bench = SpansBench::new(&[(0, 1)]);
    let state = LinkState { rate: Some(DataRate(10_000_000_000)), ..LinkState::UP };
    bench.input(Input::Link { link: LinkId(0), state });
    let begin = |id| {
        bench.now += Duration::from_millis(1);
        sent(&bench.send(0, id, 100))[0].session.number
    };
    let begun: Vec<u64> = (0..100).map(begin).collect();
    bench.segment(address(1), 1, 7, red(0));
    // One session was cancelled before the link is removed, and its cancellation is not acknowledged yet.
    bench.cancel(0, 0);
    let told = sent(&bench.input(Input::RemoveLink { link: LinkId(0) }));
    assert_eq!(told.len(), 101, "all of them hear once");
    assert_eq!((bench.ltp.usage(), bench.ltp.next_timeout()), (Usage::default(), None));
    bench.add(span(0, 1));
    let mut heard: Vec<SessionId> = Vec::new();
    let out = bench.input(Input::Link { link: LinkId(0), state });
    heard.extend(sent(&out).iter().map(|segment| segment.session));
    // Half of the cancel segments are acknowledged; the others are repeated.
    for number in &begun[..50] {
        bench.segment(address(1), 2, *number, SegmentBody::CancelAck { by_sender: true });
    }
    bench.segment(address(1), 1, 7, SegmentBody::CancelAck { by_sender: false });
    heard.sort_unstable_by_key(|id| (id.engine, id.number));
    heard.dedup();
    assert_eq!(heard.len(), 101);
    bench.now += Duration::from_secs(1);
    let again = sent(&bench.input(Input::Wake));
    let numbers: Vec<u64> = again.iter().map(|segment| segment.session.number).collect();
    assert_eq!(numbers.len(), 50);
    assert!(begun[50..].iter().all(|number| numbers.contains(number)));
    // The cancel segments kept from the removed link are repeated no longer than others.
    for _ in 0..50 {
        bench.now += Duration::from_secs(10);
        bench.input(Input::Wake);
    }
    assert_eq!((bench.ltp.usage(), bench.ltp.next_timeout()), (Usage::default(), None));
    assert!(!sent(&bench.send(0, 200, 100)).is_empty(), "and it goes on");
}

#[test]
fn checkpoint_may_follow_last_byte() {
    // The segment that ends the block is a checkpoint without data.
    let mut bench = SpansBench::new(&[(0, 1)]);
    bench.segment(address(1), 1, 5, red(0));
    let end = Data { kind: kind::BLOCK_END, service: 1, offset: 12, length: 0, checkpoint: 3, report: 0 };
    let out = bench.segment(address(1), 1, 5, SegmentBody::Data(end, Bytes::new()));
    let ticket = out.iter().find_map(|o| if let Output::Offer { ticket, .. } = o { Some(*ticket) } else { None });
    let out = bench.input(Input::Accepted { ticket: ticket.expect("all of it is here") });
    assert!(matches!(&sent(&out)[0].body, SegmentBody::Report { checkpoint: 3, upper: 12, .. }), "{out:?}");
    for (offset, kind) in [(0, kind::BLOCK_END), (12, kind::RED)] {
        let nothing = Data { kind, offset, ..end };
        let out = bench.segment(address(1), 1, 9, SegmentBody::Data(nothing, Bytes::new()));
        assert!(sent(&out).is_empty() && bench.ltp.usage().imports == 1, "the segment is invalid");
    }
}

/// Keeps 5326-3.1-2.
#[test]
fn greatest_session_number_works() {
    let mut bench = SpansBench::new(&[(0, 1)]);
    bench.segment(address(1), 1, 5, red(3));
    bench.segment(address(1), 1, 5, SegmentBody::Cancel { by_sender: true, reason: 0 });
    let out = bench.segment(address(1), 1, u64::MAX, red(3));
    assert!(out.iter().any(|o| matches!(o, Output::Offer { .. })), "{out:?}");
}

/// Brings up a link that only its limits on sessions and bytes in flight slow down.
fn fast(bench: &mut SpansBench, link: u32) -> Vec<Output> {
    let state = LinkState { rate: Some(DataRate(10_000_000_000)), ..LinkState::UP };
    bench.input(Input::Link { link: LinkId(link), state })
}
/// Gives bundles to all ready links until no link is ready.
fn fill(bench: &mut SpansBench, ready: &mut [bool; 2], next: &mut u64, len: usize) -> Vec<Segment> {
    let mut segments = Vec::new();
    while let Some(link) = ready.iter().position(|ready| *ready) {
        *next += 1;
        let out = bench.send(link as u32, *next, len);
        segments.extend(sent(&out));
        note(ready, &out);
    }
    segments
}
fn note(ready: &mut [bool; 2], out: &[Output]) {
    for output in out {
        if let Output::Ready { link, ready: now } = output {
            ready[link.0 as usize] = *now;
        }
    }
}

#[test]
fn total_flight_is_bounded() {
    // A peer that never answers must leave room for other links.
    const BOUND: u64 = 400_000;
    let config = Config { engine: 2, seed: 5, split, in_flight_bytes: BOUND, ..Config::default() };
    let ltp = Ltp::new(config, vec![span(0, 1), span(1, 3)]);
    let mut bench = SpansBench { ltp, now: Instant(1_000_000_000) };
    let (mut ready, mut next) = ([false; 2], 0);
    note(&mut ready, &fast(&mut bench, 0));
    fill(&mut bench, &mut ready, &mut next, 10_000);
    assert_eq!((ready, bench.ltp.usage().in_flight_bytes), ([false; 2], BOUND / 4 * 3), "a peer that never answers");
    for _ in 0..10 {
        bench.now += Duration::from_millis(1);
        bench.input(Input::Wake);
    }
    let mut out = fast(&mut bench, 1);
    for _ in 0..5 {
        note(&mut ready, &out);
        assert_eq!(ready, [false, true]);
        let segments = fill(&mut bench, &mut ready, &mut next, 10_000);
        assert_eq!(bench.ltp.usage().in_flight_bytes, BOUND / 4 * 3 + 10_000, "one block of the other link");
        let session = segments.last().expect("it leaves").session.number;
        let report =
            SegmentBody::Report { serial: 9, checkpoint: 0, lower: 0, upper: 10_000, claims: vec![(0, 10_000)] };
        out = bench.segment(address(3), 2, session, report);
        bench.now += Duration::from_millis(1);
        assert!(out.iter().any(|o| matches!(o, Output::Sent { link: LinkId(1), .. })));
    }
    // One block longer than the bound is accepted, and then nothing until there is room.
    note(&mut ready, &out);
    let long = fill(&mut bench, &mut ready, &mut next, BOUND as usize * 2);
    assert_eq!(ready, [false; 2]);
    assert!(!long.is_empty());
    note(&mut ready, &bench.input(Input::RemoveLink { link: LinkId(0) }));
    assert_eq!(ready, [false; 2]);
    bench.add(span(0, 1));
    note(&mut ready, &fast(&mut bench, 0));
    assert_eq!(ready, [false; 2], "not for a link with nothing in flight either");
    note(&mut ready, &bench.cancel(1, next));
    assert_eq!(ready, [true; 2]);
    fill(&mut bench, &mut ready, &mut next, 10_000);
    assert_eq!(bench.ltp.usage().in_flight_bytes, BOUND / 4 * 3 + 10_000);
}

#[test]
fn sibling_links_change_in_any_order() {
    // Several links to one engine form a chain; its head may be removed first.
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let mut bench = SpansBench::new(&[(0, 1), (1, 1), (2, 1)]);
        for (n, link) in order.into_iter().enumerate() {
            let out = bench.segment(address(1), 1, 10 + n as u64, red(3));
            assert!(out.iter().any(|o| matches!(o, Output::Offer { link, .. } if !link.is_dynamic())));
            bench.input(Input::RemoveLink { link: LinkId(link) });
        }
        let late = bench.segment(address(1), 1, 19, red(3));
        assert_eq!((links_up(&late), late.len()), (vec![], 0), "late segments make no dynamic link");
        bench.now += Duration::from_secs(61);
        let out = bench.segment(address(1), 1, 20, red(3));
        assert!(links_up(&out)[0].is_dynamic(), "a dynamic peer now");
        let out = bench.add(span(0, 1));
        assert!(
            out.iter().any(|o| matches!(o, Output::PeerDown { link } if link.is_dynamic())),
            "and a neighbour again"
        );
        assert_eq!(links_up(&bench.up(0)), [LinkId(0)]);
        let out = bench.segment(address(1), 1, 21, red(3));
        assert!(out.iter().any(|o| matches!(o, Output::Offer { link: LinkId(0), .. })), "{out:?}");
    }
    let mut bench = SpansBench::new(&[(0, 1)]);
    assert!(!bench.ltp.add_span(bench.now, span(0, 9), &mut Vec::new()), "the number is taken");
}

#[test]
fn nobody_else_is_this_engine() {
    // Segments that claim to come from this engine's own number open no session.
    let mut bench = SpansBench::new(&[(0, 1)]);
    assert_eq!(links_up(&bench.segment(address(9), 2, 1, red(3))), []);
    assert!(links_up(&bench.segment(address(9), 9, 1, red(3)))[0].is_dynamic());
}

#[test]
fn churning_dynamic_links_stay_bounded() {
    // Entries of removed links are reused.
    let mut bench = SpansBench::new(&[(0, 1)]);
    let (mut up, mut down) = (0, 0);
    for engine in 100..4000u64 {
        let from = SocketAddr::from(([10, 9, (engine / 250) as u8, (engine % 250) as u8], 1113));
        let mut out = bench.segment(from, engine, 1, red(0));
        out.extend(bench.segment(from, engine, 1, SegmentBody::Cancel { by_sender: true, reason: 0 }));
        up += links_up(&out).len();
        down += out.iter().filter(|o| matches!(o, Output::PeerDown { .. })).count();
    }
    assert_eq!((up, down), (3900, 3900 - 1024));
    assert_eq!(bench.ltp.places(), 1025);
    assert_eq!(bench.ltp.usage(), Usage::default());
}

/// Keeps 5326-4.2-1, 5326-4.2-2.
#[test]
fn only_begun_sessions_are_cancelled() {
    // A withdrawn bundle that has not begun to leave is removed without a cancel segment.
    let mut bench = SpansBench::new(&[(0, 1)]);
    let begun = sent(&bench.send(0, 1, 100))[0].session;
    let out = bench.cancel(0, 1);
    assert_eq!(failed(&out), [1]);
    let cancel = SegmentBody::Cancel { by_sender: true, reason: reason::USER };
    assert_eq!(sent(&out), [Segment { session: begun, body: cancel }]);
    assert!(bench.cancel(0, 1).is_empty(), "answered once");
    bench.segment(address(1), 2, begun.number, SegmentBody::CancelAck { by_sender: true });
    assert_eq!((bench.ltp.usage(), bench.ltp.next_timeout()), (Usage::default(), None));
    bench.input(Input::Link { link: LinkId(0), state: LinkState::DOWN });
    bench.send(0, 2, 100);
    let out = bench.cancel(0, 2);
    assert_eq!((failed(&out), sent(&out).len()), (vec![2], 0));
    assert_eq!((bench.ltp.usage(), bench.ltp.next_timeout()), (Usage::default(), None));
    assert!(bench.cancel(7, 2).is_empty() && bench.cancel(0, 99).is_empty());
}

#[test]
fn aggregated_bundle_goes_along() {
    // A withdrawn bundle that has begun to leave in a shared block is sent, because it cannot be cut out.
    let mut world = EnginePair::new(1, slow(), SpanConfig { aggregate_bytes: 4000, ..SpanConfig::default() });
    (0..3).for_each(|n| world.offer(0, n, bundle(n, 1500), true));
    world.input(0, Input::Wake);
    assert_eq!(world.usage()[0].exports, 1);
    world.input(0, Input::CancelSend { link: LINK, id: SendId(0) });
    assert_eq!(world.sides[0].failed, 0);
    world.run(10_000);
    assert!(world.sides[1].accepted.contains(&0) && world.sides[0].done.contains(&0), "reported as sent");
    world.settle();
}

#[test]
fn blocks_are_shared_at_any_rate() {
    // A block that gathers bundles is filled up to its size, however slow the link.
    for rate in [None, Some(1_000_000), Some(100_000_000)] {
        let channel = Channel { rate: rate.map(DataRate), ..Channel::default() };
        let span =
            SpanConfig { aggregate_bytes: 400_000, aggregate_wait: Duration::from_secs(2), ..SpanConfig::default() };
        let mut world = EnginePair::new(1, channel, span);
        (0..3).for_each(|n| world.offer(0, n, bundle(n, 100_000), true));
        world.input(0, Input::Wake);
        assert_eq!(world.usage()[0].in_flight_bytes, 300_000, "{rate:?}: all wait for one block");
        (3..6).for_each(|n| world.offer(0, n, bundle(n, 150_000), true));
        world.run(100_000);
        assert_eq!(world.sides[0].ends.values().sum::<u32>(), 3, "{rate:?}: full at 400 kB, and after 2 s");
        world.settle();
    }
}

#[test]
fn withdrawn_and_resent_bundle_arrives_once() {
    // The receiver may have accepted the bundle before its sender withdrew it.
    let mut world = EnginePair::new(1, Channel { loss: [0.1; 2], ..slow() }, SpanConfig::default());
    (0..30).for_each(|n| world.offer(0, n, bundle(n, 3000), true));
    world.input(0, Input::Wake);
    for _ in 0..20 {
        steps(&mut world, 15);
        let open: Vec<SendId> = world.sides[0].open.keys().copied().step_by(2).collect();
        open.into_iter().for_each(|id| world.input(0, Input::CancelSend { link: LINK, id }));
    }
    world.run(200_000);
    assert_eq!(world.sides[1].accepted.len(), 30);
    assert!(world.sides[0].failed > 0);
    world.settle();
}

/// Two engines with little memory, and bundles that are sent in parts.
fn long_bundles(seed: u64, loss: f64, sizes: &[usize]) -> EnginePair {
    let channel =
        Channel { loss: [loss; 2], delay: [Duration::from_millis(50); 2], rate: Some(DataRate(100_000_000)), ..slow() };
    let mut world =
        EnginePair::with(seed, channel, SpanConfig { attempts: 60, ..SpanConfig::default() }, |_, config| {
            config.accept_unknown = false;
            config.memory_bytes = 4 << 20;
        });
    world.stream_from = 100_000;
    sizes.iter().enumerate().for_each(|(n, len)| world.offer(n % 2, n as u64, bundle(n as u64, *len), true));
    (0..2).for_each(|side| world.input(side, Input::Wake));
    world
}
fn all_arrive(world: &mut EnginePair, count: u64) {
    world.run(1_000_000);
    let accepted = |n: u64| world.sides[1 - (n % 2) as usize].accepted.contains(&n);
    assert!((0..count).all(accepted), "{:?} {:?}", world.sides[0].accepted, world.sides[1].accepted);
    world.settle();
}

#[test]
fn streamed_bundles_survive_link_removal() {
    // The link is removed while bundles are leaving, and while they are held.
    for side in [0, 1] {
        for loss in [0.0, 0.05] {
            let mut world = long_bundles(5, loss, &[2_500_000, 1_700_000, 900_000, 400]);
            world.hold = (0.3, Duration::from_millis(120));
            let mut aborted = 0;
            for _ in 0..4 {
                steps(&mut world, 1200);
                remove(&mut world, side);
                aborted += world.sides[side].aborted;
                // Parts that were requested before, and a late resume, have no effect.
                steps(&mut world, 20);
                add(&mut world, side);
            }
            assert!(aborted > 0 || loss > 0.0, "something was arriving");
            all_arrive(&mut world, 4);
        }
    }
}

#[test]
fn streamed_bundles_can_be_withdrawn_anytime() {
    let mut world = long_bundles(6, 0.02, &[1_500_000, 700_000, 300_000, 1_100_000, 200_000, 5000]);
    for round in 0..12 {
        steps(&mut world, 500);
        for side in 0..2 {
            let open: Vec<SendId> = world.sides[side].open.keys().copied().collect();
            let taken = open.into_iter().nth(round % 3);
            taken.into_iter().for_each(|id| world.input(side, Input::CancelSend { link: LINK, id }));
        }
    }
    assert!(world.sides.iter().all(|side| side.failed > 0));
    all_arrive(&mut world, 6);
}
