//! Bundles and books for the tests of this crate.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{
    BundleId, BundleMeta, CreationTimestamp, DtnTime, Duties, EndpointId, Facts, Instant, LinkId, Payload, PeerId,
    Priority,
};
use farlink_book::{Birth, Book, Flags, Handle, New, NextHop, RetentionConstraint, RetentionConstraints};

/// A bundle from `ipn:1.1` to `ipn:9.1`.
pub fn meta(sequence: u64, priority: Priority, payload: u64) -> BundleMeta {
    let source = EndpointId::ipn(1, 1);
    let creation = CreationTimestamp { time: DtnTime(1000), sequence };
    let id = BundleId { source: source.clone(), creation, fragment: None }.fingerprint();
    BundleMeta {
        id,
        source,
        destination: EndpointId::ipn(9, 1),
        created_ms: 1000,
        sequence,
        lifetime_ms: 60_000,
        payload: Payload::fill(sequence, payload),
        facts: Facts::default(),
        version: 7,
        priority,
        duties: Duties::default(),
        hop_limit: 0,
        rare: None,
        head: Box::from([0u8; 50]),
        tail: 0,
        primary_end: 0,
        tail_len: 1,
        digest: 0,
    }
}

/// A book of bundles with these priorities, each to be forwarded, numbered from 1.
pub fn book_with(priorities: &[Priority]) -> (Book, Vec<Handle>) {
    let mut book = Book::new(1);
    let keep = |(n, priority): (usize, &Priority)| {
        book.keep(New {
            bundle: Arc::new(meta(n as u64, *priority, 100)),
            number: None,
            born: Birth::of(Instant::ZERO, 0),
            expires: Instant(60_000_000_000),
            from: PeerId::NONE,
            hops: 0,
            labels: [0; 2],
            reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
            flags: Flags::default(),
        })
    };
    let handles = priorities.iter().enumerate().map(keep).collect();
    (book, handles)
}

/// A next hop over a link.
pub fn leg(link: u32, not_before: u64, until: u64) -> NextHop {
    NextHop { link: LinkId(link), not_before: Instant(not_before), until: Instant(until) }
}
