//! Constellations and ground stations: visibility, light time, and routing.

use farlink_base::{DtnTime, Duration};
use farlink_scenario::Scenario;
use farlink_sim::contacts::as_lines;
use farlink_sim::contacts::sky::{Ephemeris, Pass};
use farlink_sim::{Outcome, Silent, TrafficOutcome, World};

fn scenario(duration: &str, walker: &str, count: u32, radios: &str) -> String {
    // Stations so far apart that a bundle must cross several satellites.
    format!(
        r#"
        name = "sky"
        duration = "{duration}"
        fidelity = "message"
        [[mobility]]
        name = "orbits"
        model = "orbit"
        walker = {{ {walker} }}
        [[mobility]]
        name = "sites"
        model = "ground"
        positions = [["78.23 N", "15.39 E", "450 m"], ["53.0 S", "70.85 W"]]
        {radios}
        [[group]]
        name = "sat"
        count = {count}
        first_id = 100
        mobility = "orbits"
        radio = {all}
        router = "sabr"
        [[group]]
        name = "station"
        count = 2
        first_id = 1
        mobility = "sites"
        radio = "ground"
        router = "sabr"
        lifetime = "12 h"
        [[traffic]]
        name = "south"
        from = "station1"
        to = "station2"
        bundles = {{ count = 20, size = "100 kB", interval = "30 s" }}
        [[traffic]]
        name = "north"
        from = "station2"
        to = "station1"
        bundles = {{ count = 20, size = "100 kB", interval = "30 s" }}
        "#,
        all = if radios.contains("laser") { "[\"ground\", \"laser\"]" } else { "\"ground\"" },
    )
}
const IRIDIUM: &str =
    "planes = 6, per_plane = 11, inclination = \"86.4 deg\", altitude = \"780 km\", phasing = 2, pattern = \"star\"";
const GROUND: &str = r#"
        [[radio]]
        name = "ground"
        neighbours = "ground"
        mask = "8 deg"
        rate = "50 Mbit/s"
"#;
const BOTH: &str = r#"
        [[radio]]
        name = "ground"
        neighbours = "ground"
        mask = "8 deg"
        rate = "50 Mbit/s"
        [[radio]]
        name = "laser"
        neighbours = "grid"
        clearance = "100 km"
        rate = "1 Gbit/s"
        turns = "link"
"#;

fn parse(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"))
}
fn run(scenario: &Scenario) -> Outcome {
    World::new(scenario, Silent).unwrap_or_else(|error| panic!("{error}")).run().0
}
fn delivered(outcome: &Outcome) -> u64 {
    outcome.traffic.iter().map(|traffic| traffic.delivered).sum()
}
fn latency_of_last(traffic: &TrafficOutcome) -> f64 {
    // The last bundle is sent at 570 s.
    traffic.complete_at.expect("all arrived").0 as f64 / 1e9 - 570.0
}
fn passes(scenario: &Scenario) -> Vec<Pass> {
    Ephemeris::of(scenario).unwrap().expect("a sky").passes().to_vec()
}

#[test]
fn constellation_crossing_takes_light_time() {
    let scenario = parse(&scenario("30 min", IRIDIUM, 66, BOTH));
    let outcome = run(&scenario);
    assert_eq!(delivered(&outcome), 40, "{outcome:#?}");
    for traffic in &outcome.traffic {
        // Between high latitudes: 15,000 km over the ground, more along the grid, plus 16 ms of transmission per ground
        // hop.
        let last = latency_of_last(traffic);
        assert!((0.06..0.4).contains(&last), "{last} s");
    }
    assert_eq!(outcome, run(&scenario), "and again");
    assert_eq!(outcome.radios[1].contacts, 121, "the grid of a star: its last plane meets the first one");
}

#[test]
fn gaps_in_coverage_cost_sabr_nothing() {
    // At this mask 66 satellites leave gaps: bundles wait at the satellite whose own pass comes first.
    let text = scenario("1 h", IRIDIUM, 66, BOTH).replace("mask = \"8 deg\"", "mask = \"30 deg\"");
    let planned = run(&parse(&text));
    // Copies to everybody show which bundles can arrive at all.
    let copied = run(&parse(&text.replace("router = \"sabr\"", "router = \"epidemic\"")));
    assert!(delivered(&planned) > 0 && delivered(&planned) == delivered(&copied), "{planned:#?}");
    let hops: u64 = planned.radios.iter().map(|radio| radio.counted.sent).sum();
    assert!(hops < 40 * 12, "{hops} hops");
}

#[test]
fn shared_routes_deliver_as_fast() {
    let text = scenario("30 min", IRIDIUM, 66, BOTH);
    let (own, shared) =
        (run(&parse(&text)), run(&parse(&text.replacen("duration", "shared_routes = true\nduration", 1))));
    assert_eq!(delivered(&shared), 40, "{shared:#?}");
    for (own, shared) in own.traffic.iter().zip(&shared.traffic) {
        let (own, shared) = (latency_of_last(own), latency_of_last(shared));
        assert!((own - shared).abs() < 0.05, "{own} and {shared} s");
    }
    let sent = |outcome: &Outcome| outcome.radios.iter().map(|radio| radio.counted.sent).sum::<u64>();
    assert!(sent(&shared).abs_diff(sent(&own)) <= 40, "{} and {} hops", sent(&own), sent(&shared));
}

#[test]
fn single_satellite_carries_bundles() {
    let walker = "planes = 1, per_plane = 1, inclination = \"90 deg\", altitude = \"780 km\"";
    let scenario = parse(&scenario("12 h", walker, 1, GROUND));
    let outcome = run(&scenario);
    assert_eq!(delivered(&outcome), 40, "{outcome:#?}");
    let last = latency_of_last(&outcome.traffic[0]);
    assert!(last > 600.0, "half around the Earth takes its time: {last} s");
}

#[test]
fn passes_match_orbit_plan() {
    let scenario = parse(&scenario("3 h", IRIDIUM, 66, GROUND));
    let orbits = r#"
        [[station]]
        name = "a"
        id = 1
        position = ["78.23 N", "15.39 E", "450 m"]
        [[station]]
        name = "b"
        id = 2
        position = ["53.0 S", "70.85 W"]
        [[constellation]]
        name = "sat"
        first_id = 100
        walker = { planes = 6, per_plane = 11, inclination = "86.4 deg", altitude = "780 km", phasing = 2, pattern = "star" }
        [[link]]
        between = ["stations", "sat"]
        rate = "50 Mbit/s"
        mask = "8 deg"
    "#;
    let start = DtnTime::parse_utc("2026-01-01T00:00:00Z").unwrap();
    let network = farlink_orbits::parse(orbits, std::path::Path::new(""), Some(start)).unwrap();
    let plan = farlink_orbits::contacts(&network, 3 * 3_600_000_000_000, 1, &|_| {}).unwrap();
    let mut up: Vec<_> = plan.contacts.iter().filter(|contact| contact.from.0 < 100).collect();
    up.sort_by_key(|contact| (contact.from, contact.to, contact.start));
    let mut here = passes(&scenario);
    let number = |node: u32| scenario.nodes[node as usize].number;
    here.sort_by_key(|pass| (number(pass.nodes[1]), number(pass.nodes[0]), pass.start));
    assert!(here.len() > 60 && here.len() == up.len(), "{} and {}", here.len(), up.len());
    for (pass, contact) in here.iter().zip(up) {
        assert_eq!((number(pass.nodes[1]), number(pass.nodes[0])), (contact.from, contact.to));
        // The plan gives the departure of light, the simulator its arrival: one light time later.
        for (at, light) in [(pass.start.0, contact.start.0), (pass.end.0, contact.end.0)] {
            assert!(at.abs_diff(light) < 20_000_000, "{at} and {light}");
        }
    }
}

#[test]
fn mask_range_and_beams_bound_contacts() {
    let all = passes(&parse(&scenario("2 h", IRIDIUM, 66, GROUND)));
    let high = passes(&parse(&scenario("2 h", IRIDIUM, 66, &GROUND.replace("8 deg", "60 deg"))));
    assert!(high.len() < all.len() / 2 && !high.is_empty(), "{} of {}", high.len(), all.len());
    let near = passes(&parse(&scenario("2 h", IRIDIUM, 66, &GROUND.replace("mask", "range = \"900 km\"\nmask"))));
    assert!(near.len() < all.len() && !near.is_empty());
    let one = parse(&scenario("2 h", IRIDIUM, 66, &GROUND.replace("mask", "beams = 1\nmask")));
    let mut served = passes(&one);
    served.sort_by_key(|pass| (pass.nodes[1], pass.start));
    assert!(served.len() > 10 && served.len() < all.len());
    let in_turn = served.windows(2).all(|two| two[0].nodes[1] != two[1].nodes[1] || two[0].end <= two[1].start);
    assert!(in_turn, "a station with one beam sees one at a time: {served:#?}");
    assert_eq!(delivered(&run(&parse(&scenario("1 h", IRIDIUM, 66, &BOTH.replace("mask", "beams = 2\nmask"))))), 40);
}

#[test]
fn delay_follows_distance() {
    let scenario = parse(&scenario("10 min", IRIDIUM, 66, BOTH));
    let ephemeris = Ephemeris::of(&scenario).unwrap().unwrap();
    // Two neighbours in a plane: the chord of an eleventh of a circle at 7,158 km.
    let chord_km = 2.0 * (6378.137 + 780.0) * (std::f64::consts::PI / 11.0).sin();
    let light = ephemeris.light([0, 1], farlink_base::Instant::ZERO).as_secs_f64();
    assert!((light - chord_km / 299_792.458).abs() < 1e-9, "{light}");
    // A configured delay of the radio replaces the light time.
    let slow = BOTH.replace("rate = \"50 Mbit/s\"", "rate = \"50 Mbit/s\"\ndelay = \"1 s\"");
    let text = scenario.text.replace(BOTH, &slow);
    let last = latency_of_last(&run(&parse(&text)).traffic[0]);
    assert!((2.0..3.0).contains(&last), "up and down: {last} s");
}

#[test]
fn underground_orbits_are_refused() {
    let text = scenario("1 h", IRIDIUM, 66, GROUND);
    let read = parse(&text);
    let lines: Vec<String> = as_lines(&read).unwrap().collect();
    let pass = passes(&read).into_iter().min_by_key(|pass| (pass.start, pass.nodes)).unwrap();
    assert!(lines.len() >= passes(&read).len());
    assert!(lines[0].contains(&read.nodes[pass.nodes[0] as usize].name), "{} {pass:?}", lines[0]);
    let mut many = parse(&text.replace("neighbours = \"ground\"", "neighbours = \"all\""));
    many.duration = Duration::from_secs(60);
    assert!(World::new(&many, Silent).is_ok());
}

#[test]
fn how_to_scenario_runs() {
    let page = include_str!("../../docs/how-to/simulate-a-constellation.md");
    let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a scenario");
    let mut scenario = parse(text);
    scenario.duration = Duration::from_secs(600);
    scenario.set_seed(1);
    let outcome = run(&scenario);
    let created: u64 = outcome.traffic.iter().map(|traffic| traffic.created).sum();
    assert!(created > 20 && delivered(&outcome) + 2 >= created, "{} of {created}", delivered(&outcome));
}
