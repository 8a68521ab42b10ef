//! End of a bundle in a stream of bundles, found with as little parsing as possible (RFC 5050 4).

use super::block::{block_flags, kind};
use super::primary::VERSION;
use crate::head::{MAX_EXTENSION_BLOCKS, MAX_HEAD_BYTES};
use farlink_base::{Malformed, Payload, PayloadReader, sdnv};

/// Reason of a missing end.
const NO_END: &str = "no end of a bundle of version 6";

/// Length of the first complete bundle in the rope, up to the block flagged as the last (RFC 5050 4.3). `None` if that
/// has not arrived. The bundle is not checked: [`super::read`] does that.
///
/// # Errors
/// Not a bundle of version 6, or one with more or longer blocks than a reader accepts.
pub fn end(rope: &Payload) -> Result<Option<u64>, Malformed> {
    let mut reader = rope.reader();
    match walk(&mut reader) {
        Ok(()) => Ok(Some(reader.position())),
        Err(EndError::Short) => Ok(None),
        Err(EndError::Bad) => Err(Malformed { offset: reader.position(), reason: NO_END }),
    }
}

/// Reason for stopping before the end.
enum EndError {
    Short,
    Bad,
}

fn walk(reader: &mut PayloadReader<'_>) -> Result<(), EndError> {
    if byte(reader)? != VERSION {
        return Err(EndError::Bad);
    }
    number(reader)?;
    let primary = number(reader)?;
    skip(reader, primary, MAX_HEAD_BYTES as u64)?;
    // A reader accepts the payload block and `MAX_EXTENSION_BLOCKS` others.
    for _ in 0..=MAX_EXTENSION_BLOCKS {
        let of = byte(reader)?;
        let flags = number(reader)?;
        if flags & block_flags::REFERENCES != 0 {
            // A reference is a pair of numbers.
            let references = number(reader)?;
            // Each reference takes at least two bytes, so a head cannot hold more of them.
            if references > MAX_HEAD_BYTES as u64 {
                return Err(EndError::Bad);
            }
            for _ in 0..2 * references {
                number(reader)?;
            }
        }
        // Only the payload may be longer than `MAX_HEAD_BYTES`.
        let most = if of == kind::PAYLOAD { u64::MAX } else { MAX_HEAD_BYTES as u64 };
        let length = number(reader)?;
        skip(reader, length, most)?;
        if flags & block_flags::LAST != 0 {
            return Ok(());
        }
    }
    Err(EndError::Bad)
}

fn byte(reader: &mut PayloadReader<'_>) -> Result<u8, EndError> {
    reader.read_u8().ok_or(EndError::Short)
}

/// Reads an SDNV (RFC 6256).
fn number(reader: &mut PayloadReader<'_>) -> Result<u64, EndError> {
    let mut bytes = [0; sdnv::LEN_MAX];
    for at in 0..bytes.len() {
        bytes[at] = byte(reader)?;
        if bytes[at] < 0x80 {
            return sdnv::decode(&bytes[..=at]).map(|(value, _)| value).map_err(|_| EndError::Bad);
        }
    }
    Err(EndError::Bad)
}

fn skip(reader: &mut PayloadReader<'_>, bytes: u64, most: u64) -> Result<(), EndError> {
    if bytes > most {
        return Err(EndError::Bad);
    }
    if bytes > reader.remaining() {
        return Err(EndError::Short);
    }
    reader.skip(bytes);
    Ok(())
}
