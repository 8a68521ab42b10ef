//! Tests of the changes a hop makes, and of the blocks it must not touch.

use super::*;
use farlink_base::Duties;

/// Keeps 5050-4.6-1, 5050-5.6-2, 5050-5.6-3, 5050-5.6-4.
#[test]
fn unknown_v6_blocks_follow_their_flags() {
    // RFC 5050 5.6 step 3, 4.6: the flags of an unknown block decide about it and the bundle.
    use block_flags as F;
    for (flags, kept, duties) in [
        (0, true, 0),
        (F::DISCARD, false, 0),
        (F::REPORT, true, Duties::REPORT),
        (F::REPORT | F::DISCARD, false, Duties::REPORT),
        (F::DELETE_BUNDLE, true, Duties::DELETE),
        (F::DELETE_BUNDLE | F::DISCARD | F::REPORT, true, Duties::DELETE | Duties::REPORT),
    ] {
        let blocks = [block(90, flags, b"abc"), block(91, F::UNPROCESSED, b"d")];
        let wires = [made(b"data").before(&blocks), made(b"data").after(&blocks)].map(|bundle| bundle.wire());
        let marked = [block(90, flags | F::UNPROCESSED, b"abc"), block(91, F::UNPROCESSED, b"d")];
        let marked = if kept { &marked[..] } else { &marked[1..] };
        let wants = [made(b"data").before(marked), made(b"data").after(marked)].map(|bundle| bundle.wire());
        for (wire, want) in wires.iter().zip(&wants) {
            let (meta, hop) = read_strict(wire).unwrap();
            assert_eq!((meta.duties, leaves(&meta, &hop, None)), (Duties(duties), want.clone()), "{flags:x}");
        }
    }
    // In flags padded to two bytes (0x81, 0x00), the unprocessed bit is set in the last byte.
    let wire = made(b"").wire();
    let at = wire.len() - 3;
    let [padded, marked] = [0x00, 0x20].map(|flags| [&wire[..at], &[90, 0x81, flags, 1, 7], &wire[at..]].concat());
    let (meta, hop) = read_strict(&padded).unwrap();
    assert_eq!(leaves(&meta, &hop, None), marked);
}

/// Keeps 5050-4-3, 5050-5.6-3.
#[test]
fn discarding_last_block_moves_last_flag() {
    // RFC 5050 4: the last-block flag moves to the last block that is left.
    let gone = block(91, block_flags::DISCARD, b"gone");
    let alone = made(b"data").after(core::slice::from_ref(&gone));
    let (meta, hop) = alone.read();
    assert_eq!(leaves(&meta, &hop, None), made(b"data").wire());
    let (meta, hop) = made(b"data").after(&[block(90, 0x20, b"stays"), gone]).read();
    assert_eq!(leaves(&meta, &hop, None), made(b"data").after(&[block(90, 0x20, b"stays")]).wire());
}

/// Keeps 5050-8-2.
#[test]
fn security_blocks_stay_and_seal_payload() {
    // RFC 6257: without the block, nothing shows that the payload is encrypted or signed.
    for (kind, kept, sealed) in [(2, false, false), (3, true, false), (4, true, true), (9, true, false)] {
        let (meta, hop) = made(b"data").before(&[block(kind, block_flags::DISCARD, b"x")]).read();
        assert_eq!(kinds(&seen(&meta, &hop, None)).0 == [kind], kept, "{kind}");
        assert_eq!(meta.facts.has(Facts::SEALED), sealed, "{kind}");
    }
}

#[test]
fn previous_hop_block_follows_hop_state() {
    // RFC 6259 3.2: a node removes the block it received, and adds its own if it states its identity.
    let from = |node: EndpointId| HopState { previous: node, ..HopState::default() };
    let (meta, _) = made(b"data").read();
    let first = leaves(&meta, &from(EndpointId::dtn("relay", "")), None);
    let want = made(b"data").before(&[block(kind::PREVIOUS_HOP, block_flags::DISCARD, b"dtn\0//relay/\0")]);
    assert_eq!(first, want.wire());
    let (meta, hop) = read_strict(&first).unwrap();
    assert_eq!(hop.previous, EndpointId::dtn("relay", ""));
    assert_eq!(leaves(&meta, &hop, None), first, "unchanged, it stays");
    let second = leaves(&meta, &from(EndpointId::ipn(1 << 31, 0)), None);
    assert_eq!(read_strict(&second).unwrap().1.previous, EndpointId::ipn(1 << 31, 0));
    assert_eq!(leaves(&meta, &HopState::default(), None), made(b"data").wire());
    // Several, one of them after the payload: all are removed, one is written.
    let old = |name: &[u8]| block(kind::PREVIOUS_HOP, block_flags::DISCARD, &[b"dtn\0//", name, b"/\0"].concat());
    let several = made(b"data").before(&[old(b"a"), block(90, 0x20, b"x"), old(b"b")]).after(&[old(b"c")]);
    let (meta, hop) = several.read();
    assert_eq!(hop.previous, EndpointId::dtn("a", ""));
    let bundle = seen(&meta, &from(EndpointId::dtn("new", "")), None);
    assert_eq!(kinds(&bundle), (vec![5, 90], vec![]));
    assert_eq!(kinds(&seen(&meta, &HopState::default(), None)), (vec![90], vec![]));
    // A previous hop block that was received after the payload leaves before it.
    let (meta, hop) = made(b"data").after(&[block(90, 0x20, b"x"), old(b"c")]).read();
    let want = made(b"data").before(&[old(b"c")]).after(&[block(90, 0x20, b"x")]);
    assert_eq!((hop.previous.clone(), leaves(&meta, &hop, None)), (EndpointId::dtn("c", ""), want.wire()));
}

#[test]
fn contradictory_previous_hop_is_null() {
    // RFC 6259 2, 3.3: a reference and strings that disagree state no previous hop.
    let refers = |references: &[(u64, u64)], data: &[u8]| {
        let flags = block_flags::DISCARD | block_flags::REFERENCES;
        Raw { references: Some(references.to_vec()), ..block(kind::PREVIOUS_HOP, flags, data) }
    };
    let named = |block: Raw| made(b"").named().before(&[block]).read().1.previous;
    let src = EndpointId::dtn("src", "app");
    let text = b"dtn\0//src/app\0";
    assert_eq!(named(refers(&[(0, 14)], b"")), src);
    assert_eq!(named(refers(&[(0, 14)], text)), src, "both the same");
    for block in [
        refers(&[(0, 4)], text),
        refers(&[(0, 14), (0, 14)], b""),
        refers(&[], b""),
        refers(&[(0, 14)], b"x"),
        block(kind::PREVIOUS_HOP, block_flags::DISCARD, b""),
        block(kind::PREVIOUS_HOP, block_flags::DISCARD, b"dtn\0//src/app"),
        block(kind::PREVIOUS_HOP, block_flags::DISCARD, b"dtn\0//src\0/app\0"),
        block(kind::PREVIOUS_HOP, block_flags::DISCARD, b"\0\0"),
        block(kind::PREVIOUS_HOP, block_flags::DISCARD, b"//src/app\0"),
    ] {
        assert!(named(block.clone()).is_null(), "{:?}", block.data);
        let (meta, _) = made(b"").named().before(&[block]).read();
        assert!(kinds(&seen(&meta, &HopState::default(), None)).0.is_empty(), "deleted in any case");
    }
    // With compressed headers the reference is a pair of numbers.
    let (meta, hop) = made(b"").before(&[refers(&[(7, 0)], b"")]).read();
    assert_eq!(hop.previous, EndpointId::ipn(7, 0));
    assert_eq!(leaves(&meta, &hop, None), made(b"").before(&[refers(&[(7, 0)], b"")]).wire());
}

#[test]
fn hop_rewrites_own_labels_and_age() {
    let foreign = [block(240, 0x20, &[5]), block(kind::AGE, 0x20, b""), block(kind::SERVICE, 0x20, &[4, 0])];
    let (meta, hop) = made(b"data").before(&foreign).read();
    assert_eq!((hop.labels, meta.facts, meta.rare.as_deref().unwrap().ordinal), (None, Facts(0), 0));
    assert_eq!(leaves(&meta, &hop, None), made(b"data").before(&foreign).wire());
    let labelled = leaves(&meta, &HopState { labels: Some([8, u32::MAX]), ..hop.clone() }, None);
    let (meta, came) = read_strict(&labelled).unwrap();
    assert_eq!(came.labels, Some([8, u32::MAX]));
    let changed = leaves(&meta, &HopState { labels: Some([1, 2]), ..came }, None);
    assert_eq!(read_strict(&changed).unwrap().1.labels, Some([1, 2]));
    assert_eq!(leaves(&meta, &hop, None), made(b"data").before(&foreign).wire());
    // ION counts microseconds; the fraction of a millisecond stays as it is.
    let aged = |data: &[u8]| made(b"data").before(&[block(kind::AGE, 1, data)]);
    let (meta, hop) = aged(&[0x87, 0x68]).read();
    assert_eq!((hop.age_ms, leaves(&meta, &hop, None)), (1, aged(&[0x87, 0x68]).wire()));
    assert_eq!(leaves(&meta, &HopState { age_ms: 2, ..hop.clone() }, None), aged(&[0x8f, 0x50]).wire());
    let old = leaves(&meta, &HopState { age_ms: u64::MAX, ..hop }, None);
    assert_eq!(read_strict(&old).unwrap().1.age_ms, u64::MAX / 1000);
}

#[test]
fn clockless_v6_bundle_gets_age() {
    let clockless = |bundle: Made| bundle.with(|bundle| bundle.seconds = 0);
    let (meta, hop) = clockless(made(b"data")).read();
    let aged = leaves(&meta, &HopState { age_ms: 5, ..hop }, None);
    assert_eq!(aged, clockless(made(b"data")).before(&[block(kind::AGE, 1, &[0xa7, 0x08])]).wire());
    let (meta, hop) = read_strict(&aged).unwrap();
    assert_eq!((hop.age_ms, kinds(&seen(&meta, &hop, None)).0), (5, vec![kind::AGE]), "one of them");
}

/// Keeps 5050-5.10.1-3.
#[test]
fn custody_transfer_rewrites_primary_block() {
    // RFC 5050 5.10.1; CCSDS 734.2-B-1: the number of a custody block belongs to the custodian in the primary block.
    let number = block(kind::CUSTODY, block_flags::DISCARD, b"\x01ipn:1.0");
    let bundle = made(b"data").with(|bundle| bundle.endpoints[3] = (1, 0)).before(&[number]);
    let (meta, hop) = bundle.read();
    assert_eq!(hop.custodian, EndpointId::ipn(1, 0));
    for same in [hop.clone(), HopState::default()] {
        assert_eq!(leaves(&meta, &same, None), bundle.wire(), "custody is unchanged");
    }
    let takes = |node| HopState { custodian: node, transfer: None, ..hop.clone() };
    let other = seen(&meta, &takes(EndpointId::ipn(1 << 31, 0)), None);
    assert_eq!((other.primary.custodian.clone(), kinds(&other).0), (EndpointId::ipn(1 << 31, 0), vec![]));
    // A dtn name cannot be expressed in a compressed header.
    assert_eq!(leaves(&meta, &takes(EndpointId::dtn("relay", "")), None), bundle.wire());

    let refers = Raw { references: Some(vec![(0, 4), (0, 14)]), ..block(90, 0x60, b"x") };
    let named = made(b"data").named().before(&[refers]);
    let (meta, _) = named.read();
    for node in [EndpointId::dtn("relay", ""), EndpointId::ipn(5, 0), EndpointId::dtn("src", "app")] {
        let next = seen(&meta, &takes(node.clone()), None);
        assert_eq!((&next.primary.custodian, &next.primary.source), (&node, &EndpointId::dtn("src", "app")));
        assert_eq!(next.before[0].references, [EndpointId::dtn("dst", "svc"), EndpointId::dtn("src", "app")]);
        let grows = match node {
            EndpointId::Ipn { .. } => 8,
            _ if node == EndpointId::dtn("src", "app") => 0,
            _ => 9,
        };
        assert_eq!(next.primary.dictionary_len, 29 + grows, "strings that are there are used");
        let piece = seen(&meta, &takes(node.clone()), Some(1..3));
        assert_eq!((piece.primary.custodian, piece.primary.fragment.unwrap().offset), (node, 1));
    }
}

#[test]
fn custody_number_goes_with_custodian() {
    // CCSDS 734.2-B-1: the number goes with the custodian's name, and means the whole bundle.
    let numbered = |number, node: &str| [&[number][..], node.as_bytes()].concat();
    let of = |bundle: &BundleView| {
        let numbers = bundle.before.iter().chain(&bundle.after).filter(|block| block.kind == kind::CUSTODY);
        numbers.map(|block| block.data.to_vec()).collect::<Vec<_>>()
    };
    let hop = |node: EndpointId, number| {
        let transfer = Some(farlink_base::Transfer { number, sequence: 1, block: 0 }.into());
        HopState { custodian: node, transfer, ..HopState::default() }
    };
    let mine = EndpointId::ipn(9, 0);
    let old = block(kind::CUSTODY, 0, &numbered(1, "ipn:1.0"));
    let asks = |blocks: &[Raw]| made(b"data").with(|bundle| bundle.endpoints[3] = (1, 0)).before(blocks);
    // Cases: no block before, another custodian's, two of them, one after the payload.
    let (meta, _) = asks(&[]).read();
    let left = leaves(&meta, &hop(mine.clone(), 7), None);
    assert_eq!(of(&seen(&meta, &hop(mine.clone(), 7), None)), [numbered(7, "ipn:9.0")]);
    let one = core::slice::from_ref(&old);
    for before in [asks(one), asks(&[old.clone(), old.clone()]), asks(&[]).after(one)] {
        let (meta, came) = before.read();
        assert_eq!(came.transfer.as_ref().map(|transfer| transfer.number), Some(1));
        assert_eq!(of(&seen(&meta, &hop(mine.clone(), 7), None)), [numbered(7, "ipn:9.0")]);
        assert_eq!(of(&seen(&meta, &hop(mine.clone(), 7), Some(0..2))).len(), 0, "a piece is not all of it");
        assert_eq!(of(&seen(&meta, &came, None)), [numbered(1, "ipn:1.0")], "nothing changes");
        // A dtn name cannot be expressed in a compressed header, so custody is not taken on the wire and no number is
        // written.
        assert_eq!(leaves(&meta, &hop(EndpointId::dtn("x", ""), 7), None), before.wire());
    }
    // Written once, the custody blocks must be stable: the same custodian and number change nothing.
    let (meta, came) = read_strict(&left).unwrap();
    assert_eq!((&came.custodian, came.transfer.as_ref().unwrap().number), (&mine, 7));
    assert_eq!(leaves(&meta, &came, None), left);
    // The same custodian assigns another number.
    assert_eq!(of(&seen(&meta, &hop(mine.clone(), 8), None)), [numbered(8, "ipn:9.0")]);
    // Numbers of other nodes, of fragments, and replicated ones are invalid.
    let strange = asks(&[block(kind::CUSTODY, 0, &numbered(1, "ipn:5.0"))]);
    let piece = asks(one).with(|bundle| (bundle.flags, bundle.place) = (bundle.flags | 1, Some((2, 9))));
    assert!([strange, piece].iter().all(|bundle| bundle.read().1.transfer.is_none()));
    let several = asks(&[Raw { flags: block_flags::REPLICATE, ..old }]).wire();
    let (meta, came) = permissive(&several);
    assert!(came.transfer.is_none());
    let next = leaves(&meta, &hop(mine.clone(), 7), None);
    assert_eq!(read_strict(&next).unwrap().1.transfer.unwrap().number, 7, "it is replaced by one that means it");
}

#[test]
fn hop_blocks_keep_bundle_readable() {
    // Every bundle that a node forwards must be accepted by the next node, on a path of any length and with node names
    // of any length.
    let clockless = made(b"data").with(|bundle| bundle.seconds = 0);
    let most = clockless.clone().before(&vec![block(90, 0x20, b""); crate::MAX_EXTENSION_BLOCKS]);
    let longest = |len| clockless.clone().before(&[block(90, 0x20, &vec![7; len])]);
    let end = (61_000..).find(|len| read_strict(&longest(*len).wire()).is_err()).unwrap() - 1;
    for bundle in [most, longest(end)] {
        let (mut meta, mut hop) = bundle.read();
        for name in ["a", &"b".repeat(1019), &"c".repeat(10)] {
            hop =
                HopState { previous: EndpointId::dtn(name, ""), age_ms: u64::MAX, labels: Some([u32::MAX; 2]), ..hop };
            let piece = leaves(&meta, &hop, Some(0..meta.payload.len() - 1));
            (meta, hop) = read_strict(&leaves(&meta, &hop, None)).unwrap();
            assert_eq!((hop.previous.clone(), hop.labels), (EndpointId::dtn(name, ""), Some([u32::MAX; 2])));
            (meta, hop) = if meta.payload.len() > 2 { read_strict(&piece).unwrap() } else { (meta, hop) };
        }
    }
}
