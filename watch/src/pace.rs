//! Speed of virtual time relative to real time: limited, unlimited or paused. The caller passes in real times.

use farlink_base::{Duration, Instant};

/// Factor of one change of speed.
const STEP: f64 = 2.0;
/// Real time that a run takes at the initial speed.
const FIRST: Duration = Duration::from_secs(60);
/// Least speed, virtual seconds per second.
const SLOWEST: f64 = 1e-6;
/// Lag of the simulation, in real time, beyond which it need not catch up.
const BEHIND: Duration = Duration::from_millis(250);

/// Relation of virtual to real time.
#[derive(Clone, Debug)]
pub struct RunPace {
    /// Speed limit, virtual seconds per second.
    speed: f64,
    /// Highest speed limit; raising the speed beyond it removes the limit.
    fastest: f64,
    free: bool,
    paused: bool,
    /// Real and virtual time of the last change.
    origin: (Duration, Instant),
}

impl RunPace {
    /// Pace at which a run of this length takes one minute.
    pub fn new(duration: Duration) -> RunPace {
        let whole = duration.as_secs_f64();
        let speed = (whole / FIRST.as_secs_f64()).max(SLOWEST);
        // Ten doublings up to the fastest limit.
        RunPace { speed, fastest: speed * 1024.0, free: false, paused: false, origin: (Duration::ZERO, Instant::ZERO) }
    }
    /// Virtual time that is due at a real time; [`Instant::MAX`] without a speed limit, and constant while paused.
    pub fn at(&self, real: Duration) -> Instant {
        if self.paused {
            return self.origin.1;
        }
        if self.free {
            return Instant::MAX;
        }
        let passed = real.saturating_sub(self.origin.0).as_secs_f64() * self.speed;
        // Float-to-integer casts saturate.
        Instant(self.origin.1.0.saturating_add((passed * 1e9) as u64))
    }
    /// Real time to wait until a virtual time is due; `None` if it is not due yet and virtual time is paused.
    pub fn until(&self, real: Duration, at: Instant) -> Option<Duration> {
        if at <= self.at(real) {
            return Some(Duration::ZERO);
        }
        if self.paused {
            return None;
        }
        let wait = at.since(self.at(real)).as_secs_f64() / self.speed;
        Some(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }
    /// Takes note of the virtual time that the simulation has reached. After a large lag the pace continues from there,
    /// so that the simulation need not catch up.
    pub fn keep_up(&mut self, real: Duration, at: Instant) {
        if self.paused {
            return;
        }
        let due = self.at(real);
        if self.free || due.since(at).as_secs_f64() / self.speed > BEHIND.as_secs_f64() {
            self.origin = (real, at);
        }
    }
    /// Pauses or resumes.
    pub fn pause(&mut self, real: Duration, at: Instant) {
        self.origin = (real, at);
        self.paused = !self.paused;
    }
    /// Doubles or halves the speed limit. Beyond about a thousand times the initial speed the limit is removed.
    pub fn change(&mut self, real: Duration, at: Instant, faster: bool) {
        self.origin = (real, at);
        if faster {
            // One step beyond the fastest limit removes it.
            self.free = self.free || self.speed * STEP > self.fastest;
            self.speed = (self.speed * STEP).min(self.fastest);
        // Slowing an unlimited run restores the last limit.
        } else if self.free {
            self.free = false;
        } else {
            self.speed = (self.speed / STEP).max(SLOWEST);
        }
    }
    /// Removes or restores the speed limit.
    pub fn release(&mut self, real: Duration, at: Instant) {
        self.origin = (real, at);
        self.free = !self.free;
    }
    /// Whether the speed is unlimited and virtual time is not paused.
    pub fn is_free(&self) -> bool {
        self.free && !self.paused
    }
    /// Whether virtual time is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }
    /// Speed limit, virtual seconds per second; `None` if unlimited.
    pub fn limit(&self) -> Option<f64> {
        (!self.free).then_some(self.speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn default_pace_takes_one_minute() {
        let mut pace = RunPace::new(s(600));
        assert_eq!((pace.at(s(0)), pace.at(s(6)), pace.limit()), (Instant(0), Instant(60 * S), Some(10.0)));
        assert_eq!(pace.until(s(6), Instant(80 * S)), Some(s(2)));
        assert_eq!(pace.until(s(6), Instant(40 * S)), Some(s(0)));
        pace.change(s(6), Instant(60 * S), true);
        assert_eq!((pace.at(s(6)), pace.at(s(7))), (Instant(60 * S), Instant(80 * S)));
        pace.change(s(7), Instant(80 * S), false);
        assert_eq!(pace.at(s(8)), Instant(90 * S));
    }

    #[test]
    fn paused_run_resumes_where_it_stopped() {
        let mut pace = RunPace::new(s(600));
        pace.pause(s(3), Instant(30 * S));
        assert_eq!((pace.at(s(100)), pace.until(s(100), Instant(31 * S))), (Instant(30 * S), None));
        pace.pause(s(100), Instant(30 * S));
        assert_eq!(pace.at(s(101)), Instant(40 * S));
    }

    #[test]
    fn pause_without_limit_halts_run() {
        let mut pace = RunPace::new(s(600));
        pace.release(s(0), Instant(0));
        pace.pause(s(3), Instant(30 * S));
        pace.keep_up(s(4), Instant(31 * S));
        assert_eq!((pace.at(s(5)), pace.until(s(5), Instant(31 * S))), (Instant(30 * S), None));
        pace.pause(s(6), Instant(30 * S));
        assert!(pace.is_free());
    }

    #[test]
    fn slowing_restores_pace_limit() {
        let mut pace = RunPace::new(s(600));
        pace.release(s(0), Instant(0));
        assert!(pace.is_free() && pace.limit().is_none() && pace.until(s(0), Instant(u64::MAX - 1)) == Some(s(0)));
        pace.change(s(1), Instant(500 * S), false);
        assert_eq!((pace.limit(), pace.at(s(2))), (Some(10.0), Instant(510 * S)));
        (0..10).for_each(|_| pace.change(s(2), Instant(0), true));
        assert_eq!(pace.limit(), Some(10240.0));
        pace.change(s(2), Instant(0), true);
        assert!(pace.is_free(), "beyond a thousand times there is no limit");
        (0..200).for_each(|_| pace.change(s(2), Instant(0), false));
        assert_eq!(pace.limit(), Some(SLOWEST));
    }

    #[test]
    fn late_run_does_not_catch_up() {
        let mut pace = RunPace::new(s(600));
        pace.keep_up(s(10), Instant(99 * S));
        assert_eq!(pace.at(s(11)), Instant(110 * S), "a little behind is nothing");
        pace.keep_up(s(10), Instant(20 * S));
        assert_eq!(pace.at(s(11)), Instant(30 * S));
    }

    #[test]
    fn zero_length_run_has_pace() {
        let pace = RunPace::new(Duration::ZERO);
        assert!(pace.limit().is_some_and(|speed| speed > 0.0));
        assert!(pace.until(s(0), Instant(u64::MAX - 1)).is_some());
    }
}
