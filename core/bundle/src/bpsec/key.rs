//! Key wrapping (RFC 3394) and generation.

use super::SecurityFault;
use aes_kw::{KekAes128, KekAes192, KekAes256};
use alloc::vec::Vec;
use farlink_base::security::Secret;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Longest key that is unwrapped, bytes: an HMAC key as long as the block of SHA-512.
const LONGEST: usize = 128;

/// Wraps a key with another one of 16, 24 or 32 bytes (RFC 3394).
///
/// # Errors
/// The wrapping key has another length, or the wrapped key's length is not a multiple of 8 bytes.
// 9173-3.8.1-10, 9173-4.8.1-17
pub fn wrap_key(with: &[u8], key: &Secret) -> Result<Vec<u8>, SecurityFault> {
    let mut out = alloc::vec![0; key.bytes().len() + 8];
    match with.len() {
        16 => KekAes128::try_from(with).and_then(|kek| kek.wrap(key.bytes(), &mut out)),
        24 => KekAes192::try_from(with).and_then(|kek| kek.wrap(key.bytes(), &mut out)),
        32 => KekAes256::try_from(with).and_then(|kek| kek.wrap(key.bytes(), &mut out)),
        _ => return Err(SecurityFault::Key),
    }
    .map_err(|_| SecurityFault::Key)?;
    Ok(out)
}

/// Unwraps a key wrapped by [`wrap_key`].
///
/// # Errors
/// The key was wrapped with a different one, the wrapping key has a wrong length, or `wrapped` has an impossible
/// length.
// 9173-3.8.2-2, 9173-4.8.2-2
pub fn unwrap_key(with: &[u8], wrapped: &[u8]) -> Result<Secret, SecurityFault> {
    // RFC 3394 wraps at least two 64-bit blocks and adds one.
    if wrapped.len() < 24 || wrapped.len() > LONGEST + 8 || !wrapped.len().is_multiple_of(8) {
        return Err(SecurityFault::Parameters);
    }
    let mut out = Zeroizing::new(alloc::vec![0; wrapped.len() - 8]);
    match with.len() {
        16 => KekAes128::try_from(with).and_then(|kek| kek.unwrap(wrapped, &mut out)),
        24 => KekAes192::try_from(with).and_then(|kek| kek.unwrap(wrapped, &mut out)),
        32 => KekAes256::try_from(with).and_then(|kek| kek.unwrap(wrapped, &mut out)),
        _ => return Err(SecurityFault::Key),
    }
    .map_err(|_| SecurityFault::Mismatch)?;
    Ok(Secret::from(out))
}

/// Derives key number `number` from a secret seed; different numbers give different keys (HMAC-SHA-256 in counter mode,
/// NIST SP 800-108 4.1).
pub fn fresh_key(seed: &[u8; 32], number: u128, len: usize) -> Secret {
    let mut key = Vec::with_capacity(len + 32);
    let mut part = 0u8;
    while key.len() < len {
        part += 1;
        let Ok(mut hash) = Hmac::<Sha256>::new_from_slice(seed) else { break };
        hash.update(&[part]);
        hash.update(b"farlink content key");
        hash.update(&number.to_be_bytes());
        key.extend_from_slice(&hash.finalize().into_bytes());
    }
    key.truncate(len);
    Secret::new(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    /// Keeps 9173-3.8.1-10, 9173-3.8.2-2, 9173-4.8.1-17, 9173-4.8.2-2.
    #[test]
    fn wrapped_key_needs_its_wrapping_key() {
        for len in [16, 24, 32] {
            let (kek, key) = (alloc::vec![5; len], fresh_key(&[1; 32], 7, 64));
            let wrapped = wrap_key(&kek, &key).unwrap();
            assert_eq!(unwrap_key(&kek, &wrapped).as_ref(), Ok(&key));
            assert_eq!(unwrap_key(&alloc::vec![6; len], &wrapped), Err(SecurityFault::Mismatch));
            for at in 0..wrapped.len() {
                let mut changed = wrapped.clone();
                changed[at] ^= 1;
                assert_eq!(unwrap_key(&kek, &changed), Err(SecurityFault::Mismatch), "{at}");
            }
        }
        assert_eq!(wrap_key(&[0; 17], &Secret::new(alloc::vec![0; 16])), Err(SecurityFault::Key));
        for len in [0, 8, 16, 23, 25, 200, 4096] {
            assert_eq!(unwrap_key(&[0; 16], &alloc::vec![0; len]), Err(SecurityFault::Parameters), "{len}");
        }
    }

    #[test]
    fn fresh_keys_differ_and_stay_hidden() {
        let keys: Vec<_> = (0..64).map(|number| fresh_key(&[3; 32], number, 48)).collect();
        assert!(keys.iter().all(|key| key.bytes().len() == 48));
        assert!(keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key)));
        assert_ne!(fresh_key(&[4; 32], 0, 48), keys[0]);
        assert_eq!(format!("{:?}", keys[0]), "a key of 48 B");
        assert_ne!(keys[0].fingerprint(), keys[1].fingerprint());
    }
}
