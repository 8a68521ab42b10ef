//! Tests of malformed bundles of peers and attackers.

use super::*;

const BOTH: fn(&'static str) -> [Option<&'static str>; 2] = |reason| [Some(reason); 2];
const STRICT: fn(&'static str) -> [Option<&'static str>; 2] = |reason| [Some(reason), None];

#[test]
fn wrong_primary_block_length_is_refused() {
    assert_eq!(made(b"data").verdicts(), [None; 2]);
    for (longer, why) in
        [(1, "the primary block is longer than its fields"), (-1, "the primary block is shorter than its fields")]
    {
        assert_eq!(made(b"data").with(|bundle| bundle.longer = longer).verdicts(), BOTH(why));
        assert_eq!(made(b"data").named().with(|bundle| bundle.longer = longer).verdicts(), BOTH(why));
    }
}

#[test]
fn overflowing_length_is_refused() {
    let huge = made(b"data").with(|bundle| bundle.longer = (1 << 60) - 20);
    assert_eq!(huge.verdicts(), BOTH("the primary block is longer than 64 KiB"));
    let head = made(b"").wire();
    let number = |value: &[u8]| [&head[..head.len() - 3], &[9, 0], value].concat();
    // An extension block of 2^64 - 1 bytes, and a longer one.
    let most = [&[0x81][..], &[0xff; 8], &[0x7f]].concat();
    for (bytes, why) in [
        (number(&most), "the blocks before the payload are longer than 64 KiB"),
        (number(&[0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]), "a number of more than 64 bits"),
        (number(&[0x80; 11]), "a number of more than 64 bits"),
    ] {
        assert_eq!(begin(&rope(&bytes), Profile::Permissive).unwrap_err().reason, why);
    }
    // A payload of 2^64 - 1 bytes.
    let bytes = [&head[..head.len() - 3], &[1, 8], &most[..]].concat();
    assert_eq!(begin(&rope(&bytes), Profile::Permissive).unwrap_err().reason, "a payload beyond 64 bits of length");
    assert!(super::super::read(&rope(&bytes), Profile::Permissive).is_err());
    // More references than could be present.
    let bytes = [&head[..head.len() - 3], &[9, 0x40], &most[..], &[0, 0]].concat();
    assert!(begin(&rope(&bytes), Profile::Permissive).unwrap().is_none(), "more might come");
    assert!(super::super::read(&rope(&bytes), Profile::Permissive).is_err());
}

#[test]
fn dictionary_offset_outside_range_is_refused() {
    let named = |pair| made(b"data").named().with(|bundle| bundle.endpoints[0] = pair).verdicts();
    for pair in [(29, 4), (0, 29), (0, u64::MAX), (u64::MAX, 0)] {
        assert_eq!(named(pair), BOTH("an endpoint ID beyond the dictionary"), "{pair:?}");
    }
    assert_eq!(named((0, 6)), STRICT("an endpoint ID inside a string of the dictionary"));
    let refers = |references| {
        let block = Raw { references: Some(references), ..block(90, 0x40, b"") };
        made(b"data").named().before(&[block]).verdicts()
    };
    assert_eq!(refers(vec![(0, 4), (0, 14)]), [None; 2]);
    assert_eq!(refers(vec![(0, 4), (0, 29)]), BOTH("an endpoint ID beyond the dictionary"));
}

#[test]
fn unterminated_dictionary_is_refused() {
    let cut = made(b"data").named().with(|bundle| *bundle.dictionary.last_mut().unwrap() = b'x');
    assert_eq!(cut.verdicts(), BOTH("a dictionary that does not end with a zero byte"));
}

/// Keeps 5050-4.4-1, 6260-2.1-4.
#[test]
fn invalid_endpoint_names_are_refused() {
    let named =
        |dictionary: &[u8]| made(b"").named().with(|bundle| bundle.dictionary[4..14].copy_from_slice(dictionary));
    assert_eq!(named(b"///dst/sv\0").verdicts(), BOTH("a dtn endpoint ID without node name"));
    assert_eq!(named(b"//d\x07/svc.\0").verdicts(), BOTH("an endpoint ID with invisible characters"));
    assert_eq!(named(b"//d\xff/svc.\0").verdicts(), BOTH("an endpoint ID that is not text"));
    assert_eq!(named(b"//d st/sv\0").verdicts(), STRICT("an endpoint ID with invisible characters"));
    let ipn = |part: &[u8]| {
        let dictionary = [b"ipn\0", part, b"\0"].concat();
        let endpoints = [(0, 4); 4];
        made(b"").with(|bundle| (bundle.dictionary, bundle.endpoints) = (dictionary, endpoints)).verdicts()
    };
    assert_eq!(ipn(b"5.7"), [None; 2]);
    assert_eq!(ipn(b"x.7"), BOTH("an ipn endpoint ID is two numbers joined by a dot"));
    let long = [&b"//"[..], &[b'x'; 1021], b"/"].concat();
    let dtn = |part: &[u8]| {
        let dictionary = [b"dtn\0", part, b"\0"].concat();
        made(b"").with(|bundle| (bundle.dictionary, bundle.endpoints) = (dictionary, [(0, 4); 4])).verdicts()
    };
    assert_eq!(dtn(&long[..1023]), [None; 2]);
    assert_eq!(dtn(&long), BOTH("an endpoint ID with a part of more than 1023 bytes"));
    let service = made(b"").with(|bundle| bundle.endpoints[0] = (5, 1 << 32));
    assert_eq!(service.verdicts(), BOTH("an ipn service number beyond 32 bits"));
    for place in 0..4 {
        let numbered = |service| made(b"").with(|bundle| bundle.endpoints[place] = (5, service)).verdicts();
        assert_eq!(numbered(u64::from(u32::MAX)), [None; 2], "{place}");
        for beyond in [1 << 32, u64::MAX] {
            assert_eq!(numbered(beyond), BOTH("an ipn service number beyond 32 bits"), "{place}");
        }
    }
}

/// Keeps 6260-2.1-3.
#[test]
fn node_zero_is_null_endpoint() {
    // RFC 6260 2.2: node 0 is the null endpoint, whatever the service.
    let (meta, hop) =
        made(b"").with(|bundle| (bundle.endpoints[2], bundle.endpoints[3]) = ((0, 5), (0, 1 << 40))).read();
    assert!(meta.report_to().is_null() && hop.custodian.is_null());
}

/// Keeps 5050-4-3.
#[test]
fn missing_last_block_flag_is_restored() {
    // RFC 5050 4: the last block must be flagged, so a bundle accepted without the flag leaves with it.
    const NONE: &str = "no block has the last-block flag";
    let alone = made(b"data").with(|bundle| bundle.payload.flags = 0);
    let mut followed = made(b"data").after(&[block(90, 0x20, b"x"), block(91, 0x20, b"y")]);
    followed.after[1].flags &= !block_flags::LAST;
    for (bundle, right) in
        [(alone, made(b"data")), (followed, made(b"data").after(&[block(90, 0x20, b"x"), block(91, 0x20, b"y")]))]
    {
        assert_eq!(bundle.verdicts(), STRICT(NONE));
        let (meta, hop) = permissive(&bundle.wire());
        assert_eq!(leaves(&meta, &hop, None), right.wire());
    }
}

/// Keeps 5050-4-3.
#[test]
fn blocks_after_last_block_are_refused() {
    const AFTER: &str = "bytes after the last block";
    let after = made(b"data").after(&[block(90, 8, b"x"), block(91, 0, b"y")]);
    assert_eq!(after.verdicts(), BOTH(AFTER));
    let payload = made(b"data").after(&[block(90, 0, b"x")]).with(|bundle| bundle.payload.flags |= 8);
    assert_eq!(payload.verdicts(), BOTH(AFTER));
    let before = made(b"data").before(&[block(90, 8, b"x")]);
    assert_eq!(before.verdicts(), BOTH("the last block comes before the payload"));
    let second = made(b"data").after(&[block(kind::PAYLOAD, 0, b"x")]);
    assert_eq!(second.verdicts(), BOTH("a second payload block"));
    let cut = made(b"data").after(&[block(90, 0, b"abc")]);
    let wire = cut.wire();
    let error = super::super::read(&rope(&wire[..wire.len() - 1]), Profile::Permissive).unwrap_err();
    assert_eq!((error.reason, error.offset), ("the bundle ends inside a block", wire.len() as u64 - 1));
}

#[test]
fn replicated_custody_block_is_refused() {
    let custody = |flags| made(b"").before(&[block(kind::CUSTODY, flags, b"\x01ipn:1.0")]).verdicts();
    assert_eq!(custody(0x10), [None; 2]);
    assert_eq!(custody(0x11), STRICT("a custody block that is to be in every fragment"));
}

/// Keeps 5050-4.2-1, 5050-4.2-2, 5050-4.3-1.
#[test]
fn anonymous_and_admin_requests_are_void() {
    // RFC 5050 4.2, 4.3: such bundles must request nothing; requests accepted permissively have no effect.
    const REPORTS: &str = "an anonymous or administrative bundle that asks for reports";
    let anonymous =
        |bits| made(b"").with(|bundle| (bundle.endpoints[1], bundle.flags) = ((0, 0), flags::NO_FRAGMENT | bits));
    let record = |bits| made(b"").with(|bundle| bundle.flags = flags::ADMIN | bits);
    let no_fragment = made(b"").with(|bundle| bundle.endpoints[1] = (0, 0));
    assert_eq!(no_fragment.verdicts(), BOTH("an anonymous bundle that may be fragmented"));
    for bundle in [anonymous, record] as [fn(u64) -> Made; 2] {
        assert_eq!(bundle(0).verdicts(), [None; 2]);
        assert_eq!(bundle(flags::REPORT_CUSTODY).verdicts(), STRICT(REPORTS));
        assert_eq!(bundle(flags::REPORT_DELETION).verdicts(), STRICT(REPORTS));
        let custody = bundle(flags::CUSTODY);
        assert_eq!(custody.verdicts(), STRICT("an anonymous or administrative bundle that asks for custody"));
        assert!(!permissive(&custody.wire()).0.facts.has(Facts::CUSTODY), "void");
        let asks = block(90, block_flags::REPORT, b"");
        let why = "an anonymous or administrative bundle with a block that asks for reports";
        assert_eq!(bundle(0).before(core::slice::from_ref(&asks)).verdicts(), STRICT(why));
        assert_eq!(bundle(0).after(&[asks]).verdicts(), STRICT(why));
    }
}

/// Keeps 5050-5.8-3.
#[test]
fn fragment_range_is_checked() {
    let fragment = |payload: &[u8], place| {
        made(payload)
            .with(|bundle| (bundle.flags, bundle.place) = (bundle.flags | flags::FRAGMENT, Some(place)))
            .verdicts()
    };
    assert_eq!(fragment(b"data", (5, 9)), [None; 2]);
    assert_eq!(fragment(b"data", (0, 4)), [None; 2], "all of it: late, not wrong");
    assert_eq!(fragment(b"", (0, 4)), BOTH("a fragment without payload"));
    for place in [(6, 9), (0, 3), (u64::MAX, u64::MAX)] {
        assert_eq!(fragment(b"data", place), BOTH("a fragment that reaches beyond the original payload"));
    }
    let both = made(b"data").with(|bundle| {
        (bundle.flags, bundle.place) = (flags::FRAGMENT | flags::NO_FRAGMENT, Some((0, 9)));
    });
    assert_eq!(both.verdicts(), STRICT("a fragment of a bundle that must not be fragmented"));
    let nobody = both.with(|bundle| bundle.endpoints[1] = (0, 0));
    assert_eq!(nobody.verdicts()[1], Some("a fragment of an anonymous bundle"));
    let missing = made(b"data").with(|bundle| bundle.flags |= flags::FRAGMENT);
    assert_eq!(missing.verdicts(), BOTH("the primary block is shorter than its fields"));
}

/// Keeps 5050-4-2, 5050-4.3-2.
#[test]
fn impossible_primary_fields_are_refused() {
    let late = made(b"").with(|bundle| bundle.seconds = u64::MAX / 1000 + 1);
    assert_eq!(late.verdicts(), BOTH("a creation time out of range"));
    assert_eq!(made(b"").with(|bundle| bundle.lifetime = u64::MAX).read().0.lifetime_ms, u64::MAX);
    let refers = made(b"").with(|bundle| {
        bundle.payload = Raw { references: Some(vec![(2, 1)]), ..block(1, 0x48, b"") };
    });
    assert_eq!(refers.verdicts(), BOTH("a payload block that refers to endpoint IDs"));
    let replicated = made(b"").after(&[block(90, 1, b"")]);
    assert_eq!(replicated.verdicts(), STRICT("a block after the payload that is to be in every fragment"));
    for (first, why) in
        [(0x9f, "the first byte is that of a BPv7 bundle"), (5, "a BPv6 bundle begins with the byte 06")]
    {
        assert_eq!(begin(&rope(&[first]), Profile::Strict).unwrap_err().reason, why);
    }
    let pads = made(b"data").wire();
    let padded = [&pads[..1], &[0x80, 0x80], &pads[1..]].concat();
    let (meta, hop) = read_strict(&padded).unwrap();
    assert_eq!(leaves(&meta, &hop, None), padded, "padded numbers are numbers");
}

#[test]
fn block_count_and_length_are_bounded() {
    // Blocks after the payload stay in memory while the payload goes to disk.
    let blocks = |count| made(b"").before(&vec![block(90, 0, b""); count]).verdicts();
    assert_eq!(blocks(crate::MAX_EXTENSION_BLOCKS), [None; 2]);
    assert_eq!(blocks(crate::MAX_EXTENSION_BLOCKS + 1), BOTH("more than 128 extension blocks"));
    let long = |len| made(b"").before(&[block(90, 0, &vec![7; len])]).verdicts();
    assert_eq!(long(60_000), [None; 2]);
    assert_eq!(long(62_000), BOTH("the blocks before the payload leave no room for hops in 64 KiB"));
    assert_eq!(long(66_000), BOTH("the blocks before the payload are longer than 64 KiB"));
    let after = |len| made(b"").after(&[block(90, 0, &vec![7; len])]).verdicts();
    assert_eq!(after(MAX_TAIL_BYTES - 4), [None; 2]);
    assert_eq!(after(MAX_TAIL_BYTES), BOTH("the blocks after the payload are longer than 4 KiB"));
}

#[test]
fn damaged_v6_bundle_stays_forwardable() {
    let blocks =
        [block(kind::PREVIOUS_HOP, 0x10, b"dtn\0//a/\0"), block(90, 0, b"abc"), block(10, 0x10, b"\x01ipn:1.0")];
    let wire = made(b"data").named().before(&blocks).after(&blocks[1..]).wire();
    for cut in 0..wire.len() {
        assert!(read_strict(&wire[..cut]).is_err(), "cut to {cut}");
        // At block boundaries, only the missing last-block flag shows the truncation.
        let ends = [11, 17].contains(&(wire.len() - cut));
        assert_eq!(super::super::read(&rope(&wire[..cut]), Profile::Permissive).is_ok(), ends, "cut to {cut}");
        assert!(begin(&rope(&wire[..cut]), Profile::Strict).is_ok(), "cut to {cut}");
    }
    for at in 0..wire.len() {
        for value in [0, 1, 0x08, 0x40, 0x7f, 0x80, 0xff] {
            let mut bytes = wire.clone();
            bytes[at] = value;
            let Ok((meta, hop)) = super::super::read(&rope(&bytes), Profile::Permissive) else { continue };
            let again = leaves(&meta, &HopState { previous: EndpointId::ipn(9, 0), ..hop }, None);
            assert!(super::super::read(&rope(&again), Profile::Permissive).is_ok(), "{at} as {value:x}");
        }
    }
}
