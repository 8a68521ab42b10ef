//! Passive reader of UDPCL: finds bundles in single datagrams and in transfers of version 2.

use super::packet::{Extensions, MessageKind, TransferSegment};
use crate::ltp::ranges::RangeSet;
use crate::reading::{BundlePassage, HEAD_BYTES, PassiveReader, Reading};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::marker::PhantomData;
use farlink_base::{Bytes, FindEnd, Instant, Payload};

/// Most transfers that are followed or remembered as finished; if there are more, the oldest is dropped.
pub const TRANSFERS_MAX: usize = 1 << 14;
/// Most separate runs of data of one transfer; once it has as many, only data next to one of them is taken.
const RUNS_MAX: usize = 256;
/// Most messages read from one datagram, as in the receiver.
const MESSAGES_MAX: usize = 512;

/// A transfer of which some data passed.
#[derive(Debug)]
struct TransferReading {
    total: u64,
    received: RangeSet,
    /// First bytes of the bundle; gaps are zeros.
    head: Vec<u8>,
    first: Instant,
    last: Instant,
}

/// Passive reader of the datagrams from one address to another. `E` finds the end of a bundle in a datagram of several.
#[derive(Debug)]
pub struct UdpclReader<E> {
    /// Transfers under way, by number; `None` marks a finished one, so that its repeated segments do not begin a new
    /// one.
    transfers: BTreeMap<u64, Option<TransferReading>>,
    /// Numbers of the transfers, in the order in which they began.
    order: VecDeque<u64>,
    enciphered: bool,
    unread: u64,
    ends: PhantomData<fn() -> E>,
}

impl<E: FindEnd> UdpclReader<E> {
    /// Creates a reader that has seen no datagram.
    pub const fn new() -> Self {
        UdpclReader {
            transfers: BTreeMap::new(),
            order: VecDeque::new(),
            enciphered: false,
            unread: 0,
            ends: PhantomData,
        }
    }
    /// Number of transfers under way.
    pub fn transfers(&self) -> usize {
        self.transfers.values().flatten().count()
    }

    /// Reads the messages of a datagram (draft-ietf-dtn-udpcl-04 3.3); on an error, `rest` is the part that was not
    /// read.
    fn packet(
        &mut self,
        now: Instant,
        rest: &mut &[u8],
        each: &mut dyn FnMut(Reading<'_>),
    ) -> Result<(), &'static str> {
        for _ in 0..MESSAGES_MAX {
            let Some(first) = rest.first() else { return Ok(()) };
            match MessageKind::of(*first) {
                MessageKind::Padding => return Ok(()),
                MessageKind::Bundle => {
                    let (bundle, behind) = rest.split_at(bundle_length::<E>(rest));
                    let head = &bundle[..bundle.len().min(HEAD_BYTES)];
                    each(Reading::Bundle(BundlePassage { head, length: bundle.len() as u64, first: now, last: now }));
                    *rest = behind;
                }
                MessageKind::Map => {
                    let rope = Payload::from(Bytes::copy_from_slice(rest));
                    let mut reader = rope.reader();
                    let extensions = Extensions::read(&mut reader)?;
                    *rest = &rest[(reader.position() as usize).min(rest.len())..];
                    if let Some(segment) = extensions.transfer {
                        self.segment(now, &segment, each)?;
                    }
                }
                MessageKind::Dtls => {
                    if !core::mem::replace(&mut self.enciphered, true) {
                        each(Reading::Enciphered);
                    }
                    self.unread = self.unread.saturating_add(rest.len() as u64);
                    return Ok(());
                }
                MessageKind::Unused => return Err("not a UDPCL message"),
            }
        }
        if rest.is_empty() { Ok(()) } else { Err("too many messages in a datagram") }
    }

    fn segment(
        &mut self,
        now: Instant,
        segment: &TransferSegment,
        each: &mut dyn FnMut(Reading<'_>),
    ) -> Result<(), &'static str> {
        let (offset, data) = (segment.offset, &segment.data);
        let mut head = [0; HEAD_BYTES];
        let head = &mut head[..data.len().min(HEAD_BYTES as u64) as usize];
        data.copy_to(0, head);
        let Some(total) = segment.total else {
            each(Reading::Bundle(BundlePassage { head, length: data.len(), first: now, last: now }));
            return Ok(());
        };
        let end = offset.checked_add(data.len()).filter(|end| *end <= total);
        let end = end.ok_or("a segment beyond its transfer")?;
        if !self.transfers.contains_key(&segment.id) {
            if self.transfers.len() >= TRANSFERS_MAX {
                self.forget_oldest(each);
            }
            let begun = TransferReading { total, received: RangeSet::new(), head: Vec::new(), first: now, last: now };
            self.order.push_back(segment.id);
            self.transfers.insert(segment.id, Some(begun));
        }
        let Some(place) = self.transfers.get_mut(&segment.id) else { return Ok(()) };
        let Some(transfer) = place else { return Ok(()) };
        if transfer.total != total {
            return Err("two lengths of one transfer");
        }
        if transfer.received.runs().len() >= RUNS_MAX && !transfer.received.touches(offset, end) {
            return Err("a transfer in too many pieces");
        }
        transfer.take(now, (offset, end), head);
        if transfer.received.covers(0, total) {
            each(Reading::Bundle(transfer.passage()));
            *place = None;
        }
        Ok(())
    }
    fn forget_oldest(&mut self, each: &mut dyn FnMut(Reading<'_>)) {
        let Some(oldest) = self.order.pop_front() else { return };
        if let Some(Some(transfer)) = self.transfers.remove(&oldest) {
            each(Reading::Cut(transfer.passage()));
        }
    }
}

/// Length of the bundle at the front. If its end is not found, the bundle is all bytes, as for the receiver.
fn bundle_length<E: FindEnd>(bytes: &[u8]) -> usize {
    let mut end = E::default();
    match end.read(bytes) {
        Ok(count) if end.is_over() && count > 0 => count,
        _ => bytes.len(),
    }
}

impl TransferReading {
    /// Takes the data of a segment, from `start` to `end`, of which `head` is the first bytes; data that passed before
    /// is ignored.
    fn take(&mut self, now: Instant, (start, end): (u64, u64), head: &[u8]) {
        if self.received.covers(start, end) {
            return;
        }
        (self.first, self.last) = (self.first.min(now), self.last.max(now));
        self.received.insert(start, end);
        let Ok(at) = usize::try_from(start) else { return };
        if at < HEAD_BYTES {
            let to = (at + head.len()).min(HEAD_BYTES);
            self.head.resize(self.head.len().max(to), 0);
            self.head[at..to].copy_from_slice(&head[..to - at]);
        }
    }
    fn passage(&self) -> BundlePassage<'_> {
        // The head ends at the first gap, because the bytes of gaps are zeros.
        let known = self.received.prefix().min(self.head.len() as u64) as usize;
        let length = self.received.runs().iter().map(|(start, end)| end - start).sum();
        BundlePassage { head: &self.head[..known], length, first: self.first, last: self.last }
    }
}

impl<E: FindEnd> Default for UdpclReader<E> {
    fn default() -> Self {
        UdpclReader::new()
    }
}
impl<E: FindEnd> PassiveReader for UdpclReader<E> {
    fn push(&mut self, now: Instant, bytes: &[u8], each: &mut dyn FnMut(Reading<'_>)) {
        let mut rest = bytes;
        if let Err(reason) = self.packet(now, &mut rest, each) {
            self.unread = self.unread.saturating_add(rest.len() as u64);
            each(Reading::Lost(reason));
        }
    }
    fn end(&mut self, each: &mut dyn FnMut(Reading<'_>)) {
        while !self.order.is_empty() {
            self.forget_oldest(each);
        }
    }
    fn unread(&self) -> u64 {
        self.unread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udpcl::packet::{announcement, segment_head};
    use farlink_base::Rng;
    use proptest::prelude::*;

    /// Finds the end of a test bundle, which has a first byte, its length in the second, and any other bytes.
    #[derive(Default)]
    struct ShortEnd(Vec<u8>);
    impl FindEnd for ShortEnd {
        fn opaque(&self) -> u64 {
            0
        }
        fn pass(&mut self, _: u64) {}
        fn read(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
            for (at, byte) in bytes.iter().enumerate() {
                if self.is_over() {
                    return Ok(at);
                }
                self.0.push(*byte);
            }
            Ok(bytes.len())
        }
        fn is_over(&self) -> bool {
            self.0.get(1).is_some_and(|len| self.0.len() >= usize::from(*len))
        }
    }
    /// A test bundle of `len` bytes, filled with a number.
    fn bundle(number: u8, len: u8) -> Vec<u8> {
        let mut bytes = alloc::vec![number; len.into()];
        (bytes[0], bytes[1]) = (0x9f, len);
        bytes
    }
    type Seen = (u64, u64, u64, bool);
    fn see(seen: &mut Vec<Seen>) -> impl FnMut(Reading<'_>) {
        move |reading| {
            if let Reading::Bundle(p) | Reading::Cut(p) = reading {
                seen.push((p.length, p.first.0, p.last.0, matches!(reading, Reading::Bundle(_))));
            }
        }
    }

    #[test]
    fn bundles_and_maps_share_datagrams() {
        let mut reader = UdpclReader::<ShortEnd>::new();
        let mut seen = Vec::new();
        let listens = announcement(15_000, "ipn:1.0");
        let packet = [&bundle(1, 9)[..], &listens, &bundle(2, 30), b"\xa1\x02\x82\x05\x43abc", &[0; 9]].concat();
        for (at, packet) in [&packet[..], &[0; 4], &listens, &bundle(3, 90)[..50]].into_iter().enumerate() {
            reader.push(Instant(at as u64), packet, &mut see(&mut seen));
        }
        assert_eq!(seen, [(9, 0, 0, true), (30, 0, 0, true), (3, 0, 0, true), (50, 3, 3, true)]);
        assert_eq!(reader.unread(), 0);
    }

    #[test]
    fn dtls_and_other_datagrams_stay_unread() {
        let mut reader = UdpclReader::<ShortEnd>::new();
        let mut found = Vec::new();
        for packet in [&[22, 1, 2][..], &[22], &[0x60, 1], b"\xa1\x02", &bundle(3, 9)] {
            reader.push(Instant::ZERO, packet, &mut |reading| {
                found.push(match reading {
                    Reading::Enciphered => 'e',
                    Reading::Lost(_) => 'l',
                    Reading::Bundle(_) => 'b',
                    Reading::Cut(_) => 'c',
                })
            });
        }
        assert_eq!((found, reader.unread()), ("ellb".chars().collect(), 8));
    }

    proptest! {
        #[test]
        fn transfers_in_any_order_pass_once(
            lens in proptest::collection::vec(1u64..20_000, 1..5), room in 64u64..1400, seed: u64, repeats in 0usize..30,
        ) {
            let mut packets = Vec::new();
            for (id, total) in lens.iter().enumerate() {
                let mut at = 0;
                while at < *total {
                    let (mut packet, len) = segment_head(id as u64, *total, at, room);
                    packet.extend((at..at + len).map(|at| at as u8));
                    packets.push((id, packet));
                    at += len;
                }
            }
            let mut rng = Rng::new(seed);
            for _ in 0..repeats {
                packets.push(packets[rng.below(packets.len() as u64) as usize].clone());
            }
            for at in 1..packets.len() {
                packets.swap(at, rng.below(at as u64 + 1) as usize);
            }
            let (mut reader, mut seen) = (UdpclReader::<ShortEnd>::new(), alloc::vec![0; lens.len()]);
            for (now, (id, packet)) in (0..).zip(&packets) {
                reader.push(Instant(now), packet, &mut |reading| {
                    let Reading::Bundle(passage) = reading else { panic!("{reading:?}") };
                    assert_eq!((passage.length, passage.last.0), (lens[*id], now));
                    assert!(passage.head.iter().enumerate().all(|(at, byte)| *byte == at as u8));
                    assert_eq!(passage.head.len() as u64, lens[*id].min(HEAD_BYTES as u64));
                    seen[*id] += 1;
                });
            }
            prop_assert!(seen.iter().all(|times| *times == 1), "{:?}", seen);
            prop_assert_eq!((reader.transfers(), reader.unread()), (0, 0));
        }
    }

    #[test]
    fn transfer_at_run_limit_still_completes() {
        let (mut reader, mut seen, total) = (UdpclReader::<ShortEnd>::new(), Vec::new(), 2 * RUNS_MAX as u64 + 2);
        let mut lost = 0;
        let mut pass = |at: u64| {
            let packet = [&segment_head(3, total, at, 0).0[..], &[1]].concat();
            reader.push(Instant(at), &packet, &mut |reading| match reading {
                Reading::Lost(_) => lost += 1,
                Reading::Bundle(passage) => seen.push(passage.length),
                other => panic!("{other:?}"),
            });
        };
        // Every other byte passes; one makes a run too many and is not taken, so it must pass again. Then the bytes
        // between them pass.
        (0..total).step_by(2).for_each(&mut pass);
        (1..total).step_by(2).for_each(&mut pass);
        pass(total - 2);
        assert_eq!((seen, lost), (alloc::vec![total], 1));
    }

    #[test]
    fn unfinished_transfer_is_cut_at_the_end() {
        let (mut reader, mut seen) = (UdpclReader::<ShortEnd>::new(), Vec::new());
        let (mut packet, len) = segment_head(3, 9000, 2000, 500);
        packet.resize(packet.len() + len as usize, 1);
        reader.push(Instant(4), &packet, &mut see(&mut seen));
        for wrong in [&b"\xa1\x02\x84\x03\x19\x10\x00\x00\x41a"[..], b"\xa1\x02\x84\x09\x02\x02\x41a"] {
            let before = reader.unread();
            reader.push(Instant(5), wrong, &mut |reading| assert!(matches!(reading, Reading::Lost(_))));
            assert_eq!(reader.unread(), before, "the message was read");
        }
        reader.end(&mut see(&mut seen));
        assert_eq!(seen, [(len, 4, 4, false)]);
    }
}
