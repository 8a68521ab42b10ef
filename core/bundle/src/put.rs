//! Writing CBOR (RFC 8949), always in its shortest form, to any kind of buffer.

use crate::cbor::{BYTES, UINT};
use alloc::vec::Vec;
use farlink_base::BytesMut;

/// Where encoded bytes go: a buffer, or only their count.
pub trait Out {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
    /// Appends one byte.
    fn byte(&mut self, byte: u8) {
        self.put(&[byte]);
    }
    /// Bytes so far.
    fn at(&self) -> usize;
    /// What was appended from `start` on; empty where bytes are only counted.
    fn since(&mut self, start: usize) -> &mut [u8];
}
impl Out for Vec<u8> {
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
impl Out for BytesMut {
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
/// Counts what would be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count(pub usize);
impl Out for Count {
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
pub fn put_head(out: &mut impl Out, major: u8, value: u64) {
    let major = major << 5;
    if value < 24 {
        return out.byte(major | value as u8);
    }
    // The width's code in front of the number's last bytes.
    let (code, width) = match value {
        24..=0xff => (24, 1),
        0x100..=0xffff => (25, 2),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 8),
    };
    let mut bytes = [0u8; 9];
    bytes[1..].copy_from_slice(&value.to_be_bytes());
    bytes[8 - width] = major | code;
    out.put(&bytes[8 - width..]);
}
/// Appends an unsigned integer.
#[inline]
pub fn put_uint(out: &mut impl Out, value: u64) {
    put_head(out, UINT, value);
}
/// Appends a byte string.
pub fn put_bytes(out: &mut impl Out, bytes: &[u8]) {
    put_head(out, BYTES, bytes.len() as u64);
    out.put(bytes);
}
/// Bytes [`put_head`] needs for this value.
pub const fn head_len(value: u64) -> u64 {
    match value {
        0..=23 => 1,
        24..=0xff => 2,
        0x100..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}
