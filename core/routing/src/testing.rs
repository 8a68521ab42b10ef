//! What the tests of several routers share.

use alloc::vec::Vec;
use farlink_base::{BundleHandle, BundleView, Instant, NodeId, Priority};

/// A bundle of 100 bytes from node 1 that never expires.
pub fn view(handle: u64, destination: u64) -> BundleView {
    BundleView {
        bundle: BundleHandle(handle),
        source: NodeId(1),
        destination: NodeId(destination),
        size: 100,
        payload_size: 60,
        priority: Priority::Normal,
        received: Instant::ZERO,
        expires: Instant::MAX,
        hops: 0,
        received_from: None,
        excluded: Vec::new(),
        may_fragment: true,
        critical: false,
        copies: 1,
    }
}
