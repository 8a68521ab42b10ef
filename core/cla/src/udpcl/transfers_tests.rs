//! Tests of the rules and bounds of received transfers.

use super::*;
use farlink_base::Rng;

const BOUNDS: TransferBounds =
    TransferBounds { transfers: 160, memory: 1 << 20, longest: 1 << 20, idle: Duration::from_secs(60) };

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 7], port))
}
fn s(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}
/// Data that starts like a bundle.
fn bundle(len: usize) -> Vec<u8> {
    (0..len).map(|i| if i == 0 { 0x9f } else { (i * 7) as u8 }).collect()
}
fn cut(bundle: &[u8], id: u64, offset: usize, len: usize) -> TransferSegment {
    let end = bundle.len().min(offset + len);
    let data = Payload::from(bundle[offset..end].to_vec());
    TransferSegment { id, total: Some(bundle.len() as u64), offset: offset as u64, data }
}
struct TransferBench {
    transfers: Transfers,
    now: Instant,
}
impl TransferBench {
    fn new() -> TransferBench {
        TransferBench { transfers: Transfers::new(BOUNDS, 1), now: s(1) }
    }
    fn receive(&mut self, port: u16, segment: TransferSegment) -> SegmentOutcome {
        self.transfers.on_segment(self.now, at(port), false, segment)
    }
    fn receive_unauthenticated(&mut self, port: u16, segment: TransferSegment) -> SegmentOutcome {
        self.transfers.on_segment(self.now, at(port), true, segment)
    }
    fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.transfers.expire(self.now);
    }
    fn is_empty(&self) -> bool {
        let held = [self.transfers.all, self.transfers.dynamic].map(|share| (share.transfers, share.bytes));
        (self.transfers.len(), self.transfers.of.len(), self.transfers.timers.len(), held) == (0, 0, 0, [(0, 0); 2])
    }
}

#[test]
fn segments_in_any_order_join_once() {
    let mut rng = Rng::new(3);
    for round in 0..200u64 {
        let mut bench = TransferBench::new();
        let whole = bundle(1 + rng.below(9000) as usize);
        let step = 1 + rng.below(whole.len() as u64) as usize;
        let mut segments: Vec<TransferSegment> =
            (0..whole.len()).step_by(step).map(|offset| cut(&whole, round, offset, step)).collect();
        for last in (1..segments.len()).rev() {
            segments.swap(last, rng.below(last as u64 + 1) as usize);
        }
        let heard: Vec<SegmentOutcome> =
            segments.iter().chain(&segments).map(|one| bench.receive(1, one.clone())).collect();
        let complete = segments.len() - 1;
        for (place, heard) in heard.into_iter().enumerate() {
            match heard {
                SegmentOutcome::Whole(found) if place == complete => assert_eq!(found, Payload::from(whole.clone())),
                other => assert_eq!(other, SegmentOutcome::Nothing, "segment {place} of {}", segments.len()),
            }
        }
        assert!(bench.is_empty());
    }
}

#[test]
fn overlapping_segment_is_dropped_alone() {
    let mut bench = TransferBench::new();
    let whole = bundle(100);
    bench.receive(1, cut(&whole, 5, 20, 20));
    let mut other = whole.clone();
    other[15..60].fill(0xee);
    for (offset, len) in [(15, 10), (20, 20), (25, 5), (39, 1), (30, 30), (15, 45)] {
        assert_eq!(bench.receive(1, cut(&other, 5, offset, len)), SegmentOutcome::Nothing);
    }
    assert_eq!(bench.receive(1, cut(&whole, 5, 0, 20)), SegmentOutcome::Nothing);
    assert_eq!(bench.receive(1, cut(&whole, 5, 40, 60)), SegmentOutcome::Whole(Payload::from(whole)));
}

#[test]
fn transfers_keyed_by_address_port_number() {
    let mut bench = TransferBench::new();
    let (one, two) = (bundle(40), bundle(50));
    for (port, id, whole) in [(1, 5, &one), (2, 5, &two), (1, 6, &two)] {
        assert_eq!(bench.receive(port, cut(whole, id, 0, 25)), SegmentOutcome::Nothing);
    }
    for (port, id, whole) in [(1, 5, &one), (2, 5, &two), (1, 6, &two)] {
        assert_eq!(bench.receive(port, cut(whole, id, 25, 25)), SegmentOutcome::Whole(Payload::from(whole.clone())));
    }
}

#[test]
fn conflicting_totals_end_the_transfer() {
    let mut bench = TransferBench::new();
    bench.receive(1, cut(&bundle(100), 5, 0, 50));
    assert!(matches!(bench.receive(1, cut(&bundle(101), 5, 50, 50)), SegmentOutcome::Malformed(_)));
    assert!(bench.is_empty());
    for offset in [0, 50] {
        assert_eq!(
            bench.receive(1, cut(&bundle(100), 5, offset, 50)),
            SegmentOutcome::Nothing,
            "no further segment is handled"
        );
    }
    bench.receive(1, cut(&bundle(100), 6, 0, 50));
    let alone = TransferSegment { total: None, ..cut(&bundle(100), 6, 0, 100) };
    assert!(matches!(bench.receive(1, alone), SegmentOutcome::Malformed(_)), "a single segment is the whole transfer");
    assert!(bench.is_empty());
}

#[test]
fn single_segment_copies_are_suppressed() {
    let mut bench = TransferBench::new();
    let alone = TransferSegment { total: None, ..cut(&bundle(100), 5, 0, 100) };
    assert_eq!(bench.receive(1, alone.clone()), SegmentOutcome::Whole(Payload::from(bundle(100))));
    bench.later(59);
    assert_eq!(bench.receive(1, alone.clone()), SegmentOutcome::Nothing);
    bench.later(120);
    assert!(matches!(bench.receive(1, alone), SegmentOutcome::Whole(_)), "a sender may reuse the number");
    bench.later(120);
    assert_eq!(bench.transfers.next_timeout(), None);
}

#[test]
fn non_bundle_data_is_dropped() {
    let mut bench = TransferBench::new();
    for first in [0x00, 0x16, 0x01, 0xa0, 0xff] {
        let mut bytes = bundle(10);
        bytes[0] = first;
        assert!(
            matches!(bench.receive(1, cut(&bytes, first.into(), 0, 10)), SegmentOutcome::Malformed(_)),
            "{first:#x}"
        );
    }
    let mut six = bundle(10);
    six[0] = 6;
    assert!(matches!(bench.receive(1, cut(&six, 77, 0, 10)), SegmentOutcome::Whole(_)), "version 6");
    assert!(bench.is_empty());
}

#[test]
fn impossible_lengths_are_rejected() {
    let mut bench = TransferBench::new();
    let data = Payload::from(bundle(10));
    let segment = |total, offset| TransferSegment { id: 1, total: Some(total), offset, data: data.clone() };
    for (total, offset) in [(5, 0), (0, 0), (10, 1), (u64::MAX, u64::MAX), (100, u64::MAX - 5)] {
        assert!(
            matches!(bench.receive(1, segment(total, offset)), SegmentOutcome::Malformed(_)),
            "{offset} of {total}"
        );
    }
    assert_eq!(bench.receive(1, segment(u64::MAX, 0)), SegmentOutcome::Refused(Refusal::TooLarge));
    assert_eq!(bench.receive(1, TransferSegment { data: Payload::new(), ..segment(10, 0) }), SegmentOutcome::Nothing);
    assert!(bench.is_empty());
}

#[test]
fn idle_transfer_is_dropped() {
    let mut bench = TransferBench::new();
    let whole = bundle(100);
    bench.receive(1, cut(&whole, 5, 0, 10));
    bench.later(59);
    bench.receive(1, cut(&whole, 5, 10, 10));
    bench.later(59);
    assert_eq!(bench.transfers.len(), 1, "the timeout restarts with each segment");
    bench.receive(1, cut(&whole, 5, 10, 10));
    bench.later(1);
    assert!(bench.is_empty(), "a copy does not restart it");
    bench.receive(1, cut(&whole, 5, 20, 70));
    assert_eq!(bench.receive(1, cut(&whole, 5, 90, 10)), SegmentOutcome::Nothing, "dropped data is missing");
    bench.later(60);
    assert!(bench.is_empty() && bench.transfers.next_timeout().is_none());
}

#[test]
fn unauthenticated_peers_get_quarter_of_memory() {
    let mut bench = TransferBench::new();
    let whole = bundle(100);
    let mut taken = [0; 100];
    for port in 0..100 {
        for id in 0..100 {
            let heard = bench.receive_unauthenticated(port, cut(&whole, id, 0, 1));
            taken[usize::from(port)] += usize::from(heard == SegmentOutcome::Nothing);
        }
    }
    assert_eq!((taken.iter().sum::<usize>(), taken[0]), (40, 10));
    for id in 0..200 {
        bench.receive(1000, cut(&whole, id, 0, 1));
        bench.receive(1001, cut(&whole, id, 0, 1));
    }
    assert_eq!(bench.transfers.len(), 160, "the bound holds");
    let (one, two) = (bench.transfers.of[&at(1000)].transfers, bench.transfers.of[&at(1001)].transfers);
    assert!(one <= 80 && two <= 80, "each neighbour gets half at most: {one}, {two}");
    bench.later(60);
    assert!(bench.is_empty());
}

#[test]
fn tiny_segments_weigh_what_they_cost() {
    let mut bench = TransferBench::new();
    let whole = bundle(200_000);
    let refused = (0..100_000)
        .filter(|n| bench.receive_unauthenticated(1, cut(&whole, 5, 2 * n, 1)) != SegmentOutcome::Nothing)
        .count();
    assert!(bench.transfers.bytes() <= BOUNDS.memory / 16, "{} B", bench.transfers.bytes());
    assert!(refused > 99_000, "runs are charged for: {refused} refused");
    assert!(
        matches!(bench.receive(2, cut(&bundle(9), 5, 0, 9)), SegmentOutcome::Whole(_)),
        "other senders are unaffected"
    );
    // In order, segments join into one run and cost little more than their data.
    let mut bench = TransferBench::new();
    let last = (0..200_000).map(|n| bench.receive(1, cut(&whole, 5, n, 1))).last();
    let Some(SegmentOutcome::Whole(found)) = last else { panic!("{last:?}") };
    assert!(found.chunks().len() < 60, "{} pieces", found.chunks().len());
    assert_eq!(found, Payload::from(whole));
}

#[test]
fn transfer_releases_receive_buffers() {
    let mut bench = TransferBench::new();
    let buffer = farlink_base::Bytes::from(bundle(60_000));
    let data = Payload::from(buffer.slice(0..5000));
    bench.receive(1, TransferSegment { id: 1, total: Some(6000), offset: 0, data });
    assert!(buffer.is_unique());
}

#[test]
fn fill_payload_joins_as_one() {
    let mut bench = TransferBench::new();
    let mut whole = Payload::from(&b"\x9f"[..]);
    whole.append(Payload::fill(3, 5000));
    for offset in [3000, 0, 1500] {
        let data = whole.slice(offset, if offset == 3000 { 3000 } else { 1500 });
        let heard = bench.receive(1, TransferSegment { id: 1, total: Some(5001), offset, data });
        if offset == 1500 {
            let SegmentOutcome::Whole(found) = heard else { panic!("{heard:?}") };
            assert_eq!((found.clone(), found.chunks().len()), (whole.clone(), 2));
        }
    }
}

#[test]
fn forgotten_address_drops_its_transfers() {
    let mut bench = TransferBench::new();
    let whole = bundle(100);
    for id in 0..20 {
        bench.receive(1, cut(&whole, id, 0, 1));
        bench.receive(2, cut(&whole, id, 0, 1));
    }
    bench.transfers.forget(at(1));
    assert_eq!(bench.transfers.len(), 20);
    bench.transfers.forget(at(1));
    bench.transfers.forget(at(2));
    assert!(bench.is_empty());
}
