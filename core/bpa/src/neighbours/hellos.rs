//! Hellos: what neighbours tell each other when they meet, and whatever their policies have to say,
//! gathered into one bundle a turn. A real node really sends it.
//!
//! Content: version 1, flags, free bytes, capacity, count of identities and the low halves of the
//! newest, length and bytes of the router's message, bytes of the control's; big-endian.

use crate::neighbours::hello_budget::HelloBudget;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Empty, Instant, PeerId};
use farlink_book::{Book, Handle, Side};

pub(super) const VERSION: u8 = 1;
/// The identities are a summary of everything held.
pub(super) const SUMMARY: u8 = 1;
/// Lifetime of a hello, ms, besides four times the light time of its link: as long as it is waited for, since it may
/// have to wait for its turn until the neighbour's has come.
pub(super) const LIFETIME_MS: u64 = 60_000;
/// Identities in one hello.
pub(super) const IDS_MAX: usize = 8 << 10;
/// Bytes of one policy's message that are carried.
pub(super) const MESSAGE_MAX: usize = 1 << 20;
/// Bytes of the longest hello: both policies' messages, identities, and what is around them.
pub(crate) const HELLO_MAX: u64 = (2 * MESSAGE_MAX + 8 * IDS_MAX + 1024) as u64;

/// What a neighbour is to be told.
#[derive(Debug, Default)]
pub(super) struct Hello {
    pub summary: bool,
    pub messages: [Vec<u8>; 2],
}

/// Hellos to be sent.
#[derive(Debug, Default)]
pub(crate) struct Hellos {
    pub(super) pending: BTreeMap<PeerId, Hello>,
    /// The one on its way to each neighbour, and what it says.
    pub(super) under_way: BTreeMap<PeerId, (Handle, Hello)>,
    /// What neighbours said that is not heard yet.
    pub(super) hello_budget: Option<Box<HelloBudget>>,
}

/// Most nodes have policies that say nothing.
impl Empty for Hellos {
    type From = ();
    const EMPTY: &'static Self = &Hellos { pending: BTreeMap::new(), under_way: BTreeMap::new(), hello_budget: None };
    fn make((): ()) -> Self {
        Hellos::default()
    }
}

impl Hello {
    /// What policies say besides, as far as there is room.
    fn add(&mut self, side: Side, bytes: &[u8]) {
        let message = &mut self.messages[side as usize];
        let room = MESSAGE_MAX.saturating_sub(message.len());
        message.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Hellos {
    /// A policy has something to say; several messages of one turn are joined.
    pub fn tell(&mut self, to: PeerId, side: Side, bytes: &[u8]) {
        self.pending.entry(to).or_default().add(side, bytes);
    }
    /// What one that has not left says is said by the next one, too: first, so that of two messages of a policy the
    /// newer is read last.
    pub(super) fn join(&mut self, to: PeerId, hello: Hello, book: &Book) -> Hello {
        let waits = |(bundle, _): &&mut (Handle, Hello)| book.get(*bundle).is_some_and(|held| held.sends == 0);
        let Some((_, before)) = self.under_way.get_mut(&to).filter(waits) else { return hello };
        let mut all = core::mem::take(before);
        all.summary |= hello.summary;
        for side in [Side::Router, Side::Control] {
            all.add(side, &hello.messages[side as usize]);
        }
        all
    }
    /// A neighbour that came up is greeted.
    pub(super) fn greet(&mut self, to: PeerId, summary: bool) {
        self.pending.entry(to).or_default().summary |= summary;
    }
    /// Whose hello this is.
    pub fn peer_of(&self, hello: Handle) -> Option<PeerId> {
        self.under_way.iter().find(|(_, (bundle, _))| *bundle == hello).map(|(peer, _)| *peer)
    }
    /// A neighbour is gone.
    pub fn forget(&mut self, peer: PeerId) -> Option<Handle> {
        self.pending.remove(&peer);
        if let Some(hello_budget) = &mut self.hello_budget {
            hello_budget.forget(peer);
        }
        self.under_way.remove(&peer).map(|(bundle, _)| bundle)
    }
    /// Hellos that wait, and those under way.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.pending.len()
            + self.under_way.len()
            + self.hello_budget.as_ref().map_or(0, |hello_budget| hello_budget.len())
    }
    /// Whether there is something to be sent.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }
    pub(super) fn hello_budget(&mut self) -> &mut HelloBudget {
        self.hello_budget.get_or_insert_with(Box::default)
    }
    pub(super) fn claiming(&self) -> Instant {
        self.hello_budget.as_ref().map_or(Instant::ZERO, |hello_budget| hello_budget.claiming)
    }
    pub(super) fn waits(&self, from: PeerId) -> bool {
        self.hello_budget.as_ref().is_some_and(|hello_budget| hello_budget.waiting.contains_key(&from))
    }
}

/// A hello as it arrived.
pub(super) struct Heard<'a> {
    pub summary: bool,
    pub free: u64,
    pub capacity: u64,
    pub ids: &'a [u8],
    pub messages: [&'a [u8]; 2],
}

pub(super) fn read(content: &[u8]) -> Option<Heard<'_>> {
    let (head, rest) = content.split_at_checked(22)?;
    let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let count = u32::from_be_bytes(head[18..22].try_into().ok()?) as usize;
    let (ids, rest) = rest.split_at_checked(count.checked_mul(8)?)?;
    let (len, rest) = rest.split_at_checked(4)?;
    let len = u32::from_be_bytes(len.try_into().ok()?) as usize;
    let (router, control) = rest.split_at_checked(len)?;
    let summary = head[1] & SUMMARY != 0;
    (head[0] == VERSION).then_some(Heard {
        summary,
        free: number(2),
        capacity: number(10),
        ids,
        messages: [router, control],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::put_u64;

    #[test]
    fn truncated_or_mislengthed_hello_rejected() {
        let mut content = Vec::from([VERSION, SUMMARY]);
        put_u64(&mut content, 7);
        put_u64(&mut content, 9);
        content.extend_from_slice(&2u32.to_be_bytes());
        put_u64(&mut content, 1);
        put_u64(&mut content, 2);
        content.extend_from_slice(&3u32.to_be_bytes());
        content.extend_from_slice(b"abcde");
        let heard = read(&content).unwrap();
        assert_eq!((heard.summary, heard.free, heard.capacity, heard.ids.len()), (true, 7, 9, 16));
        assert_eq!(heard.messages, [&b"abc"[..], b"de"]);
        for cut in 0..content.len() - 2 {
            assert!(read(&content[..cut]).is_none(), "{cut}");
        }
        content[18..22].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(read(&content).is_none());
        content[0] = 2;
        assert!(read(&content).is_none());
    }
}
