//! Tests of blocks with several bundles (CCSDS 734.1, service data aggregation) or with a green part (RFC 5326 4.1).

use crate::datagram_common;

use crate::datagram_common::{Channel, EnginePair};
use crate::ltp_bench::{LINK, LtpBench, bundle, segments, talk};
use farlink_base::layer::{Input, LinkState, SendId};
use farlink_base::{Bytes, DataRate, Duration};
use farlink_cla::ltp::segment::{
    Data, SERVICE_AGGREGATE, SERVICE_BUNDLE, Segment, SegmentBody, SessionId, kind, reason,
};
use farlink_cla::ltp::{SpanConfig, Usage};

fn data(segment: &Segment) -> Option<(Data, Bytes)> {
    if let SegmentBody::Data(data, bytes) = &segment.body { Some((*data, bytes.clone())) } else { None }
}
/// Block that these segments carry, and its client service number.
fn block(segments: &[Segment]) -> (Vec<u8>, u64) {
    let parts: Vec<_> = segments.iter().filter_map(data).collect();
    (parts.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect(), parts[0].0.service)
}
/// Segment with a whole block of engine 1.
fn one(number: u64, service: u64, bytes: &[u8]) -> Bytes {
    let length = bytes.len() as u64;
    let data = Data { kind: kind::BLOCK_END, service, offset: 0, length, checkpoint: 5, report: 0 };
    let body = SegmentBody::Data(data, Bytes::copy_from_slice(bytes));
    Segment { session: SessionId { engine: 1, number }, body }.emit()
}
fn gathers(span: &mut SpanConfig) {
    span.aggregate_marked = true;
    span.aggregate_bytes = 100_000;
    span.aggregate_wait = Duration::from_millis(50);
}

#[test]
fn only_shared_blocks_are_marked() {
    // A single bundle is sent as client service 1, so that any peer can read it.
    let mut a = LtpBench::new(1, 2, |_, span| gathers(span));
    let bundles = [bundle(1, 100), bundle(2, 3000), bundle(3, 50)];
    for (id, payload) in bundles.iter().enumerate() {
        assert!(a.send(id as u64, payload.clone(), true).is_empty(), "it waits");
    }
    let left = a.later(0.05);
    let (bytes, service) = block(&segments(&left));
    let marked: Vec<u8> = bundles.iter().flat_map(|b| [&[1][..], &b.to_bytes().unwrap()].concat()).collect();
    assert_eq!((bytes == marked, service), (true, SERVICE_AGGREGATE));
    let mut b = LtpBench::new(2, 1, |_, _| {});
    talk([&mut a, &mut b], [1, 2], left, |_, _| false);
    assert!(b.bundles() == bundles && a.sent == [0, 1, 2].map(SendId), "accepted without any setting");
    a.send(9, bundle(9, 70), true);
    let alone = segments(&a.later(0.05));
    assert_eq!(block(&alone), (bundle(9, 70).to_bytes().unwrap().to_vec(), SERVICE_BUNDLE));
}

#[test]
fn bundles_go_alone_without_peer_support() {
    // A peer that does not know client service 2 cancels the block.
    let mut a = LtpBench::new(1, 2, |_, span| gathers(span));
    (1..4).for_each(|id| drop(a.send(id, bundle(id as u8, 200), true)));
    let session = segments(&a.later(0.05))[0].session;
    let cancel = Segment { session, body: SegmentBody::Cancel { by_sender: false, reason: reason::UNREACHABLE } };
    let again = segments(&a.receive(2, cancel.emit()));
    let alone: Vec<_> = again.iter().filter_map(data).collect();
    assert!(alone.iter().all(|(data, _)| data.service == SERVICE_BUNDLE && data.offset == 0));
    let bytes: Vec<Bytes> = alone.into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(bytes, [1, 2, 3].map(|id| bundle(id, 200).to_bytes().unwrap()));
    assert!(a.failed.is_empty());
}

#[test]
fn broken_aggregate_loses_only_its_remainder() {
    // The length of an item for an unknown service is unknown, so the rest of its block is lost.
    let item = |mark: &[u8], number| [mark, &bundle(number, 40).to_bytes().unwrap()].concat();
    let mut b = LtpBench::new(2, 1, |_, _| {});
    // The second item is for an unknown service, so its end is unknown.
    let report = b.receive(1, one(1, SERVICE_AGGREGATE, &[item(&[1], 1), item(&[3], 2), item(&[1], 3)].concat()));
    assert_eq!(b.bundles(), [bundle(1, 40)]);
    assert_eq!((segments(&report)[0].kind(), b.dropped.len()), (kind::REPORT, 1));
    // If no item can be read, the block is cancelled.
    for broken in [item(&[7], 1), vec![0xff; 20], vec![1], vec![0x81]] {
        let mut b = LtpBench::new(2, 1, |_, _| {});
        let answer = segments(&b.receive(1, one(2, SERVICE_AGGREGATE, &broken)));
        assert_eq!(answer[0].body, SegmentBody::Cancel { by_sender: false, reason: reason::USER }, "{broken:?}");
        assert!(b.arrived.is_empty());
    }
    // Blocks of an unknown service are cancelled as a whole, with their own reason.
    let answer = segments(&b.receive(1, one(3, 3, &item(&[1], 1))));
    assert_eq!(answer[0].body, SegmentBody::Cancel { by_sender: false, reason: reason::UNREACHABLE });
    // Green aggregates are read in the same way.
    let bytes = [item(&[1], 5), item(&[0x80, 1], 6)].concat();
    let length = bytes.len() as u64;
    let data = Data { kind: kind::GREEN_END, service: 2, offset: 0, length, checkpoint: 0, report: 0 };
    let body = SegmentBody::Data(data, bytes.into());
    b.receive(1, Segment { session: SessionId { engine: 1, number: 8 }, body }.emit());
    assert_eq!(b.bundles()[1..], [bundle(5, 40), bundle(6, 40)]);
}

#[test]
fn marked_blocks_survive_loss_and_restarts() {
    for seed in 0..20 {
        let mut span = SpanConfig::default();
        gathers(&mut span);
        let rate = Some(DataRate(20_000_000));
        let channel = Channel { loss: [0.1; 2], jitter: Duration::from_millis(2), rate, ..Channel::default() };
        let mut world = EnginePair::new(seed, channel, span);
        for number in 0..60 {
            world.offer(0, number, datagram_common::bundle(number, 20 + number as usize * 97), true);
        }
        // A refused bundle must not affect the others in its block.
        world.refuse.insert(7, farlink_base::Refusal::Duplicate);
        world.sides[1].accepted.insert(7);
        if seed % 2 == 0 {
            world.restart_at(0.08, (seed / 2 % 2) as usize);
        }
        world.run(1_000_000);
        world.settle();
        assert_eq!((world.sides[1].accepted.len(), world.sides[1].malformed), (60, 0), "seed {seed}");
    }
}

/// Keeps 5326-4.1-2, 5326-4.1-4, 5326-4.1-5, 5326-6.12-1.
#[test]
fn block_is_red_then_green() {
    for (len, wanted) in [
        (5000, vec![kind::RED_END, kind::GREEN, kind::GREEN, kind::GREEN, kind::GREEN_END]),
        (301, vec![kind::RED_END, kind::GREEN_END]),
        (300, vec![kind::BLOCK_END]),
        (80, vec![kind::BLOCK_END]),
    ] {
        let mut a = LtpBench::new(1, 2, |_, span| span.green_from = 300);
        let left = segments(&a.send(1, bundle(1, len), true));
        let parts: Vec<Data> = left.iter().filter_map(data).map(|(data, _)| data).collect();
        let kinds: Vec<u8> = parts.iter().map(|data| data.kind).collect();
        assert_eq!(kinds, wanted, "{len}");
        let red: u64 = parts.iter().filter(|data| data.is_red()).map(|data| data.length).sum();
        assert_eq!((red, a.ltp.usage().exports), (300.min(len as u64), 1));
        // The sender waits only for claims on the red part.
        let claims = vec![(0, red)];
        let report = SegmentBody::Report { serial: 9, checkpoint: parts[0].checkpoint, lower: 0, upper: red, claims };
        a.receive(2, Segment { session: left[0].session, body: report }.emit());
        assert_eq!((a.sent.len(), a.ltp.usage()), (1, Usage::default()));
    }
    // Unreliable bundles are green from their first byte.
    let mut a = LtpBench::new(1, 2, |_, span| span.green_from = 300);
    let left = segments(&a.send(1, bundle(1, 2000), false));
    assert!(left.iter().filter_map(data).all(|(data, _)| !data.is_red()) && a.sent.len() == 1);
}

#[test]
fn red_part_across_border_is_repaired() {
    // The bundle has a red and a green part, and lost red data must be retransmitted.
    for (len, lose) in [(300, usize::MAX), (5000, usize::MAX), (5000, 0), (200_000, 1), (3_000_000, 2)] {
        let mut a = LtpBench::new(1, 2, |_, span| span.green_from = if len > 100_000 { 150_000 } else { 250 });
        let mut b = LtpBench::new(2, 1, |config, _| config.memory_bytes = 16 << 20);
        let first = a.send(1, bundle(1, len), true);
        let mut at = 0;
        talk([&mut a, &mut b], [1, 2], first, |side, _| {
            at += usize::from(side == 0);
            side == 0 && at.checked_sub(1) == Some(lose)
        });
        assert!(b.bundles() == [bundle(1, len)], "{len}: {} arrived", b.arrived.len());
        assert_eq!((a.sent.len(), a.ltp.usage(), b.ltp.usage()), (1, Usage::default(), Usage::default()), "{len}");
        assert!(b.failed.is_empty() && b.aborted == 0);
    }
}

#[test]
fn lost_green_data_cost_one_bundle() {
    // The session does not wait for lost green data, because that is not retransmitted.
    for len in [5000, 900_000] {
        let mut a = LtpBench::new(1, 2, |_, span| span.green_from = if len > 5000 { 800_000 } else { 250 });
        // Long red parts are offered while they arrive.
        let mut b = LtpBench::new(2, 1, |config, _| config.memory_bytes = 2 << 20);
        let first = a.send(1, bundle(1, len), true);
        let mut lost = 0;
        talk([&mut a, &mut b], [1, 2], first, |_, datagram| {
            let green = matches!(datagram[0] & 0x0f, kind::GREEN | kind::GREEN_END);
            lost += usize::from(green);
            green && lost == 2
        });
        assert!(lost > 2 && a.sent.len() == 1 && b.arrived.is_empty(), "{lost} {len}");
        assert_eq!(a.ltp.usage(), Usage::default());
        b.later(60.0);
        assert_eq!((b.ltp.usage(), b.aborted), (Usage::default(), usize::from(len > 5000)));
        // Late green data must not open the session again.
        let session = SessionId { engine: 1, number: segments(&a.send(2, bundle(2, 50), true))[0].session.number - 1 };
        let data = Data { kind: kind::GREEN, service: 1, offset: 250, length: 3, checkpoint: 0, report: 0 };
        b.receive(1, Segment { session, body: SegmentBody::Data(data, Bytes::from_static(b"abc")) }.emit());
        assert_eq!(b.ltp.usage(), Usage::default());
    }
}

#[test]
fn early_green_data_wait_for_red() {
    // Green data overtakes the red part when red data is lost.
    let mut a = LtpBench::new(1, 2, |_, span| span.green_from = 3000);
    let mut b = LtpBench::new(2, 1, |_, _| {});
    let mut left = a.send(1, bundle(1, 6000), true);
    left.reverse();
    for datagram in &left {
        assert!(b.arrived.is_empty());
        b.receive(1, datagram.clone());
    }
    assert!(b.bundles() == [bundle(1, 6000)]);
}

#[test]
fn green_bundles_arrive_whole_without_loss() {
    // The jitter mixes red and green data.
    for seed in 0..10 {
        let span = SpanConfig { green_from: 400, aggregate_bytes: 50_000, ..SpanConfig::default() };
        let channel = Channel { jitter: Duration::from_millis(4), duplicate: 0.1, ..Channel::default() };
        let mut world = EnginePair::new(seed, channel, span);
        world.keep = Duration::from_millis(3);
        for number in 0..40 {
            world.offer(0, number, datagram_common::bundle(number, 20 + number as usize * 211), number % 5 != 0);
        }
        world.run(1_000_000);
        world.settle();
        assert_eq!((world.sides[1].accepted.len(), world.sides[1].malformed), (40, 0), "seed {seed}");
    }
}

/// Keeps 5326-6.2-2, 5326-6.4-1, 5326-6.5-1, 5326-6.6-1.
#[test]
fn timers_pause_between_contacts() {
    // Nothing may be sent, nor a retry counted, while the peer cannot answer.
    let state = |up| LinkState {
        transmit: up,
        receive: up,
        rate: Some(DataRate(1_000_000)),
        delay_out: Duration::from_secs(10),
        delay_in: Duration::from_secs(10),
    };
    let mut a = LtpBench::new(1, 2, |_, span| span.attempts = 3);
    a.input(Input::Link { link: LINK, state: state(true) });
    assert_eq!(a.send(1, bundle(1, 100), true).len(), 1);
    a.later(1.0);
    // The contact ends before the peer can answer; then a year passes.
    assert!(a.input(Input::Link { link: LINK, state: state(false) }).is_empty());
    for _ in 0..365 {
        assert!(a.later(86_400.0).is_empty() && a.failed.is_empty());
    }
    // In the next contact the peer again gets the full time for its answer; only then is the checkpoint repeated.
    assert!(a.input(Input::Link { link: LINK, state: state(true) }).is_empty());
    assert!(a.later(9.9).is_empty());
    let again = a.later(1.0);
    let again = segments(&again);
    assert_eq!((again.len(), again[0].kind()), (1, kind::BLOCK_END));
    assert_eq!(block(&again), (bundle(1, 100).to_bytes().unwrap().to_vec(), SERVICE_BUNDLE));
    assert_eq!((a.sent.len(), a.failed.len(), a.ltp.usage().exports), (0, 0, 1));
}
