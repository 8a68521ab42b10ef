//! BIB-HMAC-SHA2 (RFC 9173 3): keyed hashes of targets.

use super::{
    HMAC_SHA2, Header, PAYLOAD, PRIMARY, Scope, Secret, SecurityBlock, SecurityFault, SecurityValue, data, scope,
    unwrap_key,
};
use crate::cbor::{BYTES, put_bytes, put_head};
use crate::{Bundle, EndpointId};
use alloc::vec::Vec;
use hmac::{Hmac, Mac};
use sha2::{Sha256, Sha384, Sha512};

/// Parameter and result numbers (RFC 9173 3.3, 3.4).
const VARIANT: u64 = 1;
const WRAPPED_KEY: u64 = 2;
const SCOPE: u64 = 3;
const HASH: u64 = 1;

/// SHA variant; the numbers are those of the parameter (RFC 9173 3.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Sha {
    /// HMAC 256/256, over SHA-256.
    Sha256 = 5,
    /// HMAC 384/384, the default of a block without the parameter.
    #[default]
    Sha384 = 6,
    /// HMAC 512/512, over SHA-512.
    Sha512 = 7,
}
impl Sha {
    /// All variants, in order.
    pub const ALL: [Sha; 3] = [Sha::Sha256, Sha::Sha384, Sha::Sha512];

    /// Length of a hash, and of a key made for a single block, bytes.
    // 9173-3.1-1
    pub const fn len(self) -> usize {
        match self {
            Sha::Sha256 => 32,
            Sha::Sha384 => 48,
            Sha::Sha512 => 64,
        }
    }
    /// Always false: every hash has bytes.
    pub const fn is_empty(self) -> bool {
        false
    }
    // 9172-3.6-16, 9173-3.3.1-1
    fn read(parameter: Option<&SecurityValue>) -> Result<Sha, SecurityFault> {
        match parameter {
            None => Ok(Sha::default()),
            Some(SecurityValue::Uint(code)) => {
                Sha::ALL.into_iter().find(|sha| *sha as u64 == *code).ok_or(SecurityFault::Parameters)
            }
            Some(_) => Err(SecurityFault::Parameters),
        }
    }
}

/// Parameters of a signature.
#[derive(Clone, Debug)]
pub struct HashSuite {
    /// SHA variant of the hash.
    pub sha: Sha,
    /// Parts of the bundle covered besides the target.
    pub scope: Scope,
    /// Wrapped key, if the block is to carry it.
    pub wrapped: Option<Vec<u8>>,
}

/// HMAC under computation.
enum Hash {
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
}
impl Hash {
    fn new(sha: Sha, key: &[u8]) -> Result<Hash, SecurityFault> {
        match sha {
            Sha::Sha256 => Hmac::new_from_slice(key).map(Hash::Sha256),
            Sha::Sha384 => Hmac::new_from_slice(key).map(Hash::Sha384),
            Sha::Sha512 => Hmac::new_from_slice(key).map(Hash::Sha512),
        }
        .map_err(|_| SecurityFault::Key)
    }
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Hash::Sha256(hash) => hash.update(bytes),
            Hash::Sha384(hash) => hash.update(bytes),
            Hash::Sha512(hash) => hash.update(bytes),
        }
    }
    fn finish(self) -> Vec<u8> {
        match self {
            Hash::Sha256(hash) => hash.finalize().into_bytes().to_vec(),
            Hash::Sha384(hash) => hash.finalize().into_bytes().to_vec(),
            Hash::Sha512(hash) => hash.finalize().into_bytes().to_vec(),
        }
    }
    /// Compares with the expected hash in constant time.
    fn is(self, expected: &[u8]) -> bool {
        match self {
            Hash::Sha256(hash) => hash.verify_slice(expected),
            Hash::Sha384(hash) => hash.verify_slice(expected),
            Hash::Sha512(hash) => hash.verify_slice(expected),
        }
        .is_ok()
    }
}

/// Whether the results may depend on the number of their own block, so that they would not verify in another. True if
/// the context or the scope is unknown.
pub(super) fn holds_only_here(block: &SecurityBlock) -> bool {
    let scope = Scope::read(block.parameter(SCOPE));
    block.context != HMAC_SHA2 || scope.map_or(true, |scope| scope.has(Scope::SECURITY))
}

/// Hashes a target with its scope (RFC 9173 3.7). The primary block as a target is wrapped in a byte string, as in the
/// published example A.3.
// 9172-4-3, 9173-3.2-1, 9173-3.7-6, 9173-3.8.1-4
fn hash(bundle: &Bundle, target: u64, own: Header, scope: Scope, sha: Sha, key: &[u8]) -> Result<Hash, SecurityFault> {
    let mut hash = Hash::new(sha, key)?;
    let mut text = scope::preface(bundle, target, own, scope)?;
    match target {
        PRIMARY => put_bytes(&mut text, &scope::primary(bundle)),
        PAYLOAD => {
            // The payload is hashed piece by piece, never copied.
            put_head(&mut text, BYTES, bundle.payload.len());
            hash.update(&text);
            data::feed(&bundle.payload, |bytes| hash.update(bytes))?;
            return Ok(hash);
        }
        _ => put_bytes(&mut text, &data::of(bundle, target)?),
    }
    hash.update(&text);
    Ok(hash)
}

/// Signs targets, whose CRCs must have been removed ([`super::drop_crc`]), and returns the content of the security
/// block whose header is `own`.
///
/// # Errors
/// A target is missing or not in memory.
// 9172-3.6-16, 9172-3.6-21, 9173-3.1-2, 9173-3.8.1-1, 9173-3.8.1-5, 9173-3.8.1-6, 9173-3.8.1-7, 9173-3.8.1-8
// 9173-3.8.1-9
pub fn sign(
    bundle: &Bundle,
    targets: &[u64],
    own: Header,
    source: &EndpointId,
    suite: &HashSuite,
    key: &[u8],
) -> Result<SecurityBlock, SecurityFault> {
    let mut results = Vec::with_capacity(targets.len());
    for target in targets {
        let hash = hash(bundle, *target, own, suite.scope, suite.sha, key)?;
        results.push(Vec::from([(HASH, SecurityValue::Bytes(hash.finish()))]));
    }
    let mut parameters = Vec::from([(VARIANT, SecurityValue::Uint(suite.sha as u64))]);
    parameters.extend(suite.wrapped.clone().map(|wrapped| (WRAPPED_KEY, SecurityValue::Bytes(wrapped))));
    parameters.push((SCOPE, SecurityValue::Uint(u64::from(suite.scope.0))));
    let source = source.clone();
    Ok(SecurityBlock { targets: targets.to_vec(), context: HMAC_SHA2, source, parameters, results })
}

/// Verifies the hash of a target; one fitting key suffices. If the block carries a wrapped key, each key is tried for
/// unwrapping it.
///
/// # Errors
/// The context is not BIB-HMAC-SHA2, a parameter or the result is invalid, the target is missing or not in memory, or
/// no key verifies the hash.
// 9172-3.6-21, 9172-3.7-2, 9173-3.1-1, 9173-3.8.2-1, 9173-3.8.2-4, 9173-3.8.2-5, 9173-3.8.2-6, 9173-3.8.2-7
// 9173-3.8.2-8
pub fn check(
    bundle: &Bundle,
    block: &SecurityBlock,
    own: Header,
    target: u64,
    keys: &[Secret],
) -> Result<(), SecurityFault> {
    if block.context != HMAC_SHA2 {
        return Err(SecurityFault::Context);
    }
    let sha = Sha::read(block.parameter(VARIANT))?;
    let scope = Scope::read(block.parameter(SCOPE))?;
    let Some(SecurityValue::Bytes(expected)) = block.result(target, HASH) else {
        return Err(SecurityFault::Parameters);
    };
    // A truncated hash would be easier to guess.
    if expected.len() != sha.len() {
        return Err(SecurityFault::Parameters);
    }
    // 9173-3.3.2-1
    let wrapped = match block.parameter(WRAPPED_KEY) {
        None => None,
        Some(SecurityValue::Bytes(wrapped)) => Some(wrapped),
        Some(_) => return Err(SecurityFault::Parameters),
    };
    let mut fault = SecurityFault::Key;
    for key in keys {
        // 9173-3.8.2-2
        let unwrapped = wrapped.map(|wrapped| unwrap_key(key.bytes(), wrapped)).transpose();
        let key = match &unwrapped {
            Ok(unwrapped) => unwrapped.as_ref().unwrap_or(key),
            Err(why) => {
                fault = *why;
                continue;
            }
        };
        if hash(bundle, target, own, scope, sha, key.bytes())?.is(expected) {
            return Ok(());
        }
        fault = SecurityFault::Mismatch;
    }
    Err(fault)
}
