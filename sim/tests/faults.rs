//! Faults of a scenario: restarts, link outages, wrong clocks.

use farlink_base::{Event, EventClass, Instant};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, Outcome, World};
use std::collections::BTreeMap;

/// Events with their time in seconds and node.
#[derive(Default)]
struct Log(Vec<(f64, usize, Event)>);
impl Observer for Log {
    fn wants(&self, class: EventClass) -> bool {
        class != EventClass::Segment
    }
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        self.0.push((at.as_secs_f64(), node, *event));
    }
}
impl Log {
    fn faults(&self) -> Vec<(f64, usize, &'static str)> {
        let told = |(at, node, event): &(f64, usize, Event)| match event {
            Event::Fault { what, .. } => Some((*at, *node, *what)),
            _ => None,
        };
        self.0.iter().filter_map(told).collect()
    }
    fn count(&self, of: usize, which: impl Fn(&Event) -> bool) -> usize {
        self.0.iter().filter(|(_, node, event)| *node == of && which(event)).count()
    }
}

fn row(top: &str, node: &str, layer: &str, more: &str) -> Scenario {
    // A relay between source and destination, so that a fault can strike each role.
    let nodes: String = [("a", 1), ("b", 2), ("c", 3)]
        .map(|(name, n)| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n{node}\n"))
        .concat();
    let links: String = [("ab", "a", "b"), ("bc", "b", "c")]
        .map(|(name, one, other)| {
            format!(
                "[[link]]\nname = \"{name}\"\nbetween = [\"{one}\", \"{other}\"]\nlayer = \"{layer}\"\n\
                 rate = \"1 Mbit/s\"\ndelay = \"100 ms\"\n"
            )
        })
        .concat();
    let text = format!("name = \"row\"\nduration = \"30 min\"\n{top}\n{nodes}{links}{more}");
    Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"))
}
const BUNDLES: &str = "[[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"c\"\n\
                       bundles = { count = 60, size = [\"1 B\", \"30 kB\"], interval = \"500 ms\" }\n";
fn restart(node: &str, at: &str, lasts: &str) -> String {
    format!("[[fault]]\nkind = \"restart\"\nnode = \"{node}\"\nat = \"{at}\"\nlasts = \"{lasts}\"\n")
}
fn run(scenario: &Scenario) -> (Outcome, Log) {
    World::new(scenario, Log::default()).unwrap_or_else(|error| panic!("{error}")).run()
}

#[test]
fn durable_restart_loses_nothing() {
    // Every node is killed once, the relay twice, each time with bundles in transfer.
    for (fidelity, layer) in [("full", "ltp"), ("full", "tcpclv4"), ("full", "tcpclv3"), ("message", "ltp")] {
        let faults: String = [("a", "7.15 s"), ("b", "12.35 s"), ("c", "17.1 s"), ("b", "23.3 s")]
            .map(|(node, at)| restart(node, at, "3 s"))
            .concat();
        let top = format!("fidelity = \"{fidelity}\"");
        let (outcome, log) = run(&row(&top, "store = \"durable\"", layer, &(BUNDLES.to_string() + &faults)));
        let traffic = &outcome.traffic[0];
        assert_eq!((traffic.created, traffic.delivered, traffic.damaged), (60, 60, 0), "{fidelity} {layer}");
        assert_eq!(outcome.faults, 4);
        assert_eq!(log.faults().len(), 8, "{:?}", log.faults());
        let recovered = |node| log.count(node, |event| matches!(event, Event::Recovered { .. }));
        assert!((0..3).map(recovered).sum::<usize>() > 0, "{fidelity} {layer}");
    }
}

#[test]
fn down_node_is_silent() {
    let faults = restart("b", "5 s", "10 s");
    let (outcome, log) = run(&row("", "store = \"durable\"", "ltp", &(BUNDLES.to_string() + &faults)));
    let said: Vec<f64> = log.0.iter().filter(|(_, node, _)| *node == 1).map(|(at, ..)| *at).collect();
    assert!(said.iter().all(|at| *at <= 5.0 || *at >= 15.0), "{said:?}");
    assert!(said.iter().any(|at| *at > 15.0));
    assert_eq!(outcome.traffic[0].delivered, 60);
}

#[test]
fn memory_store_dies_with_node() {
    let faults = restart("b", "40 s", "1 s");
    let contact = "[[contact]]\nlink = \"bc\"\nstart = \"60 s\"\nend = \"20 min\"\n";
    // The bundles wait at `b` for the contact at 60 s when it is killed at 40 s.
    for (store, delivered) in [("memory", 0), ("durable", 60)] {
        let node = format!("store = \"{store}\"");
        let (outcome, _) = run(&row("", &node, "tcpclv4", &(BUNDLES.to_string() + contact + &faults)));
        assert_eq!((outcome.traffic[0].created, outcome.traffic[0].delivered), (60, delivered), "{store}");
    }
}

#[test]
fn applications_resume_after_restart() {
    let faults = restart("a", "10 s", "20 s") + &restart("c", "12 s", "5 s");
    let (outcome, log) = run(&row("", "store = \"durable\"", "tcpclv4", &(BUNDLES.to_string() + &faults)));
    let created: Vec<f64> = log
        .0
        .iter()
        .filter(|(_, node, event)| *node == 0 && matches!(event, Event::Created { .. }))
        .map(|e| e.0)
        .collect();
    assert!(created.iter().all(|at| *at <= 10.0 || *at >= 30.0), "{created:?}");
    assert_eq!((outcome.traffic[0].created, outcome.traffic[0].delivered), (60, 60));
}

#[test]
fn link_outage_is_unannounced() {
    let fault = "[[fault]]\nkind = \"link_down\"\nlink = \"bc\"\nat = \"5 s\"\nlasts = \"10 s\"\nevery = \"20 s\"\n";
    for top in ["", "fidelity = \"message\""] {
        let (outcome, log) = run(&row(top, "", "ltp", &(BUNDLES.to_string() + fault)));
        let arrived = log.0.iter().filter(|(_, node, event)| *node == 2 && matches!(event, Event::Received { .. }));
        // Bundles that left in the last moment arrive a tenth of a second later.
        let in_gap = |at: f64| (5.2..15.0).contains(&(at % 20.0));
        assert!(arrived.clone().all(|(at, ..)| !in_gap(*at)), "{top}");
        assert!(arrived.count() >= 60);
        assert_eq!(outcome.traffic[0].delivered, 60);
        let told: Vec<_> = log.faults().into_iter().filter(|(_, node, _)| *node == 2).take(3).collect();
        assert_eq!(told, [(5.0, 2, "link down"), (15.0, 2, "link up"), (25.0, 2, "link down")]);
    }
}

#[test]
fn clock_faults_expire_nothing_early() {
    let jump = "[[fault]]\nkind = \"clock\"\nnode = \"b\"\nat = \"8 s\"\njump = \"2 min\"\n\
                [[fault]]\nkind = \"clock\"\nnode = \"c\"\nat = \"9 s\"\njump = \"-2 h\"\n\
                [[fault]]\nkind = \"clock\"\nnode = \"a\"\nat = \"1 s\"\ndrift_ppm = 500\n";
    let (outcome, log) = run(&row("", "", "ltp", &(BUNDLES.to_string() + jump)));
    let steps = |of: usize| {
        let step = |event: &(f64, usize, Event)| match event {
            (_, node, Event::ClockStepped { step_ms }) if *node == of => Some(*step_ms),
            _ => None,
        };
        log.0.iter().filter_map(step).collect::<Vec<i64>>()
    };
    assert_eq!((steps(1), steps(2)), (vec![120_000], vec![-7_200_000]));
    assert_eq!(outcome.traffic[0].delivered, 60);
    assert_eq!(log.faults().len(), 3);
}

#[test]
fn faulty_run_replays_from_seed() {
    let faults = "[[fault]]\nkind = \"restart\"\nnode = \"b\"\nat = \"5 s\"\nlasts = \"1 s\"\nevery = \"7 s\"\n\
                  [[fault]]\nkind = \"link_down\"\nlink = \"ab\"\nat = \"6 s\"\nlasts = \"2 s\"\nevery = \"11 s\"\n\
                  [[fault]]\nkind = \"clock\"\nnode = \"a\"\nat = \"9 s\"\njump = \"-1 s\"\n";
    let scenario = row("", "store = \"durable\"", "tcpclv4", &(BUNDLES.to_string() + faults));
    let (first, _) = run(&scenario);
    let (second, _) = World::new(&scenario, farlink_sim::Silent).unwrap().run();
    assert_eq!(first, second);
    assert_eq!((first.traffic[0].created, first.traffic[0].delivered), (60, 60));
}

fn radios(faults: &str) -> Scenario {
    // Ten walkers in 400 m meet so often that faults strike contacts.
    let text = format!(
        "name = \"r\"\nduration = \"20 min\"\nstop_when_delivered = false\nfidelity = \"message\"\n\
         [[mobility]]\nname = \"m\"\nmodel = \"random_waypoint\"\narea = \"400 m\"\nspeed = [\"1 m/s\", \"3 m/s\"]\n\
         [[radio]]\nname = \"radio\"\nrange = \"120 m\"\nrate = \"1 Mbit/s\"\ndelay = \"0 s\"\n\
         [[group]]\nname = \"n\"\ncount = 10\nfirst_id = 1\nmobility = \"m\"\nradio = \"radio\"\nrouter = \"epidemic\"\n\
         store = \"durable\"\n\
         [[traffic]]\nname = \"t\"\nfrom = \"n\"\nto = \"n\"\n\
         bundles = {{ count = 50, size = \"20 kB\", interval = [\"1 s\", \"9 s\"] }}\n{faults}"
    );
    Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[test]
fn down_radio_nodes_return() {
    let names: Vec<String> = radios("").nodes.iter().map(|node| node.name.clone()).collect();
    let restarts = names.iter().enumerate().map(|(n, name)| {
        let at = 20 + 17 * n;
        format!(
            "[[fault]]\nkind = \"restart\"\nnode = \"{name}\"\nat = \"{at} s\"\nlasts = \"20 s\"\nevery = \"3 min\"\n"
        )
    });
    let deaf = format!(
        "[[fault]]\nkind = \"link_down\"\nbetween = [\"{}\", \"{}\"]\nat = \"1 s\"\nlasts = \"19 min\"\n",
        names[1], names[0]
    );
    let scenario = radios(&(restarts.collect::<String>() + &deaf));
    let (outcome, log) = run(&scenario);
    let delivered: u64 = outcome.traffic.iter().map(|traffic| traffic.delivered).sum();
    let created: u64 = outcome.traffic.iter().map(|traffic| traffic.created).sum();
    assert!(delivered > 40 && delivered <= created, "{delivered} of {created}");
    let mut down: BTreeMap<usize, bool> = BTreeMap::new();
    for (at, node, event) in &log.0 {
        match event {
            Event::Fault { what: "node down", .. } => drop(down.insert(*node, true)),
            Event::Fault { what: "node up", .. } => drop(down.insert(*node, false)),
            Event::Fault { .. } => {}
            event => assert!(!down.get(node).copied().unwrap_or(false), "{at}: {node} says {event:?}"),
        }
        let pair = if let Event::Received { from, .. } = event { Some((*node, from.0 as usize - 1)) } else { None };
        assert!(!matches!(pair, Some((0, 1) | (1, 0))) || *at > 1140.0, "{at}: the two are deaf to each other");
    }
    assert_eq!(run(&scenario).0, outcome);
}
