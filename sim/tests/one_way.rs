//! Layers without acknowledgments: no loss when a connection fails or a node is full.

use farlink_scenario::Scenario;
use farlink_sim::{Outcome, Silent, World};

const LAYERS: [&str; 2] = ["stcp", "mtcp"];

fn run(text: &str) -> Outcome {
    let scenario = Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&scenario, Silent).unwrap().run().0
}

fn full_relay(layer: &str, back: bool) -> String {
    // The relay's store holds a tenth of the traffic, which arrives four times as fast as it can leave.
    let node = |n: u64, more: &str| format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\n{more}\n");
    let link = |from: u64, rate: u64| {
        format!(
            "[[link]]\nname = \"l{from}\"\nbetween = [\"n{from}\", \"n{}\"]\nlayer = \"{layer}\"\n\
             rate = \"{rate} Mbit/s\"\ndelay = \"20 ms\"\n",
            from + 1
        )
    };
    let traffic = |from: u64, to: u64, count: u64| {
        format!(
            "[[traffic]]\nname = \"t{from}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\nlifetime = \"1 h\"\n\
             bundles = {{ count = {count}, size = \"50 kB\" }}\n"
        )
    };
    let text = [
        "name = \"full\"\nseed = 3\nduration = \"30 min\"\n".to_string(),
        node(1, ""),
        node(2, "store_capacity = \"1 MB\""),
        node(3, ""),
        link(1, 8),
        link(2, 2),
        traffic(1, 3, 200),
        if back { traffic(3, 1, 200) } else { String::new() },
    ];
    text.concat()
}

#[test]
fn full_relay_pushes_back() {
    for layer in LAYERS {
        let outcome = run(&full_relay(layer, false));
        let traffic = &outcome.traffic[0];
        assert_eq!((traffic.created, traffic.delivered), (200, 200), "{layer}: {outcome:?}");
        // 80 Mbit over 2 Mbit/s: the slower link is never idle for long.
        let seconds = traffic.complete_at.expect("all").as_secs_f64();
        assert!((40.0..45.0).contains(&seconds), "{layer}: {seconds} s");
    }
}

#[test]
fn full_relay_both_ways_never_deadlocks() {
    for layer in LAYERS {
        let outcome = run(&full_relay(layer, true));
        let delivered: Vec<u64> = outcome.traffic.iter().map(|traffic| traffic.delivered).collect();
        assert_eq!(delivered, [200, 200], "{layer}: {outcome:?}");
    }
}

#[test]
fn long_full_node_loses_nothing() {
    // The relay has no route for ten minutes: refused bundles wait there, in the connection and at their sender.
    for layer in LAYERS {
        let contact = "[[contact]]\nlink = \"l2\"\nstart = \"10 min\"\nend = \"30 min\"\n";
        let text = full_relay(layer, false) + contact;
        let outcome = run(&text);
        assert_eq!(outcome.traffic[0].delivered, 200, "{layer}: {outcome:?}");
    }
}

#[test]
fn buffered_bundles_are_resent() {
    for layer in LAYERS {
        // One second of round-trip time: a megabyte is in flight at each outage, which outlasts the stream.
        let outcome = run(&format!(
            "name = \"falls\"\nseed = 4\nduration = \"20 min\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
             [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"ab\"\nbetween = [\"a\", \"b\"]\n\
             layer = \"{layer}\"\nrate = \"8 Mbit/s\"\ndelay = \"500 ms\"\nloss = \"0.1 %\"\n\
             outages = {{ up = \"20 s\", down = \"8 s\" }}\n[[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\n\
             bundles = {{ count = 300, size = \"100 kB\", interval = \"200 ms\" }}\n"
        ));
        let traffic = &outcome.traffic[0];
        assert_eq!((traffic.created, traffic.delivered), (300, 300), "{layer}: {outcome:?}");
    }
}
