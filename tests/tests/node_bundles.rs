//! Bundles between two real node processes over real sockets, restarts, and exit.

use crate::node_support;

use crate::node_support::{Pair, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::client::Client;

fn send(client: &mut Client, to: &str, payload: &[u8]) {
    let adu = BundleAdu { dst_eid: to.into(), ..Default::default() };
    client.send(adu, payload).unwrap();
    assert_eq!(client.response().unwrap().response_status(), AapStatus::Success);
}

fn crosses(layer: &'static str) {
    let pair = Pair::new(layer, false);
    let (a, b) = (pair.start(1, ""), pair.start(2, ""));
    let mut receiver = b.client("64", 1);
    let mut sender = a.client("99", 0);
    // Empty, one byte, one packet, and many segments.
    for size in [0, 1, 1000, 300_000] {
        let payload: Vec<u8> = (0..size).map(|i| ((i * 31) >> 3) as u8).collect();
        send(&mut sender, "ipn:2.64", &payload);
        let delivered = receiver.delivery().unwrap();
        receiver.taken(true).unwrap();
        assert_eq!(delivered.payload, payload);
        assert_eq!(delivered.adu.src_eid, "ipn:1.99");
        assert!(!delivered.redelivered());
    }
}

#[test]
fn bundles_cross_over_tcpclv4() {
    crosses("tcpclv4");
}

#[test]
fn bundles_cross_over_ltp() {
    crosses("ltp");
}

#[test]
fn both_versions_cross_after_kill() {
    // One node creates bundles of version 6, the other of version 7. They must understand each other, also after a kill
    // of a node that holds bundles.
    for layer in ["tcpclv4", "ltp"] {
        let pair = Pair::new(layer, true);
        let old = |pair: &Pair| pair.start_with(1, "\"ipn:1.0\"", "bundle_version = 6", "");
        let a = old(&pair);
        let mut sender = a.client("99", 0);
        (0..5u8).for_each(|i| send(&mut sender, "ipn:2.64", &vec![i; 5000]));
        a.kill();
        let (a, b) = (old(&pair), pair.start(2, ""));
        // Creation times of version 6 are whole seconds (RFC 5050); of five of version 7, at least one is not.
        let deliveries = |to: &node_support::Node| {
            let mut receiver = to.client("64", 1);
            let mut got: Vec<(u8, u64)> = (0..5)
                .map(|_| {
                    let delivered = receiver.delivery().unwrap();
                    receiver.taken(true).unwrap();
                    assert_eq!(delivered.payload.len(), 5000);
                    (delivered.payload[0], delivered.adu.creation_timestamp_ms)
                })
                .collect();
            got.sort_unstable();
            assert!(got.iter().map(|(first, _)| *first).eq(0..5), "{layer}: {got:?}");
            got.iter().all(|(_, ms)| ms % 1000 == 0)
        };
        assert!(deliveries(&b), "{layer}: version 6 counts in seconds");
        let mut sender = b.client("99", 0);
        for i in 0..5u8 {
            // The pause moves at least one creation time off the first millisecond of a second.
            std::thread::sleep(std::time::Duration::from_millis(2));
            send(&mut sender, "ipn:1.64", &vec![i; 5000]);
        }
        assert!(!deliveries(&a), "{layer}: version 7 does not");
    }
}

#[test]
fn acknowledged_bundles_survive_a_kill() {
    let pair = Pair::new("tcpclv4", true);
    let a = pair.start(1, "");
    let mut sender = a.client("99", 0);
    for i in 0..20u8 {
        send(&mut sender, "ipn:2.64", &vec![i; 5000]);
    }
    a.kill();
    let (_a, b) = (pair.start(1, ""), pair.start(2, ""));
    let mut receiver = b.client("64", 1);
    let mut got: Vec<u8> = (0..20)
        .map(|_| {
            let delivered = receiver.delivery().unwrap();
            receiver.taken(true).unwrap();
            assert_eq!(delivered.payload.len(), 5000);
            delivered.payload[0]
        })
        .collect();
    got.sort_unstable();
    assert_eq!(got, (0..20).collect::<Vec<_>>());
}

#[test]
fn unanswered_delivery_repeats_after_kill() {
    let pair = Pair::new("tcpclv4", true);
    let a = pair.start(1, "");
    let mut sender = a.client("99", 0);
    for payload in [&b"first"[..], b"second"] {
        send(&mut sender, "ipn:1.64", payload);
    }
    let mut receiver = a.client("64", 1);
    assert_eq!(receiver.delivery().unwrap().payload, b"first");
    receiver.taken(true).unwrap();
    assert_eq!(receiver.delivery().unwrap().payload, b"second");
    a.kill();
    let a = pair.start(1, "");
    let mut receiver = a.client("64", 1);
    let again = receiver.delivery().unwrap();
    assert_eq!(again.payload, b"second", "the answered one is gone for good");
    assert!(again.redelivered());
}

#[test]
fn sigterm_exits_with_0() {
    let pair = Pair::new("tcpclv4", true);
    let (a, b) = (pair.start(1, ""), pair.start(2, ""));
    until("the link is up", || a.log().contains("link may be used"));
    let began = std::time::Instant::now();
    assert_eq!(a.terminate(), Some(0));
    // A clean end waits for no timeout.
    assert!(began.elapsed().as_secs() < 10);
    assert!(b.log().contains("ipn:2.0"));
    assert_eq!(b.terminate(), Some(0));
}
