//! Reception reports (RFC 5326 3.2.2, 6.11): the data received within a scope, split into report segments that fit a
//! datagram.

use super::ranges::RangeSet;
use super::segment::{Segment, SegmentBody, SessionId};
use crate::sdnv;
use alloc::vec::Vec;

/// Builds the report segments on the scope `lower..upper` of `received`. Each fits `datagram_bytes`; serial numbers
/// count up from `serial`. The scopes of the segments follow each other from `lower` to `upper`, or end earlier after
/// `most` segments.
// 5326-3.2.2-2, 5326-3.2.2-6, 5326-3.2.2-7, 5326-6.11-7, 5326-6.11-8, 5326-6.11-9
pub fn build(
    session: SessionId,
    serial: u64,
    checkpoint: u64,
    (lower, upper): (u64, u64),
    received: &RangeSet,
    (datagram_bytes, most): (u32, usize),
) -> Vec<Segment> {
    // Longest head of the segments; the first 5 bytes are type, extension count and claim count (3).
    let fixed = 5
        + sdnv::len(session.engine)
        + sdnv::len(session.number)
        // Serial numbers grow with each segment; allow for 65,535 of them.
        + sdnv::len(serial + 0xffff)
        + sdnv::len(checkpoint)
        + 2 * sdnv::len(upper);
    let room = (datagram_bytes as usize).saturating_sub(fixed);
    let mut segments: Vec<Segment> = Vec::new();
    let mut serial = serial;
    let mut push = |lower, upper, claims: Vec<(u64, u64)>| {
        segments.push(Segment { session, body: SegmentBody::Report { serial, checkpoint, lower, upper, claims } });
        serial += 1;
    };
    let (mut from, mut used, mut claims, mut made) = (lower, 0, Vec::new(), 0);
    for (start, end) in received.within(lower, upper) {
        let size = sdnv::len(start - from) + sdnv::len(end - start);
        if used + size > room && !claims.is_empty() {
            let to = claims.last().map_or(start, |claim: &(u64, u64)| claim.1);
            push(from, to, core::mem::take(&mut claims));
            made += 1;
            if made == most {
                return segments;
            }
            (from, used) = (to, 0);
        }
        used += sdnv::len(start - from) + sdnv::len(end - start);
        claims.push((start, end));
    }
    push(from, upper, claims);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Keeps 5326-3.2.2-2, 5326-3.2.2-7, 5326-3.2.2-8, 5326-3.2.2-9, 5326-3.2.2-10, 5326-6.11-7.
        /// Keeps 5326-6.11-8, 5326-6.11-9.
        #[test]
        fn split_reports_claim_exactly_received_data(
            runs in proptest::collection::vec((0u64..100_000, 1u64..2000), 1..60),
            scope in (0u64..100_000, 1u64..100_000),
            datagram in 40u32..200,
        ) {
            let mut received = RangeSet::new();
            runs.iter().for_each(|(at, len)| received.insert(*at, at + len));
            let (lower, upper) = (scope.0, scope.0 + scope.1);
            let session = SessionId { engine: 200, number: 70_000 };
            let segments = build(session, 9000, 5, (lower, upper), &received, (datagram, usize::MAX));
            let mut claimed = RangeSet::new();
            let mut at = lower;
            for (i, segment) in segments.iter().enumerate() {
                let bytes = segment.emit();
                prop_assert!(bytes.len() <= datagram as usize, "{} bytes", bytes.len());
                prop_assert_eq!(&Segment::parse(&bytes), &Ok(segment.clone()), "a peer can parse it");
                let SegmentBody::Report { serial, checkpoint: 5, lower, upper, claims } = &segment.body else { panic!() };
                prop_assert_eq!((*serial, *lower), (9000 + i as u64, at));
                at = *upper;
                claims.iter().for_each(|(start, end)| claimed.insert(*start, *end));
            }
            prop_assert_eq!(at, upper);
            let want: Vec<_> = received.within(lower, upper).collect();
            prop_assert_eq!(claimed.runs(), &want[..]);
        }
    }
}
