//! Random BPv6 bundles, and arbitrary bytes.

use farlink_base::{
    BundleMeta, Bytes, BytesMut, CreationTimestamp, DtnTime, EndpointId, Facts, HopState, Malformed, Payload, Priority,
};
use farlink_bundle::{Profile, v6};
use proptest::prelude::*;
use proptest::sample::Index;

fn eid() -> impl Strategy<Value = EndpointId> {
    prop_oneof![
        Just(EndpointId::Null),
        (1..=u64::from(u32::MAX), any::<u32>()).prop_map(|(node, service)| EndpointId::ipn(node, service)),
        ("[a-z][a-z0-9.-]{0,12}", "[!-~]{0,12}").prop_map(|(node, demux)| EndpointId::dtn(&node, &demux)),
    ]
}
fn draft() -> impl Strategy<Value = v6::BundleDraft> {
    let facts = Facts::ADMIN | Facts::REQUESTS | Facts::CRITICAL | Facts::UNRELIABLE | Facts::CUSTODY;
    (eid(), eid(), eid(), any::<u32>(), any::<u64>(), 0u8..3, prop::option::of(any::<[u32; 2]>())).prop_map(
        move |(source, destination, report_to, bits, lifetime_ms, priority, labels)| v6::BundleDraft {
            source,
            destination,
            report_to,
            facts: Facts(bits & facts),
            lifetime_ms,
            priority: Priority::from_number(priority),
            hop_limit: 0,
            labels,
            custody: 0,
            reporting: None,
        },
    )
}
/// Unknown blocks after the payload.
fn behind() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    prop::collection::vec((100u8..190, prop::collection::vec(any::<u8>(), 0..40)), 0..4)
}
prop_compose! {
    fn wire()(
        draft in draft(), ms in any::<u64>(), sequence in any::<u32>(), behind in behind(),
        payload in prop::collection::vec(any::<u8>(), 0..600), age in any::<u32>(),
    ) -> Vec<u8> {
        let creation = CreationTimestamp { time: DtnTime(ms), sequence: sequence.into() };
        let meta = v6::make(&draft, creation, Payload::from(payload.clone())).unwrap();
        let previous = EndpointId::dtn("relay", "");
        let hop = HopState { labels: draft.labels, previous, age_ms: age.into(), ..HopState::default() };
        let mut bytes = v6::render(&meta, &hop, None, &mut BytesMut::new()).into_payload().to_bytes().unwrap().to_vec();
        let begun = v6::begin(&Payload::from(bytes.clone()), Profile::Strict).unwrap().unwrap();
        let count = behind.len();
        if count > 0 {
            // The payload block is not the last one. Its length takes at most two bytes.
            let flags = begun.payload_at as usize - if payload.len() > 127 { 3 } else { 2 };
            assert_eq!(bytes[flags..][..1], [8]);
            bytes[flags] = 0;
        }
        for (at, (kind, data)) in behind.into_iter().enumerate() {
            bytes.extend([kind, if at + 1 == count { 0x28 } else { 0x20 }, data.len() as u8]);
            bytes.extend(data);
        }
        bytes
    }
}
fn read(bytes: &[u8], profile: Profile) -> Result<(BundleMeta, HopState), Malformed> {
    v6::read(&Payload::from(bytes.to_vec()), profile)
}
fn render(meta: &BundleMeta, hop: &HopState, cut: Option<std::ops::Range<u64>>) -> Vec<u8> {
    let encoded = v6::render(meta, hop, cut.clone(), &mut BytesMut::new());
    assert_eq!(encoded.len(), v6::size(meta, hop, cut));
    encoded.into_payload().to_bytes().unwrap().to_vec()
}
/// All results of a reader, in comparable form.
fn all(read: &(BundleMeta, HopState)) -> String {
    let payload = read.0.payload.to_bytes();
    let meta = BundleMeta { payload: Payload::new(), ..read.0.clone() };
    format!("{meta:?} {:?} {payload:?}", read.1)
}

proptest! {
    /// Keeps 5050-5.4-8.
    #[test]
    fn unchanged_bundle_round_trips(bytes in wire()) {
        let came = read(&bytes, Profile::Strict).unwrap();
        prop_assert_eq!(render(&came.0, &came.1, None), bytes.clone());
        prop_assert_eq!(came.0.size(), bytes.len() as u64);
        let (head, tail) = (Bytes::copy_from_slice(v6::head(&came.0)), v6::tail(&came.0));
        let parts = v6::read_parts(&head, came.0.payload.clone(), &tail, Profile::Strict).unwrap();
        prop_assert_eq!(all(&parts), all(&came));
        let view = v6::decode(&Payload::from(bytes), Profile::Strict).unwrap();
        prop_assert_eq!(view.id(), came.0.identity());
    }

    #[test]
    fn v6_chunk_boundaries_do_not_matter(bytes in wire(), size in 1usize..40) {
        let mut rope = Payload::new();
        bytes.chunks(size).for_each(|chunk| rope.push_bytes(Bytes::copy_from_slice(chunk)));
        let whole = read(&bytes, Profile::Strict).unwrap();
        prop_assert_eq!(all(&v6::read(&rope, Profile::Strict).unwrap()), all(&whole));
        let begun = v6::begin(&rope, Profile::Strict).unwrap().unwrap();
        prop_assert_eq!((begun.meta.id, begun.payload_len), (whole.0.id, whole.0.payload.len()));
        for cut in 0..bytes.len() {
            prop_assert!(read(&bytes[..cut], Profile::Strict).is_err());
            let begun = v6::begin(&Payload::from(bytes[..cut].to_vec()), Profile::Strict);
            prop_assert!(begun.is_ok_and(|head| head.is_none_or(|head| head.payload_at <= cut as u64)));
        }
    }

    #[test]
    fn v6_hop_state_round_trips(
        bytes in wire(), previous in eid(), age in 0..u64::MAX / 1000, labels in prop::option::of(any::<[u32; 2]>()),
    ) {
        let (meta, _) = read(&bytes, Profile::Strict).unwrap();
        let hop = HopState { previous, age_ms: age, labels, ..HopState::default() };
        let (next, came) = read(&render(&meta, &hop, None), Profile::Strict).unwrap();
        let aged = meta.facts.has(Facts::AGE) || meta.created_ms == 0;
        prop_assert_eq!((&came.previous, came.labels), (&hop.previous, labels));
        prop_assert_eq!(came.age_ms, if aged { age } else { 0 });
        prop_assert_eq!((next.id, next.payload), (meta.id, meta.payload));
    }

    /// Keeps 5050-5.8-2.
    #[test]
    fn v6_fragments_rejoin_to_original(bytes in wire(), cut in any::<Index>()) {
        let (meta, hop) = read(&bytes, Profile::Strict).unwrap();
        prop_assume!(meta.may_fragment());
        let (len, at) = (meta.payload.len(), 1 + cut.index(meta.payload.len() as usize - 1) as u64);
        let [first, second] = [0..at, at..len].map(|range| read(&render(&meta, &hop, Some(range)), Profile::Strict).unwrap().0);
        prop_assert_eq!([first.original_id(), second.original_id()], [meta.id; 2]);
        let payload = [first.payload.to_bytes().unwrap(), second.payload.to_bytes().unwrap()].concat();
        let joined = v6::whole(&first, Payload::from(payload));
        prop_assert_eq!((joined.id, joined.facts, &joined.payload), (meta.id, meta.facts, &meta.payload));
        let again = read(&render(&joined, &hop, None), Profile::Strict).unwrap().0;
        prop_assert_eq!((again.id, again.rare), (meta.id, meta.rare));
    }

    #[test]
    fn v6_arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), first in any::<bool>()) {
        let bytes = if first { [&[6][..], &bytes].concat() } else { bytes };
        let _ = (read(&bytes, Profile::Strict), read(&bytes, Profile::Permissive), v6::record(&bytes));
        let _ = v6::begin(&Payload::from(bytes), Profile::Permissive);
    }

    #[test]
    fn changed_v6_bundle_stays_readable(
        bytes in wire(), changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4), cut in any::<Index>(),
    ) {
        let mut bytes = bytes;
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        for profile in [Profile::Strict, Profile::Permissive] {
            let view = v6::decode(&Payload::from(bytes.clone()), profile);
            let came = read(&bytes, profile);
            prop_assert_eq!(view.err(), came.as_ref().err().copied());
            let Ok((meta, hop)) = came else { continue };
            let hop = HopState { previous: EndpointId::ipn(7, 0), ..hop };
            prop_assert!(read(&render(&meta, &hop, None), profile).is_ok());
            if meta.may_fragment() {
                let at = 1 + cut.index(meta.payload.len() as usize - 1) as u64;
                prop_assert!(read(&render(&meta, &hop, Some(at..meta.payload.len())), profile).is_ok());
            }
        }
    }
}
