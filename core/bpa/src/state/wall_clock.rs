//! Wall time, as far as it is trusted.
//!
//! The last run ended before now, and at most the longest plausible downtime ago. A clock that contradicts this is
//! doubted: it lost its time or started without one (1970), or is ahead. Then lifetimes run on bundle ages, new bundles
//! have no creation time (RFC 9171 4.2.7), and downtime counts as zero; only the noted operating time, for which the
//! node ran in its runs so far, counts. Keeping a bundle too long costs room; deleting it too early loses it. The clock
//! is trusted again once it is corrected, once it passes the time noted by an earlier run with a fast clock, or once
//! the operator confirms it.

use farlink_base::{Clock, DtnTime, Instant};

/// Longest downtime trusted by default: 30 days.
pub(crate) const DOWNTIME_MAX: core::time::Duration = core::time::Duration::from_secs(30 * 86_400);

/// The wall clock, and evidence from earlier runs.
#[derive(Debug)]
pub(crate) struct WallClock {
    clock: Clock,
    /// Latest time that an earlier run is known to have reached, 0 if unknown, and the instant at which this became
    /// known.
    newest: (DtnTime, Instant),
    /// Longest downtime trusted, s.
    down_max_s: u32,
    /// Whether the operator confirmed the clock.
    confirmed: bool,
    /// Whether doubt was already reported.
    doubted: bool,
    /// Operating time of earlier runs, ms, less the reading of this process's clock when it was noted: added to a later
    /// reading it gives the total.
    ran_before_ms: i64,
}

impl WallClock {
    /// State without any clock reading.
    pub const UNKNOWN: WallClock = WallClock {
        clock: Clock::UNTRUSTED,
        newest: (DtnTime(0), Instant::ZERO),
        down_max_s: DOWNTIME_MAX.as_secs() as u32,
        confirmed: false,
        doubted: false,
        ran_before_ms: 0,
    };

    /// The clock as last read, trusted or not: contact plans follow it.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
    /// Wall time at an instant; `None` without a trusted clock.
    pub fn utc_at(&self, now: Instant) -> Option<DtnTime> {
        if self.off_ms(now).is_some() { None } else { self.clock.utc_at(now) }
    }
    /// Takes a reading of the clock. Returns the step from the former reading, ms; 0 if one of them has no time.
    pub fn set(&mut self, clock: Clock) -> i64 {
        let step_ms = match (self.clock.utc_at(clock.at), clock.utc) {
            (Some(expected), Some(utc)) => utc.0 as i64 - expected.0 as i64,
            _ => 0,
        };
        // A corrected clock may be doubted, and reported, again later.
        self.doubted &= self.off_ms(clock.at).is_some();
        self.clock = clock;
        step_ms
    }
    /// Notes the end of the last run, if known, and the longest plausible downtime.
    pub fn ran(&mut self, now: Instant, last: Option<DtnTime>, down_max_ms: u64) {
        self.down_max_s = u32::try_from(down_max_ms / 1000).unwrap_or(u32::MAX);
        if let Some(last) = last {
            self.know(now, last);
        }
    }
    fn know(&mut self, now: Instant, time: DtnTime) {
        if time > self.newest.0 {
            self.newest = (time, now);
        }
    }
    /// Sets the operating time at `now`, ms: that of earlier runs, plus the downtime if the machine kept running
    /// meanwhile.
    pub fn ran_before(&mut self, now: Instant, ran_ms: u64) {
        self.ran_before_ms = (ran_ms.min(i64::MAX as u64) as i64).saturating_sub(millis(now) as i64);
    }
    /// Operating time of all runs, ms.
    pub fn ran_ms(&self, now: Instant) -> u64 {
        millis(now).saturating_add_signed(self.ran_before_ms)
    }
    /// Operating time since an earlier run stored a bundle at `ran_ms`, as far as known, ms. If the bundle was stored
    /// after the noted operating time, that time is corrected.
    pub fn found_ran(&mut self, now: Instant, ran_ms: u64) -> u64 {
        let since_ms = self.ran_ms(now).saturating_sub(ran_ms);
        if since_ms == 0 {
            self.ran_before(now, ran_ms);
        }
        since_ms
    }
    /// Trusts the clock from now on, on behalf of the operator.
    pub fn confirm(&mut self) {
        (self.confirmed, self.doubted) = (true, false);
    }
    /// Notes the wall time at which an earlier run stored a bundle. Returns the time since, ms; 0 without a trusted
    /// clock.
    pub fn found(&mut self, now: Instant, stored_at: DtnTime) -> u64 {
        self.know(now, stored_at);
        self.utc_at(now).map_or(0, |utc| utc.saturating_since_ms(stored_at))
    }
    /// Checks the clock against earlier runs. Returns its deviation in ms when doubt begins, and `None` otherwise.
    pub fn judge(&mut self, now: Instant) -> Option<i64> {
        let before = self.doubted;
        let off_ms = self.off_ms(now);
        self.doubted = off_ms.is_some();
        off_ms.filter(|_| !before)
    }
    fn off_ms(&self, now: Instant) -> Option<i64> {
        let ((newest, found), utc) = (self.newest, self.clock.utc_at(now)?);
        if newest == DtnTime(0) {
            return None;
        }
        let off_ms = utc.0 as i64 - newest.0 as i64;
        // The operator's confirmation outweighs all evidence.
        if self.confirmed {
            return None;
        }
        // The time that this run has lasted since `newest` became known may have passed, too.
        let most = (u64::from(self.down_max_s) * 1000)
            .saturating_add(now.since(found).as_millis() as u64)
            .min(i64::MAX as u64) as i64;
        let believed = -(self.clock.error_ms as i64)..=most;
        (!believed.contains(&off_ms)).then_some(off_ms)
    }
}

fn millis(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN_MAX_MS: u64 = DOWNTIME_MAX.as_millis() as u64;
    const THEN: DtnTime = DtnTime(800_000_000_000);

    fn judged(utc_ms: u64) -> (Option<DtnTime>, u64) {
        let mut wall = WallClock::UNKNOWN;
        wall.set(Clock { at: Instant(5), utc: Some(DtnTime(utc_ms)), error_ms: 100 });
        let down_ms = wall.found(Instant(5), THEN);
        wall.judge(Instant(5));
        (wall.utc_at(Instant(5)), down_ms)
    }

    #[test]
    fn clock_within_downtime_is_trusted() {
        assert_eq!(judged(THEN.0 - 100), (Some(DtnTime(THEN.0 - 100)), 0));
        assert_eq!(judged(THEN.0 - 101), (None, 0));
        assert_eq!(judged(0), (None, 0));
        assert_eq!(judged(THEN.0 + 5_000), (Some(DtnTime(THEN.0 + 5_000)), 5_000));
        assert_eq!(judged(THEN.0 + DOWN_MAX_MS), (Some(DtnTime(THEN.0 + DOWN_MAX_MS)), DOWN_MAX_MS));
        assert_eq!(judged(THEN.0 + DOWN_MAX_MS + 1), (None, 0));
    }

    #[test]
    fn corrected_clock_is_trusted_again() {
        // The clock starts in 2000, long before the last run.
        let (mut wall, hour) = (WallClock::UNKNOWN, Instant(3_600_000_000_000));
        wall.set(Clock { at: Instant(0), utc: Some(DtnTime(0)), error_ms: 0 });
        wall.found(Instant(0), THEN);
        assert_eq!(wall.judge(Instant(0)), Some(-(THEN.0 as i64)));
        assert_eq!(wall.judge(hour), None, "said once");
        assert_eq!(wall.set(Clock { at: hour, utc: Some(DtnTime(THEN.0 + 3_600_000)), error_ms: 0 }), THEN.0 as i64);
        assert_eq!((wall.judge(hour), wall.utc_at(hour)), (None, Some(DtnTime(THEN.0 + 3_600_000))));
        let later = Instant(10 * DOWN_MAX_MS * 1_000_000);
        assert_eq!((wall.judge(later), wall.utc_at(later).is_some()), (None, true));
    }

    #[test]
    fn jump_ahead_is_doubted_until_confirmed() {
        let year_ms = 365 * 86_400_000;
        let ahead = || {
            let mut wall = WallClock::UNKNOWN;
            wall.set(Clock { at: Instant(5), utc: Some(DtnTime(THEN.0 + year_ms)), error_ms: 100 });
            wall
        };
        let mut wall = ahead();
        assert_eq!((wall.found(Instant(5), THEN), wall.judge(Instant(5))), (0, Some(year_ms as i64)));
        assert_eq!(wall.utc_at(Instant(5)), None);
        wall.confirm();
        assert_eq!(wall.utc_at(Instant(5)), Some(DtnTime(THEN.0 + year_ms)));
        assert_eq!((wall.found(Instant(5), THEN), wall.judge(Instant(5))), (year_ms, None));
        let mut wall = ahead();
        wall.ran(Instant(5), None, 400 * 86_400_000);
        assert_eq!((wall.found(Instant(5), THEN), wall.judge(Instant(5))), (year_ms, None), "a true downtime");
        // A single bundle is old, but the last run is recent.
        let mut wall = ahead();
        wall.ran(Instant(5), Some(DtnTime(THEN.0 + year_ms - 60_000)), DOWN_MAX_MS);
        assert_eq!((wall.found(Instant(5), THEN), wall.judge(Instant(5))), (year_ms, None));
    }

    #[test]
    fn clock_behind_last_run_is_doubted() {
        let (mut wall, hour) = (WallClock::UNKNOWN, Instant(3_600_000_000_000));
        let reading = |at, utc_ms| Clock { at, utc: Some(DtnTime(utc_ms)), error_ms: 0 };
        wall.set(reading(Instant(0), THEN.0 - 3_600_000));
        wall.found(Instant(0), THEN);
        assert_eq!((wall.judge(Instant(0)), wall.utc_at(Instant(0))), (Some(-3_600_000), None));
        assert_eq!((wall.utc_at(Instant(hour.0 - 1)), wall.utc_at(hour)), (None, Some(THEN)));
        wall.set(reading(hour, THEN.0 - 60_000));
        assert_eq!((wall.judge(hour), wall.utc_at(hour)), (Some(-60_000), None), "doubted anew, and said");
    }
}
