//! Backoff for neighbours without room. A bundle refused for lack of room would be refused again at once, and so would
//! others of its source (which may have used up its share there, while other sources find room): they wait here in
//! order of arrival. From time to time one of them is tried; once the neighbour accepts bundles of the source again, it
//! gets more. Expedited bundles form groups of their own, because a neighbour may reserve room for them.

use crate::state::waits::back_off;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Empty, Instant, NodeId, PeerId, Priority};
use farlink_book::{Book, Handle};

/// Waiting bundles that are tried after each one that the neighbour accepted.
const AFTER_ONE: usize = 2;
/// Successive refusals up to which the oldest bundle is tried each time; after more, each bundle in turn, since another
/// may be smaller.
const SAME_MAX: u8 = 2;

/// Group of bundles that share a neighbour's room: those of one source, expedited or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Alike {
    source: NodeId,
    expedited: bool,
}

impl Alike {
    /// Group that a bundle belongs to.
    pub fn to(bundle: &BundleMeta) -> Alike {
        Alike { source: bundle.source.node(), expedited: bundle.priority == Priority::Expedited }
    }
}

/// One group of bundles at one neighbour.
type BackoffKey = (PeerId, Alike);

/// State of one group at a neighbour without room.
#[derive(Debug, Default)]
struct Rest {
    /// Time before which the neighbour is sent no bundle of the group.
    until: Instant,
    /// Time at which the next waiting bundle is tried, even if the result of the last attempt is still unknown.
    again: Instant,
    /// Successive refusals; those during one backoff count once.
    times: u8,
    /// Waiting bundles by number, oldest first.
    waiting: BTreeMap<u64, Handle>,
    /// Number of the bundle that was tried last.
    tried: u64,
    /// Value of `times` when that bundle was tried.
    times_then: u8,
}

/// Groups at all neighbours without room.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    full: BTreeMap<BackoffKey, Rest>,
    due: BTreeSet<(Instant, BackoffKey)>,
    /// Group in which each bundle waits, and the bundle's number.
    at: BTreeMap<Handle, (BackoffKey, u64)>,
}

// Allocated on first use: most nodes never meet a neighbour without room.
impl Empty for Backoff {
    type From = ();
    const EMPTY: &'static Self = &Backoff { full: BTreeMap::new(), due: BTreeSet::new(), at: BTreeMap::new() };
    fn make((): ()) -> Self {
        Backoff::default()
    }
}

impl Backoff {
    /// Begins a backoff, or lengthens it, because the neighbour had no room for a bundle of this group.
    pub fn begin(&mut self, peer: PeerId, alike: Alike, now: Instant) {
        let rest = self.full.entry((peer, alike)).or_default();
        // Bundles under way when the backoff began are refused for the same reason.
        if now < rest.until {
            return;
        }
        rest.times = rest.times.saturating_add(1);
        rest.until = now + back_off(rest.times);
        let at = rest.until;
        self.come_again((peer, alike), at);
    }
    fn come_again(&mut self, key: BackoffKey, at: Instant) {
        if let Some(rest) = self.full.get_mut(&key) {
            self.due.remove(&(rest.again, key));
            self.due.insert((at, key));
            rest.again = at;
        }
    }
    /// Whether bundles of the group are held back from this neighbour now.
    pub fn hold(&self, peer: PeerId, alike: Alike, now: Instant) -> bool {
        self.full.get(&(peer, alike)).is_some_and(|rest| now < rest.until)
    }
    /// Lets a bundle wait for the first of these neighbours that has no room for its group. Returns false if all have
    /// room.
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
    /// Ends a bundle's wait.
    pub fn leave(&mut self, bundle: Handle) {
        if let Some((key, number)) = self.at.remove(&bundle)
            && let Some(rest) = self.full.get_mut(&key)
        {
            rest.waiting.remove(&number);
        }
    }
    /// Notes that the neighbour accepted a bundle of this group, which ends the backoff. Returns waiting bundles to be
    /// tried now.
    pub fn took(&mut self, peer: PeerId, alike: Alike, now: Instant) -> Vec<Handle> {
        // Success proves that there is room: the backoff starts over.
        let Some(rest) = self.full.get_mut(&(peer, alike)) else { return Vec::new() };
        (rest.until, rest.times) = (rest.until.min(now), 0);
        let more: Vec<Handle> = rest.waiting.values().take(AFTER_ONE).copied().collect();
        more.iter().for_each(|bundle| self.leave(*bundle));
        more
    }
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
    /// Time of the next attempt with a bundle of this bundle's group; `None` if the bundle waits in no group.
    pub fn due(&self, bundle: Handle) -> Option<Instant> {
        let (key, _) = self.at.get(&bundle)?;
        self.full.get(key).map(|rest| rest.again)
    }
    /// Takes a waiting bundle that is to be tried. A backoff without waiting bundles ends.
    pub fn pop(&mut self, now: Instant) -> Option<Handle> {
        while let Some((_, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            let rest = self.full.get_mut(&key)?;
            // The next bundle is tried, not the oldest again, after many refusals, or if the last attempt was not
            // refused for lack of room: it proves nothing about the other bundles.
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
    /// Ends the backoffs of a neighbour that came up again; waiting bundles are tried now.
    pub fn end(&mut self, peer: PeerId, now: Instant) {
        let [first, last] = [(NodeId::NULL, false), (NodeId(u64::MAX), true)];
        let [first, last] = [first, last].map(|(source, expedited)| (peer, Alike { source, expedited }));
        let of_peer = first..=last;
        let keys: Vec<BackoffKey> = self.full.range(of_peer).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some(rest) = self.full.get_mut(&key) {
                (rest.until, rest.times) = (rest.until.min(now), 0);
            }
            self.come_again(key, now);
        }
    }
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
    fn each_success_admits_two_more() {
        // One probe and `AFTER_ONE` for each success: after 1 + 2 + 2 only one of the six is left.
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
    fn bundle_refusal_delays_no_other() {
        let (book, handles) = book_with(&[Priority::Normal; 2]);
        let alike = Alike::to(&book.get(handles[0]).unwrap().bundle);
        let mut backoff = Backoff::default();
        backoff.begin(PEER, alike, at(0));
        handles.iter().for_each(|bundle| assert!(backoff.wait(&book, *bundle, &[PEER])));
        let mut tried = Vec::new();
        for _ in 0..3 {
            let now = backoff.next().unwrap();
            let bundle = backoff.pop(now).unwrap();
            // Not refused for lack of room, so no new back-off begins.
            backoff.wait(&book, bundle, &[PEER]);
            tried.push(bundle);
        }
        assert_eq!(tried, [handles[0], handles[1], handles[0]]);
    }

    #[test]
    fn next_attempt_is_after_failed_one() {
        let (book, handles) = book_with(&[Priority::Normal; 2]);
        let alike = Alike::to(&book.get(handles[0]).unwrap().bundle);
        let mut backoff = Backoff::default();
        backoff.begin(PEER, alike, at(0));
        handles.iter().for_each(|bundle| assert!(backoff.wait(&book, *bundle, &[PEER])));
        // The tried bundle does not report back: the group's backoff is over, but the other bundle waits on.
        assert_eq!(backoff.pop(at(1)), Some(handles[0]));
        assert_eq!(backoff.due(handles[1]), backoff.next());
    }

    #[test]
    fn third_refusal_tries_another_bundle() {
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
