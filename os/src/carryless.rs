//! Sums of carry-less products (in GF(2)), computed by instructions of this processor: the inner loop of content
//! digests.

/// Bytes that contribute to one sum.
pub const BLOCK: usize = 1024;
/// Function that computes a sum for each block of [`BLOCK`] bytes; the last block may be shorter, by a multiple of 16.
/// Each 64-bit word is XORed with the key's word at the same position; the sum is the XOR of the carry-less products of
/// successive pairs of these words. Its low 64 bits come first.
pub type Sums = fn(key: &[u64; BLOCK / 8], bytes: &[u8], sums: &mut [[u64; 2]]);

/// The fastest implementation that this processor has; `None` without instructions for carry-less products.
pub fn sums() -> Option<Sums> {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") && std::is_x86_feature_detected!("vpclmulqdq") {
            // SAFETY: the processor was just found to have AVX-512F and VPCLMULQDQ, which implies PCLMULQDQ.
            return Some(|key, bytes, sums| unsafe { x86::wide(key, bytes, sums) });
        }
        if std::is_x86_feature_detected!("pclmulqdq") {
            // SAFETY: the processor was just found to have these instructions.
            return Some(|key, bytes, sums| unsafe { x86::narrow(key, bytes, sums) });
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("aes") {
        // SAFETY: the processor was just found to have these instructions.
        return Some(|key, bytes, sums| unsafe { arm::sums(key, bytes, sums) });
    }
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::BLOCK;
    use std::arch::x86_64::*;

    /// Multiplies four pairs per instruction, into four independent sums.
    #[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq")]
    pub unsafe fn wide(key: &[u64; BLOCK / 8], bytes: &[u8], sums: &mut [[u64; 2]]) {
        for (block, sum) in bytes.chunks(BLOCK).zip(sums) {
            let mut wide = [_mm512_setzero_si512(); 4];
            let (whole, rest) = block.as_chunks::<64>();
            let (keys, _) = key.as_chunks::<8>();
            for (at, (bytes, key)) in whole.iter().zip(keys).enumerate() {
                // SAFETY: both arrays have 64 bytes; the loads need no alignment.
                let (bytes, key) =
                    unsafe { (_mm512_loadu_si512(bytes.as_ptr().cast()), _mm512_loadu_si512(key.as_ptr().cast())) };
                let words = _mm512_xor_si512(bytes, key);
                let product = _mm512_clmulepi64_epi128::<0x10>(words, words);
                wide[at % 4] = _mm512_xor_si512(wide[at % 4], product);
            }
            let all = _mm512_xor_si512(_mm512_xor_si512(wide[0], wide[1]), _mm512_xor_si512(wide[2], wide[3]));
            let parts = [
                _mm512_extracti32x4_epi32::<0>(all),
                _mm512_extracti32x4_epi32::<1>(all),
                _mm512_extracti32x4_epi32::<2>(all),
                _mm512_extracti32x4_epi32::<3>(all),
            ];
            let start = parts.into_iter().fold(_mm_setzero_si128(), |a, b| _mm_xor_si128(a, b));
            *sum = pairs(&key[whole.len() * 8..], rest, start);
        }
    }

    /// Multiplies one pair per instruction.
    #[target_feature(enable = "pclmulqdq")]
    pub unsafe fn narrow(key: &[u64; BLOCK / 8], bytes: &[u8], sums: &mut [[u64; 2]]) {
        for (block, sum) in bytes.chunks(BLOCK).zip(sums) {
            *sum = pairs(key, block, _mm_setzero_si128());
        }
    }

    #[target_feature(enable = "pclmulqdq")]
    #[inline]
    fn pairs(key: &[u64], block: &[u8], start: __m128i) -> [u64; 2] {
        let mut sum = [start, _mm_setzero_si128()];
        for (at, (bytes, key)) in block.as_chunks::<16>().0.iter().zip(key.as_chunks::<2>().0).enumerate() {
            // SAFETY: both arrays have 16 bytes; the loads need no alignment.
            let (bytes, key) =
                unsafe { (_mm_loadu_si128(bytes.as_ptr().cast()), _mm_loadu_si128(key.as_ptr().cast())) };
            let words = _mm_xor_si128(bytes, key);
            sum[at % 2] = _mm_xor_si128(sum[at % 2], _mm_clmulepi64_si128::<0x10>(words, words));
        }
        let sum = _mm_xor_si128(sum[0], sum[1]);
        [_mm_cvtsi128_si64(sum) as u64, _mm_cvtsi128_si64(_mm_unpackhi_epi64(sum, sum)) as u64]
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::BLOCK;
    use std::arch::aarch64::vmull_p64;

    /// Multiplies one pair per instruction.
    #[target_feature(enable = "neon,aes")]
    pub unsafe fn sums(key: &[u64; BLOCK / 8], bytes: &[u8], sums: &mut [[u64; 2]]) {
        for (block, sum) in bytes.chunks(BLOCK).zip(sums) {
            let mut all = 0u128;
            for (pair, key) in block.as_chunks::<16>().0.iter().zip(key.as_chunks::<2>().0) {
                let pair = u128::from_le_bytes(*pair);
                all ^= vmull_p64(pair as u64 ^ key[0], (pair >> 64) as u64 ^ key[1]);
            }
            *sum = [all as u64, (all >> 64) as u64];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation, bit by bit.
    fn slow(key: &[u64; BLOCK / 8], block: &[u8]) -> [u64; 2] {
        let mut sum = 0u128;
        for (pair, key) in block.as_chunks::<16>().0.iter().zip(key.as_chunks::<2>().0) {
            let pair = u128::from_le_bytes(*pair);
            let (low, high) = (pair as u64 ^ key[0], (pair >> 64) as u64 ^ key[1]);
            sum = (0..64).filter(|bit| high >> bit & 1 == 1).fold(sum, |sum, bit| sum ^ u128::from(low) << bit);
        }
        [sum as u64, (sum >> 64) as u64]
    }

    #[test]
    fn instructions_agree_with_bitwise_products() {
        let mut key = [0u64; BLOCK / 8];
        key.iter_mut().enumerate().for_each(|(i, word)| *word = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let bytes: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let mut all: Vec<Sums> = sums().into_iter().collect();
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("pclmulqdq") {
            // SAFETY: the processor was just found to have these instructions.
            all.push(|key, bytes, sums| unsafe { x86::narrow(key, bytes, sums) });
        }
        for sums in all {
            for len in (0..=2992usize).step_by(16) {
                let mut found = vec![[7; 2]; len.div_ceil(BLOCK)];
                sums(&key, &bytes[..len], &mut found);
                let wanted: Vec<[u64; 2]> = bytes[..len].chunks(BLOCK).map(|block| slow(&key, block)).collect();
                assert_eq!(found, wanted, "{len}");
            }
        }
    }
}
