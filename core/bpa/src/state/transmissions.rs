//! Transmissions under way: which bundle, over which link, which part of it, with which labels.
//!
//! Owns the reason `Send`. A transmission's number begins with its bundle's slot, so that those of
//! one bundle stand together.

use alloc::collections::BTreeMap;
use core::ops::Range;
use farlink_base::layer::SendId;
use farlink_base::{LinkId, PeerId};
use farlink_book::{Book, Handle, RetentionConstraint};

/// One transmission.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sending {
    /// Which bundle; it may have left meanwhile.
    pub bundle: Handle,
    /// Over which link.
    pub link: LinkId,
    /// To whom.
    pub peer: PeerId,
    /// Which bytes of its payload; `None`: all.
    pub range: Option<Range<u64>>,
    /// Bytes that leave around that range.
    pub around: u64,
    /// Labels that travel with it.
    pub gave: [u32; 2],
    /// Whether a copy stays here.
    pub keep: bool,
    /// Whether its confirmation means that the neighbour has it for good.
    pub reliable: bool,
}

/// All transmissions.
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
    /// Begins a transmission.
    pub fn begin(&mut self, book: &mut Book, sending: Sending) -> SendId {
        let bundle = sending.bundle;
        let id = loop {
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
    /// Ends one. True besides: it was the bundle's last, and no other reason holds the bundle.
    pub fn end(&mut self, book: &mut Book, id: SendId) -> Option<(Sending, bool)> {
        let sending = self.under_way.remove(&id.0)?;
        // A full counter counts no longer: the table itself tells.
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
    /// How many.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.under_way.len()
    }
    /// One by number.
    pub fn get(&self, id: SendId) -> Option<&Sending> {
        self.under_way.get(&id.0)
    }
    /// Only this range of it is to be sent again, should it fail.
    pub fn narrow(&mut self, id: SendId, range: Range<u64>) {
        if let Some(sending) = self.under_way.get_mut(&id.0) {
            sending.range = Some(range);
        }
    }
    /// Those of one bundle.
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
    fn last_send_releases_bundle() {
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
            reliable: true,
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
