//! Tests of single rules. Bundles are assembled by hand, so that they can be wrong.

mod end;
mod hops;
mod pieces;
mod pitfalls;
mod records;

use super::wire::put_sdnv;
use super::*;
use crate::{CreationTimestamp, EndpointId, Profile};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{BundleMeta, Bytes, BytesMut, DtnTime, Facts, HopState, Malformed, Payload, Priority, Refusal};

/// Canonical block with arbitrary fields.
#[derive(Clone)]
struct Raw {
    kind: u8,
    flags: u64,
    references: Option<Vec<(u64, u64)>>,
    data: Vec<u8>,
}
fn block(kind: u8, flags: u64, data: &[u8]) -> Raw {
    Raw { kind, flags, references: None, data: data.to_vec() }
}
impl Raw {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        put_sdnv(out, self.flags);
        if let Some(references) = &self.references {
            put_sdnv(out, references.len() as u64);
            references.iter().for_each(|(first, second)| [first, second].iter().for_each(|n| put_sdnv(out, **n)));
        }
        put_sdnv(out, self.data.len() as u64);
        out.extend_from_slice(&self.data);
    }
}

/// Bundle with arbitrary fields.
#[derive(Clone)]
struct Made {
    flags: u64,
    endpoints: [(u64, u64); 4],
    seconds: u64,
    sequence: u64,
    lifetime: u64,
    dictionary: Vec<u8>,
    place: Option<(u64, u64)>,
    /// Error added to the primary block's length field.
    longer: i64,
    before: Vec<Raw>,
    payload: Raw,
    after: Vec<Raw>,
}
/// Bundle from ipn:1.1 to ipn:2.1.
fn made(payload: &[u8]) -> Made {
    Made {
        flags: flags::SINGLETON | 1 << 7,
        endpoints: [(2, 1), (1, 1), (3, 0), (0, 0)],
        seconds: 800_000_000,
        sequence: 3,
        lifetime: 3600,
        dictionary: Vec::new(),
        place: None,
        longer: 0,
        before: Vec::new(),
        payload: block(kind::PAYLOAD, block_flags::LAST, payload),
        after: Vec::new(),
    }
}
impl Made {
    /// Sets the blocks after the payload and flags the last one.
    fn after(mut self, blocks: &[Raw]) -> Made {
        self.payload.flags &= !block_flags::LAST;
        self.after = blocks.to_vec();
        self.after.last_mut().unwrap().flags |= block_flags::LAST;
        self
    }
    fn before(mut self, blocks: &[Raw]) -> Made {
        self.before = blocks.to_vec();
        self
    }
    fn with(mut self, change: impl FnOnce(&mut Made)) -> Made {
        change(&mut self);
        self
    }
    /// Same bundle from dtn://src/app to dtn://dst/svc.
    fn named(mut self) -> Made {
        self.dictionary = b"dtn\0//dst/svc\0//src/app\0none\0".to_vec();
        self.endpoints = [(0, 4), (0, 14), (0, 24), (0, 24)];
        self
    }
    fn wire(&self) -> Vec<u8> {
        let mut rest = Vec::new();
        let pairs = self.endpoints.iter().flat_map(|(first, second)| [*first, *second]);
        let numbers = [self.seconds, self.sequence, self.lifetime, self.dictionary.len() as u64];
        pairs.chain(numbers).for_each(|number| put_sdnv(&mut rest, number));
        rest.extend_from_slice(&self.dictionary);
        self.place.iter().flat_map(|(offset, total)| [*offset, *total]).for_each(|place| put_sdnv(&mut rest, place));
        let mut out = vec![6];
        put_sdnv(&mut out, self.flags);
        put_sdnv(&mut out, (rest.len() as i64 + self.longer) as u64);
        out.extend_from_slice(&rest);
        self.before.iter().chain([&self.payload]).chain(&self.after).for_each(|block| block.put(&mut out));
        out
    }
    /// Errors of both profiles. Checks that the view for tools and the head alone agree.
    fn verdicts(&self) -> [Option<&'static str>; 2] {
        let wire = self.wire();
        [Profile::Strict, Profile::Permissive].map(|profile| {
            let error = super::read(&rope(&wire), profile).err();
            assert_eq!(decode(&rope(&wire), profile).err(), error);
            let begun = begin(&rope(&wire), profile);
            assert!(error.is_some() || begun.as_ref().is_ok_and(Option::is_some));
            assert!(begun.err().is_none_or(|early| Some(early) == error), "{error:?}");
            error.map(|error| error.reason)
        })
    }
    fn read(&self) -> (BundleMeta, HopState) {
        read_strict(&self.wire()).unwrap()
    }
}

fn rope(bytes: &[u8]) -> Payload {
    Payload::from(bytes.to_vec())
}
fn read_strict(bytes: &[u8]) -> Result<(BundleMeta, HopState), Malformed> {
    super::read(&rope(bytes), Profile::Strict)
}
fn permissive(bytes: &[u8]) -> (BundleMeta, HopState) {
    super::read(&rope(bytes), Profile::Permissive).unwrap()
}
/// Encoded bundle that leaves.
fn leaves(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> Vec<u8> {
    let encoded = render(meta, hop, cut.clone(), &mut BytesMut::new());
    assert_eq!(encoded.len(), size(meta, hop, cut.clone()));
    let bytes = encoded.into_payload().to_bytes().unwrap().to_vec();
    let mut flat = BytesMut::from(&b"before"[..]);
    assert!(append(meta, hop, cut, &mut flat));
    assert_eq!(flat[6..], bytes);
    bytes
}
/// Bundle that leaves, as a view.
fn seen(meta: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> BundleView {
    decode(&rope(&leaves(meta, hop, cut)), Profile::Strict).unwrap()
}
/// Block types before and after the payload.
fn kinds(bundle: &BundleView) -> (Vec<u8>, Vec<u8>) {
    let of = |blocks: &[BlockView]| blocks.iter().map(|block| block.kind).collect();
    (of(&bundle.before), of(&bundle.after))
}

/// Keeps 5050-5.4-8, 5050-8-2, 5050-8-3.
#[test]
fn v6_bundle_round_trips_byte_for_byte() {
    let blocks = [block(90, 0x20, b"abc"), block(kind::AGE, 1, &[0x81, 0])];
    for bundle in [made(b"data"), made(b""), made(b"data").named(), made(b"data").after(&blocks[..1])] {
        let wire = bundle.before(&blocks).wire();
        let (meta, hop) = read_strict(&wire).unwrap();
        assert_eq!(leaves(&meta, &hop, None), wire);
        assert_eq!(leaves(&meta, &hop, Some(0..u64::MAX)), wire, "all of it is no cut");
        assert_eq!((meta.size(), meta.overhead()), (wire.len() as u64, wire.len() as u64 - meta.payload.len()));
        let (before, after) = (Bytes::copy_from_slice(super::head(&meta)), tail(&meta));
        let (back, again) = read_parts(&before, meta.payload.clone(), &after, Profile::Strict).unwrap();
        assert_eq!((back.id, &back.head, back.tail, again), (meta.id, &meta.head, meta.tail, hop.clone()));
        let parts = |head: &Bytes, len, tail: &Bytes| read_parts(head, Payload::fill(1, len), tail, Profile::Strict);
        assert!(parts(&before, meta.payload.len() + 1, &after).is_err(), "another payload");
        assert!(parts(&Bytes::from([&before[..], &[0]].concat()), meta.payload.len(), &after).is_err());
        assert!(parts(&before, meta.payload.len(), &Bytes::from([&after[..], &[0]].concat())).is_err());
    }
}

#[test]
fn flags_and_blocks_become_facts() {
    // The meanings are those of RFC 5050 4.2, 4.5.1 and draft-irtf-dtnrg-ecos.
    let asks = flags::CUSTODY | flags::APP_ACK | flags::REPORT_DELIVERY | flags::REPORT_CUSTODY;
    let bundle = made(b"data").with(|bundle| {
        bundle.flags = asks | flags::SINGLETON | 2 << 7;
        bundle.endpoints[3] = (9, 0);
    });
    // RFC 5050 5.10 does not define custody of bundles for groups.
    let (several, _) = bundle.clone().with(|bundle| bundle.flags &= !flags::SINGLETON).read();
    assert!(!several.facts.has(Facts::CUSTODY) && several.facts.has(Facts::APP_ACK));
    let service = block(kind::SERVICE, 1, &[7, 200, 0x81, 0]);
    let (meta, hop) = bundle.before(&[service, block(kind::AGE, 1, &[0x8f, 0x50]), block(240, 1, &[4, 5])]).read();
    let marks = Facts::UNRELIABLE | Facts::CRITICAL | Facts::AGE;
    let wanted = Facts::CUSTODY | Facts::APP_ACK | Facts::REPORT_DELIVERY | Facts::STATUS_TIME;
    assert_eq!(meta.facts, Facts(wanted | marks), "reports always say when");
    let rare = meta.rare.as_deref().unwrap();
    assert_eq!((rare.ordinal, rare.flow, &rare.report_to), (200, 128, &EndpointId::ipn(3, 0)));
    assert_eq!((meta.version, meta.priority, meta.hop_limit), (6, Priority::Expedited, 0));
    assert_eq!((hop.age_ms, hop.labels, hop.hops), (2, Some([4, 5]), 0), "2000 microseconds");
    assert_eq!(hop.custodian, EndpointId::ipn(9, 0));
    assert_eq!((meta.source, meta.destination), (EndpointId::ipn(1, 1), EndpointId::ipn(2, 1)));
    assert_eq!((meta.created_ms, meta.sequence, meta.lifetime_ms), (800_000_000_000, 3, 3_600_000));
    let (meta, _) = made(b"data").before(&[block(kind::SERVICE, 1, &[10, 0])]).read();
    assert_eq!(meta.facts, Facts(0), "a reliable stream is not lossy");
}

#[test]
fn dictionary_names_become_endpoint_ids() {
    let (meta, hop) = made(b"data").named().read();
    assert_eq!((&meta.source, &meta.destination), (&EndpointId::dtn("src", "app"), &EndpointId::dtn("dst", "svc")));
    assert!(meta.report_to().is_null() && hop.custodian.is_null());
    let named =
        |dictionary: &[u8]| made(b"").named().with(|bundle| bundle.dictionary[4..14].copy_from_slice(dictionary));
    for (text, endpoint) in [
        (&b"//dst\0svc\0"[..], EndpointId::dtn("dst", "")),
        (b"//d.longe\0", EndpointId::dtn("d.longe", "")),
        (b"//dst/~gr\0", EndpointId::dtn("dst", "~gr")),
    ] {
        assert_eq!(named(text).read().0.destination, endpoint);
    }
    let (meta, hop) = named(b"other/svc\0").read();
    assert_eq!((text(&meta.destination).as_str(), meta.destination.is_singleton()), ("dtn:other/svc", false));
    assert_eq!(leaves(&meta, &hop, None), named(b"other/svc\0").wire());
    let imc = made(b"").with(|bundle| {
        bundle.dictionary = b"imc\x005.0\0ipn\x001.7\0dtn\0none\0".to_vec();
        bundle.endpoints = [(0, 4), (8, 12), (16, 20), (16, 20)];
    });
    let meta = imc.read().0;
    assert_eq!((text(&meta.destination).as_str(), meta.source), ("imc:5.0", EndpointId::ipn(1, 7)));
}

/// Keeps 5050-4.2-1, 5050-4.2-2, 5050-4.5.1-1, 5050-5.2-3, 9758-7.4-1.
#[test]
fn drafts_become_bundles_that_obey() {
    // RFC 5050 4.5.1, 4.2: timestamps of both versions must stay distinct.
    let draft = BundleDraft {
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(2, 1),
        report_to: EndpointId::ipn(1, 0),
        facts: Facts(Facts::REPORT_DELETION | Facts::UNRELIABLE),
        lifetime_ms: 1001,
        priority: Priority::Bulk,
        hop_limit: 8,
        labels: Some([16, 0]),
        custody: 0,
        reporting: None,
    };
    let at = |ms, sequence| CreationTimestamp { time: DtnTime(ms), sequence };
    let new = |draft: &BundleDraft, creation| {
        let meta = make(draft, creation, rope(b"payload")).unwrap();
        let (back, hop) =
            read_strict(&leaves(&meta, &HopState { labels: draft.labels, ..HopState::default() }, None)).unwrap();
        assert_eq!((back.facts, back.id, &back.head, back.tail), (meta.facts, meta.id, &meta.head, meta.tail));
        assert_eq!((hop.labels, back.priority), (draft.labels, draft.priority));
        meta
    };
    let meta = new(&draft, at(800_000_000_999, 2));
    assert_eq!(meta.facts, Facts(draft.facts.0 | Facts::STATUS_TIME));
    assert_eq!((meta.created_ms, meta.sequence, meta.lifetime_ms), (800_000_000_000, (999 << 22) + 2, 2000));
    let end = |meta: &BundleMeta| meta.created_ms + meta.lifetime_ms;
    assert!(end(&meta) >= 800_000_000_999 + 1001, "never over before it was asked for");
    let most = new(&draft, at(800_000_000_999, (1 << 22) - 1)).sequence;
    assert!(most <= u64::from(u32::MAX), "ION keeps 32 bits of {most}");
    let moments = [(5000, 0), (5001, 0), (5999, 0), (5000, 1), (5001, 1), (6000, 0), (0, 0), (0, 1), (1, 0), (1001, 0)];
    let many = [(5000, 1 << 22), (5001, 1 << 22), (5000, 1 << 32), (5999, (1 << 22) - 1), (5999, 1 << 22)];
    let moments: Vec<(u64, u64)> = moments.into_iter().chain(many).collect();
    let mut ids: Vec<u128> = moments.iter().map(|(ms, sequence)| new(&draft, at(*ms, *sequence)).id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), moments.len(), "different moments make different bundles");
    let numbers = [(5000, 9), (5001, 0), (5001, 1), (5002, 0), (6000, 0)].map(|(ms, sequence)| {
        let meta = new(&draft, at(ms, sequence));
        (meta.created_ms, meta.sequence)
    });
    assert!(numbers.is_sorted(), "later ones are later: {numbers:?}");
    let clockless = new(&draft, at(0, 7));
    assert!(clockless.facts.has(Facts::AGE) && (clockless.created_ms, clockless.sequence) == (0, 7));
    let anonymous =
        BundleDraft { source: EndpointId::Null, facts: Facts(draft.facts.0 | Facts::CUSTODY), ..draft.clone() };
    assert_eq!(new(&anonymous, at(5000, 0)).facts, Facts(Facts::NO_FRAGMENT | Facts::UNRELIABLE));
    let record = BundleDraft { facts: Facts(draft.facts.0 | Facts::ADMIN | Facts::CUSTODY), ..draft.clone() };
    assert_eq!(new(&record, at(5000, 0)).facts, Facts(Facts::ADMIN | Facts::UNRELIABLE));
    let bare = BundleDraft { facts: Facts(0), labels: None, ..draft.clone() };
    assert_eq!(kinds(&seen(&new(&bare, at(5000, 0)), &HopState::default(), None)), (vec![], vec![]));
    let group = BundleDraft { destination: EndpointId::dtn("any", "~news"), ..bare.clone() };
    let has =
        |draft| decode(&rope(&leaves(&new(draft, at(5000, 0)), &HopState::default(), None)), Profile::Strict).unwrap();
    assert!(has(&bare).primary.has(flags::SINGLETON) && !has(&group).primary.has(flags::SINGLETON));
    for destination in [EndpointId::dtn(&"n".repeat(1020), "x"), endpoint_of_scheme(9), EndpointId::ipn(1 << 32, 1)] {
        let made = make(&BundleDraft { destination, ..draft.clone() }, at(5000, 0), Payload::new());
        assert_eq!(made.err(), Some(Refusal::NotAcceptable));
    }
    let record = BundleDraft { destination: EndpointId::ipn(1 << 32, 1), facts: Facts(Facts::ADMIN), ..draft };
    assert!(make(&record, at(5000, 0), Payload::new()).is_ok(), "a custodian of such a name is answered");
}

/// Keeps 6260-2.1-1, 6260-2.1-5, 6260-3-1, 6260-3.2-1.
#[test]
fn all_ipn_endpoints_compress_header() {
    // RFC 6260 2.1, 3.2: ipn endpoints alone need no dictionary.
    let large = EndpointId::ipn(u32::MAX.into(), u32::MAX);
    let numbers = [EndpointId::ipn(2, 1), EndpointId::ipn(1, 300), EndpointId::Null, large];
    let bytes = |endpoint: &EndpointId| {
        let mut bytes = Vec::new();
        let pair = match endpoint {
            EndpointId::Ipn { node, service } => [*node, u64::from(*service)],
            _ => [0, 0],
        };
        pair.into_iter().for_each(|number| put_sdnv(&mut bytes, number));
        bytes
    };
    let drafted = |endpoints: [&EndpointId; 3]| {
        let [destination, source, report_to] = endpoints.map(Clone::clone);
        let draft = BundleDraft { destination, source, report_to, lifetime_ms: 1000, ..BundleDraft::default() };
        let creation = CreationTimestamp { time: DtnTime(5000), sequence: 0 };
        let meta = make(&draft, creation, rope(b"payload")).unwrap();
        let wire = leaves(&meta, &HopState::default(), None);
        let (back, hop) = read_strict(&wire).unwrap();
        let [destination, source, report_to] = endpoints;
        let read = [&back.destination, &back.source, back.report_to(), &hop.custodian];
        assert_eq!(read, [destination, source, report_to, &EndpointId::Null]);
        (wire, seen(&meta, &HopState::default(), None).primary.dictionary_len)
    };
    for destination in &numbers {
        for source in &numbers {
            for report_to in &numbers {
                let (wire, dictionary) = drafted([destination, source, report_to]);
                assert_eq!(dictionary, 0, "{destination} {source} {report_to}");
                // After the version, the flags and the block's length come pairs of numbers, with a null custodian.
                let flags = 1 + wire[1..].iter().position(|byte| *byte < 0x80).unwrap() + 1;
                let pairs = [destination, source, report_to, &EndpointId::Null].map(bytes).concat();
                assert_eq!(wire[flags + 1..][..pairs.len()], pairs);
            }
        }
    }
    // A single dtn name needs a dictionary for all four endpoints.
    let named = EndpointId::dtn("a", "b");
    for at in 0..3 {
        let mut endpoints = [&numbers[0], &numbers[1], &numbers[2]];
        endpoints[at] = &named;
        let (wire, dictionary) = drafted(endpoints);
        assert!(dictionary > 0 && wire.windows(6).any(|bytes| bytes == b"//a/b\0"), "{at}");
    }
}

fn endpoint_of_scheme(scheme: u64) -> EndpointId {
    EndpointId::Other(alloc::sync::Arc::new(farlink_base::OtherName { scheme, part: vec![1] }))
}
