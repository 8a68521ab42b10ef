//! Where a bundle ends among others, without reading more of it than that takes (RFC 5050 4).

use super::block::{block_flags, kind};
use super::primary::VERSION;
use crate::head::{MAX_EXTENSION_BLOCKS, MAX_HEAD_BYTES};
use farlink_base::{Malformed, Payload, PayloadReader, sdnv};

/// Why a bundle has no end.
const NO_END: &str = "no end of a bundle of version 6";

/// Length of the first complete bundle in the rope: as far as the block that says it is the last (RFC 5050 4.3). `None`
/// when that is not there yet. The bundle is not checked: [`super::read`] does that.
///
/// # Errors
/// It is no bundle of version 6, or has more blocks or longer ones than any that is read.
pub fn end(rope: &Payload) -> Result<Option<u64>, Malformed> {
    let mut reader = rope.reader();
    match walk(&mut reader) {
        Ok(()) => Ok(Some(reader.position())),
        Err(Walk::Short) => Ok(None),
        Err(Walk::Bad) => Err(Malformed { offset: reader.position(), reason: NO_END }),
    }
}

/// Why a walk did not come to the end.
enum Walk {
    Short,
    Bad,
}

fn walk(reader: &mut PayloadReader<'_>) -> Result<(), Walk> {
    if byte(reader)? != VERSION {
        return Err(Walk::Bad);
    }
    number(reader)?;
    let primary = number(reader)?;
    skip(reader, primary, MAX_HEAD_BYTES as u64)?;
    // The payload, and as many others as are read.
    for _ in 0..=MAX_EXTENSION_BLOCKS {
        let of = byte(reader)?;
        let flags = number(reader)?;
        if flags & block_flags::REFERENCES != 0 {
            // Two numbers each.
            let references = number(reader)?;
            if references > MAX_HEAD_BYTES as u64 {
                return Err(Walk::Bad);
            }
            for _ in 0..2 * references {
                number(reader)?;
            }
        }
        let most = if of == kind::PAYLOAD { u64::MAX } else { MAX_HEAD_BYTES as u64 };
        let length = number(reader)?;
        skip(reader, length, most)?;
        if flags & block_flags::LAST != 0 {
            return Ok(());
        }
    }
    Err(Walk::Bad)
}

fn byte(reader: &mut PayloadReader<'_>) -> Result<u8, Walk> {
    reader.read_u8().ok_or(Walk::Short)
}

/// An SDNV (RFC 6256).
fn number(reader: &mut PayloadReader<'_>) -> Result<u64, Walk> {
    let mut bytes = [0; sdnv::LEN_MAX];
    for at in 0..bytes.len() {
        bytes[at] = byte(reader)?;
        if bytes[at] < 0x80 {
            return sdnv::decode(&bytes[..=at]).map(|(value, _)| value).map_err(|_| Walk::Bad);
        }
    }
    Err(Walk::Bad)
}

fn skip(reader: &mut PayloadReader<'_>, bytes: u64, most: u64) -> Result<(), Walk> {
    if bytes > most {
        return Err(Walk::Bad);
    }
    if bytes > reader.remaining() {
        return Err(Walk::Short);
    }
    reader.skip(bytes);
    Ok(())
}
