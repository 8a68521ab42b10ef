//! CRCs of blocks (RFC 9171 4.2.2, 4.3), computed over the whole block with the CRC's own bytes zero, most significant
//! byte first.

use crate::CrcType;
use crate::cbor::ByteSink;
use farlink_base::Accel;

/// Longest block, in bytes, that is copied to compute its CRC in one call.
const SHORT: usize = 64;

/// CRC under computation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockCrc {
    None,
    Crc16(u16),
    Crc32c(u32),
}
impl BlockCrc {
    pub(crate) fn new(crc: CrcType) -> Self {
        match crc {
            CrcType::None => BlockCrc::None,
            CrcType::Crc16 => BlockCrc::Crc16(0),
            CrcType::Crc32c => BlockCrc::Crc32c(0),
        }
    }
    pub(crate) fn update(&mut self, bytes: &[u8], accel: &Accel) {
        match self {
            BlockCrc::None => {}
            BlockCrc::Crc16(state) => *state = (accel.crc16_x25)(*state, bytes),
            BlockCrc::Crc32c(state) => *state = (accel.crc32c)(*state, bytes),
        }
    }
    /// CRC of a whole block whose CRC value ends at `end` and counts as zero. The setup of a call costs more than the
    /// bytes of a short block, so a short block is copied and takes one call.
    // 9171-4.3.1-14, 9171-4.3.1-15, 9171-4.3.2-5
    pub(crate) fn of_block(crc: CrcType, block: &[u8], end: usize, accel: &Accel) -> u32 {
        let (width, mut computed) = (crc.width(), BlockCrc::new(crc));
        let mut short = [0; SHORT];
        if let Some(copy) = short.get_mut(..block.len()) {
            copy.copy_from_slice(block);
            copy[end - width..end].fill(0);
            computed.update(copy, accel);
            return computed.value();
        }
        computed.update(&block[..end - width], accel);
        computed.update(&[0; 4][..width], accel);
        computed.update(&block[end..], accel);
        computed.value()
    }
    pub(crate) fn value(self) -> u32 {
        match self {
            BlockCrc::None => 0,
            BlockCrc::Crc16(state) => u32::from(state),
            BlockCrc::Crc32c(state) => state,
        }
    }
}

/// Appends a CRC item, or nothing for [`CrcType::None`].
// 9171-4.2.2-1, 9171-4.2.2-2
pub(crate) fn put_crc(out: &mut impl ByteSink, crc: CrcType, value: u32) {
    let width = crc.width();
    if width > 0 {
        out.byte(0x40 | width as u8);
        out.put(&value.to_be_bytes()[4 - width..]);
    }
}

/// Appends the CRC of the block that begins at `start` and ends at the end of `out`.
// 9171-4.3.1-14, 9171-4.3.1-15, 9171-4.3.2-5
pub(crate) fn close_block(out: &mut impl ByteSink, start: usize, crc: CrcType, accel: &Accel) {
    // The value counts as zero while the CRC is computed.
    put_crc(out, crc, 0);
    let (block, width) = (out.since(start), crc.width());
    if block.is_empty() || width == 0 {
        return;
    }
    let mut computed = BlockCrc::new(crc);
    computed.update(block, accel);
    if let Some((_, place)) = block.split_last_chunk_mut::<4>() {
        place[4 - width..].copy_from_slice(&computed.value().to_be_bytes()[4 - width..]);
    }
}
