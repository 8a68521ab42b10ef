//! From a [`Bundle`] to bytes (RFC 9171 4).

use crate::cbor::{ARRAY, BREAK, BYTES, head_len, put_bytes, put_head, put_uint};
use crate::crc::{close_block, put_crc};
use crate::decode::payload_block_crc;
use crate::{BlockData, Bundle, CrcType, Encoded, ExtensionBlock, Primary};
use alloc::vec::Vec;
use farlink_base::{Accel, Bytes};

impl Bundle {
    /// The bundle on the wire. Blocks kept raw go out verbatim (RFC 9171 4.3.1: the primary block
    /// never changes); the payload is shared, not copied. A payload that is not in memory goes out
    /// with the CRC it had ([`Bundle::payload_crc_value`]), or zero where there is none.
    pub fn encode(&self, accel: &Accel) -> Encoded {
        let mut head = Vec::with_capacity(self.head_len() as usize);
        head.push(0x9f);
        match &self.primary_raw {
            Some(raw) => head.extend_from_slice(raw),
            None => encode_primary(&self.primary, &mut head, accel),
        }
        for block in &self.extensions {
            match &block.raw {
                Some(raw) => head.extend_from_slice(raw),
                None => encode_extension(block, &mut head, accel),
            }
        }
        let start = head.len();
        self.encode_payload_head(&mut head);
        let value = self.payload_crc_value.or_else(|| self.payload_crc_of(&head[start..], accel)).unwrap_or(0);
        let mut tail = Vec::with_capacity(6);
        put_crc(&mut tail, self.payload_crc, value);
        tail.push(BREAK);
        Encoded { head: Bytes::from(head), payload: self.payload.clone(), tail: Bytes::from(tail) }
    }

    /// Computes the payload block's CRC once, so that later calls of [`Bundle::encode`] need not
    /// read the payload, nor have it in memory. Does nothing while the payload is not in memory.
    pub fn seal(&mut self, accel: &Accel) {
        if self.payload_crc != CrcType::None && self.payload_crc_value.is_none() {
            let mut head = Vec::with_capacity(16);
            self.encode_payload_head(&mut head);
            self.payload_crc_value = self.payload_crc_of(&head, accel);
        }
    }

    /// Length of the bundle on the wire, without encoding it.
    pub fn encoded_len(&self) -> u64 {
        self.head_len() + self.payload.len() + crc_len(self.payload_crc) + 1
    }

    fn payload_crc_of(&self, head: &[u8], accel: &Accel) -> Option<u32> {
        payload_block_crc(self.payload_crc, head, &self.payload, accel)
    }

    fn encode_payload_head(&self, out: &mut Vec<u8>) {
        put_head(out, ARRAY, 5 + u64::from(self.payload_crc != CrcType::None));
        out.extend_from_slice(&[1, 1]);
        put_uint(out, self.payload_flags.0);
        out.push(self.payload_crc.code());
        put_head(out, BYTES, self.payload.len());
    }

    /// Bytes before the payload's.
    fn head_len(&self) -> u64 {
        let primary = self.primary_raw.as_ref().map_or_else(|| primary_len(&self.primary), |raw| raw.len() as u64);
        let extensions: u64 = self.extensions.iter().map(extension_len).sum();
        let payload_head = 4 + head_len(self.payload_flags.0) + head_len(self.payload.len());
        1 + primary + extensions + payload_head
    }
}

fn crc_len(crc: CrcType) -> u64 {
    match crc.width() {
        0 => 0,
        width => 1 + width as u64,
    }
}

fn primary_len(primary: &Primary) -> u64 {
    let creation = 1 + head_len(primary.creation.time.as_millis()) + head_len(primary.creation.sequence);
    let fragment = primary.fragment.map_or(0, |f| head_len(f.offset) + head_len(f.total));
    let eids = [&primary.destination, &primary.source, &primary.report_to];
    let eids: u64 = eids.iter().map(|eid| eid.encoded_len()).sum();
    3 + head_len(primary.flags.0) + eids + creation + head_len(primary.lifetime_ms) + fragment + crc_len(primary.crc)
}

/// The primary block (RFC 9171 4.3.1).
fn encode_primary(primary: &Primary, out: &mut Vec<u8>, accel: &Accel) {
    let start = out.len();
    let items = 8 + 2 * u64::from(primary.fragment.is_some()) + u64::from(primary.crc != CrcType::None);
    put_head(out, ARRAY, items);
    out.push(7);
    put_uint(out, primary.flags.0);
    out.push(primary.crc.code());
    for eid in [&primary.destination, &primary.source, &primary.report_to] {
        eid.encode(out);
    }
    put_head(out, ARRAY, 2);
    put_uint(out, primary.creation.time.as_millis());
    put_uint(out, primary.creation.sequence);
    put_uint(out, primary.lifetime_ms);
    if let Some(fragment) = primary.fragment {
        put_uint(out, fragment.offset);
        put_uint(out, fragment.total);
    }
    close_block(out, start, primary.crc, accel);
}

fn extension_len(block: &ExtensionBlock) -> u64 {
    if let Some(raw) = &block.raw {
        return raw.len() as u64;
    }
    let data = data_len(&block.data);
    let fields = head_len(block.kind) + head_len(block.number) + head_len(block.flags.0);
    2 + fields + head_len(data) + data + crc_len(block.crc)
}

/// A canonical block (RFC 9171 4.3.2).
fn encode_extension(block: &ExtensionBlock, out: &mut Vec<u8>, accel: &Accel) {
    let start = out.len();
    put_head(out, ARRAY, 5 + u64::from(block.crc != CrcType::None));
    put_uint(out, block.kind);
    put_uint(out, block.number);
    put_uint(out, block.flags.0);
    out.push(block.crc.code());
    encode_data(&block.data, out);
    close_block(out, start, block.crc, accel);
}

fn data_len(data: &BlockData) -> u64 {
    match data {
        BlockData::PreviousNode(eid) => eid.encoded_len(),
        BlockData::Age(age) => head_len(*age),
        BlockData::HopCount(hops) => 1 + head_len(u64::from(hops.limit)) + head_len(hops.count),
        BlockData::QualityOfService(qos) => {
            2 + head_len(qos.flags) + head_len(u64::from(qos.ordinal)) + head_len(qos.label)
        }
        BlockData::Copies(copies) => head_len(u64::from(*copies)),
        BlockData::Unknown(bytes) => bytes.len() as u64,
    }
}

/// Block-type-specific data, in its byte string.
fn encode_data(data: &BlockData, out: &mut Vec<u8>) {
    if let BlockData::Unknown(bytes) = data {
        return put_bytes(out, bytes);
    }
    put_head(out, BYTES, data_len(data));
    match data {
        BlockData::PreviousNode(eid) => eid.encode(out),
        BlockData::Age(age) => put_uint(out, *age),
        BlockData::HopCount(hops) => {
            put_head(out, ARRAY, 2);
            put_uint(out, u64::from(hops.limit));
            put_uint(out, hops.count);
        }
        BlockData::QualityOfService(qos) => {
            put_head(out, ARRAY, 4);
            put_uint(out, qos.flags);
            put_uint(out, u64::from(qos.priority.number()));
            put_uint(out, u64::from(qos.ordinal));
            put_uint(out, qos.label);
        }
        BlockData::Copies(copies) => put_uint(out, u64::from(*copies)),
        BlockData::Unknown(_) => {}
    }
}
