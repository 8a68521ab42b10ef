//! Round-trip time and retransmission timeout (RFC 6298, with the constants of Linux).

use farlink_base::Duration;

/// Upper limit of measured round trips, ns (73 years), so that no sum overflows.
const LONGEST_NS: u64 = u64::MAX / 8;
/// Shortest distance of the timeout from the smoothed round trip, ns (Linux `TCP_RTO_MIN`).
const MARGIN_MIN_NS: u64 = 200_000_000;
/// Timeout before the first measurement, ns (RFC 6298 2.1).
const INITIAL_NS: u64 = 1_000_000_000;
/// Longest timeout, ns (Linux `TCP_RTO_MAX`), unless the round trip itself is longer.
const MAX_NS: u64 = 120_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed_ns: Option<u64>,
    /// Four times the mean deviation, ns (Linux `mdev`).
    deviation_ns: u64,
    /// Largest deviation in the current round trip, ns (Linux `mdev_max`).
    most_ns: u64,
    /// Variation added to the timeout, ns (Linux `rttvar`). It grows at once and shrinks once per round trip, because
    /// the measurements of one round trip are alike and do not show a growing queue.
    variation_ns: u64,
    backoff: u32,
}

impl RoundTrip {
    /// Adds a measurement on a segment that was sent once (Karn's algorithm); `round`: the first one of a round trip.
    pub fn sample(&mut self, measured: Duration, round: bool) {
        let measured = u64::try_from(measured.as_nanos()).unwrap_or(LONGEST_NS).min(LONGEST_NS);
        match self.smoothed_ns {
            None => {
                self.smoothed_ns = Some(measured);
                self.deviation_ns = measured * 2;
                self.variation_ns = self.deviation_ns.max(MARGIN_MIN_NS);
                self.most_ns = self.variation_ns;
            }
            Some(smoothed) => {
                let (apart, quarter) = (smoothed.abs_diff(measured), self.deviation_ns / 4);
                self.deviation_ns = match apart.checked_sub(quarter) {
                    // A falling round trip must not lengthen the timeout much (Linux `tcp_rtt_estimator`).
                    Some(more) if measured < smoothed => self.deviation_ns + more / 8,
                    _ => self.deviation_ns - quarter + apart,
                };
                self.smoothed_ns = Some((smoothed * 7 + measured) / 8);
                self.most_ns = self.most_ns.max(self.deviation_ns);
                self.variation_ns = self.variation_ns.max(self.most_ns);
                if round {
                    self.variation_ns -= (self.variation_ns - self.most_ns) / 4;
                    self.most_ns = MARGIN_MIN_NS;
                }
            }
        }
    }
    /// Smoothed round trip, ns; 0 before the first measurement.
    pub fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns.unwrap_or(0)
    }
    /// Retransmission timeout, including backoff.
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout_ns())
    }
    /// Retransmission timeout, including backoff, ns.
    pub fn timeout_ns(&self) -> u64 {
        let base = match self.smoothed_ns {
            Some(smoothed) => smoothed + self.variation_ns.max(MARGIN_MIN_NS),
            None => INITIAL_NS,
        };
        // On a path longer than the longest timeout, the timeout still covers the round trip.
        (base.min(MAX_NS) << self.backoff.min(10)).min(MAX_NS.max(base))
    }
    /// Doubles the timeout, because it expired.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }
    /// Resets the backoff, because an acknowledgment arrived.
    pub fn progress(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_follows_path_and_backs_off() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout_ns(), INITIAL_NS);
        rtt.sample(Duration::from_millis(1200), true);
        assert_eq!(rtt.timeout(), Duration::from_millis(1200 + 2400));
        for _ in 0..100 {
            rtt.sample(Duration::from_millis(1200), false);
        }
        assert_eq!(rtt.timeout(), Duration::from_millis(1200 + 2400), "all of one round trip");
        for _ in 0..100 {
            rtt.sample(Duration::from_millis(1200), true);
        }
        assert_eq!(rtt.timeout().as_millis(), 1400);
        rtt.back_off();
        assert_eq!(rtt.timeout().as_millis(), 2800);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout_ns(), MAX_NS);
        rtt.progress();
        assert_eq!(rtt.timeout().as_millis(), 1400);
    }
}
