//! Encoding of a [`Bundle`] (RFC 9171 4).

use crate::cbor::{ARRAY, BREAK, BYTES, ByteSink, Count, head_len, put_bytes, put_head, put_uint};
use crate::check::PayloadCheck;
use crate::crc::{close_block, put_crc};
use crate::eid_wire::EidCodec;
use crate::{BlockData, BlockFlags, Bundle, BundleFlags, CrcType, Encoded, FragmentInfo, Primary};
use alloc::vec::Vec;
use farlink_base::{Accel, Bytes};

impl Bundle {
    /// Encodes the bundle. Blocks with received bytes are copied verbatim (RFC 9171 4.3.1: the primary block never
    /// changes); the payload is shared, not copied. A payload that is not in memory keeps its received CRC
    /// ([`Bundle::payload_crc_value`]), or gets zero without one.
    pub fn encode(&self, accel: &Accel) -> Encoded {
        let (head, value) = self.encode_head(accel);
        let mut tail = Vec::with_capacity(6);
        put_crc(&mut tail, self.payload_crc, value);
        tail.push(BREAK);
        Encoded { head: Bytes::from(head), payload: self.payload.clone(), tail: Bytes::from(tail) }
    }

    /// Encodes all bytes before the payload; returns them and the payload block's CRC.
    pub(crate) fn encode_head(&self, accel: &Accel) -> (Vec<u8>, u32) {
        let mut count = Count::default();
        self.put_blocks(&mut count, accel);
        self.put_payload_head(&mut count);
        // Counted first: the head is written in one allocation of the right size.
        let mut head = Vec::with_capacity(count.at());
        self.put_blocks(&mut head, accel);
        let start = head.len();
        self.put_payload_head(&mut head);
        let value = self.payload_crc_value.or_else(|| self.payload_crc_of(&head[start..], accel)).unwrap_or(0);
        (head, value)
    }

    /// Computes the payload block's CRC once, so that later calls of [`Bundle::encode`] need not have the payload in
    /// memory. Does nothing if the payload is not in memory now.
    pub fn seal(&mut self, accel: &Accel) {
        if self.payload_crc != CrcType::None && self.payload_crc_value.is_none() {
            let mut head = Vec::with_capacity(16);
            self.put_payload_head(&mut head);
            self.payload_crc_value = self.payload_crc_of(&head, accel);
        }
    }

    /// Length of the encoded bundle, without encoding it.
    pub fn encoded_len(&self) -> u64 {
        let mut count = Count::default();
        self.put_blocks(&mut count, &Accel::default());
        self.put_payload_head(&mut count);
        put_crc(&mut count, self.payload_crc, 0);
        count.0 as u64 + self.payload.len() + 1
    }

    fn payload_crc_of(&self, head: &[u8], accel: &Accel) -> Option<u32> {
        PayloadCheck::of(self.payload_crc, head, &self.payload, accel).value()
    }

    fn put_blocks(&self, out: &mut impl ByteSink, accel: &Accel) {
        out.byte(0x9f);
        match &self.primary_raw {
            Some(raw) => out.put(raw),
            None => put_primary(&self.primary, out, accel),
        }
        for block in &self.extensions {
            match &block.raw {
                Some(raw) => out.put(raw),
                None => put_block((block.kind, block.number, block.flags, block.crc), &block.data, out, accel),
            }
        }
    }

    fn put_payload_head(&self, out: &mut impl ByteSink) {
        put_payload_head(self.payload_flags, self.payload_crc, self.payload.len(), out);
    }
}

/// Encodes the payload block up to the payload's first byte (RFC 9171 4.3.2).
// 9171-4.3.2-2, 9171-4.3.2-4
pub(crate) fn put_payload_head(flags: BlockFlags, crc: CrcType, len: u64, out: &mut impl ByteSink) {
    put_head(out, ARRAY, 5 + u64::from(crc != CrcType::None));
    out.put(&[1, 1]);
    put_uint(out, flags.0);
    out.byte(crc.code());
    put_head(out, BYTES, len);
}

/// Encodes the primary block (RFC 9171 4.3.1).
// 9171-4.2.7-1, 9171-4.3.1-4
pub(crate) fn put_primary(primary: &Primary, out: &mut impl ByteSink, accel: &Accel) {
    let Primary { flags, crc, destination, source, report_to, creation, lifetime_ms, fragment } = primary;
    let rest = |out: &mut _| {
        for eid in [destination, source, report_to] {
            eid.encode(out);
        }
        put_head(out, ARRAY, 2);
        put_uint(out, creation.time.as_millis());
        put_uint(out, creation.sequence);
        put_uint(out, *lifetime_ms);
    };
    put_primary_around(rest, *flags, *crc, *fragment, out, accel);
}
/// Encodes the primary block around `rest`, which writes the fields from destination to lifetime.
// 9171-4.3.1-1, 9171-4.3.1-4, 9171-4.3.1-9, 9171-4.3.1-11
pub(crate) fn put_primary_around<O: ByteSink>(
    rest: impl FnOnce(&mut O),
    flags: BundleFlags,
    crc: CrcType,
    fragment: Option<FragmentInfo>,
    out: &mut O,
    accel: &Accel,
) {
    let start = out.at();
    put_head(out, ARRAY, 8 + 2 * u64::from(fragment.is_some()) + u64::from(crc != CrcType::None));
    out.byte(7);
    put_uint(out, flags.0);
    out.byte(crc.code());
    rest(out);
    if let Some(fragment) = fragment {
        put_uint(out, fragment.offset);
        put_uint(out, fragment.total);
    }
    close_block(out, start, crc, accel);
}

/// Type, number, flags and CRC type of a canonical block.
pub(crate) type BlockFields = (u64, u64, BlockFlags, CrcType);

/// Encodes a canonical block (RFC 9171 4.3.2).
pub(crate) fn put_block(fields: BlockFields, data: &BlockData, out: &mut impl ByteSink, accel: &Accel) {
    put_block_around(fields, |out| put_data(data, out), out, accel);
}
/// Encodes a canonical block; `data` is its block-type-specific data without the head of their byte string.
pub(crate) fn put_raw_block(fields: BlockFields, data: &[u8], out: &mut impl ByteSink, accel: &Accel) {
    put_block_around(fields, |out| put_bytes(out, data), out, accel);
}
// 9171-4.3.2-1, 9171-4.3.2-2
fn put_block_around<O: ByteSink>(fields: BlockFields, data: impl FnOnce(&mut O), out: &mut O, accel: &Accel) {
    let (kind, number, flags, crc) = fields;
    let start = out.at();
    put_head(out, ARRAY, 5 + u64::from(crc != CrcType::None));
    put_uint(out, kind);
    put_uint(out, number);
    put_uint(out, flags.0);
    out.byte(crc.code());
    data(out);
    close_block(out, start, crc, accel);
}

fn data_len(data: &BlockData) -> u64 {
    match data {
        BlockData::PreviousNode(eid) => eid.encoded_len(),
        BlockData::Age(age) => head_len(*age),
        BlockData::HopCount(hops) => 1 + head_len(u64::from(hops.limit)) + head_len(hops.count),
        BlockData::QualityOfService(qos) => {
            2 + head_len(qos.flags) + head_len(u64::from(qos.ordinal)) + head_len(qos.label)
        }
        BlockData::Labels([router, control]) => 1 + head_len(u64::from(*router)) + head_len(u64::from(*control)),
        BlockData::Unvouched => 1,
        BlockData::Unknown(bytes) => bytes.len() as u64,
    }
}

/// Encodes block-type-specific data in its byte string.
// 9171-4.2.8-1, 9171-4.4.2-1, 9171-4.4.3-2, 9171-4.4.3-3, 9171-4.4.3-4
fn put_data(data: &BlockData, out: &mut impl ByteSink) {
    put_head(out, BYTES, data_len(data));
    put_fields(data, out);
}

/// Encodes block-type-specific data without its byte string.
pub(crate) fn put_fields(data: &BlockData, out: &mut impl ByteSink) {
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
        BlockData::Labels(labels) => {
            put_head(out, ARRAY, 2);
            labels.iter().for_each(|label| put_uint(out, u64::from(*label)));
        }
        BlockData::Unvouched => put_uint(out, 1),
        BlockData::Unknown(bytes) => out.put(bytes),
    }
}
