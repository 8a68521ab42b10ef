//! The age of a bundle that is encoded and waits to leave.

use super::block::{Meaning, age_data, put_block};
use super::head::Head;
use crate::Profile;
use crate::head::{spliced, with_head};
use alloc::vec::Vec;
use farlink_base::Payload;

/// Writes another age, ms, into the first bytes of an encoded bundle. `None`: they have no age block of this age.
pub fn restamp(bundle: &Payload, was: u64, is: u64) -> Option<Payload> {
    let (at, flags) = with_head(bundle, |head| {
        let mut found = None;
        Head::parse(head, Profile::Permissive, &mut |block, _| {
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
