//! Encoding of a bundle that leaves (RFC 9171 5.4), whole or as a fragment (5.8).

use super::facts::{crc_of, put_tail, tail_len};
use super::rewrite::{Guards, PayloadShape, PrimaryShape, put_head};
use crate::cbor::{ByteSink, Count};
use crate::check::PayloadCheck;
use crate::put::Short;
use crate::{CrcType, Encoded};
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{Accel, BundleMeta, Bytes, BytesMut, Chunk, Facts, FragmentInfo, HopState, Payload};

/// Range of the payload that `cut` selects; `None` for all of it, which is no fragment.
fn range(meta: &BundleMeta, cut: Option<Range<u64>>) -> Option<Range<u64>> {
    let len = meta.payload.len();
    let cut = cut?;
    let (start, end) = (cut.start.min(len), cut.end.min(len));
    (start > 0 || end < len).then_some(start..end.max(start))
}

/// CRC type of the payload block as it leaves.
fn payload_crc(meta: &BundleMeta, hop: &HopState) -> CrcType {
    let own = crc_of(meta.tail_len);
    match hop.crc.filter(|crc| crc.all && crc.kind != own) {
        // Security blocks are searched for only where a CRC would be added.
        Some(crc) if own != CrcType::None || !Guards::of(&meta.head).cover(1) => crc.kind,
        _ => own,
    }
}

/// Whether the payload block of the whole bundle leaves with a new CRC. To compute it, the payload must be in memory,
/// or be read once ([`PendingFragment::pass`]).
pub fn computes_crc(meta: &BundleMeta, hop: &HopState) -> bool {
    let crc = payload_crc(meta, hop);
    crc != CrcType::None && crc != crc_of(meta.tail_len)
}

/// Shape of a payload block that is encoded afresh: that of a fragment, or of a whole bundle with another CRC. `None`:
/// it stays as it is.
fn shape(meta: &BundleMeta, hop: &HopState, range: Option<&Range<u64>>) -> Option<PayloadShape> {
    let crc = payload_crc(meta, hop);
    match range {
        Some(range) => Some(fragment(meta, range, crc)),
        None if crc == crc_of(meta.tail_len) => None,
        None => {
            let len = meta.payload.len();
            Some(PayloadShape { primary: PrimaryShape::Same, len, crc, all_blocks: true, age: false })
        }
    }
}

/// Fragment that holds this range of the payload. Offsets refer to the original bundle, of which this one may itself be
/// a fragment.
// 9171-4.3.1-10, 9171-4.3.1-12, 9171-5.8-1, 9171-5.8-2, 9171-5.8-3, 9171-5.8-4, 9171-5.8-6, 9172-5.2-1
fn fragment(meta: &BundleMeta, range: &Range<u64>, crc: CrcType) -> PayloadShape {
    let own = meta.fragment().unwrap_or(FragmentInfo { offset: 0, total: meta.payload.len() });
    let place = FragmentInfo { offset: own.offset.saturating_add(range.start), total: own.total };
    PayloadShape {
        primary: PrimaryShape::Fragment(place),
        len: range.end - range.start,
        crc,
        // Blocks not marked for replication go with the fragment at the bundle's beginning (RFC 9171 5.8).
        all_blocks: range.start == 0,
        // Without creation time a fragment needs an age to expire by (RFC 9171 4.4.2).
        age: meta.created_ms == 0,
    }
}

/// Whether the source violated RFC 9171 4.4.2: no creation time and no age block. The block is then added here.
fn lacks_age(meta: &BundleMeta) -> bool {
    meta.created_ms == 0 && !meta.facts.has(Facts::AGE)
}

/// Appends the head; returns the CRC value of the payload block, and the length of the bytes after the payload.
fn put(
    meta: &BundleMeta,
    payload: &Payload,
    hop: &HopState,
    range: Option<&Range<u64>>,
    accel: &Accel,
    out: &mut impl ByteSink,
) -> (u32, u8) {
    let shape = shape(meta, hop, range);
    let block = put_head(meta, Some(hop), lacks_age(meta), shape.as_ref(), accel, out);
    let len = len_of_tail(meta, shape.as_ref());
    match (shape, block) {
        (Some(shape), Ok(block)) => {
            (PayloadCheck::of(shape.crc, out.since(block), payload, accel).value().unwrap_or(0), len)
        }
        _ => (meta.tail, len),
    }
}

/// Length of the bytes after the payload. A block that is encoded afresh is of definite length.
fn len_of_tail(meta: &BundleMeta, shape: Option<&PayloadShape>) -> u8 {
    shape.map_or(meta.tail_len, |shape| tail_len(shape.crc, false))
}

/// Encodes the bundle as it leaves. Previous node, age, hop count and labels come from `hop`, each in its block with
/// its own number, flags and CRC type. A null node, or no labels, removes the block. Missing blocks are added with the
/// CRC type of [`HopState::crc`], else of the primary block: previous node (RFC 9171 4.4.1), labels, mark of unvouched
/// bundles, and an age without creation time. All other blocks stay byte for byte, unless [`HopState::crc`] gives them
/// another CRC type.
///
/// `cut` selects a fragment with this range of the payload (RFC 9171 5.8); the whole range is no fragment. The CRC of a
/// fragment, like any new CRC ([`computes_crc`]), needs the payload bytes in memory; without them it is zero (simulated
/// payloads; see [`render_loaded`]). The caller decides whether a bundle may be fragmented.
///
/// Head and tail are written to `out`, which must be empty, and split off without a copy; the rest of its capacity
/// serves the next bundle.
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

/// [`render`] with the payload bytes given separately: all of them, or those of the range `cut`, loaded from a store.
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
    let (value, tail_len) = put(meta, &payload, hop, cut.as_ref(), accel, &mut short);
    out.extend_from_slice(short.bytes());
    let head = out.split().freeze();
    put_tail(value, tail_len, out);
    Encoded { head, payload, tail: out.split().freeze() }
}

/// Fragment, or whole bundle with a new CRC, that is being encoded. Its payload is not in memory; [`Self::pass`] gets
/// the bytes once, in order, for the CRC.
#[derive(Debug)]
pub struct PendingFragment {
    head: Bytes,
    tail_len: u8,
    /// Check that takes the bytes; `None` if the CRC value is known.
    check: Option<PayloadCheck>,
    value: u32,
}

/// Starts to encode the fragment, or whole bundle, with the range `cut` of the payload; needs no payload bytes yet. The
/// result equals that of [`render`].
pub fn piece(meta: &BundleMeta, hop: &HopState, cut: Range<u64>, accel: &Accel, out: &mut BytesMut) -> PendingFragment {
    let cut = range(meta, Some(cut));
    let shape = shape(meta, hop, cut.as_ref());
    let block = put_head(meta, Some(hop), lacks_age(meta), shape.as_ref(), accel, out);
    let tail_len = len_of_tail(meta, shape.as_ref());
    let check = match (shape, block) {
        (Some(shape), Ok(block)) if shape.crc != CrcType::None => {
            Some(PayloadCheck::new((shape.crc, false), out.since(block), 0, shape.len, accel))
        }
        _ => None,
    };
    PendingFragment { head: out.split().freeze(), tail_len, check, value: meta.tail }
}

impl PendingFragment {
    /// Whether payload bytes are still needed.
    pub fn wants_bytes(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.remaining() > 0)
    }
    /// Takes the next payload bytes, which are in memory.
    pub fn pass(&mut self, part: &Payload) {
        if let Some(check) = &mut self.check {
            check.update_rope(part);
        }
    }
    /// Finishes the fragment around its payload, wherever that is stored.
    pub fn finish(self, payload: Payload) -> Encoded {
        let value = self.check.map_or(self.value, |check| check.value().unwrap_or(0));
        let mut tail = Vec::with_capacity(8);
        put_tail(value, self.tail_len, &mut tail);
        Encoded { head: self.head, payload, tail: Bytes::from(tail) }
    }
}

/// [`render`] in one piece at the end of `out`, so that small bundles share a buffer. Returns false, and appends
/// nothing, if the payload is not in memory.
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
    let (value, tail_len) = put(meta, payload, hop, cut.as_ref(), accel, &mut head);
    put_tail(value, tail_len, &mut tail);
    let (head, tail) = (head.bytes(), tail.bytes());
    // One allocation instead of one per chunk.
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

/// Length of the output of [`render`], without encoding it.
pub fn size(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64 {
    let cut = range(meta, cut);
    let mut count = Count::default();
    let (_, tail) = put(meta, &Payload::new(), hop, cut.as_ref(), &Accel::default(), &mut count);
    let payload = cut.map_or(meta.payload.len(), |range| range.end - range.start);
    (count.0 as u64).saturating_add(payload).saturating_add(u64::from(tail))
}
