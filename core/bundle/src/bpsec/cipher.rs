//! BCB-AES-GCM (RFC 9173 4): targets enciphered in place.

use super::{AES_GCM, Fault, Header, PAYLOAD, PRIMARY, Scope, Secret, SecurityBlock, Value, data, scope, unwrap_key};
use crate::{Bundle, EndpointId};
use aes_gcm::aead::consts::{U8, U9, U10, U11, U12, U13, U14, U15, U16};
use aes_gcm::aead::{Nonce, Tag};
use aes_gcm::aes::{Aes128, Aes256};
use aes_gcm::{AeadInPlace, AesGcm, KeyInit};
use alloc::vec::Vec;
use farlink_base::{AesGcm as Faster, Payload};

/// Parameters and the result (RFC 9173 4.3, 4.4).
const IV: u64 = 1;
const VARIANT: u64 = 2;
const WRAPPED_KEY: u64 = 3;
const SCOPE: u64 = 4;
const TAG: u64 = 1;
/// Bytes of a tag, always (RFC 9173 4.4.1).
// 9173-4.3.2-2, 9173-4.4.1-2
const TAG_LEN: usize = 16;

/// Which cipher; the numbers are those of the AES variant parameter (RFC 9173 4.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Aes {
    /// A128GCM.
    A128 = 1,
    /// A256GCM: what holds where a block does not say.
    #[default]
    A256 = 3,
}
impl Aes {
    /// Bytes of its keys.
    // 9173-4.5-1
    pub const fn key_len(self) -> usize {
        match self {
            Aes::A128 => 16,
            Aes::A256 => 32,
        }
    }
    /// The cipher for keys of this length.
    pub fn for_key(len: usize) -> Option<Aes> {
        [Aes::A128, Aes::A256].into_iter().find(|aes| aes.key_len() == len)
    }
    // 9172-3.6-16, 9173-4.3.2-1
    fn read(parameter: Option<&Value>) -> Result<Aes, Fault> {
        match parameter {
            None | Some(Value::Uint(3)) => Ok(Aes::A256),
            Some(Value::Uint(1)) => Ok(Aes::A128),
            Some(_) => Err(Fault::Parameters),
        }
    }
}

/// How a target is enciphered.
#[derive(Clone, Debug)]
pub struct CipherSuite {
    /// Which cipher.
    pub aes: Aes,
    /// What the tag covers besides the target.
    pub scope: Scope,
    /// Never twice with one key.
    pub iv: [u8; 12],
    /// The key, wrapped, where the block is to carry it.
    pub wrapped: Option<Vec<u8>>,
}

/// Enciphers and gives the tag, or, where there is one, deciphers if it is right; else the text is nothing any more.
// 9172-3.8-6, 9173-6.3-1
fn run<C: AeadInPlace + KeyInit>(
    key: &[u8],
    iv: &[u8],
    aad: &[u8],
    text: &mut [u8],
    tag: Option<&[u8; TAG_LEN]>,
) -> Result<[u8; TAG_LEN], Fault> {
    let cipher = C::new_from_slice(key).map_err(|_| Fault::Key)?;
    let mut nonce = Nonce::<C>::default();
    if nonce.len() != iv.len() {
        return Err(Fault::Parameters);
    }
    nonce.copy_from_slice(iv);
    if let Some(tag) = tag {
        let mut expected = Tag::<C>::default();
        if expected.len() != TAG_LEN {
            return Err(Fault::Parameters);
        }
        expected.copy_from_slice(tag);
        let done = cipher.decrypt_in_place_detached(&nonce, aad, text, &expected);
        return done.map(|()| *tag).map_err(|_| Fault::Mismatch);
    }
    let made = cipher.encrypt_in_place_detached(&nonce, aad, text).map_err(|_| Fault::Parameters)?;
    made.as_slice().try_into().map_err(|_| Fault::Parameters)
}

/// [`run`] with the cipher of this variant for IVs of 8 to 16 bytes (RFC 9173 4.3.1).
// 9173-4.8.1-4
fn gcm(
    aes: Aes,
    key: &[u8],
    iv: &[u8],
    aad: &[u8],
    text: &mut [u8],
    tag: Option<&[u8; TAG_LEN]>,
    faster: Option<&Faster>,
) -> Result<[u8; TAG_LEN], Fault> {
    if let (Some(faster), Ok(iv)) = (faster, iv.try_into())
        && key.len() == aes.key_len()
    {
        return faster_gcm(faster, key, iv, aad, text, tag);
    }
    macro_rules! by_length {
        ($cipher:ty: $($len:literal $size:ty),*) => {
            match iv.len() {
                $( $len => run::<AesGcm<$cipher, $size>>(key, iv, aad, text, tag), )*
                _ => Err(Fault::Parameters),
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

/// As [`run`], with what the driver gave.
fn faster_gcm(
    faster: &Faster,
    key: &[u8],
    iv: &[u8; 12],
    aad: &[u8],
    text: &mut [u8],
    tag: Option<&[u8; TAG_LEN]>,
) -> Result<[u8; TAG_LEN], Fault> {
    match tag {
        Some(tag) if (faster.open)(key, iv, aad, text, tag) => Ok(*tag),
        Some(_) => Err(Fault::Mismatch),
        None => (faster.seal)(key, iv, aad, text).ok_or(Fault::Parameters),
    }
}

/// What is enciphered of a target: its data without the CBOR head; of a payload known by its length only, what it is.
// 9172-3.8-4, 9172-4-4, 9173-4.2-1, 9173-4.7.1-1, 9173-4.7.1-2, 9173-4.7.1-3, 9173-4.8.1-6, 9173-4.8.2-5
fn text_of(bundle: &Bundle, target: u64) -> Result<Vec<u8>, Fault> {
    match target {
        PRIMARY => Err(Fault::Target),
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

/// Enciphers one target, whose CRC is gone already ([`super::drop_crc`]); gives the data of the block that shall have
/// this `own` header. One block has one target: targets of one block would share its IV.
///
/// # Errors
/// The target is not there, not in memory, or the primary block; a key of another length. The bundle is as it was
/// then.
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
) -> Result<SecurityBlock, Fault> {
    let mut text = text_of(bundle, target)?;
    let aad = scope::preface(bundle, target, own, suite.scope)?;
    let tag = gcm(suite.aes, key, &suite.iv, &aad, &mut text, None, faster)?;
    if target != PAYLOAD || !bundle.payload.is_fill() {
        put_back(bundle, target, text);
    }
    let mut parameters = Vec::from([(IV, Value::Bytes(suite.iv.to_vec())), (VARIANT, Value::Uint(suite.aes as u64))]);
    parameters.extend(suite.wrapped.clone().map(|wrapped| (WRAPPED_KEY, Value::Bytes(wrapped))));
    parameters.push((SCOPE, Value::Uint(u64::from(suite.scope.0))));
    let results = Vec::from([Vec::from([(TAG, Value::Bytes(tag.to_vec()))])]);
    Ok(SecurityBlock { targets: Vec::from([target]), context: AES_GCM, source: source.clone(), parameters, results })
}

/// Deciphers a target with the first of the keys that fits; they unwrap the block's own where it has one. The tag is a
/// result, or the last bytes of the target (RFC 9173 4.4).
///
/// # Errors
/// None of them fits. The bundle is as it was then.
// 9172-3.6-21, 9173-4.3.1-2, 9173-4.4.1-3, 9173-4.7.2-2, 9173-4.8.2-1, 9173-4.8.2-4, 9173-4.8.2-6, 9173-4.8.2-7
// 9173-4.8.2-8, 9173-4.8.2-12
pub fn open(
    bundle: &mut Bundle,
    block: &SecurityBlock,
    own: Header,
    target: u64,
    keys: &[Secret],
    faster: Option<&Faster>,
) -> Result<(), Fault> {
    if block.context != AES_GCM {
        return Err(Fault::Context);
    }
    let aes = Aes::read(block.parameter(VARIANT))?;
    let scope = Scope::read(block.parameter(SCOPE))?;
    let Some(Value::Bytes(iv)) = block.parameter(IV) else { return Err(Fault::Parameters) };
    // 9173-4.3.1-1
    if !(8..=16).contains(&iv.len()) {
        return Err(Fault::Parameters);
    }
    // 9173-4.3.3-1
    let wrapped = match block.parameter(WRAPPED_KEY) {
        None => None,
        Some(Value::Bytes(wrapped)) => Some(wrapped),
        Some(_) => return Err(Fault::Parameters),
    };
    let aad = scope::preface(bundle, target, own, scope)?;
    let mut text = text_of(bundle, target)?;
    let is_fill = target == PAYLOAD && bundle.payload.is_fill();
    let tag: [u8; TAG_LEN] = match block.result(target, TAG) {
        Some(Value::Bytes(tag)) => tag.as_slice().try_into().map_err(|_| Fault::Parameters)?,
        Some(_) => return Err(Fault::Parameters),
        None => {
            let at = text.len().checked_sub(TAG_LEN).ok_or(Fault::Parameters)?;
            let tag = text[at..].try_into().map_err(|_| Fault::Parameters)?;
            text.truncate(at);
            tag
        }
    };
    let mut fault = Fault::Key;
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
        // 9173-4.5-1
        if key.bytes().len() != aes.key_len() {
            continue;
        }
        if is_fill {
            // What is known by its length only looks the same before and after.
            if gcm(aes, key.bytes(), iv, &aad, &mut text.clone(), None, faster)? == tag {
                return Ok(());
            }
        } else if gcm(aes, key.bytes(), iv, &aad, &mut text, Some(&tag), faster).is_ok() {
            put_back(bundle, target, text);
            return Ok(());
        } else {
            let length = text.len();
            text = text_of(bundle, target)?;
            text.truncate(length);
        }
        fault = Fault::Mismatch;
    }
    Err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps 9173-4.8.1-4.
    #[test]
    fn ivs_of_every_length_that_the_standard_allows_are_read() {
        for len in 0..=20usize {
            let (key, iv) = ([7u8; 32], alloc::vec![9u8; len]);
            let mut text = *b"some text";
            let sealed = gcm(Aes::A256, &key, &iv, b"with", &mut text, None, None);
            assert_eq!(sealed.is_ok(), (8..=16).contains(&len), "RFC 9173 4.3.1: {len}");
            let Ok(tag) = sealed else { continue };
            assert_eq!(gcm(Aes::A256, &key, &iv, b"other", &mut text.clone(), Some(&tag), None), Err(Fault::Mismatch));
            assert_eq!(gcm(Aes::A256, &key, &iv, b"with", &mut text, Some(&tag), None), Ok(tag));
            assert_eq!(&text, b"some text");
        }
    }

    /// Keeps 9173-4.5-1.
    #[test]
    fn a_key_of_the_wrong_length_is_no_key() {
        assert_eq!(gcm(Aes::A256, &[1; 16], &[0; 12], b"", &mut [], None, None), Err(Fault::Key));
        assert_eq!((Aes::for_key(16), Aes::for_key(24), Aes::for_key(32)), (Some(Aes::A128), None, Some(Aes::A256)));
    }
}
