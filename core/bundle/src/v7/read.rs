//! Whole bundles, from the wire and from a store.

use super::facts::{Found, Outline, put_tail, tail_len};
use crate::Profile;
use crate::head::{Head, Stop, with_head};
use alloc::vec::Vec;
use farlink_base::{Accel, BundleMeta, Bytes, HopState, Malformed, Payload};

impl Head {
    /// Leaves the bytes behind: keeps a copy of the head without blocks to be discarded.
    pub(super) fn outline(self, bytes: &[u8], found: &Found) -> Outline {
        let head = found.keep(&bytes[..self.data]);
        let primary_end = u16::try_from(self.primary_end).unwrap_or(0);
        Outline { primary: self.primary, primary_end, head, tail_len: tail_len(self.payload_crc, self.payload_open) }
    }
}

/// Reads one whole bundle (RFC 9171 5.6): the payload becomes a sub-rope of `rope`, everything before
/// it is copied. Where part of the payload is not in memory, its CRC is taken on trust. Unknown
/// blocks that ask to be discarded are gone; the others stay, and
/// [`BundleMeta::duties`] says what they ask for.
///
/// # Errors
/// What breaks the standard, and where.
pub fn read(rope: &Payload, profile: Profile, accel: &Accel) -> Result<(BundleMeta, HopState), Malformed> {
    with_head(rope, |bytes| {
        let mut found = Found::default();
        let head = Head::parse(bytes, profile, accel, &mut |block| found.block(block))?;
        let (payload, tail) = head.payload(rope, bytes, accel)?;
        let outline = head.outline(bytes, &found);
        Ok(found.into_meta(outline, payload, tail))
    })
    .map_err(Stop::error)
}

/// Reads a bundle back from the parts a store kept: [`BundleMeta::head`], the payload, which may be
/// on disk, and [`tail`].
///
/// # Errors
/// What breaks the standard, and where; parts that do not belong together.
pub fn read_parts(
    head: &Bytes,
    payload: Payload,
    tail: &Bytes,
    profile: Profile,
    accel: &Accel,
) -> Result<(BundleMeta, HopState), Malformed> {
    let mut found = Found::default();
    let parsed = Head::parse(head, profile, accel, &mut |block| found.block(block)).map_err(Stop::error)?;
    if parsed.data != head.len() {
        return Err(Malformed { offset: parsed.data as u64, reason: "bytes between the head and the payload" });
    }
    let mut check = parsed.check(head, accel);
    check.update_rope(&payload);
    let value = check.finish(tail)?;
    let outline = parsed.outline(head, &found);
    Ok(found.into_meta(outline, payload, value))
}

/// What follows the payload as it came: with [`BundleMeta::head`] and the payload, all a store keeps.
pub fn tail(meta: &BundleMeta) -> Bytes {
    let mut out = Vec::with_capacity(usize::from(meta.tail_len));
    put_tail(meta.tail, meta.tail_len, &mut out);
    Bytes::from(out)
}
