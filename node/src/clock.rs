//! The machine's clocks: monotonic time for the engine, wall time and its steps for the agent.

use farlink_base::{Clock, ClockTrust, DtnTime, Instant, NodeSettings};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A wall clock that moves by more than this against the monotonic one has stepped.
const STEP_NS: i128 = 50_000_000;

/// Monotonic time now. Its origin is the machine's boot, so that events of several processes on one machine are
/// comparable.
pub fn now() -> Instant {
    Instant(nanoseconds(clock_gettime(ClockId::Monotonic)))
}

/// Wall time now, in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// Boot ID of the machine, and milliseconds since boot, including time suspended.
pub fn boot() -> (String, u64) {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    (id.trim().to_string(), nanoseconds(clock_gettime(ClockId::Boottime)) / 1_000_000)
}

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Watches the wall clock for steps.
#[derive(Debug)]
pub struct WallClock {
    trusted: bool,
    error_ms: u64,
    /// Offset added to the machine's wall clock (`clock_offset` of the file), as if the clock were wrong by this much.
    wrong_ns: i64,
    offset_ns: i128,
    checked: Instant,
}

impl WallClock {
    /// Starts watching. An untrusted clock never gives UTC.
    pub fn new(settings: &NodeSettings) -> Self {
        WallClock {
            trusted: settings.clock == ClockTrust::Trusted,
            error_ms: settings.clock_error.as_millis() as u64,
            wrong_ns: settings.clock_offset,
            offset_ns: offset() + i128::from(settings.clock_offset),
            checked: now(),
        }
    }
    /// Sets the offset that is added to the machine's wall clock; the next [`WallClock::check`] finds the change, like
    /// a step of the clock.
    pub fn set_wrong_by(&mut self, wrong_ns: i64) {
        self.wrong_ns = wrong_ns;
    }
    /// Current reading for the stack.
    pub fn reading(&self) -> Clock {
        let at = now();
        let unix_ms = u64::try_from((i128::from(at.0) + self.offset_ns) / 1_000_000).unwrap_or(0);
        // A machine that lost its time boots in 1970; DTN time begins in 2000 (RFC 9171 4.2.6).
        if !self.trusted || unix_ms <= DtnTime(0).as_unix_ms() {
            return Clock { at, ..Clock::UNTRUSTED };
        }
        Clock { at, utc: Some(DtnTime::from_unix_ms(unix_ms)), error_ms: self.error_ms }
    }
    /// Checks once a second whether the wall clock stepped; if so, returns the new reading of a trusted clock.
    pub fn check(&mut self, now: Instant) -> Option<Clock> {
        if now.0 < self.checked.0 + 1_000_000_000 {
            return None;
        }
        self.checked = now;
        let offset = offset() + i128::from(self.wrong_ns);
        let stepped = (offset - self.offset_ns).abs() > STEP_NS;
        if stepped {
            self.offset_ns = offset;
        }
        (stepped && self.trusted).then(|| self.reading())
    }
    /// Time of the next call of [`WallClock::check`].
    pub fn next_check(&self) -> Instant {
        Instant(self.checked.0 + 1_000_000_000)
    }
    /// Wall time of an instant, in nanoseconds since 1970.
    pub fn unix_ns_at(&self, instant: Instant) -> u64 {
        u64::try_from(i128::from(instant.0) + self.offset_ns).unwrap_or(0)
    }
}

fn offset() -> i128 {
    i128::from(unix_ns()) - i128::from(now().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_clock_reports_step_once() {
        let mut clock = WallClock::new(&NodeSettings::default());
        let second = clock.next_check();
        assert_eq!(clock.check(second), None, "nothing stepped");
        clock.offset_ns += 3_600_000_000_000;
        assert_eq!(clock.check(now()), None, "too early to look");
        assert!(clock.check(Instant(second.0 + 2_000_000_000)).is_some());
        let after = clock.next_check();
        assert_eq!(clock.check(after), None);
        let mut blind = WallClock::new(&NodeSettings { clock: ClockTrust::Untrusted, ..NodeSettings::default() });
        blind.offset_ns += 3_600_000_000_000;
        assert_eq!(blind.check(Instant(now().0 + 2_000_000_000)), None);
        assert_eq!(blind.reading().utc, None);
    }

    #[test]
    fn clock_before_dtn_epoch_is_untrusted() {
        let mut clock = WallClock::new(&NodeSettings {
            clock_offset: -i64::try_from(unix_ns()).unwrap(),
            ..NodeSettings::default()
        });
        assert_eq!(clock.reading().utc, None);
        clock.set_wrong_by(0);
        let set = clock.check(clock.next_check()).expect("a step");
        assert!(set.utc.is_some());
    }

    #[test]
    fn wall_time_of_now_is_now() {
        let clock = WallClock::new(&NodeSettings::default());
        let difference = clock.unix_ns_at(now()).abs_diff(unix_ns());
        assert!(difference < 50_000_000, "{difference}");
    }
}
