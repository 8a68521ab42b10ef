//! Messages between nodes with this control, carried in hellos. Each consists of parts: a type, a count, and that many
//! entries. A truncated or unknown part ends the message.

use super::arrived::KnownArrival;
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId};

/// Maximum number of entries per part; a longer part ends the message.
pub(super) const ENTRIES_MAX: usize = 4096;

const ARRIVED: u8 = b'a';
const SEEN: u8 = b's';
const MET: u8 = b'm';
const GONE: u8 = b'g';

/// Part of a message.
#[derive(PartialEq, Debug)]
pub(super) enum MessagePart {
    /// Delivered bundles with their remaining lifetimes in s, and whether the sender saw the delivery itself.
    Arrived(Vec<(u128, u32)>, bool),
    /// Nodes met, with the seconds since.
    Met(Vec<(NodeId, u32)>),
    /// Bundles that the sender evicted.
    Gone(Vec<u128>),
}

/// Message being written.
#[derive(Default, Debug)]
pub(super) struct Letter(pub Vec<u8>);

impl Letter {
    fn begin(&mut self, kind: u8, count: usize) {
        self.0.push(kind);
        self.0.extend_from_slice(&(count.min(ENTRIES_MAX) as u16).to_be_bytes());
    }
    /// Appends delivered bundles, in separate parts for those that this node saw and those that were reported to it.
    pub fn arrived(&mut self, now: Instant, all: &[KnownArrival]) {
        for (kind, seen) in [(SEEN, true), (ARRIVED, false)] {
            let ids: Vec<&KnownArrival> = all.iter().filter(|known| known.seen == seen).collect();
            // An empty part would cost its header.
            if ids.is_empty() {
                continue;
            }
            self.begin(kind, ids.len());
            for known in ids.iter().take(ENTRIES_MAX) {
                let left = u32::try_from(known.until.since(now).as_secs()).unwrap_or(u32::MAX);
                self.0.extend_from_slice(&known.id.to_be_bytes());
                self.0.extend_from_slice(&left.to_be_bytes());
            }
        }
    }
    /// Appends nodes met, with the seconds since.
    pub fn met(&mut self, met: &[(NodeId, u32)]) {
        self.begin(MET, met.len());
        for (node, age) in met.iter().take(ENTRIES_MAX) {
            self.0.extend_from_slice(&node.0.to_be_bytes());
            self.0.extend_from_slice(&age.to_be_bytes());
        }
    }
    /// Appends evicted bundles.
    pub fn gone(&mut self, ids: &[u128]) {
        self.begin(GONE, ids.len());
        ids.iter().take(ENTRIES_MAX).for_each(|id| self.0.extend_from_slice(&id.to_be_bytes()));
    }
}

fn number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}
fn u32_of(bytes: &mut &[u8]) -> Option<u32> {
    number(bytes).map(u32::from_be_bytes)
}
fn id_of(bytes: &mut &[u8]) -> Option<u128> {
    number(bytes).map(u128::from_be_bytes)
}

/// Entries of a part; `None` if it is truncated. Allocates no more than the bytes received justify.
fn entries<T>(bytes: &mut &[u8], one: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::from(number(bytes).map(u16::from_be_bytes)?);
    // Not sized by the count, which is the sender's claim.
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(one(bytes)?);
    }
    (count <= ENTRIES_MAX).then_some(all)
}

/// Maximum number of parts read per message: a meeting needs four, several waiting messages somewhat more. Each part,
/// however short, costs a pass over known entries.
const PARTS_MAX: usize = 64;

/// Parts of a message, up to the first inconsistency.
pub(super) fn parts(mut bytes: &[u8]) -> impl Iterator<Item = MessagePart> {
    core::iter::from_fn(move || {
        let [kind] = number(&mut bytes)?;
        match kind {
            ARRIVED | SEEN => {
                let ids = entries(&mut bytes, |b| Some((id_of(b)?, u32_of(b)?)));
                ids.map(|ids| MessagePart::Arrived(ids, kind == SEEN))
            }
            MET => entries(&mut bytes, |b| Some((NodeId(number(b).map(u64::from_be_bytes)?), u32_of(b)?)))
                .map(MessagePart::Met),
            GONE => entries(&mut bytes, id_of).map(MessagePart::Gone),
            _ => None,
        }
    })
    .take(PARTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn letter() -> Vec<u8> {
        let mut letter = Letter::default();
        let known = |id, until, seen| KnownArrival { id, until, seen };
        let all = [known(7, Instant(61_000_000_000), false), known(1 << 100, Instant::MAX, true)];
        letter.arrived(Instant(1_000_000_000), &all);
        letter.met(&[(NodeId(5), 600)]);
        letter.gone(&[9, 10]);
        letter.0
    }

    #[test]
    fn what_is_written_is_read() {
        let read: Vec<MessagePart> = parts(&letter()).collect();
        let [seen, heard] =
            [MessagePart::Arrived(vec![(1 << 100, u32::MAX)], true), MessagePart::Arrived(vec![(7, 60)], false)];
        assert_eq!(read, [seen, heard, MessagePart::Met(vec![(NodeId(5), 600)]), MessagePart::Gone(vec![9, 10])]);
    }

    #[test]
    fn truncated_message_yields_whole_parts() {
        let whole = letter();
        for cut in 0..whole.len() {
            assert!(parts(&whole[..cut]).count() < 4, "{cut}");
        }
        // The count alone must not make the reader allocate or wait for entries.
        assert_eq!(parts(&[ARRIVED, 255, 255, 1, 2, 3]).count(), 0);
        assert_eq!(parts(b"no letter at all").count(), 0);
        // All of its entries are there, but the part exceeds `ENTRIES_MAX`.
        let mut many = vec![GONE, 0xff, 0xff];
        many.extend_from_slice(&[0; 16 * 65_535]);
        assert_eq!(parts(&many).count(), 0, "more than is read of one part");
        assert_eq!(parts(&[MET, 0, 0].repeat(10_000)).count(), PARTS_MAX);
    }
}
