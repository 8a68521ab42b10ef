//! Bounded tables of bundle identities: of delivered bundles, of bundles that policies banned, of bundles whose
//! deletion on arrival was reported, and of recently forwarded bundles (`loops`). Each has a bound of its own, so that
//! no kind evicts another.

use crate::state::loops::Loops;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use farlink_base::{Empty, Lazy};

/// Most identities remembered as reported. They are needed only for minutes, until the sender has tried again.
const REPORTED_MAX: usize = 8192;
/// Identities in one page of `order`; adding a page copies none of the others, so no call takes long.
const PAGE: usize = 512;

/// The newest identities; the oldest are forgotten first.
#[derive(Debug)]
struct Newest {
    /// Value remembered with each identity.
    known: BTreeMap<u128, u64>,
    /// Identities, oldest first. All pages but the last are full; the first `gone` entries of the first page are
    /// forgotten.
    order: VecDeque<Vec<u128>>,
    gone: usize,
    capacity: usize,
}
impl Newest {
    const fn new(capacity: usize) -> Self {
        Newest { known: BTreeMap::new(), order: VecDeque::new(), gone: 0, capacity }
    }
    fn insert(&mut self, id: u128, what: u64) {
        // A known identity keeps its place in the order.
        if self.capacity == 0 || self.known.insert(id, what).is_some() {
            return;
        }
        match self.order.back_mut().filter(|page| page.len() < PAGE) {
            Some(page) => page.push(id),
            None => self.order.push_back(Vec::from([id])),
        }
        if self.known.len() > self.capacity {
            self.forget_oldest();
        }
    }
    fn forget_oldest(&mut self) {
        let Some(oldest) = self.order.front().and_then(|page| page.get(self.gone)).copied() else { return };
        self.known.remove(&oldest);
        self.gone += 1;
        if self.gone == PAGE {
            self.order.pop_front();
            self.gone = 0;
        }
    }
}

#[derive(Debug)]
struct Kinds {
    delivered: Newest,
    banned: Newest,
    reported: Newest,
    /// Recently forwarded bundles, which may come back.
    loops: Loops,
}
impl Kinds {
    const fn new(capacity: usize) -> Self {
        let few = if capacity < REPORTED_MAX { capacity } else { REPORTED_MAX };
        Kinds {
            delivered: Newest::new(capacity),
            banned: Newest::new(capacity),
            reported: Newest::new(few),
            loops: Loops::NONE,
        }
    }
}
impl Empty for Kinds {
    type From = usize;
    const EMPTY: &'static Self = &Kinds::new(0);
    fn make(capacity: usize) -> Self {
        Kinds::new(capacity)
    }
}

/// Record of a delivered bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delivered {
    /// Content number (see [`Agent::content`](crate::Agent)) without its lowest bit; 0 if unknown.
    pub content: u64,
    /// Whether any link vouched for the bundle.
    pub vouched: bool,
}
impl Delivered {
    /// Value of `kept` for a delivery whose content is unknown; not 0, which older records contain.
    const UNKNOWN: u64 = 2;

    fn of(kept: u64) -> Self {
        let content = kept & !1;
        let known = if content == Delivered::UNKNOWN { 0 } else { content };
        Delivered { content: known, vouched: kept & 1 != 0 || kept == 0 }
    }
    /// The record as the number that the store keeps. Releases without content numbers stored 0, which is read as
    /// vouched for.
    pub fn kept(self) -> u64 {
        let content = if self.content == 0 { Delivered::UNKNOWN } else { self.content & !1 };
        content | u64::from(self.vouched)
    }
}

/// Bundles that this node will not accept again, or not report again.
#[derive(Debug)]
pub(crate) struct Remembered(Lazy<Kinds>);

impl Remembered {
    /// Remembers up to `capacity` identities of deliveries and of bans each, and fewer of reports.
    pub fn new(capacity: usize) -> Self {
        Remembered(Lazy::new(capacity))
    }
    /// Record of the delivery of a bundle with this identity, if it is remembered.
    pub fn delivered(&self, id: u128) -> Option<Delivered> {
        self.0.delivered.known.get(&id).map(|kept| Delivered::of(*kept))
    }
    /// Remembers a delivery; `kept` is a value of [`Delivered::kept`].
    pub fn deliver(&mut self, id: u128, kept: u64) {
        self.0.delivered.insert(id, kept);
    }
    /// Recently forwarded bundles.
    pub fn loops(&mut self) -> &mut Loops {
        &mut self.0.loops
    }
    /// Recently forwarded bundles; `None` if nothing was ever remembered.
    pub fn loops_met(&mut self) -> Option<&mut Loops> {
        self.0.made().map(|kinds| &mut kinds.loops)
    }
    /// Whether a policy banned this bundle.
    pub fn is_banned(&self, id: u128) -> bool {
        self.0.banned.known.contains_key(&id)
    }
    /// Remembers a policy's ban of a bundle.
    pub fn ban(&mut self, id: u128) {
        self.0.banned.insert(id, 0);
    }
    /// Whether the bundle's deletion on arrival was reported.
    pub fn was_reported(&self, id: u128) -> bool {
        self.0.reported.known.contains_key(&id)
    }
    /// Remembers a reported deletion.
    pub fn report(&mut self, id: u128) {
        self.0.reported.insert(id, 0);
    }
    /// Identities of deliveries, newest first.
    pub fn newest_deliveries(&self) -> impl Iterator<Item = u128> + '_ {
        let Kinds { delivered, .. } = &*self.0;
        let known = |id: &u128| delivered.known.contains_key(id);
        delivered.order.iter().rev().flat_map(|page| page.iter().rev()).copied().filter(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_of_a_kind_is_forgotten() {
        // One identity more than fits; the repeated one takes no second place.
        let mut memory = Remembered::new(2);
        for id in [1, 2, 2, 3] {
            memory.deliver(id, 7);
        }
        for id in 10..20_000 {
            memory.ban(id);
            memory.report(id);
        }
        assert!(memory.delivered(1).is_none() && memory.delivered(2).is_some() && memory.delivered(3).is_some());
        assert!(
            memory.was_reported(19_999)
                && memory.is_banned(19_999)
                && !memory.is_banned(19_997)
                && memory.delivered(19_999).is_none()
        );
        assert_eq!(memory.newest_deliveries().collect::<Vec<_>>(), [3, 2]);
        assert!(memory.0.banned.order.len() <= 2);
    }
}
