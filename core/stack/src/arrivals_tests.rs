use super::*;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::cell::Cell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};
use farlink_base::layer::Ticket;
use farlink_base::{Accel, Chunk, CreationTimestamp, Extent, LayerId};
use farlink_bundle::v7::{self, BundleDraft};

fn token(n: u64) -> OfferToken {
    OfferToken { layer: LayerId(0), ticket: Ticket(n) }
}
/// Counts the bytes that pass; fails at the end if the flag is set.
#[derive(Debug)]
struct Counter(Arc<AtomicU64>, bool);
impl Watch for Counter {
    fn pass(&mut self, part: &Payload) {
        self.0.fetch_add(part.len(), Ordering::Relaxed);
    }
    fn finish(self: Box<Self>, _: &Payload) -> Result<(), Malformed> {
        if self.1 { Err(Malformed { offset: 0, reason: "bad" }) } else { Ok(()) }
    }
}
/// A fragment without a head.
#[derive(Debug)]
struct Fragment;
impl crate::edge::Piece for Fragment {
    fn wants_bytes(&self) -> bool {
        false
    }
    fn pass(&mut self, _: &Payload) {}
    fn finish(self: Box<Self>, payload: Payload) -> farlink_bundle::Encoded {
        farlink_bundle::Encoded { head: Default::default(), payload, tail: Default::default() }
    }
}
/// Arrivals with a fake parser: the head of a bundle that begins with 0xee has 100 bytes, other heads have one byte.
struct ArrivalBench {
    arrivals: Arrivals,
    passed: Arc<AtomicU64>,
    looks: Cell<u64>,
}
impl ArrivalBench {
    fn open(&self, prefix: &Payload) -> Result<Option<Opening>, Malformed> {
        self.looks.set(self.looks.get() + 1);
        let mut first = [0];
        prefix.copy_to(0, &mut first);
        if first[0] == 0xee && prefix.len() < 100 {
            return Ok(None);
        }
        // Bundles that begin with 0xdd may be fragmented.
        let (payload, payload_at) = match first[0] {
            0xdd => (Payload::fill(0, 1 << 30), Some(1)),
            _ => (Payload::fill(0, 1), None),
        };
        let crc = farlink_bundle::CrcType::None;
        let source = farlink_base::EndpointId::ipn(2, 1);
        let draft = if payload_at.is_some() {
            BundleDraft { source, ..BundleDraft::default() }
        } else {
            BundleDraft::default()
        };
        let meta = v7::make(&draft, CreationTimestamp::default(), payload, crc, &Accel::default());
        let watch = Box::new(Counter(self.passed.clone(), first[0] == 0xff));
        Ok(Some(Opening { meta, hop: HopState::default(), watch, starts_at: 0, payload_at, named: false }))
    }
    fn part(&mut self, n: u64, part: Payload, last: bool, total: Option<u64>, out: &mut Vec<Do>) {
        self.part_over(LinkId(0), n, part, last, total, out);
    }
    fn part_over(&mut self, link: LinkId, n: u64, part: Payload, last: bool, total: Option<u64>, out: &mut Vec<Do>) {
        let none = Bounds { memory: 0, bundle: 0, spill_from: 0 };
        let mut arrivals = core::mem::replace(&mut self.arrivals, Arrivals::new(none));
        let door = Door { open: &|prefix| self.open(prefix), cut: &|_, _, _| Some(Box::new(Fragment)) };
        arrivals.part(token(n), link, part, last, total, door, out);
        self.arrivals = arrivals;
    }
    /// Gives a part; returns the actions except `Begins`.
    fn give(&mut self, n: u64, part: Payload, last: bool, total: Option<u64>) -> Vec<Do> {
        let mut out = Vec::new();
        self.part(n, part, last, total, &mut out);
        out.retain(|what| !matches!(what, Do::Begins(..)));
        out
    }
}
impl Deref for ArrivalBench {
    type Target = Arrivals;
    fn deref(&self) -> &Arrivals {
        &self.arrivals
    }
}
impl DerefMut for ArrivalBench {
    fn deref_mut(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }
}
fn arrivals(memory: u64, bundle: u64, spill_from: u64) -> ArrivalBench {
    let arrivals = Arrivals::new(Bounds { memory, bundle, spill_from });
    ArrivalBench { arrivals, passed: Arc::default(), looks: Cell::default() }
}
fn bytes(len: u64) -> Payload {
    Payload::from((0..len).map(|n| ((n * 31) >> 7) as u8).collect::<Vec<u8>>())
}

#[test]
fn unspillable_oversize_bundle_refused() {
    let mut a = arrivals(100, 1000, 0);
    assert!(matches!(a.give(1, Payload::fill(0, 1), false, Some(101))[..], [Do::Refuse(_, Refusal::TooLarge)]));
    assert!(a.give(2, Payload::fill(0, 60), false, None).is_empty());
    let refused = a.give(2, Payload::fill(0, 60), false, None);
    assert!(matches!(refused[..], [Do::Abandoned(_), Do::Refuse(_, Refusal::TooLarge)]), "its beginning was told");
    let mut a = arrivals(1 << 20, 4 << 20, 1 << 20);
    let said = a.give(3, bytes(1), false, Some(2 << 20));
    assert!(said.is_empty(), "it goes to disk: {said:?}");
}

#[test]
fn strangers_get_half_the_memory() {
    let mut a = arrivals(1000, 1000, 0);
    let stranger = LinkId(LinkId::DYNAMIC | 1);
    let head = || Payload::from(alloc::vec![0xee; 90]);
    let give = |a: &mut ArrivalBench, link, n| {
        let mut out = Vec::new();
        a.part_over(link, n, head(), false, None, &mut out);
        out.is_empty()
    };
    // 5 heads of 90 bytes fit into half of 1000.
    assert_eq!((0..9).filter(|n| give(&mut a, stranger, *n)).count(), 5, "heads that never end");
    // Unconfigured neighbours use 450 bytes, so 6 heads of configured ones fit into the other 550.
    assert_eq!((10..19).filter(|n| give(&mut a, LinkId(0), *n)).count(), 6);
    (0..20).for_each(|n| a.abort(token(n), &mut Vec::new()));
    assert_eq!(a.memory(), 0);
    assert!(give(&mut a, stranger, 30), "their room comes back");
}

#[test]
fn parts_join_and_bounds_hold() {
    let mut a = arrivals(100, 80, 0);
    let fill = |n: u64| Payload::fill(0, n);
    assert!(a.give(1, fill(60), false, None).is_empty());
    assert!(matches!(a.give(2, fill(50), false, None)[..], [Do::Refuse(t, Refusal::NoResources)] if t == token(2)));
    assert!(a.give(2, fill(50), true, None).is_empty(), "thrown away");
    assert!(matches!(a.give(3, fill(1), false, Some(81))[..], [Do::Refuse(_, Refusal::TooLarge)]));
    assert!(matches!(&a.give(1, fill(20), true, None)[..], [Do::Whole { rope, .. }] if rope.len() == 80));
    assert_eq!(a.memory, 0);
    assert!(matches!(a.give(4, fill(81), true, None)[..], [Do::Refuse(_, Refusal::TooLarge)]));
    a.give(5, fill(10), false, None);
    a.abort(token(5), &mut Vec::new());
    a.refused(token(2));
    a.refused(token(3));
    assert_eq!((a.memory, a.open.len()), (0, 0));
}

/// Feeds a bundle in parts of `step` bytes to a store that answers once `slow` blocks wait. Returns the rope that the
/// agent gets, the largest number of bytes held in memory, and the blocks on disk.
fn feed(a: &mut ArrivalBench, bundle: &Payload, step: u64, slow: usize) -> (Option<Payload>, u64, Vec<Payload>) {
    let (mut at, mut waiting, mut disk, mut held) = (0, VecDeque::new(), Vec::new(), false);
    let (mut whole, mut most, mut out) = (None, 0, Vec::new());
    loop {
        if at < bundle.len() && !held {
            let part = bundle.slice(at, step);
            at += part.len();
            a.part(1, part, at == bundle.len(), Some(bundle.len()), &mut out);
        }
        most = most.max(a.memory);
        for what in core::mem::take(&mut out) {
            match what {
                Do::Spill { spill, data, .. } => waiting.push_back((spill, data)),
                Do::Hold(_) => held = true,
                Do::Resume(_) => held = false,
                Do::Whole { rope, .. } => whole = Some(rope),
                Do::Begins(..) => {}
                other => panic!("{other:?}"),
            }
        }
        if whole.is_some() {
            return (whole, most, disk);
        }
        if waiting.len() > slow || held || at == bundle.len() {
            let (spill, data) = waiting.pop_front().expect("something is under way");
            let mut extents = Payload::new();
            let offset: u64 = disk.iter().map(Payload::len).sum();
            extents.push(Chunk::Stored { extent: Extent { record: Extent::SPILL | spill, offset }, len: data.len() });
            disk.push(data);
            a.spilled(spill, Ok(extents), &mut out);
        }
    }
}

#[test]
fn long_bundle_spills_between_head_and_tail() {
    for (len, step, slow) in [(9 * BLOCK + 77, 40_000, 0), (HEAD + 5 * BLOCK, 300_000, 3), (8 * BLOCK, 3 * BLOCK, 20)] {
        let bundle = bytes(len);
        let mut a = arrivals(u64::MAX, u64::MAX, 2 * BLOCK);
        let (whole, most, disk) = feed(&mut a, &bundle, step, slow);
        let whole = whole.unwrap();
        let stored: Vec<u64> =
            whole.chunks().iter().filter(|c| matches!(c, Chunk::Stored { .. })).map(Chunk::len).collect();
        let tail = whole.slice(HEAD + stored[0], u64::MAX);
        assert!(stored.len() == 1 && tail.len() >= TAIL && whole.len() == len && !tail.is_stored());
        let mut again = whole.slice(0, HEAD);
        disk.into_iter().for_each(|block| again.append(block));
        again.append(tail);
        assert!(again == bundle);
        assert_eq!(a.passed.load(Ordering::Relaxed), len, "all of it was watched");
        // The bound is the number of blocks at which the peer is held back, the block that is being filled, and parts
        // that were under way by then.
        assert!(most <= (HOLD_FROM + 3) * BLOCK + HEAD + 2 * step, "{most} bytes held");
        assert_eq!((a.memory, a.open.len(), a.spills.len()), (0, 0, 0));
        let mut out = Vec::new();
        a.decided(token(1), &mut out);
        assert!(matches!(out[..], [Do::DropSpill { spill: 1 }]), "what no bundle took is dropped");
    }
}

#[test]
fn unannounced_long_bundle_spills() {
    let mut a = arrivals(u64::MAX, u64::MAX, 3 * BLOCK);
    for _ in 0..3 {
        assert!(a.give(1, bytes(BLOCK), false, None).is_empty());
    }
    let spilled = a.give(1, bytes(BLOCK), false, None);
    assert_eq!(spilled.iter().filter(|what| matches!(what, Do::Spill { .. })).count(), 3);
    assert_eq!(a.open[&token(1)].as_ref().unwrap().rope.len(), HEAD);
}

#[test]
fn refusal_or_session_end_drops_spill() {
    for end in 0..3 {
        let mut a = arrivals(u64::MAX, u64::MAX, BLOCK);
        let mut out = a.give(1, bytes(3 * BLOCK), false, Some(50 * BLOCK));
        assert!(matches!(out.first(), Some(Do::Spill { spill: 1, .. })));
        out.clear();
        match end {
            0 => a.spilled(1, Err(Refusal::NoResources), &mut out),
            1 => a.decided(token(1), &mut out),
            _ => a.abort(token(1), &mut out),
        }
        assert!(matches!(out.first(), Some(Do::DropSpill { spill: 1 })));
        assert_eq!(
            out.iter().filter(|what| matches!(what, Do::Refuse(..))).count(),
            usize::from(end == 0),
            "the agent tells the layer"
        );
        let abandoned = out.iter().filter(|what| matches!(what, Do::Abandoned(_))).count();
        assert_eq!(abandoned, usize::from(end != 1), "and knows what it refused");
        let mut late = Vec::new();
        a.spilled(1, Ok(bytes(BLOCK)), &mut late);
        if end < 2 {
            late.extend(a.give(1, bytes(BLOCK), false, None));
            a.refused(token(1));
        }
        assert!(late.is_empty() && a.memory == 0 && a.open.is_empty() && a.spills.is_empty());
    }
}

#[test]
fn failed_watch_makes_bundle_malformed() {
    let mut a = arrivals(u64::MAX, u64::MAX, BLOCK);
    let mut bad = Payload::from(&[0xff][..]);
    bad.append(bytes(2 * BLOCK));
    let out = a.give(1, bad, true, None);
    let Some(Do::Spill { spill, data, .. }) = out.into_iter().next() else { panic!() };
    let mut out = Vec::new();
    a.spilled(spill, Ok(data), &mut out);
    assert!(matches!(out[..], [Do::DropSpill { spill: 1 }, Do::Malformed(..)]), "{out:?}");
    assert_eq!((a.memory, a.open.len()), (0, 0));
}

#[test]
fn complete_head_is_announced_to_agent() {
    let mut a = arrivals(u64::MAX, u64::MAX, 0);
    let mut out = Vec::new();
    let mut bundle = Payload::from(&[0xee][..]);
    bundle.append(bytes(3000));
    for at in 0..2000 {
        // The head is complete at 100 bytes, but is parsed only when 128 bytes have come.
        assert_eq!(out.len(), usize::from(at > 127), "after {at} bytes");
        a.part(1, bundle.slice(at, 1), false, None, &mut out);
    }
    // The head is parsed each time the length has doubled.
    assert!(a.looks.get() <= 10, "{} looks at single bytes", a.looks.get());
    assert!(matches!(out.pop(), Some(Do::Begins(..))) && !a.awaits(token(1)));
    a.part(1, bundle.slice(2000, 5000), true, None, &mut out);
    assert!(matches!(out[..], [Do::Whole { known: true, .. }]) && a.awaits(token(1)));
    a.decided(token(1), &mut out);
    assert!(out.len() == 1 && !a.awaits(token(1)), "refused before the whole was looked at");
    // An offer in one part needs no announcement.
    assert!(matches!(a.give(2, bytes(10), true, None)[..], [Do::Whole { known: false, .. }]));
    // The agent learns that an announced bundle does not come, unless it refused the bundle itself.
    for (n, how) in [(3, "abort"), (4, "bound"), (5, "agent")] {
        a.give(n, bytes(10), false, None);
        out.clear();
        match how {
            "abort" => a.abort(token(n), &mut out),
            "bound" => {
                a.bounds.bundle = 15;
                a.part(n, bytes(10), false, None, &mut out);
            }
            _ => a.decided(token(n), &mut out),
        }
        let said: Vec<bool> = out.iter().map(|what| matches!(what, Do::Abandoned(_))).collect();
        assert_eq!(said, [&[true][..], &[true, false], &[]][n as usize - 3], "{how}");
    }
    a.decided(token(5), &mut out);
    assert!(a.give(5, bytes(10), false, None).is_empty(), "what still comes of it is thrown away");
    assert_eq!(a.memory, 0);
}

#[test]
fn long_bundle_needs_little_memory() {
    let memory = 4 * BLOCK;
    for (step, slow) in [(100_000, 0), (100_000, 50), (BLOCK, 50)] {
        let mut a = arrivals(memory, u64::MAX, BLOCK);
        let (whole, most, _) = feed(&mut a, &bytes(30 * BLOCK + 5), step, slow);
        assert!(whole.is_some() && most <= memory, "{most} bytes held");
    }
}

#[test]
fn abandoned_bundle_with_pieces_is_reported() {
    // The bundle comes in one part, so the agent learns of it only from its pieces. If the store is full or the session
    // ends before all is on disk, the agent must be informed, because it promised those pieces.
    for full in [false, true] {
        let mut a = arrivals(u64::MAX, u64::MAX, BLOCK);
        a.in_parts(token(1), LinkId(0), BLOCK);
        let mut bundle = Payload::from(&[0xdd][..]);
        bundle.append(bytes(4 * BLOCK));
        let mut spills: VecDeque<(u64, Payload)> = VecDeque::new();
        for what in a.give(1, bundle, true, None) {
            let Do::Spill { spill, data, .. } = what else { panic!("{what:?}") };
            spills.push_back((spill, data));
        }
        let mut out = Vec::new();
        while !out.iter().any(|what| matches!(what, Do::Piece(..))) {
            let (spill, data) = spills.pop_front().expect("there is a piece");
            a.spilled(spill, Ok(data), &mut out);
        }
        match full {
            true => a.spilled(spills[0].0, Err(Refusal::NoResources), &mut out),
            false => a.abort(token(1), &mut out),
        }
        assert_eq!(out.iter().filter(|what| matches!(what, Do::Abandoned(_))).count(), 1, "full: {full}");
        assert_eq!((a.memory, a.open.len(), a.spills.len()), (0, 0, 0));
    }
}

#[test]
fn each_piece_has_own_spill() {
    // The store keeps or drops a spill as a whole, and the agent each piece by itself.
    let mut a = arrivals(u64::MAX, u64::MAX, BLOCK);
    a.in_parts(token(1), LinkId(0), BLOCK);
    let mut bundle = Payload::from(&[0xdd][..]);
    bundle.append(bytes(5 * BLOCK));
    let (mut pieces, mut written) = (Vec::new(), BTreeMap::<u64, u64>::new());
    for what in a.give(1, bundle, false, Some(100 * BLOCK)) {
        let Do::Spill { spill, data, .. } = what else { panic!("{what:?}") };
        let offset = written.entry(spill).or_default();
        let chunk =
            Chunk::Stored { extent: Extent { record: Extent::SPILL | spill, offset: *offset }, len: data.len() };
        *offset += data.len();
        let (mut extents, mut out) = (Payload::new(), Vec::new());
        extents.push(chunk);
        a.spilled(spill, Ok(extents), &mut out);
        pieces.extend(
            out.into_iter().filter_map(|what| if let Do::Piece(_, _, kept) = what { Some(kept) } else { None }),
        );
    }
    let spill_of = |chunk: &Chunk| if let Chunk::Stored { extent, .. } = chunk { Some(extent.record) } else { None };
    let spills: Vec<Vec<u64>> =
        pieces.iter().map(|kept| kept.encoded.payload.chunks().iter().filter_map(spill_of).collect()).collect();
    assert_eq!(spills, [1, 2, 3, 4].map(|spill| [Extent::SPILL | spill]));
}
