//! Security rules of a scenario, at packet and at message level: valid bundles are delivered, others are deleted with
//! the reason.

use farlink_base::{DeleteReason, Event, Instant};
use farlink_scenario::{Fidelity, Scenario};
use farlink_sim::{Observer, Outcome, World};

fn scenario(rules: &str, layer: &str, fidelity: Fidelity) -> Scenario {
    // Source, verifier and acceptor of a rule are three different nodes.
    let text = format!(
        r#"
        name = "security"
        seed = 3
        duration = "5 min"
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
        name = "ab"
        between = ["a", "b"]
        layer = "{layer}"
        rate = "1 Mbit/s"
        delay = "100 ms"
        [[link]]
        name = "bc"
        between = ["b", "c"]
        layer = "{layer}"
        rate = "1 Mbit/s"
        delay = "100 ms"
        [[traffic]]
        name = "t"
        from = "a"
        to = "c"
        start = "1 s"
        bundles = {{ count = 20, size = "20 kB" }}
        {rules}
        "#
    );
    let mut scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    scenario.fidelity = fidelity;
    scenario
}

#[derive(Default)]
struct Deleted(Vec<(usize, DeleteReason)>);
impl Observer for Deleted {
    fn event(&mut self, _: Instant, node: usize, event: &Event) {
        if let Event::Deleted { reason, .. } = event
            && *reason != DeleteReason::Done
        {
            self.0.push((node, *reason));
        }
    }
}

fn rule(nodes: &str, role: &str, service: &str, key: &str, more: &str) -> String {
    format!(
        "[[security]]\nnodes = \"{nodes}\"\nrole = \"{role}\"\nservice = \"{service}\"\nkey = \"{key}\"\n\
         from = \"ipn:1.*\"\nto = \"ipn:3.*\"\n{more}\n"
    )
}
fn run(rules: &[String], layer: &str, fidelity: Fidelity) -> (Outcome, Vec<(usize, DeleteReason)>) {
    let (outcome, deleted) = World::new(&scenario(&rules.concat(), layer, fidelity), Deleted::default()).unwrap().run();
    (outcome, deleted.0)
}
fn in_all(test: impl Fn(&str, Fidelity)) {
    // Both fidelities, over a stream layer and a block layer.
    for layer in ["tcpclv4", "ltp"] {
        for fidelity in [Fidelity::Full, Fidelity::Message] {
            test(layer, fidelity);
        }
    }
}

#[test]
fn checked_bundles_cross_a_verifier() {
    in_all(|layer, fidelity| {
        let primary = "targets = [\"primary\"]";
        let rules = [
            rule("a", "source", "integrity", "mac", primary),
            rule("a", "source", "confidentiality", "cipher", "wrap = true"),
            rule("b", "verifier", "integrity", "mac", primary),
            rule("c", "acceptor", "integrity", "mac", primary),
            rule("c", "acceptor", "confidentiality", "cipher", ""),
        ];
        let (outcome, deleted) = run(&rules, layer, fidelity);
        assert_eq!((outcome.traffic[0].delivered, deleted.len()), (20, 0), "{layer} {fidelity:?}: {deleted:?}");
    });
}

#[test]
fn wrong_key_and_missing_operation_fail() {
    in_all(|layer, fidelity| {
        // The relay verifies and the acceptor requires: each failure is detected where its rule applies.
        let wrong = [rule("a", "source", "integrity", "mac", ""), rule("b", "verifier", "integrity", "other", "")];
        let (outcome, deleted) = run(&wrong, layer, fidelity);
        assert_eq!(outcome.traffic[0].delivered, 0, "{layer} {fidelity:?}");
        assert_eq!(deleted, vec![(1, DeleteReason::FailedSecurity); 20], "{layer} {fidelity:?}");
        let (outcome, deleted) = run(&[rule("c", "acceptor", "integrity", "mac", "")], layer, fidelity);
        assert_eq!(outcome.traffic[0].delivered, 0);
        assert_eq!(deleted, vec![(2, DeleteReason::MissingSecurity); 20], "{layer} {fidelity:?}");
    });
}

#[test]
fn intermediate_nodes_add_and_remove_security() {
    in_all(|layer, fidelity| {
        let rules = [
            rule("b", "source", "confidentiality", "cipher", ""),
            rule("c", "acceptor", "confidentiality", "cipher", ""),
        ];
        let (outcome, deleted) = run(&rules, layer, fidelity);
        assert_eq!((outcome.traffic[0].delivered, deleted.len()), (20, 0), "{layer} {fidelity:?}: {deleted:?}");
        let rules = [
            rule("a", "source", "confidentiality", "cipher", ""),
            rule("b", "acceptor", "confidentiality", "cipher", ""),
        ];
        let (outcome, deleted) = run(&rules, layer, fidelity);
        assert_eq!((outcome.traffic[0].delivered, deleted.len()), (20, 0), "{layer} {fidelity:?}: {deleted:?}");
    });
}

#[test]
fn undecipherable_bundle_is_not_delivered() {
    in_all(|layer, fidelity| {
        let (outcome, deleted) = run(&[rule("a", "source", "confidentiality", "cipher", "")], layer, fidelity);
        assert_eq!(outcome.traffic[0].delivered, 0);
        assert_eq!(deleted, vec![(2, DeleteReason::UnknownSecurity); 20], "{layer} {fidelity:?}");
    });
}

#[test]
fn a_seed_replays_a_secured_run() {
    let rules = [
        rule("a", "source", "confidentiality", "cipher", "wrap = true"),
        rule("c", "acceptor", "confidentiality", "cipher", ""),
    ];
    let once = || format!("{:?}", run(&rules, "ltp", Fidelity::Full).0);
    assert_eq!(once(), once());
}
