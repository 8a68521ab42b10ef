//! Tests with packets of draft-ietf-dtn-udpcl-04, byte for byte: each is parsed, and written if this entity sends such
//! packets.

use crate::udpcl_common::{LINK, UdpclBench, address, malformed, offers, sent};
use farlink_base::layer::{Input, LinkState, Output};
use farlink_base::{Duration, Malformed, Payload};
use farlink_cla::udpcl::packet::{Extensions, KEEPALIVE, MessageKind, Probe, announcement, confirmation_packet};
use farlink_cla::udpcl::packet::{probe_packet, segment_head};
use std::collections::BTreeMap;

fn vectors() -> BTreeMap<String, Vec<u8>> {
    let file: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/vectors/udpclv2_draft04.json")).unwrap();
    let packet = |p: &serde_json::Value| {
        let text = p["hex"].as_str().unwrap();
        let bytes = (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap());
        (p["id"].as_str().unwrap().to_string(), bytes.collect())
    };
    file["packets"].as_array().unwrap().iter().map(packet).collect()
}
fn read(packet: &[u8]) -> Extensions {
    assert_eq!(MessageKind::of(packet[0]), MessageKind::Map);
    let rope = Payload::from(packet.to_vec());
    let mut reader = rope.reader();
    let known = Extensions::read(&mut reader).unwrap();
    assert!(packet[reader.position() as usize..].iter().all(|byte| *byte == 0), "the rest is padding");
    known
}
/// Takes a whole datagram for one bundle; splitting by CBOR is not tested here.
fn whole(_: &Payload) -> Result<Option<u64>, Malformed> {
    Ok(None)
}

#[test]
fn transfers_are_read_and_segments_written() {
    let v = vectors();
    let bundle = &v["unframed_bpv7"];
    let single = read(&v["transfer_single"]).transfer.unwrap();
    assert_eq!((single.id, single.total, single.offset), (5, None, 0));
    assert_eq!(single.data.to_bytes().unwrap(), bundle[..]);
    for (name, offset, end) in [("transfer_seg0", 0, 27), ("transfer_seg1", 27, 55)] {
        let packet = &v[name];
        let segment = read(packet).transfer.unwrap();
        assert_eq!((segment.id, segment.total, segment.offset), (6, Some(55), offset));
        assert_eq!(segment.data.to_bytes().unwrap(), bundle[offset as usize..end]);
        let (head, len) = segment_head(6, 55, offset, packet.len() as u64);
        assert_eq!(len, end as u64 - offset);
        assert_eq!([&head[..], &bundle[offset as usize..end]].concat(), *packet);
    }
}

#[test]
fn announcements_round_trip() {
    let v = vectors();
    let known = read(&v["sender_listen_30s_node"]);
    assert_eq!((known.listens_ms, known.node_id.as_deref()), (Some(30_000), Some("ipn:1.0")));
    assert_eq!(announcement(30_000, "ipn:1.0"), v["sender_listen_30s_node"]);
    let probe = Probe { nonce: 123, sequence: 2, delay_ms: 1000 };
    assert_eq!(read(&v["peer_probe"]).probe, Some(probe));
    assert!(v["peer_probe"].starts_with(&probe_packet(probe)), "padding follows");
    assert_eq!(read(&v["peer_confirm_2_4-6"]).confirmation, Some(123));
    assert_eq!(confirmation_packet(123, 2), b"\xa1\x07\x82\x18\x7b\x82\x02\x00");
    assert_eq!(v["keepalive"], KEEPALIVE);
    for ignored in ["ext_support_1_8", "starttls", "ecn"] {
        assert_eq!(read(&v[ignored]), Extensions::default(), "{ignored}");
    }
}

#[test]
fn all_vector_packets_are_accepted() {
    let v = vectors();
    for (name, packet) in &v {
        let mut bench = UdpclBench::new(|config, _| config.split = whole);
        let out = bench.receive(address(0), packet.clone());
        assert_eq!(malformed(&out), [""; 0], "{name}");
        let bundles = offers(&out);
        match name.as_str() {
            "unframed_bpv7" | "transfer_single" => {
                assert_eq!(bundles.len(), 1, "{name}");
                assert_eq!(bundles[0].0, LINK);
                assert_eq!(bundles[0].1.to_bytes().unwrap(), v["unframed_bpv7"][..], "{name}");
            }
            _ => assert!(bundles.is_empty(), "{name}"),
        }
    }
    for order in [["transfer_seg0", "transfer_seg1"], ["transfer_seg1", "transfer_seg0"]] {
        let mut bench = UdpclBench::new(|config, _| config.split = whole);
        assert!(offers(&bench.receive(address(0), v[order[0]].clone())).is_empty());
        let bundles = offers(&bench.receive(address(0), v[order[1]].clone()));
        assert_eq!(bundles[0].1.to_bytes().unwrap(), v["unframed_bpv7"][..]);
    }
}

/// Keeps 7122-3.4-1.
#[test]
fn keepalives_match_vectors() {
    // By the keepalive of version 2 the neighbour learns this node's ID and address (RFC 7122 3.4; draft section
    // 3.5.3).
    let v = vectors();
    for (version, packet) in [(1, "keepalive"), (2, "sender_listen_30s_node")] {
        let mut bench = UdpclBench::new(|config, span| {
            config.node_id = "ipn:1.0".into();
            (span.version, span.keepalive) = (version, Duration::from_secs(30));
        });
        bench.input(Input::Link { link: LINK, state: LinkState::DOWN });
        let mut out: Vec<Output> = bench.input(Input::Link { link: LINK, state: LinkState::UP });
        out.extend(bench.later(95.0));
        let said = sent(&out);
        assert!(said.iter().all(|(_, bytes)| *bytes == v[packet]), "version {version}: {said:?}");
        assert_eq!(said.len(), if version == 1 { 3 } else { 4 }, "version 2 sends the first at once");
    }
}
