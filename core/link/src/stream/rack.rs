//! Which transmissions are lost: those that later ones overtook, by number or by time (RFC 8985, as Linux
//! has it).

use farlink_base::{Duration, Instant};

/// Later deliveries that prove a loss (RFC 9002 6.1.1 counts the same way).
const REORDERING: u64 = 3;
/// Least time beyond that in which an overtaken one may still arrive (Linux: two ticks of 4 ms).
const LEAST_WAIT: Duration = Duration::from_millis(8);

/// What arrived tells of what did not.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// Latest transmission known to have arrived, and its round trip.
    latest: u64,
    trip: Duration,
    /// Shortest round trip.
    least: Option<Duration>,
    /// Whether the path was seen to change the order.
    reorders: bool,
}

impl Rack {
    /// Latest transmission known to have arrived.
    pub fn latest(&self) -> u64 {
        self.latest
    }
    /// Transmission `order` arrived, that left at `at`; `again`: something of the same bytes left before.
    /// `latest` is what was known before this acknowledgment.
    pub fn arrived(&mut self, now: Instant, order: u64, at: Instant, again: bool, latest: u64) {
        self.reorders |= order < latest && !again;
        if order > self.latest {
            (self.latest, self.trip) = (order, now - at);
        }
        if !again {
            self.least = Some(self.least.map_or(now - at, |least| least.min(now - at)));
        }
    }
    /// Transmissions up to this one are lost for what arrived after them. Once losses are being repaired one
    /// later delivery is proof enough, on a path that keeps the order.
    pub fn lost_to(&self, recovering: bool) -> u64 {
        let later = if recovering && !self.reorders { 1 } else { REORDERING };
        self.latest.saturating_sub(later)
    }
    /// When a transmission that was overtaken, and left at `at`, is lost whatever arrives.
    pub fn lost_at(&self, at: Instant) -> Instant {
        at + self.trip + self.least.map_or(Duration::ZERO, |least| least / 4).max(LEAST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn three_later_ones_prove_a_loss_and_one_while_losses_are_repaired() {
        let mut rack = Rack::default();
        rack.arrived(Instant(100 * MS), 8, Instant(0), false, 0);
        assert_eq!((rack.lost_to(false), rack.lost_to(true)), (5, 7));
        assert_eq!(rack.lost_at(Instant(0)), Instant(125 * MS), "a quarter of the round trip later");
        rack.arrived(Instant(110 * MS), 6, Instant(0), false, 8);
        assert_eq!((rack.latest(), rack.lost_to(true)), (8, 5), "this path changes the order");
    }

    #[test]
    fn what_was_sent_again_and_arrives_late_is_no_proof_of_another_order() {
        let mut rack = Rack::default();
        rack.arrived(Instant(20 * MS), 8, Instant(0), false, 0);
        rack.arrived(Instant(30 * MS), 6, Instant(0), true, 8);
        assert_eq!(rack.lost_to(true), 7);
        assert_eq!(rack.lost_at(Instant(0)), Instant(28 * MS));
    }
}
