//! Transfers of bundles by radio.

use super::turns::End;
use farlink_base::layer::SendId;
use farlink_base::{BundleMeta, HopState, Instant, Refusal};
use std::sync::Arc;

/// Bit that distinguishes radio transfers from those over cables.
const RADIO: u64 = 1 << 63;

/// Stage of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The receiver is asked whether it would accept the bundle.
    Asking,
    /// The receiver refused the bundle in advance.
    Refused(Refusal),
    /// The bundle is being sent.
    Sending,
    /// The last bit left and is on its way.
    Flying,
    /// The receiver has the bundle and must give its verdict.
    There,
    /// The verdict is on its way back.
    Judged(Result<(), Refusal>),
}

/// Bundle in transfer.
#[derive(Debug)]
pub struct Transfer {
    /// End that sends the bundle.
    pub end: End,
    /// Number of the transmission at the sender.
    pub id: SendId,
    /// Shared, immutable bundle.
    pub bundle: Arc<BundleMeta>,
    /// State that changes on this hop; `None` while the receiver is asked, and once it has the bundle.
    pub hop: Option<Box<HopState>>,
    /// Length including headers.
    pub wire_bytes: u64,
    /// Time at which the transfer began.
    pub began: Instant,
    /// Current stage of the transfer.
    pub stage: Stage,
}

/// Transfers of a simulation by number; numbers are not reused.
#[derive(Default)]
pub struct Transfers {
    slots: Vec<(u64, Option<Transfer>)>,
    free: Vec<u32>,
    count: u64,
}

impl Transfers {
    /// Whether a number belongs to a radio transfer.
    pub fn is_one(number: u64) -> bool {
        number & RADIO != 0
    }
    /// Adds a transfer and returns its number.
    pub fn add(&mut self, transfer: Transfer) -> u64 {
        // Slots are reused; the count above them keeps numbers distinct.
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        // The count has 31 bits above the slot and wraps only after more transfers than any run has; old ones are long
        // over by then.
        self.count = (self.count + 1) & 0x7fff_ffff;
        let number = RADIO | self.count << 32 | u64::from(slot);
        match self.slots.get_mut(slot as usize) {
            Some(place) => *place = (number, Some(transfer)),
            None => self.slots.push((number, Some(transfer))),
        }
        number
    }
    /// Transfer by number, if still in progress.
    pub fn get(&mut self, number: u64) -> Option<&mut Transfer> {
        let (found, transfer) = self.slots.get_mut(number as u32 as usize)?;
        if *found == number { transfer.as_mut() } else { None }
    }
    /// Removes a transfer and returns it.
    pub fn end(&mut self, number: u64) -> Option<Transfer> {
        let (found, transfer) = self.slots.get_mut(number as u32 as usize)?;
        let ended = if *found == number { transfer.take() } else { None };
        self.free.extend(ended.as_ref().map(|_| number as u32));
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{Accel, CreationTimestamp, EndpointId, Payload, Priority};
    use farlink_bundle::{CrcType, v7};

    fn transfer(place: u32) -> Transfer {
        let draft = v7::BundleDraft {
            source: EndpointId::ipn(1, 1),
            destination: EndpointId::ipn(2, 1),
            priority: Priority::Normal,
            ..v7::BundleDraft::default()
        };
        let (made, none) = (CreationTimestamp::default(), CrcType::None);
        let bundle = v7::make(&draft, made, Payload::fill(1, 9), none, &Accel::default());
        Transfer {
            end: (place, 0),
            id: SendId(7),
            bundle: Arc::new(bundle),
            hop: None,
            wire_bytes: 1,
            began: Instant::ZERO,
            stage: Stage::Sending,
        }
    }

    #[test]
    fn stale_transfer_number_finds_nothing() {
        let mut all = Transfers::default();
        let (one, two) = (all.add(transfer(1)), all.add(transfer(2)));
        assert_ne!(one, two);
        assert_eq!(all.end(one).map(|ended| ended.end.0), Some(1));
        assert!(all.end(one).is_none() && all.get(one).is_none());
        let three = all.add(transfer(3));
        assert_eq!(three as u32, one as u32, "its slot is used again");
        assert!(three != one && all.get(one).is_none() && all.end(one).is_none());
        assert_eq!((all.get(two).unwrap().end.0, all.get(three).unwrap().end.0), (2, 3));
        assert!([one, two, three].into_iter().all(Transfers::is_one) && !Transfers::is_one(5 << 24 | 3));
    }
}
