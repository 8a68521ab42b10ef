//! Hands the bytes of an arriving red part on, bundle by bundle: at its end, or, of a long one, while
//! it arrives. Of a bundle handed on in part only its first bytes are kept: a pattern of the right
//! length in place of the rest tells where it ends.

use super::Split;
use super::segment::SERVICE_BUNDLE;
use crate::sdnv;
use alloc::boxed::Box;
use farlink_base::layer::Ticket;
use farlink_base::{Bytes, BytesMut, Payload};

/// First bytes kept of a bundle that is handed on in parts; the blocks before a payload are shorter.
const HEAD_BYTES: u64 = 64 << 10;
/// Last bytes held back while the end is not in sight: what follows a payload is shorter.
const BACK_BYTES: u64 = 256;

/// What was handed on of a bundle whose end has not come.
#[derive(Debug)]
struct OpenBundle {
    ticket: Ticket,
    /// Its first bytes, and a pattern for the others.
    shadow: Payload,
    kept: u64,
}

/// A part to hand on.
#[derive(Debug)]
pub(super) struct BundlePart {
    /// That of the bundle it belongs to; `None`: it begins one.
    pub(super) ticket: Option<Ticket>,
    pub(super) bytes: Payload,
    pub(super) last: bool,
}

/// How the items of a block follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum ServiceMarks {
    /// Nothing between them.
    #[default]
    None,
    /// The number of its service is before each, and here before the next (CCSDS 734.1).
    Ahead,
    /// That of the item that comes was read.
    Read,
    /// What comes is for no service here, and nobody knows how long it is.
    Lost,
}

/// How far the red part of one session was handed on.
#[derive(Default, Debug)]
pub(super) struct Offering {
    rest: Payload,
    open: Option<Box<OpenBundle>>,
    marks: ServiceMarks,
    /// Whether something was thrown away since this was asked.
    lost: bool,
}

impl Offering {
    /// That of a block whose items are marked with their services.
    pub(super) fn marked() -> Offering {
        Offering { marks: ServiceMarks::Ahead, ..Offering::default() }
    }
    /// Whether something could not be read and was thrown away, since this was last asked.
    pub(super) fn has_lost(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }
    /// Reads the mark of the next item off; false when there is none to hand on.
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
    /// The bundle of which parts were handed on and the end was not.
    pub(super) fn open(&self) -> Option<Ticket> {
        self.open.as_ref().map(|open| open.ticket)
    }
    /// Bytes it keeps.
    pub(super) fn held(&self) -> u64 {
        self.rest.len() + self.open.as_ref().map_or(0, |open| open.kept)
    }
    /// Lets go of the receive buffers that what it keeps came in.
    pub(super) fn unshare(&mut self) {
        self.rest = self.rest.own();
    }
    /// The next bytes of the block in order; `complete` with the last.
    pub(super) fn push(&mut self, bytes: Payload) {
        if self.rest.is_empty() {
            self.rest = bytes;
        } else {
            self.rest.append(bytes);
        }
    }
    /// The next part; [`Offering::began`] must be told the ticket of one that does not end.
    pub(super) fn next(&mut self, split: Split, complete: bool) -> Option<BundlePart> {
        if self.rest.is_empty() || !self.read_mark(complete) {
            return None;
        }
        let before = self.open.as_ref().map_or(0, |open| open.shadow.len());
        let found = match &self.open {
            None => split(&self.rest),
            Some(open) => {
                let mut bundle = open.shadow.clone();
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
    /// A bundle began with this part, which does not end it.
    pub(super) fn began(&mut self, ticket: Ticket, first: &Payload) {
        let mut open = Box::new(OpenBundle { ticket, shadow: Payload::new(), kept: 0 });
        open.passed(first);
        self.open = Some(open);
    }
}

impl OpenBundle {
    /// These bytes follow those that were handed on.
    fn passed(&mut self, bytes: &Payload) {
        let mut head = bytes.slice(0, HEAD_BYTES - self.kept);
        let kept = head.len();
        if !head.is_fill() && kept > 0 {
            // A copy, so that it does not hold the buffers the bytes came in.
            let mut copy = BytesMut::zeroed(kept as usize);
            bytes.copy_to(0, &mut copy);
            head = Payload::from(Bytes::from(copy));
        }
        self.shadow.append(head);
        self.kept += kept;
        self.shadow.append(pattern(self.shadow.len(), bytes.len() - kept));
    }
}

/// Stands for bytes that were handed on; neighbours join to one piece.
fn pattern(at: u64, len: u64) -> Payload {
    Payload::fill(0, at + len).slice(at, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use farlink_base::Malformed;

    /// Bundles of the tests say their length in their first four bytes.
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

    /// All that comes out of a marked block that arrives in these steps, and whether something was lost.
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
        // A number may be padded with zeros (RFC 6256).
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
