//! Bundle protocol security (RFC 9172) with its two default contexts (RFC 9173): BIB-HMAC-SHA2 and
//! BCB-AES-GCM, over a [`Bundle`].
//!
//! [`SecurityBlock`] is the content of both block types. [`sign`] and [`check`] make and verify keyed hashes, [`seal`]
//! and [`open`] encrypt and decrypt. The choice of keys and bundles, and the consequences of a [`SecurityFault`], are
//! decided elsewhere. Ciphers and hashes are those of RustCrypto.

mod block;
mod cipher;
mod data;
mod integrity;
mod key;
mod scope;

pub use block::{Pairs, SecurityBlock, SecurityValue};
pub use cipher::{Aes, CipherSuite, open, seal};
pub use data::{add_crc, drop_crc, numbers_of};
pub use farlink_base::security::Secret;
pub use integrity::{HashSuite, Sha, check, sign};
pub use key::{fresh_key, unwrap_key, wrap_key};
pub use scope::{Header, Scope};

use crate::cbor::CborReader;
use crate::fields::read_block_start;
use crate::head::targets;
use crate::{BlockFlags, Bundle, CrcType, ExtensionBlock, Profile};
use farlink_base::Bytes;

/// Block type of block integrity blocks (RFC 9172 11.1).
pub const INTEGRITY: u64 = 11;
/// Block type of block confidentiality blocks (RFC 9172 11.1).
pub const CONFIDENTIALITY: u64 = 12;
/// Block number of the primary block.
pub const PRIMARY: u64 = 0;
/// Block number of the payload block.
pub const PAYLOAD: u64 = 1;
/// Context identifier of BIB-HMAC-SHA2 (RFC 9173 3).
// 9172-9.1-1, 9173-3.1-2
pub const HMAC_SHA2: i64 = 1;
/// Context identifier of BCB-AES-GCM (RFC 9173 4).
// 9172-9.1-1, 9173-4.1-1
pub const AES_GCM: i64 = 2;

/// Error of making, checking or undoing a security operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecurityFault {
    /// The block violates RFC 9172 3.6.
    Malformed,
    /// A target is missing from the bundle, or is a block that this operation must not target.
    Target,
    /// The context is not one of RFC 9173.
    Context,
    /// A parameter or result is missing or invalid in its context.
    Parameters,
    /// The key is missing or has a wrong length.
    Key,
    /// Verification failed: the bytes were changed, or the key differs.
    Mismatch,
    /// Part of the target is not in memory.
    NotInMemory,
}

/// Whether the head of a bundle ([`farlink_base::BundleMeta::head`]) contains a security block.
pub fn is_secured(head: &[u8]) -> bool {
    has_block(head, |kind, _| matches!(kind, INTEGRITY | CONFIDENTIALITY))
}
/// Whether the head of a bundle contains a confidentiality block with this target.
pub fn has_cipher(head: &[u8], target: u64) -> bool {
    has_block(head, |kind, data| kind == CONFIDENTIALITY && targets(data, target))
}

/// Whether `is` accepts the type and data of some block before the payload.
fn has_block(head: &[u8], is: impl Fn(u64, &[u8]) -> bool) -> bool {
    let mut reader = CborReader::new(head, 0, false);
    if reader.take(1).and_then(|_| reader.item()).is_err() {
        return false;
    }
    while let Ok(fields) = read_block_start(&mut reader, Profile::Permissive) {
        if fields.number == PAYLOAD {
            return false;
        }
        // A head may end within a block's data: decide by its type alone.
        let Ok(data) = reader.bytes() else { return is(fields.kind, &[]) };
        if is(fields.kind, data) {
            return true;
        }
        // The head was checked when it was received: its CRC is only skipped.
        let rest = match fields.crc {
            CrcType::None => Ok(()),
            _ => reader.bytes().map(drop),
        };
        if rest.and_then(|()| reader.array_end(fields.open)).is_err() {
            return false;
        }
    }
    false
}

/// Decoded security block of a bundle.
#[derive(Clone, Debug)]
pub struct Section {
    /// Header of the block in the bundle.
    pub header: Header,
    /// Content of the block.
    pub block: SecurityBlock,
}
impl Section {
    /// Security blocks of a type; a block that cannot be decoded is returned as its header.
    pub fn all(bundle: &Bundle, kind: u64) -> impl Iterator<Item = Result<Section, Header>> + '_ {
        bundle.extensions.iter().filter(move |block| block.kind == kind).map(|block| {
            let header = Header::of(block);
            let block = SecurityBlock::decode(&data::of_block(block)).map_err(|_| header)?;
            Ok(Section { header, block })
        })
    }
    /// Inserts the block before all other extension blocks of the bundle.
    // 9172-3.11.2-1
    pub fn insert(&self, bundle: &mut Bundle) {
        let Header { kind, number, flags } = self.header;
        let data = crate::BlockData::Unknown(Bytes::from(self.block.encode()));
        let block = ExtensionBlock { kind, number, flags, crc: CrcType::None, data, raw: None };
        bundle.extensions.insert(0, block);
    }
    /// Removes the operation on `target` from the bundle, and the whole block with its last operation (RFC 9172 5.1).
    // 9172-5.1.1-4, 9172-5.1.2-4
    pub fn remove(&mut self, bundle: &mut Bundle, target: u64) {
        self.block.remove(target);
        if self.block.targets.is_empty() {
            bundle.remove_block(self.header.number);
        } else {
            data::set(bundle, self.header.number, self.block.encode());
        }
    }
    /// Moves the operations on these targets to a new block (RFC 9172 3.9).
    ///
    /// # Errors
    /// The results depend on the number of their block, so they would not verify in another (RFC 9173 3.7); also
    /// assumed for unknown contexts.
    // 9172-3.9-3, 9172-3.9-4
    pub fn split(&mut self, bundle: &mut Bundle, targets: &[u64]) -> Result<Section, SecurityFault> {
        if integrity::holds_only_here(&self.block) {
            return Err(SecurityFault::Parameters);
        }
        let block = self.block.split(targets);
        let header = Header { number: bundle.free_block_number(), ..self.header };
        data::set(bundle, self.header.number, self.block.encode());
        let moved = Section { header, block };
        moved.insert(bundle);
        Ok(moved)
    }
}

/// Flags of security blocks made here: BCBs of payloads must be in every fragment (RFC 9172 3.8), and a primary block
/// without CRC needs its BIB in every fragment (RFC 9171 4.3.1).
// 9172-3.8-1, 9172-3.8-2
pub const FLAGS: BlockFlags = BlockFlags(BlockFlags::REPLICATE);
