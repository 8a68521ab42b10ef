//! CUBIC (RFC 9438) as Linux implements it, with fast convergence and HyStart (Ha and Rhee, 2011). HyStart ends slow
//! start before the queue overflows. Windows are in segments here.

use super::congestion::Path;
use farlink_base::Instant;

/// Growth constant, segments per cubic second (RFC 9438 5.1).
const C: f64 = 0.4;
/// Fraction of the window that is left after a loss (Linux: 717 of 1024).
const BETA: f64 = 717.0 / 1024.0;
/// Maximum number of segments to be delivered per segment of growth before the first loss, so that the window grows by
/// at least a twentieth per round trip (Linux).
const GROWTH_BEFORE_LOSS: f64 = 20.0;
/// Smallest window at which HyStart is active (Linux `hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// Largest gap between two acknowledgments of one train, ns (Linux `hystart_ack_delta_us`).
const TRAIN_GAP_NS: u64 = 2_000_000;
/// Number of measurements in a round trip before their minimum is compared.
const SAMPLES: u32 = 8;
/// Bounds of the increase of the round trip that ends slow start, ns; between them the increase is an eighth of the
/// round trip.
const LONGER_NS: (u64, u64) = (4_000_000, 16_000_000);

/// Longest time for which the computed growth is kept while the window stays the same, ns (Linux: a 32nd of a second).
const STEADY_NS: u64 = 31_000_000;

/// State of the growth since the last loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Window at the inflection of the growth curve, and time until it is reached, s (K of RFC 9438).
    origin: f64,
    inflection_s: f64,
    /// Window that NewReno would have, and number of segments delivered since its last increase.
    friendly: f64,
    towards: f64,
    /// Time of the last computation of the growth, and window at that time.
    computed: Instant,
    window: u64,
    /// Number of segments to be delivered per segment of growth.
    each: f64,
}

/// State of HyStart within one round trip.
#[derive(Clone, Copy, Default, Debug)]
struct Round {
    start: Instant,
    last: Instant,
    least_ns: Option<u64>,
    samples: u32,
}

impl Epoch {
    /// Computes how many segments must be delivered per segment of growth, as an integer like Linux.
    fn compute(&mut self, window: f64, before_loss: f64, least_s: f64) {
        let t = self.computed.since(self.start).as_secs_f64() + least_s - self.inflection_s;
        // The distance from the inflection is truncated to whole segments, as in Linux: within one segment of the
        // inflection, the target is the inflection itself.
        let target = self.origin + libm::trunc(C * t * t * t);
        self.each = if target > window { libm::floor(window / (target - window)) } else { 100.0 * window };
        if before_loss == 0.0 {
            self.each = self.each.min(GROWTH_BEFORE_LOSS);
        }
        // Eight times the NewReno factor of Linux, 8 (1024 + 717) / 3 / (1024 - 717) in whole numbers, divided by 8.
        let one_more = libm::floor(window * 15.0 / 8.0).max(1.0);
        let friendly = libm::floor(self.towards / one_more);
        self.friendly += friendly;
        self.towards -= friendly * one_more;
        // TCP-friendly region (RFC 9438 4.3): never slower than NewReno.
        if self.friendly > window {
            self.each = self.each.min(libm::floor(window / (self.friendly - window)));
        }
        // Grow by at most half a segment per acknowledged segment (Linux).
        self.each = self.each.max(2.0);
    }
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cubic {
    /// Window before the last loss; 0 before the first loss.
    before_loss: f64,
    epoch: Option<Epoch>,
    /// Segments delivered since the last increase.
    credit: f64,
    /// Shortest round trip measured, ns.
    least_ns: Option<u64>,
    round: Round,
    found: bool,
}

impl Cubic {
    /// Handles an acknowledgment in slow start; returns whether slow start should end.
    pub fn slow_start_ends(&mut self, window: u64, path: &Path) -> bool {
        if path.round {
            self.round = Round { start: path.now, last: path.now, ..Round::default() };
        }
        let Some(measured) = path.measured_ns else { return false };
        self.measured(measured, path.now);
        if self.found || window < LOW_WINDOW {
            return false;
        }
        let least = self.least_ns.unwrap_or(measured);
        let round = &mut self.round;
        if path.now.since(round.last).as_nanos() <= u128::from(TRAIN_GAP_NS) {
            round.last = path.now;
            // A train of acknowledgments lasts half a round trip: the path is half full, and the next doubling would
            // fill it.
            self.found |= path.now.since(round.start).as_nanos() > u128::from(least / 2);
        }
        round.least_ns = Some(round.least_ns.map_or(measured, |before| before.min(measured)));
        if round.samples < SAMPLES {
            round.samples += 1;
        } else {
            let longer = least + (least / 8).clamp(LONGER_NS.0, LONGER_NS.1);
            self.found |= round.least_ns.is_some_and(|ns| ns > longer);
        }
        self.found
    }

    /// Number of segments by which the window grows when `delivered` segments are acknowledged in congestion avoidance.
    pub fn increase(&mut self, window: u64, delivered: f64, path: &Path) -> u64 {
        if let Some(measured) = path.measured_ns {
            self.measured(measured, path.now);
        }
        let least_s = self.least_ns.unwrap_or(0) as f64 / 1e9;
        let before_loss = self.before_loss;
        let size = window as f64;
        let mut begins = false;
        let epoch = self.epoch.get_or_insert_with(|| {
            begins = true;
            // K = cbrt((W_max - cwnd) / C), RFC 9438 4.2.
            let inflection_s = libm::cbrt((before_loss - size).max(0.0) / C);
            let origin = before_loss.max(size);
            let (start, friendly) = (path.now, size);
            Epoch { start, origin, inflection_s, friendly, towards: 0.0, computed: start, window, each: 0.0 }
        });
        epoch.towards += delivered;
        let steady = epoch.window == window && path.now.since(epoch.computed).as_nanos() <= u128::from(STEADY_NS);
        if begins || !steady {
            (epoch.computed, epoch.window) = (path.now, window);
            epoch.compute(size, before_loss, least_s);
        }
        // If `each` fell below the credit collected so far, that credit yields one segment only, as in Linux.
        let gently = self.credit >= epoch.each;
        self.credit = if gently { delivered } else { self.credit + delivered };
        let more = libm::floor(self.credit / epoch.each);
        self.credit -= more * epoch.each;
        more as u64 + u64::from(gently)
    }

    /// Reacts to a loss; returns the new window, in segments.
    pub fn after_loss(&mut self, window: u64) -> u64 {
        let size = window as f64;
        self.epoch = None;
        self.credit = 0.0;
        // Fast convergence: a flow whose window shrinks makes room for others sooner (RFC 9438 4.7).
        let shrinks = size < self.before_loss;
        self.before_loss = if shrinks { libm::floor(size * (1.0 + BETA) / 2.0) } else { size };
        libm::floor(size * BETA) as u64
    }

    /// Resets all state after a retransmission timeout, which invalidates what was known of the path.
    pub fn timeout(&mut self) {
        *self = Cubic::default();
    }

    /// Updates the shortest round trip. In the second after a recovery, measurements still include the queue and are
    /// ignored.
    fn measured(&mut self, ns: u64, now: Instant) {
        if self.epoch.is_none_or(|epoch| now.since(epoch.start).as_secs() >= 1) {
            self.least_ns = Some(self.least_ns.map_or(ns, |least| least.min(ns)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(now_ms: u64, round_trip_ms: u64, round: bool) -> Path {
        let ns = round_trip_ms * 1_000_000;
        Path { now: Instant(now_ms * 1_000_000), round_trip_ns: ns, measured_ns: Some(ns), round }
    }

    #[test]
    fn cubic_regains_window_at_inflection() {
        let mut cubic = Cubic::default();
        let mut window = cubic.after_loss(1000);
        assert_eq!(window, 700);
        let inflection_ms = (libm::cbrt(1000.0 * (1.0 - BETA) / C) * 1000.0) as u64;
        assert_eq!(inflection_ms, 9083);
        // Round trips of 600 ms with 100 acknowledgments in each.
        for step in 0..inflection_ms / 6 {
            let delivered = window as f64 / 100.0;
            window += cubic.increase(window, delivered, &path(step * 6, 600, step % 100 == 0));
        }
        assert!((985..1005).contains(&window), "{window}");
        let lower = cubic.after_loss(900);
        // 900 is less than the 1,000 before, so W_max becomes 900 (1 + beta) / 2.
        assert_eq!((cubic.before_loss, lower), (765.0, 630), "fast convergence");
    }

    #[test]
    fn hystart_ends_slow_start() {
        let mut train = Cubic::default();
        assert!(!train.slow_start_ends(32, &path(100, 100, true)));
        let ends = (101..200).find(|ms| train.slow_start_ends(32, &path(*ms, 100, false)));
        assert_eq!(ends, Some(151));

        let mut late = Cubic::default();
        late.slow_start_ends(32, &path(100, 100, true));
        let ends = (0..20).find(|n| late.slow_start_ends(32, &path(200 + n * 5, 115, *n == 0)));
        assert_eq!(ends, Some(8), "the least of eight is 15 ms longer than the least of all, 12.5 allowed");
        let mut small = Cubic::default();
        assert!(!(0..99).any(|n| small.slow_start_ends(15, &path(100 + n, 100 + n, n == 0))));
    }

    #[test]
    fn cubic_on_short_path_matches_reno() {
        let mut cubic = Cubic::default();
        let mut window = cubic.after_loss(20);
        assert_eq!(window, 14);
        let mut grown = |rounds: core::ops::Range<u64>, window: &mut u64| {
            for round in rounds {
                for _ in 0..*window / 2 {
                    *window += cubic.increase(*window, 2.0, &path(round * 2, 2, true));
                }
            }
        };
        grown(0..15, &mut window);
        assert_eq!(window, 15, "what was computed then holds for 31 ms");
        grown(15..40, &mut window);
        assert!((14 + 17..14 + 23).contains(&window), "half a segment for each of 40 round trips: {window}");
    }
}
