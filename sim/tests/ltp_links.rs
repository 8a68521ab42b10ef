//! LTP options of a scenario: authentication, marked aggregates, green parts.

use farlink_scenario::Scenario;
use farlink_sim::{Silent, World};

fn run(fidelity: &str, loss: &str, ltp: &str) -> (u64, f64) {
    // Returns the number of delivered bundles, of 40, and the bytes on the link from `a` to `b` per byte of payload.
    let text = format!(
        r#"
        name = "ltp"
        duration = "2 h"
        fidelity = "{fidelity}"
        [[node]]
        name = "a"
        id = "ipn:1.0"
        [[node]]
        name = "b"
        id = "ipn:2.0"
        [[link]]
        name = "space"
        between = ["a", "b"]
        layer = "ltp"
        rate = "2 Mbit/s"
        delay = "2 s"
        loss = {loss}
        ltp = {{ {ltp} }}
        [[contact]]
        link = "space"
        start = "0 s"
        end = "20 s"
        [[contact]]
        link = "space"
        start = "1 h"
        end = "2 h"
        [[traffic]]
        from = "a"
        to = "b"
        bundles = {{ count = 40, size = "50 kB", interval = "800 ms" }}
    "#
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let (outcome, _) = World::new(&scenario, Silent).unwrap_or_else(|why| panic!("{why}")).run();
    (outcome.traffic[0].delivered, outcome.links[0][0].sent_bytes as f64 / (40.0 * 50_000.0))
}

#[test]
fn ltp_authentication_bytes_are_counted() {
    for fidelity in ["full", "message"] {
        let (plain, bare) = run(fidelity, "0.0", "");
        for way in ["hmac-sha1-80", "null"] {
            let (delivered, bytes) = run(fidelity, "0.0", &format!("authentication = \"{way}\""));
            assert_eq!((plain, delivered), (40, 40), "{fidelity} {way}");
            // Authentication adds 15 bytes to each datagram of 1360.
            let more = bytes / bare - 1.0;
            assert!((0.010..0.013).contains(&more), "{fidelity} {way}: {more}");
        }
    }
    assert_eq!(run("full", "0.05", "authentication = \"hmac-sha1-80\"").0, 40);
}

#[test]
fn aggregates_and_green_parts_are_configurable() {
    let marked = "aggregate = \"200 kB\", aggregate_wait = \"3 s\", aggregate_marked = true";
    assert_eq!(run("full", "0.05", marked).0, 40);
    let green = "green_from = \"500 B\"";
    assert_eq!(run("full", "0.0", green).0, 40);
    let (lossy, bytes) = run("full", "0.01", green);
    assert!((15..40).contains(&lossy), "what is lost of a green part does not come again: {lossy} of 40");
    assert!(bytes < 1.06, "and nothing is sent twice but what is red: {bytes}");
}
