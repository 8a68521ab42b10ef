//! Bounded memories of identities: what was delivered, what policies banned, and what was reported as deleted on
//! arrival. Apart, so that one kind cannot push another out.

use crate::state::loops::Loops;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use farlink_base::{Empty, Lazy};

/// Most identities remembered as reported: it is for those who try again within minutes.
const REPORTED_MAX: usize = 8192;
/// Identities on one page of the order: pages are added one by one, nothing is ever copied.
const PAGE: usize = 512;

/// Remembers the newest identities; the oldest are forgotten first.
#[derive(Debug)]
struct Newest {
    /// Each with what is to be known of it.
    known: BTreeMap<u128, u64>,
    /// Oldest first; all but the last page are full, of the first `gone` are forgotten.
    order: VecDeque<Vec<u128>>,
    gone: usize,
    capacity: usize,
}
impl Newest {
    const fn new(capacity: usize) -> Self {
        Newest { known: BTreeMap::new(), order: VecDeque::new(), gone: 0, capacity }
    }
    fn insert(&mut self, id: u128, what: u64) {
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
    /// What was forwarded lately, and may come back.
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

/// What is kept of a bundle that was delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delivered {
    /// Its content ([`Agent::content`](crate::Agent)), but for the lowest bit; 0: not known.
    pub content: u64,
    /// Whether somebody vouched for it.
    pub vouched: bool,
}
impl Delivered {
    /// Stands for a content that is not known.
    const UNKNOWN: u64 = 2;

    fn of(kept: u64) -> Self {
        let content = kept & !1;
        let known = if content == Delivered::UNKNOWN { 0 } else { content };
        Delivered { content: known, vouched: kept & 1 != 0 || kept == 0 }
    }
    /// The same as one number; 0 of what was kept before contents were.
    pub fn kept(self) -> u64 {
        let content = if self.content == 0 { Delivered::UNKNOWN } else { self.content & !1 };
        content | u64::from(self.vouched)
    }
}

/// What this node will not take again, or not report again.
#[derive(Debug)]
pub(crate) struct Remembered(Lazy<Kinds>);

impl Remembered {
    /// Remembers up to `capacity` identities of each kind.
    pub fn new(capacity: usize) -> Self {
        Remembered(Lazy::new(capacity))
    }
    /// What was delivered here under this identity.
    pub fn delivered(&self, id: u128) -> Option<Delivered> {
        self.0.delivered.known.get(&id).map(|kept| Delivered::of(*kept))
    }
    /// It was delivered here; `kept` as [`Delivered::kept`] gives it.
    pub fn deliver(&mut self, id: u128, kept: u64) {
        self.0.delivered.insert(id, kept);
    }
    /// What was forwarded lately.
    pub fn loops(&mut self) -> &mut Loops {
        &mut self.0.loops
    }
    /// The same, where anything is remembered.
    pub fn loops_met(&mut self) -> Option<&mut Loops> {
        self.0.made().map(|kinds| &mut kinds.loops)
    }
    /// Whether a policy refuses this bundle.
    pub fn is_banned(&self, id: u128) -> bool {
        self.0.banned.known.contains_key(&id)
    }
    /// A policy refuses it from now on.
    pub fn ban(&mut self, id: u128) {
        self.0.banned.insert(id, 0);
    }
    /// Whether its deletion on arrival was reported.
    pub fn was_reported(&self, id: u128) -> bool {
        self.0.reported.known.contains_key(&id)
    }
    /// Its deletion on arrival was reported.
    pub fn report(&mut self, id: u128) {
        self.0.reported.insert(id, 0);
    }
    /// The newest deliveries, newest first.
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
    fn oldest_forgotten_first_per_kind() {
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
