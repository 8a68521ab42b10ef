//! The only timer structure of the engine: cancellable, firing in (deadline, insertion) order, so
//! that a run replays exactly.

use crate::time::Instant;
use alloc::collections::BTreeMap;

/// Names one armed timer; needed to cancel it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerKey {
    deadline: Instant,
    order: u64,
}
impl TimerKey {
    /// When it fires.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// Timers carrying a value each.
#[derive(Clone, Debug)]
pub struct TimerQueue<T> {
    timers: BTreeMap<TimerKey, T>,
    order: u64,
}
impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        TimerQueue { timers: BTreeMap::new(), order: 0 }
    }
}
impl<T> TimerQueue<T> {
    /// No timers.
    pub fn new() -> Self {
        Self::default()
    }
    /// Arms a timer.
    pub fn arm(&mut self, deadline: Instant, value: T) -> TimerKey {
        let key = TimerKey { deadline, order: self.order };
        self.order += 1;
        self.timers.insert(key, value);
        key
    }
    /// Disarms a timer; `None` when it fired or was cancelled before.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.timers.remove(&key)
    }
    /// The next deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first_key_value().map(|(key, _)| key.deadline)
    }
    /// Takes one timer due at `now`, the earliest first.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        let entry = self.timers.first_entry()?;
        if entry.key().deadline > now {
            return None;
        }
        let (key, value) = entry.remove_entry();
        Some((key.deadline, value))
    }
    /// Armed timers.
    pub fn len(&self) -> usize {
        self.timers.len()
    }
    /// Whether none is armed.
    pub fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn fires_in_deadline_then_insertion_order_and_cancels() {
        let mut queue = TimerQueue::new();
        queue.arm(Instant(20), "c");
        let b = queue.arm(Instant(10), "b");
        queue.arm(Instant(10), "a");
        let gone = queue.arm(Instant(5), "gone");
        assert_eq!(queue.cancel(gone), Some("gone"));
        assert_eq!(queue.cancel(gone), None);
        assert_eq!(queue.next_deadline(), Some(b.deadline()));
        let mut fired = Vec::new();
        while let Some((_, value)) = queue.pop_due(Instant(15)) {
            fired.push(value);
        }
        assert_eq!(fired, ["b", "a"]);
        assert_eq!(queue.len(), 1);
    }
}
