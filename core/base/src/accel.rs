//! Functions a machine can do faster than portable code: the driver passes a table of them after
//! checking each against the portable version.

use crate::digest::{NH_BLOCK, NH_KEY, nh};

/// A table of replaceable functions. [`Accel::default`] is the portable one.
#[derive(Clone, Copy, Debug)]
pub struct Accel {
    /// Continues a CRC-32C over `bytes`; start and finish are [`crc32c`]'s (state 0 means "nothing
    /// yet", the inversion is inside).
    pub crc32c: fn(state: u32, bytes: &[u8]) -> u32,
    /// Continues a CRC-16/X-25 over `bytes`, same convention.
    pub crc16_x25: fn(state: u16, bytes: &[u8]) -> u16,
    /// [`nh`](crate::nh), the inner loop of content digests.
    pub nh: fn(key: &[u64; NH_KEY], block: &[u8; NH_BLOCK]) -> [u64; 2],
}

/// What a machine does faster than the portable AES-GCM: over a text in place, with keys of 16 and 32 bytes and tags of 16.
#[derive(Clone, Copy, Debug)]
pub struct AesGcm {
    /// Enciphers, and gives the tag; `None`, with the text as it was: not with a key of this length, or so long a text.
    pub seal: fn(key: &[u8], iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Option<[u8; 16]>,
    /// Deciphers; where it gives `false` the tag is wrong, and nobody knows what the text is now.
    pub open: fn(key: &[u8], iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool,
}

impl Default for Accel {
    fn default() -> Self {
        Accel { crc32c, crc16_x25, nh: |key, block| nh(key, block) }
    }
}

impl Accel {
    /// Whether every function of this table agrees with the portable one on lengths 0..200 and in
    /// two pieces; a driver calls it before it trusts hardware.
    pub fn agrees_with_portable(&self) -> bool {
        let mut sample = [0u8; 200];
        for (i, byte) in sample.iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(167).wrapping_add(13);
        }
        (0..=sample.len()).all(|n| {
            let (a, b) = sample[..n].split_at(n / 3);
            (self.crc32c)((self.crc32c)(0, a), b) == crc32c(0, &sample[..n])
                && (self.crc16_x25)((self.crc16_x25)(0, a), b) == crc16_x25(0, &sample[..n])
        }) && {
            let (mut key, mut block) = ([0u64; NH_KEY], [0u8; NH_BLOCK]);
            key.iter_mut().enumerate().for_each(|(i, word)| *word = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            block.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i as u8).wrapping_mul(167) ^ (i >> 8) as u8);
            (self.nh)(&key, &block) == nh(&key, &block)
        }
    }
}

const fn crc32c_table() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        t[0][i] = crc;
        i += 1;
    }
    let mut slice = 1;
    while slice < 8 {
        let mut i = 0;
        while i < 256 {
            let previous = t[slice - 1][i];
            t[slice][i] = (previous >> 8) ^ t[0][(previous & 0xff) as usize];
            i += 1;
        }
        slice += 1;
    }
    t
}
static CRC32C: [[u32; 256]; 8] = crc32c_table();

const fn crc16_table() -> [u16; 256] {
    let mut t = [0u16; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x8408 } else { crc >> 1 };
            bit += 1;
        }
        t[i] = crc;
        i += 1;
    }
    t
}
static CRC16: [u16; 256] = crc16_table();

/// CRC-32C (Castagnoli, reflected, init and final xor FFFFFFFF), eight bytes a step. `state` is the
/// CRC of what came before, 0 at the start: `crc32c(crc32c(0, a), b) == crc32c(0, ab)`.
pub fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    let mut crc = !state;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let low = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) ^ crc;
        crc = CRC32C[7][(low & 0xff) as usize]
            ^ CRC32C[6][(low >> 8 & 0xff) as usize]
            ^ CRC32C[5][(low >> 16 & 0xff) as usize]
            ^ CRC32C[4][(low >> 24) as usize]
            ^ CRC32C[3][word[4] as usize]
            ^ CRC32C[2][word[5] as usize]
            ^ CRC32C[1][word[6] as usize]
            ^ CRC32C[0][word[7] as usize];
    }
    for byte in rest {
        crc = (crc >> 8) ^ CRC32C[0][((crc ^ u32::from(*byte)) & 0xff) as usize];
    }
    !crc
}

/// CRC-16/X-25 (polynomial 1021 reflected, init and final xor FFFF); chained like [`crc32c`].
pub fn crc16_x25(state: u16, bytes: &[u8]) -> u16 {
    let mut crc = !state;
    for byte in bytes {
        crc = (crc >> 8) ^ CRC16[((crc ^ u16::from(*byte)) & 0xff) as usize];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_rfc_9171_4_2_1() {
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc16_x25(0, b"123456789"), 0x906E);
        assert!(Accel::default().agrees_with_portable());
    }

    #[test]
    fn a_wrong_function_is_found_out() {
        let broken =
            Accel { crc32c: |state, bytes| crc32c(state, bytes) ^ u32::from(bytes.len() == 100), ..Accel::default() };
        assert!(!broken.agrees_with_portable());
    }
}
