//! Round-trip time and retransmission timeout (RFC 6298, with Linux's constants).

use farlink_base::Duration;

/// Least distance of the timeout from the smoothed round trip (Linux `TCP_RTO_MIN`).
const MARGIN_MIN: Duration = Duration::from_millis(200);
/// Before the first measurement (RFC 6298 2.1).
const INITIAL: Duration = Duration::from_secs(1);
/// Linux `TCP_RTO_MAX`.
const MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
    backoff: u32,
}

impl RoundTrip {
    /// Takes a measurement of a segment that was sent once (Karn's algorithm).
    pub fn sample(&mut self, measured: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(measured);
                self.variation = measured / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(measured)) / 4;
                self.smoothed = Some((smoothed * 7 + measured) / 8);
            }
        }
    }
    /// Time to wait for an acknowledgment.
    pub fn timeout(&self) -> Duration {
        let base = match self.smoothed {
            Some(smoothed) => smoothed + (self.variation * 4).max(MARGIN_MIN),
            None => INITIAL,
        };
        base.min(MAX).saturating_mul(1 << self.backoff.min(10)).min(MAX.max(base))
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
        assert_eq!(rtt.timeout(), INITIAL);
        rtt.sample(Duration::from_millis(1200));
        assert_eq!(rtt.timeout(), Duration::from_millis(1200 + 2400));
        for _ in 0..100 {
            rtt.sample(Duration::from_millis(1200));
        }
        assert_eq!(rtt.timeout().as_millis(), 1400);
        rtt.back_off();
        assert_eq!(rtt.timeout().as_millis(), 2800);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout(), MAX);
        rtt.progress();
        assert_eq!(rtt.timeout().as_millis(), 1400);
    }
}
