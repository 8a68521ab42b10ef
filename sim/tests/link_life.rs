//! Links that appear and disappear during a run, in every layer and at message level.

use farlink_base::{Duration, Event, Instant};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, Outcome, World};

/// Delivery times.
#[derive(Default)]
struct Deliveries(Vec<Instant>);
impl Observer for Deliveries {
    fn event(&mut self, at: Instant, _node: usize, event: &Event) {
        if matches!(event, Event::Delivered { .. }) {
            self.0.push(at);
        }
    }
}

fn scenario(layer: &str, fidelity: &str, router: &str) -> Scenario {
    // `a` sends a bundle a second to `c` for 30 s; the link from `b` exists from 10 s to 20 s.
    let text = format!(
        r#"
        name = "life"
        duration = "60 s"
        stop_when_delivered = false
        fidelity = "{fidelity}"
        node_defaults = {{ router = "{router}" }}
        link_defaults = {{ layer = "{layer}", rate = "10 Mbit/s", delay = "20 ms" }}
        [[node]]
        name = "a"
        id = "ipn:1.0"
        routes = {{ "ipn:3.*" = "b" }}
        [[node]]
        name = "b"
        id = "ipn:2.0"
        [[node]]
        name = "c"
        id = "ipn:3.0"
        [[link]]
        name = "early"
        between = ["b", "c"]
        appears = "10 s"
        disappears = "20 s"
        [[link]]
        name = "first"
        between = ["a", "b"]
        [[traffic]]
        name = "news"
        from = "a"
        to = "c"
        bundles = {{ count = 30, size = "10 kB", interval = "1 s" }}
        "#
    );
    Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

fn run(layer: &str, fidelity: &str, router: &str) -> (Outcome, Deliveries) {
    World::new(&scenario(layer, fidelity, router), Deliveries::default()).unwrap().run()
}

#[test]
fn bundles_wait_while_link_is_absent() {
    for (layer, fidelity) in [("ltp", "full"), ("tcpclv4", "full"), ("ltp", "message")] {
        for router in ["static", "epidemic"] {
            let what = format!("{layer} {fidelity} {router}");
            let (outcome, Deliveries(at)) = run(layer, fidelity, router);
            assert_eq!(outcome.traffic[0].delivered, 20, "{what}: those made in the first 20 s");
            let (first, last) = (at[0].0 / 1_000_000_000, at[19].0 / 1_000_000_000);
            assert!((10..12).contains(&first) && last == 19, "{what}: from {first} s to {last} s");
            assert_eq!(outcome, run(layer, fidelity, router).0, "{what}: the same again");
        }
    }
}

#[test]
fn temporary_link_is_not_planned() {
    let scenario = scenario("ltp", "full", "sabr");
    assert_eq!(scenario.contact_plan().contacts.len(), 2, "both directions of the link that lasts");
    assert_eq!(scenario.link_changes().iter().map(|c| c.at).collect::<Vec<_>>(), [10, 20].map(Duration::from_secs));
    assert_eq!(scenario.places(), [[1, 0], [0, 0]], "a node numbers its links as it gets them");
}
