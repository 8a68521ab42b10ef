//! Custody transfer of BPv7 (CCSDS 734.6-O-1): vectors and malformed input.

use farlink_base::{Accel, BytesMut, CreationTimestamp, DtnTime, Facts, HopState, Payload, Transfer};
use farlink_bundle::v7::custody::{
    ACCEPTED, Counter, NumberRun, REFUSED, ReportingBlock, Sequence, SignalEntry, TransferBlock, asks, put_signal,
    read_signal, transfer,
};
use farlink_bundle::v7::{self, ParsedRecord};
use farlink_bundle::{CrcType, EndpointId, Profile, cbor};
use serde_json::Value;

fn vector(id: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/custody_734_6.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let items = file["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["id"] == id).expect("a vector of this name");
    let text = item["hex"].as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
fn run(first: u64, last: u64) -> NumberRun {
    NumberRun { first, last }
}
fn sequence(counter: Counter, runs: &[NumberRun]) -> Sequence {
    Sequence { counter, runs: runs.to_vec(), source: None }
}
/// Type and content of a record.
fn content(payload: &[u8]) -> (u64, Vec<u8>) {
    let ParsedRecord::Other { kind, content } = v7::record(payload).unwrap() else { panic!("{payload:x?}") };
    (kind, content.to_vec())
}

#[test]
fn custody_blocks_match_vectors() {
    let block = TransferBlock { number: 5, sequence: 1, custodian: EndpointId::ipn(1, 0) };
    assert_eq!((TransferBlock::decode(&vector("cteb")), block.encode()), (Some(block.clone()), vector("cteb")));
    let least = ReportingBlock { number: 5, ..ReportingBlock::default() };
    let flags = ReportingBlock { sequence: 1, asks: asks::RECEPTION | asks::DELIVERY, ..least.clone() };
    let (source, report_to) = (Some(EndpointId::ipn(1, 0)), Some(EndpointId::ipn(9, 0)));
    let full = ReportingBlock { source, report_to, ..flags.clone() };
    for (id, block) in [("creb_min", least), ("creb_flags", flags), ("creb_full", full)] {
        assert_eq!((ReportingBlock::decode(&vector(id)), block.encode()), (Some(block), vector(id)), "{id}");
    }
    for id in ["cteb", "creb_full"] {
        let data = vector(id);
        assert!((0..data.len()).all(|cut| TransferBlock::decode(&data[..cut]).is_none()), "{id} cut");
        assert!((0..data.len()).all(|cut| ReportingBlock::decode(&data[..cut]).is_none()), "{id} cut");
    }
    assert_eq!(TransferBlock::decode(&[&vector("cteb")[..], &[0]].concat()), None, "bytes behind it");
    assert_eq!(TransferBlock::decode(&[0x18, 5]), None, "the private priority of others");
}

#[test]
fn custody_signals_match_vectors() {
    let one =
        |sequence: Sequence| put_signal(13, &[SignalEntry { code: ACCEPTED, sequences: vec![sequence] }]).to_vec();
    let around = |id: &str| [&[0x82, 13, 0xa1, 1, 0x81][..], &vector(id)].concat();
    let counter = Counter::Number(1);
    let to = Counter::To(EndpointId::ipn(2, 1));
    for (id, sequence) in [
        ("seq_contiguous", sequence(counter.clone(), &[run(5, 8)])),
        ("seq_gaps", sequence(counter.clone(), &[run(5, 6), run(9, 9)])),
        ("seq_per_dest", sequence(to, &[run(0, 0)])),
    ] {
        assert_eq!(one(sequence.clone()), around(id), "{id}");
        let (kind, content) = content(&around(id));
        assert_eq!(
            (kind, read_signal(&content)),
            (13, Ok(vec![SignalEntry { code: ACCEPTED, sequences: vec![sequence] }])),
            "{id}"
        );
    }
    let said = |what, runs: &[NumberRun]| SignalEntry { code: what, sequences: vec![sequence(counter.clone(), runs)] };
    let ccs = [said(ACCEPTED, &[run(5, 6), run(9, 9)]), said(REFUSED, &[run(7, 7)])];
    assert_eq!(put_signal(13, &ccs)[..], vector("ccs"));
    assert_eq!(read_signal(&content(&vector("ccs")).1), Ok(ccs.to_vec()));
    let crs = [said(0, &[run(5, 8)]), said(2, &[run(5, 5)])];
    assert_eq!(
        (put_signal(14, &crs).to_vec(), read_signal(&content(&vector("crs")).1)),
        (vector("crs"), Ok(crs.to_vec()))
    );
    // A range of all numbers takes a few bytes and is never iterated.
    let all = [said(ACCEPTED, &[run(0, u64::MAX - 1)])];
    assert_eq!(read_signal(&content(&put_signal(13, &all)).1), Ok(all.to_vec()));
}

#[test]
fn malformed_custody_signals_are_refused() {
    for id in ["ccs", "crs"] {
        let signal = content(&vector(id)).1;
        assert!((0..signal.len()).all(|cut| read_signal(&signal[..cut]).is_err()), "{id} cut");
        assert!(read_signal(&[&signal[..], &[0]].concat()).is_err(), "{id} with more");
    }
    let most = [0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let with = |item: &[u8]| [&[0xa1, 1, 0x81][..], item].concat();
    let map_bomb = [&[0xbb][..], &most[1..]].concat();
    let list_bomb = [&[0xa1, 1, 0x9b][..], &most[1..]].concat();
    let runs_bomb = with(&[&[0x83, 1, 5, 0x9b][..], &most[1..]].concat());
    for bad in [
        map_bomb,
        list_bomb,
        runs_bomb,
        with(&[&[0x83, 1][..], &most, &[2]].concat()),
        with(&[0x83, 1, 5, 0]),
        with(&[0x83, 1, 5, 0x80]),
        with(&[0x83, 1, 5, 0x82, 1, 1]),
        with(&[0x83, 1, 5, 0x83, 1, 0, 1]),
        with(&[&[0x83, 1, 5, 0x83, 1][..], &most, &[1]].concat()),
        with(&[0x82, 1, 5]),
        vec![0xa2, 1, 0x80, 1, 0x80],
        vec![0xa1, 0x60, 0x80],
        vec![0x80],
        vec![],
    ] {
        assert!(read_signal(&bad).is_err(), "{bad:x?}");
    }
    assert!(read_signal(&with(&[0x9f, 1, 5, 0x9f, 1, 0xff, 0xff])).is_ok(), "arrays of indefinite length");
}

#[test]
fn signal_with_many_codes_is_refused() {
    // Each code is compared with all before it: many codes would cost the square of their number.
    let kinds = |count: i64| {
        let said: Vec<SignalEntry> = (0..count).map(|what| SignalEntry { code: what, sequences: Vec::new() }).collect();
        read_signal(&content(&put_signal(14, &said)).1)
    };
    assert_eq!(kinds(256).map(|said| said.len()), Ok(256));
    assert!(kinds(257).is_err() && kinds(16_000).is_err());
}

fn asking(block: u64) -> v7::BundleDraft {
    v7::BundleDraft {
        source: EndpointId::ipn(1, 5),
        destination: EndpointId::ipn(3, 1),
        facts: Facts(0),
        lifetime_ms: 9000,
        custody: block,
        ..v7::BundleDraft::default()
    }
}
const AT: CreationTimestamp = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 0 };

#[test]
fn custody_request_names_custodian_and_number() {
    for (block, crc) in [(13, CrcType::Crc32c), (15, CrcType::None), (13, CrcType::Crc16)] {
        let made = v7::make(&asking(block), AT, Payload::from(&b"data"[..]), crc, &Accel::default());
        assert!(made.facts.has(Facts::NO_FRAGMENT), "its number means all of it");
        let (source, number) = transfer(&made, block).expect("its own");
        assert_eq!((source, number), (EndpointId::ipn(1, 0), Transfer { number: 0, sequence: 1, block }));
        assert_eq!(transfer(&made, block + 1), None);
        let leaves = |meta: &farlink_base::BundleMeta, custodian, number| {
            let transfer = Some(Transfer { number, sequence: 1, block }.into());
            let hop = HopState { custodian, transfer, ..HopState::default() };
            let wire = v7::render(meta, &hop, None, &Accel::default(), &mut BytesMut::new()).into_payload();
            assert_eq!(wire.len(), v7::size(meta, &hop, None));
            v7::read(&wire, Profile::Strict, &Accel::default()).unwrap().0
        };
        for (node, number) in [(1, 77), (2, 0), (1 << 40, u64::MAX)] {
            let next = leaves(&made, EndpointId::ipn(node, 0), number);
            assert_eq!(
                transfer(&next, block),
                Some((EndpointId::ipn(node, 0), Transfer { number, sequence: 1, block }))
            );
            assert_eq!(next.id, made.id);
            // Without a new custodian, the block stays.
            let on =
                v7::render(&next, &HopState::default(), None, &Accel::default(), &mut BytesMut::new()).into_payload();
            let on = v7::read(&on, Profile::Strict, &Accel::default()).unwrap().0;
            assert_eq!(transfer(&on, block).unwrap().1.number, number);
        }
    }
    let plain = v7::make(&asking(0), AT, Payload::new(), CrcType::None, &Accel::default());
    assert!(transfer(&plain, 13).is_none() && !plain.facts.has(Facts::NO_FRAGMENT));
    for draft in [
        v7::BundleDraft { source: EndpointId::Null, ..asking(13) },
        v7::BundleDraft { facts: Facts(Facts::ADMIN), ..asking(13) },
    ] {
        let void = v7::make(&draft, AT, Payload::new(), CrcType::None, &Accel::default());
        assert_eq!(transfer(&void, 13), None, "without identity, and of records, there is no custody");
    }
}

#[test]
fn foreign_block_of_type_stays_untouched() {
    // HDTN uses the same type for a private block.
    use farlink_bundle::{BlockData, BlockFlags, Bundle, ExtensionBlock};
    let mut bundle = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), AT).build();
    let mut data = Vec::new();
    cbor::put_uint(&mut data, 2);
    bundle.extensions.push(ExtensionBlock {
        kind: 13,
        number: 2,
        flags: BlockFlags::default(),
        crc: CrcType::None,
        data: BlockData::Unknown(data.into()),
        raw: None,
    });
    let wire = bundle.encode(&Accel::default()).into_payload();
    let (meta, _) = v7::read(&wire, Profile::Strict, &Accel::default()).unwrap();
    assert_eq!(transfer(&meta, 13), None);
    let number = Some(Transfer { number: 9, sequence: 1, block: 13 }.into());
    let hop = HopState { custodian: EndpointId::ipn(9, 0), transfer: number, ..HopState::default() };
    let left = v7::render(&meta, &hop, None, &Accel::default(), &mut BytesMut::new()).into_payload();
    assert_eq!(left.to_bytes(), wire.to_bytes());
}
