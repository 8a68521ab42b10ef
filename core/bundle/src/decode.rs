//! From bytes to a [`Bundle`] (RFC 9171 4).

use crate::{Bundle, Profile};
use farlink_base::{Accel, Bytes, Malformed, Payload};

/// Reads one whole bundle. The payload becomes a sub-rope of `rope` and is not copied.
pub fn decode(rope: &Payload, profile: Profile, accel: &Accel) -> Result<Bundle, Malformed> {
    let _ = (rope, profile, accel);
    Err(Malformed { offset: 0, reason: "a bundle" })
}

/// Reads a bundle back from the three parts [`Bundle::encode`] made of it.
pub fn decode_parts(
    head: &Bytes,
    payload: Payload,
    tail: &Bytes,
    profile: Profile,
    accel: &Accel,
) -> Result<Bundle, Malformed> {
    let mut rope = Payload::from(head.clone());
    rope.append(payload);
    rope.push_bytes(tail.clone());
    decode(&rope, profile, accel)
}

/// Length of the first complete bundle in the rope; `None` when its end is not there yet.
pub fn decode_prefix(rope: &Payload) -> Result<Option<u64>, Malformed> {
    let _ = rope;
    Ok(None)
}
