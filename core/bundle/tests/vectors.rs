//! Vectors of `tests/vectors` about bundles, endpoint IDs and CRCs.

use farlink_base::{Accel, Bytes, BytesMut, Duties, Facts, Payload};
use farlink_bundle::{
    AdministrativeRecord, Bundle, BundleFlags, EidCodec, EndpointId, Profile, decode, decode_parts, decode_prefix,
    reason, v7,
};
use serde_json::Value;

fn vectors(name: &str) -> Value {
    let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
fn read(bytes: &[u8], profile: Profile) -> Result<Bundle, farlink_base::Malformed> {
    decode(&Payload::from(bytes.to_vec()), profile, &Accel::default())
}
/// Decodes a bundle with the engine's codec and encodes it again.
fn again(bytes: &[u8], profile: Profile) -> Result<Bytes, farlink_base::Malformed> {
    let (accel, mut out) = (Accel::default(), BytesMut::new());
    let (meta, hop) = v7::read(&Payload::from(bytes.to_vec()), profile, &accel)?;
    let encoded = v7::render(&meta, &hop, None, &accel, &mut out);
    assert_eq!(encoded.len(), v7::size(&meta, &hop, None));
    Ok(encoded.into_payload().to_bytes().unwrap())
}
const BOTH: [Profile; 2] = [Profile::Strict, Profile::Permissive];

/// Offset of the payload in the encoded bundle.
fn payload_at(wire: &[u8]) -> usize {
    v7::begin(&Payload::from(wire.to_vec()), Profile::Strict, &Accel::default()).unwrap().unwrap().payload_at as usize
}

/// Keeps 9171-4.1-1, 9171-4.1-3, 9171-4.1-4, 9171-4.1-6, 9171-4.1-8, 9171-4.2.2-1, 9171-4.2.2-2.
/// Keeps 9171-4.2.6-1, 9171-4.2.7-1, 9171-4.3.1-1, 9171-4.3.1-4, 9171-4.3.1-8, 9171-4.3.1-9, 9171-4.3.1-11.
/// Keeps 9171-4.3.1-14, 9171-4.3.1-15, 9171-4.3.2-1, 9171-4.3.2-2, 9171-4.3.2-3, 9171-4.3.2-5, 9171-5.6-5.
#[test]
fn valid_vectors_round_trip() {
    let file = vectors("bpv7_bundles.json");
    for case in file["valid"].as_array().unwrap() {
        let (id, wire) = (case["id"].as_str().unwrap(), hex(case["hex"].as_str().unwrap()));
        assert_eq!(wire.len() as u64, case["bytes"].as_u64().unwrap(), "{id}");
        for profile in BOTH {
            let bundle = read(&wire, profile).unwrap_or_else(|error| panic!("{id}: {error}"));
            assert_eq!(bundle.encoded_len(), wire.len() as u64, "{id}");
            assert_eq!(bundle.encode(&Accel::default()).into_payload().to_bytes().unwrap(), wire, "{id}");
            // Encoding is deterministic: the fields alone give the same bytes.
            let mut fields = bundle.clone();
            fields.primary_raw = None;
            fields.payload_crc_value = None;
            fields.extensions.iter_mut().for_each(|block| block.raw = None);
            assert_eq!(fields.encoded_len(), wire.len() as u64, "{id}");
            assert_eq!(fields.encode(&Accel::default()).into_payload().to_bytes().unwrap(), wire, "{id}");
            let parts = bundle.encode(&Accel::default());
            let back = decode_parts(&parts.head, parts.payload, &parts.tail, profile, &Accel::default());
            assert_eq!(back.as_ref(), Ok(&bundle), "{id}");
            // The engine's codec has removed discardable blocks.
            let mut kept = bundle.clone();
            kept.remove_block(if id == "unknown_ext_drop" { bundle.extensions[0].number } else { 0 });
            let kept = kept.encode(&Accel::default()).into_payload().to_bytes().unwrap();
            assert_eq!(again(&wire, profile).as_ref(), Ok(&kept), "{id}");
            assert_eq!(kept == wire, id != "unknown_ext_drop", "{id}");
        }
        assert_eq!(decode_prefix(&Payload::from(wire.clone())), Ok(Some(wire.len() as u64)), "{id}");
        for cut in 0..wire.len() {
            assert!(read(&wire[..cut], Profile::Permissive).is_err(), "{id} cut to {cut}");
            let prefix = Payload::from(wire[..cut].to_vec());
            assert_eq!(decode_prefix(&prefix), Ok(None), "{id} cut to {cut}");
            assert!(again(&wire[..cut], Profile::Permissive).is_err(), "{id} cut to {cut}");
            let begun = v7::begin(&prefix, Profile::Strict, &Accel::default()).unwrap();
            assert_eq!(begun.map(|begun| begun.payload_at <= cut as u64), (cut >= payload_at(&wire)).then_some(true));
        }
    }
}

/// Keeps 9171-4.2.3-4, 9171-4.2.8-1, 9171-4.4-1, 9171-4.4.2-1, 9171-4.4.3-2, 9171-4.4.3-3, 9171-4.4.3-4.
/// Keeps 9171-6.2-1.
#[test]
fn v7_vector_contents_are_decoded() {
    let file = vectors("bpv7_bundles.json");
    let bundle = |id: &str| {
        let case = file["valid"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap();
        read(&hex(case["hex"].as_str().unwrap()), Profile::Strict).unwrap()
    };
    let blocks = bundle("ext_blocks");
    assert_eq!(blocks.previous_node(), Some(&EndpointId::ipn(7, 0)));
    assert_eq!((blocks.age_ms(), blocks.hop_count().map(|hops| (hops.limit, hops.count))), (Some(300), Some((30, 3))));
    for (id, flags) in [("unknown_ext_kept", 0), ("unknown_ext_drop", 0x10), ("unknown_ext_delete", 4)] {
        let unknown = bundle(id);
        let found: Vec<_> = unknown.unprocessable().map(|(block, flags)| (block.kind, flags.0)).collect();
        assert_eq!(found, [(200, flags)], "{id}");
    }
    let meta = |id: &str| {
        let case = file["valid"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap();
        let wire = Payload::from(hex(case["hex"].as_str().unwrap()));
        v7::read(&wire, Profile::Strict, &Accel::default()).unwrap()
    };
    let (blocks, hop) = meta("ext_blocks");
    assert_eq!((&hop.previous, hop.age_ms, hop.hops, blocks.hop_limit), (&EndpointId::ipn(7, 0), 300, 3, 30));
    assert!(blocks.facts.has(Facts::AGE | Facts::HOPS));
    for (id, duties) in [("unknown_ext_kept", 0), ("unknown_ext_drop", 0), ("unknown_ext_delete", Duties::DELETE)] {
        assert_eq!(meta(id).0.duties, Duties(duties), "{id}");
    }
    assert!(meta("all_reports").0.wants_report(Facts::REPORTS | Facts::STATUS_TIME));
    assert!(meta("group_dest").0.is_for_group());
    assert_eq!(meta("fragment_b").0.original_id(), meta("fragment_a").0.original_id());
    assert!(bundle("all_reports").wants_report(BundleFlags::REPORTS | BundleFlags::STATUS_TIME));
    assert!(!bundle("group_dest").primary.destination.is_singleton());
    let report = bundle("status_report_fragment").payload.to_bytes().unwrap();
    match AdministrativeRecord::decode(&report).unwrap() {
        AdministrativeRecord::Status(status) => {
            assert!(status.deleted.asserted && !status.received.asserted && status.deleted.time.is_none());
            assert_eq!((status.reason, status.fragment), (reason::LIFETIME_EXPIRED, Some((5, 5))));
        }
        other => panic!("{other:?}"),
    }
}

/// Keeps 9171-4.1-1, 9171-4.1-3, 9171-4.1-4, 9171-4.1-5, 9171-4.1-6, 9171-4.1-7, 9171-4.1-8, 9171-4.2.1-1.
/// Keeps 9171-4.2.3-1, 9171-4.2.3-2, 9171-4.2.4-1, 9171-4.2.6-1, 9171-4.2.7-1, 9171-4.3.1-15, 9171-4.3.2-3.
/// Keeps 9171-4.3.2-4, 9171-4.3.2-5, 9171-4.4.2-2, 9171-4.4.2-3, 9171-4.4.3-1, 9171-5.6-2.
#[test]
fn negative_vectors_get_expected_verdict() {
    for case in vectors("bpv7_negative.json")["cases"].as_array().unwrap() {
        let (id, want) = (case["id"].as_str().unwrap(), case["want"].as_str().unwrap());
        let wire = hex(case["hex"].as_str().unwrap());
        let [strict, permissive] = BOTH.map(|profile| read(&wire, profile));
        // (accepted strictly, accepted permissively)
        let verdict = match id {
            "dest_null_ion_crash" | "ipn_0_1_report_to" | "admin_with_reports" | "zero_ts_no_age" => (false, true),
            "tagged_bundle" => (false, false),
            "hop_exceeded" | "age_overflow" => (true, true),
            _ if want == "ACCEPT" => (true, true),
            _ => {
                assert!(want.contains("reject"), "{id}: a verdict for `{want}`?");
                (false, false)
            }
        };
        assert_eq!(again(&wire, Profile::Strict).err(), strict.as_ref().err().copied(), "{id}");
        assert_eq!(again(&wire, Profile::Permissive).err(), permissive.as_ref().err().copied(), "{id}");
        assert_eq!((strict.is_ok(), permissive.is_ok()), verdict, "{id}: {want}\n{strict:?}\n{permissive:?}");
        let _ = decode_prefix(&Payload::from(wire));
    }
}

#[test]
fn decoded_bundle_exposes_agent_duties() {
    let file = vectors("bpv7_negative.json");
    let wire = |id: &str| {
        let case = file["cases"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap();
        hex(case["hex"].as_str().unwrap())
    };
    let mut hops = read(&wire("hop_exceeded"), Profile::Strict).unwrap();
    assert!(!hops.increment_hop(), "delete, reason 9");
    let (over, hop) = v7::read(&Payload::from(wire("hop_exceeded")), Profile::Strict, &Accel::default()).unwrap();
    assert!(hop.hops.saturating_add(1) > over.hop_limit);
    assert_eq!(read(&wire("age_overflow"), Profile::Strict).unwrap().age_ms(), Some(u64::MAX));
    let admin = read(&wire("admin_with_reports"), Profile::Permissive).unwrap();
    assert!(!admin.wants_report(BundleFlags::REPORT_RECEPTION), "requests of administrative bundles are void");
    assert!(read(&wire("dest_null_ion_crash"), Profile::Permissive).unwrap().primary.destination.is_null());
    assert!(read(&wire("ipn_0_1_report_to"), Profile::Permissive).unwrap().primary.report_to.is_null());
    // The tag of self-described CBOR occurs in files only, whose reader removes it.
    assert!(read(&wire("tagged_bundle")[3..], Profile::Strict).is_ok());
}

/// Keeps 9171-4.2.5.1-2, 9171-4.2.5.1-3, 9171-4.2.5.1-4, 9171-4.2.5.1-5, 9171-4.2.5.1.1-1, 9171-4.2.5.1.2-1.
/// Keeps 9171-4.2.5.1.2-2, 9171-4.2.5.1.2-3.
#[test]
fn endpoint_ids_match_vectors() {
    let file = vectors("eid_cbor.json");
    for case in file["valid"].as_array().unwrap() {
        let (name, bytes) = (case["eid"].as_str().unwrap(), hex(case["hex"].as_str().unwrap()));
        let eid = EndpointId::decode(&bytes, Profile::Strict).unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = name.split(' ').next().unwrap();
        assert_eq!(text.parse::<EndpointId>().unwrap(), eid, "{name}");
        assert_eq!(eid.to_string().parse::<EndpointId>().unwrap(), eid, "{name}");
        let mut out = Vec::new();
        eid.encode(&mut out);
        assert_eq!(out.len() as u64, eid.encoded_len());
        assert_eq!(EndpointId::decode(&out, Profile::Strict), Ok(eid), "{name}");
        if !name.contains("three-element") && name != "ipn:0.0" {
            assert_eq!(out, bytes, "{name}");
        }
    }
    for case in file["invalid_or_special"].as_array().unwrap() {
        let (what, bytes) = (case["what"].as_str().unwrap(), hex(case["hex"].as_str().unwrap()));
        let strict = EndpointId::decode(&bytes, Profile::Strict);
        let permissive = EndpointId::decode(&bytes, Profile::Permissive);
        match what {
            "ipn:0.1" => assert_eq!((strict, permissive), (Ok(EndpointId::Null), Ok(EndpointId::Null))),
            "dtn SSP 0 not shortest form" => assert!(strict.is_err() && permissive == Ok(EndpointId::Null)),
            _ => assert!(strict.is_err() && permissive.is_err(), "{what}"),
        }
    }
}

/// Keeps 9171-4.3.1-14.
#[test]
fn crcs_match_vectors() {
    for case in vectors("crc.json")["cases"].as_array().unwrap() {
        let data = hex(case["data_hex"].as_str().unwrap());
        assert_eq!(format!("{:04x}", farlink_base::crc16_x25(0, &data)), case["crc16_x25"].as_str().unwrap());
        assert_eq!(format!("{:08x}", farlink_base::crc32c(0, &data)), case["crc32c"].as_str().unwrap());
    }
}

#[test]
fn rfc_9173_examples_round_trip() {
    fn walk(value: &Value, found: &mut Vec<Vec<u8>>) {
        match value {
            Value::String(text) if text.len() > 60 && text.starts_with("9f") && text.ends_with("ff") => {
                found.push(hex(text));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            Value::Object(items) => items.values().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(&vectors("bpsec_rfc9173.json"), &mut found);
    assert!(!found.is_empty());
    for wire in found {
        let bundle = read(&wire, Profile::Permissive).unwrap();
        assert_eq!(bundle.encode(&Accel::default()).into_payload().to_bytes().unwrap(), wire);
        // They have no creation time, and some lack the age block required by RFC 9171 4.4.2: a node adds it and
        // changes nothing else.
        let mut left = read(&again(&wire, Profile::Permissive).unwrap(), Profile::Permissive).unwrap();
        assert_eq!((bundle.primary.creation.time.as_millis(), left.age_ms()), (0, bundle.age_ms().or(Some(0))));
        if bundle.age_ms().is_none() {
            left.remove_blocks_of(7);
        }
        assert_eq!(left.encode(&Accel::default()).into_payload().to_bytes().unwrap(), wire);
        let _ = read(&wire, Profile::Strict);
    }
}

#[test]
fn v7_chunk_boundaries_do_not_matter() {
    let file = vectors("bpv7_bundles.json");
    for case in file["valid"].as_array().unwrap() {
        let wire = Bytes::from(hex(case["hex"].as_str().unwrap()));
        let whole = read(&wire, Profile::Strict).unwrap();
        for size in 1..=wire.len() {
            let mut rope = Payload::new();
            for start in (0..wire.len()).step_by(size) {
                rope.push_bytes(wire.slice(start..wire.len().min(start + size)));
            }
            assert_eq!(decode(&rope, Profile::Strict, &Accel::default()), Ok(whole.clone()));
            let (meta, _) = v7::read(&rope, Profile::Strict, &Accel::default()).unwrap();
            assert_eq!((meta.identity(), &meta.payload), (whole.id(), &whole.payload));
            assert_eq!(decode_prefix(&rope), Ok(Some(wire.len() as u64)));
        }
    }
}
