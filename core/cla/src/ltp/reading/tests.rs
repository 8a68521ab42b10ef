//! Tests of the passive reader of LTP.

use super::*;
use crate::ltp::segment::{Data, SERVICE_AGGREGATE, SERVICE_BUNDLE, Segment, SegmentBody, kind};
use crate::reading_toy::{ToyEnd, toy};
use alloc::vec::Vec;
use farlink_base::{Bytes, Rng};
use proptest::prelude::*;

const SESSION: SessionId = SessionId { engine: 1, number: 7 };

/// A bundle, or part of one: its number, length, first and last time, and whether it is complete.
type Seen = (u8, u64, u64, u64, bool);

/// A reader and its findings.
#[derive(Default)]
struct ReaderBench {
    reader: LtpReader<ToyEnd>,
    seen: Vec<Seen>,
    lost: Vec<&'static str>,
}
impl ReaderBench {
    fn push(&mut self, at: u64, datagram: &[u8]) {
        self.with(|reader, each| reader.push(Instant(at), datagram, each));
    }
    fn with(&mut self, act: impl FnOnce(&mut LtpReader<ToyEnd>, &mut dyn FnMut(Reading<'_>))) {
        let (seen, lost) = (&mut self.seen, &mut self.lost);
        act(&mut self.reader, &mut |reading| match reading {
            Reading::Bundle(p) | Reading::Cut(p) => {
                let whole = matches!(reading, Reading::Bundle(_));
                assert_eq!(p.head.len() as u64, p.length.min(1024), "the head has no gaps");
                seen.push((p.head.get(4).copied().unwrap_or(0), p.length, p.first.0, p.last.0, whole));
            }
            Reading::Lost(reason) => lost.push(reason),
            Reading::Enciphered => panic!("LTP is never enciphered"),
        });
    }
}

fn segment(session: SessionId, service: u64, kind: u8, offset: usize, data: &[u8]) -> Bytes {
    let checkpoint = u64::from((kind::CHECKPOINT..=kind::BLOCK_END).contains(&kind));
    let (offset, length) = (offset as u64, data.len() as u64);
    let head = Data { kind, service, offset, length, checkpoint, report: 0 };
    Segment { session, body: SegmentBody::Data(head, Bytes::copy_from_slice(data)) }.emit()
}
/// Segments of a block, whose last `green` bytes are green, with the ranges of their data.
fn segments(block: &[u8], service: u64, cut: usize, green: usize) -> Vec<(usize, usize, Bytes)> {
    let red_end = block.len() - green;
    let mut all = Vec::new();
    let mut at = 0;
    while at < block.len() {
        let end = (at + cut).min(if at < red_end { red_end } else { block.len() });
        let kind = match (end == block.len(), at < red_end) {
            (true, true) => kind::BLOCK_END,
            (true, false) => kind::GREEN_END,
            (false, true) if end == red_end => kind::RED_END,
            (false, true) => kind::RED,
            (false, false) => kind::GREEN,
        };
        all.push((at, end, segment(SESSION, service, kind, at, &block[at..end])));
        at = end;
    }
    all
}

proptest! {
    #[test]
    fn bundles_of_any_segment_order_pass_once(
        lens in proptest::collection::vec(5usize..4000, 1..8),
        marked: bool,
        cut in 1usize..1500,
        green in 0usize..3000,
        seed: u64,
        repeats in 0usize..40,
    ) {
        let (mut block, mut starts) = (Vec::new(), Vec::new());
        for (number, len) in lens.iter().enumerate() {
            block.extend_from_slice(if marked { &[SERVICE_BUNDLE as u8][..] } else { &[] });
            starts.push(block.len());
            block.extend_from_slice(&toy(number as u8, *len));
        }
        let service = if marked { SERVICE_AGGREGATE } else { SERVICE_BUNDLE };
        let mut order = segments(&block, service, cut, green.min(block.len()));
        let mut rng = Rng::new(seed);
        for _ in 0..repeats {
            order.push(order[rng.below(order.len() as u64) as usize].clone());
        }
        for at in 1..order.len() {
            // In every other run, datagrams stay nearly in order.
            let back = if seed % 2 == 0 { at + 1 } else { 3.min(at + 1) };
            order.swap(at, at - rng.below(back as u64).min(at as u64) as usize);
        }
        let mut bench = ReaderBench::default();
        // Times of the first passage of each byte, which the reader must report.
        let mut times = alloc::vec![u64::MAX; block.len()];
        for (now, (start, end, datagram)) in (1..).zip(&order) {
            times[*start..*end].iter_mut().for_each(|time| *time = now.min(*time));
            bench.push(now, datagram);
        }
        let expected: Vec<Seen> = starts.iter().zip(&lens).enumerate().map(|(number, (start, len))| {
            let of_bundle = &times[*start..start + len];
            (number as u8, *len as u64, *of_bundle.iter().min().unwrap(), *of_bundle.iter().max().unwrap(), true)
        }).collect();
        prop_assert_eq!(&bench.seen, &expected);
        prop_assert!(bench.lost.is_empty() && bench.reader.unread() == 0);
        prop_assert_eq!((bench.reader.sessions(), bench.reader.held_bytes(), bench.reader.held.pieces), (0, 0, 0));
    }
}

#[test]
fn long_payload_with_gaps_is_not_kept() {
    let block = toy(3, 1 << 20);
    let mut bench = ReaderBench::default();
    let all = segments(&block, SERVICE_BUNDLE, 1000, 0);
    // All odd segments pass last, so that as many pieces as possible wait.
    for (now, (.., datagram)) in (0..).zip(all.iter().step_by(2).chain(all.iter().skip(1).step_by(2))) {
        bench.push(now, datagram);
        assert!(bench.reader.held_bytes() < 80_000, "{}", bench.reader.held_bytes());
    }
    assert_eq!(bench.seen, [(3, 1 << 20, 0, all.len() as u64 - 1, true)]);
}

#[test]
fn cancelled_and_ended_bundles_are_cut() {
    let mut bench = ReaderBench::default();
    let block = toy(9, 3000);
    for (.., datagram) in &segments(&block, SERVICE_BUNDLE, 1000, 0)[..2] {
        bench.push(4, datagram);
    }
    let cancel = Segment { session: SESSION, body: SegmentBody::Cancel { by_sender: true, reason: 0 } };
    bench.push(5, &cancel.emit());
    assert_eq!(bench.seen, [(9, 2000, 4, 4, false)]);
    // A segment after the cancellation begins no new session.
    bench.push(6, &segments(&block, SERVICE_BUNDLE, 1000, 0)[2].2);
    assert_eq!(bench.reader.sessions(), 0);
    bench.push(7, &segment(SessionId { number: 8, ..SESSION }, 1, kind::RED, 0, &block[..9]));
    bench.with(|reader, each| reader.end(each));
    assert_eq!(bench.seen[1..], [(9, 9, 7, 7, false)]);
    assert_eq!((bench.reader.held_bytes(), bench.reader.sessions.len()), (0, 0));
}

#[test]
fn unreadable_blocks_leave_others_alone() {
    let mut bench = ReaderBench::default();
    let numbered = |number| SessionId { engine: 1, number };
    bench.push(0, &[0; 4]);
    assert!(bench.lost.is_empty(), "a keepalive");
    // Five datagrams that cannot be read: bytes that are no segment, a block of another client service, an aggregate
    // with an item of another service, bytes that are no bundle, an aggregate whose first mark does not end.
    bench.push(0, &[0xff; 20]);
    bench.push(0, &segment(numbered(1), 3, kind::BLOCK_END, 0, &toy(1, 50)));
    bench
        .push(0, &segment(numbered(2), SERVICE_AGGREGATE, kind::BLOCK_END, 0, &[&[1], &toy(2, 50)[..], &[3]].concat()));
    bench.push(0, &segment(numbered(3), SERVICE_BUNDLE, kind::BLOCK_END, 0, &[0; 30]));
    bench.push(0, &segment(numbered(4), SERVICE_AGGREGATE, kind::BLOCK_END, 0, &[0x81; 12]));
    assert_eq!((bench.lost.len(), &bench.seen[..]), (5, &[(2, 50, 0, 0, true)][..]));
    bench.push(1, &segment(numbered(5), SERVICE_BUNDLE, kind::BLOCK_END, 0, &toy(5, 60)));
    assert_eq!(bench.seen[1..], [(5, 60, 1, 1, true)]);
    assert!(bench.reader.unread() > 100 && bench.reader.held_bytes() == 0);
}

#[test]
fn sessions_and_data_after_gaps_are_bounded() {
    let mut bench = ReaderBench::default();
    let data = [7; 60_000];
    for number in 0..2000 {
        bench.push(0, &segment(SessionId { engine: 1, number }, 1, kind::RED, 100, &data));
        assert!(bench.reader.held_bytes() <= BYTES_MAX);
    }
    assert!(bench.lost.len() > 800, "{}", bench.lost.len());
    let many = SESSIONS_MAX as u64 + 50;
    for number in 0..many {
        bench.push(0, &segment(SessionId { engine: 2, number }, 1, kind::BLOCK_END, 0, &toy(1, 5)));
    }
    assert_eq!((bench.reader.sessions.len(), bench.reader.order.len()), (SESSIONS_MAX, SESSIONS_MAX));
    assert_eq!(bench.seen.len() as u64, many);
}
