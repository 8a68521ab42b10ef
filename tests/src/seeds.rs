//! Seeds of the fuzz corpora: the published vectors and a few texts, by target and name.

use crate::fuzz::TARGETS;
use crate::seeds_ltp;
use farlink_base::{Accel, Payload};
use farlink_bundle::{BlockData, Profile, decode};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// An input of a fuzz corpus that is made from the vectors.
pub struct Seed {
    /// Name of the fuzz target.
    pub target: &'static str,
    /// File name in the target's corpus.
    pub name: String,
    /// Bytes passed to the target.
    pub bytes: Vec<u8>,
}

/// The folder of a target's corpus.
pub fn corpus(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    // Vector files mix hexadecimal strings with prose and names.
    let whole = text.len() >= 2 && text.len().is_multiple_of(2) && text.is_ascii();
    let digits = (0..text.len() / 2).map(|i| u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok());
    if whole { digits.collect() } else { None }
}

/// Every string of hexadecimal digits in a vector file, in order.
fn vectors(name: &str) -> Vec<Vec<u8>> {
    fn walk(value: &Value, found: &mut Vec<Vec<u8>>) {
        match value {
            Value::String(text) => found.extend(hex(text)),
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            Value::Object(items) => items.values().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut found = Vec::new();
    walk(&serde_json::from_str(&text).expect("vectors are JSON"), &mut found);
    found
}

/// The data of the security blocks in the examples of RFC 9173.
fn security_blocks() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for bytes in vectors("bpsec_rfc9173.json") {
        let bundle = decode(&Payload::from(bytes), Profile::Permissive, &Accel::default());
        for block in bundle.into_iter().flat_map(|bundle| bundle.extensions) {
            if let BlockData::Unknown(data) = block.data {
                found.push(data.to_vec());
            }
        }
    }
    found
}

/// All seeds of all targets.
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target: &'static str, inputs: Vec<Vec<u8>>| {
        assert!(TARGETS.iter().any(|(name, _)| *name == target), "{target} is no target");
        for (number, bytes) in inputs.into_iter().enumerate() {
            seeds.push(Seed { target, name: format!("seed-{number:03}"), bytes });
        }
    };
    let published = ["bpv7_bundles.json", "bpv7_negative.json", "bpsec_rfc9173.json"].into_iter().flat_map(vectors);
    let bundles: Vec<Vec<u8>> = published.chain(OPEN_BUNDLES.into_iter().filter_map(hex)).collect();
    add("bundle", bundles.clone());
    add("cbor_item", bundles.clone());
    let olds = vectors("bpv6_bundles.json").into_iter().chain(OLD_BUNDLES.into_iter().filter_map(hex));
    add("bundle_end", bundles.iter().cloned().chain(olds).collect());
    add("secured_bundle", vectors("bpsec_rfc9173.json").into_iter().filter(|b| b.first() == Some(&0x9f)).collect());
    add("security_block", security_blocks());
    add("eid_cbor", vectors("eid_cbor.json").into_iter().chain(OPEN_EIDS.into_iter().filter_map(hex)).collect());
    let texts = ["dtn:none", "ipn:1.2", "ipn:977000.1.3", "ipn:!.7", "dtn://node/~group", "dtn://a/", "ipn:01.2"];
    add("eid_text", texts.map(|text| text.into()).to_vec());
    let report = hex("8201868481f481f481f481f5018202820101821b000000ba081c7600000505");
    let other = hex("820784821a01020304f51903e8");
    add("administrative_record", [report, other].into_iter().flatten().collect());
    add("beacon", BEACONS.into_iter().filter_map(hex).collect());
    add("reassembly", vec![vec![0, 0, 0, 200, 1, 0, 200, 0, 56, 1], vec![0, 0, 1, 0, 1, 0, 9, 0, 9, 1, 0, 0, 0, 1, 2]]);
    let old = vectors("bpv6_bundles.json").into_iter().chain(OLD_BUNDLES.into_iter().filter_map(hex));
    add("bundle_v6", old.collect());
    add("record_v6", OLD_RECORDS.into_iter().filter_map(hex).collect());
    add("sdnv", vectors("sdnv.json"));
    let segments = vectors("ltp.json");
    let hexes = |texts: &[&str]| texts.iter().copied().filter_map(hex).collect::<Vec<_>>();
    add("ltp_segment", [segments.clone(), hexes(seeds_ltp::SEGMENTS)].concat());
    add("ltp_extensions", hexes(seeds_ltp::CONVERSATIONS));
    let framed = |segment: &Vec<u8>| [&[segment.len().min(255) as u8][..], segment].concat();
    let blocks = [false, true].map(|marked| seeds_ltp::block_of(&bundles, marked).iter().flat_map(framed).collect());
    add("reading_ltp", segments.iter().map(framed).chain(blocks).collect());
    add("ltp", segments.iter().map(framed).chain([segments.iter().flat_map(framed).collect()]).collect());
    // Each packet alone from the neighbour (host 0), then all in a row, once from the neighbour and once from an
    // unknown host.
    let packets = vectors("udpclv2_draft04.json");
    let from = |host: u8| move |packet: &Vec<u8>| [&[host, packet.len().min(255) as u8][..], packet].concat();
    let conversations = [0, 9].map(|host| packets.iter().flat_map(from(host)).collect());
    add("reading_udpcl", vec![packets.iter().flat_map(framed).collect(), bundles.iter().flat_map(framed).collect()]);
    add("udpcl", packets.iter().map(from(0)).chain(conversations).collect());
    add("contact_plan", PLANS.map(|text| text.into()).to_vec());
    let streams: Vec<Vec<u8>> =
        vectors("tcpclv4.json").into_iter().map(|bytes| [&[0x3f][..], &bytes].concat()).collect();
    for target in ["tcpcl_v4_active", "tcpcl_v4_passive", "tcpcl_v4_session"] {
        add(target, streams.clone());
    }
    let old: Vec<Vec<u8>> = vectors("tcpclv3.json");
    // Each message after the contact header, and all messages in a row.
    let contact = old.first().cloned().unwrap_or_default();
    let each = old.iter().map(|bytes| [&[0x3f][..], &contact, bytes].concat());
    let old: Vec<Vec<u8>> = each.chain([[&[0x05][..], &old.concat()].concat()]).collect();
    for target in ["tcpcl_v3_active", "tcpcl_v3_passive"] {
        add(target, old.clone());
    }
    let all = vectors("tcpclv3.json").into_iter().skip(1).collect::<Vec<_>>();
    let after = |choice: u8, agreed: u8| [&[choice, agreed][..], &all.concat()].concat();
    let each = all.iter().map(|bytes| [&[0x3f][..], bytes].concat());
    // The first message is a keepalive. Its byte is also the one by which `tcpcl_v3_session` chooses the features that
    // both sides agreed on.
    let agreed = [after(0x3f, 0x42), after(0x00, 0x41), after(0x5f, 0x40), after(0xbf, 0x42)];
    add("tcpcl_v3_session", each.chain(agreed).collect());
    // Each message or session alone, then all in a row.
    let sessions = ["tcpclv4.json", "tcpclv3.json"].map(vectors).concat();
    add("reading_tcpcl", sessions.iter().cloned().chain([sessions.concat()]).collect());
    // The first byte of an input, see `one_way` in `fuzz.rs`: long chunks or single bytes, bundles accepted or refused,
    // on the peer's stream or the layer's own.
    let choices = |bytes: Vec<u8>| [0x1f, 0x00, 0x5f, 0xc3, 0x3f].map(|choice| [&[choice][..], &bytes].concat());
    for target in ["stcp", "mtcp"] {
        let frames = frames_of(target);
        let joined = frames.concat();
        add(if target == "stcp" { "reading_stcp" } else { "reading_mtcp" }, vec![joined.clone()]);
        add(target, frames.into_iter().chain([joined]).flat_map(choices).collect());
    }
    seeds
}

/// Frames of STCP or MTCP from the published vectors.
fn frames_of(layer: &str) -> Vec<Vec<u8>> {
    let all = vectors("stcp_mtcp.json");
    let (mtcp, stcp): (Vec<_>, Vec<_>) = all.into_iter().partition(|bytes| bytes.first().is_some_and(|b| b >> 5 == 2));
    if layer == "mtcp" { mtcp } else { stcp }
}

/// Bundles with arrays of indefinite length: the first in endpoint IDs, timestamp and hop count; the second also in all
/// blocks; the third in its payload block only.
const OPEN_BUNDLES: [&str; 3] = [
    "9f890700019f029f0201ffff9f029f0101ffff9f0100ff9f1b000000ba43b7400003ff1a0036ee80421328860a020101449f\
     0901ff42d72c8607030101410542c66f86060400014b8201682f2f72656c61792f4272788601010001446461746142bcaaff",
    "9f9f0700019f029f0201ffff9f029f0101ffff9f0100ff9f1b000000ba43b7400003ff1a0036ee8042f6f6ff9f0a02010144\
     9f0901ff4253e7ff9f07030101410542fc49ff9f060400014b8201682f2f72656c61792f42ea53ff9f010100014464617461\
     42b2b2ffff",
    "9f8907000182028202018202820101820100821b000000ba43b74000031a0036ee80422db3860a0201014382090142d6da9f\
     01010001446461746142b2b2ffff",
];
const OPEN_EIDS: [&str; 3] = ["9f029f0101ffff", "9f029f1a000ee8680103ffff", "9f01682f2f6e6f64652f61ff"];

/// BPv6 bundles: one with a block of each known kind, and a block after its payload; one whose blocks refer to its
/// dictionary, and whose last blocks are to be discarded; a fragment without a clock; an encrypted one without a
/// last-block flag.
const OLD_BUNDLES: [&str; 4] = [
    "06811811020101010300090082fdbc9000039c100005100964746e002f2f612f00140102a70813010307c84df0010204050a100801\
     69706e3a392e30010004646174615a08056166746572",
    "0681102e0004000e0018001882fdbc9000039c101d64746e002f2f6473742f737663002f2f7372632f617070006e6f6e6500055001\
     000e005a41020004000e0178010004646174615b1004676f6e655c1c046c617374",
    "0681110f020101010300090000039c1000050a0802046d6574610108053536373839",
    "0681102e0004000e0018001882fdbc9000039c101d64746e002f2f6473742f737663002f2f7372632f617070006e6f6e6500041006\
     7365616c656401000464617461",
];
/// BPv6 records: a status report about a fragment, custody signals, aggregate custody signals, a greeting.
const OLD_RECORDS: [&str; 6] = [
    "111d00050582fdbc9000837482fdbc9001837482fdbc9002837482fdbc9003837482fdbc9000040769706e3a312e31",
    "208082fdbc9000837482fdbc9000040769706e3a312e31",
    "2103050582fdbc9000837482fdbc9000040764746e3a2f2f61",
    "408001020201",
    "40800082008201820f",
    "f068656c6c6f",
];

/// Beacons as dtn7-rs writes them, bare and with layers, a tag and a period, and in the order of its description; those
/// of dtn7-go.
const BEACONS: [&str; 4] = [
    "8407018201682f2f6e6f6465312f00",
    "86070782028218200005828282646d746370193f2282637463701911dca1183f821868186902",
    "850705018201682f2f6e6f6465312f0a",
    "8283008201642f2f672f1911dc830a8201642f2f672f193f22",
];

/// A plan in each dialect.
const PLANS: [&str; 3] = [
    "a contact +0 +3600 1 2 100000\na range +0 +3600 1 2 1\n",
    "a contact 2026/11/20-09:00:00 2026/11/20-10:00:00 1 2 100000 0.9\n",
    "{\"contacts\":[{\"contact\":0,\"source\":1,\"dest\":2,\"startTime\":0,\"endTime\":200,\"rateBitsPerSec\":1000,\"owlt\":1}]}",
];
