//! Whole bundles, from the wire and from a store; and those that are still coming.

use super::facts::Found;
use super::head::{Head, MAX_TAIL_BYTES};
use crate::Profile;
use crate::head::{MAX_HEAD_BYTES, Stop, with_head};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, HopState, Malformed, Payload};

/// A bundle whose head has come.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Its facts as far as they are known; the payload is a stand-in of the right length.
    pub meta: BundleMeta,
    /// Its hop.
    pub hop: HopState,
    /// Offset of the payload's first byte in the bundle.
    pub payload_at: u64,
    /// Bytes of the payload. Blocks may follow it, up to [`MAX_TAIL_BYTES`].
    pub payload_len: u64,
}

/// Reads what has come of a bundle up to its payload's first byte; `None` while more bytes are needed. All rules have
/// been checked but those of the blocks after the payload.
///
/// # Errors
/// What breaks the standard, and where: more bytes would not help.
pub fn begin(prefix: &Payload, profile: Profile) -> Result<Option<Begun>, Malformed> {
    let begun = with_head(prefix, |bytes| {
        let mut found = Found::default();
        let head = Head::parse(bytes, profile, &mut |block, _| found.block(&block, false))?;
        let (payload_at, payload_len) = (head.data as u64, head.data_len);
        // Room for what follows it, so that lengths can be added up without care.
        if payload_at.checked_add(payload_len).and_then(|end| end.checked_add(1 << 16)).is_none() {
            return Err(Stop::Bad(Malformed { offset: payload_at, reason: "a payload too long to exist" }));
        }
        let before = &bytes[..head.data];
        let (meta, hop) = found.into_meta(head, before, &[], Payload::fill(0, payload_len));
        Ok(Begun { meta, hop, payload_at, payload_len })
    });
    match begun {
        Ok(begun) => Ok(Some(begun)),
        Err(Stop::Short(_)) => Ok(None),
        Err(Stop::Bad(error)) => Err(error),
    }
}

/// The payload in a rope that holds the whole bundle, and everything after it.
pub(super) fn split(rope: &Payload, head: &Head) -> Result<(Payload, Vec<u8>), Malformed> {
    let end = (head.data as u64).checked_add(head.data_len).filter(|end| *end <= rope.len());
    let Some(end) = end else {
        return Err(Malformed { offset: rope.len(), reason: "the payload is longer than the bytes that came" });
    };
    let len = rope.len() - end;
    if len > MAX_TAIL_BYTES as u64 {
        return Err(Malformed { offset: end, reason: "the blocks after the payload are longer than 4 KiB" });
    }
    let mut after = alloc::vec![0; len as usize];
    if rope.copy_to(end, &mut after) < after.len() {
        return Err(Malformed { offset: end, reason: "the blocks after the payload are not in memory" });
    }
    Ok((rope.slice(head.data as u64, head.data_len), after))
}

/// Reads one whole bundle (RFC 5050 5.6): the payload becomes a sub-rope of `rope`, everything around it is copied.
/// Unknown blocks that ask to be discarded are gone; the others stay, marked as not processed, and
/// [`BundleMeta::duties`] says what they ask for.
///
/// # Errors
/// What breaks the standard, and where.
pub fn read(rope: &Payload, profile: Profile) -> Result<(BundleMeta, HopState), Malformed> {
    with_head(rope, |bytes| {
        let mut found = Found::default();
        let head = Head::parse(bytes, profile, &mut |block, _| found.block(&block, false))?;
        let (payload, after) = split(rope, &head)?;
        Ok(finish(head, found, bytes, payload, &after, profile)?)
    })
    .map_err(Stop::error)
}

/// Reads the blocks after the payload and closes the bundle.
fn finish(
    mut head: Head,
    mut found: Found,
    bytes: &[u8],
    payload: Payload,
    after: &[u8],
    profile: Profile,
) -> Result<(BundleMeta, HopState), Malformed> {
    head.parse_after(bytes, after, profile, &mut |block, _| found.block(&block, true)).map_err(Stop::error)?;
    let before = &bytes[..head.data];
    Ok(found.into_meta(head, before, after, payload))
}

/// Reads a bundle back from the parts a store kept: [`head`], the payload, which may be on disk, and [`tail`].
///
/// # Errors
/// What breaks the standard, and where; parts that do not belong together.
pub fn read_parts(
    head: &Bytes,
    payload: Payload,
    tail: &Bytes,
    profile: Profile,
) -> Result<(BundleMeta, HopState), Malformed> {
    let mut found = Found::default();
    let parsed = Head::parse(head, profile, &mut |block, _| found.block(&block, false)).map_err(Stop::error)?;
    if parsed.data != head.len() || head.len() > MAX_HEAD_BYTES {
        return Err(Malformed { offset: parsed.data as u64, reason: "bytes between the head and the payload" });
    }
    if parsed.data_len != payload.len() {
        let offset = parsed.data as u64;
        return Err(Malformed { offset, reason: "the payload is not as long as its block says" });
    }
    if tail.len() > MAX_TAIL_BYTES {
        let offset = (head.len() as u64).saturating_add(payload.len());
        return Err(Malformed { offset, reason: "the blocks after the payload are longer than 4 KiB" });
    }
    finish(parsed, found, head, payload, tail, profile)
}

/// Everything before the payload's bytes: with the payload and [`tail`], all a store keeps.
pub fn head(meta: &BundleMeta) -> &[u8] {
    around(meta).0
}
/// The blocks after the payload.
pub fn tail(meta: &BundleMeta) -> Bytes {
    Bytes::copy_from_slice(around(meta).1)
}
/// Both.
pub(super) fn around(meta: &BundleMeta) -> (&[u8], &[u8]) {
    let split = meta.head.len().saturating_sub(meta.tail as usize);
    meta.head.split_at(split)
}
