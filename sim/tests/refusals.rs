//! Refusals by a neighbour without space, at packet and at message level: the sender is notified, keeps the bundle
//! during its lifetime and retries with increasing backoff; small bundles behind it pass.

use farlink_base::{BundleHandle, DeleteReason, Event, Instant};
use farlink_scenario::{Fidelity, Scenario};
use farlink_sim::{Observer, World};

fn scenario(layer: &str, fidelity: Fidelity) -> Scenario {
    // Three bundles for a node whose store has half the size of each, followed by small ones.
    let text = format!(
        r#"
        name = "refusals"
        seed = 5
        duration = "4 min"
        [[node]]
        name = "a"
        id = "ipn:1.0"
        [[node]]
        name = "b"
        id = "ipn:2.0"
        store_capacity = "50 kB"
        [[link]]
        name = "ab"
        between = ["a", "b"]
        layer = "{layer}"
        rate = "1 Mbit/s"
        delay = "100 ms"
        [[traffic]]
        name = "large"
        from = "a"
        to = "b"
        start = "1 s"
        lifetime = "100 s"
        bundles = {{ count = 3, size = "100 kB" }}
        [[traffic]]
        name = "small"
        from = "a"
        to = "b"
        start = "2 s"
        bundles = {{ count = 20, size = "1 kB", interval = "500 ms" }}
        "#
    );
    let mut scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    scenario.fidelity = fidelity;
    scenario
}

/// Events of the large bundles in milliseconds: transmissions, refusals, expiries.
#[derive(Default, PartialEq, Debug)]
struct RefusalsSeen {
    left: Vec<u64>,
    refused: Vec<u64>,
    heard: usize,
    expired: Vec<u64>,
    pieces: usize,
    large: Vec<BundleHandle>,
}
impl Observer for RefusalsSeen {
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        let ms = at.0 / 1_000_000;
        match (node, event) {
            (0, Event::Seen { bundle, payload: 100_000, .. }) => self.large.push(*bundle),
            (0, Event::Transmitting { bundle, .. }) if self.large.contains(bundle) => self.left.push(ms),
            (0, Event::ForwardFailed { bundle, .. }) if self.large.contains(bundle) => self.heard += 1,
            (0, Event::Fragmented { .. }) => self.pieces += 1,
            (0, Event::Deleted { reason: DeleteReason::Expired, .. }) => self.expired.push(ms),
            (1, Event::Refused { .. }) => self.refused.push(ms),
            _ => {}
        }
    }
}

#[test]
fn refused_bundle_backs_off_alone() {
    for layer in ["ltp", "tcpclv4", "tcpclv3"] {
        let [full, message] = [Fidelity::Full, Fidelity::Message].map(|fidelity| {
            let (outcome, seen) = World::new(&scenario(layer, fidelity), RefusalsSeen::default()).unwrap().run();
            let [large, small] = &outcome.traffic[..] else { panic!("{outcome:?}") };
            assert_eq!((large.created, large.delivered, small.delivered), (3, 0, 20), "{layer} {fidelity:?}");
            assert!(
                small.complete_at.is_some_and(|at| at < Instant(20_000_000_000)),
                "{layer} {fidelity:?}: {small:?}"
            );
            // Kept until the end of the lifetime, with a notification for each attempt.
            let expired: Vec<u64> = seen.expired.iter().map(|ms| ms / 100).collect();
            assert_eq!(expired, [1_010; 3], "{layer} {fidelity:?}");
            assert_eq!((seen.heard, seen.pieces), (seen.left.len(), 0), "{layer} {fidelity:?}");
            assert_eq!(seen.refused.len(), seen.left.len(), "{layer} {fidelity:?}");
            // Backoff of 1, 2, 4 ... 64 s, plus the time to cross.
            assert!((18..=21).contains(&seen.left.len()), "{layer} {fidelity:?}: {:?}", seen.left);
            seen
        });
        // Equal in both fidelities, except for headers and handshakes.
        let apart = full.refused.iter().zip(&message.refused).map(|(f, m)| f.abs_diff(*m)).max();
        assert_eq!(full.refused.len(), message.refused.len(), "{layer}");
        assert!(apart.is_some_and(|ms| ms < 1500), "{layer}: {apart:?}\n{full:?}\n{message:?}");
    }
}

#[test]
fn aggregate_refusal_affects_one_bundle() {
    // One session carries several bundles and has one verdict; neither the large nor the small ones may be lost or
    // delayed by it.
    let mut scenario = scenario("ltp", Fidelity::Full);
    let layer = &mut scenario.links[0].layer;
    // With this wait no session is in progress when the lifetime ends.
    layer.settings = vec![("aggregate", 400_000), ("aggregate_wait", 3_000_000_000)];
    let (outcome, seen) = World::new(&scenario, RefusalsSeen::default()).unwrap().run();
    assert_eq!([0, 1].map(|of| outcome.traffic[of].delivered), [0, 20], "{outcome:?}");
    assert_eq!((seen.expired.len(), seen.heard), (3, seen.left.len()), "kept and told of: {seen:?}");
    assert!(seen.refused.len() > seen.left.len(), "in the block, and alone: {seen:?}");
    assert!(seen.refused[..3].iter().all(|ms| *ms == seen.refused[0]), "all three share a block: {seen:?}");
}

#[test]
fn refusal_racing_freed_room_retries() {
    // `a` can hold one of two bundles; the second is requested in the very call in which the first expires.
    let text = r#"
        name = "starved"
        duration = "60 s"
        fidelity = "message"
        node_defaults = { router = "epidemic" }
        [[node]]
        name = "a"
        id = "ipn:1.0"
        store_capacity = "1 MB"
        [[node]]
        name = "b"
        id = "ipn:2.0"
        [[link]]
        name = "ab"
        between = ["a", "b"]
        layer = "ltp"
        rate = "8 Mbit/s"
        [[contact]]
        link = "ab"
        start = "30 s"
        end = "50 s"
        [[traffic]]
        name = "first"
        from = "a"
        to = "b"
        lifetime = "10 s"
        bundles = { count = 1, size = "600 kB" }
        [[traffic]]
        name = "second"
        from = "a"
        to = "b"
        start = "START"
        lifetime = "100 s"
        bundles = { count = 1, size = "600 kB" }
        "#;
    /// Times of refusals at `a`, and of expiries.
    #[derive(Default)]
    struct RefusedBundle(Vec<u64>, Vec<u64>);
    impl Observer for RefusedBundle {
        fn event(&mut self, at: Instant, node: usize, event: &Event) {
            match event {
                Event::Refused { .. } if node == 0 => self.0.push(at.0),
                Event::Deleted { reason: DeleteReason::Expired, .. } => self.1.push(at.0),
                _ => {}
            }
        }
    }
    let run = |start: u64| {
        let text = text.replace("START", &format!("{start} ns"));
        let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let (outcome, RefusedBundle(refused, expired)) = World::new(&scenario, RefusedBundle::default()).unwrap().run();
        let second = &outcome.traffic[1];
        assert_eq!((second.created, second.delivered), (1, 1), "at {start} ns: {second:?}");
        (refused, expired)
    };
    let (_, expired) = run(5_000_000_000);
    let (refused, expired) = run(expired[0]);
    assert_eq!((refused.len(), refused.first()), (1, expired.first()), "refused as the first expires");
}

#[test]
fn mutually_full_nodes_never_deadlock() {
    // Applications wait for space at two nodes that are full of bundles for each other, directly and with two full
    // relays between them.
    let ends = |relays: &[&str]| -> Vec<String> {
        [&["a"], relays, &["z"]].concat().iter().map(ToString::to_string).collect()
    };
    for (layer, names) in
        [("ltp", ends(&[])), ("tcpclv4", ends(&[])), ("ltp", ends(&["m", "n"])), ("tcpclv4", ends(&["m", "n"]))]
    {
        let mut text = "name = \"full\"\nseed = 5\nduration = \"5 min\"\n".to_string();
        for (number, name) in names.iter().enumerate() {
            text += &format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{}.0\"\nstore_capacity = \"1 MB\"\n", number + 1);
        }
        for pair in names.windows(2) {
            let [a, b] = pair else { panic!() };
            text += &format!(
                "[[link]]\nname = \"{a}{b}\"\nbetween = [\"{a}\", \"{b}\"]\nlayer = \"{layer}\"\nrate = \"1 Mbit/s\"\n"
            );
        }
        // The middle link opens when all stores are full.
        let middle = format!("{}{}", names[names.len() / 2 - 1], names[names.len() / 2]);
        text += &format!("[[contact]]\nlink = \"{middle}\"\nstart = \"30 s\"\nend = \"300 s\"\n");
        for (from, to) in [("a", "z"), ("z", "a")] {
            text += &format!(
                "[[traffic]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
                 bundles = {{ count = 150, size = \"25 kB\", interval = \"150 ms\" }}\n"
            );
        }
        let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let (outcome, _) = World::new(&scenario, RefusalsSeen::default()).unwrap().run();
        for flow in &outcome.traffic {
            assert!(flow.delivered > 30, "{layer} {names:?}: {outcome:?}");
            assert_eq!(flow.delivered, flow.created, "{layer} {names:?}: {outcome:?}");
        }
    }
}
