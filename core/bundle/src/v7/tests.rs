//! Tests of single rules.

use super::*;
use crate::{
    BlockData, BlockFlags, Bundle, BundleFlags, CrcType, EndpointId, ExtensionBlock, HopCount, Profile, decode, reason,
};
use crate::{CreationTimestamp, QualityOfService, StatusItem};
use alloc::vec;
use alloc::vec::Vec;
use farlink_base::{
    Accel, BundleMeta, Bytes, BytesMut, Chunk, DtnTime, Duties, Extent, Facts, FragmentInfo, HopState, Payload,
    Priority,
};

const AT: CreationTimestamp = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 3 };

fn accel() -> Accel {
    Accel::default()
}
fn plain(payload: &'static [u8]) -> Bundle {
    let builder = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), AT).hop_limit(30);
    builder.payload(Payload::from(payload)).build()
}
fn unknown(number: u64, flags: u64) -> ExtensionBlock {
    let data = BlockData::Unknown(Bytes::from_static(&[1, 2, 3]));
    ExtensionBlock { kind: 99, number, flags: BlockFlags(flags), crc: CrcType::Crc16, data, raw: None }
}
fn through(bundle: &Bundle) -> (BundleMeta, HopState) {
    read(&bundle.encode(&accel()).into_payload(), Profile::Strict, &accel()).unwrap()
}
/// Bundle that leaves, as decoded for tools.
fn leaves(meta: &BundleMeta, hop: &HopState, cut: Option<core::ops::Range<u64>>) -> Bundle {
    let encoded = render(meta, hop, cut.clone(), &accel(), &mut BytesMut::new());
    assert_eq!(encoded.len(), size(meta, hop, cut));
    decode(&encoded.into_payload(), Profile::Strict, &accel()).unwrap()
}
fn kinds(bundle: &Bundle) -> Vec<(u64, u64)> {
    bundle.extensions.iter().map(|block| (block.kind, block.number)).collect()
}
fn stored(len: u64) -> Payload {
    let mut payload = Payload::new();
    payload.push(Chunk::Stored { extent: Extent { record: 1, offset: 64 }, len });
    payload
}

/// Keeps 9171-4.2.4-2, 9171-5.6-4, 9171-5.6-5.
#[test]
fn unknown_v7_blocks_follow_their_flags() {
    // RFC 9171 5.6 step 4. The parts given to a store lack discarded blocks, so a restart changes nothing.
    use BlockFlags as F;
    for (flags, kept, duties) in [
        (0, true, 0),
        (F::DISCARD, false, 0),
        (F::REPORT, true, Duties::REPORT),
        (F::REPORT | F::DISCARD, false, Duties::REPORT),
        (F::DELETE_BUNDLE, true, Duties::DELETE),
        (F::DELETE_BUNDLE | F::DISCARD | F::REPORT, true, Duties::DELETE | Duties::REPORT),
    ] {
        let mut bundle = plain(b"data");
        bundle.extensions.insert(0, unknown(5, flags));
        bundle.extensions.push(unknown(70, 0));
        let (meta, hop) = through(&bundle);
        assert_eq!(meta.duties, Duties(duties), "{flags:x}");
        let numbers: &[_] = if kept { &[(99, 5), (10, 2), (99, 70)] } else { &[(10, 2), (99, 70)] };
        assert_eq!(kinds(&leaves(&meta, &hop, None)), numbers, "{flags:x}");
        assert_eq!(meta.size(), size(&meta, &hop, None));
    }
}

/// Keeps 9171-4.2.3-4.
#[test]
fn flags_and_blocks_become_facts() {
    let qos = QualityOfService { flags: 7, priority: Priority::Expedited, ordinal: 9, label: 77 };
    let bundle = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), CreationTimestamp::default())
        .flags(crate::BundleFlags::REPORT_DELIVERY | crate::BundleFlags::APP_ACK)
        .report_to(EndpointId::ipn(3, 0))
        .block(BlockData::QualityOfService(qos))
        .block(BlockData::Labels([4, 5]))
        .build();
    let (meta, hop) = through(&bundle);
    let marks = Facts::UNRELIABLE | Facts::CRITICAL | Facts::AGE;
    assert_eq!(meta.facts, Facts(Facts::REPORT_DELIVERY | Facts::APP_ACK | marks));
    let rare = meta.rare.as_deref().unwrap();
    assert_eq!((rare.ordinal, rare.flow, &rare.report_to), (9, 77, &EndpointId::ipn(3, 0)));
    assert_eq!((meta.priority, hop.labels, meta.version), (Priority::Expedited, Some([4, 5]), 7));
    let (meta, hop) = through(&plain(b"data"));
    assert_eq!((meta.rare, meta.priority, meta.facts), (None, Priority::Normal, Facts(Facts::HOPS)));
    assert_eq!(hop, HopState::default());
}

/// Keeps 9171-4.4.1-3, 9171-5.4-7, 9171-5.4-8.
#[test]
fn previous_node_block_follows_hop_state() {
    // RFC 9171 4.4.1: at most one such block, which names the node that forwards the bundle.
    let (meta, hop) = through(&plain(b"data"));
    let from = |node| HopState { previous: EndpointId::ipn(node, 0), ..hop.clone() };
    let first = leaves(&meta, &from(7), None);
    assert_eq!((kinds(&first), first.previous_node()), (vec![(10, 2), (6, 3)], Some(&EndpointId::ipn(7, 0))));
    assert_eq!(first.extensions[1].flags, BlockFlags(0));
    let (meta, came) = through(&first);
    assert_eq!(came.previous, EndpointId::ipn(7, 0));
    let second = leaves(&meta, &from(8), None);
    assert_eq!((kinds(&second), second.previous_node()), (kinds(&first), Some(&EndpointId::ipn(8, 0))));
    assert_eq!(kinds(&leaves(&meta, &HopState::default(), None)), [(10, 2)]);
}

/// Keeps 9758-6-1, 9758-7.2-1.
#[test]
fn equivalent_previous_node_stays_verbatim() {
    // RFC 9758: both encodings of an ipn node are valid.
    let mut bundle = plain(b"data");
    let raw: &[u8] = &[0x85, 6, 3, 0, 0, 0x46, 0x82, 2, 0x83, 1, 7, 0];
    let data = BlockData::Unknown(Bytes::new());
    let raw = Some(Bytes::from_static(raw));
    bundle.extensions.push(ExtensionBlock { kind: 6, number: 3, flags: BlockFlags(0), crc: CrcType::None, data, raw });
    let (meta, hop) = through(&bundle);
    assert_eq!(hop.previous, EndpointId::ipn(1 << 32 | 7, 0));
    let again = render(&meta, &hop, None, &accel(), &mut BytesMut::new());
    // The three-element form stays, though this node writes two elements.
    assert_eq!(again, bundle.encode(&accel()));
}

#[test]
fn hop_rewrites_own_labels_only() {
    let mut bundle = plain(b"data");
    let data = BlockData::Unknown(Bytes::from_static(&[5]));
    let foreign = ExtensionBlock { kind: 240, number: 9, flags: BlockFlags(0), crc: CrcType::None, data, raw: None };
    bundle.extensions.push(foreign.clone());
    let (meta, hop) = through(&bundle);
    assert_eq!(hop.labels, None, "a single number is not a pair of labels");
    let labelled = leaves(&meta, &HopState { labels: Some([8, u32::MAX]), ..hop.clone() }, None);
    assert_eq!((kinds(&labelled), labelled.labels()), (vec![(10, 2), (240, 9), (240, 3)], Some([8, u32::MAX])));
    assert!(labelled.extensions[2].flags.has(BlockFlags::REPLICATE));
    let (meta, came) = through(&labelled);
    assert_eq!(leaves(&meta, &HopState { labels: Some([1, 2]), ..came }, None).labels(), Some([1, 2]));
    assert_eq!(kinds(&leaves(&meta, &hop, None)), [(10, 2), (240, 9)]);
    // Without labels a second block goes, too: the next node would take it for labels that this one never gave.
    let mut twice = plain(b"data");
    let labels = |number, labels| ExtensionBlock { number, data: BlockData::Labels(labels), ..foreign.clone() };
    twice.extensions.extend([labels(9, [1, 2]), labels(8, [3, 4])]);
    let (meta, came) = through(&twice);
    assert_eq!(came.labels, Some([1, 2]));
    assert_eq!(kinds(&leaves(&meta, &came, None)), [(10, 2), (240, 9), (240, 8)]);
    assert_eq!(through(&leaves(&meta, &HopState { labels: None, ..came }, None)).1.labels, None);
}

/// Keeps 9171-4.4.2-1, 9171-4.4.2-2.
#[test]
fn clockless_v7_bundle_gets_age() {
    // RFC 9171 4.4.2: a bundle without creation time has an age, even if its source forgot it.
    for (time, age, leaves_with) in
        [(0, None, Some(70)), (0, Some(3), Some(70)), (9, None, None), (9, Some(3), Some(70))]
    {
        let mut bundle = plain(b"data");
        bundle.primary.creation.time = farlink_base::DtnTime(time);
        bundle.remove_blocks_of(7);
        if let Some(age) = age {
            bundle.set_age(age);
        }
        let wire = bundle.encode(&accel()).into_payload();
        let (meta, hop) = super::read(&wire, Profile::Permissive, &accel()).unwrap();
        let hop = HopState { age_ms: 70, ..hop };
        assert_eq!(leaves(&meta, &hop, None).age_ms(), leaves_with, "{time} {age:?}");
        if time == 0 {
            assert_eq!(leaves(&meta, &hop, Some(0..2)).age_ms(), leaves_with);
            assert_eq!(leaves(&meta, &hop, Some(2..4)).age_ms(), leaves_with);
        }
    }
}

#[test]
fn confidentiality_target_payload_is_sealed() {
    // RFC 9172 3.8: only a confidentiality block that targets the payload makes it unreadable.
    for (kind, targets, sealed) in
        [(12, &[0x81u8, 1][..], true), (12, &[0x82, 3, 1], true), (12, &[0x81, 3], false), (11, &[0x81, 1], false)]
    {
        let mut bundle = plain(b"data");
        let data = BlockData::Unknown(Bytes::copy_from_slice(targets));
        bundle.extensions.push(ExtensionBlock {
            kind,
            number: 4,
            flags: BlockFlags(0),
            crc: CrcType::None,
            data,
            raw: None,
        });
        assert_eq!(through(&bundle).0.facts.has(Facts::SEALED), sealed, "{kind} {targets:?}");
    }
}

#[test]
fn security_block_flags_set_no_duties() {
    // Security blocks are always processed, so their flags for unprocessable blocks do not apply.
    for (kind, wanted) in [(11, 0), (12, 0), (99, Duties::DELETE | Duties::REPORT)] {
        let mut bundle = plain(b"data");
        let data = BlockData::Unknown(Bytes::from_static(&[0x81, 3]));
        let flags = BlockFlags(BlockFlags::DELETE_BUNDLE | BlockFlags::REPORT);
        bundle.extensions.push(ExtensionBlock { kind, number: 4, flags, crc: CrcType::None, data, raw: None });
        assert_eq!(through(&bundle).0.duties.0, wanted, "block type {kind}");
    }
}

/// Keeps 9172-3.8-2.
#[test]
fn security_block_is_never_discarded() {
    // RFC 9172 3.7, 3.8: without its security block, ciphertext would look like unsigned plaintext, both after a
    // restart of this node and at the next one.
    for kind in [11, 12] {
        let mut bundle = plain(b"cipher");
        let data = BlockData::Unknown(Bytes::from_static(&[0x81, 1]));
        bundle.extensions.push(ExtensionBlock { kind, data, ..unknown(4, BlockFlags::DISCARD) });
        let (meta, hop) = through(&bundle);
        let head = Bytes::from(meta.head.to_vec());
        let (back, _) = read_parts(&head, meta.payload.clone(), &tail(&meta), Profile::Strict, &accel()).unwrap();
        let sealed = kind == 12;
        assert_eq!([&meta, &back].map(|meta| meta.facts.has(Facts::SEALED)), [sealed; 2]);
        assert_eq!(kinds(&leaves(&meta, &hop, None)), [(10, 2), (kind, 4)]);
    }
}

/// Keeps 9171-4.4.3-3, 9171-4.4.3-4.
#[test]
fn hop_count_above_limit_stays_above() {
    // RFC 9171 4.4.3: counts reach 2^64 - 1, limits 255; one byte must show whether the count exceeds the limit.
    for (limit, count, hops, above) in
        [(30, 3, 3, false), (30, 31, 31, true), (255, 255, 255, false), (255, 256, 255, true), (9, u64::MAX, 255, true)]
    {
        let mut bundle = plain(b"data");
        bundle.set_block(BlockData::HopCount(HopCount { limit, count }));
        let (meta, hop) = through(&bundle);
        assert_eq!((hop.hops, hop.hops > meta.hop_limit), (hops, above), "{count} of {limit}");
        assert_eq!(leaves(&meta, &hop, None).hop_count(), Some(HopCount { limit, count }), "unchanged, it stays");
        let next = leaves(&meta, &HopState { hops: 7, ..hop }, None);
        assert_eq!(next.hop_count(), Some(HopCount { limit, count: 7 }));
    }
}

/// Keeps 9171-5.8-6, 9171-5.8-7.
#[test]
fn unreplicated_blocks_stay_with_first_fragment() {
    // RFC 9171 5.8: only blocks marked for replication are in every fragment.
    let mut bundle = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), CreationTimestamp::default())
        .hop_limit(30)
        .payload(Payload::from(&b"0123456789"[..]))
        .build();
    bundle.extensions.iter_mut().for_each(|block| block.flags = BlockFlags(0));
    bundle.extensions.push(unknown(70, 1));
    let (meta, hop) = through(&bundle);
    assert_eq!(kinds(&leaves(&meta, &hop, Some(0..5))), [(10, 2), (7, 3), (99, 70)]);
    let rest = leaves(&meta, &HopState { age_ms: 6, previous: EndpointId::ipn(5, 0), ..hop }, Some(5..10));
    assert_eq!((kinds(&rest), rest.age_ms()), (vec![(7, 3), (99, 70), (6, 2)], Some(6)));
}

/// Keeps 9171-4.3.1-2, 9171-4.3.1-3, 9171-5.8-4.
/// Keeps 9758-6-1, 9758-7.2-1.
#[test]
fn fragment_keeps_primary_block_encoding() {
    // RFC 9171 4.3.1, RFC 9758 6: fields with several encodings, such as ipn numbers, keep theirs.
    let mut bundle = plain(b"data");
    bundle.primary.crc = CrcType::None;
    let eids = [[0x82, 2, 0x83, 1, 7, 1], [0x82, 2, 0x83, 0, 5, 1]].concat();
    let rest = [&eids[..], &[0x82, 1, 0, 0x82, 0x18, 9, 1, 0x19, 0, 200]].concat();
    bundle.primary_raw = Some(Bytes::from([&[0x88, 7, 0, 0], &rest[..]].concat()));
    let read = |encoded: crate::Encoded| read(&encoded.into_payload(), Profile::Permissive, &accel()).unwrap();
    let (meta, hop) = read(bundle.encode(&accel()));
    for cut in [0..2, 2..4] {
        let piece = render(&meta, &hop, Some(cut.clone()), &accel(), &mut BytesMut::new());
        let place = [cut.start as u8, 4];
        assert_eq!(piece.head[1..rest.len() + 7], [&[0x8a, 7, 1, 0], &rest[..], &place].concat()[..]);
    }
    let (first, _) = read(render(&meta, &hop, Some(0..2), &accel(), &mut BytesMut::new()));
    assert_eq!(whole(&first, meta.payload.clone(), &accel()).head, meta.head);
}

#[test]
fn hop_blocks_keep_bundle_readable() {
    // Every bundle that a node forwards must be accepted by the next node, on a path of any length and with node names
    // of any length.
    let numbers = 5..5 + crate::MAX_EXTENSION_BLOCKS as u64;
    let mut most = plain(b"data");
    most.extensions.extend(numbers.map(|number| unknown(number, 0)));
    let mut longest = plain(b"data");
    longest.extensions.push(unknown(5, 0));
    let mut end = 60 << 10;
    for bundle in [most, longest] {
        let mut bundle =
            Bundle { primary: crate::Primary { creation: CreationTimestamp::default(), ..bundle.primary }, ..bundle };
        let taken = |bundle: &Bundle| read(&bundle.encode(&accel()).into_payload(), Profile::Permissive, &accel());
        if bundle.extensions.len() == 2 {
            // The longest block that is accepted.
            while taken(&bundle).is_err() || end == 60 << 10 {
                end -= 1;
                bundle.extensions[1].data = BlockData::Unknown(Bytes::from(vec![0; end]));
            }
        }
        let (mut meta, mut hop) = taken(&bundle).unwrap();
        for name in ["a", &"b".repeat(3000), &"c".repeat(10)] {
            let previous = EndpointId::dtn(name, "");
            hop = HopState { previous, age_ms: u64::MAX, hops: 255, labels: Some([u32::MAX; 2]), ..hop };
            let whole = leaves(&meta, &hop, None);
            assert_eq!((whole.age_ms(), whole.labels()), (Some(u64::MAX), Some([u32::MAX; 2])));
            let piece = render(&meta, &hop, Some(0..meta.payload.len() - 1), &accel(), &mut BytesMut::new());
            (meta, hop) = read(&piece.into_payload(), Profile::Permissive, &accel()).unwrap();
        }
        // A second block of a hop-written type counts as one of the sender's.
        let again = |data| ExtensionBlock { kind: 240, data, ..unknown(200, 0) };
        bundle.extensions.extend([again(BlockData::Labels([1, 2])), again(BlockData::Labels([3, 4]))]);
        bundle.extensions.last_mut().unwrap().number = 201;
        assert!(taken(&bundle).is_err());
    }
}

#[test]
fn stored_fragment_renders_from_loaded_bytes() {
    let (mut meta, hop) = through(&plain(b"0123456789"));
    let want = render(&meta, &hop, Some(2..6), &accel(), &mut BytesMut::new());
    meta.payload = stored(10);
    let loaded = Payload::from(&b"2345"[..]);
    assert_eq!(render_loaded(&meta, loaded, &hop, Some(2..6), &accel(), &mut BytesMut::new()), want);
    assert!(!append(&meta, &hop, None, &accel(), &mut BytesMut::new()), "not in memory");
    // `piece` sees the payload bytes once, for the CRC, and must still give the same encoding.
    for cut in [2..6, 0..4, 0..10] {
        let mut piece = piece(&meta, &hop, cut.clone(), &accel(), &mut BytesMut::new());
        let bytes = Payload::from(&b"0123456789"[cut.start as usize..cut.end as usize]);
        assert_eq!(piece.wants_bytes(), cut != (0..10));
        (0..bytes.len()).for_each(|at| piece.pass(&bytes.slice(at, 1)));
        assert!(!piece.wants_bytes());
        let want = render_loaded(&meta, bytes.clone(), &hop, Some(cut), &accel(), &mut BytesMut::new());
        assert_eq!(piece.finish(bytes), want);
    }
    // The whole bundle keeps the received CRC although its payload is on disk.
    let whole = render(&meta, &hop, None, &accel(), &mut BytesMut::new());
    assert_eq!(whole.tail, tail(&through(&plain(b"0123456789")).0));
}

#[test]
fn one_buffer_serves_many_bundles() {
    let (meta, hop) = through(&plain(b"data"));
    let mut out = BytesMut::with_capacity(1000);
    let room = out.capacity();
    let kept: Vec<_> = (0..5).map(|_| render(&meta, &hop, None, &accel(), &mut out)).collect();
    assert!(out.is_empty() && out.capacity() < room && out.capacity() > 0, "all from one allocation");
    assert!(kept.iter().all(|encoded| *encoded == kept[0]));
}

#[test]
fn stored_parts_read_back() {
    let (meta, hop) = through(&plain(b"0123456789"));
    let (head, after) = (Bytes::from(meta.head.to_vec()), tail(&meta));
    let (back, came) = read_parts(&head, stored(10), &after, Profile::Strict, &accel()).unwrap();
    assert_eq!((back.id, back.tail, &back.head, came), (meta.id, meta.tail, &meta.head, hop));
    let parts = |head: &Bytes, len, tail: &Bytes| read_parts(head, stored(len), tail, Profile::Strict, &accel());
    assert!(parts(&head, 9, &after).is_err(), "another payload");
    assert!(parts(&head, 10, &after.slice(1..)).is_err(), "half a tail");
    assert!(parts(&Bytes::from([&head[..], &[0]].concat()), 10, &after).is_err(), "a longer head");
    let wrong = read_parts(&head, Payload::from(&b"012345678x"[..]), &after, Profile::Strict, &accel());
    assert!(wrong.unwrap_err().reason.contains("CRC"));
}

#[test]
fn false_payload_length_allocates_nothing() {
    let mut bytes = plain(b"").encode(&accel()).head.to_vec();
    bytes.pop();
    bytes.extend_from_slice(&[0x5b, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    let begun = begin(&Payload::from(bytes.clone()), Profile::Strict, &accel()).unwrap().unwrap();
    assert_eq!(begun.meta.size() - begun.payload_at - 6, 0xff_ffff_ffff_ffff);
    let at = bytes.len() - 8;
    bytes[at] = 0xff;
    assert!(begin(&Payload::from(bytes), Profile::Strict, &accel()).is_err());
    assert!(begin(&Payload::new(), Profile::Strict, &accel()).unwrap().is_none());
    assert!(begin(&Payload::from(&[6][..]), Profile::Strict, &accel()).is_err(), "BPv6");
}

/// Keeps 9171-4.2.3-1, 9171-4.2.3-2, 9171-5.2-1.
#[test]
fn drafts_become_bundles_that_obey() {
    // RFC 9171 4.2.3, 4.4.2: combinations that the standard forbids are adjusted instead of refused.
    let facts = Facts(Facts::REPORT_DELETION | Facts::STATUS_TIME | Facts::UNRELIABLE);
    let draft = BundleDraft {
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(2, 1),
        report_to: EndpointId::ipn(1, 0),
        facts,
        lifetime_ms: 1000,
        priority: Priority::Bulk,
        hop_limit: 8,
        labels: Some([16, 0]),
        custody: 0,
        reporting: None,
    };
    let payload = || Payload::from(&b"payload"[..]);
    let made = |draft: &BundleDraft, at| {
        let meta = make(draft, at, payload(), CrcType::Crc32c, &accel());
        let hop = HopState { labels: draft.labels, ..HopState::default() };
        let bundle = leaves(&meta, &hop, None);
        // A bundle made here must not differ from a received one, or a restart would change it.
        let (back, came) = through(&bundle);
        assert_eq!((back.facts, back.id, &back.head, back.tail), (meta.facts, meta.id, &meta.head, meta.tail));
        assert_eq!((back.rare, back.priority, back.hop_limit, came), (meta.rare.clone(), meta.priority, 8, hop));
        meta
    };
    assert_eq!(made(&draft, AT).facts, Facts(facts.0 | Facts::HOPS));
    let anonymous = BundleDraft { source: EndpointId::Null, ..draft.clone() };
    let kept = Facts::STATUS_TIME | Facts::UNRELIABLE | Facts::HOPS;
    assert_eq!(made(&anonymous, AT).facts, Facts(Facts::NO_FRAGMENT | kept));
    let record = BundleDraft { facts: Facts(facts.0 | Facts::ADMIN), ..draft.clone() };
    assert_eq!(made(&record, AT).facts, Facts(Facts::ADMIN | kept));
    let clockless = made(&draft, CreationTimestamp { time: DtnTime(0), sequence: 1 });
    assert!(clockless.facts.has(Facts::AGE));
    let bare = BundleDraft { facts: Facts(0), priority: Priority::Normal, hop_limit: 0, labels: None, ..draft };
    assert!(
        leaves(&make(&bare, AT, payload(), CrcType::None, &accel()), &HopState::default(), None).extensions.is_empty()
    );
}

#[test]
fn absent_payload_gets_no_false_crc() {
    let draft = BundleDraft { source: EndpointId::ipn(1, 1), lifetime_ms: 9, ..BundleDraft::default() };
    let meta = make(&draft, AT, stored(5), CrcType::Crc32c, &accel());
    assert_eq!((meta.tail_len, &tail(&meta)[..]), (1, &[0xff][..]));
    let (first, _) = through(&leaves(&through(&plain(b"data")).0, &HopState::default(), Some(0..2)));
    let whole = whole(&first, stored(4), &accel());
    assert_eq!((whole.tail_len, whole.fragment()), (1, None));
    let loaded =
        render_loaded(&whole, Payload::from(&b"data"[..]), &HopState::default(), None, &accel(), &mut BytesMut::new());
    assert_eq!(decode(&loaded.into_payload(), Profile::Strict, &accel()).unwrap().id(), whole.identity());
    // Fill patterns get a CRC item, trusted unchecked.
    let fill = make(&draft, AT, Payload::fill(1, 1 << 40), CrcType::Crc32c, &accel());
    let rope = render(&fill, &HopState::default(), Some(5..1 << 39), &accel(), &mut BytesMut::new()).into_payload();
    assert_eq!(read(&rope, Profile::Strict, &accel()).unwrap().0.payload.len(), (1 << 39) - 5);
}

/// Keeps 9171-6.1.1-5, 9171-6.2-1.
#[test]
fn v7_records_round_trip() {
    let (mut meta, _) = through(&plain(b"data"));
    for (facts, time) in [(0, None), (Facts::STATUS_TIME, Some(DtnTime(9)))] {
        meta.facts = Facts(facts);
        let bytes = status_report(&meta, StatusAssertion::Deleted, reason::HOP_LIMIT, Some(DtnTime(9)));
        let Ok(ParsedRecord::Report(report)) = record(&bytes) else { panic!("{bytes:x?}") };
        assert_eq!((report.subject(), report.reason), (meta.identity(), reason::HOP_LIMIT));
        assert_eq!((report.deleted, report.received), (StatusItem::at(time), StatusItem::default()));
    }
    let whole = leaves(&meta, &HopState::default(), Some(1..3));
    let (piece, _) = through(&whole);
    let bytes = status_report(&piece, StatusAssertion::Deleted, reason::HOP_LIMIT, None);
    let Ok(ParsedRecord::Report(report)) = record(&bytes) else { panic!("{bytes:x?}") };
    assert_eq!((report.fragment, report.subject()), (Some((1, 2)), piece.identity()));
    for len in [0, 1, 23, 24, 300] {
        let content = vec![7; len];
        assert_eq!(record(&signal(&content)), Ok(ParsedRecord::Signal(Bytes::from(content))));
    }
    // Earlier releases wrote the length in four bytes.
    assert_eq!(
        record(&[0x82, 0x19, 0xfd, 0xe8, 0x5a, 0, 0, 0, 1, 5]),
        Ok(ParsedRecord::Signal(Bytes::from_static(&[5])))
    );
    assert_eq!(record(&[0x82, 4, 0xf6]), Ok(ParsedRecord::Other { kind: 4, content: Bytes::from_static(&[0xf6]) }));
    assert!(record(&[0x82, 0x19, 0xfd, 0xe8, 5]).is_err());
}

/// Results of both profiles, on the whole bundle and on its head.
fn verdicts(bundle: &Bundle) -> [Result<BundleMeta, &'static str>; 2] {
    [Profile::Strict, Profile::Permissive].map(|profile| {
        let wire = bundle.encode(&accel()).into_payload();
        let whole = read(&wire, profile, &accel()).map(|(meta, _)| meta).map_err(|error| error.reason);
        let begun = begin(&wire, profile, &accel()).map(|_| ()).map_err(|error| error.reason);
        assert_eq!((begun.err(), decode(&wire, profile, &accel()).err().map(|e| e.reason)), {
            let reason = whole.as_ref().err().copied();
            (reason, reason)
        });
        whole
    })
}

/// Keeps 9171-4.2.3-1, 9171-4.2.3-2.
#[test]
fn anonymous_or_admin_bundle_gets_no_reports() {
    // RFC 9171 4.2.3: anonymous bundles and administrative records get no reports, and anonymous bundles are never
    // fragments.
    const ALL: u64 = BundleFlags::REPORTS | BundleFlags::STATUS_TIME;
    let asks = |source: EndpointId, flags: u64| {
        let mut bundle = plain(b"data");
        (bundle.primary.source, bundle.primary.report_to) = (source, EndpointId::ipn(7, 1));
        bundle.primary.flags = BundleFlags(flags);
        bundle
    };
    for bundle in
        [asks(EndpointId::Null, BundleFlags::NO_FRAGMENT | ALL), asks(EndpointId::ipn(1, 0), BundleFlags::ADMIN | ALL)]
    {
        let [strict, permissive] = verdicts(&bundle);
        assert!(strict.unwrap_err().contains("that asks for reports"));
        assert!(!permissive.unwrap().wants_report(Facts::REPORT_RECEPTION));
    }
    let [strict, permissive] = verdicts(&asks(EndpointId::ipn(1, 1), ALL));
    assert!(strict.unwrap().wants_report(ALL_FACTS) && permissive.unwrap().wants_report(ALL_FACTS));
    for verdict in verdicts(&asks(EndpointId::Null, 0)) {
        assert_eq!(verdict.unwrap_err(), "an anonymous bundle that may be fragmented");
    }
    let mut piece = asks(EndpointId::Null, BundleFlags::NO_FRAGMENT | BundleFlags::FRAGMENT);
    piece.primary.fragment = Some(FragmentInfo { offset: 0, total: 9 });
    assert!(verdicts(&piece).iter().all(Result::is_err), "two of them would become one");
}
const ALL_FACTS: u32 = Facts::REPORTS | Facts::STATUS_TIME;

/// Keeps 9171-4.3.1-10, 9171-4.3.1-12, 9171-4.3.2-4, 9171-5.8-1.
#[test]
fn fragment_range_is_checked() {
    // RFC 9171 4.3.1, 5.8: a fragment has payload and lies within the original.
    let fragment = |payload: &'static [u8], offset, total| {
        let mut bundle = plain(payload);
        bundle.primary.flags = BundleFlags(BundleFlags::FRAGMENT);
        bundle.primary.fragment = Some(FragmentInfo { offset, total });
        verdicts(&bundle).map(|verdict| verdict.err())
    };
    assert_eq!(fragment(b"data", 5, 9), [None; 2]);
    assert_eq!(fragment(b"data", 0, 4), [None; 2], "all of it: late, not wrong");
    for (offset, total) in [(0, 0), (0, 9), (9, 9)] {
        assert_eq!(fragment(b"", offset, total), [Some("a fragment without payload"); 2], "{offset} of {total}");
    }
    for (offset, total) in [(6, 9), (0, 3), (0, 0), (u64::MAX, u64::MAX)] {
        assert_eq!(fragment(b"data", offset, total), [Some("a fragment that reaches beyond the original payload"); 2]);
    }
}
