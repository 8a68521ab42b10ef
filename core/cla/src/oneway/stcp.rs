//! The frames of STCP (draft-burleigh-dtn-stcp, as ION and HDTN speak it): the length of the bundle, 32 bits big-endian,
//! then the bundle. Length 0 is a keepalive.

use alloc::vec::Vec;
use farlink_base::PayloadReader;

/// Longest bundle a frame can hold, bytes.
pub(super) const LONGEST: u64 = u32::MAX as u64;

/// Reads the head of a frame; `None`, and nothing read, where it has not come whole.
pub(super) fn read_head(reader: &mut PayloadReader<'_>) -> Option<u64> {
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes).then(|| u32::from_be_bytes(bytes).into())
}
/// Appends the head of a frame; longer ones than [`LONGEST`] cannot be written.
pub(super) fn put_head(out: &mut Vec<u8>, len: u64) {
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
}
