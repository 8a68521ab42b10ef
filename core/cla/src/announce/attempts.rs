//! Recent and failed connection attempts: limits their rate, and backs off per address regardless of the names claimed
//! there.

use super::{AGAIN_MAX, AGAIN_MIN, ATTEMPT, ATTEMPTS_MAX};
use alloc::collections::{BTreeMap, VecDeque};
use core::net::{IpAddr, SocketAddr};
use farlink_base::{Duration, Instant};

/// Most addresses remembered: as many attempts as can fail within twice the longest backoff, so that no address is
/// evicted before its backoff has ended.
const TRIED_MAX: usize = (2 * AGAIN_MAX.as_secs() / ATTEMPT.as_secs()) as usize * ATTEMPTS_MAX;

#[derive(Clone, Copy, Debug)]
struct Failed {
    until: Instant,
    times: u32,
}

/// Rate limit and backoff of connection attempts.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    failed: BTreeMap<SocketAddr, Failed>,
    /// Start times of the latest attempts, at most [`ATTEMPTS_MAX`].
    begun: VecDeque<Instant>,
}

impl Attempts {
    /// Earliest time of the next attempt to any address; `None` if one may start now.
    pub fn full_until(&self, now: Instant) -> Option<Instant> {
        let first = self.begun.front().filter(|_| self.begun.len() >= ATTEMPTS_MAX);
        first.map(|first| *first + ATTEMPT).filter(|until| *until > now)
    }
    /// Records the start of an attempt.
    pub fn begin(&mut self, now: Instant) {
        if self.begun.len() >= ATTEMPTS_MAX {
            self.begun.pop_front();
        }
        self.begun.push_back(now);
    }
    /// End of an address's backoff, which may have passed; zero if no failure is remembered.
    pub fn until(&self, address: SocketAddr) -> Instant {
        self.failed.get(&address).map_or(Instant::ZERO, |failed| failed.until)
    }
    /// Number of a host's ports with a remembered failure.
    pub fn of_host(&self, host: IpAddr) -> usize {
        self.failed.range(SocketAddr::new(host, 0)..=SocketAddr::new(host, u16::MAX)).count()
    }
    /// Records that an attempt failed (`lasted` is `None`) or that a session ended after `lasted`. A session shorter
    /// than [`AGAIN_MIN`] counts as a failure.
    pub fn end(&mut self, now: Instant, address: SocketAddr, lasted: Option<Duration>) {
        // Otherwise a peer that accepts and closes at once would be connected to again without pause.
        if lasted.is_some_and(|lasted| lasted >= AGAIN_MIN) {
            self.failed.remove(&address);
            return;
        }
        let times = self.failed.get(&address).map_or(0, |failed| failed.times);
        let wait = AGAIN_MIN.saturating_mul(1 << times.min(16)).min(AGAIN_MAX);
        self.failed.insert(address, Failed { until: now + wait, times: times.saturating_add(1) });
        // An entry stays for `AGAIN_MAX` after its backoff, so that a repeated failure still doubles the next one.
        self.failed.retain(|_, failed| failed.until + AGAIN_MAX > now);
        if self.failed.len() > TRIED_MAX {
            let oldest = self.failed.iter().min_by_key(|(_, failed)| failed.until).map(|(address, _)| *address);
            oldest.map(|address| self.failed.remove(&address));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }
    fn at(n: u32, port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(n.into()), port)
    }

    #[test]
    fn backoff_resets_after_success() {
        let mut tried = Attempts::default();
        let mut now = s(0);
        let mut waits = alloc::vec::Vec::new();
        for _ in 0..8 {
            tried.end(now, at(1, 5), None);
            waits.push(tried.until(at(1, 5)).since(now).as_secs());
            now = tried.until(at(1, 5));
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 640]);
        tried.end(now, at(1, 5), Some(Duration::from_secs(9)));
        assert_eq!(tried.until(at(1, 5)), now + AGAIN_MAX, "left at once");
        tried.end(now, at(1, 5), Some(Duration::from_secs(10)));
        assert_eq!(tried.until(at(1, 5)), Instant::ZERO);
        assert_eq!(tried.of_host(at(1, 5).ip()), 0);
    }

    #[test]
    fn attempts_are_bounded_whatever_their_end() {
        let mut tried = Attempts::default();
        for n in 0..ATTEMPTS_MAX as u64 {
            assert_eq!(tried.full_until(s(n)), None);
            tried.begin(s(n));
        }
        assert_eq!(tried.full_until(s(8)), Some(s(10)));
        assert_eq!(tried.full_until(s(10)), None);
        tried.begin(s(10));
        assert_eq!(tried.full_until(s(10)), Some(s(11)), "the second began then");
    }

    #[test]
    fn addresses_outlast_their_backoff() {
        // The rate limit on attempts bounds the table, so no address is evicted during its backoff.
        let mut tried = Attempts::default();
        let victim = at(7, 80);
        for _ in 0..7 {
            tried.end(s(0), victim, None);
        }
        let mut now = s(0);
        let mut n = 100;
        while now < s(640) {
            for _ in 0..ATTEMPTS_MAX {
                tried.end(now, at(n, 9), None);
                n += 1;
            }
            now += ATTEMPT;
            assert!(tried.until(victim) == s(640) && tried.failed.len() <= TRIED_MAX);
        }
        assert_eq!((tried.of_host(victim.ip()), tried.of_host(at(100, 0).ip())), (1, 1));
    }
}
