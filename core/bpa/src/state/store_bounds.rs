//! Bounds of the store: memory, shares and quotas, and room reserved for arriving bundles.

use crate::state::fair_share::FairShare;
use crate::state::memory::Memory;
use crate::state::reservations::Reservations;
use farlink_base::Lazy;

/// The owners of these bounds.
#[derive(Debug, Default)]
pub(crate) struct StoreBounds {
    pub memory: Memory,
    pub fair_share: Lazy<FairShare>,
    pub reservations: Reservations,
    /// Size of the new bundle for which others are being evicted; 0 otherwise.
    pub newcomer: u64,
}
