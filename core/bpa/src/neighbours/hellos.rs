//! Hellos: descriptions of themselves that neighbours exchange when they meet, and later messages of their policies.
//! All that one call of the agent has for a neighbour leaves in one bundle.
//!
//! Content, big-endian: version 1, flags, free bytes, capacity, number of identities and the low 64 bits of each,
//! length and bytes of the router's message, bytes of the control's message.

use crate::neighbours::hello_budget::HelloBudget;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Empty, Instant, PeerId};
use farlink_book::{Book, Handle, Side};

pub(super) const VERSION: u8 = 1;
/// Flag: the identities list recent deliveries and held bundles, up to [`IDS_MAX`], in place of earlier lists.
pub(super) const SUMMARY: u8 = 1;
/// Lifetime of a hello, ms, to which four times the light time of its link is added: the hello may wait for its link's
/// turn. Also the time after the last hello from which a lower sequence number is accepted: the neighbour may have
/// restarted and begun its numbers again.
pub(super) const LIFETIME_MS: u64 = 60_000;
/// Most identities in one hello.
pub(super) const IDS_MAX: usize = 8 << 10;
/// Longest message of one policy, bytes.
pub(super) const MESSAGE_MAX: usize = 1 << 20;
/// Longest hello, bytes: both policies' messages, identities, and the frame around them.
pub(crate) const HELLO_MAX: u64 = (2 * MESSAGE_MAX + 8 * IDS_MAX + 1024) as u64;

/// Content of a hello to be sent.
#[derive(Debug, Default)]
pub(super) struct Hello {
    pub summary: bool,
    pub messages: [Vec<u8>; 2],
}

/// Hellos to be sent, and those not yet evaluated.
#[derive(Debug, Default)]
pub(crate) struct Hellos {
    pub(super) pending: BTreeMap<PeerId, Hello>,
    /// Last hello made for each neighbour: its bundle and content.
    pub(super) under_way: BTreeMap<PeerId, (Handle, Hello)>,
    /// Hellos from neighbours whose budget is spent.
    pub(super) hello_budget: Option<Box<HelloBudget>>,
}

// Allocated on first use: the policies of most nodes exchange no messages.
impl Empty for Hellos {
    type From = ();
    const EMPTY: &'static Self = &Hellos { pending: BTreeMap::new(), under_way: BTreeMap::new(), hello_budget: None };
    fn make((): ()) -> Self {
        Hellos::default()
    }
}

impl Hello {
    /// Appends a policy's message, cut off at [`MESSAGE_MAX`].
    fn add(&mut self, side: Side, bytes: &[u8]) {
        // `HELLO_MAX` relies on this bound.
        let message = &mut self.messages[side as usize];
        let room = MESSAGE_MAX.saturating_sub(message.len());
        message.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Hellos {
    /// Queues a message of a policy; several of one call are joined.
    pub fn queue_message(&mut self, to: PeerId, side: Side, bytes: &[u8]) {
        self.pending.entry(to).or_default().add(side, bytes);
    }
    /// Joins a new hello with the content of an unsent one. The older message of a policy comes first, so that the
    /// newer is read last.
    pub(super) fn join(&mut self, to: PeerId, hello: Hello, book: &Book) -> Hello {
        // A hello in transmission can no longer change.
        let waits = |(bundle, _): &&mut (Handle, Hello)| book.get(*bundle).is_some_and(|held| held.sends == 0);
        let Some((_, before)) = self.under_way.get_mut(&to).filter(waits) else { return hello };
        let mut all = core::mem::take(before);
        all.summary |= hello.summary;
        for side in [Side::Router, Side::Control] {
            all.add(side, &hello.messages[side as usize]);
        }
        all
    }
    /// Queues a first hello to a neighbour that came up; `summary`: it lists this node's bundles.
    pub(super) fn greet(&mut self, to: PeerId, summary: bool) {
        self.pending.entry(to).or_default().summary |= summary;
    }
    /// Neighbour for which a hello was made.
    pub fn peer_of(&self, hello: Handle) -> Option<PeerId> {
        self.under_way.iter().find(|(_, (bundle, _))| *bundle == hello).map(|(peer, _)| *peer)
    }
    pub fn forget(&mut self, peer: PeerId) -> Option<Handle> {
        self.pending.remove(&peer);
        if let Some(hello_budget) = &mut self.hello_budget {
            hello_budget.forget(peer);
        }
        self.under_way.remove(&peer).map(|(bundle, _)| bundle)
    }
    /// Number of hellos to be sent, under way, and waiting for budget.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.pending.len()
            + self.under_way.len()
            + self.hello_budget.as_ref().map_or(0, |hello_budget| hello_budget.len())
    }
    /// Whether no hello waits to be sent.
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

pub(super) struct HelloContent<'a> {
    pub summary: bool,
    pub free: u64,
    pub capacity: u64,
    pub ids: &'a [u8],
    pub messages: [&'a [u8]; 2],
}

pub(super) fn read(content: &[u8]) -> Option<HelloContent<'_>> {
    let (head, rest) = content.split_at_checked(22)?;
    // 22 bytes: version and flags (1 each), free bytes and capacity (8 each), count of identities (4).
    let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let count = u32::from_be_bytes(head[18..22].try_into().ok()?) as usize;
    let (ids, rest) = rest.split_at_checked(count.checked_mul(8)?)?;
    let (len, rest) = rest.split_at_checked(4)?;
    let len = u32::from_be_bytes(len.try_into().ok()?) as usize;
    let (router, control) = rest.split_at_checked(len)?;
    let summary = head[1] & SUMMARY != 0;
    (head[0] == VERSION).then_some(HelloContent {
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
    fn damaged_hello_is_rejected() {
        // A summary of two identities, and messages of 3 and 2 bytes.
        let mut content = Vec::from([VERSION, SUMMARY]);
        put_u64(&mut content, 7);
        put_u64(&mut content, 9);
        content.extend_from_slice(&2u32.to_be_bytes());
        put_u64(&mut content, 1);
        put_u64(&mut content, 2);
        content.extend_from_slice(&3u32.to_be_bytes());
        content.extend_from_slice(b"abcde");
        let parsed = read(&content).unwrap();
        assert_eq!((parsed.summary, parsed.free, parsed.capacity, parsed.ids.len()), (true, 7, 9, 16));
        assert_eq!(parsed.messages, [&b"abc"[..], b"de"]);
        for cut in 0..content.len() - 2 {
            assert!(read(&content[..cut]).is_none(), "{cut}");
        }
        // A count beyond the content must not overflow the length.
        content[18..22].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(read(&content).is_none());
        content[0] = 2;
        assert!(read(&content).is_none());
    }
}
