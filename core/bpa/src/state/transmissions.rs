//! Transmissions in progress: the bundle, link, range and labels of each.
//!
//! Owns the retention constraint `Send`. The upper 32 bits of a transmission's number are the slot of its bundle, so
//! that all transmissions of one bundle are adjacent in the table.

use alloc::collections::BTreeMap;
use core::ops::Range;
use farlink_base::layer::SendId;
use farlink_base::{LinkId, PeerId};
use farlink_book::{Book, Handle, RetentionConstraint};

/// One transmission in progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sending {
    /// The bundle, which may have departed meanwhile.
    pub bundle: Handle,
    /// Link over which the bundle leaves.
    pub link: LinkId,
    /// Neighbour that receives the bundle.
    pub peer: PeerId,
    /// Range of the payload; `None`: all of it.
    pub range: Option<Range<u64>>,
    /// Bytes that leave besides the payload or its range.
    pub around: u64,
    /// Labels that count as given away with the bundle.
    pub gave: [u32; 2],
    /// Whether a copy is sent and the bundle itself stays held.
    pub keep: bool,
}

/// All transmissions in progress.
#[derive(Debug, Default)]
pub(crate) struct Transmissions {
    under_way: BTreeMap<u64, Sending>,
    last: u32,
}

fn of_slot(slot: u32) -> core::ops::RangeInclusive<u64> {
    let first = u64::from(slot) << 32;
    first..=first | u64::from(u32::MAX)
}

impl Transmissions {
    /// Starts a transmission and assigns its number.
    pub fn begin(&mut self, book: &mut Book, sending: Sending) -> SendId {
        let bundle = sending.bundle;
        let id = loop {
            // Numbers wrap after 2^32 transmissions, so an old one may still be in use.
            self.last = self.last.wrapping_add(1);
            let id = u64::from(bundle.slot) << 32 | u64::from(self.last);
            if !self.under_way.contains_key(&id) {
                break id;
            }
        };
        self.under_way.insert(id, sending);
        if let Some(held) = book.get_mut(bundle) {
            held.sends = held.sends.saturating_add(1);
        }
        book.hold(bundle, RetentionConstraint::Send);
        SendId(id)
    }
    /// Ends a transmission. The flag is true if it was the bundle's last and no other constraint holds the bundle.
    pub fn end(&mut self, book: &mut Book, id: SendId) -> Option<(Sending, bool)> {
        let sending = self.under_way.remove(&id.0)?;
        // A saturated counter is no longer exact: the table itself decides.
        let none = self.of(sending.bundle).next().is_none();
        let Some(held) = book.get_mut(sending.bundle) else { return Some((sending, false)) };
        if none {
            held.sends = 0;
        } else if held.sends < u8::MAX {
            held.sends -= 1;
        }
        let last = none && book.release(sending.bundle, RetentionConstraint::Send);
        Some((sending, last))
    }
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.under_way.len()
    }
    pub fn get(&self, id: SendId) -> Option<&Sending> {
        self.under_way.get(&id.0)
    }
    /// Replaces the range that is sent again if the transmission fails.
    pub fn narrow(&mut self, id: SendId, range: Range<u64>) {
        if let Some(sending) = self.under_way.get_mut(&id.0) {
            sending.range = Some(range);
        }
    }
    /// Transmissions of one bundle.
    pub fn of(&self, bundle: Handle) -> impl Iterator<Item = (SendId, &Sending)> {
        let own = self.under_way.range(of_slot(bundle.slot));
        own.filter(move |(_, sending)| sending.bundle == bundle).map(|(id, sending)| (SendId(*id), sending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;
    use farlink_base::Priority;

    #[test]
    fn last_send_releases_unheld_bundle() {
        let (mut book, handles) = book_with(&[Priority::Normal; 2]);
        let mut sends = Transmissions::default();
        let sending = |bundle, keep| Sending {
            bundle,
            link: LinkId(0),
            peer: PeerId(1),
            range: None,
            around: 0,
            gave: [0; 2],
            keep,
        };
        let first = sends.begin(&mut book, sending(handles[0], true));
        let second = sends.begin(&mut book, sending(handles[0], false));
        let other = sends.begin(&mut book, sending(handles[1], false));
        assert!(!book.release(handles[0], RetentionConstraint::Route), "it is being sent");
        assert_eq!(sends.of(handles[0]).map(|(id, _)| id).collect::<alloc::vec::Vec<_>>(), [first, second]);
        assert_eq!(sends.end(&mut book, first).map(|(s, last)| (s.keep, last)), Some((true, false)));
        assert_eq!(sends.end(&mut book, second).map(|(s, last)| (s.keep, last)), Some((false, true)));
        assert_eq!(sends.end(&mut book, second), None);
        assert_eq!(sends.end(&mut book, other).map(|(_, last)| last), Some(false), "still to be routed");
    }
}
