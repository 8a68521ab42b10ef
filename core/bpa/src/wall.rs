//! Wall time as far as it is believed.
//!
//! What the store kept was stored before now. A clock that says otherwise, or that would have the
//! node down for longer than anybody believes, lost its time or came up without it (1970): then
//! lifetimes run on ages, new bundles have no creation time (RFC 9171 4.2.7), and the downtime counts
//! as none. A bundle that is kept too long is lost time; one that is deleted too early is lost. An
//! earlier run whose clock was fast is caught up with: then the clock is believed again.

use farlink_base::{Clock, DtnTime, Instant};

/// Longest downtime believed: a year.
const DOWN_MAX_MS: u64 = 366 * 86_400_000;

/// The wall clock, and what earlier runs say of it.
#[derive(Debug)]
pub(crate) struct Wall {
    clock: Clock,
    /// The latest time something was stored at by an earlier run, and when that was found.
    newest: Option<(DtnTime, Instant)>,
    /// That it is doubted was told.
    doubted: bool,
}

impl Wall {
    /// No clock yet.
    pub const UNKNOWN: Wall = Wall { clock: Clock::UNTRUSTED, newest: None, doubted: false };

    /// The clock as it was told, believed or not: contact plans go by it.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
    /// Wall time at an instant; `None` when the node knows no time that it believes.
    pub fn utc_at(&self, now: Instant) -> Option<DtnTime> {
        if self.off_ms(now).is_some() { None } else { self.clock.utc_at(now) }
    }
    /// The clock was read; gives by how many ms it stepped.
    pub fn set(&mut self, clock: Clock) -> i64 {
        let step_ms = match (self.clock.utc_at(clock.at), clock.utc) {
            (Some(expected), Some(utc)) => utc.0 as i64 - expected.0 as i64,
            _ => 0,
        };
        self.doubted &= self.off_ms(clock.at).is_some();
        self.clock = clock;
        step_ms
    }
    /// An earlier run stored something at this time; gives the downtime since that is believed, ms.
    pub fn found(&mut self, now: Instant, stored_at: DtnTime) -> u64 {
        if self.newest.is_none_or(|(newest, _)| stored_at > newest) {
            self.newest = Some((stored_at, now));
        }
        let down_ms = self.clock.utc_at(now).map_or(0, |utc| utc.saturating_since_ms(stored_at));
        if down_ms > DOWN_MAX_MS { 0 } else { down_ms }
    }
    /// Holds the clock against what was found; gives by how many ms it is off when it is doubted from
    /// now on.
    pub fn judge(&mut self, now: Instant) -> Option<i64> {
        let before = self.doubted;
        let off_ms = self.off_ms(now);
        self.doubted = off_ms.is_some();
        off_ms.filter(|_| !before)
    }
    fn off_ms(&self, now: Instant) -> Option<i64> {
        let ((newest, found), utc) = (self.newest?, self.clock.utc_at(now)?);
        let off_ms = utc.0 as i64 - newest.0 as i64;
        let most = DOWN_MAX_MS as i64 + now.since(found).as_millis() as i64;
        let believed = -(self.clock.error_ms as i64)..=most;
        (!believed.contains(&off_ms)).then_some(off_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: DtnTime = DtnTime(800_000_000_000);

    fn judged(utc_ms: u64) -> (Option<DtnTime>, u64) {
        let mut wall = Wall::UNKNOWN;
        wall.set(Clock { at: Instant(5), utc: Some(DtnTime(utc_ms)), error_ms: 100 });
        let down_ms = wall.found(Instant(5), THEN);
        wall.judge(Instant(5));
        (wall.utc_at(Instant(5)), down_ms)
    }

    #[test]
    fn a_clock_is_believed_within_its_error_and_a_year() {
        assert_eq!(judged(THEN.0 - 100), (Some(DtnTime(THEN.0 - 100)), 0));
        assert_eq!(judged(THEN.0 - 101), (None, 0));
        assert_eq!(judged(0), (None, 0));
        assert_eq!(judged(THEN.0 + 5_000), (Some(DtnTime(THEN.0 + 5_000)), 5_000));
        assert_eq!(judged(THEN.0 + DOWN_MAX_MS), (Some(DtnTime(THEN.0 + DOWN_MAX_MS)), DOWN_MAX_MS));
        assert_eq!(judged(THEN.0 + DOWN_MAX_MS + 1), (None, 0));
    }

    #[test]
    fn a_clock_that_is_set_right_is_believed_again_and_years_of_work_are_no_downtime() {
        let (mut wall, hour) = (Wall::UNKNOWN, Instant(3_600_000_000_000));
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
    fn a_clock_that_was_fast_in_an_earlier_run_is_doubted_until_it_is_past_that() {
        let (mut wall, hour) = (Wall::UNKNOWN, Instant(3_600_000_000_000));
        let reading = |at, utc_ms| Clock { at, utc: Some(DtnTime(utc_ms)), error_ms: 0 };
        wall.set(reading(Instant(0), THEN.0 - 3_600_000));
        wall.found(Instant(0), THEN);
        assert_eq!((wall.judge(Instant(0)), wall.utc_at(Instant(0))), (Some(-3_600_000), None));
        assert_eq!((wall.utc_at(Instant(hour.0 - 1)), wall.utc_at(hour)), (None, Some(THEN)));
        wall.set(reading(hour, THEN.0 - 60_000));
        assert_eq!((wall.judge(hour), wall.utc_at(hour)), (Some(-60_000), None), "doubted anew, and said");
    }
}
