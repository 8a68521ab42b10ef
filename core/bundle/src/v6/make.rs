//! Construction of bundles: new ones of applications and of this node, and reassembled ones.

use super::block::{ExtendedClass, age_data, block_flags, kind, labels_data, put_block};
use super::facts::{BlockSummary, flags_of, service_flags};
use super::head::BundleHead;
use super::names::{Dictionary, may_be_given, numbers, put_reference};
use super::primary::{flags, put_primary};
use super::rewrite::{PayloadShape, put_around};
use super::wire::put_sdnv;
use crate::v7::BundleDraft;
use crate::{CreationTimestamp, EndpointId, Profile};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, DtnTime, Facts, Payload, Rare, Refusal};

/// Number of sequence numbers per millisecond for which millisecond and number together fit 32 bits. ION truncates
/// longer sequence numbers to 32 bits: it would take different bundles for one, and its signals and reports would match
/// no bundle of this node.
const NARROW: u64 = 1 << 22;

/// Creation time in seconds, and a sequence number with the milliseconds in front: distinct timestamps stay distinct,
/// and later ones stay later (RFC 5050 4.5.1 requires increasing numbers).
// 5050-4.5.1-1
fn timestamp(creation: CreationTimestamp) -> (u64, u64) {
    let ms = creation.time.as_millis();
    if creation.time == DtnTime::UNKNOWN {
        return (0, creation.sequence);
    }
    let part = ms % 1000;
    let sequence = match creation.sequence {
        number @ ..NARROW => part << NARROW.ilog2() | number,
        number => (1 << 44 | part << 32).saturating_add(number),
    };
    // A time of 0 means unknown, so timestamps within second 0 move to second 1; bit 62 keeps their numbers distinct
    // from those of second 1.
    if ms < 1000 { (1, sequence | 1 << 62) } else { (ms / 1000, sequence) }
}

/// Lifetime in seconds, rounded so that the bundle never expires early.
fn lifetime(draft: &BundleDraft, creation: CreationTimestamp) -> u64 {
    draft.lifetime_ms.saturating_add(creation.time.as_millis() % 1000).div_ceil(1000)
}

/// References to endpoint IDs and their dictionary, which is empty if all are numbers (RFC 6260 2.1).
// 6260-2.1-1, 6260-2.1-5, 6260-3-1
fn references(endpoints: [&EndpointId; 4]) -> Result<([(u64, u64); 4], Vec<u8>), Refusal> {
    let mut pairs = [(0, 0); 4];
    let all: Option<()> = pairs.iter_mut().zip(endpoints).try_for_each(|(pair, endpoint)| {
        *pair = numbers(endpoint)?;
        Some(())
    });
    let mut dictionary = Dictionary::default();
    if all.is_none() {
        for (pair, endpoint) in pairs.iter_mut().zip(endpoints) {
            *pair = dictionary.reference(endpoint).ok_or(Refusal::NotAcceptable)?;
        }
    }
    Ok((pairs, dictionary.bytes))
}

/// Creates a bundle, with its timestamp in seconds. Combinations that RFC 5050 4.2 forbids are adjusted: an anonymous
/// bundle must not be fragmented and requests no reports, an administrative one requests no reports. Without creation
/// time it gets an age block. The hop limit is dropped: BPv6 has no such block.
///
/// # Errors
/// [`Refusal::NotAcceptable`] for an endpoint ID that BPv6 cannot express, or that is too long for it.
// 5050-4.2-1, 5050-4.2-2, 5050-5.2-3
pub fn make(draft: &BundleDraft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
    let endpoints = [&draft.destination, &draft.source, &draft.report_to, &EndpointId::Null];
    // An administrative record goes to the endpoint ID in the bundle that requested it, even to one that applications
    // of this node may not use.
    if !draft.facts.has(Facts::ADMIN) && !endpoints.iter().all(|endpoint| may_be_given(endpoint)) {
        return Err(Refusal::NotAcceptable);
    }
    let (pairs, dictionary) = references(endpoints)?;
    let mut bits = flags_of(draft.facts, draft.priority);
    if draft.source.is_null() || draft.facts.has(Facts::ADMIN) {
        bits &= !(flags::REPORTS | flags::CUSTODY);
    }
    if draft.source.is_null() {
        bits |= flags::NO_FRAGMENT;
    }
    if draft.destination.is_singleton() {
        bits |= flags::SINGLETON;
    }
    let mut rest = Vec::with_capacity(64 + dictionary.len());
    pairs.iter().for_each(|pair| put_reference(&mut rest, *pair));
    let (seconds, sequence) = timestamp(creation);
    for number in [seconds, sequence, lifetime(draft, creation), dictionary.len() as u64] {
        put_sdnv(&mut rest, number);
    }
    let mut head = Vec::with_capacity(rest.len() + 48);
    put_primary(bits, &[&rest, &dictionary], None, &mut head);
    if creation.time == DtnTime::UNKNOWN {
        put_block(kind::AGE, block_flags::REPLICATE, &age_data(0), &mut head);
    }
    let service = ExtendedClass { flags: service_flags(draft.facts), ..ExtendedClass::default() };
    if service != ExtendedClass::default() {
        put_block(kind::SERVICE, block_flags::REPLICATE, &[service.flags, service.ordinal], &mut head);
    }
    if let Some(labels) = draft.labels {
        put_block(kind::LABELS, block_flags::REPLICATE, &labels_data(labels), &mut head);
    }
    head.push(kind::PAYLOAD);
    put_sdnv(&mut head, block_flags::LAST);
    put_sdnv(&mut head, payload.len());
    // Parse the result, so that a new bundle equals a received one.
    let mut found = BlockSummary::default();
    let parsed = BundleHead::parse(&head, Profile::Permissive, &mut |block, _| found.block(&block, false));
    let parsed = parsed.map_err(|_| Refusal::NotAcceptable)?;
    Ok(found.into_meta(parsed, &head, &[], payload).0)
}

/// Reassembles a bundle (RFC 5050 5.9) from the blocks of the fragment with the lowest offset and the whole payload.
/// Blocks after the payload, which only the last fragment carries, are lost.
// 5050-5.9-1
pub fn whole(first: &BundleMeta, payload: Payload) -> BundleMeta {
    let shape = PayloadShape { fragment: None, len: payload.len(), first: true, last: true };
    let mut head = Vec::with_capacity(first.head.len());
    let after = put_around(first, None, Some(&shape), &mut head);
    head.extend_from_slice(&after);
    let rare = first.rare.as_deref().cloned().map(|rare| Rare { fragment: None, ..rare });
    BundleMeta {
        id: first.original_id(),
        payload,
        rare: rare.and_then(Rare::boxed),
        head: head.into_boxed_slice(),
        tail: after.len() as u32,
        digest: 0,
        ..first.clone()
    }
}
