//! Held bundles and their retention constraints.

use crate::lists::Thread;
use crate::pages::NIL;
use alloc::sync::Arc;
use farlink_base::{BundleHandle, BundleMeta, Duration, Facts, Instant, NodeId, PeerId};

/// Key that finds a held bundle without a search: its slot, and the low half of its number, which differs once another
/// bundle uses the slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Handle {
    /// Low half of the bundle's number.
    pub stamp: u32,
    /// Slot in the book.
    pub slot: u32,
}

/// Retention constraint of a bundle (RFC 9171 section 3.1). Each kind has one owner in the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RetentionConstraint {
    /// The store has not committed the bundle yet.
    Commit,
    /// The bundle must still be routed or delivered, and no transmission under way covers all of it.
    Route,
    /// The bundle is queued for one or more links.
    Queue,
    /// Convergence layers are transmitting the bundle.
    Send,
    /// This node has custody of the bundle.
    Custody,
    /// The bundle must be delivered to an application of this node.
    Deliver,
    /// The bundle is a fragment that waits for the others.
    Fragment,
    /// Something else needs the bundle: a reassembled bundle of which it is a part, an arriving bundle of which it is a
    /// piece, or local members of a group that must still get it.
    Whole,
}

/// Set of retention constraints. A bundle leaves when its set is empty.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RetentionConstraints(u8);
impl RetentionConstraints {
    /// Empty set.
    pub const NONE: RetentionConstraints = RetentionConstraints(0);
    /// Set of the given constraints.
    pub const fn of(reasons: &[RetentionConstraint]) -> RetentionConstraints {
        let (mut bits, mut i) = (0, 0);
        while i < reasons.len() {
            bits |= 1 << reasons[i] as u8;
            i += 1;
        }
        RetentionConstraints(bits)
    }
    /// Whether the constraint is in the set.
    pub const fn has(self, reason: RetentionConstraint) -> bool {
        self.0 & (1 << reason as u8) != 0
    }
    /// Whether the set has no constraint outside `others`.
    pub const fn within(self, others: RetentionConstraints) -> bool {
        self.0 & !others.0 == 0
    }
    /// Whether the set is empty.
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

/// Flags of a held bundle, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u8);
impl Flags {
    /// The store has committed the bundle, or the node keeps bundles in memory only.
    pub const DURABLE: u8 = 1;
    /// An application may have received the bundle before: it was found in the store after a restart, or an application
    /// did not confirm a delivery.
    pub const SEEN_BEFORE: u8 = 2;
    /// The agent keeps more about the bundle in side tables (neighbours that refused it, ranges left to send).
    pub const ASIDE: u8 = 4;
    /// The bundle never has a record in the store: a reassembled bundle, a hello, or the outer bundle of a tunnel.
    pub const VIRTUAL: u8 = 8;
    /// The bundle has no record: the store refused it, or it failed its security check. Together with
    /// [`Flags::VIRTUAL`] the flag marks the outer bundle of a tunnel.
    pub const UNRECORDED: u8 = 16;
    /// The bundle is queued because the control moves it to a neighbour.
    pub const MOVES: u8 = 32;
    /// No link vouches for the bundle: it came, here or at an earlier node, from an unauthenticated neighbour.
    pub const STRANGE: u8 = 64;
    /// The payload shares no memory with anything else.
    pub const SETTLED: u8 = 128;
    /// Whether the flag is set.
    pub const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
    /// Sets or clears a flag.
    pub fn set(&mut self, flag: u8, on: bool) {
        if on {
            self.0 |= flag;
        } else {
            self.0 &= !flag;
        }
    }
}

/// Time at which a bundle had the age zero, on the clock of this process: the time of arrival less the age it arrived
/// with, so that its age grows by its time here (RFC 9171 5.4 step 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Birth {
    /// Milliseconds on the clock of this process; negative before the process started.
    at_ms: i64,
}
impl Birth {
    /// Time of zero age of a bundle that has `age_ms` now.
    pub fn of(now: Instant, age_ms: u64) -> Birth {
        Birth { at_ms: millis(now).saturating_sub_unsigned(age_ms) }
    }
    /// Age at `now`, ms.
    pub fn age_ms(self, now: Instant) -> u64 {
        millis(now).saturating_sub(self.at_ms).max(0) as u64
    }
}
fn millis(at: Instant) -> i64 {
    (at.as_nanos() / 1_000_000) as i64
}

/// Data for a new entry of the book.
#[derive(Clone, Debug)]
pub struct New {
    /// The bundle, shared with other holders.
    pub bundle: Arc<BundleMeta>,
    /// Number of the bundle in an earlier run; `None` for the next free number.
    pub number: Option<u64>,
    /// Time at which the bundle had the age zero.
    pub born: Birth,
    /// End of the bundle's lifetime in this node.
    pub expires: Instant,
    /// Previous node (RFC 9171 section 4.4.1); [`PeerId::NONE`] for bundles created here, and if it is unknown.
    pub from: PeerId,
    /// Hops the bundle has made so far.
    pub hops: u8,
    /// Labels of the router and of the control.
    pub labels: [u32; 2],
    /// Retention constraints of the new entry.
    pub reasons: RetentionConstraints,
    /// Flags of the new entry.
    pub flags: Flags,
}

/// Predecessor and successor of an entry in one of the book's lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListLinks {
    pub prev: u32,
    pub next: u32,
}
impl ListLinks {
    pub const NONE: ListLinks = ListLinks { prev: NIL, next: NIL };
}

/// An entry of the book: a bundle held by this node.
#[derive(Debug)]
pub struct Held {
    /// The bundle, shared with other holders in this process.
    pub bundle: Arc<BundleMeta>,
    /// Number of the bundle at this node, used in events and in the store. Numbers of one run grow in order of arrival.
    pub number: u64,
    /// Time at which the bundle had the age zero.
    pub born: Birth,
    /// End of the bundle's lifetime in this node.
    pub expires: Instant,
    /// Labels of the router and of the control, which travel with the bundle.
    pub labels: [u32; 2],
    /// Previous node (RFC 9171 section 4.4.1); [`PeerId::NONE`] for bundles created here, and if it is unknown.
    pub from: PeerId,
    /// Number of the bundle's first entry in the queues of links; `u32::MAX`: none. Only the queues change it.
    pub leg: u32,
    /// Hops the bundle has made so far.
    pub hops: u8,
    /// Number of transmissions under way, at most 255.
    pub sends: u8,
    /// Consecutive failed transmissions, for backoff.
    pub failures: u8,
    /// Flags of the entry.
    pub flags: Flags,
    pub(crate) reasons: RetentionConstraints,
    /// Whether a cursor stands on the entry.
    pub(crate) marked: bool,
    /// Some bits of the hash of the bundle's identity.
    pub(crate) tag: u16,
    /// Slot of the next entry in the same bucket of identities.
    pub(crate) chain: u32,
    /// Slot of the entry.
    pub(crate) slot: u32,
    /// Links in the lists by arrival, by destination, and by expiry bucket.
    pub(crate) links: [ListLinks; 3],
}

impl Held {
    /// Makes an entry outside any book, so that policies can judge a bundle before it is kept.
    pub fn newcomer(new: New) -> Held {
        Held {
            bundle: new.bundle,
            // A number above all others ranks a new bundle as the latest arrival.
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
            links: [ListLinks::NONE; 3],
        }
    }
    /// Handle of the entry.
    pub fn handle(&self) -> Handle {
        Handle { stamp: self.number as u32, slot: self.slot }
    }
    /// Number under which events and the store know the bundle.
    pub fn name(&self) -> BundleHandle {
        BundleHandle(self.number)
    }
    /// Retention constraints of the bundle.
    pub fn reasons(&self) -> RetentionConstraints {
        self.reasons
    }
    /// Whether this constraint holds the bundle.
    pub fn has(&self, reason: RetentionConstraint) -> bool {
        self.reasons.has(reason)
    }
    /// Whether the entry is in the order of expiries.
    pub(crate) fn is_armed(&self) -> bool {
        self.links[Thread::Expiry as usize].prev != NIL
    }
    /// Encoded length, bytes.
    pub fn size(&self) -> u64 {
        self.bundle.size()
    }
    /// Node number of the bundle's destination.
    pub fn destination(&self) -> NodeId {
        self.bundle.destination.node()
    }
    /// Time until the end of the bundle's lifetime in this node.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.expires.since(now)
    }
    /// Age at `now`, ms.
    pub fn age_ms(&self, now: Instant) -> u64 {
        self.born.age_ms(now)
    }
    /// Whether the bundle was created here, by an application or the node itself, or its previous node was lost in a
    /// restart. The source endpoint would prove nothing, because any sender may name it.
    pub fn is_own(&self) -> bool {
        self.from == PeerId::NONE && !self.flags.has(Flags::STRANGE)
    }
    /// Whether the bundle has made as many hops as its hop limit allows.
    pub fn is_tired(&self) -> bool {
        self.bundle.facts.has(Facts::HOPS) && self.hops >= self.bundle.hop_limit
    }
    /// Whether a policy may delete the bundle: only forwarding holds it, and no transmission is under way.
    pub fn is_removable(&self) -> bool {
        // Custody, delivery and transmissions under way are promises that a policy cannot end.
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
        // The age saturates rather than wraps.
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
