//! How much of a neighbour is listened to. Weighing a hello takes time: policies learn from it, and what is held is
//! looked at anew. So each counts as taking some, and one that comes while a neighbour's time is spent is kept, joined
//! with those after it, and weighed when there is time again. Who says what neighbours say never notices; who says ten
//! thousand a second is heard eight times.
//!
//! Each neighbour whose name is sure has time of its own. All those that only claim one share what one has.

use crate::neighbours::hellos::{Heard, MESSAGE_MAX};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use farlink_base::{Instant, PeerId};
use farlink_book::{Identity, Peer};

/// What a hello counts as taking by itself.
pub(super) const HELLO: Duration = Duration::from_millis(125);
/// What each of its bytes does: 250 kB of them a second.
pub(super) const BYTE: Duration = Duration::from_micros(4);
/// What each bundle held does that is looked at anew.
pub(super) const HELD: Duration = Duration::from_micros(10);
/// What each thing does that the router looks at.
pub(super) const LOOK: Duration = Duration::from_micros(2);
/// How much may be spent ahead: a meeting with a neighbour may be lost and found some times in a row.
pub(super) const AHEAD: Duration = Duration::from_secs(4);
/// Bytes of hellos that wait, of all neighbours together. Beyond, they are not heard.
pub(super) const WAITING_MAX: usize = 4 << 20;
/// Neighbours that only claim their names whose hellos wait.
pub(super) const CLAIMING_MAX: usize = 64;

/// What a neighbour said while its time was spent.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    /// When its timer rings; another one is of an encounter before.
    pub rings: Instant,
    /// The identities of its newest summary, where there was one.
    summary: Option<Vec<u8>>,
    messages: [Vec<u8>; 2],
}
impl Unheard {
    pub fn len(&self) -> usize {
        self.summary.as_ref().map_or(0, Vec::len) + self.messages.iter().map(Vec::len).sum::<usize>()
    }
    /// Joins one more: of messages the newer is read last, as where its sender had joined them.
    pub fn add(&mut self, heard: &Heard<'_>, room: usize) {
        if heard.summary && heard.ids.len() <= room {
            self.summary = Some(heard.ids.to_vec());
        }
        for (message, more) in self.messages.iter_mut().zip(heard.messages) {
            if message.len() + more.len() <= MESSAGE_MAX.min(room) {
                message.extend_from_slice(more);
            }
        }
    }
    pub(super) fn as_heard(&self) -> Heard<'_> {
        Heard {
            summary: self.summary.is_some(),
            free: 0,
            capacity: 0,
            ids: self.summary.as_deref().unwrap_or_default(),
            messages: [&self.messages[0], &self.messages[1]],
        }
    }
}

/// Hellos that wait, and the time of those that only claim a name.
#[derive(Debug, Default)]
pub(super) struct HelloBudget {
    pub waiting: BTreeMap<PeerId, Unheard>,
    pub claiming: Instant,
}

impl HelloBudget {
    /// A neighbour is gone, and what it said does not count.
    pub fn forget(&mut self, peer: PeerId) {
        self.waiting.remove(&peer);
    }
    /// Neighbours whose hellos wait.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// Whether a neighbour has time of its own.
pub(super) fn is_sure(peer: &Peer) -> bool {
    peer.identity() >= Identity::Address
}
