//! Streams with data in both directions over a slow, long link: acknowledgments queue behind data, and nothing is
//! retransmitted because of that.

use farlink_scenario::Scenario;
use farlink_sim::{Silent, World};

#[test]
fn queued_acknowledgments_are_no_losses() {
    // Queues add to the round trip of 400 ms, so a naive timeout would retransmit.
    let text = r#"
        name = "both"
        duration = "40 s"
        [[node]]
        name = "a"
        id = "ipn:1.0"
        [[node]]
        name = "b"
        id = "ipn:2.0"
        [[link]]
        name = "ab"
        between = ["a", "b"]
        layer = "tcpclv4"
        rate = "1 Mbit/s"
        delay = "200 ms"
        [[traffic]]
        from = "a"
        to = "b"
        bundles = { count = 60, size = "20 kB", interval = "200 ms" }
        [[traffic]]
        from = "b"
        to = "a"
        bundles = { count = 60, size = "20 kB", interval = "200 ms" }
    "#;
    let scenario = Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let (outcome, _) = World::new(&scenario, Silent).unwrap().run();
    assert!(outcome.traffic.iter().all(|traffic| traffic.delivered == 60), "{outcome:#?}");
    for direction in &outcome.links[0] {
        let overhead = direction.sent_bytes as f64 / (60.0 * 20_000.0);
        assert!((1.03..1.08).contains(&overhead), "{overhead} bytes on the link for each of payload");
    }
    assert!(outcome.ended.as_secs_f64() < 15.0, "{:?}", outcome.ended);
}
