//! CBOR writer (RFC 8949), always in shortest form, to any kind of buffer.

use crate::cbor::{BYTES, UINT};
use alloc::vec::Vec;
use farlink_base::BytesMut;

/// Sink for encoded bytes: a buffer, or a counter.
pub trait ByteSink {
    /// Appends a slice of bytes.
    fn put(&mut self, bytes: &[u8]);
    /// Appends one byte.
    fn byte(&mut self, byte: u8) {
        self.put(&[byte]);
    }
    /// Bytes written so far.
    fn at(&self) -> usize;
    /// Bytes appended from `start` on; empty for a counter.
    fn since(&mut self, start: usize) -> &mut [u8];
}
impl ByteSink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.push(byte);
    }
    fn at(&self) -> usize {
        self.len()
    }
    fn since(&mut self, start: usize) -> &mut [u8] {
        &mut self[start..]
    }
}
impl ByteSink for BytesMut {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
    fn at(&self) -> usize {
        self.len()
    }
    fn since(&mut self, start: usize) -> &mut [u8] {
        &mut self[start..]
    }
}
/// Capacity of [`Short`] without allocation, bytes.
const SHORT: usize = 256;

/// Buffer for a head under construction; heads of up to [`SHORT`] bytes, as most are, need no allocation.
pub(crate) struct Short {
    here: [u8; SHORT],
    len: usize,
    /// All bytes, once they exceed `here`.
    long: Vec<u8>,
}
impl Short {
    /// Creates an empty buffer.
    #[inline]
    pub(crate) fn new() -> Short {
        Short { here: [0; SHORT], len: 0, long: Vec::new() }
    }
    /// Bytes written so far.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len <= SHORT { &self.here[..self.len] } else { &self.long }
    }
    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.len <= SHORT {
            self.long.reserve(2 * SHORT + bytes.len());
            self.long.extend_from_slice(&self.here[..self.len]);
        }
        self.long.extend_from_slice(bytes);
        self.len = self.long.len();
    }
}
impl ByteSink for Short {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.here.get_mut(self.len..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len = end;
            }
            None if bytes.is_empty() => {}
            None => self.spill(bytes),
        }
    }
    #[inline]
    fn at(&self) -> usize {
        self.len
    }
    #[inline]
    fn since(&mut self, start: usize) -> &mut [u8] {
        if self.len <= SHORT { &mut self.here[start..self.len] } else { &mut self.long[start..] }
    }
}
/// Counts bytes instead of writing them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count(pub usize);
impl ByteSink for Count {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
    fn at(&self) -> usize {
        self.0
    }
    fn since(&mut self, _: usize) -> &mut [u8] {
        &mut []
    }
}

/// Appends the head of an item in its shortest form.
// 9171-4.1-2
#[inline]
pub fn put_head(out: &mut impl ByteSink, major: u8, value: u64) {
    let major = major << 5;
    if value < 24 {
        return out.byte(major | value as u8);
    }
    put_wide(out, major, value);
}
/// Appends a head whose value needs bytes of its own.
#[inline(never)]
fn put_wide(out: &mut impl ByteSink, major: u8, value: u64) {
    // Slices of constant length are copied without a call.
    let [a, b, c, d, e, f, g, h] = value.to_be_bytes();
    match value {
        0..=0xff => out.put(&[major | 24, h]),
        0x100..=0xffff => out.put(&[major | 25, g, h]),
        0x1_0000..=0xffff_ffff => out.put(&[major | 26, e, f, g, h]),
        _ => out.put(&[major | 27, a, b, c, d, e, f, g, h]),
    }
}
/// Appends an unsigned integer.
#[inline]
pub fn put_uint(out: &mut impl ByteSink, value: u64) {
    put_head(out, UINT, value);
}
/// Appends a byte string.
pub fn put_bytes(out: &mut impl ByteSink, bytes: &[u8]) {
    put_head(out, BYTES, bytes.len() as u64);
    out.put(bytes);
}
/// Length of the head [`put_head`] writes for this value, bytes.
pub const fn head_len(value: u64) -> u64 {
    match value {
        0..=23 => 1,
        24..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_buffer_spills_to_heap() {
        for step in [1usize, 7, 100, SHORT - 1, SHORT, SHORT + 1] {
            let (mut short, mut plain) = (Short::new(), Vec::new());
            for n in 0..2 * SHORT {
                let piece: Vec<u8> = (n..n + step).map(|byte| byte as u8).collect();
                short.put(&piece);
                short.put(&[]);
                plain.put(&piece);
                assert_eq!((short.bytes(), short.at()), (&plain[..], plain.at()));
                let start = plain.at() / 3;
                short.since(start).iter_mut().for_each(|byte| *byte ^= 1);
                plain.since(start).iter_mut().for_each(|byte| *byte ^= 1);
                assert_eq!(short.bytes(), plain);
            }
        }
    }
}
