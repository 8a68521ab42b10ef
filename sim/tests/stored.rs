//! Samples of a store compared with its events: the testbed, which cannot inspect a node, derives usage from events.

use farlink_base::store::Usage;
use farlink_base::{BundleHandle, Event, Instant};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, World};
use std::collections::BTreeMap;

/// Bundles of each node, from events and from samples.
#[derive(Default)]
struct Stores {
    sizes: BTreeMap<(usize, BundleHandle), u64>,
    kept: BTreeMap<(usize, BundleHandle), u64>,
    /// Time, node, bytes from events, bytes from the store.
    seen: Vec<(Instant, usize, u64, u64)>,
}

impl Observer for Stores {
    fn event(&mut self, _: Instant, node: usize, event: &Event) {
        match event {
            Event::Seen { bundle, size, .. } => drop(self.sizes.insert((node, *bundle), *size)),
            Event::Accepted { bundle } | Event::Recovered { bundle } | Event::Reassembled { bundle } => {
                self.kept.insert((node, *bundle), self.sizes[&(node, *bundle)]);
            }
            Event::Deleted { bundle, .. } => drop(self.kept.remove(&(node, *bundle))),
            _ => {}
        }
    }
    fn node_sample(&mut self, at: Instant, node: usize, usage: &Usage) {
        let bytes = self.kept.iter().filter(|((n, _), _)| *n == node).map(|(_, bytes)| bytes).sum();
        self.seen.push((at, node, bytes, usage.bytes));
    }
}

#[test]
fn stored_bytes_match_held_bundles() {
    for store in ["memory", "durable"] {
        let text = format!(
            r#"
            name = "stored"
            duration = "20 s"
            node_defaults = {{ store = "{store}" }}
            [[node]]
            name = "a"
            id = "ipn:1.0"
            [[node]]
            name = "b"
            id = "ipn:2.0"
            [[node]]
            name = "c"
            id = "ipn:3.0"
            [[link]]
            name = "ab"
            between = ["a", "b"]
            layer = "tcpclv4"
            rate = "8 Mbit/s"
            delay = "20 ms"
            [[link]]
            name = "bc"
            between = ["b", "c"]
            layer = "ltp"
            rate = "1 Mbit/s"
            delay = "100 ms"
            [[contact]]
            link = "bc"
            start = "5 s"
            end = "15 s"
            [[traffic]]
            from = "a"
            to = "c"
            bundles = {{ count = 30, size = "20 kB", interval = "100 ms" }}
            [measure]
            interval = "170 ms"
            "#
        );
        let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let (_, stores) = World::new(&scenario, Stores::default()).unwrap().run();
        let most = stores.seen.iter().filter(|seen| seen.1 == 1).map(|seen| seen.3).max();
        assert!(most.is_some_and(|bytes| bytes > 30 * 20_000), "whole bundles, not payloads, wait at b: {most:?}");
        // A sample may fall between a bundle's arrival and its acceptance.
        let apart = stores.seen.iter().filter(|(_, _, events, store)| events.abs_diff(*store) > 2 * 20_200).count();
        assert_eq!(apart, 0, "{store}: {:?}", stores.seen);
    }
}

#[test]
fn bundle_longer_than_memory_is_delivered() {
    // The bundle is longer than all memory for reading from disk; the application must still receive it undamaged.
    let text = r#"
        name = "long"
        duration = "10 min"
        node_defaults = { store = "durable", store_capacity = "8 GB" }
        [[node]]
        name = "a"
        id = "ipn:1.0"
        [[node]]
        name = "b"
        id = "ipn:2.0"
        [[link]]
        name = "ab"
        between = ["a", "b"]
        layer = "ltp"
        rate = "1 Gbit/s"
        mtu = "64 kB"
        ltp = { datagram = "60 kB" }
        [[traffic]]
        from = "a"
        to = "b"
        bundles = { count = 2, size = "1.2 GB", interval = "20 s" }
        "#;
    let scenario = Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let (outcome, _) = World::new(&scenario, Stores::default()).unwrap().run();
    let traffic = &outcome.traffic[0];
    assert_eq!((traffic.delivered, traffic.damaged), (2, 0), "{traffic:?}");
}
