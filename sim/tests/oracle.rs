//! Control with network-wide knowledge from the simulator's oracle.

use farlink_base::{DeleteReason, Event, Instant};
use farlink_scenario::{Fidelity, Scenario};
use farlink_sim::{Observer, World};

fn scenario(control: &str, fidelity: Fidelity) -> Scenario {
    // When the relay creates its own bundles, it is full of bundles that were forwarded once.
    let text = format!(
        r#"
        name = "oracle"
        duration = "2 min"
        [[node]]
        name = "source"
        id = "ipn:1.0"
        [[node]]
        name = "relay"
        id = "ipn:2.0"
        store_capacity = "500 kB"
        control = "{control}"
        [[node]]
        name = "sink"
        id = "ipn:3.0"
        [[link]]
        name = "in"
        between = ["source", "relay"]
        layer = "ltp"
        rate = "10 Mbit/s"
        [[link]]
        name = "out"
        between = ["relay", "sink"]
        layer = "ltp"
        rate = "10 Mbit/s"
        [[contact]]
        link = "in"
        start = "0 s"
        end = "10 s"
        [[contact]]
        link = "out"
        start = "60 s"
        end = "120 s"
        [[traffic]]
        name = "through"
        from = "source"
        to = "sink"
        bundles = {{ count = 4, size = "100 kB" }}
        [[traffic]]
        name = "own"
        from = "relay"
        to = "sink"
        start = "20 s"
        bundles = {{ count = 3, size = "100 kB" }}
        [[traffic]]
        name = "still"
        from = "sink"
        to = "source"
        bundles = {{ count = 2, size = "1 kB" }}
        "#
    );
    let mut scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    scenario.fidelity = fidelity;
    scenario
}

/// Number of bundles that the relay evicted, and of its own bundles that it accepted before it could forward any.
#[derive(Default)]
struct Relay {
    given_up: u32,
    own: u32,
}
impl Observer for Relay {
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        match event {
            Event::Deleted { reason: DeleteReason::DepletedStorage, .. } if node == 1 => self.given_up += 1,
            Event::Created { .. } if node == 1 && at < Instant(60_000_000_000) => self.own += 1,
            _ => {}
        }
    }
}

#[test]
fn forward_count_control_evicts_more() {
    for fidelity in [Fidelity::Full, Fidelity::Message] {
        let run = |control: &str| {
            let (outcome, relay) = World::new(&scenario(control, fidelity), Relay::default()).unwrap().run();
            ([0, 1].map(|of| outcome.traffic[of].delivered), relay.given_up, relay.own)
        };
        // The store of 500 kB cannot hold 400 kB and 300 kB: either the first bundles stay, or those forwarded least.
        assert_eq!(run("none"), ([4, 3], 0, 0), "{fidelity:?}: its own wait until the others are gone");
        assert_eq!(run("afner"), ([1, 3], 3, 3), "{fidelity:?}");
    }
}
