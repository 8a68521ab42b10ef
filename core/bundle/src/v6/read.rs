//! Reading of bundles: whole ones from the wire or a store, and incomplete ones.

use super::facts::BlockSummary;
use super::head::{BundleHead, MAX_TAIL_BYTES};
use crate::Profile;
use crate::head::{HeadError, MAX_HEAD_BYTES, with_head};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Bytes, HopState, Malformed, Payload};

/// Bundle whose head has arrived.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Facts known so far; the payload is a placeholder of the right length.
    pub meta: BundleMeta,
    /// Hop state from the head's blocks.
    pub hop: HopState,
    /// Offset of the payload's first byte in the bundle.
    pub payload_at: u64,
    /// Length of the payload, bytes. Up to [`MAX_TAIL_BYTES`] of blocks may follow it.
    pub payload_len: u64,
}

/// Parses the received prefix of a bundle up to its payload's first byte; `None` while more bytes are needed. All rules
/// are checked except those of the blocks after the payload.
///
/// # Errors
/// Violation of the standard, with its offset; more bytes cannot help.
pub fn begin(prefix: &Payload, profile: Profile) -> Result<Option<Begun>, Malformed> {
    let begun = with_head(prefix, |bytes| {
        let mut found = BlockSummary::default();
        let head = BundleHead::parse(bytes, profile, &mut |block, _| found.block(&block, false))?;
        let (payload_at, payload_len) = (head.data as u64, head.data_len);
        // Leave room for the blocks that follow, so that sums of lengths cannot overflow.
        if payload_at.checked_add(payload_len).and_then(|end| end.checked_add(1 << 16)).is_none() {
            return Err(HeadError::Bad(Malformed { offset: payload_at, reason: "a payload beyond 64 bits of length" }));
        }
        let before = &bytes[..head.data];
        let (meta, hop) = found.into_meta(head, before, &[], Payload::fill(0, payload_len));
        Ok(Begun { meta, hop, payload_at, payload_len })
    });
    match begun {
        Ok(begun) => Ok(Some(begun)),
        Err(HeadError::Short(_)) => Ok(None),
        Err(HeadError::Bad(error)) => Err(error),
    }
}

/// Splits a rope that holds the whole bundle into the payload and all bytes after it.
pub(super) fn split(rope: &Payload, head: &BundleHead) -> Result<(Payload, Vec<u8>), Malformed> {
    let end = (head.data as u64).checked_add(head.data_len).filter(|end| *end <= rope.len());
    let Some(end) = end else {
        return Err(Malformed { offset: rope.len(), reason: "the payload is longer than the received bytes" });
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

/// Parses one whole bundle (RFC 5050 5.6). The payload becomes a sub-rope of `rope`; all bytes around it are copied.
/// Unknown blocks are discarded if their flags demand it, else kept and marked as unprocessed;
/// [`BundleMeta::duties`] holds the processing they demand.
///
/// # Errors
/// Violation of the standard, with its offset.
pub fn read(rope: &Payload, profile: Profile) -> Result<(BundleMeta, HopState), Malformed> {
    with_head(rope, |bytes| {
        let mut found = BlockSummary::default();
        let head = BundleHead::parse(bytes, profile, &mut |block, _| found.block(&block, false))?;
        let (payload, after) = split(rope, &head)?;
        Ok(finish(head, found, bytes, payload, &after, profile)?)
    })
    .map_err(HeadError::error)
}

/// Parses the blocks after the payload and builds the bundle.
fn finish(
    mut head: BundleHead,
    mut found: BlockSummary,
    bytes: &[u8],
    payload: Payload,
    after: &[u8],
    profile: Profile,
) -> Result<(BundleMeta, HopState), Malformed> {
    head.parse_after(bytes, after, profile, &mut |block, _| found.block(&block, true)).map_err(HeadError::error)?;
    let before = &bytes[..head.data];
    Ok(found.into_meta(head, before, after, payload))
}

/// Parses a bundle from the parts kept by a store: [`head`], the payload, which may be on disk, and [`tail`].
///
/// # Errors
/// Violation of the standard, with its offset, or parts that do not belong together.
pub fn read_parts(
    head: &Bytes,
    payload: Payload,
    tail: &Bytes,
    profile: Profile,
) -> Result<(BundleMeta, HopState), Malformed> {
    let mut found = BlockSummary::default();
    let parsed =
        BundleHead::parse(head, profile, &mut |block, _| found.block(&block, false)).map_err(HeadError::error)?;
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

/// All bytes before the payload. A store keeps these, the payload and [`tail`].
pub fn head(meta: &BundleMeta) -> &[u8] {
    around(meta).0
}
/// Encoded blocks after the payload.
pub fn tail(meta: &BundleMeta) -> Bytes {
    Bytes::copy_from_slice(around(meta).1)
}
/// Encoded bytes before and after the payload.
pub(super) fn around(meta: &BundleMeta) -> (&[u8], &[u8]) {
    let split = meta.head.len().saturating_sub(meta.tail as usize);
    meta.head.split_at(split)
}
