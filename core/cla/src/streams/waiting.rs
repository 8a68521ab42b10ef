//! Bundles waiting to leave over a stream, and the leaving bundle whose bytes are still being read.

use alloc::collections::VecDeque;
use farlink_base::layer::{SendId, WINDOW};
use farlink_base::{Instant, Leaving, Payload};

/// Memory that a queued bundle costs besides its bytes, bytes.
pub(crate) const OVERHEAD: u64 = 128;
/// Most bytes of the leaving bundle that are requested beyond those sent.
pub(crate) const AHEAD: u64 = 2 * WINDOW;

/// A bundle that has not begun to leave.
#[derive(Debug)]
pub(crate) struct WaitingBundle {
    pub send: SendId,
    pub total: u64,
    /// First bytes of the bundle, possibly all.
    pub part: Payload,
    pub leaving: Leaving,
}
impl WaitingBundle {
    /// Returns the bundle as it leaves at `now`, with its age updated, and the number of bytes that the update added.
    ///
    /// # Errors
    ///
    /// The transmission's number, if the bundle has expired or is longer than `longest` now.
    pub fn leaves(mut self, now: Instant, longest: u64) -> Result<(WaitingBundle, u64), SendId> {
        if self.leaving.is_over(now) {
            return Err(self.send);
        }
        let grown = self.leaving.stamp(now, &mut self.part);
        self.total += grown;
        if self.total > longest { Err(self.send) } else { Ok((self, grown)) }
    }
}

/// Bundles that have not begun to leave, first in, first out.
#[derive(Debug, Default)]
pub(crate) struct BundleQueue {
    bundles: VecDeque<WaitingBundle>,
    bytes: u64,
}
impl BundleQueue {
    pub fn push(&mut self, bundle: WaitingBundle) {
        self.bytes += bundle.total + OVERHEAD;
        self.bundles.push_back(bundle);
    }
    /// Takes the first bundle; `None` if the queue is empty.
    pub fn pop(&mut self) -> Option<WaitingBundle> {
        let bundle = self.bundles.pop_front()?;
        self.bytes -= bundle.total + OVERHEAD;
        Some(bundle)
    }
    /// Withdraws a bundle; returns whether the queue held it.
    pub fn cancel(&mut self, send: SendId) -> bool {
        let Some(at) = self.bundles.iter().position(|bundle| bundle.send == send) else { return false };
        if let Some(bundle) = self.bundles.remove(at) {
            self.bytes -= bundle.total + OVERHEAD;
        }
        true
    }
    /// Takes all bundles, in order.
    pub fn take(&mut self) -> VecDeque<WaitingBundle> {
        self.bytes = 0;
        core::mem::take(&mut self.bundles)
    }
    /// Bytes of all bundles, and [`OVERHEAD`] for each.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Whether the queue holds no bundle.
    pub fn is_empty(&self) -> bool {
        self.bundles.is_empty()
    }
}

/// Progress of the leaving bundle: bytes that the agent has given, and bytes requested from the agent.
#[derive(Debug)]
pub(crate) struct Filling {
    pub send: SendId,
    pub total: u64,
    pub given: u64,
    wanted: u64,
    /// Number of bytes that the age update added. Requests refer to the stored bundle, which does not have these bytes.
    grown: u64,
}
impl Filling {
    /// Starts with the first `given` bytes, `grown` of which were added by the age update.
    pub const fn new(send: SendId, total: u64, given: u64, grown: u64) -> Self {
        Filling { send, total, given, wanted: given, grown }
    }
    /// Whether a part of transmission `send` that begins at byte `from` of the stored bundle is the next one missing.
    pub fn lacks(&self, send: SendId, from: u64) -> bool {
        self.send == send && self.given == from.saturating_add(self.grown)
    }
    /// Next range to request once `left` bytes have left: transmission, first byte, length. `None` if enough is
    /// requested.
    pub fn want(&mut self, left: u64) -> Option<(SendId, u64, u64)> {
        if self.wanted >= self.total.min(left.saturating_add(AHEAD)) {
            return None;
        }
        let (from, len) = (self.wanted, WINDOW.min(self.total - self.wanted));
        self.wanted += len;
        Some((self.send, from - self.grown, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_counts_bytes() {
        let mut queue = BundleQueue::default();
        for id in 1..=3 {
            queue.push(WaitingBundle {
                send: SendId(id),
                total: id,
                part: Payload::fill(0, 1),
                leaving: Leaving::AS_IT_IS,
            });
        }
        assert_eq!(queue.bytes(), 6 + 3 * OVERHEAD);
        assert!(queue.cancel(SendId(2)) && !queue.cancel(SendId(2)));
        assert_eq!(queue.pop().map(|bundle| bundle.send), Some(SendId(1)));
        assert_eq!(queue.bytes(), 3 + OVERHEAD);
        assert_eq!((queue.take().len(), queue.bytes(), queue.is_empty()), (1, 0, true));
    }

    #[test]
    fn bundle_data_is_requested_just_ahead() {
        let total = 3 * WINDOW + 5;
        let mut filling = Filling::new(SendId(1), total, 10, 0);
        assert_eq!(filling.want(0), Some((SendId(1), 10, WINDOW)));
        assert_eq!(filling.want(0), Some((SendId(1), 10 + WINDOW, WINDOW)));
        assert_eq!(filling.want(0), None);
        assert_eq!(filling.want(WINDOW), Some((SendId(1), 10 + 2 * WINDOW, total - 10 - 2 * WINDOW)));
        assert_eq!(filling.want(u64::MAX), None);
        assert!(filling.lacks(SendId(1), 10) && !filling.lacks(SendId(2), 10) && !filling.lacks(SendId(1), 11));
    }
}
