//! Constellations, stations and radios with a line of sight: their meaning, and messages for mistakes.

use farlink_scenario::Scenario;
use farlink_scenario::motion::sky::{Neighbours, Site, Walker};
use farlink_scenario::motion::{Model, Reach};

const GOOD: &str = r#"
name = "sky"
duration = "1 h"
fidelity = "message"
[[mobility]]
name = "orbits"
model = "orbit"
walker = { planes = 6, per_plane = 11, inclination = "86.4 deg", altitude = "780 km", phasing = 2, pattern = "star" }
[[mobility]]
name = "sites"
model = "ground"
positions = [["78.23 N", "15.39 E", "450 m"], ["53.0 S", "70.85 W"]]
[[mobility]]
name = "walking"
model = "random_waypoint"
area = "1 km"
speed = "1 m/s"
[[radio]]
name = "ka"
neighbours = "ground"
mask = "8 deg"
rate = "50 Mbit/s"
[[radio]]
name = "laser"
neighbours = "grid"
clearance = "100 km"
range = "5000 km"
rate = "1 Gbit/s"
[[radio]]
name = "wifi"
range = "100 m"
[[group]]
name = "sat"
count = 66
first_id = 100
mobility = "orbits"
radio = ["ka", "laser"]
router = "sabr"
[[group]]
name = "station"
count = 2
first_id = 1
mobility = "sites"
radio = "ka"
router = "sabr"
[[group]]
name = "walker"
count = 2
first_id = 10
mobility = "walking"
radio = "wifi"
router = "epidemic"
"#;

fn parse(text: &str) -> Result<Scenario, Vec<String>> {
    Scenario::parse(text).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}
#[track_caller]
fn one_error(from: &str, to: &str, parts: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let found = parse(&GOOD.replacen(from, to, 1)).err().unwrap_or_default();
    assert_eq!(found.len(), 1, "{found:#?}");
    for part in parts {
        assert!(found[0].contains(part), "{:?} lacks {part:?}", found[0]);
    }
}

#[test]
fn constellations_and_stations_have_positions() {
    let scenario = parse(GOOD).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let shape = Walker {
        planes: 6,
        per_plane: 11,
        inclination: 86.4f64.to_radians(),
        altitude: 780_000.0,
        phasing: 2,
        star: true,
    };
    assert_eq!((&scenario.mobilities[0].model, shape.count()), (&Model::Orbit(shape), 66));
    let Model::Ground(sites) = &scenario.mobilities[1].model else { panic!("stations") };
    let first = Site { latitude: 78.23f64.to_radians(), longitude: 15.39f64.to_radians(), altitude: 450.0 };
    assert_eq!((sites.len(), sites[0]), (2, first));
    assert!(sites[1].latitude < 0.0 && sites[1].longitude < 0.0 && sites[1].altitude == 0.0);
    let Reach::Sight(laser) = scenario.radios[1].reach else { panic!("sees") };
    assert_eq!((laser.neighbours, laser.range, laser.clearance), (Neighbours::Grid, Some(5e6), 100_000.0));
    let Reach::Sight(ka) = scenario.radios[0].reach else { panic!("sees") };
    assert!((ka.mask.to_degrees() - 8.0).abs() < 1e-9 && ka.range.is_none());
    assert!(matches!(scenario.radios[2].reach, Reach::Range(_)));
    assert!(scenario.doubts().is_empty(), "the router of plans knows these contacts: {:#?}", scenario.doubts());
}

#[test]
fn orbit_mistakes_name_their_key() {
    let walker = "walker = { planes = 6, per_plane = 11, inclination = \"86.4 deg\", altitude = \"780 km\", phasing = 2, pattern = \"star\" }";
    one_error(walker, "", &["walker", "says not which orbits"]);
    one_error("phasing = 2", "phasing = 6", &["phasing", "less than `planes`"]);
    one_error("\"86.4 deg\"", "\"186.4 deg\"", &["inclination", "between 0 and 180"]);
    one_error("altitude = \"780 km\"", "altitude = \"78 km\"", &["altitude", "100 km"]);
    one_error("planes = 6", "planes = 0", &["planes"]);
    one_error("count = 66", "count = 67", &["orbits", "66", "67"]);
    one_error("positions = [[\"78.23 N\", \"15.39 E\", \"450 m\"], [\"53.0 S\", \"70.85 W\"]]", "", &["positions"]);
    one_error("\"78.23 N\"", "\"98.23 N\"", &["positions", "98.23 N"]);
    one_error(", [\"53.0 S\", \"70.85 W\"]]", "]", &["sites", "1 nodes", "2 move"]);
    one_error("[\"53.0 S\", \"70.85 W\"]", "[\"53.0 S\"]", &["positions", "latitude"]);
    one_error("\"450 m\"", "\"450 km\"", &["positions", "ground"]);
    one_error("model = \"ground\"\n", "model = \"ground\"\nspeed = \"1 m/s\"\n", &["speed", "another model"]);
}

#[test]
fn sight_and_range_stay_apart() {
    one_error("neighbours = \"ground\"", "neighbours = \"sideways\"", &["neighbours"]);
    one_error("range = \"100 m\"", "range = \"100 m\"\nmask = \"5 deg\"", &["mask", "neighbours"]);
    one_error("mask = \"8 deg\"", "mask = \"98 deg\"", &["mask"]);
    one_error("mobility = \"walking\"\nradio = \"wifi\"", "mobility = \"walking\"\nradio = \"ka\"", &["ka", "walking"]);
    one_error("mobility = \"sites\"\nradio = \"ka\"", "mobility = \"sites\"\nradio = \"laser\"", &["ka", "only one"]);
    one_error("mobility = \"sites\"\n", "", &["radio", "where the node is"]);
    let contacts = "neighbours = \"ground\"\ncontacts = \"none.txt\"";
    let found = parse(&GOOD.replacen("neighbours = \"ground\"", contacts, 1)).err().unwrap_or_default();
    assert!(found.iter().any(|error| error.contains("both `neighbours` and `contacts`")), "{found:#?}");
    let lone = GOOD.replacen("radio = \"ka\"", "radio = \"wifi\"", 1).replacen(
        "radio = [\"ka\", \"laser\"]",
        "radio = \"wifi\"",
        1,
    );
    let found = parse(&lone).err().unwrap_or_default();
    assert!(found.iter().any(|error| error.contains("has a range in a plane")), "{found:#?}");
}

#[test]
fn shared_routes_need_simulations() {
    let shared = parse(&GOOD.replacen("duration", "shared_routes = true\nduration", 1)).unwrap();
    assert!(shared.shared_routes && shared.needs_simulation().is_some_and(|why| why.path == "shared_routes"));
    assert!(!parse(GOOD).unwrap().shared_routes);
}
