//! BCB-AES-GCM (RFC 9173 4): encryption of targets in place.

use super::{
    AES_GCM, Header, PAYLOAD, PRIMARY, Scope, Secret, SecurityBlock, SecurityFault, SecurityValue, data, scope,
    unwrap_key,
};
use crate::{Bundle, EndpointId};
use aes_gcm::aead::consts::{U8, U9, U10, U11, U12, U13, U14, U15, U16};
use aes_gcm::aead::{Nonce, Tag};
use aes_gcm::aes::{Aes128, Aes256};
use aes_gcm::{AeadInPlace, AesGcm, KeyInit};
use alloc::vec::Vec;
use farlink_base::{AesGcm as Faster, Payload};

/// Parameter and result numbers (RFC 9173 4.3, 4.4).
const IV: u64 = 1;
const VARIANT: u64 = 2;
const WRAPPED_KEY: u64 = 3;
const SCOPE: u64 = 4;
const TAG: u64 = 1;
/// Length of a tag, bytes (RFC 9173 4.4.1).
// 9173-4.3.2-2, 9173-4.4.1-2
const TAG_LEN: usize = 16;

/// AES variant; the numbers are those of the parameter (RFC 9173 4.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Aes {
    /// A128GCM, with keys of 16 bytes.
    A128 = 1,
    /// A256GCM, the default of a block without the parameter.
    #[default]
    A256 = 3,
}
impl Aes {
    /// Key length, bytes.
    // 9173-4.5-1
    pub const fn key_len(self) -> usize {
        match self {
            Aes::A128 => 16,
            Aes::A256 => 32,
        }
    }
    /// Variant for keys of this length.
    pub fn for_key(len: usize) -> Option<Aes> {
        [Aes::A128, Aes::A256].into_iter().find(|aes| aes.key_len() == len)
    }
    // 9172-3.6-16, 9173-4.3.2-1
    fn read(parameter: Option<&SecurityValue>) -> Result<Aes, SecurityFault> {
        match parameter {
            None | Some(SecurityValue::Uint(3)) => Ok(Aes::A256),
            Some(SecurityValue::Uint(1)) => Ok(Aes::A128),
            Some(_) => Err(SecurityFault::Parameters),
        }
    }
}

/// Parameters of an encryption.
#[derive(Clone, Debug)]
pub struct CipherSuite {
    /// AES variant of the cipher.
    pub aes: Aes,
    /// Parts of the bundle covered by the tag besides the target.
    pub scope: Scope,
    /// Initialization vector; never reused with the same key.
    pub iv: [u8; 12],
    /// Wrapped key, if the block is to carry it.
    pub wrapped: Option<Vec<u8>>,
}

/// Encrypts and returns the tag; given a tag, verifies and decrypts. On failure the text is unspecified.
// 9172-3.8-6, 9173-6.3-1
fn run<C: AeadInPlace + KeyInit>(
    key: &[u8],
    iv: &[u8],
    aad: &[u8],
    text: &mut [u8],
    tag: Option<&[u8; TAG_LEN]>,
) -> Result<[u8; TAG_LEN], SecurityFault> {
    let cipher = C::new_from_slice(key).map_err(|_| SecurityFault::Key)?;
    let mut nonce = Nonce::<C>::default();
    if nonce.len() != iv.len() {
        return Err(SecurityFault::Parameters);
    }
    nonce.copy_from_slice(iv);
    if let Some(tag) = tag {
        let mut expected = Tag::<C>::default();
        // GCM tags always have this length; with a cipher of longer or shorter tags the copy below would panic.
        if expected.len() != TAG_LEN {
            return Err(SecurityFault::Parameters);
        }
        expected.copy_from_slice(tag);
        let done = cipher.decrypt_in_place_detached(&nonce, aad, text, &expected);
        return done.map(|()| *tag).map_err(|_| SecurityFault::Mismatch);
    }
    let made = cipher.encrypt_in_place_detached(&nonce, aad, text).map_err(|_| SecurityFault::Parameters)?;
    made.as_slice().try_into().map_err(|_| SecurityFault::Parameters)
}

/// Calls [`run`] for this variant and an IV of 8 to 16 bytes (RFC 9173 4.3.1), or the accelerated code if it applies.
// 9173-4.8.1-4
fn gcm(
    aes: Aes,
    key: &[u8],
    iv: &[u8],
    aad: &[u8],
    text: &mut [u8],
    tag: Option<&[u8; TAG_LEN]>,
    faster: Option<&Faster>,
) -> Result<[u8; TAG_LEN], SecurityFault> {
    // Accelerated code takes the usual 96-bit IV only.
    if let (Some(faster), Ok(iv)) = (faster, iv.try_into())
        && key.len() == aes.key_len()
    {
        return faster_gcm(faster, key, iv, aad, text, tag);
    }
    macro_rules! by_length {
        ($cipher:ty: $($len:literal $size:ty),*) => {
            match iv.len() {
                $( $len => run::<AesGcm<$cipher, $size>>(key, iv, aad, text, tag), )*
                _ => Err(SecurityFault::Parameters),
            }
        };
    }
    match aes {
        Aes::A128 => {
            by_length!(Aes128: 8 U8, 9 U9, 10 U10, 11 U11, 12 U12, 13 U13, 14 U14, 15 U15, 16 U16)
        }
        Aes::A256 => {
            by_length!(Aes256: 8 U8, 9 U9, 10 U10, 11 U11, 12 U12, 13 U13, 14 U14, 15 U15, 16 U16)
        }
    }
}

/// [`run`] with the driver's accelerated implementation.
fn faster_gcm(
    faster: &Faster,
    key: &[u8],
    iv: &[u8; 12],
    aad: &[u8],
    text: &mut [u8],
    tag: Option<&[u8; TAG_LEN]>,
) -> Result<[u8; TAG_LEN], SecurityFault> {
    match tag {
        Some(tag) if (faster.open)(key, iv, aad, text, tag) => Ok(*tag),
        Some(_) => Err(SecurityFault::Mismatch),
        None => (faster.seal)(key, iv, aad, text).ok_or(SecurityFault::Parameters),
    }
}

/// Plaintext of a target: its data without the CBOR head. A fill pattern is represented by its description.
// 9172-3.8-4, 9172-4-4, 9173-4.2-1, 9173-4.7.1-1, 9173-4.7.1-2, 9173-4.7.1-3, 9173-4.8.1-6, 9173-4.8.2-5
fn text_of(bundle: &Bundle, target: u64) -> Result<Vec<u8>, SecurityFault> {
    match target {
        PRIMARY => Err(SecurityFault::Target),
        PAYLOAD => {
            let mut text = Vec::new();
            if !bundle.payload.is_stored() && !bundle.payload.is_fill() {
                text.reserve_exact(bundle.payload.len() as usize);
            }
            data::feed(&bundle.payload, |bytes| text.extend_from_slice(bytes))?;
            Ok(text)
        }
        _ => data::of(bundle, target),
    }
}

// 9172-5.1.1-11, 9173-4.8.1-9, 9173-4.8.1-10, 9173-4.8.2-9, 9173-4.8.2-10
fn put_back(bundle: &mut Bundle, target: u64, text: Vec<u8>) {
    if target == PAYLOAD {
        bundle.set_payload(Payload::from(text));
    } else {
        data::set(bundle, target, text);
    }
}

/// Encrypts one target, whose CRC must have been removed ([`super::drop_crc`]), and returns the content of the security
/// block whose header is `own`. One block has one target, since targets of one block would share its IV.
///
/// # Errors
/// The target is missing, not in memory, or the primary block, or the key has a wrong length. The bundle is then
/// unchanged.
// 9172-3.6-16, 9172-3.6-21, 9172-3.11.1-1, 9173-4.1-1, 9173-4.3.1-2, 9173-4.4.1-3, 9173-4.7.2-2, 9173-4.8.1-1
// 9173-4.8.1-7, 9173-4.8.1-8, 9173-4.8.1-11, 9173-4.8.1-12, 9173-4.8.1-13, 9173-4.8.1-14, 9173-4.8.1-15
// 9173-4.8.1-16
pub fn seal(
    bundle: &mut Bundle,
    target: u64,
    own: Header,
    source: &EndpointId,
    suite: &CipherSuite,
    key: &[u8],
    faster: Option<&Faster>,
) -> Result<SecurityBlock, SecurityFault> {
    let mut text = text_of(bundle, target)?;
    let aad = scope::preface(bundle, target, own, suite.scope)?;
    let tag = gcm(suite.aes, key, &suite.iv, &aad, &mut text, None, faster)?;
    // A fill pattern (simulated payload) has no bytes to encrypt: only the tag is computed.
    if target != PAYLOAD || !bundle.payload.is_fill() {
        put_back(bundle, target, text);
    }
    let mut parameters =
        Vec::from([(IV, SecurityValue::Bytes(suite.iv.to_vec())), (VARIANT, SecurityValue::Uint(suite.aes as u64))]);
    parameters.extend(suite.wrapped.clone().map(|wrapped| (WRAPPED_KEY, SecurityValue::Bytes(wrapped))));
    parameters.push((SCOPE, SecurityValue::Uint(u64::from(suite.scope.0))));
    let results = Vec::from([Vec::from([(TAG, SecurityValue::Bytes(tag.to_vec()))])]);
    Ok(SecurityBlock { targets: Vec::from([target]), context: AES_GCM, source: source.clone(), parameters, results })
}

/// Decrypts a target with the first key that fits. If the block carries a wrapped key, each key is tried for unwrapping
/// it. The tag is a result of the block, or the last bytes of the target (RFC 9173 4.4).
///
/// # Errors
/// The context is not BCB-AES-GCM, a parameter is invalid, the target is missing or not in memory, or no key fits. The
/// bundle is then unchanged.
// 9172-3.6-21, 9173-4.3.1-2, 9173-4.4.1-3, 9173-4.7.2-2, 9173-4.8.2-1, 9173-4.8.2-4, 9173-4.8.2-6, 9173-4.8.2-7
// 9173-4.8.2-8, 9173-4.8.2-12
pub fn open(
    bundle: &mut Bundle,
    block: &SecurityBlock,
    own: Header,
    target: u64,
    keys: &[Secret],
    faster: Option<&Faster>,
) -> Result<(), SecurityFault> {
    if block.context != AES_GCM {
        return Err(SecurityFault::Context);
    }
    let aes = Aes::read(block.parameter(VARIANT))?;
    let scope = Scope::read(block.parameter(SCOPE))?;
    let Some(SecurityValue::Bytes(iv)) = block.parameter(IV) else { return Err(SecurityFault::Parameters) };
    // 9173-4.3.1-1
    if !(8..=16).contains(&iv.len()) {
        return Err(SecurityFault::Parameters);
    }
    // 9173-4.3.3-1
    let wrapped = match block.parameter(WRAPPED_KEY) {
        None => None,
        Some(SecurityValue::Bytes(wrapped)) => Some(wrapped),
        Some(_) => return Err(SecurityFault::Parameters),
    };
    let aad = scope::preface(bundle, target, own, scope)?;
    let mut text = text_of(bundle, target)?;
    let is_fill = target == PAYLOAD && bundle.payload.is_fill();
    let tag: [u8; TAG_LEN] = match block.result(target, TAG) {
        Some(SecurityValue::Bytes(tag)) => tag.as_slice().try_into().map_err(|_| SecurityFault::Parameters)?,
        Some(_) => return Err(SecurityFault::Parameters),
        None => {
            let at = text.len().checked_sub(TAG_LEN).ok_or(SecurityFault::Parameters)?;
            let tag = text[at..].try_into().map_err(|_| SecurityFault::Parameters)?;
            text.truncate(at);
            tag
        }
    };
    let mut fault = SecurityFault::Key;
    for key in keys {
        // 9173-4.8.2-2
        let unwrapped = wrapped.map(|wrapped| unwrap_key(key.bytes(), wrapped)).transpose();
        let key = match &unwrapped {
            Ok(unwrapped) => unwrapped.as_ref().unwrap_or(key),
            Err(why) => {
                fault = *why;
                continue;
            }
        };
        // A key of the other variant may be meant for another block: try the next.
        // 9173-4.5-1
        if key.bytes().len() != aes.key_len() {
            continue;
        }
        if is_fill {
            // A fill pattern has no ciphertext: its description is the same before and after, so the tag is computed
            // again instead of checked.
            if gcm(aes, key.bytes(), iv, &aad, &mut text.clone(), None, faster)? == tag {
                return Ok(());
            }
        } else if gcm(aes, key.bytes(), iv, &aad, &mut text, Some(&tag), faster).is_ok() {
            put_back(bundle, target, text);
            return Ok(());
        } else {
            // The cipher may have overwritten the text: take a fresh copy, without the tag at its end.
            let length = text.len();
            text = text_of(bundle, target)?;
            text.truncate(length);
        }
        fault = SecurityFault::Mismatch;
    }
    Err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps 9173-4.8.1-4.
    #[test]
    fn aes_gcm_accepts_standard_iv_lengths() {
        for len in 0..=20usize {
            let (key, iv) = ([7u8; 32], alloc::vec![9u8; len]);
            let mut text = *b"some text";
            let sealed = gcm(Aes::A256, &key, &iv, b"with", &mut text, None, None);
            assert_eq!(sealed.is_ok(), (8..=16).contains(&len), "RFC 9173 4.3.1: {len}");
            let Ok(tag) = sealed else { continue };
            assert_eq!(
                gcm(Aes::A256, &key, &iv, b"other", &mut text.clone(), Some(&tag), None),
                Err(SecurityFault::Mismatch)
            );
            assert_eq!(gcm(Aes::A256, &key, &iv, b"with", &mut text, Some(&tag), None), Ok(tag));
            assert_eq!(&text, b"some text");
        }
    }

    /// Keeps 9173-4.5-1.
    #[test]
    fn wrong_key_length_is_refused() {
        assert_eq!(gcm(Aes::A256, &[1; 16], &[0; 12], b"", &mut [], None, None), Err(SecurityFault::Key));
        assert_eq!((Aes::for_key(16), Aes::for_key(24), Aes::for_key(32)), (Some(Aes::A128), None, Some(Aes::A256)));
    }
}
