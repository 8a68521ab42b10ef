//! Groups, moving nodes and radios: their meaning, and messages for mistakes.

use farlink_base::Duration;
use farlink_scenario::motion::{Map, Model, Reach};
use farlink_scenario::{Scenario, TrafficKind};
use std::path::Path;

const GOOD: &str = r#"
name = "town"
duration = "1 h"
fidelity = "message"
[[mobility]]
name = "walking"
model = "random_waypoint"
area = ["1 km", "500 m"]
speed = ["0.5 m/s", "5.4 km/h"]
pause = ["0 s", "2 min"]
[[mobility]]
name = "fixed"
model = "stationary"
points = [["10 m", "20 m"]]
area = "1 km"
[[radio]]
name = "wifi"
range = "150 m"
rate = "2.5 Mbit/s"
[[node]]
name = "kiosk"
id = "ipn:1.0"
mobility = "fixed"
radio = "wifi"
router = "epidemic"
[[group]]
name = "walker"
count = 50
first_id = 100
router = "epidemic"
store_capacity = "500 kB"
mobility = "walking"
radio = ["wifi"]
[[traffic]]
name = "chat"
from = "walker"
to = "walker"
bundles = { count = 100000, size = ["50 kB", "100 kB"], interval = ["1 s", "300 s"] }
"#;

fn parse(text: &str) -> Result<Scenario, Vec<String>> {
    parse_in(text, Path::new(""))
}
fn parse_in(text: &str, folder: &Path) -> Result<Scenario, Vec<String>> {
    Scenario::parse_in(text, folder).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}
fn good() -> Scenario {
    parse(GOOD).unwrap_or_else(|errors| panic!("{errors:#?}"))
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
fn group_members_are_numbered_consecutively() {
    let scenario = good();
    assert_eq!((scenario.nodes.len(), scenario.groups[0].nodes.clone()), (51, 1..51));
    let (first, last) = (&scenario.nodes[1], &scenario.nodes[50]);
    assert_eq!((first.name.as_str(), first.ids[0].as_str(), first.number.0), ("walker1", "ipn:100.0", 100));
    assert_eq!((last.name.as_str(), last.ids[0].as_str(), last.number.0), ("walker50", "ipn:149.0", 149));
    assert_eq!((last.router.name.as_str(), last.settings().store.capacity.0), ("epidemic", 500_000));
    let [walking, fixed] = &scenario.mobilities[..] else { panic!("two") };
    assert_eq!((walking.nodes.len(), walking.nodes[0], &fixed.nodes[..]), (50, 1, &[0][..]));
    assert_eq!((scenario.radios[0].nodes.len(), scenario.radios[0].nodes[0]), (51, 0));
}

#[test]
fn motion_is_in_metres_and_seconds() {
    let scenario = good();
    let Model::Waypoint(wander) = &scenario.mobilities[0].model else { panic!("a waypoint") };
    assert_eq!((wander.area, wander.speed, wander.pause), ([1000.0, 500.0], [0.5, 1.5], [0.0, 120.0]));
    let radio = &scenario.radios[0];
    assert_eq!((&radio.reach, radio.layer.kind.name), (&Reach::Range(150.0), "tcpclv4"));
    assert_eq!(radio.one_way_delay(), Duration::from_nanos(501), "light over 150 m");
    let walk = GOOD.replacen("random_waypoint", "random_walk", 1);
    let Model::Walk { step, .. } = parse(&walk).unwrap().mobilities[0].model.clone() else { panic!("a walk") };
    assert_eq!(step, [50.0, 50.0]);
}

#[test]
fn group_traffic_follows_the_seed() {
    let mut scenario = good();
    let first = scenario.traffic.clone();
    // An hour of gaps between 1 s and 300 s gives 24 bundles on average.
    assert!((15..40).contains(&first.len()), "one in 150 s on average: {}", first.len());
    for (number, traffic) in first.iter().enumerate() {
        assert!(traffic.from != traffic.to && (1..51).contains(&traffic.from) && (1..51).contains(&traffic.to));
        assert!(traffic.start < scenario.duration && traffic.name == format!("chat-{}", number + 1));
        let TrafficKind::Bundles { count: 1, size, .. } = traffic.kind else { panic!("a bundle") };
        assert!(size.min == size.max && (50_000..=100_000).contains(&size.min.0));
    }
    scenario.set_seed(2);
    assert!(scenario.seed == 2 && scenario.traffic != first);
    scenario.set_seed(1);
    assert_eq!(scenario.traffic, first);
}

#[test]
fn maps_must_be_connected() {
    let map =
        |keys: &str| GOOD.replacen("\"random_waypoint\"\narea = [\"1 km\", \"500 m\"]", &format!("\"map\"\n{keys}"), 1);
    let city = parse(&map("city = { columns = 5, missing = \"20 %\" }")).unwrap();
    let Model::Map { map: Map::City { columns, rows, block, bend, missing }, .. } = city.mobilities[0].model else {
        panic!("a city")
    };
    assert_eq!((columns, rows, block, bend, missing), (5, 20, 100.0, 0.3, 0.2));
    let folder = tempfile::tempdir().unwrap();
    let with = |text: &str| {
        std::fs::write(folder.path().join("m.wkt"), text).unwrap();
        parse_in(&map("map = \"m.wkt\""), folder.path())
    };
    let Model::Map { map: Map::File(streets), .. } = &with("LINESTRING (0 0, 9 0, 9 9)").unwrap().mobilities[0].model
    else {
        panic!("a map")
    };
    assert_eq!((streets.points.len(), streets.streets.len()), (3, 2));
    let said = |text: &str| with(text).unwrap_err().join("\n");
    assert!(said("LINESTRING (0 0, 9 0)\nLINESTRING (1 1, 2 2)").contains("the map has 2 parts"));
    assert!(said("LINESTRING (0 0, 9 0)\nPOINT (1 1)").contains("m.wkt (line 2): found `POINT`"));
    assert!(said("").contains("a map without streets"));
    let none = parse(&map("")).unwrap_err();
    assert!(none[0].contains("says not which streets"), "{none:?}");
}

#[test]
fn traces_cover_all_nodes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.txt"), "0 2 1 1\n0 1 5 5\n9 1 6 6\n").unwrap();
    let trace = GOOD.replacen(
        "\"random_waypoint\"\narea = [\"1 km\", \"500 m\"]\nspeed = [\"0.5 m/s\", \"5.4 km/h\"]\npause = [\"0 s\", \"2 min\"]",
        "\"trace\"\nfile = \"p.txt\"",
        1,
    );
    let two = parse_in(&trace.replacen("count = 50", "count = 2", 1), folder.path()).unwrap();
    let Model::Trace(tracks) = &two.mobilities[0].model else { panic!("a trace") };
    assert_eq!((tracks[0].id.as_str(), tracks[0].fixes.len(), tracks[1].id.as_str()), ("1", 2, "2"));
    let many = parse_in(&trace, folder.path()).unwrap_err();
    assert!(many[0].contains("mobility[walking]: has positions of 2 nodes, and 50 move so"), "{many:?}");
}

#[test]
fn contact_files_name_or_number_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let with = |text: &str, keys: &str| {
        std::fs::write(folder.path().join("c.txt"), text).unwrap();
        let keys = format!("contacts = \"c.txt\"\n{keys}");
        parse_in(&GOOD.replacen("range = \"150 m\"", &keys, 1), folder.path())
    };
    let met = |text: &str, keys: &str| {
        let Reach::Recorded(met) = with(text, keys).unwrap().radios[0].reach.clone() else { panic!("recorded") };
        met.iter().map(|m| (m.nodes, m.start.as_secs(), m.end.map(|end| end.as_secs()))).collect::<Vec<_>>()
    };
    assert_eq!(met("5 CONN p0 p2 up\n9 CONN p0 p2 down\n", ""), [([0, 2], 5, Some(9))]);
    assert_eq!(met("5 CONN kiosk walker50 up\n", ""), [([0, 50], 5, None)]);
    assert_eq!(
        met("1 51 100 200\n1 2 10 60\n1 2 10 50", "first_number = 1\ncontacts_from = \"50 s\""),
        [([0, 50], 50, Some(150)), ([0, 1], 0, Some(10))]
    );
    assert_eq!(met("1 2 3 4\n1 99 3 4", "only_known = true"), [([1, 2], 3, Some(4))]);
    let said = with("1 2 3 4\n1 99 3 4", "").unwrap_err();
    assert!(said[0].contains("c.txt (line 2): `99` is none of the 51 nodes with this radio"), "{said:?}");
    assert!(with("1 2 4 3", "").unwrap_err()[0].contains("c.txt (line 1): the contact ends before it starts"));
}

#[test]
fn recorded_meetings_need_no_place() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.txt"), "kiosk walker1 1 2").unwrap();
    let text = GOOD.replace("range = \"150 m\"", "contacts = \"c.txt\"");
    let text = text.replace("mobility = \"fixed\"\n", "").replace("mobility = \"walking\"\n", "");
    let scenario = parse_in(&text, folder.path()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    assert!(matches!(&scenario.radios[0].reach, Reach::Recorded(met) if met.len() == 1));
}

#[test]
fn motion_mistakes_have_places_and_hints() {
    one_error("\"walking\"\nradio", "\"waking\"\nradio", &["group[walker].mobility", "did you mean `walking`?"]);
    one_error("[\"wifi\"]", "[\"wify\"]", &["group[walker].radio", "did you mean `wifi`?"]);
    one_error("[\"wifi\"]", "[\"wifi\", \"wifi\"]", &["`wifi` twice"]);
    one_error("count = 50", "count = 0", &["group[walker].count", "between 1 and 100000"]);
    one_error("first_id = 100\n", "", &["group[walker].first_id", "missing"]);
    one_error("first_id = 100", "first_id = 1", &["group[walker].first_id", "`ipn:1.0` belongs to node `kiosk`"]);
    one_error("name = \"kiosk\"", "name = \"walker7\"", &["a second node called `walker7`"]);
    one_error("name = \"kiosk\"", "name = \"walker\"", &["a second group or node called `walker`"]);
    one_error("speed = [\"0.5 m/s\", \"5.4 km/h\"]\n", "", &["mobility[walking].speed", "missing"]);
    one_error(
        "[\"1 km\", \"500 m\"]\nspeed = [\"0.5 m/s\", \"5.4 km/h\"]",
        "\"1 m\"\nspeed = \"2 km/s\"",
        &["less than a millisecond"],
    );
    one_error("[\"0.5 m/s\", \"5.4 km/h\"]", "\"fast\"", &["`fast` is not a speed"]);
    one_error("[\"0.5 m/s\", \"5.4 km/h\"]", "[\"2 m/s\", \"1 m/s\"]", &["the least is more than the most"]);
    one_error("area = [\"1 km\", \"500 m\"]\n", "", &["mobility[walking].area", "missing"]);
    one_error("[\"1 km\", \"500 m\"]", "\"0 m\"", &["no width or no height"]);
    one_error("pause =", "step = \"1 m\"\npause =", &["step", "a key of another model than `random_waypoint`"]);
    one_error("model = \"stationary\"", "model = \"stationery\"", &["did you mean `stationary`?"]);
    let layer = "range = \"150 m\"\nlayer = \"tcp\"\n";
    one_error("range = \"150 m\"\n", layer, &["radio[wifi].layer", "`tcp` is none of"]);
    one_error("range = \"150 m\"\n", "", &["radio[wifi].range", "says not who hears whom"]);
    one_error("range =", "contacts = \"c\"\nrange =", &["both `range` and `contacts`"]);
    one_error("range =", "only_known = true\nrange =", &["only_known", "says more of a file"]);
    one_error("\"150 m\"", "\"150\"", &["`150` is not a length"]);
    one_error("mobility = \"fixed\"\n", "", &["node[kiosk].radio", "where the node is is not said"]);
    one_error("bundles = { count = 100000", "bundles = { count = 100001", &["more than 100000 among groups"]);
    one_error("from = \"walker\"", "from = \"walkers\"", &["no node is called `walkers`"]);
    one_error("[[traffic]]", "[[node]]\nname = \"x\"\nid = \"ipn:0.0\"\n[[traffic]]", &["node[x].id"]);
}

#[test]
fn radio_sharing_defaults_to_turns() {
    use farlink_scenario::motion::{DelayMode, Sharing, TurnOrder, Turns};
    let default = Sharing {
        turns: Turns::Node,
        order: TurnOrder::Sender,
        delay_mode: DelayMode::Pipelined,
        metadata_free: false,
        quantum: Duration::ZERO,
        beams: None,
    };
    assert_eq!(good().radios[0].sharing, default);
    let keys = "turn_order = \"fair\"\ndelay_mode = \"stop_and_wait\"\nmetadata = \"free\"\nquantum = \"100 ms\"\nbeams = 2\nrange =";
    let given = parse(&GOOD.replacen("range =", keys, 1)).unwrap();
    let wanted = Sharing {
        order: TurnOrder::Fair,
        delay_mode: DelayMode::StopAndWait,
        metadata_free: true,
        quantum: Duration::from_millis(100),
        beams: Some(2),
        ..default
    };
    assert_eq!(given.radios[0].sharing, wanted);
    one_error(
        "range =",
        "turns = \"link\"\nturn_order = \"fair\"\nrange =",
        &["turn_order", "nobody waits for another"],
    );
    one_error("range =", "turns = \"both\"\nrange =", &["radio[wifi].turns"]);
    one_error("range =", "beams = 0\nrange =", &["beams"]);
}

#[test]
fn recorded_radio_needs_no_places() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c"), "n1 n2 5 20\n").unwrap();
    let text = "name = \"x\"\nduration = \"1 min\"\nfidelity = \"message\"\n[[radio]]\nname = \"wifi\"\ncontacts = \"c\"\n\
                [[group]]\nname = \"n\"\ncount = 2\nfirst_id = 1\nradio = \"wifi\"\n";
    let scenario = parse_in(text, folder.path()).unwrap();
    assert_eq!(scenario.files, [Path::new("c")]);
    assert_eq!(scenario.radios[0].nodes, [0, 1]);
}

#[test]
fn time_ranges_are_for_groups() {
    one_error(
        "from = \"walker\"\nto = \"walker\"",
        "from = \"walker1\"\nto = \"kiosk\"",
        &["times are drawn only among groups"],
    );
    let bundles = "bundles = { count = 100000, size = [\"50 kB\", \"100 kB\"], interval = [\"1 s\", \"300 s\"] }";
    one_error(bundles, "ping = { count = 3 }", &["goes from one node to another, and not among groups"]);
    one_error(bundles, "bundles = { count = 3, size = \"1 kB\", rate = \"1 Mbit/s\" }", &["a rate of one sender"]);
}

#[test]
fn radios_need_message_simulation() {
    let scenario = good();
    assert!(scenario.needs_messages().is_none() && scenario.needs_simulation().is_some());
    let full = parse(&GOOD.replacen("\"message\"", "\"full\"", 1)).unwrap();
    assert!(full.needs_messages().unwrap().to_string().contains("--fidelity message"));
    let lost = parse(&GOOD.replacen("to = \"walker\"", "to = \"walker\"\nrefused = \"lost\"", 1)).unwrap();
    assert!(lost.traffic.iter().all(|traffic| traffic.lost) && scenario.traffic.iter().all(|traffic| !traffic.lost));
    assert!(lost.needs_simulation().unwrap().to_string().contains("refused = \"lost\""));
    assert!(scenario.doubts().is_empty(), "{:?}", scenario.doubts());
    let sabr = parse(&GOOD.replacen("router = \"epidemic\"\nstore", "store", 1)).unwrap().doubts();
    assert!(sabr[0].starts_with("50 nodes with the radio `wifi`, `walker1` first, have router `sabr`"), "{sabr:?}");
}
