//! Bundles that are still coming: their facts are there before their payload is.

use super::facts::Found;
use crate::check::Check;
use crate::head::{Head, Stop, with_head};
use crate::{CrcType, Profile};
use farlink_base::{Accel, BundleMeta, HopState, Malformed, Payload};

/// A bundle whose head has come.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Its facts; the payload is a stand-in of the right length, the tail unknown.
    pub meta: BundleMeta,
    /// Its hop.
    pub hop: HopState,
    /// Offset of the payload's first byte in the bundle. What follows the payload has
    /// [`BundleMeta::tail_len`] bytes.
    pub payload_at: u64,
    /// Bytes of the payload.
    pub payload_len: u64,
    /// Takes the payload's bytes as they come, then what follows them.
    pub check: Check,
    /// Whether it has blocks of BPSec: who receives a part of it cannot check them.
    pub guarded: bool,
    /// Whether its primary block has a CRC: then it is this bundle, whatever is wrong with what follows.
    pub named: bool,
}

impl Begun {
    /// The bundle, when its payload has come and [`Check::finish`] gave `tail`.
    pub fn complete(self, payload: Payload, tail: u32) -> (BundleMeta, HopState) {
        debug_assert_eq!(payload.len(), self.payload_len);
        (BundleMeta { payload, tail, ..self.meta }, self.hop)
    }
}

/// Reads what has come of a bundle up to its payload's first byte; `None` while more bytes are
/// needed. All rules but those of the payload's CRC and of what follows it have been checked.
///
/// # Errors
/// What breaks the standard, and where: more bytes would not help.
pub fn begin(prefix: &Payload, profile: Profile, accel: &Accel) -> Result<Option<Begun>, Malformed> {
    let begun = with_head(prefix, |bytes| {
        let mut found = Found::default();
        let head = Head::parse(bytes, profile, accel, &mut |block| found.block(block))?;
        let (payload_at, payload_len) = (head.data as u64, head.data_len);
        // Room for what follows it, so that lengths can be added up without care.
        if payload_at.checked_add(payload_len).and_then(|end| end.checked_add(64)).is_none() {
            return Err(Stop::Bad(Malformed { offset: payload_at, reason: "a payload too long to exist" }));
        }
        let (check, guarded) = (head.check(bytes, accel), found.guarded);
        let named = head.primary.crc != CrcType::None;
        let outline = head.outline(bytes, &found);
        let (meta, hop) = found.into_meta(outline, Payload::fill(0, payload_len), 0);
        Ok(Begun { meta, hop, payload_at, payload_len, check, guarded, named })
    });
    match begun {
        Ok(begun) => Ok(Some(begun)),
        Err(Stop::Short(_)) => Ok(None),
        Err(Stop::Bad(error)) => Err(error),
    }
}
