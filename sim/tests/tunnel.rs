//! Bundle-in-bundle tunnels at packet and at message level: through a relay without a route to the destination, and
//! over a lossy layer.

use farlink_base::{Event, Instant, LinkId};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, World};

#[derive(Default)]
struct TunnelCounts {
    created: usize,
    delivered: usize,
    came_out: usize,
    released: usize,
    repeated: usize,
    signals: usize,
}
impl Observer for TunnelCounts {
    fn event(&mut self, _: Instant, node: usize, event: &Event) {
        match event {
            Event::Created { .. } => self.created += 1,
            Event::Delivered { .. } => self.delivered += 1,
            Event::Received { link: LinkId::TUNNEL, .. } if node == 2 => self.came_out += 1,
            Event::CustodyReleased { .. } => self.released += 1,
            Event::CustodyRepeated { .. } => self.repeated += 1,
            Event::CustodySignalled { .. } => self.signals += 1,
            _ => {}
        }
    }
}

fn run(fidelity: &str, store: &str, custody: bool, loss: &str) -> TunnelCounts {
    let layer = if loss.is_empty() { "ltp" } else { "udpcl" };
    let text = format!(
        r#"
        name = "tunnel"
        duration = "900 s"
        fidelity = "{fidelity}"
        node_defaults = {{ store = "{store}", router = "static" }}
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
        routes = {{ "ipn:1.*" = "b" }}
        [[node]]
        name = "d"
        id = "ipn:4.0"
        [[link]]
        name = "ab"
        between = ["a", "b"]
        layer = "{layer}"
        rate = "1 Mbit/s"
        delay = "100 ms"
        {loss}
        [[link]]
        name = "bc"
        between = ["b", "c"]
        layer = "ltp"
        rate = "1 Mbit/s"
        delay = "1 s"
        [[link]]
        name = "cd"
        between = ["c", "d"]
        layer = "ltp"
        rate = "1 Mbit/s"
        delay = "1 s"
        [[tunnel]]
        from = "a"
        end = "c"
        to = ["ipn:4.*"]
        custody = {custody}
        timeout = "10 s"
        [[traffic]]
        from = "a"
        to = "d"
        bundles = {{ count = 50, size = "1 kB", interval = "100 ms" }}
        # The run goes on until this one is there.
        [[traffic]]
        name = "last"
        from = "a"
        to = "d"
        start = "700 s"
        bundles = {{ count = 1, size = "1 kB", interval = "1 s" }}
        "#
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&scenario, TunnelCounts::default()).unwrap().run().1
}

#[test]
fn tunnel_works_in_both_fidelities() {
    for (fidelity, store) in [("full", "durable"), ("full", "memory"), ("message", "durable"), ("message", "memory")] {
        for custody in [false, true] {
            let counts = run(fidelity, store, custody, "");
            assert_eq!((counts.delivered, counts.repeated), (51, 0), "{fidelity} {store} {custody}");
            assert_eq!(counts.came_out, 51, "{fidelity} {store} {custody}");
            assert_eq!(counts.created, 51, "{fidelity} {store} {custody}: no application made what is around them");
            assert_eq!(counts.released >= 50, custody, "{fidelity} {store}: {} released", counts.released);
            assert!(counts.signals < 20, "{fidelity} {store} {custody}: {} signals", counts.signals);
        }
    }
}

#[test]
fn custody_tunnel_survives_lossy_layer() {
    // Without custody the tunnel inherits the loss of the layer.
    let loss = "loss = \"20 %\"";
    let counts = run("full", "durable", false, loss);
    assert!(counts.delivered < 51, "it loses");
    let counts = run("full", "durable", true, loss);
    assert!(counts.delivered == 51 && counts.repeated > 0, "{} of 51, {} again", counts.delivered, counts.repeated);
}
