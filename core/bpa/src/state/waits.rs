//! Bundles that are routed again at a set time: after the backoff of a refusal or an unreadable record, after a delay
//! because they came back, or when a router's `Wait` ends. Also recent refusals by neighbours.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use farlink_base::{Instant, PeerId, Refusal};
use farlink_book::{Book, Flags, Handle};

/// Reason why a neighbour counts as having refused a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turned {
    /// The neighbour refused the bundle explicitly.
    Away(Refusal),
    /// Several transmissions failed without an answer.
    Silent,
    /// The neighbour sent the bundle back.
    Back,
}
impl fmt::Display for Turned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Turned::Away(Refusal::Unknown) => f.write_str("has nobody who listens there"),
            Turned::Away(reason) => write!(f, "refused it ({reason})"),
            Turned::Silent => f.write_str("does not answer"),
            Turned::Back => f.write_str("gave it back"),
        }
    }
}

/// A neighbour's refusal: the reason, and the number of times that the neighbour had come up by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Refused {
    peer: PeerId,
    ups: u32,
    why: Turned,
}

/// Waiting bundles, refusals and returns.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    due: BTreeSet<(Instant, Handle)>,
    at: BTreeMap<Handle, Instant>,
    refused: BTreeMap<Handle, Vec<Refused>>,
    /// Bundles that came back: end of the delay, number of returns, and whether only unauthenticated neighbours
    /// returned them.
    back: BTreeMap<Handle, (Instant, u8, bool)>,
    /// Bundles that were reported as too long for the MTU of their only route.
    unfit: BTreeSet<Handle>,
}

/// Most refusals remembered for one bundle; beyond that the oldest is dropped.
const REFUSED_MAX: usize = 32;

/// Wait after the n-th successive failure: 1 s, 2 s, ... 64 s.
pub(crate) fn back_off(failures: u8) -> Duration {
    // 2^6 s = 64 s is the longest wait.
    Duration::from_secs(1 << failures.saturating_sub(1).min(6))
}

impl Waits {
    /// Schedules a bundle to be routed again at this time, unless it is scheduled for an earlier time.
    pub fn until(&mut self, book: &mut Book, bundle: Handle, at: Instant) {
        let before = self.at.get(&bundle).copied();
        // A wait without end needs no entry: it ends by an event, such as a new link.
        if at == Instant::MAX || before.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, bundle));
        }
        self.due.insert((at, bundle));
        self.at.insert(bundle, at);
        if let Some(held) = book.get_mut(bundle) {
            held.flags.set(Flags::ASIDE, true);
        }
    }
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
    /// Time at which a bundle is routed again.
    pub fn due(&self, bundle: Handle) -> Option<Instant> {
        self.at.get(&bundle).copied()
    }
    /// Takes a bundle whose time has come. Its refusals are forgotten, since it waited for their end.
    pub fn pop(&mut self, now: Instant) -> Option<Handle> {
        let (at, bundle) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, bundle));
        self.at.remove(&bundle);
        self.refused.remove(&bundle);
        Some(bundle)
    }
    /// Notes a neighbour's refusal of a bundle.
    pub fn refuse(&mut self, book: &mut Book, bundle: Handle, peer: PeerId, ups: u32, why: Turned) {
        let refused = self.refused.entry(bundle).or_default();
        // One refusal per neighbour: the newest one counts.
        refused.retain(|r| r.peer != peer);
        if refused.len() >= REFUSED_MAX {
            refused.remove(0);
        }
        refused.push(Refused { peer, ups, why });
        if let Some(held) = book.get_mut(bundle) {
            held.flags.set(Flags::ASIDE, true);
        }
    }
    /// Delays a bundle that came back until this time. `strange`: no link vouches for the return.
    pub fn hold_back(&mut self, book: &mut Book, bundle: Handle, until: Instant, returns: u8, strange: bool) {
        self.back.insert(bundle, (until, returns, strange));
        self.until(book, bundle, until);
    }
    /// End of the delay of a bundle that came back, and the number of its returns.
    pub fn held_back(&self, bundle: Handle, now: Instant) -> Option<(Instant, u8)> {
        self.back.get(&bundle).filter(|(until, ..)| *until > now).map(|(until, returns, _)| (*until, *returns))
    }
    /// Ends the delay of a bundle that only unauthenticated neighbours returned. Returns whether it was delayed for
    /// that.
    pub fn ignore_strangers(&mut self, bundle: Handle) -> bool {
        let strange = self.back.get(&bundle).is_some_and(|(.., strange)| *strange);
        strange && self.back.remove(&bundle).is_some()
    }
    /// Neighbours that refused the bundle since they last came up.
    pub fn tried(&self, bundle: Handle, ups: impl Fn(PeerId) -> u32) -> Vec<PeerId> {
        // A neighbour that came up again may have room now.
        let refused = self.refused.get(&bundle).map_or(&[][..], Vec::as_slice);
        refused.iter().filter(|r| ups(r.peer) == r.ups).map(|r| r.peer).collect()
    }
    /// Reason for which a neighbour refused a bundle; `None` if no refusal is remembered.
    pub fn why(&self, bundle: Handle, peer: PeerId) -> Option<Turned> {
        self.refused.get(&bundle)?.iter().find(|refused| refused.peer == peer).map(|refused| refused.why)
    }
    /// Neighbour whose refusal is the oldest remembered, even if it has come up again since.
    pub fn first_refusal(&self, bundle: Handle) -> Option<PeerId> {
        self.refused.get(&bundle)?.first().map(|r| r.peer)
    }
    /// Forgets all refusals of a bundle.
    pub fn forgive(&mut self, bundle: Handle) {
        self.refused.remove(&bundle);
    }
    /// Notes that a bundle exceeds the MTU of its only route. Returns false if this was noted before.
    pub fn note_unfit(&mut self, book: &mut Book, bundle: Handle) -> bool {
        if let Some(held) = book.get_mut(bundle) {
            held.flags.set(Flags::ASIDE, true);
        }
        self.unfit.insert(bundle)
    }
    /// Whether a bundle was noted as exceeding the MTU of its only route.
    pub fn is_unfit(&self, bundle: Handle) -> bool {
        self.unfit.contains(&bundle)
    }
    /// Cancels the time at which a bundle is routed again; its refusals stay remembered.
    pub fn cancel(&mut self, bundle: Handle) {
        if let Some(at) = self.at.remove(&bundle) {
            self.due.remove(&(at, bundle));
        }
    }
    /// Number of entries in all tables.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        assert_eq!(self.due.len(), self.at.len(), "each waits once");
        self.due.len() + self.refused.len() + self.unfit.len() + self.back.len()
    }
    pub fn forget(&mut self, bundle: Handle) {
        self.cancel(bundle);
        self.refused.remove(&bundle);
        self.unfit.remove(&bundle);
        self.back.remove(&bundle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;
    use alloc::vec;
    use farlink_base::Priority;

    #[test]
    fn back_off_doubles_and_stops() {
        assert_eq!([1, 2, 3, 7, 99].map(|n| back_off(n).as_secs()), [1, 2, 4, 64, 64]);
    }

    #[test]
    fn earlier_wait_wins_and_ends_refusal() {
        // Neither a later time nor an endless wait may delay a retry that is already scheduled.
        let (mut book, handles) = book_with(&[Priority::Normal; 2]);
        let mut waits = Waits::default();
        waits.until(&mut book, handles[0], Instant(50));
        waits.until(&mut book, handles[0], Instant(20));
        waits.until(&mut book, handles[0], Instant(30));
        waits.until(&mut book, handles[1], Instant::MAX);
        assert_eq!(waits.next(), Some(Instant(20)));
        waits.refuse(&mut book, handles[0], PeerId(1), 1, Turned::Back);
        waits.refuse(&mut book, handles[0], PeerId(2), 1, Turned::Silent);
        assert_eq!(waits.why(handles[0], PeerId(2)), Some(Turned::Silent));
        assert_eq!(waits.tried(handles[0], |_| 1), [PeerId(1), PeerId(2)]);
        assert_eq!(waits.tried(handles[0], |peer| peer.0), [PeerId(1)], "the other came up anew");
        assert_eq!(waits.pop(Instant(19)), None);
        assert_eq!(waits.pop(Instant(20)), Some(handles[0]));
        assert_eq!((waits.tried(handles[0], |_| 1), waits.next()), (Vec::new(), None));
        waits.until(&mut book, handles[1], Instant(7));
        waits.forget(handles[1]);
        assert_eq!(waits.next(), None);
    }

    #[test]
    fn newest_refusal_of_neighbour_counts() {
        let (mut book, handles) = book_with(&[Priority::Normal]);
        let mut waits = Waits::default();
        waits.refuse(&mut book, handles[0], PeerId(1), 1, Turned::Silent);
        waits.refuse(&mut book, handles[0], PeerId(1), 2, Turned::Back);
        assert_eq!(waits.why(handles[0], PeerId(1)), Some(Turned::Back));
        assert_eq!((waits.tried(handles[0], |_| 1), waits.tried(handles[0], |_| 2)), (vec![], vec![PeerId(1)]));
    }

    #[test]
    fn oldest_of_many_refusals_is_forgotten() {
        let (mut book, handles) = book_with(&[Priority::Normal]);
        let mut waits = Waits::default();
        for peer in 0..=REFUSED_MAX as u32 {
            waits.refuse(&mut book, handles[0], PeerId(peer), 1, Turned::Silent);
        }
        assert_eq!(waits.tried(handles[0], |_| 1).len(), REFUSED_MAX);
        assert_eq!(waits.first_refusal(handles[0]), Some(PeerId(1)));
    }
}
