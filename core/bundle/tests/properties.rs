//! Random bundles: encoded, decoded and damaged.

use crate::common::bundle;
use farlink_base::{Accel, Bytes, Chunk, DtnTime, Extent, Payload};
use farlink_bundle::{
    BlockData, BlockFlags, Bundle, CrcType, CreationTimestamp, EndpointId, ExtensionBlock, Profile, decode,
    decode_parts, decode_prefix,
};
use proptest::prelude::*;

/// Bundle without the received bytes that decoding keeps.
fn fields(mut bundle: Bundle) -> Bundle {
    bundle.primary_raw = None;
    bundle.payload_crc_value = None;
    bundle.extensions.iter_mut().for_each(|block| block.raw = None);
    bundle
}
fn wire(bundle: &Bundle) -> Bytes {
    bundle.encode(&Accel::default()).into_payload().to_bytes().unwrap()
}
fn read(bytes: Bytes, profile: Profile) -> Result<Bundle, farlink_base::Malformed> {
    decode(&Payload::from(bytes), profile, &Accel::default())
}

proptest! {
    /// Keeps 9171-4.1-2.
    #[test]
    fn encoded_bundle_reads_strictly(bundle in bundle()) {
        let bytes = wire(&bundle);
        prop_assert_eq!(bundle.encoded_len(), bytes.len() as u64);
        let back = read(bytes.clone(), Profile::Strict).unwrap();
        prop_assert_eq!(wire(&back), bytes.clone());
        prop_assert_eq!(fields(back), bundle);
        let mut two = Payload::from(bytes.clone());
        two.push_bytes(bytes.clone());
        prop_assert_eq!(decode_prefix(&two), Ok(Some(bytes.len() as u64)));
    }

    /// Keeps 9171-4.3.1-15, 9171-4.3.2-5, 9171-5.6-2.
    #[test]
    fn damaged_byte_fails_crc32c(bundle in bundle(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = wire(&bundle).to_vec();
        let at = at.index(bytes.len());
        let changed = bytes[at] != to;
        bytes[at] = to;
        let result = read(Bytes::from(bytes.clone()), Profile::Permissive);
        let covered = bundle.payload_crc == CrcType::Crc32c && bundle.extensions.iter().all(|b| b.crc == CrcType::Crc32c);
        prop_assert!(!(changed && covered && result.is_ok()), "byte {} of {:x?}", at, bytes);
        let _ = decode_prefix(&Payload::from(bytes));
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(Bytes::from(bytes.clone()), Profile::Permissive);
        if !bytes.is_empty() {
            bytes[0] = 0x9f;
            let _ = read(Bytes::from(bytes), Profile::Permissive);
        }
    }
}

fn plain(payload: Payload) -> Bundle {
    let creation = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 1 };
    Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), creation).hop_limit(30).payload(payload).build()
}

#[test]
fn stored_payload_keeps_received_crc() {
    let accel = Accel::default();
    let sent = plain(Payload::from(vec![7u8; 5000]));
    let mut stored = read(wire(&sent), Profile::Strict).unwrap();
    let mut extents = Payload::new();
    extents.push(Chunk::Stored { extent: Extent { record: 1, offset: 64 }, len: 5000 });
    stored.payload = extents.clone();
    assert!(stored.increment_hop());
    let parts = stored.encode(&accel);
    let mut recovered = decode_parts(&parts.head, extents, &parts.tail, Profile::Strict, &accel).unwrap();
    assert_eq!(recovered.hop_count().unwrap().count, 1);
    let again = recovered.encode(&accel);
    recovered.payload = sent.payload.clone();
    assert_eq!(wire(&recovered), wire(&read(wire(&recovered), Profile::Strict).unwrap()), "the CRC still holds");
    assert_eq!(again.tail, parts.tail);
    // A locally created bundle is sealed before its payload leaves memory.
    let mut own = sent.clone();
    own.seal(&accel);
    own.payload = stored.payload.clone();
    assert_eq!(own.encode(&accel).tail, sent.encode(&accel).tail);
}

#[test]
fn fill_payload_has_zero_crc() {
    let accel = Accel::default();
    let bundle = plain(Payload::fill(9, 1 << 40));
    let encoded = bundle.encode(&accel);
    assert_eq!(&encoded.tail[..], [0x44, 0, 0, 0, 0, 0xff]);
    assert_eq!(encoded.len(), bundle.encoded_len());
    let back = decode(&encoded.into_payload(), Profile::Strict, &accel).unwrap();
    assert_eq!(fields(back), bundle);
}

#[test]
fn head_size_is_bounded() {
    let mut bundle = plain(Payload::from(&b"x"[..]));
    for number in 10..139 {
        let data = BlockData::Unknown(Bytes::new());
        let block = ExtensionBlock { kind: 99, number, flags: BlockFlags(0), crc: CrcType::None, data, raw: None };
        bundle.extensions.push(block);
    }
    assert!(read(wire(&bundle), Profile::Permissive).unwrap_err().reason.contains("128"));
    bundle.extensions.truncate(2);
    bundle.extensions[1].data = BlockData::Unknown(Bytes::from(vec![0; 70_000]));
    assert!(read(wire(&bundle), Profile::Permissive).unwrap_err().reason.contains("64 KiB"));
    let mut rope = Payload::new();
    wire(&bundle).chunks(1000).for_each(|chunk| rope.push_bytes(Bytes::copy_from_slice(chunk)));
    assert!(decode(&rope, Profile::Permissive, &Accel::default()).unwrap_err().reason.contains("64 KiB"));
}

/// Keeps 9171-4.3.1-3.
#[test]
fn nonshortest_payload_length_drops_known_crc() {
    let accel = Accel::default();
    let mut bytes = wire(&plain(Payload::from(&b"hello"[..]))).to_vec();
    // The payload length in two bytes instead of one, with a matching CRC.
    let at = bytes.len() - 6 - 5 - 1;
    assert_eq!(bytes[at], 0x45);
    bytes.splice(at..=at, [0x58, 5]);
    let block = bytes.len() - 6 - 5 - 2 - 5;
    let end = bytes.len() - 5;
    bytes[end..end + 4].fill(0);
    let crc = farlink_base::crc32c(0, &bytes[block..end + 4]);
    bytes[end..end + 4].copy_from_slice(&crc.to_be_bytes());
    assert!(read(Bytes::from(bytes.clone()), Profile::Strict).is_err());
    let bundle = read(Bytes::from(bytes), Profile::Permissive).unwrap();
    assert_eq!(bundle.payload_crc_value, None, "the block will be written shorter, with another CRC");
    assert!(read(bundle.encode(&accel).into_payload().to_bytes().unwrap(), Profile::Strict).is_ok());
}
