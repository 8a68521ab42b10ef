//! New bundles: those of applications and of this node, and those made of fragments.

use super::block::{Service, age_data, block_flags, kind, labels_data, put_block};
use super::facts::{Found, flags_of, service_flags};
use super::head::Head;
use super::names::{Dictionary, may_be_given, numbers, put_reference};
use super::primary::{flags, put_primary};
use super::rewrite::{Shape, put_around};
use super::wire::put_sdnv;
use crate::v7::Draft;
use crate::{CreationTimestamp, EndpointId, Profile};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, DtnTime, Facts, Payload, Rare, Refusal};

/// So many numbers of one millisecond go into 32 bits with it. ION keeps no more of a sequence number: bundles it cannot
/// tell apart it takes for one, and its signals and reports would name others than ours.
const NARROW: u64 = 1 << 22;

/// Creation time in seconds and its sequence number. What one second has of milliseconds goes in front of the number:
/// two timestamps that differ still do, and later ones are still later (RFC 5050 4.5.1 wants numbers to increase).
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
    // Second 0 means unknown: what was made in it has numbers of its own in the next one.
    if ms < 1000 { (1, sequence | 1 << 62) } else { (ms / 1000, sequence) }
}

/// Lifetime in seconds: never over before it was asked for.
fn lifetime(draft: &Draft, creation: CreationTimestamp) -> u64 {
    draft.lifetime_ms.saturating_add(creation.time.as_millis() % 1000).div_ceil(1000)
}

/// References to endpoint IDs, and the dictionary they refer to: none where numbers do (RFC 6260 2.1).
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

/// A new bundle, its timestamp in seconds. What RFC 5050 4.2 forbids is adjusted: an anonymous one must not be
/// fragmented and asks for no reports, an administrative one asks for no reports. Without creation time it has an age.
/// A limit of hops is not said: BPv6 has no such block.
///
/// # Errors
/// [`Refusal::NotAcceptable`] for an endpoint ID that BPv6 has no text for, or that is too long for it.
// 5050-4.2-1, 5050-4.2-2, 5050-5.2-3
pub fn make(draft: &Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal> {
    let endpoints = [&draft.destination, &draft.source, &draft.report_to, &EndpointId::Null];
    // A record answers whoever asked, by the name that came.
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
    let service = Service { flags: service_flags(draft.facts), ..Service::default() };
    if service != Service::default() {
        put_block(kind::SERVICE, block_flags::REPLICATE, &[service.flags, service.ordinal], &mut head);
    }
    if let Some(labels) = draft.labels {
        put_block(kind::LABELS, block_flags::REPLICATE, &labels_data(labels), &mut head);
    }
    head.push(kind::PAYLOAD);
    put_sdnv(&mut head, block_flags::LAST);
    put_sdnv(&mut head, payload.len());
    // What was made is what would be read.
    let mut found = Found::default();
    let parsed = Head::parse(&head, Profile::Permissive, &mut |block, _| found.block(&block, false));
    let parsed = parsed.map_err(|_| Refusal::NotAcceptable)?;
    Ok(found.into_meta(parsed, &head, &[], payload).0)
}

/// The bundle that fragments make (RFC 5050 5.9): the blocks of the fragment with the lowest offset, and the whole
/// payload. Blocks after the payload, which only the fragment with the highest offset had, are not among them: this
/// node did not understand them.
// 5050-5.9-1
pub fn whole(first: &BundleMeta, payload: Payload) -> BundleMeta {
    let shape = Shape { fragment: None, len: payload.len(), first: true, last: true };
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
