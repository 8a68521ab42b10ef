//! A bundle this node holds, and why.

use crate::lists::Thread;
use crate::pages::NIL;
use alloc::sync::Arc;
use farlink_base::{BundleHandle, BundleMeta, Duration, Facts, Instant, NodeId, PeerId};

/// Finds a held bundle without a map: its slot, and the low half of its number, by which a handle
/// of a bundle that is gone misses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    /// Low half of the bundle's number.
    pub stamp: u32,
    /// Its slot.
    pub slot: u32,
}

/// Why a bundle is held (RFC 9171 3.1: retention constraints). Each has one owner in the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RetentionConstraint {
    /// The store has not said that it is durable.
    Commit,
    /// It is to be forwarded, and no send under way will do all of it.
    Route,
    /// It is in the queue of one link or several.
    Queue,
    /// Convergence layers are sending it.
    Send,
    /// This node has custody of it.
    Custody,
    /// An application here is to have it.
    Deliver,
    /// It is a fragment that waits for the others.
    Fragment,
    /// Something else refers to it: a whole that it is part of, or members of its group here that are to have it.
    Whole,
}

/// A set of reasons. A bundle leaves when its set is empty.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RetentionConstraints(u8);
impl RetentionConstraints {
    /// None.
    pub const NONE: RetentionConstraints = RetentionConstraints(0);
    /// These.
    pub const fn of(reasons: &[RetentionConstraint]) -> RetentionConstraints {
        let (mut bits, mut i) = (0, 0);
        while i < reasons.len() {
            bits |= 1 << reasons[i] as u8;
            i += 1;
        }
        RetentionConstraints(bits)
    }
    /// Whether this is one of them.
    pub const fn has(self, reason: RetentionConstraint) -> bool {
        self.0 & (1 << reason as u8) != 0
    }
    /// Whether there is none but these.
    pub const fn within(self, others: RetentionConstraints) -> bool {
        self.0 & !others.0 == 0
    }
    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub(crate) const fn with(self, reason: RetentionConstraint) -> RetentionConstraints {
        RetentionConstraints(self.0 | 1 << reason as u8)
    }
    pub(crate) const fn without(self, reason: RetentionConstraint) -> RetentionConstraints {
        RetentionConstraints(self.0 & !(1 << reason as u8))
    }
}

/// Small facts about a held bundle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u8);
impl Flags {
    /// The store keeps it (or the node keeps bundles in memory only).
    pub const DURABLE: u8 = 1;
    /// It was found in the store after a restart, or delivered before without an answer.
    pub const SEEN_BEFORE: u8 = 2;
    /// The agent keeps more about it in tables aside (neighbours tried, ranges still to go).
    pub const ASIDE: u8 = 4;
    /// The store has no record of it: a whole made of its parts, a hello.
    pub const VIRTUAL: u8 = 8;
    /// The store refused it; it is only on its way through.
    pub const UNRECORDED: u8 = 16;
    /// It is queued because the control moves it to a neighbour.
    pub const MOVES: u8 = 32;
    /// A neighbour nobody configured gave it.
    pub const STRANGE: u8 = 64;
    /// Its payload shares no memory with anything else.
    pub const SETTLED: u8 = 128;
    /// Whether it is set.
    pub const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
    /// Sets or clears.
    pub fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.0 |= flag;
        } else {
            self.0 &= !flag;
        }
    }
}

/// When a bundle had no age, on the clock of this process: what it came with is counted back from its arrival, so that
/// its age grows by the time it is here (RFC 9171 5.4 step 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Birth {
    /// Before the process began where negative.
    at_ms: i64,
}
impl Birth {
    /// Of a bundle of this age.
    pub fn of(now: Instant, age_ms: u64) -> Birth {
        Birth { at_ms: millis(now).saturating_sub_unsigned(age_ms) }
    }
    /// Its age.
    pub fn age_ms(self, now: Instant) -> u64 {
        millis(now).saturating_sub(self.at_ms).max(0) as u64
    }
}
fn millis(at: Instant) -> i64 {
    (at.as_nanos() / 1_000_000) as i64
}

/// What begins an entry of the book.
#[derive(Clone, Debug)]
pub struct New {
    /// The bundle.
    pub bundle: Arc<BundleMeta>,
    /// Its number from an earlier run; `None`: the next one.
    pub number: Option<u64>,
    /// What its age is counted from.
    pub born: Birth,
    /// When its lifetime ends.
    pub expires: Instant,
    /// Who gave it.
    pub from: PeerId,
    /// Hops so far.
    pub hops: u8,
    /// Labels of the router and of the control.
    pub labels: [u32; 2],
    /// Why it is held.
    pub reasons: RetentionConstraints,
    /// Small facts.
    pub flags: Flags,
}

/// Neighbours in one of the book's lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Links {
    pub prev: u32,
    pub next: u32,
}
impl Links {
    pub const NONE: Links = Links { prev: NIL, next: NIL };
}

/// One held bundle.
#[derive(Debug)]
pub struct Held {
    /// The bundle, shared with whoever else holds it in this process.
    pub bundle: Arc<BundleMeta>,
    /// Its number in this node: in events, in the store, in order of arrival.
    pub number: u64,
    /// What its age is counted from.
    pub born: Birth,
    /// When its lifetime ends.
    pub expires: Instant,
    /// Labels of the router and of the control; travel with it.
    pub labels: [u32; 2],
    /// Who gave it.
    pub from: PeerId,
    /// Its first leg in the queues of links, for their owner.
    pub leg: u32,
    /// Hops so far.
    pub hops: u8,
    /// Sends under way.
    pub sends: u8,
    /// Failures in a row, for back-off.
    pub failures: u8,
    /// Small facts.
    pub flags: Flags,
    pub(crate) reasons: RetentionConstraints,
    /// Whether cursors stand on it.
    pub(crate) marked: bool,
    /// Some bits of its identity's hash.
    pub(crate) tag: u16,
    /// The next one in its bucket of identities.
    pub(crate) chain: u32,
    /// Its own slot.
    pub(crate) slot: u32,
    /// Its neighbours by arrival, towards its destination and in its bucket of expiry.
    pub(crate) links: [Links; 3],
}

impl Held {
    /// An entry that is in no book: how a newcomer is shown to a policy.
    pub fn newcomer(new: New) -> Held {
        Held {
            bundle: new.bundle,
            number: new.number.unwrap_or(u64::MAX),
            born: new.born,
            expires: new.expires,
            labels: new.labels,
            from: new.from,
            leg: NIL,
            hops: new.hops,
            sends: 0,
            failures: 0,
            flags: new.flags,
            reasons: new.reasons,
            marked: false,
            tag: 0,
            chain: NIL,
            slot: NIL,
            links: [Links::NONE; 3],
        }
    }
    /// Its handle.
    pub fn handle(&self) -> Handle {
        Handle { stamp: self.number as u32, slot: self.slot }
    }
    /// Its number, as events and the store know it.
    pub fn name(&self) -> BundleHandle {
        BundleHandle(self.number)
    }
    /// Why it is held.
    pub fn reasons(&self) -> RetentionConstraints {
        self.reasons
    }
    /// Whether it is held for this reason.
    pub fn has(&self, reason: RetentionConstraint) -> bool {
        self.reasons.has(reason)
    }
    /// Whether it is in the order of lifetimes.
    pub(crate) fn is_armed(&self) -> bool {
        self.links[Thread::Expiry as usize].prev != NIL
    }
    /// Encoded length.
    pub fn size(&self) -> u64 {
        self.bundle.size()
    }
    /// Where it is to go, in numbers.
    pub fn destination(&self) -> NodeId {
        self.bundle.destination.node()
    }
    /// What is left of its lifetime.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.expires.since(now)
    }
    /// Its age, ms.
    pub fn age_ms(&self, now: Instant) -> u64 {
        self.born.age_ms(now)
    }
    /// Whether nobody gave it: an application here made it, or this node itself. Its source alone does not say so, as
    /// whoever gives a bundle writes what it likes there; nor does this alone, where a restart forgot who gave it.
    pub fn is_own(&self) -> bool {
        self.from == PeerId::NONE && !self.flags.has(Flags::STRANGE)
    }
    /// Whether another hop would exceed its limit.
    pub fn is_tired(&self) -> bool {
        self.bundle.facts.has(Facts::HOPS) && self.hops >= self.bundle.hop_limit
    }
    /// Whether a policy may give it up: nothing is owed about it but forwarding.
    pub fn is_removable(&self) -> bool {
        const GIVEN_UP: RetentionConstraints =
            RetentionConstraints::of(&[RetentionConstraint::Route, RetentionConstraint::Queue]);
        self.reasons.within(GIVEN_UP) && !self.reasons.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Held>() <= 88, "{}", size_of::<Held>());
        assert_eq!(size_of::<Handle>(), 8);
    }

    #[test]
    fn age_grows_from_arrival_value() {
        let at = |ms: u64| Instant(ms * 1_000_000);
        for age_ms in [0, 5_000, 1 << 62] {
            let born = Birth::of(at(300), age_ms);
            assert_eq!([300, 301, 2_300].map(|ms| born.age_ms(at(ms))), [0, 1, 2_000].map(|more| age_ms + more));
        }
        assert_eq!(Birth::of(at(300), u64::MAX).age_ms(Instant::MAX), i64::MAX as u64, "older than anything");
    }

    #[test]
    fn reasons_are_a_set() {
        let both = RetentionConstraints::of(&[RetentionConstraint::Route, RetentionConstraint::Send]);
        assert!(
            both.has(RetentionConstraint::Route)
                && both.has(RetentionConstraint::Send)
                && !both.has(RetentionConstraint::Queue)
        );
        assert!(
            RetentionConstraints::of(&[RetentionConstraint::Send]).within(both)
                && !both.within(RetentionConstraints::of(&[RetentionConstraint::Send]))
        );
        assert_eq!(both.without(RetentionConstraint::Send).with(RetentionConstraint::Send), both);
        assert!(both.without(RetentionConstraint::Send).without(RetentionConstraint::Route).is_empty());
    }
}
