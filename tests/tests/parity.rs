//! Parity: a scenario of `tests/parity/` makes simulated nodes and real ones decide alike, bundle by
//! bundle and LTP segment by LTP segment; see `tests/parity/README.md`.

mod difference;
mod real;
mod simulated;
mod trace;

use farlink_scenario::Scenario;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Time from writing the configuration to the start of the run.
const LEAD: Duration = Duration::from_millis(2500);
/// Longest stall of the machine that cannot explain a difference: competing events are at least 200 ms apart.
const STALL: Duration = Duration::from_millis(150);

/// All scenarios of the folder, by name.
fn scenarios() -> BTreeMap<String, Scenario> {
    let folder = format!("{}/parity", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let load = |file: PathBuf| {
        let mut scenario = Scenario::load(&file).unwrap_or_else(|errors| panic!("{}: {errors:#?}", file.display()));
        scenario.measure.segments = true;
        (scenario.name.clone(), scenario)
    };
    files.filter(|file| file.extension().is_some_and(|end| end == "toml")).map(load).collect()
}

/// Whether the scenario has LTP sessions, whose numbers follow from the seed.
fn has_ltp(scenario: &Scenario) -> bool {
    scenario.links.iter().any(|link| link.layer.kind.name == "ltp")
}

/// Differences between the worlds, and the machine's longest stall during the real run.
fn compare(scenario: &mut Scenario) -> (String, Duration) {
    let epoch = real::epoch_after(LEAD);
    scenario.epoch = Some(epoch);
    let real = real::run(scenario);
    let simulated = simulated::run(scenario);
    let start = epoch.as_unix_ms() * 1_000_000;
    let [s, r] = [&simulated.lines, &real.lines].map(|lines| trace::read(lines, start, scenario.duration));
    let delivers = |node: &trace::NodeTrace| node.decisions.values().flatten().any(|step| step.what == "delivered");
    let answers = |node: &trace::NodeTrace| node.sessions.values().flatten().any(|what| what.contains("kind=8"));
    assert!(s.iter().any(delivers), "bundles arrive in {}", scenario.name);
    assert!(s.iter().any(answers) || !has_ltp(scenario), "reports arrive in {}", scenario.name);
    (difference::differences(scenario, &s, &r), real.stall.max(difference::lateness(&s, &r)))
}

fn differs(scenario: &mut Scenario) -> String {
    // A stalled machine, not Farlink, may be the cause of a difference: such a run is repeated once.
    let (differences, stall) = compare(scenario);
    if differences.is_empty() || stall <= STALL {
        return differences;
    }
    let name = &scenario.name;
    eprintln!("{name}: this machine stood still for {stall:?}; the run is repeated once\n{differences}");
    compare(scenario).0
}

#[test]
fn simulated_and_real_decisions_agree() {
    let mut scenarios = scenarios();
    let differences: String = std::thread::scope(|scope| {
        let runs: Vec<_> = scenarios.values_mut().map(|scenario| scope.spawn(|| differs(scenario))).collect();
        runs.into_iter().map(|run| run.join().expect("the run ends")).collect()
    });
    assert!(differences.is_empty(), "the worlds differ\n{differences}");
}

#[test]
fn seed_replays_a_simulation() {
    for (name, mut scenario) in scenarios() {
        scenario.epoch = Some(farlink_sim::DEFAULT_EPOCH);
        let (first, second) = (simulated::run(&scenario), simulated::run(&scenario));
        assert_eq!(first.lines, second.lines, "{name}");
        assert_eq!(first.trace, second.trace, "{name}");
        // Session numbers of LTP are random: another seed must show in the trace.
        scenario.seed += 1;
        let differs = simulated::run(&scenario).trace != first.trace;
        assert!(differs || !has_ltp(&scenario), "{name}: another seed is another run");
    }
}

/// Event lines of a simulation.
fn simulation(scenario: &Scenario) -> Vec<Vec<String>> {
    simulated::run(&Scenario { epoch: Some(farlink_sim::DEFAULT_EPOCH), ..scenario.clone() }).lines
}

/// Traces of a simulation's event lines.
fn read(scenario: &Scenario, lines: &[Vec<String>]) -> Vec<trace::NodeTrace> {
    trace::read(lines, farlink_sim::DEFAULT_EPOCH.as_unix_ms() * 1_000_000, scenario.duration)
}

#[test]
fn parity_scenarios_cover_their_purpose() {
    let scenarios = scenarios();
    let run = |name: &str| read(&scenarios[name], &simulation(&scenarios[name]));
    let times = |node: &trace::NodeTrace, source: &str, what: &str| -> Vec<Duration> {
        let of = |key: &Option<trace::Bundle>| key.as_ref().is_some_and(|bundle| bundle.to_string().contains(source));
        let steps = node.decisions.iter().filter(|(key, _)| of(key)).flat_map(|(_, steps)| steps);
        steps.filter(|step| step.what.starts_with(what)).map(|step| step.at).collect()
    };
    let relay = run("relay");
    let order = ["ipn:1.10006", "ipn:1.10005", "ipn:1.10004"].map(|source| times(&relay[0], source, "transmitting"));
    assert!(order.iter().all(|of| !of.is_empty()) && order.is_sorted(), "the urgent overtake: {order:?}");
    for (node, source) in [(0, "ipn:1.10007"), (1, "ipn:2.10008")] {
        assert_eq!(times(&relay[node], source, "deleted reason=expired").len(), 1, "{source}");
    }
    assert_eq!(times(&relay[2], "ipn:3.10009", "deleted").len(), 0, "still waits");
    let segments = |node: &trace::NodeTrace, what: &str| -> Vec<usize> {
        node.sessions.values().map(|of| of.iter().filter(|segment| segment.contains(what)).count()).collect()
    };
    let blocks = run("blocks");
    let delivered = times(&blocks[2], "ipn:1.10000", "delivered").len();
    assert_eq!(delivered, 9, "three blocks of four, four and one bundle");
    assert_eq!(segments(&blocks[1], "kind=3").iter().sum::<usize>(), 5, "and one for each larger bundle");
    let reports = segments(&blocks[3], "kind=8");
    assert!(reports.iter().any(|sent| *sent >= 10), "a report for each 30 kB of 300 kB: {reports:?}");
    let late = run("late");
    let delivered = times(&late[2], "ipn:1.10000", "delivered");
    assert!(matches!(delivered[..], [at] if at < Duration::from_secs(4)), "by the relay: {delivered:?}");
    let leaves = |name: &str| -> Vec<u64> {
        let times = times(&run(name)[0], "ipn:1.10000", "transmitting");
        times.iter().map(Duration::as_secs).collect()
    };
    // Meetings are at 1 s and 3 s of the scenario.
    let [epidemic, spray] = ["meeting-epidemic", "meeting-spray"].map(leaves);
    assert_eq!((epidemic, spray), (vec![1, 3, 1, 3, 3], vec![1, 3, 1, 3, 3]), "at each meeting");
    assert_eq!(leaves("meeting-prophet"), [3, 3, 3], "at the first meeting nobody had met the destination");
    assert_eq!(leaves("meeting-worth"), [1, 3, 1, 1, 1], "there was room for three: the first gave way");
    let pieces = run("pieces");
    assert_eq!(times(&pieces[0], "ipn:1.10000", "fragmented").len(), 2);
    assert_eq!(times(&pieces[1], "ipn:1.10000", "reassembled").len(), 1);
}

#[test]
fn nothing_happens_right_before_the_end() {
    // Real nodes are late by milliseconds: a decision that is due just before the end would be missing from the real
    // run.
    for (name, scenario) in scenarios() {
        let nodes = read(&scenario, &simulation(&scenario));
        let steps = nodes.iter().flat_map(|node| node.decisions.values().flatten());
        let last = steps.max_by_key(|step| step.at).expect("decisions");
        let left = scenario.duration.saturating_sub(last.at);
        assert!(left >= Duration::from_millis(200), "{name}: {left:?} before the end: {}", last.what);
    }
}

#[test]
fn difference_names_its_origin() {
    let scenario = scenarios().remove("relay").expect("a scenario `relay`");
    let lines = simulation(&scenario);
    let read = |lines: &[Vec<String>]| read(&scenario, lines);
    assert_eq!(difference::differences(&scenario, &read(&lines), &read(&lines)), "");
    // Decisions and segments are compared in different ways, so one difference of each kind is made.
    let mut other = lines.clone();
    let at = other[1].iter().position(|line| line.contains("\"event\":\"routed\"")).unwrap();
    other[1][at] = other[1][at].replace("\"ground\"", "\"space\"");
    let segment = other[1].iter().position(|line| line.contains("\"event\":\"ltp_segment\"")).unwrap();
    other[1].remove(segment);
    let text = difference::differences(&scenario, &read(&lines), &read(&other));
    for part in ["scenario `relay`, seed 11, node `b`, bundle 1 of ipn:1.1000", "! ", "link=ground", "LTP session"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}
