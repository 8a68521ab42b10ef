//! Streaming check of the payload and the bytes after it (RFC 9171 4.2.1, 4.3.2).

use crate::CrcType;
use crate::cbor::{BREAK, CborReader};
use crate::crc::BlockCrc;
use crate::fields::CRC_WIDTH;
use farlink_base::{Accel, Chunk, Malformed, Payload};

/// Check of a payload block: takes the payload's bytes in order, then the bytes after it.
#[derive(Clone, Debug)]
pub struct PayloadCheck {
    crc: CrcType,
    /// Whether the block is an array of indefinite length.
    open: bool,
    state: BlockCrc,
    accel: Accel,
    /// Offset of the payload in the bundle.
    at: u64,
    len: u64,
    fed: u64,
    /// Whether part of the payload was not in memory, so that its CRC is trusted unchecked.
    trusted: bool,
}

impl PayloadCheck {
    /// Starts a check of a payload of `len` bytes at offset `at`; `block_head` is the payload block up to the payload.
    pub(crate) fn new(
        (crc, open): (CrcType, bool),
        block_head: &[u8],
        at: u64,
        len: u64,
        accel: &Accel,
    ) -> PayloadCheck {
        let mut state = BlockCrc::new(crc);
        state.update(block_head, accel);
        PayloadCheck { crc, open, state, accel: *accel, at, len, fed: 0, trusted: false }
    }
    /// Check that has taken all `len` bytes of the payload; `block` is the payload block up to the payload's end.
    pub(crate) fn whole(how: (CrcType, bool), block: &[u8], at: u64, len: u64, accel: &Accel) -> PayloadCheck {
        PayloadCheck { fed: len, ..PayloadCheck::new(how, block, at, len, accel) }
    }
    /// Check that has taken all of `payload`, the content of a block of definite length.
    pub(crate) fn of(crc: CrcType, block_head: &[u8], payload: &Payload, accel: &Accel) -> PayloadCheck {
        let mut check = PayloadCheck::new((crc, false), block_head, 0, payload.len(), accel);
        check.update_rope(payload);
        check
    }
    /// Takes the next bytes of the payload.
    pub fn update(&mut self, bytes: &[u8]) {
        self.fed = self.fed.saturating_add(bytes.len() as u64);
        self.state.update(bytes, &self.accel);
    }
    /// Takes the next bytes of the payload. If some are on disk or fill patterns, the CRC is not checked.
    pub fn update_rope(&mut self, rope: &Payload) {
        for chunk in rope.chunks() {
            if let Chunk::Bytes(bytes) = chunk {
                self.update(bytes);
            } else {
                self.fed = self.fed.saturating_add(chunk.len());
                self.trusted = true;
            }
        }
    }
    /// Payload bytes not taken yet.
    pub fn remaining(&self) -> u64 {
        self.len.saturating_sub(self.fed)
    }
    /// CRC of the block over its head and all bytes taken, as if the payload were complete; `None` if some were not in
    /// memory.
    pub(crate) fn value(&self) -> Option<u32> {
        let width = self.crc.width();
        let mut end = [0u8; 6];
        // The CRC covers its own item with zero bytes as value, and the break (RFC 9171 4.3.1).
        (end[0], end[1 + width]) = (0x40 | width as u8, BREAK);
        // A copy: more payload may follow.
        let mut state = self.state;
        state.update(&end[..1 + width + usize::from(self.open)], &self.accel);
        (!self.trusted).then(|| state.value())
    }
    /// Checks the bytes after the payload: its CRC and the end of the bundle. Returns the CRC for
    /// [`farlink_base::BundleMeta::tail`], or 0 without one.
    ///
    /// # Errors
    /// Wrong CRC, another block, bytes after the end, or a payload length other than the block's.
    // 9171-4.1-7, 9171-4.1-8
    pub fn finish(&self, tail: &[u8]) -> Result<u32, Malformed> {
        let end = self.at.saturating_add(self.len);
        if self.fed != self.len {
            return Err(Malformed { offset: end, reason: "the payload is not as long as its block says" });
        }
        let mut reader = CborReader::new(tail, end, false);
        let value = self.read_crc(&mut reader)?;
        reader.array_end(self.open)?;
        match reader.take(1)? {
            [BREAK] => {}
            _ => return reader.error_at(reader.position() - 1, "the payload block is not the last one"),
        }
        reader.finish("bytes after the end of the bundle")?;
        Ok(value)
    }

    // 9171-4.3.2-5, 9171-5.6-2
    fn read_crc(&self, reader: &mut CborReader<'_>) -> Result<u32, Malformed> {
        let width = self.crc.width();
        if width == 0 {
            return Ok(0);
        }
        let found = reader.bytes()?;
        // With a head that is not in its shortest form, the tail would be longer than the stored length.
        if reader.take_lax() || found.len() != width {
            return reader.error_at(0, CRC_WIDTH);
        }
        let value = found.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
        if self.value().is_some_and(|computed| computed != value) {
            return reader.error_at(0, "the payload block's CRC is wrong");
        }
        Ok(value)
    }
}
