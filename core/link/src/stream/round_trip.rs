//! Round-trip time and retransmission timeout (RFC 6298, with Linux's constants).

use farlink_base::Duration;

/// A longer round trip (73 years) is not told apart, so that no sum overflows.
const LONGEST_NS: u64 = u64::MAX / 8;
/// Least distance of the timeout from the smoothed round trip (Linux `TCP_RTO_MIN`).
const MARGIN_MIN_NS: u64 = 200_000_000;
/// Before the first measurement (RFC 6298 2.1).
const INITIAL_NS: u64 = 1_000_000_000;
/// Linux `TCP_RTO_MAX`.
const MAX_NS: u64 = 120_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    backoff: u32,
}

impl RoundTrip {
    /// Takes a measurement of a segment that was sent once (Karn's algorithm).
    pub fn sample(&mut self, measured: Duration) {
        let measured = u64::try_from(measured.as_nanos()).unwrap_or(LONGEST_NS).min(LONGEST_NS);
        match self.smoothed_ns {
            None => {
                self.smoothed_ns = Some(measured);
                self.variation_ns = measured / 2;
            }
            Some(smoothed) => {
                self.variation_ns = (self.variation_ns * 3 + smoothed.abs_diff(measured)) / 4;
                self.smoothed_ns = Some((smoothed * 7 + measured) / 8);
            }
        }
    }
    /// Time to wait for an acknowledgment.
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout_ns())
    }
    /// The same in nanoseconds.
    pub fn timeout_ns(&self) -> u64 {
        let base = match self.smoothed_ns {
            Some(smoothed) => smoothed + (self.variation_ns * 4).max(MARGIN_MIN_NS),
            None => INITIAL_NS,
        };
        (base.min(MAX_NS) << self.backoff.min(10)).min(MAX_NS.max(base))
    }
    /// A timeout passed in vain: the next is twice as long.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }
    /// Something was acknowledged.
    pub fn progress(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_path_and_doubles_up_to_two_minutes() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout_ns(), INITIAL_NS);
        rtt.sample(Duration::from_millis(1200));
        assert_eq!(rtt.timeout(), Duration::from_millis(1200 + 2400));
        for _ in 0..100 {
            rtt.sample(Duration::from_millis(1200));
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
