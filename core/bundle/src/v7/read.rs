//! Reading of whole bundles, from the wire and from a store.

use super::facts::{BlockSummary, Outline, put_tail, tail_len};
use crate::Profile;
use crate::head::{BundleHead, HeadError, with_head};
use alloc::vec::Vec;
use farlink_base::{Accel, BundleMeta, Bytes, HopState, Malformed, Payload};

impl BundleHead {
    /// Copies the head's bytes without the blocks to be discarded.
    pub(super) fn outline(self, bytes: &[u8], found: &BlockSummary) -> Outline {
        let head = found.keep(&bytes[..self.data]);
        let primary_end = u16::try_from(self.primary_end).unwrap_or(0);
        Outline { primary: self.primary, primary_end, head, tail_len: tail_len(self.payload_crc, self.payload_open) }
    }
}

/// Parses one whole bundle (RFC 9171 5.6). The payload becomes a sub-rope of `rope`; the bytes before it are copied. If
/// part of the payload is not in memory, its CRC is trusted unchecked. Unknown blocks are discarded if their flags
/// demand it, else kept; [`BundleMeta::duties`] holds the processing they demand.
///
/// # Errors
/// Violation of the standard, with its offset.
pub fn read(rope: &Payload, profile: Profile, accel: &Accel) -> Result<(BundleMeta, HopState), Malformed> {
    with_head(rope, |bytes| {
        let mut found = BlockSummary::default();
        let head = BundleHead::parse(bytes, profile, accel, &mut |block| found.block(block))?;
        let (payload, tail) = head.payload(rope, bytes, accel)?;
        let outline = head.outline(bytes, &found);
        Ok(found.into_meta(outline, payload, tail))
    })
    .map_err(HeadError::error)
}

/// Parses a bundle from the parts kept by a store: [`BundleMeta::head`], the payload, which may be on disk, and
/// [`tail`].
///
/// # Errors
/// Violation of the standard, with its offset, or parts that do not belong together.
pub fn read_parts(
    head: &Bytes,
    payload: Payload,
    tail: &Bytes,
    profile: Profile,
    accel: &Accel,
) -> Result<(BundleMeta, HopState), Malformed> {
    let mut found = BlockSummary::default();
    let parsed = BundleHead::parse(head, profile, accel, &mut |block| found.block(block)).map_err(HeadError::error)?;
    if parsed.data != head.len() {
        return Err(Malformed { offset: parsed.data as u64, reason: "bytes between the head and the payload" });
    }
    let mut check = parsed.check(head, accel);
    check.update_rope(&payload);
    let value = check.finish(tail)?;
    let outline = parsed.outline(head, &found);
    Ok(found.into_meta(outline, payload, value))
}

/// Bytes after the payload, as received. A store keeps these, [`BundleMeta::head`] and the payload.
pub fn tail(meta: &BundleMeta) -> Bytes {
    let mut out = Vec::with_capacity(usize::from(meta.tail_len));
    put_tail(meta.tail, meta.tail_len, &mut out);
    Bytes::from(out)
}
