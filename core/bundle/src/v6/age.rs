//! Age of an encoded bundle that waits to leave.

use super::block::{Meaning, age_data, put_block};
use super::head::BundleHead;
use crate::Profile;
use crate::head::{spliced, with_head};
use alloc::vec::Vec;
use farlink_base::Payload;

/// Replaces the age `was` with `is` (both in ms) in the first bytes of an encoded bundle. `None` if these bytes have no
/// age block with the age `was`.
pub fn restamp(bundle: &Payload, was: u64, is: u64) -> Option<Payload> {
    let (at, flags) = with_head(bundle, |head| {
        let mut found = None;
        BundleHead::parse(head, Profile::Permissive, &mut |block, _| {
            if matches!(block.meaning, Meaning::Age(age_us) if age_us / 1000 == was) && found.is_none() {
                found = Some((block.span, block.start.flags));
            }
        })?;
        Ok(found)
    })
    .ok()
    .flatten()?;
    let mut aged = Vec::with_capacity(16);
    put_block(super::kind::AGE, flags, &age_data(is), &mut aged);
    Some(spliced(bundle, at, &aged))
}
