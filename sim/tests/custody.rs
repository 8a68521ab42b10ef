//! Custody at packet and at message level: the custodian resends lost bundles.

use farlink_base::{Event, Instant};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, World};

#[derive(Default)]
struct CustodyCounts {
    created: usize,
    delivered: usize,
    taken: [usize; 3],
    released: [usize; 3],
    repeated: usize,
    signals: usize,
}
impl Observer for CustodyCounts {
    fn event(&mut self, _: Instant, node: usize, event: &Event) {
        match event {
            Event::Created { .. } => self.created += 1,
            Event::Delivered { .. } => self.delivered += 1,
            Event::CustodyTaken { .. } => self.taken[node] += 1,
            Event::CustodyReleased { .. } => self.released[node] += 1,
            Event::CustodyRepeated { .. } => self.repeated += 1,
            Event::CustodySignalled { .. } => self.signals += 1,
            _ => {}
        }
    }
}

fn run(fidelity: &str, version: u8, layer: &str, loss: &str) -> CustodyCounts {
    run_with(fidelity, version, (layer, loss), "", "")
}
fn run_with(fidelity: &str, version: u8, (layer, loss): (&str, &str), b: &str, more: &str) -> CustodyCounts {
    // Node `b` has these additional keys, and the scenario ends with `more`.
    let text = format!(
        r#"
        name = "custody"
        duration = "600 s"
        fidelity = "{fidelity}"
        node_defaults = {{ store = "durable", custody = "take", custody_timeout = "5 s", bundle_version = {version}, router = "static" }}
        [[node]]
        name = "a"
        id = "ipn:1.0"
        custody = "ask"
        routes = {{ "ipn:3.*" = "b" }}
        [[node]]
        name = "b"
        id = "ipn:2.0"
        {b}
        [[node]]
        name = "c"
        id = "ipn:3.0"
        routes = {{ "ipn:1.*" = "b" }}
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
        [[traffic]]
        from = "a"
        to = "c"
        bundles = {{ count = 50, size = "1 kB", interval = "100 ms" }}
        # The run goes on until this one is there.
        [[traffic]]
        name = "last"
        from = "a"
        to = "c"
        start = "400 s"
        bundles = {{ count = 1, size = "1 kB", interval = "1 s" }}
        {more}
        "#
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&scenario, CustodyCounts::default()).unwrap().run().1
}

#[test]
fn custody_passes_in_all_modes() {
    for (fidelity, version) in [("full", 6), ("full", 7), ("message", 6), ("message", 7)] {
        let counts = run(fidelity, version, "ltp", "");
        assert_eq!((counts.delivered, counts.repeated), (51, 0), "{fidelity} {version}");
        assert_eq!(counts.taken, [51, 51, 0], "{fidelity} {version}");
        assert_eq!(counts.created, 51, "{fidelity} {version}: signals are no bundles of applications");
        assert!(counts.released.iter().take(2).all(|released| *released >= 50), "{:?}", counts.released);
        // Signals are aggregated: far fewer than one for each transfer.
        assert!(counts.signals < 40, "{fidelity} {version}: {} signals about 100 transfers", counts.signals);
    }
}

#[test]
fn custody_rules_apply_per_node() {
    let rules = "custody = \"take\"\ncustody_rules = { from = [\"ipn:9.*\"] }";
    for fidelity in ["full", "message"] {
        let counts = run_with(fidelity, 7, ("ltp", ""), rules, "");
        assert_eq!((counts.delivered, counts.taken), (51, [51, 0, 0]), "{fidelity}: b takes it from nobody there is");
    }
}

#[test]
fn secured_bundles_stay_in_custody() {
    let rule = |node: &str, role: &str, service: &str| {
        format!(
            "[[security]]\nnodes = \"{node}\"\nrole = \"{role}\"\nservice = \"{service}\"\nfrom = \"ipn:1.*\"\n\
             to = \"ipn:3.*\"\nkey = \"{service}\"\n"
        )
    };
    // The source adds one operation, the relay another.
    let rules = [
        rule("a", "source", "integrity"),
        rule("b", "source", "confidentiality"),
        rule("c", "acceptor", "confidentiality"),
        rule("c", "acceptor", "integrity"),
    ];
    for fidelity in ["full", "message"] {
        let counts = run_with(fidelity, 7, ("ltp", ""), "", &rules.concat());
        assert_eq!((counts.delivered, counts.taken), (51, [51, 51, 0]), "{fidelity}");
        assert!(counts.released.iter().take(2).all(|released| *released >= 50), "{:?}", counts.released);
    }
}

#[test]
fn custody_survives_lossy_layer() {
    for version in [6, 7] {
        let counts = run("full", version, "udpcl", "loss = \"20 %\"");
        assert_eq!(counts.delivered, 51, "version {version}");
        let released = counts.released.iter().take(2).all(|released| *released >= 50);
        assert!(counts.repeated > 0 && released, "version {version}: {:?} released", counts.released);
    }
}

#[test]
fn impossible_custody_is_a_scenario_error() {
    let said = |node: &str| {
        let text = format!("name = \"x\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{node}\n");
        let errors = Scenario::parse(&text).map_or_else(|errors| errors, |_| Vec::new());
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert!(said("custody = \"take\"\nrouter = \"epidemic\"").contains("no custody with copies"));
    assert!(said("custody = \"ask\"").contains("kept through a restart"));
    assert!(said("custody = \"take\"\ncustody_timeout = \"0 s\"").contains("at least 1 ms"));
    assert!(said("custody_rules = { to = [\"ipn:3.*\"] }").contains("rules of custody where there is none"));
    assert!(said("custody = \"take\"\ncustody_rules = { request = [\"*\"] }").contains("no bundle asks for custody"));
    assert!(said("custody = \"take\"\ncustody_rules = { to = [\"ipn:3\"] }").contains("matches no endpoint"));
}
