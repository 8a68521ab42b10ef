//! Frames of STCP (draft-burleigh-dtn-stcp, as ION and HDTN implement it): the length of the bundle in 32 bits,
//! big-endian, then the bundle. Length 0 is a keepalive.

use alloc::vec::Vec;
use farlink_base::PayloadReader;

/// Longest bundle that a frame can carry, bytes.
pub(super) const LONGEST: u64 = u32::MAX as u64;

/// Reads the head of a frame; `None` if it is truncated, and the reader has not moved.
pub(super) fn read_head(reader: &mut PayloadReader<'_>) -> Option<u64> {
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes).then(|| u32::from_be_bytes(bytes).into())
}
/// Appends the head of a frame; lengths above [`LONGEST`] are capped.
pub(super) fn put_head(out: &mut Vec<u8>, len: u64) {
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
}
