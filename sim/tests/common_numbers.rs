//! Common random numbers: runs of one seed that differ in policies have equal movement, contacts and offered traffic.
//! Studies compare series seed by seed.

use farlink_report::RunReader;
use farlink_scenario::Scenario;
use farlink_sim::{Options, contacts};
use std::collections::BTreeSet;

const SCENARIO: &str = r#"
name = "crowd"
duration = "20 min"
stop_when_delivered = false
fidelity = "message"
[[mobility]]
name = "walking"
model = "random_waypoint"
area = "300 m"
speed = ["0.5 m/s", "1.5 m/s"]
pause = ["0 s", "30 s"]
[[radio]]
name = "wifi"
range = "60 m"
rate = "1 Mbit/s"
[[group]]
name = "walker"
count = 12
first_id = 1
mobility = "walking"
radio = "wifi"
router = "ROUTER"
control = "CONTROL"
store_capacity = "CAPACITY"
[[traffic]]
name = "message"
from = "walker"
to = "walker"
bundles = { count = 1000, size = ["50 kB", "100 kB"], interval = ["1 s", "20 s"] }
"#;

fn scenario(router: &str, control: &str, capacity: &str, seed: u64) -> Scenario {
    let text = SCENARIO.replace("ROUTER", router).replace("CONTROL", control).replace("CAPACITY", capacity);
    let mut scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    scenario.set_seed(seed);
    scenario
}

fn created(scenario: &Scenario) -> BTreeSet<(u64, String, u64)> {
    // Only the columns that the offered traffic fixes; all others depend on the policies.
    let folder = tempfile::tempdir().unwrap();
    let options = Options { folder: folder.path().to_path_buf(), ..Options::default() };
    let (run, _) = farlink_sim::run(scenario, &options, &mut |_| {}).unwrap_or_else(|error| panic!("{error:#}"));
    let bundles = RunReader::open(&run).unwrap().bundles().unwrap();
    bundles.iter().map(|bundle| (bundle.created_ns, bundle.source.to_string(), bundle.payload)).collect()
}

const POLICIES: [(&str, &str); 5] = [
    ("epidemic", "drop-oldest"),
    ("epidemic", "rrcc"),
    ("epidemic", "ccc"),
    ("prophet", "storage-routing"),
    ("spray-and-wait", "drop-oldest"),
];

#[test]
fn policies_never_change_contacts_or_demand() {
    let wanted = |router, control, seed| {
        let scenario = scenario(router, control, "500 kB", seed);
        let traffic: Vec<_> = scenario.traffic.iter().map(|t| (t.start, t.from, t.to, t.kind.clone())).collect();
        (contacts::as_lines(&scenario).unwrap().collect::<Vec<_>>(), traffic)
    };
    let expected = wanted("epidemic", "drop-oldest", 7);
    assert!(expected.0.len() > 100 && expected.1.len() > 50);
    for (router, control) in POLICIES {
        assert!(wanted(router, control, 7) == expected, "{router}, {control}");
    }
    assert!(wanted("epidemic", "drop-oldest", 8) != expected, "another seed, another world");
}

#[test]
fn with_room_all_policies_create_alike() {
    let of = |router, control| created(&scenario(router, control, "1 GB", 7));
    let expected = of("epidemic", "drop-oldest");
    assert!(expected.len() > 50);
    for (router, control) in POLICIES {
        assert!(of(router, control) == expected, "{router}, {control}");
    }
}

#[test]
fn full_stores_only_delay_creation() {
    // Controls that evict accept every new bundle; the others make applications wait.
    let of = |router, control| created(&scenario(router, control, "500 kB", 7));
    let expected = of("epidemic", "drop-oldest");
    assert_eq!(expected, of("spray-and-wait", "drop-oldest"));
    let sizes = |created: &BTreeSet<(u64, String, u64)>| {
        created.iter().map(|(_, node, size)| (node.clone(), *size)).collect::<BTreeSet<_>>()
    };
    for (router, control) in POLICIES {
        assert!(sizes(&of(router, control)).is_subset(&sizes(&expected)), "{router}, {control}");
    }
}
