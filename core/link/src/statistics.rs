//! Counters of a direction.

use farlink_base::Duration;

/// Reason for dropping a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// The link was down: outside its contact windows, or in a random outage.
    Down,
    /// The packet's transmission would have ended after the link went down, or never.
    WindowEnd,
    /// The queue limit was exceeded.
    QueueFull,
    /// Random loss of the packet.
    Loss,
    /// A bit error in the packet.
    BitError,
}
impl DropReason {
    /// All reasons, in the order of [`Statistics::dropped`].
    pub const ALL: [DropReason; 5] =
        [DropReason::Down, DropReason::WindowEnd, DropReason::QueueFull, DropReason::Loss, DropReason::BitError];
    /// Name in tables: `down`, `window_end`, `queue_full`, `loss`, `bit_error`.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Down => "down",
            DropReason::WindowEnd => "window_end",
            DropReason::QueueFull => "queue_full",
            DropReason::Loss => "loss",
            DropReason::BitError => "bit_error",
        }
    }
}

/// Counters of one direction since its start. Packets are wire packets; bytes include IP headers and the link's
/// overhead.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Packets offered by the driver.
    pub sent: u64,
    pub sent_bytes: u64,
    /// Packets that arrived or will arrive; one that arrives twice counts once.
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Packets dropped, by reason in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    pub dropped_bytes: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that took a detour, lost ones included.
    pub reordered: u64,
    /// Packets that arrive with a flipped bit.
    pub corrupted: u64,
    /// Largest number of bytes that waited for transmission.
    pub queue_peak: u64,
    /// Time spent transmitting.
    pub busy: Duration,
}
/// Adds the counters of another direction; of the two queue peaks the larger one is kept.
impl core::ops::AddAssign for Statistics {
    fn add_assign(&mut self, other: Statistics) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.dropped.iter_mut().zip(other.dropped).for_each(|(mine, more)| *mine += more);
        self.dropped_bytes += other.dropped_bytes;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.queue_peak = self.queue_peak.max(other.queue_peak);
        self.busy += other.busy;
    }
}
impl Statistics {
    /// Number of packets dropped for one reason.
    pub fn dropped_by(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }
    /// Number of packets dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}
