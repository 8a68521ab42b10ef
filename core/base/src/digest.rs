//! Keyed digest of a bundle's content, by which two copies are compared when only one of them is in memory.
//!
//! The key is a node's own secret, so a universal hash is enough: an attacker without the key finds two contents with
//! equal digests with a probability of about 2^-62 per try, however it chooses them. In each block of 1 KiB, words are
//! XORed with words of the key and multiplied in pairs without carries, and the products are XORed (NH of UMAC, Black
//! et al., 1999, over polynomials: CLHASH, Lemire and Kaser, 2016). These sums are the coefficients of a polynomial
//! over 2^127 - 1 (VMAC, 2007); the length is its last coefficient. A pattern ([`Chunk::Fill`]) enters by seed,
//! position and length instead of its bytes.

use crate::accel::{Accel, CarrylessSums};
use crate::payload::{Chunk, Payload};
use crate::rng::Rng;
use alloc::sync::Arc;

/// Length of a block, bytes.
pub const DIGEST_BLOCK: usize = 1024;
/// 64-bit words of a key: one for every eight bytes of a block.
pub const DIGEST_KEY: usize = DIGEST_BLOCK / 8;
/// Length of a pair of words, bytes.
const PAIR: usize = 16;
/// Most blocks whose sums are computed in one call.
const BLOCKS: usize = 16;
const PRIME: u128 = (1 << 127) - 1;

/// Computes, for each block, the sum of the carry-less products of its pairs of words; the last block may be shorter,
/// by a multiple of 16 bytes. This is the portable version, which is slow.
pub fn carryless_sums(key: &[u64; DIGEST_KEY], bytes: &[u8], sums: &mut [[u64; 2]]) {
    for (block, sum) in bytes.chunks(DIGEST_BLOCK).zip(sums) {
        *sum = [0; 2];
        for (pair, key) in block.as_chunks::<PAIR>().0.iter().zip(key.as_chunks::<2>().0) {
            let pair = u128::from_le_bytes(*pair);
            let (a, b) = (pair as u64 ^ key[0], (pair >> 64) as u64 ^ key[1]);
            sum[0] ^= carryless(a, b);
            // The product's upper half is the lower half of the product of the mirrored factors, mirrored; its lowest
            // bit is bit 64 of the product.
            sum[1] ^= carryless(a.reverse_bits(), b.reverse_bits()).reverse_bits() >> 1;
        }
    }
}
/// Lower half of the product without carries. Each factor is split into four numbers that have only every fourth bit.
/// These are multiplied as integers: carries end in the three bits between, which are masked out.
fn carryless(a: u64, b: u64) -> u64 {
    const EACH_FOURTH: u64 = 0x1111_1111_1111_1111;
    let of = |number: u64| [0, 1, 2, 3].map(|bit| number & EACH_FOURTH << bit);
    let (a, b) = (of(a), of(b));
    let column = |bit: usize| {
        let products = (0..4).map(|i| a[i].wrapping_mul(b[(4 + bit - i) % 4]));
        products.fold(0, |sum, product| sum ^ product) & EACH_FOURTH << bit
    };
    column(0) | column(1) | column(2) | column(3)
}

/// Secret key of digests. The same seed gives the same key.
#[derive(Clone)]
pub struct DigestKey(Arc<DigestKeyData>);
struct DigestKeyData {
    words: [u64; DIGEST_KEY],
    point: u128,
    sums: CarrylessSums,
}
/// Hides the key material from logs.
impl core::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("DigestKey")
    }
}
impl DigestKey {
    /// Derives the key from a seed, which must be secret and random.
    pub fn new(seed: u64, accel: &Accel) -> Self {
        let mut rng = Rng::stream(seed, 0xd16e);
        let mut words = [0; DIGEST_KEY];
        words.iter_mut().for_each(|word| *word = rng.next_u64());
        // 126 bits: certainly below the prime, as `multiply` requires.
        let point = (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) & (PRIME >> 1);
        DigestKey(Arc::new(DigestKeyData { words, point, sums: accel.carryless_sums }))
    }
    /// Starts a new digest with this key.
    pub fn begin(&self) -> Digester {
        Digester { key: self.clone(), sum: 1, block: [0; DIGEST_BLOCK], filled: 0, fill: None, len: 0 }
    }
    /// Digest of a payload; `None` if part of it is not in memory.
    pub fn of(&self, payload: &Payload) -> Option<u64> {
        let mut digester = self.begin();
        digester.update(payload).then(|| digester.finish())
    }
}

/// Digest under construction.
#[derive(Clone, Debug)]
pub struct Digester {
    key: DigestKey,
    sum: u128,
    block: [u8; DIGEST_BLOCK],
    filled: usize,
    /// Pattern that the next chunk may continue: seed, first position, length.
    fill: Option<(u64, u64, u64)>,
    len: u64,
}
impl Digester {
    /// Adds the next part of the content. Returns false if some of it is not in memory; the digest is then void.
    pub fn update(&mut self, part: &Payload) -> bool {
        for chunk in part.chunks() {
            match chunk {
                Chunk::Bytes(bytes) => self.bytes(bytes),
                Chunk::Fill { seed, offset, len } => self.pattern(*seed, *offset, *len),
                Chunk::Stored { .. } => return false,
            }
        }
        true
    }
    /// Adds a numeric field of a bundle to the content.
    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }
    /// Adds the next bytes of the content.
    pub fn bytes(&mut self, mut bytes: &[u8]) {
        self.end_pattern();
        self.len += bytes.len() as u64;
        if self.filled > 0 {
            let now = bytes.len().min(DIGEST_BLOCK - self.filled);
            self.block[self.filled..self.filled + now].copy_from_slice(&bytes[..now]);
            self.filled += now;
            bytes = &bytes[now..];
            if self.filled < DIGEST_BLOCK {
                return;
            }
            self.end_block();
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % DIGEST_BLOCK);
        for blocks in whole.chunks(BLOCKS * DIGEST_BLOCK) {
            self.absorb_blocks(blocks);
        }
        self.block[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }
    fn pattern(&mut self, seed: u64, offset: u64, len: u64) {
        self.len += len;
        match &mut self.fill {
            // Adjacent pieces of one pattern count as one, so that cutting a payload does not change its digest.
            Some((s, o, l)) if *s == seed && *o + *l == offset => *l += len,
            _ => {
                self.end_pattern();
                if self.filled > 0 {
                    self.end_block();
                }
                self.fill = Some((seed, offset, len));
            }
        }
    }
    fn end_pattern(&mut self) {
        if let Some((seed, offset, len)) = self.fill.take() {
            // A pattern gives two coefficients: its seed and position, then its length with a marker.
            self.absorb([seed, offset]);
            self.absorb([len, u64::MAX]);
        }
    }
    /// Absorbs the partial block, its last pair padded with zeros. The length in the last coefficient distinguishes
    /// padding from content.
    fn end_block(&mut self) {
        let end = self.filled.next_multiple_of(PAIR);
        self.block[self.filled..end].fill(0);
        let block = self.block;
        self.filled = 0;
        self.absorb_blocks(&block[..end]);
    }
    fn absorb_blocks(&mut self, bytes: &[u8]) {
        let mut sums = [[0; 2]; BLOCKS];
        let sums = &mut sums[..bytes.len().div_ceil(DIGEST_BLOCK)];
        (self.key.0.sums)(&self.key.0.words, bytes, sums);
        sums.iter().for_each(|sum| self.absorb(*sum));
    }
    fn absorb(&mut self, [low, high]: [u64; 2]) {
        let next = u128::from(high) << 64 | u128::from(low);
        self.sum = reduce(multiply(self.sum, self.key.0.point) + reduce(next));
    }
    /// Finishes the digest. The result is never 0, because 0 stands for an unknown digest.
    pub fn finish(mut self) -> u64 {
        self.end_pattern();
        if self.filled > 0 {
            self.end_block();
        }
        self.absorb([self.len, 0]);
        (self.sum as u64).max(1)
    }
}

/// Reduces any 128-bit number modulo 2^127 - 1.
fn reduce(value: u128) -> u128 {
    // 2^127 is 1 modulo the prime: the top bits are added to the bottom.
    let once = (value & PRIME) + (value >> 127);
    if once >= PRIME { once - PRIME } else { once }
}

/// Product modulo 2^127 - 1 of two reduced numbers.
fn multiply(a: u128, b: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & LOW, b >> 64, b & LOW);
    // Both factors are below 2^127, so the sum of the middle products fits 128 bits.
    let middle = a0 * b1 + a1 * b0;
    let (low, carry) = (a0 * b0).overflowing_add(middle << 64);
    let high = a1 * b1 + (middle >> 64) + u128::from(carry);
    reduce((low & PRIME) + (high << 1 | low >> 127))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use bytes::Bytes;

    fn key(seed: u64) -> DigestKey {
        DigestKey::new(seed, &Accel::default())
    }
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 167 + 13) as u8).collect()
    }

    #[test]
    fn digest_is_independent_of_chunk_boundaries() {
        let (key, whole) = (key(5), bytes(5000));
        let wanted = key.of(&Payload::from(whole.clone()));
        // Cuts near multiples of the block length (1024) and at both ends of the content.
        for cut in [0, 1, 7, 1023, 1024, 1025, 2048, 4999, 5000] {
            let mut rope = Payload::from(whole[..cut].to_vec());
            rope.push_bytes(Bytes::copy_from_slice(&whole[cut..]));
            assert_eq!(key.of(&rope), wanted, "{cut}");
        }
    }

    #[test]
    fn digest_depends_on_bytes_length_key() {
        let whole = bytes(3000);
        let wanted = key(5).of(&Payload::from(whole.clone()));
        // 7 is coprime to 8: every byte of a word is changed somewhere.
        for at in (0..3000).step_by(7) {
            let mut other = whole.clone();
            other[at] ^= 1 << (at % 8);
            assert_ne!(key(5).of(&Payload::from(other)), wanted, "byte {at}");
        }
        // Zero padding of the last block must not hide the length.
        let zeros = |len: usize| key(5).of(&Payload::from(alloc::vec![0; len]));
        assert!((0..2100).map(zeros).collect::<alloc::collections::BTreeSet<_>>().len() == 2100, "zeros count");
        assert_ne!(key(6).of(&Payload::from(whole)), wanted);
    }

    #[test]
    fn split_fill_pattern_keeps_its_digest() {
        let (key, whole) = (key(5), Payload::fill(9, 1 << 40));
        let mut digester = key.begin();
        // The pattern has 2^40 bytes, far more than memory, and comes in three contiguous slices.
        for (start, len) in [(0, 5), (5, 1 << 30), (5 + (1 << 30), (1 << 40) - (1 << 30) - 5)] {
            assert!(digester.update(&whole.slice(start, len)));
        }
        assert_eq!(Some(digester.finish()), key.of(&whole));
        assert_ne!(key.of(&Payload::fill(8, 1 << 40)), key.of(&whole));
    }

    #[test]
    fn carryless_product_matches_bit_by_bit() {
        let mut rng = Rng::new(3);
        for _ in 0..1000 {
            let (a, b) = (rng.next_u64(), rng.next_u64());
            let wanted = (0..64).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(a) << bit);
            let mut sum = [[0; 2]];
            carryless_sums(&[0; DIGEST_KEY], &(u128::from(b) << 64 | u128::from(a)).to_le_bytes(), &mut sum);
            assert_eq!(sum[0], [wanted as u64, (wanted >> 64) as u64], "{a} {b}");
        }
    }

    #[test]
    fn multiply_matches_mersenne_field() {
        assert_eq!(multiply(PRIME - 1, PRIME - 1), 1, "(-1)(-1)");
        assert_eq!(multiply(1 << 126, 4), 2, "2^128 is 2");
        assert_eq!(multiply(0x1234_5678_9abc_def0, 1), 0x1234_5678_9abc_def0);
        assert_eq!((reduce(PRIME), reduce(u128::MAX)), (0, 1));
    }
}
