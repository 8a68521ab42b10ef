//! The little of CBOR (RFC 8949) that bundles need: fields read in place, nothing allocated,
//! nesting bounded.

pub use crate::put::{Count, Out, head_len, put_bytes, put_head, put_uint};
use farlink_base::{Malformed, PayloadReader};

/// Deepest nesting stepped over; a bundle needs five levels.
const MAX_DEPTH: usize = 16;

/// Major types.
pub const UINT: u8 = 0;
/// Byte string.
pub const BYTES: u8 = 2;
/// Text string.
pub const TEXT: u8 = 3;
/// Array.
pub const ARRAY: u8 = 4;
/// Begins an array of indefinite length.
const OPEN_ARRAY: u8 = ARRAY << 5 | 31;
/// Ends an item of indefinite length; also the last byte of a bundle.
pub const BREAK: u8 = 0xff;

/// Reads items from a slice, in order.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Offset of the slice in what is being decoded, for error messages.
    base: u64,
    strict: bool,
    short: bool,
    lax: bool,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`, which begin at `base` of the item being decoded. Integers
    /// and lengths not in their shortest form are errors when `strict`.
    pub fn new(bytes: &'a [u8], base: u64, strict: bool) -> Self {
        Reader { bytes, position: 0, base, strict, short: false, lax: false }
    }
    /// Bytes read.
    pub fn position(&self) -> usize {
        self.position
    }
    /// Offset of the next byte in what is being decoded.
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }
    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }
    /// Whether the last error was that the bytes ended.
    pub fn ran_short(&self) -> bool {
        self.short
    }
    /// Whether a head longer than needed was met since the last call.
    pub fn take_lax(&mut self) -> bool {
        core::mem::take(&mut self.lax)
    }
    /// The next byte, without reading it.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }
    /// An error at the next byte.
    pub fn error<T>(&self, reason: &'static str) -> Result<T, Malformed> {
        Err(Malformed { offset: self.offset(), reason })
    }
    /// An error at an offset of the slice.
    pub fn error_at<T>(&self, position: usize, reason: &'static str) -> Result<T, Malformed> {
        Err(Malformed { offset: self.base + position as u64, reason })
    }
    fn ends<T>(&mut self) -> Result<T, Malformed> {
        self.short = true;
        Err(Malformed { offset: self.base + self.bytes.len() as u64, reason: "the bytes end too early" })
    }
    /// The next `n` bytes.
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
    /// Major type and value of the next head. Indefinite lengths and reserved values are errors.
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
        // Most heads of a bundle are one byte.
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
            self.position = start;
            return self.error(reason);
        }
        Ok(value)
    }
    /// An unsigned integer.
    #[inline]
    pub fn uint(&mut self) -> Result<u64, Malformed> {
        self.typed(UINT, "expected an unsigned integer")
    }
    /// An unsigned integer of at most `max`.
    #[inline]
    pub fn uint_to(&mut self, max: u64, reason: &'static str) -> Result<u64, Malformed> {
        let start = self.position;
        let value = self.uint()?;
        if value > max { self.error_at(start, reason) } else { Ok(value) }
    }
    /// The head of an array of definite length: how many items follow.
    #[inline]
    pub fn array(&mut self) -> Result<u64, Malformed> {
        self.typed(ARRAY, "expected an array of definite length")
    }
    /// The head of an array (RFC 9171 4.1 prohibits neither length): how many items follow; `None` where a break
    /// follows them.
    #[inline]
    pub fn array_or_open(&mut self) -> Result<Option<u64>, Malformed> {
        if self.peek() != Some(OPEN_ARRAY) {
            return self.array().map(Some);
        }
        self.position += 1;
        Ok(None)
    }
    /// What follows the last item of an array: where it is `open`, its break.
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
    /// An array of either length: `read` is told how many items there are and reads them all.
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
    /// The same of exactly `n` items.
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
    /// Counts the items of an array of indefinite length, whose head was read.
    #[inline(never)]
    fn count_open(&mut self) -> Result<u64, Malformed> {
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
    /// The length of a byte string; its bytes come next.
    #[inline]
    pub fn bytes_head(&mut self) -> Result<u64, Malformed> {
        self.typed(BYTES, "expected a byte string of definite length")
    }
    /// A byte string.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.bytes_head()?;
        self.take(n)
    }
    /// A text string.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let n = self.typed(TEXT, "expected a text string of definite length")?;
        let start = self.position;
        let bytes = self.take(n)?;
        core::str::from_utf8(bytes)
            .or(Err(Malformed { offset: self.base + start as u64, reason: "a text string that is not UTF-8" }))
    }
    /// True or false.
    pub fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.peek() {
            Some(0xf4) => self.take(1).map(|_| false),
            Some(0xf5) => self.take(1).map(|_| true),
            Some(_) => self.error("expected true or false"),
            None => self.ends(),
        }
    }
    /// Steps over one item of any kind and gives its bytes.
    pub fn item(&mut self) -> Result<&'a [u8], Malformed> {
        let start = self.position;
        match skip_item(self) {
            Ok(true) => Ok(&self.bytes[start..self.position]),
            Ok(false) => self.ends(),
            Err(reason) => self.error(reason),
        }
    }
    /// Nothing may follow.
    pub fn finish(&self, reason: &'static str) -> Result<(), Malformed> {
        if self.is_at_end() { Ok(()) } else { self.error(reason) }
    }
}

/// Where [`skip_item`] reads from.
pub(crate) trait Source {
    /// The next byte; `None` at the end.
    fn byte(&mut self) -> Option<u8>;
    /// Steps over bytes; false when fewer are left.
    fn step(&mut self, n: u64) -> bool;
}
impl Source for Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }
    fn step(&mut self, n: u64) -> bool {
        self.take(n).is_ok()
    }
}
impl Source for PayloadReader<'_> {
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

/// Steps over one whole item without recursion; false when the bytes end before it does.
pub(crate) fn skip_item(source: &mut impl Source) -> Result<bool, &'static str> {
    /// An open item of indefinite length.
    const OPEN: u64 = u64::MAX;
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
            4 | 5 if value > u64::MAX / 4 => return Err("a CBOR item too large to exist"),
            4 => value,
            5 => 2 * value,
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
            let mut reader = Reader::new(&out, 0, true);
            assert_eq!(reader.uint(), Ok(value));
            assert!(reader.is_at_end());
            for cut in 0..out.len() {
                let mut short = Reader::new(&out[..cut], 0, true);
                assert!(short.uint().is_err() && short.ran_short());
            }
        }
    }

    /// Keeps 9171-4.1-2.
    #[test]
    fn longer_heads_than_needed_are_for_the_permissive_only() {
        let bytes = [0x18, 5];
        assert_eq!(Reader::new(&bytes, 7, true).uint().unwrap_err().offset, 7);
        let mut reader = Reader::new(&bytes, 0, false);
        assert_eq!(reader.uint(), Ok(5));
        assert!(reader.take_lax() && !reader.take_lax());
    }

    #[test]
    fn lists_are_read_whichever_way_their_length_is_said_and_not_beyond_it() {
        for (bytes, sum) in [
            (&[0x82, 1, 2][..], Some(3)),
            (&[0x9f, 1, 2, 0xff], Some(3)),
            (&[0x9f, 1, 2, 3, 0xff], None),
            (&[0x9f, 1, 0xff], None),
            (&[0x9f, 1, 2], None),
            (&[0x9f, 1, 2, 0x1c, 0xff], None),
        ] {
            let mut reader = Reader::new(bytes, 0, true);
            let read = reader.list_of(2, "two", |reader| Ok(reader.uint()? + reader.uint()?));
            assert_eq!(read.ok(), sum, "{bytes:x?}");
            assert!(sum.is_none() || reader.is_at_end());
            assert_eq!(reader.ran_short(), bytes == [0x9f, 1, 2]);
        }
        let mut fewer = Reader::new(&[0x9f, 1, 2, 0xff], 0, true);
        assert!(fewer.list(|reader, _| reader.uint()).is_err(), "not all of it was read");
    }

    #[test]
    fn any_item_is_stepped_over_and_bombs_are_not_allocated() {
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
            let mut reader = Reader::new(bytes, 0, true);
            assert_eq!(skip_item(&mut reader), Ok(whole), "{bytes:x?}");
            assert!(!whole || reader.is_at_end(), "{bytes:x?}");
        }
        for bad in [&[0xff][..], &[0x81, 0xff], &[0x1c], &[0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert!(skip_item(&mut Reader::new(bad, 0, true)).is_err(), "{bad:x?}");
        }
        assert!(skip_item(&mut Reader::new(&[0x81; 100], 0, true)).is_err(), "too deep");
    }
}
