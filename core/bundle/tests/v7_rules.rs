//! Rules of RFC 9171 about single fields and blocks, each with a test.

use farlink_base::{Accel, BundleMeta, Bytes, BytesMut, DtnTime, Duties, Facts, HopState, Malformed, Payload};
use farlink_bundle::v7::{self, ParsedRecord, StatusAssertion};
use farlink_bundle::{
    BlockData, BlockFlags, Bundle, BundleFlags, CrcType, CreationTimestamp, EndpointId, ExtensionBlock, Profile,
    StatusItem, decode, reason,
};

const AT: CreationTimestamp = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 3 };
const BOTH: [Profile; 2] = [Profile::Strict, Profile::Permissive];

fn accel() -> Accel {
    Accel::default()
}
fn plain() -> Bundle {
    Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), AT).payload(Payload::from(&b"data"[..])).build()
}
/// Extension block with raw content.
fn block(kind: u64, number: u64, flags: u64, content: &[u8]) -> ExtensionBlock {
    let data = BlockData::Unknown(Bytes::copy_from_slice(content));
    ExtensionBlock { kind, number, flags: BlockFlags(flags), crc: CrcType::None, data, raw: None }
}
fn with(blocks: impl IntoIterator<Item = ExtensionBlock>) -> Bundle {
    let mut bundle = plain();
    bundle.extensions.extend(blocks);
    bundle
}
/// Reads the bundle with the engine's codec and checks that the view for tools agrees about errors.
fn read(bundle: &Bundle, profile: Profile) -> Result<(BundleMeta, HopState), Malformed> {
    let wire = bundle.encode(&accel()).into_payload();
    let read = v7::read(&wire, profile, &accel());
    assert_eq!(decode(&wire, profile, &accel()).err(), read.as_ref().err().copied());
    read
}
fn leaves(meta: &BundleMeta, hop: &HopState) -> Bundle {
    let wire = v7::render(meta, hop, None, &accel(), &mut BytesMut::new()).into_payload();
    decode(&wire, Profile::Strict, &accel()).unwrap()
}

/// Keeps 9171-4.2.3-3, 9171-4.2.4-1.
#[test]
fn unknown_flags_are_forwarded_and_ignored() {
    let known = [0, 1, 2, 5, 6, 14, 16, 17, 18];
    let (usual, _) = read(&plain(), Profile::Strict).unwrap();
    assert_eq!((usual.facts, usual.duties), (Facts(0), Duties(0)));
    for bit in (0..64).filter(|bit| !known.contains(bit)) {
        let mut bundle = plain();
        bundle.primary.flags = BundleFlags(1 << bit);
        for profile in BOTH {
            let (meta, hop) = read(&bundle, profile).unwrap();
            assert_eq!((meta.facts, meta.duties, &meta.rare), (usual.facts, usual.duties, &usual.rare), "{bit}");
            assert_eq!(leaves(&meta, &hop).primary.flags, BundleFlags(1 << bit));
        }
    }
    for bit in (0..64).filter(|bit| ![0, 1, 2, 4].contains(bit)) {
        for profile in BOTH {
            let (meta, hop) = read(&with([block(99, 2, 1 << bit, &[0])]), profile).unwrap();
            assert_eq!((meta.facts, meta.duties), (usual.facts, Duties(0)), "{bit}");
            assert_eq!(leaves(&meta, &hop).extensions[0].flags, BlockFlags(1 << bit));
        }
    }
}

/// Keeps 9171-4.2.2-1.
#[test]
fn block_crc_matches_crc_type() {
    // RFC 9171 4.2.1, 4.2.2: the CRC type determines the number of items and the length of the CRC.
    for (code, crc, width) in [(0, CrcType::None, 0), (1, CrcType::Crc16, 2), (2, CrcType::Crc32c, 4)] {
        let bundle = with([ExtensionBlock { crc, ..block(99, 2, 0, &[1, 2, 3]) }]);
        assert!(BOTH.into_iter().all(|profile| read(&bundle, profile).is_ok()), "{crc:?}");
        let wire = bundle.encode(&accel()).into_payload().to_bytes().unwrap();
        let fields = [0x18, 99, 2, 0, code, 0x43, 1, 2, 3];
        let at = wire.windows(fields.len()).position(|bytes| bytes == fields).unwrap();
        assert_eq!(wire[at - 1], 0x85 + u8::from(width > 0), "the number of its items");
        let (before, item) = (&wire[..at - 1], if width > 0 { 1 + width } else { 0 });
        let (item, after) = wire[at + fields.len()..].split_at(item);
        assert_eq!(item.first().copied(), (width > 0).then_some(0x40 | width as u8));
        assert_eq!(after[1..3], [1, 1], "the payload block follows");
        // The block lacks the CRC of its type, or has one although its type is "no CRC".
        let others: &[&[u8]] = if width > 0 { &[&[]] } else { &[&[0x40], &[0x42, 0, 0], &[0x44, 0, 0, 0, 0]] };
        for other in others {
            for (head, end) in [(0x85, &[][..]), (0x86, &[]), (0x9f, &[0xff])] {
                let changed = [before, &[head], &fields, other, end, after].concat();
                for profile in BOTH {
                    assert!(
                        v7::read(&Payload::from(changed.clone()), profile, &accel()).is_err(),
                        "{crc:?} {other:x?}"
                    );
                }
            }
        }
    }
}

/// Keeps 9171-4.2.4-3.
#[test]
fn anonymous_or_admin_block_report_is_refused() {
    // A violating bundle is accepted permissively, and nothing is reported.
    let whose = [(EndpointId::Null, BundleFlags::NO_FRAGMENT), (EndpointId::ipn(1, 0), BundleFlags::ADMIN)];
    for (source, flags) in whose {
        for ask in [0, BlockFlags::REPORT, BlockFlags::REPORT | BlockFlags::DISCARD] {
            let mut bundle = with([block(99, 2, ask, &[0])]);
            (bundle.primary.source, bundle.primary.flags) = (source.clone(), BundleFlags(flags));
            bundle.primary.report_to = EndpointId::ipn(7, 0);
            let strict = read(&bundle, Profile::Strict).err().map(|error| error.reason);
            let why = "an anonymous or administrative bundle with a block that asks for reports";
            assert_eq!(strict, (ask != 0).then_some(why));
            let (meta, _) = read(&bundle, Profile::Permissive).unwrap();
            assert!(!meta.wants_report(0), "{source} {ask:x}");
        }
    }
}

/// Keeps 9171-4.3.1-5.
#[test]
fn other_protocol_version_is_refused() {
    let wire = plain().encode(&accel()).into_payload().to_bytes().unwrap();
    assert_eq!(wire[..3], [0x9f, 0x89, 7]);
    for version in (0..24).filter(|version| *version != 7) {
        let mut other = wire.to_vec();
        other[2] = version;
        for profile in BOTH {
            let error = v7::read(&Payload::from(other.clone()), profile, &accel()).unwrap_err();
            assert_eq!(error, Malformed { offset: 2, reason: "the bundle protocol version is not 7" });
        }
    }
}

/// Keeps 9171-4.3.1-6, 9171-4.3.1-13.
#[test]
fn primary_block_needs_crc_or_bib() {
    // An integrity block protects the blocks it names as targets (RFC 9172 3.6).
    let security = |targets: &[u8]| [targets, &[1, 0, 0x82, 2, 0x82, 1, 0, 0x80]].concat();
    let cases = [(None, false), (Some(security(&[0x81, 0])), true), (Some(security(&[0x82, 1, 0])), true)];
    for (integrity, protected) in cases.into_iter().chain([(Some(security(&[0x81, 1])), false)]) {
        let mut bundle = with(integrity.map(|content| block(11, 2, 0, &content)));
        assert!(read(&bundle, Profile::Strict).is_ok(), "with a CRC");
        bundle.primary.crc = CrcType::None;
        let strict = read(&bundle, Profile::Strict).err().map(|error| error.reason);
        assert_eq!(strict, (!protected).then_some("the primary block has neither a CRC nor an integrity block"));
        assert!(read(&bundle, Profile::Permissive).is_ok());
    }
}

/// Keeps 9171-4.4.1-3, 9171-4.4.2-3, 9171-4.4.3-5.
#[test]
fn repeated_singleton_block_is_refused() {
    for (kind, content) in [(6, &[0x82, 2, 0x82, 7, 0][..]), (7, &[9]), (10, &[0x82, 9, 1])] {
        for profile in BOTH {
            assert!(read(&with([block(kind, 2, 0, content)]), profile).is_ok());
            let twice = read(&with([block(kind, 2, 0, content), block(kind, 3, 0, content)]), profile);
            assert_eq!(twice.unwrap_err().reason, "a second block of a type that may occur once", "{kind}");
        }
    }
    assert!(read(&with([block(99, 2, 0, &[9]), block(99, 3, 0, &[9])]), Profile::Strict).is_ok());
}

/// Keeps 9171-4.4.3-1, 9171-4.4.3-2.
#[test]
fn hop_limit_range_is_enforced() {
    let limits: [(&[u8], Option<u8>); 6] = [
        (&[0], None),
        (&[1], Some(1)),
        (&[0x18, 0xff], Some(255)),
        (&[0x19, 1, 0], None),
        (&[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], None),
        (&[0x20], None),
    ];
    for (limit, good) in limits {
        let bundle = with([block(10, 2, 0, &[&[0x82], limit, &[0]].concat())]);
        for profile in BOTH {
            let wire = bundle.encode(&accel()).into_payload();
            let read = decode(&wire, profile, &accel()).ok();
            assert_eq!(read.and_then(|bundle| bundle.hop_count()).map(|hops| hops.limit), good, "{limit:02x?}");
        }
    }
}

/// Keeps 9171-6.1.1-5, 9171-6.1.1-7.
#[test]
fn clockless_report_has_unknown_time() {
    // A report has a time if the bundle requests times, even from a node without clock: 0 (RFC 9171 4.2.6).
    let (mut meta, _) = read(&plain(), Profile::Strict).unwrap();
    let unknown = Some(DtnTime::UNKNOWN);
    for (asks, clock, said) in [
        (Facts::STATUS_TIME, None, unknown),
        (Facts::STATUS_TIME, Some(DtnTime(5)), Some(DtnTime(5))),
        (0, None, None),
        (0, Some(DtnTime(5)), None),
    ] {
        meta.facts = Facts(asks);
        let bytes = v7::status_report(&meta, StatusAssertion::Forwarded, reason::NONE, clock);
        let Ok(ParsedRecord::Report(report)) = v7::record(&bytes) else { panic!("{bytes:x?}") };
        assert_eq!((report.forwarded, report.received), (StatusItem::at(said), StatusItem::default()));
    }
}
