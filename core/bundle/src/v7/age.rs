//! Age of an encoded bundle that waits to leave (RFC 9171 4.4.2, 5.4 step 4).

use crate::encode::put_block;
use crate::head::{BundleHead, spliced, with_head};
use crate::{BlockData, Profile};
use alloc::vec::Vec;
use farlink_base::{Accel, Payload};

/// Replaces the age `was` with `is` (both in ms) in the first bytes of an encoded bundle, and updates the block's CRC.
/// `None` if these bytes have no age block with the age `was`.
// 9171-5.4-9
pub fn restamp(bundle: &Payload, was: u64, is: u64) -> Option<Payload> {
    let accel = Accel::default();
    let (at, block) = with_head(bundle, |head| {
        let mut found = None;
        BundleHead::parse(head, Profile::Permissive, &accel, &mut |block| {
            if block.meaning == Some(BlockData::Age(was)) && found.is_none() {
                found = Some((block.span, block.fields));
            }
        })?;
        Ok(found)
    })
    .ok()
    .flatten()?;
    let mut aged = Vec::with_capacity(32);
    let fields = (block.kind, block.number, block.flags, block.crc);
    put_block(fields, &BlockData::Age(is), &mut aged, &accel);
    Some(spliced(bundle, at, &aged))
}
