//! Odd bundles of version 6, legal but unusual ones and illegal ones: the fate of each in a whole node, after a restart
//! too (RFC 5050, 6260).

use crate::odd::{NO_FRAGMENT, NOW_S, Old, SINGLETON, Site, number, old};
use farlink_base::layer::DatagramBatch;
use farlink_base::{
    CreationTimestamp, DataVolume, DtnTime, Duration, EndpointId, Event, Facts, HopState, LayerId, LinkId, Payload,
    Priority, socket,
};
use farlink_bpa::app::{AppInput, RequestId, SendRequest};
use farlink_bundle::{Profile, v6, v7};
use farlink_stack::{Input, LinkParams, StoreKind};

const DTN: [(&str, &str); 4] = [("dtn", "//one/app"), ("dtn", "//src/app"), ("dtn", "none"), ("dtn", "none")];

const RULE: &str = "refused: not acceptable: malformed, or a rule is violated";
const LATE: &str = "refused: lifetime expired";

fn read(bytes: &[u8]) -> v6::BundleView {
    v6::decode(&Payload::from(bytes.to_vec()), Profile::Permissive).expect("a bundle of version 6")
}
/// A bundle of version 7 for ipn:1.1.
fn new(source: EndpointId, creation: CreationTimestamp, payload: &[u8]) -> Vec<u8> {
    new_to(EndpointId::ipn(1, 1), source, creation, payload)
}
fn new_to(destination: EndpointId, source: EndpointId, creation: CreationTimestamp, payload: &[u8]) -> Vec<u8> {
    let draft = v7::BundleDraft { source, destination, lifetime_ms: 3_600_000, ..v7::BundleDraft::default() };
    let accel = farlink_base::Accel::default();
    let payload = Payload::from(payload.to_vec());
    let meta = v7::make(&draft, creation, payload, farlink_bundle::CrcType::Crc32c, &accel);
    let encoded = v7::render(&meta, &HopState::default(), None, &accel, &mut farlink_base::BytesMut::new());
    encoded.into_payload().to_bytes().expect("bytes").to_vec()
}

#[test]
fn odd_legal_bundles_are_accepted() {
    let ipn = ("ipn", "1.1");
    let cases: Vec<(&str, Old)> = vec![
        ("numbers", old(1)),
        ("names", old(2).named(DTN)),
        ("an ipn name in a dictionary", old(3).named([ipn, DTN[1], DTN[2], DTN[3]])),
        (
            "schemes and parts that share nothing with their neighbours",
            old(4).named([DTN[0], ("ipn", "7.0"), ipn, DTN[1]]),
        ),
        ("a custodian and no report-to", old(5).with(|b| b.ends[3] = (9, 0))),
        ("a null custodian with a service", old(6).with(|b| b.ends[3] = (0, 1 << 40))),
        ("anonymous by service", old(7).with(|b| (b.ends[1], b.flags) = ((0, 5), b.flags | NO_FRAGMENT))),
        ("the lowest class of service", old(8).with(|b| b.flags = SINGLETON)),
        ("a class of service that is none", old(9).with(|b| b.flags = SINGLETON | 3 << 7)),
        ("flags nobody defined", old(10).with(|b| b.flags |= 1 << 40 | 1 << 13)),
        ("no singleton", old(11).with(|b| b.flags = 1 << 7)),
        ("custody is asked for", old(12).with(|b| (b.flags, b.ends[3]) = (b.flags | 8, (9, 0)))),
        ("an acknowledgment of the application", old(13).with(|b| b.flags |= 0x20)),
        ("a lifetime that never ends", old(14).with(|b| b.lifetime = u64::MAX)),
        ("from the future", old(15).with(|b| b.seconds = NOW_S + 3_000_000_000)),
        ("a sequence number at its end", old(u64::MAX)),
        ("no clock and an age", old(17).with(|b| (b.seconds, b.before) = (0, vec![(20, 1, number(5_000_000))]))),
        ("no clock and no age", old(18).with(|b| b.seconds = 0)),
        (
            "no clock and an age behind the payload",
            old(19).with(|b| (b.seconds, b.after) = (0, vec![(20, 0, number(5))])),
        ),
        ("an age that is no number", old(20).with(|b| b.before = vec![(20, 1, vec![0x80])])),
        ("an empty payload", old(21).with(|b| b.payload.clear())),
        ("a block to be discarded", old(22).with(|b| b.before = vec![(77, 0x10, vec![1; 300])])),
        ("a block to be discarded at the end", old(23).with(|b| b.after = vec![(77, 0x10, vec![1; 300])])),
        ("a block that cannot be processed", old(24).with(|b| b.before = vec![(77, 0, Vec::new())])),
        ("flags of a block nobody defined", old(25).with(|b| b.before = vec![(77, 0x3f00, vec![1])])),
        ("two previous hops", old(26).with(|b| b.before = vec![(5, 0x10, b"ipn\x009.0\0".to_vec()); 2])),
        ("a previous hop that is this node", old(27).with(|b| b.before = vec![(5, 0x10, b"ipn\x001.0\0".to_vec())])),
        ("a previous hop without end", old(28).with(|b| b.before = vec![(5, 0x10, b"ipn\x009.0".to_vec())])),
        ("metadata", old(29).with(|b| b.before = vec![(8, 0, vec![1, 2, 3])])),
        (
            "a class of service with a label",
            old(30).with(|b| b.before = vec![(19, 1, [vec![6, 9], number(1 << 50)].concat())]),
        ),
        ("a class of service cut short", old(31).with(|b| b.before = vec![(19, 1, vec![4, 9])])),
        ("permits to spray", old(32).with(|b| b.before = vec![(21, 1, number(8))])),
        (
            "labels that are too large",
            old(33).with(|b| b.before = vec![(240, 1, [number(1 << 40), number(1)].concat())]),
        ),
        ("a number of custody of nobody", old(34).with(|b| b.before = vec![(10, 0x10, vec![1])])),
        ("a signature nobody can check", old(35).with(|b| b.before = vec![(3, 0, vec![1; 40])])),
        (
            "authentication of a hop",
            old(36).with(|b| (b.before, b.after) = (vec![(2, 0, vec![1; 9])], vec![(2, 0, vec![1; 9])])),
        ),
        ("a source of another scheme", old(37).named([DTN[0], ("x-lab", "probe 7"), DTN[2], DTN[3]])),
        ("a source of the older form of dtn", old(38).named([DTN[0], ("dtn", "probe.dtn"), DTN[2], DTN[3]])),
        ("report-to of another scheme", old(39).named([DTN[0], DTN[1], ("sip", "a@b"), DTN[3]])),
        ("all of a bundle as one fragment", old(40).with(|b| b.place = Some((0, 7)))),
        ("for a group", old(41).named([("dtn", "//any/~news"), DTN[1], DTN[2], DTN[3]]).with(|b| b.flags = 1 << 7)),
        ("for a group, said to be one node", old(42).named([("dtn", "//any/~news"), DTN[1], DTN[2], DTN[3]])),
        ("128 blocks", old(43).with(|b| b.before = vec![(77, 0, Vec::new()); 128])),
    ];
    let mut site = Site::new();
    for (what, bundle) in &cases {
        assert_eq!(site.fate(&bundle.wire()), "delivered", "{what}");
        assert_eq!(site.delivered, [&bundle.payload[..]], "{what}");
    }
    // The same bundles for another node are forwarded, again as bundles of version 6.
    for (what, bundle) in &cases {
        let there = bundle.clone().with(|b| match b.dictionary.is_empty() {
            true => b.ends[0] = (7, 1),
            false => {
                b.ends[0] = (b.dictionary.len() as u64, b.dictionary.len() as u64 + 4);
                b.dictionary.extend(b"ipn\x007.1\0");
            }
        });
        assert_eq!(site.fate(&there.wire()), "left", "{what}");
        let leaves = v6::decode(&Payload::from(site.left[0].clone()), Profile::Permissive).expect("version 6");
        assert_eq!(leaves.payload.to_bytes().unwrap(), &bundle.payload[..], "{what}");
        // The original identity stays, or the receiver could not detect duplicates.
        assert_eq!((leaves.primary.creation.sequence, site.left.len()), (bundle.sequence, 1), "{what}");
        let came = v6::decode(&Payload::from(there.wire()), Profile::Permissive).expect("a bundle");
        assert_eq!(leaves.primary, came.primary, "{what}: nobody took custody");
    }
}

#[test]
fn odd_invalid_bundles_leave_nothing() {
    let named = |sequence, at: usize, name| {
        let mut names = DTN;
        names[at] = name;
        old(sequence).named(names)
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (RULE, old(1).with(|b| b.ends[0] = (0, 0)).wire()),
        (RULE, old(2).with(|b| b.ends[0] = (0xffff_ffff, 1)).wire()),
        (RULE, named(3, 0, ("ipn", "!.1")).wire()),
        (RULE, named(4, 1, ("ipn", "!.1")).wire()),
        (RULE, named(5, 1, ("dtn", "//any/~news")).wire()),
        (RULE, named(6, 2, ("ipn", "!.1")).wire()),
        (LATE, old(7).with(|b| b.lifetime = 0).wire()),
        (LATE, old(8).with(|b| b.seconds = NOW_S - 3600).wire()),
        (LATE, old(9).with(|b| (b.seconds, b.before) = (0, vec![(20, 1, number(3_600_000_000))])).wire()),
        (LATE, old(10).with(|b| (b.seconds, b.after) = (0, vec![(20, 0, number(u64::MAX))])).wire()),
        ("malformed: a fragment of an anonymous bundle", {
            let flags = SINGLETON | NO_FRAGMENT;
            old(11).with(|b| (b.ends[1], b.flags, b.place) = ((0, 0), flags, Some((0, 70)))).wire()
        }),
        ("malformed: an anonymous bundle that may be fragmented", old(12).with(|b| b.ends[1] = (0, 0)).wire()),
        ("malformed: a creation time out of range", old(13).with(|b| b.seconds = u64::MAX).wire()),
        (
            "malformed: a fragment that reaches beyond the original payload",
            old(14).with(|b| b.place = Some((u64::MAX, 9))).wire(),
        ),
        ("malformed: an ipn service number beyond 32 bits", old(15).with(|b| b.ends[2] = (9, 1 << 33)).wire()),
        ("malformed: an endpoint ID beyond the dictionary", old(16).named(DTN).with(|b| b.ends[3] = (0, 500)).wire()),
        ("malformed: a dictionary that does not end with a zero byte", {
            old(17).named(DTN).with(|b| b.dictionary.push(b'x')).wire()
        }),
        (
            "malformed: more than 128 extension blocks",
            old(18).with(|b| b.before = vec![(77, 0, Vec::new()); 129]).wire(),
        ),
        ("malformed: the blocks after the payload are longer than 4 KiB", {
            old(19).with(|b| b.after = vec![(77, 0, vec![0; 4096])]).wire()
        }),
        ("malformed: bytes after the last block", [old(20).wire(), vec![0]].concat()),
        ("malformed: a dtn endpoint ID without node name", named(21, 1, ("dtn", "///x")).wire()),
        ("malformed: an endpoint ID with invisible characters", named(22, 2, ("dtn", "//a/\x1b[2J")).wire()),
        ("malformed: an ipn endpoint ID is two numbers joined by a dot", named(23, 0, ("ipn", "1")).wire()),
        ("UnknownSecurity", old(24).with(|b| b.before = vec![(4, 0, vec![1; 40])]).wire()),
        ("BlockUnsupported", old(25).with(|b| b.before = vec![(77, 4, vec![1])]).wire()),
        ("BlockUnsupported", old(26).with(|b| b.after = vec![(77, 4, vec![1])]).wire()),
    ];
    let mut site = Site::new();
    for (fate, bundle) in cases {
        assert_eq!(site.fate(&bundle), fate);
        assert_eq!((site.held(), site.delivered.len(), site.left.len()), (0, 0, 0), "{fate}");
    }
    // However a bundle is truncated or changed, the node accepts the next one.
    let blocks = vec![(5, 0x10, b"dtn\0//a/\0".to_vec()), (77, 0, b"abc".to_vec())];
    let whole = old(27).named(DTN).with(|b| (b.before, b.after) = (blocks.clone(), blocks)).wire();
    for cut in 1..whole.len() {
        site.fate(&whole[..cut]);
        let mut changed = whole.clone();
        // One bit per byte, a different one each time: all positions are tried without eight runs per byte.
        changed[cut] ^= 0x80 >> (cut % 8);
        site.fate(&changed);
    }
    assert_eq!(site.fate(&old(28).wire()), "delivered");
}

#[test]
fn anonymous_bundles_are_never_duplicates() {
    // RFC 5050 4.5.1: source and timestamp identify a bundle. Anonymous bundles have no such identity.
    let mut site = Site::new();
    let anonymous = old(1).with(|b| (b.ends[1], b.flags) = ((0, 0), SINGLETON | NO_FRAGMENT)).wire();
    for _ in 0..2 {
        assert_eq!(site.fate(&anonymous), "delivered");
    }
    assert_eq!(site.fate(&old(2).wire()), "delivered");
    assert_eq!(site.fate(&old(2).wire()), "nothing");
    // The same name, written in another way.
    let named = old(2).named([("ipn", "1.1"), ("ipn", "9.1"), ("dtn", "none"), ("dtn", "none")]).wire();
    assert_eq!(site.fate(&named), "nothing");
    site.restart();
    site.listen();
    assert_eq!(site.fate(&old(2).wire()), "nothing", "it is remembered");
}

#[test]
fn versions_never_share_identity() {
    let source = EndpointId::ipn(9, 1);
    let creation = |sequence| CreationTimestamp { time: DtnTime(NOW_S * 1000), sequence };
    for first in [6, 7] {
        let mut site = Site::new();
        for version in [first, 13 - first] {
            let bytes = if version == 6 { old(1).wire() } else { new(source.clone(), creation(1), b"payload") };
            assert_eq!(site.fate(&bytes), "delivered", "{version} after {first}");
        }
    }
    // Fragments of one version must not complete a bundle of the other.
    let piece = |version: u64, offset: u64, payload: &[u8]| {
        let whole = old(2).with(|b| (b.place, b.payload) = (Some((offset, 20)), payload.to_vec()));
        if version == 6 {
            return whole.wire();
        }
        let draft = v7::BundleDraft {
            source: source.clone(),
            destination: EndpointId::ipn(1, 1),
            lifetime_ms: 3_600_000,
            ..v7::BundleDraft::default()
        };
        let accel = farlink_base::Accel::default();
        let rope = Payload::from(
            [&vec![0; offset as usize][..], payload, &vec![0; 20 - offset as usize - payload.len()]].concat(),
        );
        let meta = v7::make(&draft, creation(2), rope, farlink_bundle::CrcType::Crc32c, &accel);
        let cut = Some(offset..offset + payload.len() as u64);
        let encoded = v7::render(&meta, &HopState::default(), cut, &accel, &mut farlink_base::BytesMut::new());
        encoded.into_payload().to_bytes().expect("bytes").to_vec()
    };
    let mut site = Site::new();
    assert_eq!(site.fate(&piece(6, 0, b"0123456789")), "waits");
    assert_eq!(site.fate(&piece(7, 10, b"ABCDEFGHIJ")), "waits");
    assert_eq!(site.fate(&piece(7, 0, b"abcdefghij")), "delivered");
    assert_eq!(site.delivered, [&b"abcdefghijABCDEFGHIJ"[..]]);
    assert_eq!(site.fate(&piece(6, 10, b"0123456789")), "delivered");
    assert_eq!(site.delivered, [&b"01234567890123456789"[..]]);
    assert_eq!(site.held(), 0);
}

#[test]
fn fragments_reassemble_across_restart() {
    let whole: Vec<u8> = (0..100).collect();
    let piece = |from: usize, to: usize, total| {
        let payload = whole[from..to].to_vec();
        old(1)
            .named(DTN)
            .with(|b| (b.place, b.payload, b.after) = (Some((from as u64, total)), payload, vec![(77, 0, vec![9])]))
            .wire()
    };
    // The fragments come out of order, they overlap, and one comes twice.
    let pieces = [(60, 100), (0, 30), (10, 40), (0, 30), (35, 70)];
    for restart_after in 0..pieces.len() {
        let mut site = Site::new();
        // A fragment that lies about the total length spoils nothing.
        assert_eq!(site.fate(&piece(0, 50, 1 << 60)), "waits");
        let mut fates = Vec::new();
        for (n, (from, to)) in pieces.into_iter().enumerate() {
            fates.push(site.fate(&piece(from, to, 100)));
            if n == restart_after && n + 1 < pieces.len() {
                site.restart();
                site.listen();
            }
        }
        assert_eq!(fates.last().map(String::as_str), Some("delivered"), "{restart_after}: {fates:?}");
        assert_eq!(site.delivered, [&whole[..]], "{restart_after}");
        assert_eq!(site.held(), 0, "{restart_after}: the liar's goes with the whole, which is remembered");
        // Late fragments must not start a new reassembly.
        for late in [piece(20, 60, 100), piece(0, 50, 1 << 60)] {
            site.fate(&late);
            assert_eq!((site.delivered.len(), site.held()), (0, 0), "the whole was delivered");
        }
    }
}

#[test]
fn v6_bundle_survives_restart_unchanged() {
    let mut site = Site::tuned(|config| {
        config.links.clear();
        config.routes.clear();
    });
    let blocks = vec![(77, 0, vec![1, 2, 3]), (8, 0, vec![4; 40])];
    let late = old(1).named([("dtn", "//one/late"), DTN[1], DTN[2], DTN[3]]).with(|b| b.after = blocks.clone());
    let there = old(2).with(|b| (b.ends[0], b.ends[3], b.after) = ((7, 1), (9, 0), blocks.clone()));
    let elsewhere = old(3).named([("x-lab", "probe 7"), DTN[1], DTN[2], DTN[3]]).with(|b| b.flags |= 8);
    for bundle in [&late, &there, &elsewhere] {
        assert_eq!(site.fate(&bundle.wire()), "waits");
    }
    site.left.clear();
    site.tune = |_| {};
    site.restart();
    assert_eq!(site.left.len(), 2);
    for (bytes, came) in site.left.iter().zip([there, elsewhere]) {
        let (leaves, came) = (read(bytes), v6::decode(&Payload::from(came.wire()), Profile::Permissive).unwrap());
        assert_eq!((&leaves.primary, &leaves.payload.to_bytes()), (&came.primary, &came.payload.to_bytes()));
        let after = |bundle: &v6::BundleView| bundle.after.iter().map(|b| (b.kind, b.data.clone())).collect::<Vec<_>>();
        assert_eq!(after(&leaves), after(&came));
        let unknown = |flags| flags & v6::block_flags::UNPROCESSED != 0;
        assert!(leaves.after.iter().all(|block| unknown(block.flags)));
    }
    let endpoint = EndpointId::dtn("one", "late");
    let registration = farlink_bpa::app::RegistrationId(9);
    site.give(Input::App(AppInput::Register { registration, endpoint, window: 1 }));
    site.wait(Duration::from_secs(1));
    assert_eq!(site.delivered, [&b"payload"[..]]);
}

#[test]
fn unprocessable_block_is_reported_once() {
    // RFC 5050 5.6, 6.1.1: the report on a bundle of version 6 is one of version 6, and goes to its report-to
    // endpoint.
    let reports = |bundle: &Old| {
        let mut site = Site::new();
        site.fate(&bundle.wire());
        let about = |bytes: &farlink_base::Bytes| match v6::record(&read(bytes).payload.to_bytes().unwrap()) {
            Ok(v6::ParsedRecord::Report(report)) => Some(report),
            _ => None,
        };
        site.left.iter().filter_map(about).collect::<Vec<_>>()
    };
    let asks = |flags, block| {
        old(5).with(|b| {
            (b.ends[0], b.ends[2], b.flags, b.before) = ((7, 1), (8, 3), b.flags | flags, vec![(77, block, vec![1])])
        })
    };
    let said = reports(&asks(0, 2));
    let [report] = &said[..] else { panic!("{said:?}") };
    assert_eq!((report.reason, report.received.asserted, report.deleted.asserted), (8, true, false));
    assert_eq!((&report.subject.source, report.subject.creation.sequence), (&EndpointId::ipn(9, 1), 5));
    let said = reports(&asks(0x4_0000, 2 | 4));
    let reasons: Vec<_> = said.iter().map(|report| (report.reason, report.deleted.asserted)).collect();
    // Reason 8 is "block unintelligible" (RFC 5050 6.1.1).
    assert_eq!(reasons, [(8, false), (8, true)]);
    // RFC 5050 4.2: no reports are made about administrative records.
    assert!(reports(&asks(0, 0)).is_empty() && reports(&asks(2, 2)).is_empty(), "none about records");
}

#[test]
fn fragments_with_trailing_blocks_fit_mtu() {
    // RFC 5050 5.8: the blocks after the payload go with the last piece, which may have to be shorter for them.
    const MOST: usize = 400;
    let tune = |config: &mut farlink_stack::Config| {
        if let LinkParams::Udpcl(span) = &mut config.links[0].params {
            span.datagram_bytes = MOST as u32;
        }
    };
    for (after, len) in [(0, 330..420), (100, 230..420), (100, 560..760), (250, 80..420)]
        .into_iter()
        .flat_map(|(after, lens)| lens.map(move |len| (after, len)))
    {
        let mut site = Site::tuned(tune);
        let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let bundle = old(1).with(|b| {
            (b.ends[0], b.payload) = ((7, 1), payload.clone());
            b.after = if after > 0 { vec![(77, 0, vec![9; after])] } else { Vec::new() };
        });
        site.fate(&bundle.wire());
        site.wait(Duration::from_secs(2));
        assert_eq!(site.held(), 0, "{after} B after {len}: {} left", site.left.len());
        let mut whole = Vec::new();
        for bytes in &site.left {
            assert!(bytes.len() <= MOST, "{} B", bytes.len());
            let piece = read(bytes);
            assert_eq!(piece.primary.fragment.map_or(0, |place| place.offset), whole.len() as u64);
            whole.extend_from_slice(&piece.payload.to_bytes().unwrap());
            let last = whole.len() == len && after > 0;
            assert_eq!(piece.after.len(), usize::from(last));
        }
        assert!(whole == payload);
    }
    // The trailing blocks alone exceed the link's MTU: no piece leaves.
    let mut site = Site::tuned(tune);
    let bundle =
        old(1).with(|b| (b.ends[0], b.payload, b.after) = ((7, 1), vec![1; 5000], vec![(77, 0, vec![9; MOST])]));
    assert_eq!(site.fate(&bundle.wire()), "refused: larger than this node accepts");
    assert_eq!((site.left.len(), site.held()), (0, 1));
}

#[test]
fn inbound_stream_is_no_route() {
    // An STCP stream carries bundles in one direction, so a peer that connected cannot be sent any.
    let mut site = Site::new();
    // The peer claims to be ipn:5.0 in the previous node block of its bundle, and keeps the stream open.
    let names = old(1).with(|b| (b.ends[1], b.before) = ((5, 1), vec![(5, 0x10, b"ipn\x005.0\0".to_vec())]));
    assert_eq!(site.fate(&names.wire()), "delivered");
    let bundle = SendRequest {
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(5, 1),
        report_to: EndpointId::Null,
        facts: Facts(0),
        lifetime_ms: 60_000,
        priority: Priority::Normal,
        hop_limit: 0,
        reliable: true,
        payload: Payload::from(&b"an answer"[..]),
    };
    site.give(Input::App(AppInput::Send { request: RequestId(1), bundle }));
    site.wait(Duration::from_secs(1));
    assert_eq!((site.left.len(), site.held()), (1, 0), "it left by the route there is");
    let way = |event: &Event| if let Event::Routed { link, .. } = event { Some(*link) } else { None };
    assert_eq!(site.events.iter().filter_map(way).collect::<Vec<_>>(), [LinkId(0)]);
}

/// Version 7 without check sums: from this source to this destination, brought by this previous node.
fn brought(sequence: u8, destination: &[u8], source: &[u8], previous: &[u8]) -> Vec<u8> {
    let time = (NOW_S * 1000).to_be_bytes();
    let mut bytes = vec![0x9f, 0x88, 7, 0, 0];
    bytes.extend(
        [destination, source, &[0x82, 1, 0, 0x82, 0x1b], &time, &[sequence, 0x1a, 0, 0x36, 0xee, 0x80]].concat(),
    );
    bytes.extend([&[0x85, 6, 2, 0, 0, 0x40 | previous.len() as u8], previous].concat());
    bytes.extend([0x85, 1, 1, 0, 0, 0x42, b'h', b'i', 0xff]);
    bytes
}

#[test]
fn group_previous_node_is_harmless() {
    // A previous node of a group scheme, and a bundle for the null endpoint: each once crashed a node of another
    // implementation.
    const HERE: &[u8] = &[0x82, 2, 0x82, 1, 1];
    const THERE: &[u8] = &[0x82, 2, 0x82, 2, 1];
    const GROUP: &[u8] = &[0x82, 3, 0x82, 0x18, 42, 1];
    const NOBODY: &[u8] = &[0x82, 1, 0];
    let mut site = Site::new();
    for (number, (destination, source, previous, fate)) in [
        (HERE, THERE, GROUP, "delivered"),
        (GROUP, THERE, GROUP, "left"),
        (NOBODY, THERE, THERE, RULE),
        (NOBODY, NOBODY, NOBODY, "malformed: an anonymous bundle that may be fragmented"),
        (HERE, GROUP, THERE, RULE),
        (HERE, THERE, NOBODY, "delivered"),
        (HERE, THERE, THERE, "delivered"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(site.fate(&brought(number as u8, destination, source, previous)), fate, "case {number}");
    }
}

#[test]
fn stranger_copy_is_no_loop_evidence() {
    // In both versions, with and without a disk: before a neighbour sends a bundle, an unauthenticated peer sends a
    // copy of it, or another bundle with its identity.
    let with_disk = || Site::new();
    let in_memory = || Site::tuned(|config| config.keep_in(StoreKind::Memory, DataVolume(1 << 30)));
    let sites: [&dyn Fn() -> Site; 2] = [&with_disk, &in_memory];
    let cases =
        sites.into_iter().flat_map(|site| [(6, true), (6, false), (7, true), (7, false)].map(|case| (site, case)));
    for (site, (version, exact)) in cases {
        let mut site = site();
        let bundle = |payload: &[u8]| match version {
            6 => old(1).with(|b| (b.ends[0], b.payload) = ((7, 1), payload.to_vec())).wire(),
            _ => {
                let creation = CreationTimestamp { time: DtnTime(NOW_S * 1000), sequence: 1 };
                new_to(EndpointId::ipn(7, 1), EndpointId::ipn(9, 1), creation, payload)
            }
        };
        for n in 0..4 {
            let forged = bundle(if exact { b"honest" } else { [b"forge0", b"forge1", b"forge2", b"forge3"][n] });
            assert_eq!(site.fate(&forged), if exact && n > 0 { "waits" } else { "left" }, "{version} {exact}");
            site.wait(Duration::from_secs(70));
        }
        (site.events, site.left) = Default::default();
        let bytes = bundle(b"honest");
        let neighbour = std::net::SocketAddr::from(([10, 0, 0, 2], 4556));
        let say = |site: &mut Site| {
            let train = DatagramBatch { stride: bytes.len() as u32, data: Payload::from(bytes.clone()) };
            site.give(Input::Socket(LayerId(1), socket::Input::Datagrams { from: neighbour, train }));
            let returned = site.events.iter().filter(|event| matches!(event, Event::Returned { .. })).count();
            (returned, site.left.len())
        };
        assert_eq!(say(&mut site), (0, 1), "version {version}, exact: {exact}");
        assert_eq!(say(&mut site), (1, 1), "version {version}, exact: {exact}: what is back is known");
    }
}

#[test]
fn broken_long_head_reported_early() {
    // The head is checked as soon as it is there, long before the end.
    let mut site = Site::new();
    let long = |sequence: u64| old(sequence).with(|b| b.payload = vec![7; 3_000_000]).wire();
    let mut broken = long(1);
    // An SDNV of more than 10 bytes, which no 64-bit number needs.
    broken[1..12].fill(0xff);
    site.receive_beginning(&broken, 1_000_000);
    site.wait(Duration::from_millis(500));
    let told = site.events.iter().filter(|event| matches!(event, Event::Malformed { .. })).count();
    assert_eq!((told, site.held()), (1, 0), "{:?}", site.events);
    assert_eq!(site.fate(&long(2)), "delivered");
}
