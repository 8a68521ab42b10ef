//! The hash used beyond one node: policies send identities of bundles and numbers of named nodes to neighbours, and
//! stores keep them. So it has no key, resists collisions and is the same on every machine: the first bytes of SHA-256
//! as a big-endian number.

use sha2::{Digest, Sha256};

/// First 16 bytes of SHA-256 over the concatenated parts, as a big-endian number.
pub fn hash128(parts: &[&[u8]]) -> u128 {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(part);
    }
    let digest: [u8; 32] = sha.finalize().into();
    let mut first = [0u8; 16];
    first.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash128_is_truncated_sha_256() {
        // FIPS 180-4, the digest of "abc".
        assert_eq!(hash128(&[b"a", b"bc"]), 0xba78_16bf_8f01_cfea_4141_40de_5dae_2223);
    }
}
