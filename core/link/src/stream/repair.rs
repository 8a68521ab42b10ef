//! Proportional rate reduction during a recovery (RFC 6937, as Linux implements it). The data in flight shrinks to the
//! new window in step with deliveries, neither faster nor with a pause. If losses reduced it to less than the window,
//! no more is sent than is delivered.

/// State of a recovery, which lasts from the detection of losses until all data sent before is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// Congestion window before the losses.
    before: u64,
    /// Numbers of bytes delivered and of bytes sent since the recovery began.
    delivered: u64,
    out: u64,
    /// Number of bytes that may be sent now.
    room: u64,
}

impl Repair {
    /// Starts a recovery; `before`: the congestion window before the losses.
    pub fn new(before: u64) -> Repair {
        Repair { before: before.max(1), delivered: 0, out: 0, room: 0 }
    }
    /// Number of bytes that may be sent now.
    pub fn room(&self) -> u64 {
        self.room
    }
    /// Handles an acknowledgment of `bytes`, with `pipe` bytes still in flight and a target of `window`. `repaired`:
    /// the acknowledgment covers a retransmission and reveals no new loss.
    pub fn arrived(&mut self, bytes: u64, pipe: u64, window: u64, segment: u64, repaired: bool) {
        self.delivered += bytes;
        let owed = if pipe > window {
            // The ratio of sent to delivered bytes is that of `window` to `before`, rounded up to whole segments (RFC
            // 6937 3).
            let share = u128::from(self.delivered) * u128::from(window);
            let segments = share.div_ceil(u128::from(self.before) * u128::from(segment));
            (segments as u64 * segment).saturating_sub(self.out)
        } else {
            // Slow start variant of RFC 6937: one segment more while no loss is found.
            let more = if repaired { segment } else { 0 };
            (self.delivered.saturating_sub(self.out).max(bytes) + more).min(window - pipe)
        };
        // The first retransmission is sent at once.
        self.room = if self.out == 0 { owed.max(segment) } else { owed };
    }
    /// Records that `bytes` were sent.
    pub fn left(&mut self, bytes: u64) {
        self.out += bytes;
        self.room = self.room.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_reduction_halves_flight_gradually() {
        let (mut repair, mut pipe, mut left) = (Repair::new(20), 19, 0);
        for arrived in 1..=16 {
            pipe -= 1;
            repair.arrived(1, pipe, 10, 1, false);
            let leaves = repair.room();
            repair.left(leaves);
            (pipe, left) = (pipe + leaves, left + leaves);
            assert_eq!(left, u64::div_ceil(arrived, 2), "one for each two");
        }
        assert_eq!(pipe, 11);
    }

    #[test]
    fn heavy_loss_limits_repairs_to_arrivals() {
        let (mut repair, mut pipe) = (Repair::new(20), 20_u64);
        for _ in 0..8 {
            // In each step one segment arrives and one is found to be lost.
            pipe = pipe.saturating_sub(2);
            repair.arrived(1, pipe, 10, 1, false);
            let leaves = repair.room();
            repair.left(leaves);
            // Packet conservation: no more is sent than arrives.
            assert!(repair.out <= repair.delivered);
            pipe += leaves;
        }
        assert_eq!((repair.out, pipe), (6, 10), "up to the new window");
        repair.arrived(1, 2, 10, 1, true);
        assert_eq!(repair.room(), 9 - 6 + 1, "one more when a repair arrived");
    }
}
