//! Every item of a bundle must have the CBOR type that RFC 9171 prescribes.

use farlink_base::{Accel, Payload};
use farlink_bundle::{Profile, decode, v7};

/// Item of a bundle: description, encoded bytes, required major type.
type WireItem = (&'static str, &'static [u8], u8);

const UINT: u8 = 0;
const BYTES: u8 = 2;
const ARRAY: u8 = 4;
/// Items of all types: a number, a negative one, bytes, text, an array, a map, a tagged number, and simple values.
const OTHERS: [&[u8]; 10] =
    [&[0x00], &[0x20], &[0x40], &[0x60], &[0x80], &[0xa0], &[0xc0, 0x00], &[0xf4], &[0xf6], &[0xf9, 0x3c, 0x00]];

/// Fragment with a previous node, an age, a hop count, a block of unknown type, and a payload; without CRCs.
const BUNDLE: [WireItem; 57] = [
    ("the primary block", &[0x8a], ARRAY),
    ("the version", &[7], UINT),
    ("the bundle processing flags", &[1], UINT),
    ("the CRC type of the primary block", &[0], UINT),
    ("the destination", &[0x82], ARRAY),
    ("the scheme of the destination", &[2], UINT),
    ("the part of the destination", &[0x82], ARRAY),
    ("the node of the destination", &[2], UINT),
    ("the service of the destination", &[1], UINT),
    ("the source", &[0x82], ARRAY),
    ("the scheme of the source", &[2], UINT),
    ("the part of the source", &[0x82], ARRAY),
    ("the node of the source", &[1], UINT),
    ("the service of the source", &[1], UINT),
    ("the report-to endpoint", &[0x82], ARRAY),
    ("the scheme of the report-to endpoint", &[2], UINT),
    ("the part of the report-to endpoint", &[0x82], ARRAY),
    ("the node of the report-to endpoint", &[1], UINT),
    ("the service of the report-to endpoint", &[0], UINT),
    ("the creation timestamp", &[0x82], ARRAY),
    ("the creation time", &[0x1b, 0, 0, 0, 0xba, 0x43, 0xb7, 0x40, 0], UINT),
    ("the sequence number", &[3], UINT),
    ("the lifetime", &[0x19, 0x27, 0x10], UINT),
    ("the fragment offset", &[0], UINT),
    ("the total length", &[8], UINT),
    ("a previous node block", &[0x85], ARRAY),
    ("the type of the previous node block", &[6], UINT),
    ("the number of the previous node block", &[2], UINT),
    ("the flags of the previous node block", &[0], UINT),
    ("the CRC type of the previous node block", &[0], UINT),
    ("the data of the previous node block", &[0x45, 0x82, 2, 0x82, 7, 0], BYTES),
    ("a bundle age block", &[0x85], ARRAY),
    ("the type of the age block", &[7], UINT),
    ("the number of the age block", &[3], UINT),
    ("the flags of the age block", &[0], UINT),
    ("the CRC type of the age block", &[0], UINT),
    ("the data of the age block", &[0x41, 9], BYTES),
    ("a hop count block", &[0x85], ARRAY),
    ("the type of the hop count block", &[10], UINT),
    ("the number of the hop count block", &[4], UINT),
    ("the flags of the hop count block", &[0], UINT),
    ("the CRC type of the hop count block", &[0], UINT),
    ("the data of the hop count block", &[0x43, 0x82, 9, 1], BYTES),
    ("an unknown block", &[0x85], ARRAY),
    ("the type of the unknown block", &[0x18, 99], UINT),
    ("the number of the unknown block", &[5], UINT),
    ("the flags of the unknown block", &[0], UINT),
    ("the CRC type of the unknown block", &[0], UINT),
    ("the data of the unknown block", &[0x41, 0], BYTES),
    ("the payload block", &[0x85], ARRAY),
    ("the type of the payload block", &[1], UINT),
    ("the number of the payload block", &[1], UINT),
    ("the flags of the payload block", &[0], UINT),
    ("the CRC type of the payload block", &[0], UINT),
    ("the payload", &[0x44, b'd', b'a', b't', b'a'], BYTES),
    ("the break", &[0xff], 7),
    ("nothing", &[], 8),
];

/// Whether the engine accepts these items as a bundle; the tools agree.
fn is_bundle(items: &[&[u8]]) -> bool {
    let wire = Payload::from([&[0x9f][..], &items.concat()].concat());
    let read = v7::read(&wire, Profile::Permissive, &Accel::default()).is_ok();
    assert_eq!(decode(&wire, Profile::Permissive, &Accel::default()).is_ok(), read);
    read
}

/// Keeps 9171-4.2.1-1, 9171-4.2.3-4, 9171-4.2.4-2, 9171-4.2.5.1-2, 9171-4.2.5.1-4, 9171-4.2.5.1.2-1, 9171-4.2.6-1.
/// Keeps 9171-4.2.7-1, 9171-4.3.1-1, 9171-4.3.1-5, 9171-4.3.1-8, 9171-4.3.1-10, 9171-4.3.1-12, 9171-4.3.2-1.
/// Keeps 9171-4.3.2-3, 9171-4.3.2-4.
#[test]
fn wrong_cbor_type_is_refused() {
    let bytes: Vec<&[u8]> = BUNDLE.iter().map(|(_, bytes, _)| *bytes).collect();
    assert!(is_bundle(&bytes));
    for (at, (name, _, kind)) in BUNDLE.iter().enumerate().take(BUNDLE.len() - 2) {
        for other in OTHERS.into_iter().filter(|other| other[0] >> 5 != *kind) {
            let mut items = bytes.clone();
            items[at] = other;
            assert!(!is_bundle(&items), "{name} as {other:02x?}");
        }
    }
}

/// Keeps 9171-4.2.8-1, 9171-4.4.2-1, 9171-4.4.3-2, 9171-4.4.3-3, 9171-4.4.3-4.
#[test]
fn wrong_block_data_type_is_refused() {
    let at = |name| BUNDLE.iter().position(|(other, _, _)| *other == name).unwrap();
    let (age, hops) = (at("the data of the age block"), at("the data of the hop count block"));
    let bytes: Vec<&[u8]> = BUNDLE.iter().map(|(_, bytes, _)| *bytes).collect();
    let with = |at: usize, data: Vec<u8>| {
        let data = [&[0x40 + data.len() as u8][..], &data].concat();
        let mut items = bytes.clone();
        items[at] = &data;
        is_bundle(&items)
    };
    assert!(with(age, vec![9]) && with(hops, vec![0x82, 9, 1]));
    for other in OTHERS.into_iter().skip(1) {
        assert!(!with(age, other.to_vec()), "an age as {other:02x?}");
        assert!(!with(hops, [&[0x82][..], other, &[1]].concat()), "a hop limit as {other:02x?}");
        assert!(!with(hops, [&[0x82, 9][..], other].concat()), "a hop count as {other:02x?}");
    }
    assert!(!with(age, vec![9, 9]) && !with(hops, vec![0x82, 9, 1, 1]), "bytes behind the content");
    for head in [0x81, 0x83, 0x60, 0xa1] {
        assert!(!with(hops, vec![head, 9, 1]), "{head:02x}");
    }
}
