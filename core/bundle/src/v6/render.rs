//! What leaves on a hop (RFC 5050 5.4), whole or a piece of it (5.8).

use super::rewrite::{Shape, put_around};
use crate::Encoded;
use crate::cbor::{Count, Out};
use core::ops::Range;
use farlink_base::{BundleMeta, Bytes, BytesMut, Chunk, FragmentInfo, HopState, Payload};

/// The range of the payload that `cut` means; `None` when that is all of it, which is no cut.
fn range(meta: &BundleMeta, cut: Option<Range<u64>>) -> Option<Range<u64>> {
    let len = meta.payload.len();
    let cut = cut?;
    let (start, end) = (cut.start.min(len), cut.end.min(len));
    (start > 0 || end < len).then_some(start..end.max(start))
}

/// The fragment that holds this range of the payload. Places are those of the original bundle, of which this one may
/// be a fragment too.
// 5050-5.8-2, 5050-5.8-4, 5050-5.8-5
fn shape(meta: &BundleMeta, range: &Range<u64>) -> Shape {
    let len = meta.payload.len();
    let own = meta.fragment().unwrap_or(FragmentInfo { offset: 0, total: len });
    Shape {
        fragment: Some(FragmentInfo { offset: own.offset.saturating_add(range.start), total: own.total }),
        len: range.end - range.start,
        first: range.start == 0,
        last: range.end == len,
    }
}

/// Everything before the payload is appended to `out`; gives what follows the payload.
fn put(meta: &BundleMeta, hop: &HopState, range: Option<&Range<u64>>, out: &mut impl Out) -> Bytes {
    let shape = range.map(|range| shape(meta, range));
    Bytes::from(put_around(meta, Some(hop), shape.as_ref(), out))
}

/// The bundle as it leaves on this hop. Previous hop, age and labels are those of `hop`, each in its block with its own
/// flags; blocks that are missing are added before the payload. Null, or no labels: the block is removed. A custodian
/// that is not null takes custody from whoever had it; where the endpoint IDs are numbers (RFC 6260), it must be one
/// too. All other blocks stay byte for byte, in their order. Hops are not counted: BPv6 has no such block.
///
/// With `cut`, a fragment with this range of the payload (RFC 5050 5.8); all of it is no cut. Whether a bundle may be
/// cut is the caller's business.
///
/// The head is written to `out`, which is empty, and split off it without a copy.
pub fn render(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>, out: &mut BytesMut) -> Encoded {
    let payload = match range(meta, cut.clone()) {
        None => meta.payload.clone(),
        Some(range) => meta.payload.slice(range.start, range.end - range.start),
    };
    render_loaded(meta, payload, hop, cut, out)
}

/// As [`render`], with the bytes that leave given apart: all of the payload, or the range `cut` of it, wherever they
/// are. Nothing around them depends on them.
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

/// As [`render`], in one piece at the end of `out`, so that small bundles share a buffer; false, and nothing appended,
/// where the payload is not in memory.
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

/// Length of what [`render`] would write, without writing it.
pub fn size(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
    let cut = range(meta, cut);
    let mut count = Count::default();
    let tail = put(meta, hop, cut.as_ref(), &mut count);
    let payload = cut.map_or(meta.payload.len(), |range| range.end - range.start);
    (count.0 as u64).saturating_add(payload).saturating_add(tail.len() as u64)
}
