//! What nodes with this control tell each other in hellos: parts of a letter, a count and so many entries,
//! one behind the other. What is cut short, or unknown, ends it.

use super::arrived::Known;
use alloc::vec::Vec;
use farlink_base::{Instant, NodeId};

/// Entries of one part that are read; beyond, a message says nothing.
pub(super) const ENTRIES_MAX: usize = 4096;

const ARRIVED: u8 = b'a';
const SEEN: u8 = b's';
const MET: u8 = b'm';
const GONE: u8 = b'g';

/// One part of a message.
#[derive(PartialEq, Debug)]
pub(super) enum Part {
    /// Bundles that arrived, and for how many seconds more they live; whether the teller saw that itself.
    Arrived(Vec<(u128, u32)>, bool),
    /// Nodes, and how many seconds ago they were met.
    Met(Vec<(NodeId, u32)>),
    /// Bundles that the teller gave up.
    Gone(Vec<u128>),
}

/// Parts of a message being written.
#[derive(Default, Debug)]
pub(super) struct Letter(pub Vec<u8>);

impl Letter {
    fn begin(&mut self, kind: u8, count: usize) {
        self.0.push(kind);
        self.0.extend_from_slice(&(count.min(ENTRIES_MAX) as u16).to_be_bytes());
    }
    /// Bundles that arrived, each until it is forgotten: those that this node saw arrive, and those that it heard of.
    pub fn arrived(&mut self, now: Instant, all: &[Known]) {
        for (kind, seen) in [(SEEN, true), (ARRIVED, false)] {
            let ids: Vec<&Known> = all.iter().filter(|known| known.seen == seen).collect();
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
    /// Nodes met, and how many seconds ago.
    pub fn met(&mut self, met: &[(NodeId, u32)]) {
        self.begin(MET, met.len());
        for (node, age) in met.iter().take(ENTRIES_MAX) {
            self.0.extend_from_slice(&node.0.to_be_bytes());
            self.0.extend_from_slice(&age.to_be_bytes());
        }
    }
    /// Bundles given up.
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

/// The entries of a part; `None` where it is cut short. No more room is taken than what came justifies.
fn entries<T>(bytes: &mut &[u8], one: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::from(number(bytes).map(u16::from_be_bytes)?);
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(one(bytes)?);
    }
    (count <= ENTRIES_MAX).then_some(all)
}

/// Parts read of one message: four are said at a meeting, and some more where several wait to leave together. Each costs
/// a look at all that is known, however short it is.
const PARTS_MAX: usize = 64;

/// The parts of a message, as far as it makes sense.
pub(super) fn parts(mut bytes: &[u8]) -> impl Iterator<Item = Part> {
    core::iter::from_fn(move || {
        let [kind] = number(&mut bytes)?;
        match kind {
            ARRIVED | SEEN => {
                let ids = entries(&mut bytes, |b| Some((id_of(b)?, u32_of(b)?)));
                ids.map(|ids| Part::Arrived(ids, kind == SEEN))
            }
            MET => {
                entries(&mut bytes, |b| Some((NodeId(number(b).map(u64::from_be_bytes)?), u32_of(b)?))).map(Part::Met)
            }
            GONE => entries(&mut bytes, id_of).map(Part::Gone),
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
        let known = |id, until, seen| Known { id, until, seen };
        let all = [known(7, Instant(61_000_000_000), false), known(1 << 100, Instant::MAX, true)];
        letter.arrived(Instant(1_000_000_000), &all);
        letter.met(&[(NodeId(5), 600)]);
        letter.gone(&[9, 10]);
        letter.0
    }

    #[test]
    fn what_is_written_is_read() {
        let read: Vec<Part> = parts(&letter()).collect();
        let [seen, heard] = [Part::Arrived(vec![(1 << 100, u32::MAX)], true), Part::Arrived(vec![(7, 60)], false)];
        assert_eq!(read, [seen, heard, Part::Met(vec![(NodeId(5), 600)]), Part::Gone(vec![9, 10])]);
    }

    #[test]
    fn truncated_message_yields_whole_parts() {
        let whole = letter();
        for cut in 0..whole.len() {
            assert!(parts(&whole[..cut]).count() < 4, "{cut}");
        }
        assert_eq!(parts(&[ARRIVED, 255, 255, 1, 2, 3]).count(), 0);
        assert_eq!(parts(b"no letter at all").count(), 0);
        let mut many = vec![GONE, 0xff, 0xff];
        many.extend_from_slice(&[0; 16 * 65_535]);
        assert_eq!(parts(&many).count(), 0, "more than is read of one part");
        assert_eq!(parts(&[MET, 0, 0].repeat(10_000)).count(), PARTS_MAX);
    }
}
