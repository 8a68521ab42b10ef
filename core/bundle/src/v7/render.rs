//! What leaves on a hop (RFC 9171 5.4), whole or a piece of it (5.8).

use super::facts::{crc_of, put_tail, tail_len};
use super::rewrite::{Shape, put_head};
use crate::cbor::{Count, Out};
use crate::check::Check;
use crate::put::Short;
use crate::{CrcType, Encoded};
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{Accel, BundleMeta, Bytes, BytesMut, Chunk, Facts, FragmentInfo, HopState, Payload};

/// The range of the payload that `cut` means; `None` when that is all of it, which is no cut.
fn range(meta: &BundleMeta, cut: Option<Range<u64>>) -> Option<Range<u64>> {
    let len = meta.payload.len();
    let cut = cut?;
    let (start, end) = (cut.start.min(len), cut.end.min(len));
    (start > 0 || end < len).then_some(start..end.max(start))
}

/// The fragment that holds this range of the payload. Places are those of the original bundle, of
/// which this one may be a fragment too.
// 9171-4.3.1-10, 9171-4.3.1-12, 9171-5.8-1, 9171-5.8-2, 9171-5.8-3, 9171-5.8-4, 9171-5.8-6, 9172-5.2-1
fn shape(meta: &BundleMeta, range: &Range<u64>) -> Shape {
    let own = meta.fragment().unwrap_or(FragmentInfo { offset: 0, total: meta.payload.len() });
    Shape {
        fragment: Some(FragmentInfo { offset: own.offset.saturating_add(range.start), total: own.total }),
        len: range.end - range.start,
        crc: crc_of(meta.tail_len),
        // Blocks not marked for replication go with the piece that begins where the bundle did.
        all_blocks: range.start == 0,
        // Without creation time a fragment needs an age to expire by (RFC 9171 4.4.2).
        age: meta.created_ms == 0,
    }
}

/// A source without a clock that forgot the age block (RFC 9171 4.4.2 wants one): it gets one here.
fn lacks_age(meta: &BundleMeta) -> bool {
    meta.created_ms == 0 && !meta.facts.has(Facts::AGE)
}

/// Appends the head; gives the value of the payload block's CRC.
fn put(
    meta: &BundleMeta,
    payload: &Payload,
    hop: &HopState,
    range: Option<&Range<u64>>,
    accel: &Accel,
    out: &mut impl Out,
) -> u32 {
    let shape = range.map(|range| shape(meta, range));
    let block = put_head(meta, Some(hop), lacks_age(meta), shape.as_ref(), accel, out);
    match (shape, block) {
        (Some(shape), Ok(block)) => Check::of(shape.crc, out.since(block), payload, accel).value().unwrap_or(0),
        _ => meta.tail,
    }
}

/// Bytes after the payload: a piece's block is written anew, with its length.
fn len_of_tail(meta: &BundleMeta, range: Option<&Range<u64>>) -> u8 {
    range.map_or(meta.tail_len, |_| tail_len(crc_of(meta.tail_len), false))
}

/// The bundle as it leaves on this hop. Previous node, age, hop count and labels are those of `hop`,
/// each in its block with its own number, flags and CRC type; blocks that are missing are added, with
/// the CRC type of the primary block: the previous node (RFC 9171 4.4.1) and the labels. Null, or no
/// labels: the block is removed. All other blocks stay byte for byte.
///
/// With `cut`, a fragment with this range of the payload (RFC 9171 5.8); all of it is no cut. The
/// bytes of a piece must be in memory for its CRC, which is zero where they are not (simulated
/// payloads; see [`render_loaded`]). Whether a bundle may be cut is the caller's business.
///
/// Head and tail are written to `out`, which is empty, and split off it without a copy: what is left
/// of its room serves the next bundle.
pub fn render(
    meta: &BundleMeta,
    hop: &HopState,
    cut: Option<Range<u64>>,
    accel: &Accel,
    out: &mut BytesMut,
) -> Encoded {
    let payload = match range(meta, cut.clone()) {
        None => meta.payload.clone(),
        Some(range) => meta.payload.slice(range.start, range.end - range.start),
    };
    render_loaded(meta, payload, hop, cut, accel, out)
}

/// As [`render`], with the bytes that leave given apart: all of the payload, or the range `cut` of
/// it, loaded from a store.
pub fn render_loaded(
    meta: &BundleMeta,
    payload: Payload,
    hop: &HopState,
    cut: Option<Range<u64>>,
    accel: &Accel,
    out: &mut BytesMut,
) -> Encoded {
    let cut = range(meta, cut);
    let mut short = Short::new();
    let value = put(meta, &payload, hop, cut.as_ref(), accel, &mut short);
    out.extend_from_slice(short.bytes());
    let head = out.split().freeze();
    put_tail(value, len_of_tail(meta, cut.as_ref()), out);
    Encoded { head, payload, tail: out.split().freeze() }
}

/// A piece that leaves although its bytes are not in memory: they pass once, for its CRC.
#[derive(Debug)]
pub struct Piece {
    head: Bytes,
    tail_len: u8,
    /// What takes the bytes; `None`: the CRC's value is known.
    check: Option<Check>,
    value: u32,
}

/// The range `cut` of the payload as [`render`] would write it, its bytes not at hand yet.
pub fn piece(meta: &BundleMeta, hop: &HopState, cut: Range<u64>, accel: &Accel, out: &mut BytesMut) -> Piece {
    let cut = range(meta, Some(cut));
    let shape = cut.as_ref().map(|range| shape(meta, range));
    let block = put_head(meta, Some(hop), lacks_age(meta), shape.as_ref(), accel, out);
    let check = match (shape, block) {
        (Some(shape), Ok(block)) if shape.crc != CrcType::None => {
            Some(Check::new((shape.crc, false), out.since(block), 0, shape.len, accel))
        }
        _ => None,
    };
    Piece { head: out.split().freeze(), tail_len: len_of_tail(meta, cut.as_ref()), check, value: meta.tail }
}

impl Piece {
    /// Whether bytes are wanted at all.
    pub fn wants_bytes(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.remaining() > 0)
    }
    /// The next bytes, in memory.
    pub fn pass(&mut self, part: &Payload) {
        if let Some(check) = &mut self.check {
            check.update_rope(part);
        }
    }
    /// The piece, around its bytes wherever they are.
    pub fn finish(self, payload: Payload) -> Encoded {
        let value = self.check.map_or(self.value, |check| check.value().unwrap_or(0));
        let mut tail = Vec::with_capacity(8);
        put_tail(value, self.tail_len, &mut tail);
        Encoded { head: self.head, payload, tail: Bytes::from(tail) }
    }
}

/// As [`render`], in one piece at the end of `out`, so that small bundles share a buffer; false, and
/// nothing appended, where the payload is not in memory.
pub fn append(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>, accel: &Accel, out: &mut BytesMut) -> bool {
    let cut = range(meta, cut);
    let payload = match &cut {
        None => &meta.payload,
        Some(range) => &meta.payload.slice(range.start, range.end - range.start),
    };
    if payload.resident_len() != payload.len() {
        return false;
    }
    let (mut head, mut tail) = (Short::new(), Short::new());
    let value = put(meta, payload, hop, cut.as_ref(), accel, &mut head);
    put_tail(value, len_of_tail(meta, cut.as_ref()), &mut tail);
    let (head, tail) = (head.bytes(), tail.bytes());
    out.reserve(head.len() + payload.len() as usize + tail.len());
    out.extend_from_slice(head);
    for chunk in payload.chunks() {
        if let Chunk::Bytes(bytes) = chunk {
            out.extend_from_slice(bytes);
        }
    }
    out.extend_from_slice(tail);
    true
}

/// Length of what [`render`] would write, without writing it.
pub fn size(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
    let cut = range(meta, cut);
    let mut count = Count::default();
    put(meta, &Payload::new(), hop, cut.as_ref(), &Accel::default(), &mut count);
    let tail = len_of_tail(meta, cut.as_ref());
    let payload = cut.map_or(meta.payload.len(), |range| range.end - range.start);
    (count.0 as u64).saturating_add(payload).saturating_add(u64::from(tail))
}
