//! Budget of processing time for neighbours' hellos. Evaluating a hello takes time: policies learn from it, and held
//! bundles are examined again. Each hello is charged an estimate. A hello that arrives while the neighbour's budget is
//! spent is joined with later ones and evaluated once there is budget again. A neighbour with normal traffic never
//! notices; of ten thousand hellos a second, eight are evaluated.
//!
//! Each neighbour with a vouched name has a budget of its own. All neighbours that only claim a name share one budget.

use crate::neighbours::hellos::{HelloContent, MESSAGE_MAX};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use farlink_base::{Instant, PeerId};
use farlink_book::{Identity, Peer};

/// Fixed charge of a hello: eight hellos use up a second of budget.
pub(super) const HELLO: Duration = Duration::from_millis(125);
/// Charge per byte of a hello: 250 kB use up a second of budget.
pub(super) const BYTE: Duration = Duration::from_micros(4);
/// Charge per held bundle that is examined again.
pub(super) const HELD: Duration = Duration::from_micros(10);
/// Charge per table entry that the router examines for a neighbour's message
/// ([`Policies::looks`](crate::policies::Policies::looks)).
pub(super) const LOOK: Duration = Duration::from_micros(2);
/// Time by which the budget may be overdrawn, because contact may be lost and regained several times in a row.
pub(super) const AHEAD: Duration = Duration::from_secs(4);
/// Most bytes of waiting hellos, all neighbours together; more are dropped.
pub(super) const WAITING_MAX: usize = 4 << 20;
/// Once this many neighbours have waiting hellos, no further neighbour that only claims a name may have any.
pub(super) const CLAIMING_MAX: usize = 64;

/// Hellos of one neighbour that arrived while its budget was spent, joined into one.
#[derive(Debug, Default)]
pub(super) struct DeferredHellos {
    /// Deadline of the timer for these hellos; a timer that fires earlier belongs to an earlier encounter.
    pub rings: Instant,
    /// Identities in the newest summary, if one came.
    summary: Option<Vec<u8>>,
    messages: [Vec<u8>; 2],
}
impl DeferredHellos {
    pub fn len(&self) -> usize {
        self.summary.as_ref().map_or(0, Vec::len) + self.messages.iter().map(Vec::len).sum::<usize>()
    }
    /// Joins one more hello, in at most `room` bytes: a newer summary replaces the older one, and messages are
    /// appended, so that the newer one is read last.
    pub fn add(&mut self, hello: &HelloContent<'_>, room: usize) {
        if hello.summary && hello.ids.len() <= room {
            self.summary = Some(hello.ids.to_vec());
        }
        for (message, more) in self.messages.iter_mut().zip(hello.messages) {
            // Part of a policy's message would be unreadable: a message that does not fit is dropped whole.
            if message.len() + more.len() <= MESSAGE_MAX.min(room) {
                message.extend_from_slice(more);
            }
        }
    }
    pub(super) fn joined(&self) -> HelloContent<'_> {
        // Free space was noted at arrival, so it is not kept here.
        HelloContent {
            summary: self.summary.is_some(),
            free: 0,
            capacity: 0,
            ids: self.summary.as_deref().unwrap_or_default(),
            messages: [&self.messages[0], &self.messages[1]],
        }
    }
}

/// Waiting hellos, and the shared budget of neighbours that only claim a name.
#[derive(Debug, Default)]
pub(super) struct HelloBudget {
    pub waiting: BTreeMap<PeerId, DeferredHellos>,
    pub claiming: Instant,
}

impl HelloBudget {
    /// Drops the waiting hellos of a neighbour that is gone.
    pub fn forget(&mut self, peer: PeerId) {
        self.waiting.remove(&peer);
    }
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

pub(super) fn is_sure(peer: &Peer) -> bool {
    peer.identity() >= Identity::Address
}
