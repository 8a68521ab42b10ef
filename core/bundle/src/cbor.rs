//! The subset of CBOR (RFC 8949) that bundles need: fields are read in place, nothing is allocated, nesting is bounded.

pub use crate::put::{ByteSink, Count, head_len, put_bytes, put_head, put_uint};
use farlink_base::{Malformed, PayloadReader};

/// Maximum nesting of an item that is skipped as a whole; more is an error. A bundle needs five levels.
pub(crate) const MAX_DEPTH: usize = 16;

/// Major type of unsigned integers.
pub const UINT: u8 = 0;
/// Major type of byte strings.
pub const BYTES: u8 = 2;
/// Major type of text strings.
pub const TEXT: u8 = 3;
/// Major type of arrays.
pub const ARRAY: u8 = 4;
/// Head of an array of indefinite length.
const OPEN_ARRAY: u8 = ARRAY << 5 | 31;
/// Break: ends an item of indefinite length; also the last byte of a bundle.
pub const BREAK: u8 = 0xff;

/// Cursor that reads CBOR items from a slice.
#[derive(Clone, Debug)]
pub struct CborReader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Offset of the slice in the decoded object, for error messages.
    base: u64,
    strict: bool,
    short: bool,
    lax: bool,
}

impl<'a> CborReader<'a> {
    /// Creates a reader at the start of `bytes`, which begin at offset `base` of the decoded object. When `strict`,
    /// integers and lengths not in their shortest form are errors.
    pub fn new(bytes: &'a [u8], base: u64, strict: bool) -> Self {
        CborReader { bytes, position: 0, base, strict, short: false, lax: false }
    }
    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }
    /// Offset of the next byte in the decoded object.
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }
    /// Whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }
    /// Whether a read failed because the bytes ended.
    pub fn ran_short(&self) -> bool {
        self.short
    }
    /// Whether a head that is not in its shortest form was read since the last call.
    pub fn take_lax(&mut self) -> bool {
        core::mem::take(&mut self.lax)
    }
    /// Next byte, without reading it.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }
    /// Error at the offset of the next byte.
    pub fn error<T>(&self, reason: &'static str) -> Result<T, Malformed> {
        Err(Malformed { offset: self.offset(), reason })
    }
    /// Error at an offset of the slice.
    pub fn error_at<T>(&self, position: usize, reason: &'static str) -> Result<T, Malformed> {
        Err(Malformed { offset: self.base + position as u64, reason })
    }
    fn ends<T>(&mut self) -> Result<T, Malformed> {
        self.short = true;
        Err(Malformed { offset: self.base + self.bytes.len() as u64, reason: "the bytes end too early" })
    }
    /// Reads the next `n` bytes.
    pub fn take(&mut self, n: u64) -> Result<&'a [u8], Malformed> {
        let left = &self.bytes[self.position..];
        match usize::try_from(n).ok().and_then(|n| left.get(..n)) {
            Some(bytes) => {
                self.position += bytes.len();
                Ok(bytes)
            }
            None => self.ends(),
        }
    }
    /// Reads a head and returns its major type and value. Indefinite lengths and reserved values are errors.
    // 9171-4.1-2
    pub fn head(&mut self) -> Result<(u8, u64), Malformed> {
        let [first, rest @ ..] = &self.bytes[self.position..] else { return self.ends() };
        let (major, info) = (first >> 5, first & 0x1f);
        let (value, width) = match info {
            0..24 => (Some(u64::from(info)), 0),
            24 => (rest.first().map(|byte| u64::from(*byte)), 1),
            25 => (rest.first_chunk().map(|bytes| u64::from(u16::from_be_bytes(*bytes))), 2),
            26 => (rest.first_chunk().map(|bytes| u64::from(u32::from_be_bytes(*bytes))), 4),
            27 => (rest.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)), 8),
            31 => return self.error("an item of indefinite length"),
            _ => return self.error("a reserved CBOR head"),
        };
        let Some(value) = value else { return self.ends() };
        let shortest = match info {
            0..24 => true,
            24 => value > 23,
            25 => value > 0xff,
            26 => value > 0xffff,
            _ => value > 0xffff_ffff,
        };
        if !shortest {
            self.lax = true;
            if self.strict {
                return self.error("a CBOR head not in its shortest form");
            }
        }
        self.position += 1 + width;
        Ok((major, value))
    }
    #[inline(always)]
    fn typed(&mut self, major: u8, reason: &'static str) -> Result<u64, Malformed> {
        // Fast path: most heads of a bundle are one byte.
        if let Some(first) = self.bytes.get(self.position)
            && first & 0xe0 == major << 5
            && first & 0x1f < 24
        {
            self.position += 1;
            return Ok(u64::from(first & 0x1f));
        }
        self.typed_slow(major, reason)
    }
    #[inline(never)]
    fn typed_slow(&mut self, major: u8, reason: &'static str) -> Result<u64, Malformed> {
        let start = self.position;
        let (found, value) = self.head()?;
        if found != major {
            // The error names the offset of the head, and the caller may try another type.
            self.position = start;
            return self.error(reason);
        }
        Ok(value)
    }
    /// Reads an unsigned integer.
    #[inline]
    pub fn uint(&mut self) -> Result<u64, Malformed> {
        self.typed(UINT, "expected an unsigned integer")
    }
    /// Reads an unsigned integer of at most `max`.
    #[inline]
    pub fn uint_to(&mut self, max: u64, reason: &'static str) -> Result<u64, Malformed> {
        let start = self.position;
        let value = self.uint()?;
        if value > max { self.error_at(start, reason) } else { Ok(value) }
    }
    /// Reads the head of an array of definite length and returns the number of items.
    #[inline]
    pub fn array(&mut self) -> Result<u64, Malformed> {
        self.typed(ARRAY, "expected an array of definite length")
    }
    /// Reads the head of an array of definite or indefinite length (RFC 9171 4.1 allows both). Returns the number of
    /// items; `None` if a break ends them.
    #[inline]
    pub fn array_or_open(&mut self) -> Result<Option<u64>, Malformed> {
        if self.peek() != Some(OPEN_ARRAY) {
            return self.array().map(Some);
        }
        self.position += 1;
        Ok(None)
    }
    /// Reads the break that ends an array of indefinite length; does nothing unless `open`.
    #[inline]
    pub fn array_end(&mut self, open: bool) -> Result<(), Malformed> {
        if !open {
            return Ok(());
        }
        match self.take(1)? {
            [BREAK] => Ok(()),
            _ => self.error_at(self.position - 1, "an array of indefinite length with another number of items"),
        }
    }
    /// Reads an array of definite or indefinite length. `read` gets the number of items and must read them all.
    #[inline]
    pub fn list<T>(&mut self, read: impl FnOnce(&mut Self, u64) -> Result<T, Malformed>) -> Result<T, Malformed> {
        let items = self.array_or_open()?;
        let all = match items {
            Some(items) => read(self, items)?,
            None => {
                let items = self.count_open()?;
                read(self, items)?
            }
        };
        self.array_end(items.is_none())?;
        Ok(all)
    }
    /// Reads an array of exactly `n` items.
    #[inline]
    pub fn list_of<T>(
        &mut self,
        n: u64,
        reason: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let start = self.position;
        self.list(|reader, items| if items == n { read(reader) } else { reader.error_at(start, reason) })
    }
    /// Counts the items of an array of indefinite length whose head was read.
    #[inline(never)]
    fn count_open(&mut self) -> Result<u64, Malformed> {
        // A clone looks ahead: the caller reads the items itself.
        let mut ahead = self.clone();
        let mut items = 0;
        while ahead.peek() != Some(BREAK) {
            if let Err(error) = ahead.item() {
                self.short |= ahead.short;
                return Err(error);
            }
            items += 1;
        }
        Ok(items)
    }
    /// Reads the head of a byte string and returns its length.
    #[inline]
    pub fn bytes_head(&mut self) -> Result<u64, Malformed> {
        self.typed(BYTES, "expected a byte string of definite length")
    }
    /// Reads a byte string.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.bytes_head()?;
        self.take(n)
    }
    /// Reads a text string.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let n = self.typed(TEXT, "expected a text string of definite length")?;
        let start = self.position;
        let bytes = self.take(n)?;
        core::str::from_utf8(bytes)
            .or(Err(Malformed { offset: self.base + start as u64, reason: "a text string that is not UTF-8" }))
    }
    /// Reads true or false.
    pub fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.peek() {
            Some(0xf4) => self.take(1).map(|_| false),
            Some(0xf5) => self.take(1).map(|_| true),
            Some(_) => self.error("expected true or false"),
            None => self.ends(),
        }
    }
    /// Skips one item of any kind and returns its bytes.
    pub fn item(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.position;
        match skip_item(self) {
            Ok(true) => Ok(&self.bytes[start..self.position]),
            Ok(false) => self.ends(),
            Err(reason) => self.error(reason),
        }
    }
    /// Requires that all bytes were read.
    pub fn finish(&self, reason: &'static str) -> Result<(), Malformed> {
        if self.is_at_end() { Ok(()) } else { self.error(reason) }
    }
}

/// Input of [`skip_item`].
pub(crate) trait ByteSource {
    /// Reads a byte; `None` at the end.
    fn byte(&mut self) -> Option<u8>;
    /// Skips `n` bytes; false if fewer are left.
    fn step(&mut self, n: u64) -> bool;
}
impl ByteSource for CborReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }
    fn step(&mut self, n: u64) -> bool {
        self.take(n).is_ok()
    }
}
impl ByteSource for PayloadReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.read_u8()
    }
    fn step(&mut self, n: u64) -> bool {
        let there = self.remaining() >= n;
        if there {
            self.skip(n);
        }
        there
    }
}

/// Skips one whole item without recursion. Returns false if the bytes end within the item.
pub(crate) fn skip_item(source: &mut impl ByteSource) -> Result<bool, &'static str> {
    /// Stands for the unknown number of items in an item of indefinite length.
    const OPEN: u64 = u64::MAX;
    // Items left of every open container, innermost last: a fixed array instead of recursion, whose depth a peer could
    // choose.
    let mut left = [0u64; MAX_DEPTH];
    let mut depth = 0usize;
    loop {
        let Some(first) = source.byte() else { return Ok(false) };
        let (major, info) = (first >> 5, first & 0x1f);
        let mut value = u64::from(info);
        let mut open = false;
        match info {
            0..=23 => {}
            24..=27 => {
                value = 0;
                for _ in 0..1u8 << (info - 24) {
                    let Some(byte) = source.byte() else { return Ok(false) };
                    value = value << 8 | u64::from(byte);
                }
            }
            31 if (2..=5).contains(&major) => open = true,
            31 if major == 7 => {
                if depth == 0 || left[depth - 1] != OPEN {
                    return Err("a CBOR break outside an item of indefinite length");
                }
                depth -= 1;
            }
            _ => return Err("a reserved CBOR head"),
        }
        let children = match major {
            2..=5 if open => OPEN,
            2 | 3 => {
                if !source.step(value) {
                    return Ok(false);
                }
                0
            }
            // The doubled count of a map must not overflow.
            4 | 5 if value > u64::MAX / 4 => return Err("a CBOR item beyond 64 bits of length"),
            4 => value,
            5 => 2 * value,
            // A tag and the item after it are one item, which is counted when the latter is complete.
            6 => continue,
            _ => 0,
        };
        if children > 0 {
            if depth == MAX_DEPTH {
                return Err("CBOR nested too deeply");
            }
            left[depth] = children;
            depth += 1;
            continue;
        }
        // One item is complete: count it, and with it every item it completes.
        loop {
            if depth == 0 {
                return Ok(true);
            }
            if left[depth - 1] == OPEN {
                break;
            }
            left[depth - 1] -= 1;
            if left[depth - 1] > 0 {
                break;
            }
            depth -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Keeps 9171-4.1-2.
    #[test]
    fn heads_round_trip_at_every_width() {
        for value in [0, 23, 24, 255, 256, 65_535, 65_536, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
            let mut out = Vec::new();
            put_uint(&mut out, value);
            assert_eq!(out.len() as u64, head_len(value));
            let mut reader = CborReader::new(&out, 0, true);
            assert_eq!(reader.uint(), Ok(value));
            assert!(reader.is_at_end());
            // Every prefix is an incomplete head.
            for cut in 0..out.len() {
                let mut short = CborReader::new(&out[..cut], 0, true);
                assert!(short.uint().is_err() && short.ran_short());
            }
        }
    }

    /// Keeps 9171-4.1-2.
    #[test]
    fn strict_reader_refuses_longer_heads() {
        let bytes = [0x18, 5];
        assert_eq!(CborReader::new(&bytes, 7, true).uint().unwrap_err().offset, 7);
        let mut reader = CborReader::new(&bytes, 0, false);
        assert_eq!(reader.uint(), Ok(5));
        assert!(reader.take_lax() && !reader.take_lax());
    }

    #[test]
    fn list_length_definite_or_indefinite_is_enforced() {
        for (bytes, sum) in [
            (&[0x82, 1, 2][..], Some(3)),
            (&[0x9f, 1, 2, 0xff], Some(3)),
            (&[0x9f, 1, 2, 3, 0xff], None),
            (&[0x9f, 1, 0xff], None),
            (&[0x9f, 1, 2], None),
            (&[0x9f, 1, 2, 0x1c, 0xff], None),
        ] {
            let mut reader = CborReader::new(bytes, 0, true);
            let read = reader.list_of(2, "two", |reader| Ok(reader.uint()? + reader.uint()?));
            assert_eq!(read.ok(), sum, "{bytes:x?}");
            assert!(sum.is_none() || reader.is_at_end());
            assert_eq!(reader.ran_short(), bytes == [0x9f, 1, 2]);
        }
        let mut fewer = CborReader::new(&[0x9f, 1, 2, 0xff], 0, true);
        assert!(fewer.list(|reader, _| reader.uint()).is_err(), "not all of it was read");
    }

    #[test]
    fn skip_item_handles_any_item() {
        for (bytes, whole) in [
            (&[0x01][..], true),
            (&[0x9f, 0x01, 0x82, 0x01, 0x02, 0xff], true),
            (&[0xbf, 0x01, 0x02, 0xff], true),
            (&[0x5f, 0x41, 0x01, 0x41, 0x02, 0xff], true),
            (&[0xd9, 0xd9, 0xf7, 0x80], true),
            (&[0xfb, 0, 0, 0, 0, 0, 0, 0, 0], true),
            (&[0xa1, 0x01], false),
            (&[0x9a, 0xff, 0xff, 0xff, 0xff, 0x01], false),
            (&[0x5b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], false),
        ] {
            let mut reader = CborReader::new(bytes, 0, true);
            assert_eq!(skip_item(&mut reader), Ok(whole), "{bytes:x?}");
            assert!(!whole || reader.is_at_end(), "{bytes:x?}");
        }
        for bad in [&[0xff][..], &[0x81, 0xff], &[0x1c], &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert!(skip_item(&mut CborReader::new(bad, 0, true)).is_err(), "{bad:x?}");
        }
        assert!(skip_item(&mut CborReader::new(&[0x81; 100], 0, true)).is_err(), "too deep");
    }
}
