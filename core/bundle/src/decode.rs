//! Decoding of a [`Bundle`] (RFC 9171 4), for tools and tests; the engine reads with [`crate::v7`].

use crate::cbor::{CborReader, skip_item};
use crate::head::{BundleHead, HeadError, NOT_A_BUNDLE, with_head};
use crate::{BlockData, Bundle, CrcType, ExtensionBlock, Profile};
use alloc::vec::Vec;
use farlink_base::{Accel, Bytes, Malformed, Payload};

/// Decodes one whole bundle. The payload becomes a sub-rope of `rope` and is not copied. If part of it is not in memory
/// (stored or fill), its CRC is trusted unchecked.
pub fn decode(rope: &Payload, profile: Profile, accel: &Accel) -> Result<Bundle, Malformed> {
    with_head(rope, |bytes| {
        let (mut extensions, mut spans) = (Vec::new(), Vec::new());
        let head = BundleHead::parse(bytes, profile, accel, &mut |block| {
            let data = block.meaning.unwrap_or_else(|| BlockData::Unknown(Bytes::copy_from_slice(block.data)));
            let fields = block.fields;
            let (kind, number, flags, crc) = (fields.kind, fields.number, fields.flags, fields.crc);
            extensions.push(ExtensionBlock { kind, number, flags, crc, data, raw: None });
            spans.push(block.span);
        })?;
        let (payload, value) = head.payload(rope, bytes, accel)?;
        // Copy the head's few bytes: a bundle whose payload went to disk must not keep alive the large buffer it
        // arrived in.
        let raw = Bytes::copy_from_slice(&bytes[..head.payload_block]);
        for (block, span) in extensions.iter_mut().zip(spans) {
            block.raw = Some(raw.slice(span));
        }
        Ok(Bundle {
            primary_raw: Some(raw.slice(1..head.primary_end)),
            primary: head.primary,
            extensions,
            payload_flags: head.payload_flags,
            payload_crc: head.payload_crc,
            // A head in another encoding will be written in the shortest one: the received CRC would not match.
            payload_crc_value: (head.canonical && head.payload_crc != CrcType::None).then_some(value),
            payload,
        })
    })
    .map_err(HeadError::error)
}

/// Decodes a bundle from the three parts made by [`Bundle::encode`]; the payload may be on disk.
pub fn decode_parts(
    head: &Bytes,
    payload: Payload,
    tail: &Bytes,
    profile: Profile,
    accel: &Accel,
) -> Result<Bundle, Malformed> {
    let mut rope = Payload::from(head.clone());
    rope.append(payload);
    rope.push_bytes(tail.clone());
    decode(&rope, profile, accel)
}

/// Length of the first complete bundle in the rope, of version 7 (by skipping its CBOR) or 6; `None` if its end has not
/// arrived. The bundle is not checked: [`decode`] and [`crate::v6::read`] do that.
pub fn decode_prefix(rope: &Payload) -> Result<Option<u64>, Malformed> {
    let mut reader = rope.reader();
    match reader.clone().read_u8() {
        None => return Ok(None),
        Some(0x9f) => {}
        Some(crate::v6::VERSION) => return crate::v6::end(rope),
        Some(_) => return Err(Malformed { offset: 0, reason: NOT_A_BUNDLE }),
    }
    // Fast path: most bundles lie in one piece of memory.
    if reader.contiguous().len() as u64 == rope.len() {
        let mut reader = CborReader::new(reader.contiguous(), 0, false);
        return match skip_item(&mut reader) {
            Ok(true) => Ok(Some(reader.offset())),
            Ok(false) => Ok(None),
            Err(reason) => reader.error(reason),
        };
    }
    match skip_item(&mut reader) {
        Ok(true) => Ok(Some(reader.position())),
        Ok(false) => Ok(None),
        Err(reason) => Err(Malformed { offset: reader.position(), reason }),
    }
}
