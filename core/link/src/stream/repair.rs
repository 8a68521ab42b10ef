//! What may leave while losses are repaired: proportional rate reduction (RFC 6937, as Linux has it). The data
//! in flight shrinks to the new window in step with what arrives, never faster and without a pause; where more
//! was lost than that, no more leaves than arrives.

/// Losses found by what arrived, until everything sent before is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// Window before the losses.
    before: u64,
    /// Bytes that arrived since, and bytes that left.
    delivered: u64,
    out: u64,
    /// Bytes that may leave now.
    room: u64,
}

impl Repair {
    /// With a window of so many bytes losses were found.
    pub fn new(before: u64) -> Repair {
        Repair { before: before.max(1), delivered: 0, out: 0, room: 0 }
    }
    /// Bytes that may leave now.
    pub fn room(&self) -> u64 {
        self.room
    }
    /// An acknowledgment says that so many bytes arrived; so many are still in flight, and `window` are to be.
    /// `repaired`: it says that a repair arrived, and tells of no new loss.
    pub fn arrived(&mut self, bytes: u64, pipe: u64, window: u64, segment: u64, repaired: bool) {
        self.delivered += bytes;
        let owed = if pipe > window {
            let share = u128::from(self.delivered) * u128::from(window);
            let segments = share.div_ceil(u128::from(self.before) * u128::from(segment));
            (segments as u64 * segment).saturating_sub(self.out)
        } else {
            let more = if repaired { segment } else { 0 };
            (self.delivered.saturating_sub(self.out).max(bytes) + more).min(window - pipe)
        };
        // The first repair leaves at once.
        self.room = if self.out == 0 { owed.max(segment) } else { owed };
    }
    /// So many bytes leave.
    pub fn left(&mut self, bytes: u64) {
        self.out += bytes;
        self.room = self.room.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flight_shrinks_to_half_in_step_with_what_arrives() {
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
    fn where_most_was_lost_no_more_leaves_than_arrives() {
        let (mut repair, mut pipe) = (Repair::new(20), 20_u64);
        for _ in 0..8 {
            // One arrives and one is found lost.
            pipe = pipe.saturating_sub(2);
            repair.arrived(1, pipe, 10, 1, false);
            let leaves = repair.room();
            repair.left(leaves);
            assert!(repair.out <= repair.delivered);
            pipe += leaves;
        }
        assert_eq!((repair.out, pipe), (6, 10), "up to the new window");
        repair.arrived(1, 2, 10, 1, true);
        assert_eq!(repair.room(), 9 - 6 + 1, "one more when a repair arrived");
    }
}
