//! Tests of finding the end of a bundle.

use super::super::end;
use super::*;
use crate::decode_prefix;

fn bundles() -> Vec<Made> {
    let age = block(20, block_flags::REPLICATE, &[5]);
    let mut names = block(5, 0, b"ipn\x002.0\0");
    names.flags |= block_flags::REFERENCES;
    names.references = Some(vec![(0, 4), (0, 14)]);
    vec![
        made(b"hello"),
        made(b""),
        made(&[8; 70_000]).before(&[age.clone(), age.clone()]),
        made(b"piece").with(|made| {
            made.flags |= flags::FRAGMENT;
            made.place = Some((300, 400_000));
        }),
        made(b"named").named().before(&[names]),
        made(b"followed").before(core::slice::from_ref(&age)).after(&[age.clone(), age]),
    ]
}

#[test]
fn end_splits_concatenated_bundles() {
    let wires: Vec<Vec<u8>> = bundles().iter().map(Made::wire).collect();
    for (first, second) in wires.iter().zip(wires.iter().cycle().skip(1)) {
        let both = rope(&[first.as_slice(), second].concat());
        assert_eq!(end(&both), Ok(Some(first.len() as u64)));
        assert_eq!(decode_prefix(&both), Ok(Some(first.len() as u64)));
    }
}

#[test]
fn truncated_bundle_has_no_end() {
    for made in bundles() {
        let wire = made.wire();
        let cuts = (0..wire.len().min(200)).chain(wire.len().saturating_sub(200)..wire.len());
        for cut in cuts {
            assert_eq!(end(&rope(&wire[..cut])), Ok(None), "cut to {cut}");
        }
    }
}

#[test]
fn end_skips_payload_not_in_memory() {
    let wire = made(&[8; 200_000]).after(&[block(20, 0, &[5])]).wire();
    let mut shadow = rope(&wire[..100]);
    shadow.append(Payload::fill(1, 180_000).slice(100, 179_900));
    shadow.append(rope(&wire[180_000..]));
    assert_eq!(end(&shadow), Ok(Some(wire.len() as u64)));
}

#[test]
fn false_lengths_have_no_end() {
    let huge = [0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let primary = |length: &[u8]| [&[6, 0][..], length].concat();
    let after = |bytes: &[u8]| [&[6, 0, 1, 0][..], bytes].concat();
    let bad = [
        vec![7],
        primary(&huge),
        primary(&[0xff; 11]),
        // A block longer than a reader accepts, and an unbounded number of references.
        after(&[&[2, 0][..], &huge].concat()),
        after(&[&[2, 0x40][..], &huge].concat()),
        after(&[2, 0, 0].repeat(200)),
    ];
    for bytes in bad {
        assert!(end(&rope(&bytes)).is_err(), "{bytes:02x?}");
    }
    assert_eq!(end(&rope(&after(&[&[1, 8][..], &huge].concat()))), Ok(None), "a payload may be of any length");
    assert_eq!(end(&rope(&[])), Ok(None));
}
