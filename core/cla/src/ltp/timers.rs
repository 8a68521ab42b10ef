//! Timers for the answers of a peer; they are suspended while the peer may not transmit (RFC 5326 6.2, 6.3, 6.5, 6.6,
//! 6.15).

use super::segment::SessionId;
use farlink_base::{Duration, Empty, Instant, Lazy, Map, TimerKey, TimerQueue, map};

/// Event that a timer waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Wait {
    /// Report on a checkpoint of an export session.
    Checkpoint { session: u64, serial: u64 },
    /// Further reports that may show gaps, before the gaps are retransmitted.
    Gather { session: u64 },
    /// Any report in an export session whose checkpoints were all answered.
    Progress { session: u64 },
    /// Acknowledgment of a report.
    Report { session: SessionId, serial: u64 },
    /// Acknowledgment of a cancel segment.
    Cancel { session: SessionId },
}

/// Timer for one answer: latest time at which the peer sends it, and time that it then needs to arrive.
#[derive(Debug)]
struct AnswerTimer {
    /// Key of the timer in `queue`, or in `stopped` if it is suspended.
    key: TimerKey,
    still: bool,
    answer_at: Instant,
    way_back: Duration,
}

/// Answer timers of one span.
#[derive(Debug)]
pub(super) struct Timers {
    armed: Lazy<Armed>,
    running: bool,
}

#[derive(Debug)]
struct Armed {
    queue: TimerQueue<Wait>,
    entries: Map<Wait, AnswerTimer>,
    /// Suspended timers, in the order in which they were suspended (all armed for instant 0).
    stopped: TimerQueue<Wait>,
}
impl Armed {
    const fn new(seed: u64) -> Self {
        Armed { queue: TimerQueue::new(), entries: map(seed), stopped: TimerQueue::new() }
    }
}
impl Empty for Armed {
    type From = u64;
    const EMPTY: &'static Self = &Armed::new(0);
    fn make(seed: u64) -> Self {
        Armed::new(seed)
    }
}

impl Timers {
    pub(super) fn new(seed: u64, running: bool) -> Self {
        Timers { armed: Lazy::new(seed), running }
    }
    /// Starts a timer: the peer sends the answer by `answer_at`, and the answer arrives `way_back` later. While the
    /// peer may not transmit, the timer is suspended at once (RFC 5326 6.2).
    // 5326-6.2-2, 5326-6.15-1
    pub(super) fn start(&mut self, wait: Wait, answer_at: Instant, way_back: Duration) {
        self.stop(wait);
        let armed = &mut *self.armed;
        let key = match self.running {
            true => armed.queue.arm(answer_at + way_back, wait),
            false => armed.stopped.arm(Instant::ZERO, wait),
        };
        armed.entries.insert(wait, AnswerTimer { key, still: !self.running, answer_at, way_back });
    }
    /// Whether this timer is armed.
    pub(super) fn is_waiting(&self, wait: Wait) -> bool {
        self.armed.entries.contains_key(&wait)
    }
    pub(super) fn stop(&mut self, wait: Wait) {
        let Some(armed) = self.armed.made() else { return };
        if let Some(entry) = armed.entries.remove(&wait) {
            let queue = if entry.still { &mut armed.stopped } else { &mut armed.queue };
            queue.cancel(entry.key);
        }
    }
    /// Suspends the timers whose answers the peer would send at `now` or later, because it stops transmitting (RFC 5326
    /// 6.5).
    // 5326-6.5-1
    pub(super) fn suspend(&mut self, now: Instant) {
        if !core::mem::replace(&mut self.running, false) {
            return;
        }
        let Some(armed) = self.armed.made() else { return };
        let mut old = core::mem::take(&mut armed.queue);
        while let Some((deadline, wait)) = old.pop_due(Instant::MAX) {
            let Some(entry) = armed.entries.get_mut(&wait) else { continue };
            // An answer sent before the gap is still under way.
            entry.still = entry.answer_at >= now;
            entry.key = match entry.still {
                true => armed.stopped.arm(Instant::ZERO, wait),
                false => armed.queue.arm(deadline, wait),
            };
        }
    }
    /// Resumes the suspended timers, because the peer may transmit again. Answers that were due during the gap are
    /// expected from now on (RFC 5326 6.6).
    // 5326-6.6-1
    pub(super) fn resume(&mut self, now: Instant) {
        if core::mem::replace(&mut self.running, true) {
            return;
        }
        let Some(armed) = self.armed.made() else { return };
        while let Some((_, wait)) = armed.stopped.pop_due(now) {
            let Some(entry) = armed.entries.get_mut(&wait) else { continue };
            entry.answer_at = entry.answer_at.max(now);
            entry.still = false;
            entry.key = armed.queue.arm(entry.answer_at + entry.way_back, wait);
        }
    }
    /// Releases the memory of the tables if no timer is armed.
    pub(super) fn give_back(&mut self) {
        if let Some(armed) = self.armed.made().filter(|armed| armed.entries.is_empty()) {
            armed.entries.shrink_to_fit();
        }
    }
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.armed.queue.next_deadline()
    }
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Wait> {
        let armed = self.armed.made()?;
        let (_, wait) = armed.queue.pop_due(now)?;
        armed.entries.remove(&wait);
        Some(wait)
    }
    pub(super) fn len(&self) -> usize {
        self.armed.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    fn at(s: u64) -> Instant {
        Instant(s * SECOND)
    }
    fn wait(serial: u64) -> Wait {
        Wait::Checkpoint { session: 1, serial }
    }

    /// Keeps 5326-6.5-1, 5326-6.6-1.
    #[test]
    fn only_silent_peers_timers_are_postponed() {
        let mut timers = Timers::new(1, true);
        // The contact lasts until 10 s. The peer answers at 5 s, before the gap, and at 20 s, within it.
        timers.start(wait(1), at(5), Duration::from_secs(20));
        timers.start(wait(2), at(20), Duration::from_secs(20));
        timers.suspend(at(10));
        assert_eq!(timers.next_deadline(), Some(at(25)), "answered before the gap: not postponed");
        assert_eq!(timers.pop_due(at(25)), Some(wait(1)));
        assert_eq!(timers.next_deadline(), None);
        timers.resume(at(60));
        assert_eq!(timers.next_deadline(), Some(at(80)), "the answer leaves when the peer may transmit");
        assert_eq!(timers.pop_due(at(80)), Some(wait(2)));
        assert_eq!(timers.len(), 0);
    }

    /// Keeps 5326-6.6-1.
    #[test]
    fn short_gap_delays_nothing() {
        let mut timers = Timers::new(1, true);
        timers.start(wait(1), at(100), Duration::from_secs(100));
        timers.suspend(at(10));
        timers.resume(at(20));
        assert_eq!(timers.next_deadline(), Some(at(200)));
    }

    /// Keeps 5326-6.2-2, 5326-6.3-1, 5326-6.15-1.
    #[test]
    fn timers_start_and_stop_while_suspended() {
        let mut timers = Timers::new(1, false);
        timers.start(wait(1), at(1), Duration::from_secs(1));
        timers.start(wait(2), at(1), Duration::from_secs(1));
        timers.stop(wait(1));
        assert_eq!(timers.next_deadline(), None);
        timers.resume(at(50));
        assert_eq!(timers.pop_due(at(51)), Some(wait(2)));
        assert_eq!(timers.pop_due(at(99)), None);
    }
}
