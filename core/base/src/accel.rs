//! Replaceable implementations of CRC, AES-GCM and digest loops. The driver passes a table of CRC and digest functions
//! after checking each against the portable version.

use crate::digest::{DIGEST_BLOCK, DIGEST_KEY, carryless_sums};

/// Table of replaceable functions. [`Accel::default`] has the portable ones.
#[derive(Clone, Copy, Debug)]
pub struct Accel {
    /// Continues a CRC-32C over `bytes`. State 0 is the start; the initial and final inversion happen inside, as in
    /// [`crc32c`].
    pub crc32c: fn(state: u32, bytes: &[u8]) -> u32,
    /// Continues a CRC-16/X-25 over `bytes`; state and inversions as in [`crc16_x25`].
    pub crc16_x25: fn(state: u16, bytes: &[u8]) -> u16,
    /// [`carryless_sums`], the inner loop of content digests.
    pub carryless_sums: CarrylessSums,
}

/// Function that computes the same as [`carryless_sums`], possibly with hardware support.
pub type CarrylessSums = fn(key: &[u64; DIGEST_KEY], bytes: &[u8], sums: &mut [[u64; 2]]);

/// Accelerated AES-GCM, in place, with 16- or 32-byte keys and 16-byte tags.
#[derive(Clone, Copy, Debug)]
pub struct AesGcm {
    /// Encrypts in place and returns the tag. Returns `None` and leaves the text unchanged if the key length is
    /// unsupported or the text is too long.
    pub seal: fn(key: &[u8], iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Option<[u8; 16]>,
    /// Verifies and decrypts in place. Returns false for a wrong tag; the text is then unspecified.
    pub open: fn(key: &[u8], iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool,
}

impl Default for Accel {
    fn default() -> Self {
        Accel { crc32c, crc16_x25, carryless_sums }
    }
}

impl Accel {
    /// Whether every function of this table agrees with the portable one: checksums for lengths of 0 to 200 bytes, each
    /// taken in two parts, and sums of two blocks. A driver calls it before it trusts hardware.
    pub fn agrees_with_portable(&self) -> bool {
        // No two of the 200 bytes are equal, so that a byte skipped or taken twice is noticed.
        let mut sample = [0u8; 200];
        for (i, byte) in sample.iter_mut().enumerate() {
            *byte = (i as u8).wrapping_mul(167).wrapping_add(13);
        }
        // Two calls in a row also show that the state chains.
        (0..=sample.len()).all(|n| {
            let (a, b) = sample[..n].split_at(n / 3);
            (self.crc32c)((self.crc32c)(0, a), b) == crc32c(0, &sample[..n])
                && (self.crc16_x25)((self.crc16_x25)(0, a), b) == crc16_x25(0, &sample[..n])
        }) && {
            let (mut key, mut block) = ([0u64; DIGEST_KEY], [0u8; DIGEST_BLOCK + 112]);
            key.iter_mut().enumerate().for_each(|(i, word)| *word = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            block.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i as u8).wrapping_mul(167) ^ (i >> 8) as u8);
            let sums = |of: CarrylessSums| {
                let mut sums = [[0; 2]; 2];
                of(&key, &block, &mut sums);
                sums
            };
            sums(self.carryless_sums) == sums(carryless_sums)
        }
    }
}

// Slicing by eight (Kounavis and Berry, 2005): table k advances a byte over k further zero bytes, so that eight
// look-ups handle eight bytes at once.
const fn crc32c_table() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            // The reflected Castagnoli polynomial 1EDC6F41.
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
            // The reflected polynomial 1021.
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x8408 } else { crc >> 1 };
            bit += 1;
        }
        t[i] = crc;
        i += 1;
    }
    t
}
static CRC16: [u16; 256] = crc16_table();

/// CRC-32C (Castagnoli, reflected, init and final xor FFFFFFFF), eight bytes a step. `state` is the CRC of the bytes
/// before, 0 at the start: `crc32c(crc32c(0, a), b) == crc32c(0, ab)`.
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
    // Fewer than eight bytes are left; the table of single bytes serves them.
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
    fn crc_check_values_match_rfc_9171() {
        // The catalogue's check value: the CRC of the nine ASCII digits.
        assert_eq!(crc32c(0, b"123456789"), 0xE306_9283);
        assert_eq!(crc16_x25(0, b"123456789"), 0x906E);
        assert!(Accel::default().agrees_with_portable());
    }

    #[test]
    fn wrong_accelerated_function_is_detected() {
        // Wrong at a single length, as a faulty tail loop would be.
        let broken =
            Accel { crc32c: |state, bytes| crc32c(state, bytes) ^ u32::from(bytes.len() == 100), ..Accel::default() };
        assert!(!broken.agrees_with_portable());
    }
}
