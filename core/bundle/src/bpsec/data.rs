//! Access to the data of security targets: it is read and replaced, and the CRCs of the targets are removed.

use super::{PAYLOAD, PRIMARY, SecurityFault};
use crate::encode::put_fields;
use crate::fields::read_data;
use crate::{BlockData, Bundle, CrcType, ExtensionBlock, Profile};
use alloc::vec::Vec;
use farlink_base::{Bytes, Chunk, Payload};

/// Block-type-specific data of an extension block, deterministically encoded.
// 9172-4-3
pub(super) fn of_block(block: &ExtensionBlock) -> Vec<u8> {
    let mut out = Vec::new();
    put_fields(&block.data, &mut out);
    out
}

/// Block-type-specific data of a target other than the payload.
pub(super) fn of(bundle: &Bundle, number: u64) -> Result<Vec<u8>, SecurityFault> {
    bundle.extensions.iter().find(|block| block.number == number).map(of_block).ok_or(SecurityFault::Target)
}

/// Replaces the data of an extension block.
pub(super) fn set(bundle: &mut Bundle, number: u64, data: Vec<u8>) {
    if let Some(block) = bundle.extensions.iter_mut().find(|block| block.number == number) {
        // Decrypted data is parsed like received data; ciphertext stays unknown.
        let meaning = read_data(block.kind, &data, 0, Profile::Permissive).ok().flatten();
        block.data = meaning.unwrap_or_else(|| BlockData::Unknown(Bytes::from(data)));
        block.raw = None;
    }
}

/// Feeds the payload to a hash or cipher. A fill pattern of a simulation is represented by its description: seed,
/// offset and length.
///
/// # Errors
/// Part of the payload is on disk.
pub(super) fn feed(payload: &Payload, mut take: impl FnMut(&[u8])) -> Result<(), SecurityFault> {
    for chunk in payload.chunks() {
        match chunk {
            Chunk::Bytes(bytes) => take(bytes),
            Chunk::Stored { .. } => return Err(SecurityFault::NotInMemory),
            Chunk::Fill { seed, offset, len } => {
                [seed, offset, len].into_iter().for_each(|number| take(&number.to_be_bytes()));
            }
        }
    }
    Ok(())
}

/// Numbers of the blocks of type `kind`; kind 0 stands for the primary block, 1 for the payload block.
pub fn numbers_of(bundle: &Bundle, kind: u64) -> Vec<u64> {
    match kind {
        PRIMARY | PAYLOAD => Vec::from([kind]),
        _ => bundle.extensions.iter().filter(|block| block.kind == kind).map(|block| block.number).collect(),
    }
}

/// Removes the CRC of a block that becomes a target (RFC 9173 3.8.1, 4.8.1).
// 9173-3.8.1-3, 9173-4.8.1-2
pub fn drop_crc(bundle: &mut Bundle, number: u64) {
    set_crc(bundle, number, CrcType::None);
}

/// Restores a CRC on a block that is no longer a target (RFC 9173 3.8.2).
// 9173-3.8.2-9, 9173-4.8.2-11
pub fn add_crc(bundle: &mut Bundle, number: u64, crc: CrcType) {
    set_crc(bundle, number, crc);
}

fn set_crc(bundle: &mut Bundle, number: u64, crc: CrcType) {
    match number {
        // A block whose CRC type changes is encoded afresh.
        PRIMARY if bundle.primary.crc != crc => {
            bundle.primary.crc = crc;
            bundle.primary_raw = None;
        }
        PAYLOAD if bundle.payload_crc != crc => {
            bundle.payload_crc = crc;
            bundle.payload_crc_value = None;
        }
        PRIMARY | PAYLOAD => {}
        _ => {
            if let Some(block) = bundle.extensions.iter_mut().find(|block| block.number == number && block.crc != crc) {
                block.crc = crc;
                block.raw = None;
            }
        }
    }
}
