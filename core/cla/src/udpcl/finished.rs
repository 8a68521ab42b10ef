//! Memory of finished transfers, by which late copies of their segments, duplicated by the network or the sender, are
//! recognised.

use core::net::SocketAddr;
use farlink_base::{Duration, Instant, Set, set};

/// Source address and transfer number, which together identify a transfer.
pub(super) type TransferId = (SocketAddr, u64);

/// Shortest time for which a transfer is remembered: as long as a copy may be delayed (draft-ietf-dtn-udpcl section
/// 3.3.1).
const REMEMBERED: Duration = Duration::from_secs(60);
/// Most transfers in a generation.
const MOST: usize = 16_384;

/// Two generations of finished transfers. Each transfer is remembered for one to two times [`REMEMBERED`], unless more
/// than [`MOST`] follow it.
#[derive(Debug)]
pub(super) struct Finished {
    young: Set<TransferId>,
    old: Set<TransferId>,
    /// Time at which the young generation becomes the old one, and the old one is dropped.
    until: Instant,
    seed: u64,
}
impl Finished {
    pub(super) const fn new(seed: u64) -> Finished {
        Finished { young: set(seed), old: set(seed), until: Instant::ZERO, seed }
    }
    /// Drops the generations that have expired.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.until <= now && !(self.young.is_empty() && self.old.is_empty()) {
            self.old = core::mem::replace(&mut self.young, set(self.seed));
            self.until += REMEMBERED;
        }
    }
    /// Time of the next expiry; `None` if no transfer is remembered.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.young.is_empty() || !self.old.is_empty()).then_some(self.until)
    }
    pub(super) fn insert(&mut self, now: Instant, transfer: TransferId) {
        self.expire(now);
        if self.young.is_empty() && self.old.is_empty() {
            self.until = now + REMEMBERED;
        }
        // In a burst, transfers are remembered for a shorter time, so that memory does not grow.
        if self.young.len() >= MOST {
            self.old = core::mem::replace(&mut self.young, set(self.seed));
            self.until = now + REMEMBERED;
        }
        self.young.insert(transfer);
    }
    pub(super) fn contains(&self, transfer: &TransferId) -> bool {
        self.young.contains(transfer) || self.old.contains(transfer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> TransferId {
        (SocketAddr::from(([127, 0, 0, 1], 4556)), number)
    }
    fn s(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn finished_transfer_is_remembered_a_minute() {
        let mut finished = Finished::new(1);
        assert_eq!(finished.due(), None);
        finished.insert(s(100), id(1));
        finished.insert(s(150), id(2));
        finished.expire(s(161));
        assert!(finished.contains(&id(1)) && finished.contains(&id(2)));
        assert!(!finished.contains(&(SocketAddr::from(([127, 0, 0, 1], 4557)), 1)), "another port, another sender");
        finished.expire(finished.due().unwrap());
        assert!(!finished.contains(&id(1)) && !finished.contains(&id(2)));
        assert_eq!(finished.due(), None, "nothing is left to wait for");
    }

    #[test]
    fn oldest_generation_is_evicted() {
        let mut finished = Finished::new(1);
        for number in 0..10 * MOST as u64 {
            finished.insert(s(5), id(number));
            assert!(finished.contains(&id(number)));
        }
        assert!(finished.young.len() + finished.old.len() <= 2 * MOST);
        assert!(finished.contains(&id(9 * MOST as u64 + 1)) && !finished.contains(&id(0)));
    }

    #[test]
    fn long_silence_expires_at_once() {
        // The number of steps must not depend on the time passed.
        let mut finished = Finished::new(1);
        finished.insert(s(1), id(1));
        finished.expire(Instant::MAX);
        assert_eq!(finished.due(), None);
        finished.insert(Instant::MAX, id(2));
        assert!(finished.contains(&id(2)));
    }
}
