//! Subset of CBOR (RFC 8949) for extension maps and announcements, read from ropes. Nothing is allocated, nesting is
//! bounded, and skipping an item takes no more steps than it has bytes.

use alloc::vec::Vec;
use farlink_base::{Payload, PayloadReader};

pub(crate) const UINT: u8 = 0;
/// Negative integer; its value is -1 less the value of the head.
pub(crate) const NEGATIVE: u8 = 1;
pub(crate) const BYTES: u8 = 2;
pub(crate) const TEXT: u8 = 3;
pub(crate) const ARRAY: u8 = 4;
pub(crate) const MAP: u8 = 5;
/// Simple values and floating-point numbers.
const SIMPLE: u8 = 7;
/// Break code: ends an item of indefinite length.
const BREAK: u8 = 0xff;
/// Deepest nesting that is skipped.
const DEPTH_MAX: usize = 16;

/// Head of an item: its major type, and its value; `None` for an indefinite length.
pub(crate) type ItemHead = (u8, Option<u64>);

/// Peeks at the next byte.
pub(crate) fn peek(reader: &PayloadReader<'_>) -> Option<u8> {
    reader.clone().read_u8()
}

/// Reads a head; `None` if the bytes end or it is malformed.
pub(crate) fn head(reader: &mut PayloadReader<'_>) -> Option<ItemHead> {
    let first = reader.read_u8()?;
    let (major, info) = (first >> 5, first & 0x1f);
    let value = match info {
        0..=23 => u64::from(info),
        24..=27 => {
            let mut bytes = [0; 8];
            let width = 1usize << (info - 24);
            if !reader.read_exact(&mut bytes[8 - width..]) {
                return None;
            }
            u64::from_be_bytes(bytes)
        }
        31 if matches!(major, BYTES | TEXT | ARRAY | MAP) => return Some((major, None)),
        _ => return None,
    };
    Some((major, Some(value)))
}

/// Reads an unsigned integer; `None` for any other item.
pub(crate) fn uint(reader: &mut PayloadReader<'_>) -> Option<u64> {
    match head(reader)? {
        (UINT, value) => value,
        _ => None,
    }
}

/// Reads a string of this major type; `None` for any other item, or if it is truncated.
pub(crate) fn string(reader: &mut PayloadReader<'_>, major: u8) -> Option<Payload> {
    match head(reader)? {
        (found, Some(len)) if found == major => reader.take(len),
        _ => None,
    }
}

/// Consumes the next byte if it is a break code; returns whether it was one.
pub(crate) fn is_break(reader: &mut PayloadReader<'_>) -> bool {
    let found = peek(reader) == Some(BREAK);
    if found {
        reader.skip(1);
    }
    found
}

/// Skips an item; `None` if it is truncated or malformed.
pub(crate) fn skip(reader: &mut PayloadReader<'_>) -> Option<()> {
    skip_within(reader, DEPTH_MAX)
}

fn skip_within(reader: &mut PayloadReader<'_>, depth: usize) -> Option<()> {
    // Bounded nesting keeps hostile input from exhausting the stack.
    let depth = depth.checked_sub(1)?;
    match head(reader)? {
        (BYTES | TEXT, Some(len)) => {
            // Compare before skipping, so that a false length costs no work.
            if len > reader.remaining() {
                return None;
            }
            reader.skip(len);
        }
        // Chunks of an indefinite string are definite strings of the same type (RFC 8949 3.2.3).
        (major @ (BYTES | TEXT), None) => {
            while !is_break(reader) {
                string(reader, major)?;
            }
        }
        (ARRAY, Some(count)) => {
            for _ in 0..count {
                skip_within(reader, depth)?;
            }
        }
        (MAP, Some(count)) => {
            for _ in 0..count {
                skip_within(reader, depth)?;
                skip_within(reader, depth)?;
            }
        }
        (major @ (ARRAY | MAP), None) => {
            while !is_break(reader) {
                skip_within(reader, depth)?;
                if major == MAP {
                    skip_within(reader, depth)?;
                }
            }
        }
        (UINT | NEGATIVE | SIMPLE, Some(_)) => {}
        // A tag is followed by the item it applies to.
        (_, Some(_)) => skip_within(reader, depth)?,
        _ => return None,
    }
    Some(())
}

/// Length of a head with this value, bytes.
pub(crate) const fn head_len(value: u64) -> usize {
    match value {
        0..=23 => 1,
        24..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// Writes a head in its shortest form.
pub(crate) fn put(out: &mut Vec<u8>, major: u8, value: u64) {
    let bytes = value.to_be_bytes();
    let width = head_len(value) - 1;
    let info = match width {
        0 => value as u8,
        1 => 24,
        2 => 25,
        4 => 26,
        _ => 27,
    };
    out.push(major << 5 | info);
    out.extend_from_slice(&bytes[8 - width..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(bytes: &[u8]) -> Payload {
        // One-byte chunks: nothing may depend on where a rope is cut.
        let mut rope = Payload::new();
        bytes.iter().for_each(|byte| rope.append(Payload::from(alloc::vec![*byte])));
        rope
    }
    fn skipped(bytes: &[u8]) -> Option<u64> {
        let rope = rope(bytes);
        let mut reader = rope.reader();
        skip(&mut reader).map(|()| reader.position())
    }

    #[test]
    fn heads_round_trip() {
        for value in [0, 23, 24, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, ARRAY, value);
            assert_eq!(bytes.len(), head_len(value));
            let rope = rope(&bytes);
            assert_eq!(head(&mut rope.reader()), Some((ARRAY, Some(value))));
            for cut in 0..bytes.len() {
                assert_eq!(head(&mut rope.slice(0, cut as u64).reader()), None, "{value} cut to {cut} B");
            }
        }
        assert_eq!(head(&mut rope(&[0x1c]).reader()), None, "reserved");
        assert_eq!(head(&mut rope(&[0x1f]).reader()), None, "an integer has a length");
        assert_eq!(head(&mut rope(&[0x9f]).reader()), Some((ARRAY, None)));
    }

    #[test]
    fn skip_steps_over_one_item() {
        let items: &[&[u8]] = &[
            b"\x00",
            b"\x18\xff",
            b"\x39\x01\x00",
            b"\x43abc",
            b"\x5f\x41a\x42bc\xff",
            b"\x63abc",
            b"\x7f\x61a\xff",
            b"\x82\x01\x81\x02",
            b"\x9f\x01\x9f\xff\xff",
            b"\xa1\x01\x02",
            b"\xbf\x01\x02\xff",
            b"\xc1\x01",
            b"\xd8\x20\x61a",
            b"\xf6",
            b"\xf8\x20",
            b"\xfb\0\0\0\0\0\0\0\0",
        ];
        for item in items {
            let followed = [item, &b"\x01\x02"[..]].concat();
            assert_eq!(skipped(&followed), Some(item.len() as u64), "{item:02x?}");
            for cut in 0..item.len() {
                assert_eq!(skipped(&item[..cut]), None, "{item:02x?} cut to {cut} B");
            }
        }
        for none in [&b"\xff"[..], b"\x1c", b"\x5f\x61a\xff", b"\xbf\x01\xff", b"\xdf\x01"] {
            assert_eq!(skipped(none), None, "{none:02x?}");
        }
    }

    #[test]
    fn absurd_lengths_and_nesting_rejected() {
        assert_eq!(skipped(b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff"), None);
        assert_eq!(skipped(b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02"), None);
        assert_eq!(skipped(b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02"), None);
        assert_eq!(skipped(&[0x81; 60_000]), None);
        assert_eq!(skipped(&[0xc1; 60_000]), None);
        assert_eq!(skipped(&[&[0x81; 15][..], &[1]].concat()), Some(16));
    }
}
