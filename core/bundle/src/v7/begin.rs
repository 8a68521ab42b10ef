//! Bundles of which the head has arrived, but not yet the payload.

use super::facts::BlockSummary;
use crate::check::PayloadCheck;
use crate::head::{BundleHead, HeadError, with_head};
use crate::{CrcType, Profile};
use farlink_base::{Accel, BundleMeta, HopState, Malformed, Payload};

/// Bundle whose head has arrived.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Facts known so far; the payload is a placeholder of the right length, and the CRC in `tail` is 0.
    pub meta: BundleMeta,
    /// Hop state from the head's blocks.
    pub hop: HopState,
    /// Offset of the payload's first byte in the bundle. [`BundleMeta::tail_len`] bytes follow the payload.
    pub payload_at: u64,
    /// Length of the payload, bytes.
    pub payload_len: u64,
    /// Check that takes the payload's bytes as they arrive, then the bytes after it.
    pub check: PayloadCheck,
    /// Whether the bundle has BPSec blocks, which cannot be verified on a part of it.
    pub guarded: bool,
    /// Whether the primary block has a CRC: then the bundle's identity is certain even if the rest is damaged.
    pub named: bool,
}

impl Begun {
    /// Completes the bundle with its payload and the `tail` from [`PayloadCheck::finish`].
    pub fn complete(self, payload: Payload, tail: u32) -> (BundleMeta, HopState) {
        debug_assert_eq!(payload.len(), self.payload_len);
        (BundleMeta { payload, tail, ..self.meta }, self.hop)
    }
}

/// Parses the received prefix of a bundle up to its payload's first byte; `None` while more bytes are needed. All rules
/// are checked except the payload's CRC and the bytes after it.
///
/// # Errors
/// Violation of the standard, with its offset; more bytes cannot help.
pub fn begin(prefix: &Payload, profile: Profile, accel: &Accel) -> Result<Option<Begun>, Malformed> {
    let begun = with_head(prefix, |bytes| {
        let mut found = BlockSummary::default();
        let head = BundleHead::parse(bytes, profile, accel, &mut |block| found.block(block))?;
        let (payload_at, payload_len) = (head.data as u64, head.data_len);
        // Leave room for the bytes that follow, so that sums of lengths cannot overflow.
        if payload_at.checked_add(payload_len).and_then(|end| end.checked_add(64)).is_none() {
            return Err(HeadError::Bad(Malformed { offset: payload_at, reason: "a payload beyond 64 bits of length" }));
        }
        let (check, guarded) = (head.check(bytes, accel), found.guarded);
        let named = head.primary.crc != CrcType::None;
        let outline = head.outline(bytes, &found);
        let (meta, hop) = found.into_meta(outline, Payload::fill(0, payload_len), 0);
        Ok(Begun { meta, hop, payload_at, payload_len, check, guarded, named })
    });
    match begun {
        Ok(begun) => Ok(Some(begun)),
        Err(HeadError::Short(_)) => Ok(None),
        Err(HeadError::Bad(error)) => Err(error),
    }
}
