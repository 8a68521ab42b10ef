//! Neighbours without room. What one refuses for want of room would be refused again at once, and so would what
//! else there is of that source (which may have filled its share there, while others find room): it waits here,
//! in the order it came. Now and then one is tried; as the neighbour takes bundles of the source again, it is
//! given more of them. Of expedited bundles a refusal of others says nothing: a neighbour may keep room for them.

use crate::state::waits::back_off;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Empty, Instant, NodeId, PeerId, Priority};
use farlink_book::{Book, Handle};

/// Bundles asked about for each one that the neighbour took.
const AFTER_ONE: usize = 2;
/// Refusals in a row up to which the oldest is tried again; then each in turn: another may be smaller.
const SAME_MAX: u8 = 2;

/// Bundles for which a neighbour has room alike: of one source, and expedited or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Alike {
    source: NodeId,
    expedited: bool,
}

impl Alike {
    /// What this one is like.
    pub fn to(bundle: &BundleMeta) -> Alike {
        Alike { source: bundle.source.node(), expedited: bundle.priority == Priority::Expedited }
    }
}

/// Some at one neighbour.
type Key = (PeerId, Alike);

/// Bundles that one neighbour has no room for.
#[derive(Debug, Default)]
struct Rest {
    /// Nothing is sent before.
    until: Instant,
    /// When the next is tried, whatever became of the last.
    again: Instant,
    /// Refusals in a row, one for each rest.
    times: u8,
    /// By their numbers: oldest first.
    waiting: BTreeMap<u64, Handle>,
    /// The one tried last.
    tried: u64,
    /// Refusals in a row when it was tried.
    times_then: u8,
}

/// All neighbours without room.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    full: BTreeMap<Key, Rest>,
    due: BTreeSet<(Instant, Key)>,
    /// Where each bundle waits, and its number.
    at: BTreeMap<Handle, (Key, u64)>,
}

/// Most neighbours have room.
impl Empty for Backoff {
    type From = ();
    const EMPTY: &'static Self = &Backoff { full: BTreeMap::new(), due: BTreeSet::new(), at: BTreeMap::new() };
    fn make((): ()) -> Self {
        Backoff::default()
    }
}

impl Backoff {
    /// A neighbour had no room for one of these.
    pub fn begin(&mut self, peer: PeerId, alike: Alike, now: Instant) {
        let rest = self.full.entry((peer, alike)).or_default();
        // What was under way when it began is refused for the same reason.
        if now < rest.until {
            return;
        }
        rest.times = rest.times.saturating_add(1);
        rest.until = now + back_off(rest.times);
        let at = rest.until;
        self.come_again((peer, alike), at);
    }
    fn come_again(&mut self, key: Key, at: Instant) {
        if let Some(rest) = self.full.get_mut(&key) {
            self.due.remove(&(rest.again, key));
            self.due.insert((at, key));
            rest.again = at;
        }
    }
    /// Whether none of these is sent to this neighbour now.
    pub fn hold(&self, peer: PeerId, alike: Alike, now: Instant) -> bool {
        self.full.get(&(peer, alike)).is_some_and(|rest| now < rest.until)
    }
    /// Makes a bundle wait for the first of these neighbours, which refused it, that has no room for what is like it;
    /// whether there is one.
    pub fn wait(&mut self, book: &Book, bundle: Handle, peers: &[PeerId]) -> bool {
        let Some(held) = book.get(bundle) else { return false };
        let (alike, number) = (Alike::to(&held.bundle), held.number);
        let Some(peer) = peers.iter().find(|peer| self.full.contains_key(&(**peer, alike))) else { return false };
        if let Some(rest) = self.full.get_mut(&(*peer, alike)) {
            rest.waiting.insert(number, bundle);
            self.at.insert(bundle, ((*peer, alike), number));
        }
        true
    }
    /// It waits no longer.
    pub fn leave(&mut self, bundle: Handle) {
        if let Some((key, number)) = self.at.remove(&bundle)
            && let Some(rest) = self.full.get_mut(&key)
        {
            rest.waiting.remove(&number);
        }
    }
    /// The neighbour took one of these: the ones given are to be tried, too.
    pub fn took(&mut self, peer: PeerId, alike: Alike, now: Instant) -> Vec<Handle> {
        let Some(rest) = self.full.get_mut(&(peer, alike)) else { return Vec::new() };
        (rest.until, rest.times) = (rest.until.min(now), 0);
        let more: Vec<Handle> = rest.waiting.values().take(AFTER_ONE).copied().collect();
        more.iter().for_each(|bundle| self.leave(*bundle));
        more
    }
    /// When the next is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
    /// When the neighbour is tried again that a bundle waits for.
    pub fn due(&self, bundle: Handle) -> Option<Instant> {
        let (key, _) = self.at.get(&bundle)?;
        self.full.get(key).map(|rest| rest.until)
    }
    /// Takes one that is to be tried. A rest that nothing waits for is over.
    pub fn pop(&mut self, now: Instant) -> Option<Handle> {
        while let Some((_, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let rest = self.full.get_mut(&key)?;
            // One that came to nothing for another reason than room says nothing of the others: it is their turn.
            let other = rest.times > SAME_MAX || rest.times == rest.times_then;
            let from = if other { rest.tried.saturating_add(1) } else { 0 };
            let chosen = rest.waiting.range(from..).next().or(rest.waiting.first_key_value());
            let Some((number, bundle)) = chosen.map(|(number, bundle)| (*number, *bundle)) else {
                self.due.remove(&(rest.again, key));
                self.full.remove(&key);
                continue;
            };
            (rest.tried, rest.times_then) = (number, rest.times);
            let at = now + back_off(rest.times);
            self.come_again(key, at);
            self.leave(bundle);
            return Some(bundle);
        }
        None
    }
    /// The neighbour came up anew: its rests are over, and what waits is tried now.
    pub fn end(&mut self, peer: PeerId, now: Instant) {
        let [first, last] = [(NodeId::NULL, false), (NodeId(u64::MAX), true)];
        let [first, last] = [first, last].map(|(source, expedited)| (peer, Alike { source, expedited }));
        let of_peer = first..=last;
        let keys: Vec<Key> = self.full.range(of_peer).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(rest) = self.full.get_mut(&key) {
                (rest.until, rest.times) = (rest.until.min(now), 0);
            }
            self.come_again(key, now);
        }
    }
    /// Bundles that wait, and neighbours without room.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        assert_eq!(self.due.len(), self.full.len(), "each comes again");
        let waiting: usize = self.full.values().map(|rest| rest.waiting.len()).sum();
        assert_eq!(waiting, self.at.len(), "each bundle waits once");
        self.full.len() + waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;

    const PEER: PeerId = PeerId(1);

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn probe_after_backoff_then_double() {
        let (book, handles) = book_with(&[Priority::Normal; 6]);
        let alike = Alike::to(&book.get(handles[0]).unwrap().bundle);
        let mut backoff = Backoff::default();
        assert!(!backoff.wait(&book, handles[0], &[PEER]), "it has room");
        backoff.begin(PEER, alike, at(0));
        backoff.begin(PEER, alike, at(0));
        assert!(backoff.hold(PEER, alike, at(0)) && !backoff.hold(PEER, alike, at(1)), "the first rest is a second");
        assert!(!backoff.hold(PEER, Alike { source: NodeId::ipn(77), ..alike }, at(0)), "other sources are not held");
        assert!(!backoff.hold(PEER, Alike { expedited: true, ..alike }, at(0)), "and no expedited ones");
        for bundle in handles.iter().rev() {
            assert!(backoff.wait(&book, *bundle, &[PeerId(9), PEER]));
        }
        assert_eq!((backoff.next(), backoff.pop(at(0))), (Some(at(1)), None));
        assert_eq!((backoff.pop(at(1)), backoff.pop(at(1))), (Some(handles[0]), None));
        assert_eq!(backoff.took(PEER, alike, at(1)), handles[1..3]);
        assert_eq!(backoff.took(PEER, alike, at(1)), handles[3..5]);
        assert_eq!(backoff.took(PEER, alike, at(1)), handles[5..6]);
        assert!(backoff.took(PEER, alike, at(1)).is_empty());
        assert_eq!(backoff.pop(at(99)), None);
        assert!(backoff.full.is_empty() && backoff.due.is_empty() && backoff.at.is_empty());
    }

    #[test]
    fn bundle_own_refusal_blocks_no_other() {
        let (book, handles) = book_with(&[Priority::Normal; 2]);
        let alike = Alike::to(&book.get(handles[0]).unwrap().bundle);
        let mut backoff = Backoff::default();
        backoff.begin(PEER, alike, at(0));
        handles.iter().for_each(|bundle| assert!(backoff.wait(&book, *bundle, &[PEER])));
        let mut tried = Vec::new();
        for _ in 0..3 {
            let now = backoff.next().unwrap();
            let bundle = backoff.pop(now).unwrap();
            // Not for want of room: no rest begins.
            backoff.wait(&book, bundle, &[PEER]);
            tried.push(bundle);
        }
        assert_eq!(tried, [handles[0], handles[1], handles[0]]);
    }

    #[test]
    fn three_refusals_switch_probe() {
        let (book, handles) = book_with(&[Priority::Normal; 2]);
        let alike = Alike::to(&book.get(handles[0]).unwrap().bundle);
        let mut backoff = Backoff::default();
        let (mut now, mut tried) = (at(0), Vec::new());
        backoff.begin(PEER, alike, now);
        handles.iter().for_each(|bundle| assert!(backoff.wait(&book, *bundle, &[PEER])));
        for _ in 0..5 {
            now = backoff.next().unwrap();
            let bundle = backoff.pop(now).unwrap();
            backoff.begin(PEER, alike, now);
            backoff.wait(&book, bundle, &[PEER]);
            tried.push((now.0 / 1_000_000_000, bundle));
        }
        let [first, second] = handles[..] else { panic!() };
        assert_eq!(tried, [(1, first), (3, first), (7, second), (15, first), (31, second)]);
        backoff.leave(first);
        backoff.end(PEER, now);
        assert_eq!((backoff.pop(now), backoff.hold(PEER, alike, now)), (Some(second), false));
    }
}
