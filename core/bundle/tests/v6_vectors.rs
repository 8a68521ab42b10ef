//! Vectors of `tests/vectors` about BPv6.

use farlink_base::{
    BytesMut, CreationTimestamp, DtnTime, EndpointId, Facts, FragmentInfo, HopState, Payload, Priority, sdnv,
};
use farlink_bundle::{Profile, v6};
use serde_json::Value;

fn vectors(name: &str) -> Value {
    let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
fn valid(id: &str) -> Vec<u8> {
    let file = vectors("bpv6_bundles.json");
    let case = file["valid"].as_array().unwrap().iter().find(|case| case["id"] == id);
    hex(&case.unwrap()["hex"])
}
fn rope(bytes: &[u8]) -> Payload {
    Payload::from(bytes.to_vec())
}
const BOTH: [Profile; 2] = [Profile::Strict, Profile::Permissive];

/// Keeps 5050-4-1, 5050-4-2.
#[test]
fn valid_vectors_round_trip() {
    for case in vectors("bpv6_bundles.json")["valid"].as_array().unwrap() {
        let (id, wire) = (&case["id"], hex(&case["hex"]));
        for profile in BOTH {
            let (meta, hop) = v6::read(&rope(&wire), profile).unwrap_or_else(|error| panic!("{id}: {error}"));
            let again = v6::render(&meta, &hop, None, &mut BytesMut::new());
            assert_eq!(again.into_payload().to_bytes().unwrap(), wire, "{id}");
            let bundle = v6::decode(&rope(&wire), profile).unwrap();
            assert_eq!((bundle.id(), bundle.len), (meta.identity(), wire.len() as u64), "{id}");
        }
        for cut in 0..wire.len() {
            assert!(v6::read(&rope(&wire[..cut]), Profile::Permissive).is_err(), "{id} cut to {cut}");
            assert!(v6::begin(&rope(&wire[..cut]), Profile::Strict).is_ok(), "{id} cut to {cut}");
        }
    }
}

/// Keeps 5050-4-1.
#[test]
fn invalid_bundles_are_refused() {
    for case in vectors("bpv6_bundles.json")["invalid"].as_array().unwrap() {
        for profile in BOTH {
            assert!(v6::read(&rope(&hex(&case["hex"])), profile).is_err(), "{}", case["why"]);
        }
    }
}

#[test]
fn v6_vector_contents_are_decoded() {
    let custody = v6::decode(&rope(&valid("cbhe_custody")), Profile::Strict).unwrap();
    assert!(custody.primary.has(v6::flags::CUSTODY) && custody.primary.custodian == EndpointId::ipn(1, 0));
    let meaning = v6::Meaning::Custody { id: 1, custodian: EndpointId::ipn(1, 0) };
    assert_eq!((custody.before[0].kind, &custody.before[0].meaning), (v6::kind::CUSTODY, &meaning));
    let (meta, hop) = v6::read(&rope(&valid("cbhe_custody")), Profile::Strict).unwrap();
    assert_eq!((meta.facts, hop.custodian), (Facts(Facts::CUSTODY), EndpointId::ipn(1, 0)));

    let named = v6::decode(&rope(&valid("dictionary")), Profile::Strict).unwrap();
    assert_eq!(named.primary.source, EndpointId::dtn("src", "app"));
    assert_eq!(named.primary.destination, EndpointId::dtn("dst", "svc"));
    assert!(named.primary.report_to.is_null() && named.primary.dictionary_len == 29);

    let (piece, _) = v6::read(&rope(&valid("fragment")), Profile::Strict).unwrap();
    assert_eq!(piece.fragment(), Some(FragmentInfo { offset: 5, total: 10 }));
    assert_eq!(piece.payload.to_bytes().unwrap(), &b"56789"[..]);

    let record = |id: &str| {
        let bundle = v6::decode(&rope(&valid(id)), Profile::Strict).unwrap();
        assert!(bundle.primary.has(v6::flags::ADMIN));
        v6::record(&bundle.payload.to_bytes().unwrap()).unwrap()
    };
    let v6::ParsedRecord::Report(report) = record("status_report") else { panic!("a status report") };
    assert_eq!(report.delivered.time, Some(DtnTime(799_000_010_000)));
    assert_eq!((report.subject.source, report.reason), (EndpointId::ipn(1, 1), 0));
    let fills = |id| match record(id) {
        v6::ParsedRecord::Aggregate(signal) if signal.succeeded => {
            signal.fills.iter().map(|fill| (fill.first, fill.last)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(fills("acs_1_2_4"), [(1, 2), (4, 4)]);
    assert_eq!(fills("acs_0_255_512_782"), [(0, 255), (512, 782)]);
}

#[test]
fn made_dictionary_bundle_matches_vector() {
    // The encoded bundle, with its dictionary, must equal the vector byte for byte.
    let wire = valid("dictionary");
    let (meta, _) = v6::read(&rope(&wire), Profile::Strict).unwrap();
    let draft = v6::BundleDraft {
        source: meta.source.clone(),
        destination: meta.destination.clone(),
        lifetime_ms: meta.lifetime_ms,
        priority: Priority::Normal,
        ..v6::BundleDraft::default()
    };
    let creation = CreationTimestamp { time: DtnTime(meta.created_ms), sequence: meta.sequence };
    let made = v6::make(&draft, creation, meta.payload.clone()).unwrap();
    let made = v6::render(&made, &HopState::default(), None, &mut BytesMut::new());
    assert_eq!(made.into_payload().to_bytes().unwrap(), wire);
}

#[test]
fn sdnv_vectors_decode() {
    let file = vectors("sdnv.json");
    for vector in file["valid"].as_array().unwrap() {
        let (value, bytes) = (vector["value"].as_str().unwrap().parse().unwrap(), hex(&vector["hex"]));
        assert_eq!(sdnv::decode(&bytes), Ok((value, bytes.len())));
    }
}
