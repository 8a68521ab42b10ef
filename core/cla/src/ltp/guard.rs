//! Memory of closed sessions, so that late segments do not open them again. Session numbers mostly count up, so a
//! million closed sessions are a few runs. At the bounds the oldest sessions are forgotten.

use super::ranges::RangeSet;
use super::segment::SessionId;
use farlink_base::{Map, map};

/// Most sessions remembered in a generation, over all engines.
const SESSIONS_MAX: u64 = 1 << 18;
/// Most runs remembered in a generation, over all engines; bounds memory if numbers do not count up.
const RUNS_MAX: usize = 4096;

#[derive(Debug)]
struct Generation {
    engines: Option<Map<u64, RangeSet>>,
    sessions: u64,
    runs: usize,
}
impl Generation {
    const NONE: Generation = Generation { engines: None, sessions: 0, runs: 0 };
}

/// Two generations of closed sessions. A full young generation replaces the old one.
#[derive(Debug)]
pub(super) struct ClosedSessions {
    young: Generation,
    old: Generation,
    seed: u64,
}

impl ClosedSessions {
    pub(super) const fn new(seed: u64) -> Self {
        ClosedSessions { young: Generation::NONE, old: Generation::NONE, seed }
    }
    pub(super) fn insert(&mut self, session: SessionId) {
        if self.young.sessions >= SESSIONS_MAX || self.young.runs >= RUNS_MAX {
            self.old = core::mem::replace(&mut self.young, Generation::NONE);
        }
        let seed = self.seed;
        let engines = self.young.engines.get_or_insert_with(|| map(seed));
        let closed = engines.entry(session.engine).or_default();
        let before = closed.runs().len();
        closed.insert(session.number, session.number.saturating_add(1));
        // A new number adds a run, extends one, or joins two.
        self.young.runs = (self.young.runs + closed.runs().len()).saturating_sub(before);
        self.young.sessions += 1;
    }
    // 5326-6.20-1
    pub(super) fn contains(&self, session: SessionId) -> bool {
        [&self.young, &self.old].into_iter().any(|generation| {
            let closed = generation.engines.as_ref().and_then(|engines| engines.get(&session.engine));
            closed.is_some_and(|closed| closed.contains(session.number))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps 5326-6.20-1.
    #[test]
    fn consecutive_numbers_take_one_run() {
        let mut closed = ClosedSessions::new(1);
        let id = |number| SessionId { engine: 3, number };
        for number in 0..3 * SESSIONS_MAX {
            closed.insert(id(number));
            assert!(closed.contains(id(number)));
            assert!(closed.young.runs <= 2);
        }
        assert!(!closed.contains(id(0)), "forgotten");
        assert!(closed.contains(id(2 * SESSIONS_MAX)));
        assert!(!closed.contains(SessionId { engine: 4, number: 2 * SESSIONS_MAX }));
        assert!(!closed.contains(id(u64::MAX)), "the greatest number is not special");
        closed.insert(id(u64::MAX));
    }

    #[test]
    fn scattered_numbers_are_bounded() {
        let mut closed = ClosedSessions::new(1);
        for number in 0..20_000u64 {
            closed.insert(SessionId { engine: number % 7, number: number * 1000 });
        }
        assert!(closed.young.runs <= RUNS_MAX && closed.old.runs <= RUNS_MAX);
    }
}
