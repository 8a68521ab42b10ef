//! Encoding of a bundle that leaves (RFC 5050 5.4), whole or as a fragment (5.8).

use super::rewrite::{PayloadShape, put_around};
use crate::Encoded;
use crate::cbor::{ByteSink, Count};
use core::ops::Range;
use farlink_base::{BundleMeta, Bytes, BytesMut, Chunk, FragmentInfo, HopState, Payload};

/// Range of the payload that `cut` selects; `None` for all of it, which is no fragment.
fn range(meta: &BundleMeta, cut: Option<Range<u64>>) -> Option<Range<u64>> {
    let len = meta.payload.len();
    let cut = cut?;
    let (start, end) = (cut.start.min(len), cut.end.min(len));
    (start > 0 || end < len).then_some(start..end.max(start))
}

/// Fragment that holds this range of the payload. Offsets refer to the original bundle, of which this one may itself be
/// a fragment.
// 5050-5.8-2, 5050-5.8-4, 5050-5.8-5
fn shape(meta: &BundleMeta, range: &Range<u64>) -> PayloadShape {
    let len = meta.payload.len();
    let own = meta.fragment().unwrap_or(FragmentInfo { offset: 0, total: len });
    PayloadShape {
        fragment: Some(FragmentInfo { offset: own.offset.saturating_add(range.start), total: own.total }),
        len: range.end - range.start,
        first: range.start == 0,
        last: range.end == len,
    }
}

/// Appends all bytes before the payload to `out` and returns those after it.
fn put(meta: &BundleMeta, hop: &HopState, range: Option<&Range<u64>>, out: &mut impl ByteSink) -> Bytes {
    let shape = range.map(|range| shape(meta, range));
    Bytes::from(put_around(meta, Some(hop), shape.as_ref(), out))
}

/// Encodes the bundle as it leaves. Previous hop, age and labels come from `hop`, each in its block with its own flags;
/// missing blocks are added before the payload. A null node, or no labels, removes the block. The hop's custodian,
/// unless null, becomes the bundle's; a bundle whose endpoint IDs are numbers (RFC 6260) keeps its custodian if the new
/// one is not a number. All other blocks stay byte for byte, in order. Hops are not counted: BPv6 has no such block.
///
/// `cut` selects a fragment with this range of the payload (RFC 5050 5.8); the whole range is no fragment. The caller
/// decides whether a bundle may be fragmented.
///
/// The head is written to `out`, which must be empty, and split off without a copy.
pub fn render(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>, out: &mut BytesMut) -> Encoded {
    let payload = match range(meta, cut.clone()) {
        None => meta.payload.clone(),
        Some(range) => meta.payload.slice(range.start, range.end - range.start),
    };
    render_loaded(meta, payload, hop, cut, out)
}

/// [`render`] with the payload bytes given separately: all of them, or those of the range `cut`, wherever they are
/// stored. The bytes before and after the payload do not depend on its content.
pub fn render_loaded(
    meta: &BundleMeta,
    payload: Payload,
    hop: &HopState,
    cut: Option<Range<u64>>,
    out: &mut BytesMut,
) -> Encoded {
    let tail = put(meta, hop, range(meta, cut).as_ref(), out);
    Encoded { head: out.split().freeze(), payload, tail }
}

/// [`render`] in one piece at the end of `out`, so that small bundles share a buffer. Returns false, and appends
/// nothing, if the payload is not in memory.
pub fn append(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>, out: &mut BytesMut) -> bool {
    let cut = range(meta, cut);
    let payload = match &cut {
        None => &meta.payload,
        Some(range) => &meta.payload.slice(range.start, range.end - range.start),
    };
    if payload.resident_len() != payload.len() {
        return false;
    }
    let tail = put(meta, hop, cut.as_ref(), out);
    for chunk in payload.chunks() {
        if let Chunk::Bytes(bytes) = chunk {
            out.put(bytes);
        }
    }
    out.put(&tail);
    true
}

/// Length of the output of [`render`], without encoding it.
pub fn size(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
    let cut = range(meta, cut);
    let mut count = Count::default();
    let tail = put(meta, hop, cut.as_ref(), &mut count);
    let payload = cut.map_or(meta.payload.len(), |range| range.end - range.start);
    (count.0 as u64).saturating_add(payload).saturating_add(tail.len() as u64)
}
