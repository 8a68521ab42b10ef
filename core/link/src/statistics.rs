//! What a direction counted.

use farlink_base::Duration;

/// Why a packet did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// The link was down.
    Down,
    /// Its transmission would have ended after the link goes down.
    WindowEnd,
    /// The queue was full.
    QueueFull,
    /// Random loss.
    Loss,
    /// A bit error.
    BitError,
}
impl DropReason {
    /// All, in the order of [`Statistics::dropped`].
    pub const ALL: [DropReason; 5] =
        [DropReason::Down, DropReason::WindowEnd, DropReason::QueueFull, DropReason::Loss, DropReason::BitError];
    /// A name for tables: `down`, `window_end`, `queue_full`, `loss`, `bit_error`.
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

/// Counters of one direction since its start. Packets are wire packets; bytes hold IP headers and
/// the link's overhead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Packets offered by the driver.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that arrive, or will; a duplicated one counts once.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets lost, by reason in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Packets that arrive twice.
    pub duplicated: u64,
    /// Packets sent on a detour.
    pub reordered: u64,
    /// Packets that arrive with a flipped bit.
    pub corrupted: u64,
    /// Most bytes that waited for transmission.
    pub queue_peak: u64,
    /// Time spent transmitting.
    pub busy: Duration,
}
/// Two directions counted as one; of the most that waited, the larger.
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
    /// Packets lost for one reason.
    pub fn dropped_by(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }
    /// Packets lost for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }
}
