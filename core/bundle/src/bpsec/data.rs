//! The data of targets: taken out of a bundle, replaced in it, and without their CRCs.

use super::{Fault, PAYLOAD, PRIMARY};
use crate::encode::put_fields;
use crate::fields::read_data;
use crate::{BlockData, Bundle, CrcType, ExtensionBlock, Profile};
use alloc::vec::Vec;
use farlink_base::{Bytes, Chunk, Payload};

/// The block-type-specific data of an extension block, deterministically encoded.
// 9172-4-3
pub(super) fn of_block(block: &ExtensionBlock) -> Vec<u8> {
    let mut out = Vec::new();
    put_fields(&block.data, &mut out);
    out
}

/// The block-type-specific data of a target other than the payload.
pub(super) fn of(bundle: &Bundle, number: u64) -> Result<Vec<u8>, Fault> {
    bundle.extensions.iter().find(|block| block.number == number).map(of_block).ok_or(Fault::Target)
}

/// Other data for a block other than primary and payload.
pub(super) fn set(bundle: &mut Bundle, number: u64, data: Vec<u8>) {
    if let Some(block) = bundle.extensions.iter_mut().find(|block| block.number == number) {
        let meaning = read_data(block.kind, &data, 0, Profile::Permissive).ok().flatten();
        block.data = meaning.unwrap_or_else(|| BlockData::Unknown(Bytes::from(data)));
        block.raw = None;
    }
}

/// The payload as a hash or a cipher takes it. Bytes known by their length only, which simulations have, are told by
/// what they are: pattern, place and length.
///
/// # Errors
/// Part of it is on disk.
pub(super) fn feed(payload: &Payload, mut take: impl FnMut(&[u8])) -> Result<(), Fault> {
    for chunk in payload.chunks() {
        match chunk {
            Chunk::Bytes(bytes) => take(bytes),
            Chunk::Stored { .. } => return Err(Fault::NotInMemory),
            Chunk::Fill { seed, offset, len } => {
                [seed, offset, len].into_iter().for_each(|number| take(&number.to_be_bytes()));
            }
        }
    }
    Ok(())
}

/// The numbers of the blocks of this type; 0 stands for the primary block, 1 for the payload block.
pub fn numbers_of(bundle: &Bundle, kind: u64) -> Vec<u64> {
    match kind {
        PRIMARY | PAYLOAD => Vec::from([kind]),
        _ => bundle.extensions.iter().filter(|block| block.kind == kind).map(|block| block.number).collect(),
    }
}

/// Takes the CRC off a block that is to be a target (RFC 9173 3.8.1, 4.8.1).
// 9173-3.8.1-3, 9173-4.8.1-2
pub fn drop_crc(bundle: &mut Bundle, number: u64) {
    set_crc(bundle, number, CrcType::None);
}

/// Puts a CRC on a block that no security block protects any more (RFC 9173 3.8.2).
// 9173-3.8.2-9, 9173-4.8.2-11
pub fn add_crc(bundle: &mut Bundle, number: u64, crc: CrcType) {
    set_crc(bundle, number, crc);
}

fn set_crc(bundle: &mut Bundle, number: u64, crc: CrcType) {
    match number {
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
