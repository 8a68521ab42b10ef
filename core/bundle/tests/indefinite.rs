//! Blocks, and arrays in them, of indefinite length: RFC 9171 4.1 allows them, and the CRC of a block covers its break
//! (4.3.1, 4.3.2).

use crate::common::bundle;
use farlink_base::{Accel, BundleMeta, Bytes, BytesMut, EndpointId, HopState, Malformed, Payload};
use farlink_bundle::cbor::{BREAK, CborReader, put_bytes};
use farlink_bundle::{
    BlockData, Bundle, CrcType, CreationTimestamp, ExtensionBlock, HopCount, Profile, decode, decode_prefix, v7,
};
use proptest::prelude::*;

fn accel() -> Accel {
    Accel::default()
}
fn wire(bundle: &Bundle) -> Vec<u8> {
    bundle.encode(&accel()).into_payload().to_bytes().unwrap().to_vec()
}
fn read(bytes: &[u8], profile: Profile) -> Result<(BundleMeta, HopState), Malformed> {
    v7::read(&Payload::from(bytes.to_vec()), profile, &accel())
}
fn render(meta: &BundleMeta, hop: &HopState, cut: Option<std::ops::Range<u64>>) -> Vec<u8> {
    let encoded = v7::render(meta, hop, cut.clone(), &accel(), &mut BytesMut::new());
    assert_eq!(encoded.len(), v7::size(meta, hop, cut));
    encoded.into_payload().to_bytes().unwrap().to_vec()
}
/// Encoded items of an array.
fn items(array: &[u8]) -> Vec<&[u8]> {
    let mut reader = CborReader::new(array, 0, true);
    let count = reader.array().unwrap();
    (0..count).map(|_| reader.item().unwrap()).collect()
}
fn open_of(items: &[Vec<u8>]) -> Vec<u8> {
    [&[0x9f], &items.concat()[..], &[BREAK]].concat()
}
/// Copies an item; an endpoint ID or timestamp becomes an array of indefinite length.
fn open_field(item: &[u8]) -> Vec<u8> {
    if item[0] >> 5 != 4 {
        return item.to_vec();
    }
    let parts = items(item);
    let inner = |part: &&[u8]| if parts[0] == [2] { open_field(part) } else { part.to_vec() };
    open_of(&parts.iter().map(inner).collect::<Vec<_>>())
}
/// Converts a block to indefinite length and corrects its CRC; also the fields of a primary block and the data of a hop
/// count.
fn open_block(block: &[u8], primary: bool) -> Vec<u8> {
    let mut fields: Vec<Vec<u8>> = items(block).iter().map(|item| item.to_vec()).collect();
    let crc = fields[if primary { 2 } else { 3 }][0];
    if primary {
        fields.iter_mut().for_each(|field| *field = open_field(field));
    } else if fields[0] == [10] {
        let data = open_field(CborReader::new(&fields[4], 0, true).bytes().unwrap());
        fields[4].clear();
        put_bytes(&mut fields[4], &data);
    }
    let mut block = open_of(&fields);
    let end = block.len() - 1;
    match crc {
        1 => {
            block[end - 2..end].fill(0);
            let value = (accel().crc16_x25)(0, &block).to_be_bytes();
            block[end - 2..end].copy_from_slice(&value);
        }
        2 => {
            block[end - 4..end].fill(0);
            let value = (accel().crc32c)(0, &block).to_be_bytes();
            block[end - 4..end].copy_from_slice(&value);
        }
        _ => {}
    }
    block
}
/// Converts the blocks selected by the bits of `which` to indefinite length: the primary block is bit 0, the payload
/// block the last.
fn opened(bytes: &[u8], which: u64) -> Vec<u8> {
    let mut reader = CborReader::new(bytes, 0, true);
    let mut out = reader.take(1).unwrap().to_vec();
    let mut at = 0;
    while reader.peek() != Some(BREAK) {
        let block = reader.item().unwrap();
        out.extend(if which >> at & 1 == 1 { open_block(block, at == 0) } else { block.to_vec() });
        at += 1;
    }
    out.push(BREAK);
    out
}

proptest! {
    /// Keeps 9171-4.1-2.
    #[test]
    fn indefinite_blocks_round_trip(
        bundle in bundle(), which in any::<u64>(), at in any::<prop::sample::Index>(),
    ) {
        let (closed, hop) = read(&wire(&bundle), Profile::Strict).unwrap();
        // `render` keeps the received bytes of a previous node block only for ipn; for other schemes it encodes the
        // block again.
        prop_assume!(matches!(hop.previous, EndpointId::Ipn { .. } | EndpointId::Null));
        prop_assume!(render(&closed, &hop, None) == wire(&bundle));
        let bytes = opened(&wire(&bundle), which);
        for profile in [Profile::Strict, Profile::Permissive] {
            let (meta, came) = read(&bytes, profile).unwrap();
            prop_assert_eq!((meta.id, meta.facts, &came, meta.size()), (closed.id, closed.facts, &hop, bytes.len() as u64));
            prop_assert_eq!(&render(&meta, &came, None), &bytes);
            let (head, tail) = (Bytes::from(meta.head.to_vec()), v7::tail(&meta));
            let (back, _) = v7::read_parts(&head, meta.payload.clone(), &tail, profile, &accel()).unwrap();
            prop_assert_eq!((&back.head, back.tail, back.tail_len), (&meta.head, meta.tail, meta.tail_len));
            prop_assert_eq!(back.payload.to_bytes(), closed.payload.to_bytes());
            let changed = HopState { previous: EndpointId::ipn(7, 0), age_ms: 9, hops: came.hops.wrapping_add(1), ..came.clone() };
            prop_assert_eq!(&read(&render(&meta, &changed, None), profile).unwrap().1.previous, &changed.previous);
            let len = meta.payload.len();
            let at = at.index(len.max(1) as usize) as u64;
            if meta.may_fragment() && at > 0 {
                for cut in [0..at, at..len] {
                    let (piece, _) = read(&render(&meta, &came, Some(cut.clone())), profile).unwrap();
                    prop_assert_eq!(piece.payload.to_bytes(), meta.payload.slice(cut.start, cut.end - cut.start).to_bytes());
                }
            }
            // The view for tools agrees, and encodes the payload block with definite length.
            let tool = decode(&Payload::from(bytes.clone()), profile, &accel()).unwrap();
            prop_assert_eq!(read(&wire(&tool), profile).unwrap().0.id, meta.id);
        }
        prop_assert_eq!(decode_prefix(&Payload::from(bytes.clone())), Ok(Some(bytes.len() as u64)));
    }

    #[test]
    fn misplaced_break_is_detected(bundle in bundle(), at in any::<prop::sample::Index>()) {
        let bytes = opened(&wire(&bundle), u64::MAX);
        let ends = v7::begin(&Payload::from(bytes.clone()), Profile::Strict, &accel()).unwrap().unwrap();
        let head = ends.payload_at as usize;
        let at = at.index(head);
        for change in [BREAK, 0] {
            let mut wrong = bytes.clone();
            wrong.insert(at, change);
            let _ = read(&wrong, Profile::Permissive);
            let _ = read(&bytes[..at], Profile::Permissive);
        }
        let mut longer = bytes[..bytes.len() - 1].to_vec();
        longer.extend([BREAK, BREAK]);
        prop_assert!(read(&longer, Profile::Permissive).is_err(), "one break too many");
        let shorter = &bytes[..bytes.len() - 1];
        prop_assert!(read(shorter, Profile::Permissive).is_err(), "one too few");
    }
}

fn plain() -> Bundle {
    let creation = CreationTimestamp { time: farlink_base::DtnTime(800_000_000_000), sequence: 3 };
    let builder = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), creation);
    builder
        .crc(CrcType::Crc16)
        .block(BlockData::HopCount(HopCount { limit: 9, count: 1 }))
        .payload(Payload::from(&b"data"[..]))
        .build()
}

/// Keeps 9171-4.2.2-1, 9171-4.2.2-2, 9171-4.3.1-1, 9171-4.3.1-9, 9171-4.3.1-11, 9171-4.3.1-15, 9171-4.3.2-1.
/// Keeps 9171-4.3.2-5.
#[test]
fn indefinite_block_item_count_is_checked() {
    let good = opened(&wire(&plain()), u64::MAX);
    assert!(read(&good, Profile::Strict).is_ok());
    let mut blocks = CborReader::new(&good, 0, true);
    blocks.take(1).unwrap();
    for _ in 0..2 {
        blocks.item().unwrap();
        // An extra item is inserted after the last item of the block, before its break.
        let mut more = good.clone();
        more.insert(blocks.position() - 1, 0);
        let error = read(&more, Profile::Permissive).unwrap_err();
        assert_eq!(error.reason, "an array of indefinite length with another number of items");
        assert_eq!(error.offset, blocks.position() as u64 - 1);
    }
    let mut wrong = good.clone();
    let crc = blocks.position() - 2;
    wrong[crc] ^= 1;
    assert_eq!(read(&wrong, Profile::Permissive).unwrap_err().reason, "a block's CRC is wrong");
    let mut wrong = good.clone();
    let crc = good.len() - 3;
    wrong[crc] ^= 1;
    assert_eq!(read(&wrong, Profile::Permissive).unwrap_err().reason, "the payload block's CRC is wrong");
}

#[test]
fn indefinite_previous_node_is_replaced() {
    let mut bundle = plain();
    let raw: &[u8] = &[0x85, 6, 3, 0, 0, 0x47, 0x9f, 2, 0x9f, 7, 0, 0xff, 0xff];
    let (data, raw) = (BlockData::Unknown(Bytes::new()), Some(Bytes::from_static(raw)));
    let flags = farlink_bundle::BlockFlags(0);
    bundle.extensions.push(ExtensionBlock { kind: 6, number: 3, flags, crc: CrcType::None, data, raw });
    let (meta, hop) = read(&wire(&bundle), Profile::Strict).unwrap();
    assert_eq!(hop.previous, EndpointId::ipn(7, 0));
    let next = HopState { previous: EndpointId::ipn(8, 0), ..hop };
    assert_eq!(read(&render(&meta, &next, None), Profile::Strict).unwrap().1, next);
}
