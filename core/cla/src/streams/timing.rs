//! Deadlines, and the timers armed for them.

use farlink_base::{Instant, TimerKey, TimerQueue};

/// Compares deadlines with the current time and collects the earliest.
#[derive(Debug)]
pub(crate) struct Deadlines {
    now: Instant,
    /// Earliest deadline compared so far.
    pub next: Option<Instant>,
}
impl Deadlines {
    /// Starts without deadlines.
    pub const fn at(now: Instant) -> Self {
        Deadlines { now, next: None }
    }
    /// Whether this deadline has passed; collects it in [`Self::next`] in any case.
    pub fn passed(&mut self, deadline: Instant) -> bool {
        self.next = Some(self.next.map_or(deadline, |next| next.min(deadline)));
        deadline <= self.now
    }
}

/// Arms a timer for `at`, unless `slot` holds one that expires then or earlier. `None` changes nothing.
pub(crate) fn arm<T>(timers: &mut TimerQueue<T>, slot: &mut Option<TimerKey>, at: Option<Instant>, timer: T) {
    // A timer that expires too early only causes a check, which arms it again.
    if let Some(at) = at
        && slot.is_none_or(|armed| armed.deadline() > at)
    {
        if let Some(armed) = slot.take() {
            timers.cancel(armed);
        }
        *slot = Some(timers.arm(at, timer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_only_move_forward() {
        let mut deadlines = Deadlines::at(Instant(5));
        assert!(!deadlines.passed(Instant(9)) && deadlines.passed(Instant(5)) && !deadlines.passed(Instant(7)));
        assert_eq!(deadlines.next, Some(Instant(5)));
        let (mut timers, mut slot) = (TimerQueue::new(), None);
        for (at, armed) in [(Some(9), 9), (None, 9), (Some(12), 9), (Some(3), 3)] {
            arm(&mut timers, &mut slot, at.map(Instant), ());
            assert_eq!((timers.len(), timers.next_deadline()), (1, Some(Instant(armed))));
        }
    }
}
