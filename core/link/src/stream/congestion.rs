//! How much may be in flight: NewReno (RFC 5681, 6582), or a fixed window.

/// What limits the data in flight, beside the receiver's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// Slow start, additive increase, halving on loss.
    #[default]
    NewReno,
    /// A controller that knows the path: always this many bytes, whatever is lost. Give it the
    /// path's bandwidth-delay product.
    Ideal {
        /// Bytes in flight.
        window: u64,
    },
}

/// The congestion window of one sender, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    kind: Congestion,
    segment: u64,
    size: u64,
    threshold: u64,
    /// Bytes delivered towards the next segment of additive increase.
    credit: u64,
}

impl Window {
    /// Segments at start (RFC 6928).
    const INITIAL: u64 = 10;

    pub fn new(kind: Congestion, segment: u64) -> Window {
        let size = match kind {
            Congestion::NewReno => Self::INITIAL * segment,
            Congestion::Ideal { window } => window.max(segment),
        };
        Window { kind, segment, size, threshold: u64::MAX, credit: 0 }
    }
    pub fn size(&self) -> u64 {
        self.size
    }
    /// `bytes` arrived while the window was what limited the sender.
    pub fn delivered(&mut self, bytes: u64) {
        if self.kind != Congestion::NewReno {
            return;
        }
        if self.size < self.threshold {
            self.size += bytes;
            return;
        }
        self.credit += bytes;
        while self.credit >= self.size {
            self.credit -= self.size;
            self.size += self.segment;
        }
    }
    /// Loss was found; called once per round trip at most.
    pub fn loss(&mut self) {
        if self.kind == Congestion::NewReno {
            self.threshold = (self.size / 2).max(2 * self.segment);
            self.size = self.threshold;
            self.credit = 0;
        }
    }
    /// The retransmission timer fired; `again` when it had fired for the same data before.
    pub fn timeout(&mut self, again: bool) {
        if self.kind == Congestion::NewReno {
            if !again {
                self.threshold = (self.size / 2).max(2 * self.segment);
            }
            self.size = self.segment;
            self.credit = 0;
        }
    }
    /// The sender was idle for this many retransmission timeouts (RFC 2861, as Linux does).
    pub fn idle(&mut self, timeouts: u64) {
        if self.kind == Congestion::NewReno && timeouts > 0 {
            self.threshold = self.threshold.max(self.size / 4 * 3);
            let floor = self.size.min(Self::INITIAL * self.segment);
            self.size = (self.size >> timeouts.min(63)).max(floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_reno_doubles_then_adds_and_halves() {
        let mut w = Window::new(Congestion::NewReno, 1000);
        assert_eq!(w.size(), 10_000);
        w.delivered(10_000);
        assert_eq!(w.size(), 20_000, "slow start doubles in a round trip");
        w.loss();
        assert_eq!(w.size(), 10_000);
        w.delivered(10_000);
        assert_eq!(w.size(), 11_000, "then one segment a round trip");
        w.timeout(false);
        assert_eq!((w.size(), w.threshold), (1000, 5500));
        w.timeout(true);
        assert_eq!(w.threshold, 5500);
    }

    #[test]
    fn idle_shrinks_to_the_initial_window_and_the_ideal_never_changes() {
        let mut w = Window::new(Congestion::NewReno, 1000);
        w.delivered(70_000);
        w.idle(1);
        assert_eq!(w.size(), 40_000);
        w.idle(9);
        assert_eq!(w.size(), 10_000);
        let mut w = Window::new(Congestion::Ideal { window: 5000 }, 1000);
        w.loss();
        w.timeout(false);
        w.idle(3);
        w.delivered(1000);
        assert_eq!(w.size(), 5000);
    }
}
