//! CRC types that a hop sets on the blocks of a departing bundle; the primary block keeps its own (RFC 9171 4.3.1).

use crate::common::bundle;
use farlink_base::{
    Accel, BundleMeta, Bytes, BytesMut, Chunk, CrcType, CreationTimestamp, DtnTime, Extent, HopCrc, HopState, Payload,
    Priority,
};
use farlink_bundle::{BlockData, BlockFlags, Bundle, EndpointId, ExtensionBlock, Profile, decode, v7};
use proptest::prelude::*;

const AT: CreationTimestamp = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 3 };

fn accel() -> Accel {
    Accel::default()
}
/// A bundle made here, with every kind of block that one may have.
fn made(crc: CrcType, payload: &Payload) -> BundleMeta {
    asking(crc, payload, 13)
}
/// Like [`made`], with this type of custody block; 0: no such block, and the bundle may be fragmented.
fn asking(crc: CrcType, payload: &Payload, custody: u64) -> BundleMeta {
    let draft = v7::BundleDraft {
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(2, 1),
        lifetime_ms: 60_000,
        priority: Priority::Expedited,
        hop_limit: 30,
        labels: Some([1, 2]),
        custody,
        ..v7::BundleDraft::default()
    };
    v7::make(&draft, AT, payload.clone(), crc, &accel())
}
fn content(len: u64) -> Payload {
    Payload::from(Payload::fill(7, len).to_bytes().unwrap())
}
fn on_disk(len: u64) -> Payload {
    let mut payload = Payload::new();
    payload.push(Chunk::Stored { extent: Extent { record: 1, offset: 64 }, len });
    payload
}
fn hop(kind: CrcType, all: bool) -> HopState {
    let previous = EndpointId::ipn(9, 0);
    HopState { previous, hops: 1, labels: Some([1, 2]), crc: Some(HopCrc { kind, all }), ..HopState::default() }
}
/// The bundle as it leaves.
fn wire(meta: &BundleMeta, hop: &HopState, cut: Option<std::ops::Range<u64>>) -> Bytes {
    let encoded = v7::render(meta, hop, cut.clone(), &accel(), &mut BytesMut::new());
    assert_eq!(encoded.len(), v7::size(meta, hop, cut));
    encoded.into_payload().to_bytes().unwrap()
}
fn decoded(bytes: &Bytes) -> Bundle {
    // The strict reader checks all CRCs.
    decode(&Payload::from(bytes.clone()), Profile::Strict, &accel()).unwrap()
}
/// CRC types of the primary block, of the extension blocks by their types, and of the payload block.
fn crcs(bundle: &Bundle) -> (CrcType, Vec<(u64, CrcType)>, CrcType) {
    let extensions = bundle.extensions.iter().map(|block| (block.kind, block.crc)).collect();
    (bundle.primary.crc, extensions, bundle.payload_crc)
}
fn each_pair() -> impl Iterator<Item = (CrcType, CrcType)> {
    CrcType::ALL.iter().flat_map(|own| CrcType::ALL.iter().map(|hop| (*own, *hop)))
}

#[test]
fn crc_none_leaves_primary_block_only() {
    let bundle = decoded(&wire(&made(CrcType::None, &content(9)), &HopState::default(), None));
    let (primary, extensions, payload) = crcs(&bundle);
    assert_eq!((primary, payload), (CrcType::Crc32c, CrcType::None));
    assert!(extensions.len() == 3 && extensions.iter().all(|(_, crc)| *crc == CrcType::None), "{extensions:?}");
}

/// Keeps 9171-4.3.1-2, 9171-4.3.1-3.
#[test]
fn hop_crc_reaches_all_but_primary() {
    for (own, kind) in each_pair() {
        let meta = made(own, &content(5000));
        let bytes = wire(&meta, &hop(kind, true), None);
        let primary_end = usize::from(meta.primary_end);
        assert_eq!(bytes[..primary_end], meta.head[..primary_end], "{own:?} {kind:?}");
        let (_, extensions, payload) = crcs(&decoded(&bytes));
        assert_eq!(extensions, [10, 193, 240, 13, 6].map(|block| (block, kind)), "{own:?} {kind:?}");
        assert_eq!(payload, kind, "{own:?} {kind:?}");
    }
}

#[test]
fn blocks_from_elsewhere_keep_their_crc() {
    for (own, kind) in each_pair() {
        let (meta, came) =
            v7::read(&wire(&made(own, &content(50)), &hop(own, false), None).into(), Profile::Strict, &accel())
                .unwrap();
        let leaves = decoded(&wire(&meta, &HopState { hops: 2, ..hop(kind, false) }, None));
        let (_, extensions, payload) = crcs(&leaves);
        assert_eq!(extensions, [10, 193, 240, 13, 6].map(|block| (block, own)), "rewritten ones, too");
        assert_eq!((payload, leaves.hop_count().unwrap().count), (own, 2));
        let unsaid = HopState { previous: EndpointId::Null, ..came };
        let (meta, _) = v7::read(&wire(&meta, &unsaid, None).into(), Profile::Strict, &accel()).unwrap();
        let (_, extensions, _) = crcs(&decoded(&wire(&meta, &hop(kind, false), None)));
        assert_eq!(extensions.last(), Some(&(6, kind)), "an added block has that of the hop");
    }
}

/// Keeps 9171-5.8-4.
#[test]
fn fragments_have_hop_crc() {
    for (own, kind) in each_pair() {
        let meta = asking(own, &content(900), 0);
        let parts = [0..300, 300..900].map(|cut| decoded(&wire(&meta, &hop(kind, true), Some(cut))));
        for part in &parts {
            let (primary, extensions, payload) = crcs(part);
            assert_eq!(primary, if own == CrcType::None { CrcType::Crc32c } else { own });
            assert!(payload == kind && extensions.iter().all(|(_, crc)| *crc == kind), "{own:?} {kind:?}");
        }
    }
}

#[test]
fn payload_on_disk_passes_for_crc() {
    for (own, kind) in each_pair() {
        let payload = content(5000);
        let memory = made(own, &payload);
        // The same bundle, whose payload went to disk after its CRC was computed.
        let disk = BundleMeta { payload: on_disk(5000), ..memory.clone() };
        let hop = hop(kind, true);
        assert_eq!(v7::computes_crc(&disk, &hop), kind != CrcType::None && kind != own);
        let mut piece = v7::piece(&disk, &hop, 0..5000, &accel(), &mut BytesMut::new());
        assert_eq!(piece.wants_bytes(), v7::computes_crc(&disk, &hop));
        if piece.wants_bytes() {
            piece.pass(&payload.slice(0, 1234));
            piece.pass(&payload.slice(1234, 3766));
        }
        assert!(!piece.wants_bytes());
        let passed = piece.finish(payload).into_payload().to_bytes().unwrap();
        assert_eq!(passed, wire(&memory, &hop, None), "{own:?} {kind:?}");
    }
}

/// A bundle whose security block covers block 2 and the payload.
fn covered(crc: CrcType) -> BundleMeta {
    let mut bundle = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), AT).crc(crc).hop_limit(30);
    bundle = bundle.block(BlockData::Labels([1, 2])).payload(content(50));
    let mut bundle = bundle.build();
    (bundle.extensions[0].crc, bundle.payload_crc) = (CrcType::None, CrcType::None);
    for (kind, number, targets) in [(11, 20, &[0x82, 2, 1, 1, 0][..]), (12, 21, &[0x81, 20, 2, 0][..])] {
        let data = BlockData::Unknown(Bytes::copy_from_slice(targets));
        let flags = BlockFlags(0);
        bundle.extensions.push(ExtensionBlock { kind, number, flags, crc: CrcType::None, data, raw: None });
    }
    let bytes = bundle.encode(&accel()).into_payload();
    v7::read(&bytes, Profile::Strict, &accel()).unwrap().0
}

/// Keeps 9173-3.8.1-3, 9173-4.8.1-2.
#[test]
fn targets_of_security_get_no_crc() {
    let meta = covered(CrcType::Crc16);
    let leaves = decoded(&wire(&meta, &hop(CrcType::Crc32c, true), None));
    let (none, new) = (CrcType::None, CrcType::Crc32c);
    let expected = vec![(10, none), (240, new), (11, none), (12, new), (6, new)];
    assert_eq!(crcs(&leaves), (CrcType::Crc16, expected, none));
    let bare = decoded(&wire(&meta, &hop(none, true), None));
    assert!(crcs(&bare).1.iter().all(|(_, crc)| *crc == none));
    let disk = BundleMeta { payload: on_disk(50), ..meta };
    assert!(!v7::computes_crc(&disk, &hop(CrcType::Crc32c, true)));
}

proptest! {
    #[test]
    fn hop_crc_changes_nothing_else(bundle in bundle(), kind in 0..3usize, node in 1u64..) {
        let bytes = bundle.encode(&accel()).into_payload();
        let (meta, came) = v7::read(&bytes, Profile::Strict, &accel()).unwrap();
        let came = HopState { previous: EndpointId::ipn(node, 0), ..came };
        let plain = decoded(&wire(&meta, &came, None));
        let crc = Some(HopCrc { kind: CrcType::ALL[kind], all: true });
        let changed = decoded(&wire(&meta, &HopState { crc, ..came }, None));
        prop_assert!(changed.payload_crc == CrcType::ALL[kind] && changed.primary_raw == plain.primary_raw);
        prop_assert!(changed.extensions.iter().all(|block| block.crc == CrcType::ALL[kind]));
        let parts = |bundle: &Bundle| -> Vec<_> {
            let block = |block: &ExtensionBlock| (block.kind, block.number, block.flags, block.data.clone());
            bundle.extensions.iter().map(block).collect()
        };
        prop_assert_eq!(parts(&changed), parts(&plain));
        prop_assert_eq!((changed.payload, changed.payload_flags), (plain.payload, plain.payload_flags));
    }
}
