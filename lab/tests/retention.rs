//! The retention probe on real hosts: over each layer, it finds every bundle that a relay forwards, in order. Times are
//! not asserted; `cargo xtask bench retention` measures them.

#[path = "../examples/retention/traffic.rs"]
mod traffic;
#[path = "../examples/retention/world.rs"]
mod world;

use std::time::Duration;
use traffic::Traffic;
use world::RelayRun;

#[test]
fn forwarded_bundles_are_found_in_order() {
    const UNITS: u64 = 20;
    for (traffic, name) in Traffic::ALL {
        let run = RelayRun {
            traffic,
            units: UNITS,
            pace: Duration::from_millis(2),
            work: Duration::from_micros(100),
            real_time: false,
        };
        let report = match std::thread::spawn(move || world::run(run)).join().unwrap() {
            Ok(report) => report,
            Err(error) => {
                println!("skipped: the kernel refuses a host or an interface: {error}");
                return;
            }
        };
        assert_eq!(report.missed, 0, "{name}");
        let relay = &report.relays[0];
        if traffic == Traffic::Tls {
            assert_eq!(relay.not_available(), Some("its conversations are enciphered (TLS)"));
            continue;
        }
        let found: Vec<u64> = relay.bundles.iter().map(|bundle| bundle.bundle.creation.sequence - 1000).collect();
        assert_eq!(found, (0..UNITS * traffic.bundles()).collect::<Vec<_>>(), "{name}");
        let length = traffic.bundle(0).len() as u64;
        for bundle in &relay.bundles {
            assert!(bundle.length == length && bundle.left_first_ns <= bundle.left_last_ns, "{name}: {bundle:?}");
        }
        assert_eq!((relay.lost, relay.cut, relay.unidentified, report.unread), (0, 0, 0, 0), "{name}");
        assert_eq!((relay.only_arrived_ns.len(), relay.only_left), (0, 0), "{name}");
    }
}
