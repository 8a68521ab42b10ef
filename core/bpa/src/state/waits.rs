//! Bundles that are asked about again at a moment: back-off after a refusal or an unreadable
//! record, a router's `Wait`. And neighbours that refused a bundle lately.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use farlink_base::{Instant, PeerId, Refusal};
use farlink_book::{Book, Flags, Handle};

/// Why a neighbour counts as having refused a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turned {
    /// It said so.
    Away(Refusal),
    /// Session after session ended without an answer.
    Silent,
    /// It sent the bundle back.
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

/// A neighbour that refused a bundle, why, and how often it had come up by then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Refused {
    peer: PeerId,
    ups: u32,
    why: Turned,
}

/// What waits, until when.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    due: BTreeSet<(Instant, Handle)>,
    at: BTreeMap<Handle, Instant>,
    refused: BTreeMap<Handle, Vec<Refused>>,
    /// Returned bundles: until when each is held back, how often it returned, and whether only strangers returned it.
    back: BTreeMap<Handle, (Instant, u8, bool)>,
    /// Of which it was said that the link they would take is too narrow.
    unfit: BTreeSet<Handle>,
}

/// Neighbours remembered of one bundle; more refusals push the oldest out.
const REFUSED_MAX: usize = 32;

/// Wait after the n-th failure in a row: 1 s, 2 s, ... 64 s.
pub(crate) fn back_off(failures: u8) -> Duration {
    Duration::from_secs(1 << failures.saturating_sub(1).min(6))
}

impl Waits {
    /// Asks again about a bundle then, or earlier where that was agreed.
    pub fn until(&mut self, book: &mut Book, bundle: Handle, at: Instant) {
        let before = self.at.get(&bundle).copied();
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
    /// When the next is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
    /// When a bundle is asked about again.
    pub fn due(&self, bundle: Handle) -> Option<Instant> {
        self.at.get(&bundle).copied()
    }
    /// Takes one that is due. Its refusals are forgotten: that is what it waited for.
    pub fn pop(&mut self, now: Instant) -> Option<Handle> {
        let (at, bundle) = self.due.first().copied().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, bundle));
        self.at.remove(&bundle);
        self.refused.remove(&bundle);
        Some(bundle)
    }
    /// A neighbour refused a bundle.
    pub fn refuse(&mut self, book: &mut Book, bundle: Handle, peer: PeerId, ups: u32, why: Turned) {
        let refused = self.refused.entry(bundle).or_default();
        refused.retain(|r| r.peer != peer);
        if refused.len() >= REFUSED_MAX {
            refused.remove(0);
        }
        refused.push(Refused { peer, ups, why });
        if let Some(held) = book.get_mut(bundle) {
            held.flags.set(Flags::ASIDE, true);
        }
    }
    /// A bundle came back: nobody gets it before then. `strange`: nobody vouches for what came.
    pub fn hold_back(&mut self, book: &mut Book, bundle: Handle, until: Instant, returns: u8, strange: bool) {
        self.back.insert(bundle, (until, returns, strange));
        self.until(book, bundle, until);
    }
    /// Until when a bundle that came back is held back, and how often it did.
    pub fn held_back(&self, bundle: Handle, now: Instant) -> Option<(Instant, u8)> {
        self.back.get(&bundle).filter(|(until, ..)| *until > now).map(|(until, returns, _)| (*until, *returns))
    }
    /// Releases a bundle that only strangers returned; true if it was held back.
    pub fn ignore_strangers(&mut self, bundle: Handle) -> bool {
        let strange = self.back.get(&bundle).is_some_and(|(.., strange)| *strange);
        strange && self.back.remove(&bundle).is_some()
    }
    /// Neighbours that refused it since they came up last.
    pub fn tried(&self, bundle: Handle, ups: impl Fn(PeerId) -> u32) -> Vec<PeerId> {
        let refused = self.refused.get(&bundle).map_or(&[][..], Vec::as_slice);
        refused.iter().filter(|r| ups(r.peer) == r.ups).map(|r| r.peer).collect()
    }
    /// Why a neighbour counts as having refused it.
    pub fn why(&self, bundle: Handle, peer: PeerId) -> Option<Turned> {
        self.refused.get(&bundle)?.iter().find(|refused| refused.peer == peer).map(|refused| refused.why)
    }
    /// The refusal remembered first, whenever it was.
    pub fn first_refusal(&self, bundle: Handle) -> Option<PeerId> {
        self.refused.get(&bundle)?.first().map(|r| r.peer)
    }
    /// Its refusals are forgotten.
    pub fn forgive(&mut self, bundle: Handle) {
        self.refused.remove(&bundle);
    }
    /// The link it would take is too narrow for it; whether that is new.
    pub fn note_unfit(&mut self, book: &mut Book, bundle: Handle) -> bool {
        if let Some(held) = book.get_mut(bundle) {
            held.flags.set(Flags::ASIDE, true);
        }
        self.unfit.insert(bundle)
    }
    /// Whether the link it would take was too narrow.
    pub fn is_unfit(&self, bundle: Handle) -> bool {
        self.unfit.contains(&bundle)
    }
    /// It waits no longer; refusals are remembered.
    pub fn cancel(&mut self, bundle: Handle) {
        if let Some(at) = self.at.remove(&bundle) {
            self.due.remove(&(at, bundle));
        }
    }
    /// Bundles that wait, those with refusals, and those too long for their link.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        assert_eq!(self.due.len(), self.at.len(), "each waits once");
        self.due.len() + self.refused.len() + self.unfit.len() + self.back.len()
    }
    /// Forgets a bundle.
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
    use farlink_base::Priority;

    #[test]
    fn backoff_doubles_to_maximum() {
        assert_eq!([1, 2, 3, 7, 99].map(|n| back_off(n).as_secs()), [1, 2, 4, 64, 64]);
    }

    #[test]
    fn earlier_deadline_wins() {
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
}
