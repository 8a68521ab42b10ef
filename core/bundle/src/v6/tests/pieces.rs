//! Tests of fragmentation and reassembly (RFC 5050 5.8, 5.9).

use super::*;
use farlink_base::{Chunk, Extent, FragmentInfo};

/// Ten payload bytes between blocks of every fragmentation behaviour.
fn ten() -> Made {
    let before = [block(90, 0x21, b"every"), block(91, 0x20, b"first"), block(kind::SERVICE, 1, &[1, 0])];
    made(b"0123456789").before(&before).after(&[block(92, 0x20, b"last"), block(93, 0x20, b"end")])
}

/// Keeps 5050-5.8-3, 5050-5.8-4, 5050-5.8-5, 5050-5.8-6, 5050-5.8-7.
#[test]
fn fragments_get_blocks_by_flags() {
    let (meta, hop) = ten().read();
    for (cut, before, after) in
        [(0..4, vec![90, 91, 19], vec![]), (4..7, vec![90, 19], vec![]), (7..10, vec![90, 19], vec![92, 93])]
    {
        let piece = seen(&meta, &hop, Some(cut.clone()));
        assert_eq!(kinds(&piece), (before, after), "{cut:?}");
        assert_eq!(piece.primary.fragment, Some(FragmentInfo { offset: cut.start, total: 10 }));
        assert_eq!(piece.payload.to_bytes().unwrap(), b"0123456789"[cut.start as usize..cut.end as usize]);
        assert_eq!((piece.primary.source, piece.primary.creation), (meta.source.clone(), meta.creation()));
    }
}

/// Keeps 5050-5.8-3, 5050-5.8-5.
#[test]
fn refragmented_piece_keeps_original_offsets() {
    // A fragment of a fragment has offsets in the original bundle's payload.
    let (meta, hop) = ten().read();
    let (rest, hop) = read_strict(&leaves(&meta, &hop, Some(4..10))).unwrap();
    assert_eq!(rest.fragment(), Some(FragmentInfo { offset: 4, total: 10 }));
    for (cut, after) in [(0..2, vec![]), (2..6, vec![92, 93])] {
        let piece = seen(&rest, &hop, Some(cut.clone()));
        let place = FragmentInfo { offset: 4 + cut.start, total: 10 };
        assert_eq!((piece.primary.fragment, kinds(&piece).1), (Some(place), after));
    }
    assert_eq!(leaves(&rest, &hop, None), leaves(&meta, &hop, Some(4..10)));
}

#[test]
fn clockless_v6_fragments_have_age() {
    let age = block(kind::AGE, 0, &[0x87, 0x68]);
    let bundles = [ten(), ten().before(core::slice::from_ref(&age)), made(b"0123456789").after(&[age])];
    for bundle in bundles.map(|bundle| bundle.with(|bundle| bundle.seconds = 0)) {
        let (meta, hop) = bundle.read();
        for cut in [0..4, 4..7, 7..10] {
            let piece = leaves(&meta, &HopState { age_ms: 77, ..hop.clone() }, Some(cut.clone()));
            let (back, came) = read_strict(&piece).unwrap();
            assert!(back.facts.has(Facts::AGE) && came.age_ms == 77, "{cut:?}: {}", came.age_ms);
        }
    }
}

/// Keeps 5050-5.9-1.
#[test]
fn reassembly_takes_blocks_of_first_fragment() {
    let bundle = ten().with(|bundle| bundle.endpoints[3] = (9, 0));
    let (meta, hop) = bundle.read();
    let (first, _) = read_strict(&leaves(&meta, &hop, Some(0..4))).unwrap();
    let again = whole(&first, meta.payload.clone());
    assert_eq!((again.id, again.fragment(), first.original_id()), (meta.id, None, meta.id));
    let back = seen(&again, &hop, None);
    assert_eq!((kinds(&back), back.payload), ((vec![90, 91, 19], vec![]), meta.payload.clone()));
    assert_eq!((back.primary.flags, back.primary.custodian), (bundle.flags, EndpointId::ipn(9, 0)));
    let named = made(b"0123456789").named();
    let (meta, hop) = named.read();
    let (first, _) = read_strict(&leaves(&meta, &hop, Some(0..9))).unwrap();
    assert_eq!(leaves(&whole(&first, meta.payload.clone()), &hop, None), named.wire());
}

#[test]
fn stored_payload_renders_like_resident_one() {
    let (mut meta, hop) = ten().read();
    let want = |cut| render(&meta, &hop, cut, &mut BytesMut::new());
    let (whole, piece) = (want(None), want(Some(2..6)));
    meta.payload = Payload::new();
    meta.payload.push(Chunk::Stored { extent: Extent { record: 1, offset: 64 }, len: 10 });
    assert!(!append(&meta, &hop, None, &mut BytesMut::new()), "not in memory");
    let on_disk = render(&meta, &hop, None, &mut BytesMut::new());
    assert_eq!((&on_disk.head, &on_disk.tail, on_disk.payload.len()), (&whole.head, &whole.tail, 10));
    let loaded = render_loaded(&meta, Payload::from(&b"2345"[..]), &hop, Some(2..6), &mut BytesMut::new());
    assert_eq!(loaded, piece);
    // Blocks after the payload must be in memory to be parsed.
    let mut rope = Payload::from(whole.head);
    rope.append(meta.payload.clone());
    rope.push_bytes(whole.tail);
    assert_eq!(read(&rope, Profile::Strict).unwrap().0.id, meta.id);
    let mut far = rope.slice(0, rope.len() - 3);
    far.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len: 3 });
    assert!(read(&far, Profile::Permissive).unwrap_err().reason.contains("not in memory"));
}

#[test]
fn one_buffer_serves_many_bundles() {
    let (meta, hop) = ten().read();
    let mut out = BytesMut::with_capacity(1000);
    let kept: Vec<_> = (0..5).map(|_| render(&meta, &hop, None, &mut out)).collect();
    assert!(out.is_empty() && out.capacity() > 0, "all from one allocation");
    assert!(kept.iter().all(|encoded| *encoded == kept[0]));
}

#[test]
fn begin_returns_meta_before_payload() {
    let wire = ten().wire();
    let at = wire.len() - b"0123456789".len() - 3 - 4 - 3 - 3;
    for len in 0..wire.len() {
        let begun = begin(&rope(&wire[..len]), Profile::Strict).unwrap();
        assert_eq!(begun.is_some(), len >= at, "{len}");
        if let Some(begun) = begun {
            assert_eq!((begun.payload_at, begun.payload_len, begun.meta.payload.len()), (at as u64, 10, 10));
            assert_eq!(begun.meta.id, ten().read().0.id);
        }
    }
}
