//! Splits a received red part into bundles and offers them, in a long block while it still arrives. A bundle offered in
//! part keeps only its first bytes. A fill (a chunk that takes no memory) of the same length replaces the others, so
//! that the end of the bundle can still be found.

use super::Split;
use super::segment::SERVICE_BUNDLE;
use crate::sdnv;
use alloc::boxed::Box;
use farlink_base::layer::Ticket;
use farlink_base::{Bytes, BytesMut, Payload};

/// Number of first bytes kept of a bundle offered in parts; more than the blocks before its payload have.
const HEAD_BYTES: u64 = 64 << 10;
/// Number of received bytes at the end that are not offered while the end of their bundle is unknown; more than the
/// blocks after a payload have.
const BACK_BYTES: u64 = 256;

/// State of a bundle offered in part.
#[derive(Debug)]
struct OpenBundle {
    ticket: Ticket,
    /// First bytes of the bundle, and a fill in place of the others.
    shadow: Payload,
    kept: u64,
}

/// A part to offer.
#[derive(Debug)]
pub(super) struct BundlePart {
    /// Ticket of the bundle that the part continues; `None` if it begins one.
    pub(super) ticket: Option<Ticket>,
    pub(super) bytes: Payload,
    pub(super) last: bool,
}

/// State of reading the marks of a block's items.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum ServiceMarks {
    #[default]
    None,
    /// The block has marked items: a client service number precedes each (CCSDS 734.1). The next bytes are such a
    /// number.
    Ahead,
    /// The mark of the current item was read.
    Read,
    /// The next item is for an unknown service, so its length is unknown, and the rest of the block is dropped.
    Lost,
}

/// Progress of offering the red part of one session.
#[derive(Default, Debug)]
pub(super) struct Offering {
    rest: Payload,
    open: Option<Box<OpenBundle>>,
    marks: ServiceMarks,
    /// Whether data was dropped since [`Self::has_lost`] was called last.
    lost: bool,
}

impl Offering {
    /// Starts a block in which each item is marked with its client service.
    pub(super) fn marked() -> Offering {
        Offering { marks: ServiceMarks::Ahead, ..Offering::default() }
    }
    /// Whether unreadable data was dropped since the last call.
    pub(super) fn has_lost(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }
    /// Reads the mark of the next item, if one is due; returns false if no item can be offered.
    fn read_mark(&mut self, complete: bool) -> bool {
        if self.marks == ServiceMarks::Ahead && !self.rest.is_empty() {
            let mut head = [0; sdnv::LEN_MAX];
            let n = self.rest.len().min(head.len() as u64);
            self.rest.copy_to(0, &mut head[..n as usize]);
            self.marks = match sdnv::decode(&head[..n as usize]) {
                Ok((SERVICE_BUNDLE, n)) if self.rest.len() > n as u64 => {
                    drop(self.rest.split_to(n as u64));
                    ServiceMarks::Read
                }
                Ok((SERVICE_BUNDLE, _)) | Err(sdnv::Error::Truncated) if !complete => ServiceMarks::Ahead,
                _ => ServiceMarks::Lost,
            };
            self.lost |= self.marks == ServiceMarks::Lost;
        }
        if self.marks == ServiceMarks::Lost {
            self.rest = Payload::new();
        }
        matches!(self.marks, ServiceMarks::None | ServiceMarks::Read)
    }
    /// Ticket of the bundle that was offered in part, if any.
    pub(super) fn open(&self) -> Option<Ticket> {
        self.open.as_ref().map(|open| open.ticket)
    }
    pub(super) fn held(&self) -> u64 {
        self.rest.len() + self.open.as_ref().map_or(0, |open| open.kept)
    }
    /// Copies the waiting bytes, so that they share no receive buffer.
    pub(super) fn unshare(&mut self) {
        self.rest = self.rest.own();
    }
    /// Appends the next bytes of the block.
    pub(super) fn push(&mut self, bytes: Payload) {
        if self.rest.is_empty() {
            self.rest = bytes;
        } else {
            self.rest.append(bytes);
        }
    }
    /// Next part to offer; `None` if more bytes are needed. If the part begins a bundle and does not complete it, the
    /// caller must call [`Offering::began`]. `complete`: no more bytes follow.
    pub(super) fn next(&mut self, split: Split, complete: bool) -> Option<BundlePart> {
        if self.rest.is_empty() || !self.read_mark(complete) {
            return None;
        }
        let before = self.open.as_ref().map_or(0, |open| open.shadow.len());
        let found = match &self.open {
            None => split(&self.rest),
            Some(open) => {
                let mut bundle = open.shadow.clone();
                // This copies no data, because ropes share their chunks.
                bundle.append(self.rest.clone());
                split(&bundle)
            }
        };
        let (len, last) = match found {
            Ok(Some(end)) if end > before => ((end - before).min(self.rest.len()), true),
            _ if complete => (self.rest.len(), true),
            _ => (self.rest.len().saturating_sub(BACK_BYTES), false),
        };
        if len == 0 {
            return None;
        }
        let bytes = if len == self.rest.len() { core::mem::take(&mut self.rest) } else { self.rest.split_to(len) };
        let ticket = self.open();
        if last && self.marks == ServiceMarks::Read {
            self.marks = ServiceMarks::Ahead;
        }
        match &mut self.open {
            _ if last => self.open = None,
            Some(open) => open.passed(&bytes),
            None => {}
        }
        Some(BundlePart { ticket, bytes, last })
    }
    /// Records that a bundle was offered in part under this ticket; `first` is the part.
    pub(super) fn began(&mut self, ticket: Ticket, first: &Payload) {
        let mut open = Box::new(OpenBundle { ticket, shadow: Payload::new(), kept: 0 });
        open.passed(first);
        self.open = Some(open);
    }
}

impl OpenBundle {
    /// Records bytes that were offered.
    fn passed(&mut self, bytes: &Payload) {
        let mut head = bytes.slice(0, HEAD_BYTES - self.kept);
        let kept = head.len();
        if !head.is_fill() && kept > 0 {
            // Copy them, so that no receive buffer is kept.
            let mut copy = BytesMut::zeroed(kept as usize);
            bytes.copy_to(0, &mut copy);
            head = Payload::from(Bytes::from(copy));
        }
        self.shadow.append(head);
        self.kept += kept;
        self.shadow.append(pattern(self.shadow.len(), bytes.len() - kept));
    }
}

/// Fill that replaces offered bytes from `at` on; adjacent fills join into one chunk.
fn pattern(at: u64, len: u64) -> Payload {
    Payload::fill(0, at + len).slice(at, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use farlink_base::Malformed;

    /// Bundles of these tests have their length in the first four bytes.
    fn split(block: &Payload) -> Result<Option<u64>, Malformed> {
        let mut head = [0; 4];
        if !block.reader().read_exact(&mut head) {
            return Ok(None);
        }
        let len = u64::from(u32::from_be_bytes(head));
        Ok((len <= block.len()).then_some(len))
    }
    fn bundle(len: u32, fill: u8) -> Vec<u8> {
        let mut bytes = alloc::vec![fill; len as usize];
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        bytes
    }

    #[test]
    fn bundles_survive_any_chunking() {
        let lengths = [10, 300_000, 4, 200_000, 257, 90_000];
        let bundles: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, len)| bundle(*len, i as u8)).collect();
        let block = Payload::from(bundles.concat());
        for step in [1000, 70_001, 150_000, 1_000_000] {
            let (mut offering, mut at, mut tickets) = (Offering::default(), 0, 0);
            let mut out: Vec<(u64, Vec<u8>, bool)> = Vec::new();
            while at < block.len() {
                offering.push(block.slice(at, step));
                at = (at + step).min(block.len());
                while let Some(part) = offering.next(split, at == block.len()) {
                    let bytes = part.bytes.to_bytes().unwrap();
                    let ticket = part.ticket.map_or(tickets, |ticket| ticket.0);
                    match out.last_mut() {
                        Some((open, content, last)) if *open == ticket => {
                            assert!(!*last);
                            content.extend_from_slice(&bytes);
                            *last = part.last;
                        }
                        _ => out.push((ticket, bytes.to_vec(), part.last)),
                    }
                    if part.last {
                        tickets += 1;
                    } else if part.ticket.is_none() {
                        offering.began(Ticket(ticket), &part.bytes);
                    }
                    assert!(offering.held() <= HEAD_BYTES + step + BACK_BYTES);
                }
            }
            assert!(out.iter().all(|(_, _, last)| *last) && offering.held() == 0);
            assert!(out.into_iter().map(|(_, bytes, _)| bytes).eq(bundles.iter().cloned()), "steps of {step}");
        }
    }

    /// Bundles of a marked block that arrives in steps of this length, and whether data was lost.
    fn unmark(block: &[u8], step: usize) -> (Vec<Vec<u8>>, bool) {
        let (mut offering, mut lost, mut out, mut open) = (Offering::marked(), false, Vec::<Vec<u8>>::new(), false);
        for (at, piece) in block.chunks(step).enumerate() {
            offering.push(Payload::from(piece.to_vec()));
            let complete = (at + 1) * step >= block.len();
            while let Some(part) = offering.next(split, complete) {
                let bytes = part.bytes.to_bytes().unwrap();
                match out.last_mut().filter(|_| open) {
                    Some(begun) => begun.extend_from_slice(&bytes),
                    None => out.push(bytes.to_vec()),
                }
                if !part.last && part.ticket.is_none() {
                    offering.began(Ticket(out.len() as u64), &part.bytes);
                }
                open = !part.last;
            }
            lost |= offering.has_lost();
        }
        assert!(!open && offering.held() == 0);
        (out, lost)
    }

    #[test]
    fn broken_mark_loses_only_later_bundles() {
        let bundles: Vec<Vec<u8>> = [10, 3000, 4, 700].iter().map(|len| bundle(*len, 5)).collect();
        // A number may be padded with leading zeros (RFC 6256).
        let marked = |marks: [&[u8]; 4]| -> Vec<u8> {
            bundles.iter().zip(marks).flat_map(|(bundle, mark)| [mark, bundle].concat()).collect()
        };
        let good = marked([&[1], &[0x80, 1], &[1], &[1]]);
        for step in [1, 2, 7, 300, 5000] {
            assert!(unmark(&good, step) == (bundles.clone(), false), "steps of {step}");
            for wrong in [&[3][..], &[0], &[0xff; 10]] {
                let broken = marked([&[1], &[1], wrong, &[1]]);
                assert!(unmark(&broken, step) == (bundles[..2].to_vec(), true), "{wrong:?}, steps of {step}");
            }
            assert!(unmark(&[&good[..], &[1]].concat(), step) == (bundles.clone(), true), "a mark without an item");
            assert!(unmark(&[9; 400], step) == (Vec::new(), true), "no bundle at all");
        }
        let cut = &good[..good.len() - 5];
        let (out, lost) = unmark(cut, 50);
        assert_eq!((&out[..3], out[3].len(), lost), (&bundles[..3], 695, false), "its reader finds it damaged");
    }
}
