//! What bounds what is held: memory, shares and quotas, and room that is promised to what is arriving.

use crate::state::fair_share::FairShare;
use crate::state::memory::Memory;
use crate::state::reservations::Reservations;
use farlink_base::Lazy;

/// The owners of what bounds the store.
#[derive(Debug, Default)]
pub(crate) struct Room {
    pub memory: Memory,
    pub fair_share: Lazy<FairShare>,
    pub reservations: Reservations,
    /// Bytes of the bundle that others make room for just now.
    pub newcomer: u64,
}
