//! Bundles for the tests and the benchmark of the book.

use farlink_base::{BundleMeta, Duties, EndpointId, Facts, Instant, Payload, PeerId, Priority};
use farlink_book::{Birth, Flags, New, RetentionConstraint, RetentionConstraints};
use std::sync::Arc;

/// A bundle of `ipn:1.1` with this identity, of 1,101 bytes in simulated payload.
pub fn bundle(id: u128, to: u64) -> BundleMeta {
    BundleMeta {
        id,
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(to, 1),
        created_ms: 0,
        sequence: 0,
        lifetime_ms: 86_400_000,
        payload: Payload::fill(1, 1000),
        facts: Facts::default(),
        version: 7,
        priority: Priority::default(),
        duties: Duties::default(),
        hop_limit: 0,
        rare: None,
        head: [0; 96].into(),
        tail: 0,
        primary_end: 0,
        tail_len: 5,
        digest: 0,
    }
}

/// A new entry for a book.
pub fn new(bundle: Arc<BundleMeta>, number: Option<u64>, expires: Instant) -> New {
    New {
        bundle,
        number,
        born: Birth::of(Instant::ZERO, 0),
        expires,
        from: PeerId::NONE,
        hops: 0,
        labels: [0, 0],
        reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
        flags: Flags::default(),
    }
}
