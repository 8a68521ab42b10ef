//! Tests of the encoding of beacons: those of other programs and our own can be read, and anything else is rejected.

use farlink_base::{Duration, EndpointId, Rng};
use farlink_cla::announce::beacon::BEACON_MAX;
use farlink_cla::announce::{AnnouncedService, Beacon};
use farlink_cla::registry::{LAYERS, LayerInfo};
use proptest::prelude::*;

fn layer(name: &str) -> &'static LayerInfo {
    LayerInfo::named(name).unwrap()
}
fn service(name: &str, port: u16) -> AnnouncedService {
    AnnouncedService { layer: layer(name), port }
}
fn node(text: &str) -> EndpointId {
    text.parse().unwrap()
}
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Beacons as dtn7-rs 0.21 writes them: without and with layers, a tag, a period.
const BARE: &str = "84 07 01 82 01 68 2f2f6e6f6465312f 00";
const WHOLE: &str = "86 07 07 82 02 82 18 20 00 05 \
    82 82 82 64 6d746370 19 3f22 82 63 746370 19 11dc a1 18 3f 82 18 68 18 69 02";
const PERIOD: &str = "85 07 05 82 01 68 2f2f6e6f6465312f 01 0a";
const SERVICES: &str = "85 07 03 82 01 68 2f2f6e6f6465312f 01 82 81 82 63 746370 f6 a0";

#[test]
fn dtn7_rs_beacons_are_read() {
    let bare = Beacon::parse(&hex(BARE)).unwrap();
    assert_eq!(bare, Beacon { node: node("dtn://node1/"), sequence: Some(0), services: vec![], period: None });
    let whole = Beacon::parse(&hex(WHOLE)).unwrap();
    assert_eq!((whole.node, whole.sequence, whole.period), (node("ipn:32.0"), Some(5), Some(Duration::from_secs(2))));
    assert_eq!(whole.services, [service("mtcp", 16162), service("tcpclv4", 4572)]);
    assert_eq!(Beacon::parse(&hex(PERIOD)).unwrap().period, Some(Duration::from_secs(10)));
    let served = Beacon::parse(&hex(SERVICES)).unwrap();
    assert_eq!((served.services, served.period), (vec![service("tcpclv4", 4556)], None), "the port it usually has");
}

#[test]
fn described_field_order_is_accepted() {
    // The description of dtn7-rs has the sequence number before the node ID.
    let described = Beacon::parse(&hex("85 07 05 01 82 01 68 2f2f6e6f6465312f 0a")).unwrap();
    assert_eq!(described, Beacon::parse(&hex(PERIOD)).unwrap());
}

#[test]
fn dtn7_go_announcements_are_read() {
    let said = "83 83 00 82 01 64 2f2f672f 19 11dc 83 0a 82 01 64 2f2f672f 19 3f22 83 0a 82 01 64 2f2f682f 09";
    let beacon = Beacon::parse(&hex(said)).unwrap();
    assert_eq!((beacon.node, beacon.sequence, beacon.period), (node("dtn://g/"), None, None));
    assert_eq!(beacon.services, [service("tcpclv4", 4572), service("mtcp", 16162)], "not those of another node");
    let unknown = Beacon::parse(&hex("81 83 14 82 01 64 2f2f672f 01")).unwrap();
    assert!(unknown.services.is_empty(), "QUICL");
}

#[test]
fn beacons_match_dtn7_rs_bytes() {
    let beacon = |text: &str| Beacon::parse(&hex(text)).unwrap();
    for text in [BARE, PERIOD] {
        assert_eq!(beacon(text).emit(), hex(text));
    }
    let whole = "86 07 07 82 02 82 18 20 00 05 82 82 82 64 6d746370 19 3f22 82 63 746370 19 11dc a0 02";
    assert_eq!(beacon(WHOLE).emit(), hex(whole), "without tags");
    let short = Beacon { period: Some(Duration::from_millis(1500)), ..beacon(BARE) };
    assert_eq!(Beacon::parse(&short.emit()).unwrap().period, Some(Duration::from_secs(2)), "rounded up");
}

#[test]
fn truncated_or_extended_beacon_is_rejected() {
    for text in [BARE, WHOLE, PERIOD, SERVICES, "81 83 00 82 01 64 2f2f672f 19 11dc"] {
        let bytes = hex(text);
        for cut in 0..bytes.len() {
            assert!(Beacon::parse(&bytes[..cut]).is_err(), "{text} cut to {cut} B");
        }
        assert!(Beacon::parse(&[&bytes[..], &[0]].concat()).is_err());
    }
}

/// Keeps 9758-5.4-6.
#[test]
fn malformed_beacon_reports_its_reason() {
    let why = |text: &str| Beacon::parse(&hex(text)).unwrap_err();
    assert_eq!(why("84 04 01 82 01 68 2f2f6e6f6465312f 00"), "another version");
    assert_eq!(why("84 07 00 82 01 68 2f2f6e6f6465312f 00"), "no node ID");
    assert_eq!(why("84 07 01 82 01 00 00"), "a node ID that cannot be read");
    assert_eq!(why("84 07 01 82 01 69 2f2f6e6f6465312f61 00"), "an endpoint that is no node");
    assert_eq!(why("84 07 01 82 02 82 01 01 00"), "an endpoint that is no node");
    assert_eq!(why("84 07 01 82 02 82 00 00 00"), "an endpoint that is no node");
    assert_eq!(why("84 07 01 82 02 82 1a ffffffff 00 00"), "an endpoint that is no node");
    assert_eq!(why("84 07 01 82 03 82 01 00 00"), "a node ID that cannot be read");
    assert_eq!(why("84 07 01 82 01 68 2f2f6e6f6465312f 1b 0000000100000000"), "no sequence number");
    assert_eq!(why("87 07 07 82 01 68 2f2f6e6f6465312f 00 80 02 02"), "not as long as a beacon");
    assert_eq!(why("80"), "neither a version nor an announcement");
    assert_eq!(why("9f 07 ff"), "not an array");
    assert_eq!(why("81 82 00 00"), "not an announcement");
    let quiet = [&hex(BARE)[..], &[0; BEACON_MAX]].concat();
    assert_eq!(Beacon::parse(&quiet), Err("longer than a beacon"));
}

#[test]
fn absurd_lengths_and_nesting_rejected() {
    // Claimed lengths beyond the datagram must neither allocate nor loop.
    let huge = "1b ffffffffffffffff";
    let nested = format!("85 07 03 82 01 64 2f2f672f 00 82 80 {}", "a101".repeat(600));
    let tagged = format!("85 07 05 82 01 64 2f2f672f 00 c0 {huge}");
    for text in [
        "9b ffffffffffffffff 07",
        "9b ffffffffffffffff 83 00 82 01 64 2f2f672f 19 11dc",
        "84 07 01 82 01 7b ffffffffffffffff 2f",
        "85 07 03 82 01 64 2f2f672f 00 82 9b ffffffffffffffff 82 63 746370 01",
        "85 07 03 82 01 64 2f2f672f 00 82 80 bb ffffffffffffffff 01",
        &nested,
        &tagged,
    ] {
        assert!(Beacon::parse(&hex(text)).is_err(), "{text}");
    }
    let long = Beacon::parse(&hex(&format!("85 07 05 82 01 64 2f2f672f 00 {huge}"))).unwrap();
    assert_eq!(long.period, Some(Duration::from_secs(u64::MAX)), "the receiver bounds it");
}

#[test]
fn layers_are_capped_at_sixteen() {
    // Of more than sixteen layers the first sixteen are kept; a layer at port 0 is not.
    let mut text = String::from("85 07 03 82 01 64 2f2f672f 00 82 98 24");
    text.push_str(&"82 63 746370 01".repeat(30));
    text.push_str("82 63 746370 00");
    text.push_str("82 63 746370 1a 00010000");
    text.push_str(&"82 64 68747470 01".repeat(4));
    text.push_str("a0");
    let beacon = Beacon::parse(&hex(&text)).unwrap();
    assert_eq!(beacon.services, [service("tcpclv4", 1); 16]);
    let none = "85 07 03 82 01 64 2f2f672f 00 82 82 82 63 746370 00 82 63 746370 1a 00010000 a0";
    assert!(Beacon::parse(&hex(none)).unwrap().services.is_empty());
}

#[test]
fn fuzzed_beacons_do_not_panic() {
    let mut rng = Rng::new(3003);
    for _ in 0..100_000 {
        let mut bytes = hex([BARE, WHOLE, PERIOD, SERVICES][rng.below(4) as usize]);
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        if let Ok(beacon) = Beacon::parse(&bytes) {
            assert!(beacon.node.is_node_id() && beacon.services.len() <= bytes.len());
        }
    }
}

fn names() -> impl Strategy<Value = EndpointId> {
    prop_oneof![
        (1u64..=u64::MAX).prop_map(|number| EndpointId::ipn(number, 0)).prop_filter("here", |id| !id.is_here()),
        "[a-z0-9.-]{1,200}".prop_map(|name| EndpointId::dtn(&name, "")),
    ]
}

proptest! {
    #[test]
    fn beacons_round_trip(
        node in names(),
        sequence: u32,
        services in prop::collection::vec((0..LAYERS.len(), 1u16..), 0..10),
        period in prop::option::of(0u64..=u64::MAX),
    ) {
        let services = services.into_iter().map(|(place, port)| AnnouncedService { layer: &LAYERS[place], port }).collect();
        let period = period.map(Duration::from_secs);
        let beacon = Beacon { node, sequence: Some(sequence), services, period };
        let bytes = beacon.emit();
        prop_assert!(bytes.len() <= BEACON_MAX);
        prop_assert_eq!(Beacon::parse(&bytes), Ok(beacon));
    }
}
