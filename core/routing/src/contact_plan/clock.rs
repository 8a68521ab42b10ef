//! Position of the plan's time scale on this process's clock.

use super::{ContactPlan, PlanTime};
use farlink_base::{Clock, Instant};

/// Conversion between [`PlanTime`] and [`Instant`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanClock {
    /// Nanoseconds on the process's clock at `PlanTime(0)`; negative if the epoch is before the start of the process.
    origin_ns: i128,
}

impl PlanClock {
    /// Scale that starts at `now`, for a plan without an epoch.
    pub fn starting(now: Instant) -> Self {
        PlanClock { origin_ns: i128::from(now.0) }
    }
    /// Scale of a plan with an epoch; `None` without a trusted clock.
    pub fn of_epoch(plan: &ContactPlan, clock: &Clock) -> Option<Self> {
        let (epoch, utc) = (plan.epoch?, clock.utc?);
        // The plan's epoch is wall time, so only the difference to the clock's wall time matters.
        let ahead_ms = i128::from(epoch.0) - i128::from(utc.0);
        Some(PlanClock { origin_ns: i128::from(clock.at.0) + ahead_ms * 1_000_000 })
    }
    /// Instant of a plan time; times before the process started are clamped to its start.
    pub fn instant(&self, time: PlanTime) -> Instant {
        Instant(clamp(self.origin_ns + i128::from(time.0)))
    }
    /// Plan time of an instant; instants before the epoch are clamped to it.
    pub fn plan_time(&self, instant: Instant) -> PlanTime {
        PlanTime(clamp(i128::from(instant.0) - self.origin_ns))
    }
}

fn clamp(nanoseconds: i128) -> u64 {
    u64::try_from(nanoseconds.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DtnTime;

    #[test]
    fn epochs_before_and_after_process_start() {
        // Five seconds after the process started it is 1,000 s in wall time.
        let clock = Clock { at: Instant(5_000_000_000), utc: Some(DtnTime(1_000_000)), error_ms: 0 };
        let plan = |epoch| ContactPlan { epoch: Some(DtnTime(epoch)), contacts: alloc::vec![] };
        let past = PlanClock::of_epoch(&plan(900_000), &clock).unwrap();
        assert_eq!(past.plan_time(Instant(5_000_000_000)), PlanTime::from_secs(100));
        assert_eq!(past.instant(PlanTime::from_secs(103)), Instant(8_000_000_000));
        // The process's clock has no time before its start.
        assert_eq!(past.instant(PlanTime(0)), Instant::ZERO);
        // An epoch ten seconds after the clock's reading.
        let future = PlanClock::of_epoch(&plan(1_010_000), &clock).unwrap();
        assert_eq!(future.plan_time(Instant(5_000_000_000)), PlanTime(0));
        assert_eq!(future.instant(PlanTime(0)), Instant(15_000_000_000));
        assert_eq!(PlanClock::of_epoch(&plan(1), &Clock::UNTRUSTED), None);
        assert_eq!(PlanClock::starting(Instant(7)).plan_time(Instant(9)), PlanTime(2));
    }
}
