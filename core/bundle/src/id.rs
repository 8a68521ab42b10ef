//! What identifies a bundle.

use crate::cbor::put_uint;
use crate::{Bundle, BundleId};
use alloc::vec::Vec;
use core::fmt;

impl BundleId {
    /// A stable 128-bit hash of the identity: the same in every process and on every machine, so
    /// that a store may keep it. Two independent 64-bit mixes over the canonical encoding.
    pub fn fingerprint(&self) -> u128 {
        let mut bytes = Vec::with_capacity(64);
        self.source.encode(&mut bytes);
        put_uint(&mut bytes, self.creation.time.as_millis());
        put_uint(&mut bytes, self.creation.sequence);
        if let Some((offset, len)) = self.fragment {
            put_uint(&mut bytes, offset);
            put_uint(&mut bytes, len);
        }
        let high = mix(&bytes, 0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F);
        let low = mix(&bytes, 0xA076_1D64_78BD_642F, 0xE703_7ED1_A0B4_28DB);
        u128::from(high) << 64 | u128::from(low)
    }
}

/// Multiply-fold over words of eight bytes, then an avalanche.
fn mix(bytes: &[u8], seed: u64, odd: u64) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    let mut state = seed ^ (bytes.len() as u64).wrapping_mul(odd);
    for chunk in bytes.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), odd).wrapping_add(seed).rotate_left(29);
    }
    state ^= state >> 32;
    state = state.wrapping_mul(odd);
    state ^ state >> 29
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.source, self.creation.time.as_millis(), self.creation.sequence)?;
        match self.fragment {
            Some((offset, len)) => write!(f, "-{offset}-{len}"),
            None => Ok(()),
        }
    }
}

impl Bundle {
    /// Its identity (RFC 9171 4.2.7).
    pub fn id(&self) -> BundleId {
        BundleId {
            source: self.primary.source.clone(),
            creation: self.primary.creation,
            fragment: self.primary.fragment.map(|f| (f.offset, self.payload.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreationTimestamp, EndpointId};
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;
    use farlink_base::DtnTime;

    fn id(node: u64, sequence: u64, fragment: Option<(u64, u64)>) -> BundleId {
        let creation = CreationTimestamp { time: DtnTime(799_000_000_000), sequence };
        BundleId { source: EndpointId::ipn(node, 1), creation, fragment }
    }

    #[test]
    fn fingerprints_differ_and_are_stable() {
        let mut seen = BTreeSet::new();
        for node in 1..40 {
            for sequence in 0..40 {
                for fragment in [None, Some((0, 5)), Some((5, 5)), Some((5, 0))] {
                    let print = id(node, sequence, fragment).fingerprint();
                    assert!(seen.insert(print as u64) && seen.insert((print >> 64) as u64));
                }
            }
        }
        assert_eq!(
            id(1, 0, None).fingerprint(),
            48_810_849_537_389_977_937_366_002_607_942_452_667,
            "a store on disk depends on it"
        );
    }

    #[test]
    fn prints_like_other_implementations_do() {
        assert_eq!(id(1, 2, Some((3, 4))).to_string(), "ipn:1.1-799000000000-2-3-4");
    }
}
