//! Frames of MTCP (draft-ietf-dtn-mtcpcl-01, as dtn7-rs, dtn7-go and uD3TN implement it): each bundle is a CBOR byte
//! string (RFC 8949 3.1, major type 2) of definite length; an empty one is a keepalive.

use alloc::vec::Vec;
use farlink_base::PayloadReader;

/// Longest bundle that a frame can carry, bytes. Heads could hold more, but no node holds such a bundle.
pub(super) const LONGEST: u64 = 1 << 50;
/// Major type 2 in the upper three bits of a head (RFC 8949 3).
const BYTE_STRING: u8 = 2 << 5;

/// Reads the head of a frame; `None` if it is truncated, and the reader has not moved. Heads longer than necessary are
/// accepted, because RFC 8949 3.1 leaves their length to the sender.
///
/// # Errors
///
/// The reason why the head is malformed.
pub(super) fn read_head(reader: &mut PayloadReader<'_>) -> Result<Option<u64>, &'static str> {
    let mut ahead = reader.clone();
    let Some(first) = ahead.read_u8() else { return Ok(None) };
    if first & 0xe0 != BYTE_STRING {
        return Err("not a CBOR byte string");
    }
    let bytes = match first & 0x1f {
        small @ 0..24 => {
            *reader = ahead;
            return Ok(Some(small.into()));
        }
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        31 => return Err("a byte string of indefinite length"),
        _ => return Err("a byte string with a reserved length"),
    };
    let mut len = [0; 8];
    if !ahead.read_exact(&mut len[8 - bytes..]) {
        return Ok(None);
    }
    *reader = ahead;
    Ok(Some(u64::from_be_bytes(len)))
}
/// Appends the head of a frame in its shortest form.
pub(super) fn put_head(out: &mut Vec<u8>, len: u64) {
    let bytes = len.to_be_bytes();
    let (more, used) = match len {
        0..24 => return out.push(BYTE_STRING | bytes[7]),
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    out.push(BYTE_STRING | more);
    out.extend_from_slice(&bytes[8 - used..]);
}
