//! Loss detection (RFC 8985, as Linux implements it): a transmission is lost if later ones overtook it, by number or by
//! time.

use farlink_base::{Duration, Instant};

/// Number of later deliveries that prove a loss (RFC 9002 6.1.1 counts in the same way).
const REORDERING: u64 = 3;
/// Shortest extra time for which an overtaken transmission may still arrive (Linux: two ticks of 4 ms).
const LEAST_WAIT: Duration = Duration::from_millis(8);

/// Record of deliveries, from which losses follow.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// Number of the latest transmission that was delivered, and its round trip.
    latest: u64,
    trip: Duration,
    /// Shortest round trip measured.
    least: Option<Duration>,
    /// Whether reordering was observed on the path.
    reorders: bool,
}

impl Rack {
    /// Number of the latest transmission that was delivered.
    pub fn latest(&self) -> u64 {
        self.latest
    }
    /// Records the delivery of transmission `order`, which was sent at `at`; `again`: it was a retransmission.
    /// `latest`: value of [`Self::latest`] before this acknowledgment.
    pub fn arrived(&mut self, now: Instant, order: u64, at: Instant, again: bool, latest: u64) {
        // A retransmission proves no reordering, because it may be late for other reasons.
        self.reorders |= order < latest && !again;
        if order > self.latest {
            (self.latest, self.trip) = (order, now - at);
        }
        if !again {
            self.least = Some(self.least.map_or(now - at, |least| least.min(now - at)));
        }
    }
    /// Number of the last transmission that counts as lost because of later deliveries. During a recovery, on a path
    /// that keeps the order, one later delivery suffices.
    pub fn lost_to(&self, recovering: bool) -> u64 {
        let later = if recovering && !self.reorders { 1 } else { REORDERING };
        self.latest.saturating_sub(later)
    }
    /// Time at which an overtaken transmission that was sent at `at` counts as lost, however few later ones were
    /// delivered.
    pub fn lost_at(&self, at: Instant) -> Instant {
        // The reordering window is a quarter of the shortest round trip (RFC 8985 6.2).
        at + self.trip + self.least.map_or(Duration::ZERO, |least| least / 4).max(LEAST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn rack_reordering_threshold_by_state() {
        let mut rack = Rack::default();
        rack.arrived(Instant(100 * MS), 8, Instant(0), false, 0);
        assert_eq!((rack.lost_to(false), rack.lost_to(true)), (5, 7));
        assert_eq!(rack.lost_at(Instant(0)), Instant(125 * MS), "a quarter of the round trip later");
        rack.arrived(Instant(110 * MS), 6, Instant(0), false, 8);
        assert_eq!((rack.latest(), rack.lost_to(true)), (8, 5), "this path changes the order");
    }

    #[test]
    fn late_retransmission_is_not_reordering() {
        let mut rack = Rack::default();
        rack.arrived(Instant(20 * MS), 8, Instant(0), false, 0);
        rack.arrived(Instant(30 * MS), 6, Instant(0), true, 8);
        assert_eq!(rack.lost_to(true), 7);
        // 20 ms of round trip, and the minimum wait of 8 ms.
        assert_eq!(rack.lost_at(Instant(0)), Instant(28 * MS));
    }
}
