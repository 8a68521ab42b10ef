//! Congestion control as Linux implements it: NewReno (RFC 5681, 6582), CUBIC, Hybla, or a fixed window. The window
//! grows only while it limits the sender.

use super::cubic::Cubic;
use farlink_base::Instant;

/// Algorithm that limits the data in flight, in addition to the receiver's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// NewReno: slow start, additive increase, halving on loss.
    #[default]
    NewReno,
    /// CUBIC: growth that depends on the time since the last loss (RFC 9438); the default of Linux.
    Cubic,
    /// Hybla: NewReno, but growing as on a path with a round trip of 25 ms (Caini and Firrincieli, 2004).
    Hybla,
    /// Ideal controller, which knows the path: the window always has this size, whatever is lost. Set it to the path's
    /// bandwidth-delay product.
    Ideal {
        /// Window, bytes.
        window: u64,
    },
}

/// State of the path when an acknowledgment arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub now: Instant,
    /// Smoothed round trip, ns; 0 before the first measurement.
    pub round_trip_ns: u64,
    /// Round trip that this acknowledgment measures, ns; `None` if it measures none.
    pub measured_ns: Option<u64>,
    /// Whether the acknowledgment is the first one of a round trip.
    pub round: bool,
}

/// Reference round trip of Hybla, ns.
const HYBLA_NS: f64 = 25e6;
/// Upper limit of Hybla's exponent in slow start, as in Linux.
const HYBLA_MOST: f64 = 16.0;

/// Congestion window of one sender, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CongestionWindow {
    kind: Congestion,
    segment: u64,
    size: u64,
    threshold: u64,
    /// Bytes delivered since the last additive increase by a segment (NewReno).
    credit: u64,
    /// Growth of less than a byte, which is added to the window with the next growth (Hybla).
    part: f64,
    /// Smallest smoothed round trip so far, ns; 0 before the first measurement (Hybla).
    least_ns: u64,
    cubic: Cubic,
}

impl CongestionWindow {
    /// Initial window, segments (RFC 6928).
    const INITIAL: u64 = 10;

    /// Window at the start of a connection; `round_trip_ns`: the first round trip, 0 if unknown (used by Hybla).
    pub fn new(kind: Congestion, segment: u64, round_trip_ns: u64) -> CongestionWindow {
        let size = match kind {
            Congestion::NewReno | Congestion::Cubic => Self::INITIAL * segment,
            Congestion::Hybla => rho(round_trip_ns) as u64 * segment,
            Congestion::Ideal { window } => window.max(segment),
        };
        CongestionWindow {
            kind,
            segment,
            size,
            threshold: u64::MAX,
            credit: 0,
            part: 0.0,
            least_ns: round_trip_ns,
            cubic: Cubic::default(),
        }
    }
    pub fn size(&self) -> u64 {
        self.size
    }
    pub fn is_ideal(&self) -> bool {
        matches!(self.kind, Congestion::Ideal { .. })
    }
    fn in_segments(&self) -> f64 {
        self.size as f64 / self.segment as f64
    }

    /// Handles the delivery of `bytes`; `limited`: the window limited the sender.
    pub fn delivered(&mut self, bytes: u64, limited: bool, path: &Path) {
        let slow_start = self.size < self.threshold;
        if self.least_ns == 0 || (1..self.least_ns).contains(&path.round_trip_ns) {
            self.least_ns = path.round_trip_ns;
        }
        match self.kind {
            Congestion::Ideal { .. } => {}
            Congestion::Cubic if slow_start => {
                if self.cubic.slow_start_ends(self.size / self.segment, path) {
                    self.threshold = self.size;
                } else if limited {
                    self.size = (self.size + bytes).min(self.threshold);
                }
            }
            _ if !limited => {}
            Congestion::NewReno if slow_start => self.size = (self.size + bytes).min(self.threshold),
            Congestion::NewReno => {
                self.credit += bytes;
                // The window grows by one segment per window of acknowledged bytes (RFC 5681 3.1).
                while self.credit >= self.size {
                    self.credit -= self.size;
                    self.size += self.segment;
                }
            }
            Congestion::Cubic => {
                let delivered = bytes as f64 / self.segment as f64;
                let more = self.cubic.increase(self.size / self.segment, delivered, path);
                self.size = self.size.saturating_add(more * self.segment);
            }
            Congestion::Hybla => {
                // Hybla grows once for each acknowledgment, however many bytes it covers, and by the smallest round
                // trip, as in Linux: by the present one it would grow with the queue that it fills.
                let rho = rho(self.least_ns);
                if bytes > 0 && slow_start {
                    self.grow(libm::exp2(rho.min(HYBLA_MOST)) - 1.0);
                    self.size = self.size.min(self.threshold);
                } else if bytes > 0 {
                    self.grow(rho * rho / self.in_segments());
                }
            }
        }
    }

    fn grow(&mut self, segments: f64) {
        let bytes = segments * self.segment as f64 + self.part;
        self.size = self.size.saturating_add(bytes as u64);
        self.part = bytes - (bytes as u64) as f64;
    }

    /// Slow start threshold after a loss, bytes.
    fn lowered(&mut self) -> u64 {
        let left = match self.kind {
            Congestion::Cubic => self.cubic.after_loss(self.size / self.segment) * self.segment,
            _ => self.size / 2,
        };
        left.max(2 * self.segment)
    }
    /// Reacts to a loss; the caller calls it at most once per round trip.
    pub fn loss(&mut self) {
        if !self.is_ideal() {
            self.threshold = self.lowered();
            self.size = self.threshold;
            (self.credit, self.part) = (0, 0.0);
        }
    }
    /// Reacts to the expiry of the retransmission timer; `again`: it expired before for the same data.
    pub fn timeout(&mut self, again: bool) {
        if !self.is_ideal() {
            if !again {
                self.threshold = self.lowered();
            }
            self.size = self.segment;
            (self.credit, self.part) = (0, 0.0);
            self.cubic.timeout();
        }
    }
    /// Shrinks the window after an idle time of this many retransmission timeouts (RFC 2861, as in Linux).
    pub fn idle(&mut self, timeouts: u64) {
        if !self.is_ideal() && timeouts > 0 {
            // The threshold keeps three quarters of the old window (Linux `tcp_current_ssthresh`).
            self.threshold = self.threshold.max(self.size / 4 * 3);
            let floor = self.size.min(Self::INITIAL * self.segment);
            // Halved for each timeout of idle time, but not below the initial window.
            self.size = (self.size >> timeouts.min(63)).max(floor);
        }
    }
}

/// Ratio of a round trip to Hybla's reference round trip, at least 1.
fn rho(round_trip_ns: u64) -> f64 {
    (round_trip_ns as f64 / HYBLA_NS).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: Path = Path { now: Instant(0), round_trip_ns: 100_000_000, measured_ns: None, round: false };

    #[test]
    fn new_reno_window_growth_and_halving() {
        let mut w = CongestionWindow::new(Congestion::NewReno, 1000, 0);
        assert_eq!(w.size(), 10_000);
        w.delivered(10_000, true, &PATH);
        assert_eq!(w.size(), 20_000, "slow start doubles in a round trip");
        w.loss();
        assert_eq!(w.size(), 10_000);
        w.delivered(10_000, true, &PATH);
        assert_eq!(w.size(), 11_000, "then one segment a round trip");
        w.timeout(false);
        // The threshold is half of 11,000, and the window one segment.
        assert_eq!((w.size(), w.threshold), (1000, 5500));
        w.timeout(true);
        assert_eq!(w.threshold, 5500);
    }

    #[test]
    fn idle_window_shrinks_to_initial() {
        let mut w = CongestionWindow::new(Congestion::NewReno, 1000, 0);
        w.delivered(70_000, true, &PATH);
        w.idle(1);
        assert_eq!(w.size(), 40_000);
        w.idle(9);
        assert_eq!(w.size(), 10_000);
        let mut w = CongestionWindow::new(Congestion::Ideal { window: 5000 }, 1000, 0);
        w.loss();
        w.timeout(false);
        w.idle(3);
        w.delivered(1000, true, &PATH);
        assert_eq!(w.size(), 5000);
    }

    #[test]
    fn hybla_grows_by_smallest_round_trip() {
        let grown = |round_trips: &[u64]| {
            let mut w = CongestionWindow::new(Congestion::Hybla, 1000, 0);
            w.threshold = 0;
            for round_trip_ns in round_trips {
                w.delivered(950, true, &Path { round_trip_ns: *round_trip_ns, ..PATH });
            }
            w.size()
        };
        let level = grown(&[50_000_000; 9]);
        assert_eq!(
            grown(&[50_000_000, 100_000_000, 400_000_000, 90_000_000, 0, 60_000_000, 1 << 40, 70_000_000, 50_000_000]),
            level
        );
        assert!(grown(&[100_000_000; 9]) > level, "longer from the start");
        assert!(grown(&[100_000_000, 50_000_000, 50_000_000]) > grown(&[50_000_000; 3]));
    }

    #[test]
    fn hybla_grows_like_25_ms_path() {
        let mut w = CongestionWindow::new(Congestion::Hybla, 1000, 100_000_000);
        assert_eq!(w.size(), 4000, "begins with as many segments as round trips of 25 ms");
        w.delivered(2000, true, &PATH);
        assert_eq!(w.size(), 4000 + 15_000, "2^4 - 1 segments for each acknowledgment");
        w.loss();
        assert_eq!(w.size(), 9500);
        (0..10).for_each(|_| w.delivered(950, true, &PATH));
        assert!(
            (w.size() as i64 - 9500 - 13_000).abs() < 2500,
            "16 times NewReno's segment a round trip: {}",
            w.size()
        );
        w.delivered(950, false, &PATH);
        assert!(w.size() < 26_000, "not while something else limits the sender");
    }
}
