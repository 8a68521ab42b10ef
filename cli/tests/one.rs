//! `farlink one` from the command line: modes, batches, existing folders, and mistakes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit status, standard output and standard error of a run, in mode fast if `arguments` have no other.
fn one(out: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let data = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../one/tests/data"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.current_dir(data).args(["one", "terrestrial.txt", "tiny.txt", "--out"]).arg(out);
    if !arguments.contains(&"--mode") {
        command.args(["--mode", "fast"]);
    }
    let output = command.args(["--set", "Scenario.endTime=300"]).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn names(folder: &Path, ending: &str) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(ending)).collect()
}

#[test]
fn batch_runs_form_one_document() {
    let place = tempfile::tempdir().unwrap();
    // Longer than a scenario's name may be, and different only at the end.
    let name = format!("Scenario.name={}-s%%MovementModel.rngSeed%%", "a-long-name-of-a-study".repeat(4));
    let (code, printed, said) = one(place.path(), &["-b", "3", "--json", "--set", &name]);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("warning"), "{said}");
    assert_eq!(said.matches("the simulators differ").count(), 1, "what differs is told once: {said}");
    let document: serde_json::Value = serde_json::from_str(&printed).expect("one document");
    let runs = document["runs"].as_array().unwrap();
    let of = |key: &str| runs.iter().map(|run| run[key].as_str().unwrap()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!((runs.len(), of("name").len(), of("run").len()), (3, 3, 3), "{printed}");
    assert!(runs.iter().all(|run| run["created"].is_u64() && run["finished"] == true), "{printed}");
    assert_eq!(names(place.path(), ".toml").len(), 3);
}

#[test]
fn foreign_scenarios_are_not_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let name = "Scenario.name=mine";
    // A converted scenario may be replaced by the next conversion.
    for again in ["the first time", "and again"] {
        assert_eq!(one(place.path(), &["--set", name]).0, Some(0), "{again}");
    }
    std::fs::write(place.path().join("mine.toml"), "name = \"dear\"\n").unwrap();
    let (code, _, said) = one(place.path(), &["--set", name]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("mine.toml exists and was not converted from settings of The ONE\nhint: --out"), "{said}");
    assert_eq!(std::fs::read_to_string(place.path().join("mine.toml")).unwrap(), "name = \"dear\"\n");
}

#[test]
fn batch_runs_use_upstream_names() {
    let place = tempfile::tempdir().unwrap();
    let seeds = |batch: &str| {
        let name = "Scenario.name=s%%MovementModel.rngSeed%%";
        let (code, printed, said) = one(place.path(), &["-b", batch, "--json", "--set", name]);
        assert_eq!(code, Some(0), "{said}");
        let document: serde_json::Value = serde_json::from_str(&printed).expect("one document");
        let names = document["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap().to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!([seeds("3"), seeds("2:3"), seeds("2:2")], [vec!["s1", "s2", "s3"], vec!["s2", "s3"], vec!["s2"]]);
    for (batch, says) in [("3:2", "comes before"), ("0:2", "at least 1"), ("1:", "hint:"), ("1:100001", "100000")] {
        let (code, _, said) = one(place.path(), &["-b", batch]);
        assert!(code == Some(2) && said.contains(says), "{batch}: {said}");
    }
}

#[test]
fn mistakes_name_place_and_remedy() {
    let place = tempfile::tempdir().unwrap();
    let mine = place.path().join("mine.txt");
    let mine = mine.to_str().unwrap();
    for (text, says) in [
        ("\u{feff}Scenario.name = x\n", "mine.txt:1: begins with a byte order mark\nhint: save it"),
        (
            "# talk\nGroup.nrofHost = 5\n",
            "mine.txt:2: Group.nrofHost is not a known key\nhint: did you mean `Group.nrofHosts`?",
        ),
        (
            "Group.interface1 = wifi\n",
            "mine.txt:1: Group.interface1 = wifi: wifi.type is missing\nhint: name an interface",
        ),
        ("Group.nrofHosts = 0\nGroup1.nrofHosts = 0\n", "there are no hosts\nhint:"),
        ("Group.activeTimes = 5,0\n", "mine.txt:1: Group.activeTimes = 5,0: not pairs of begin and end\nhint:"),
        ("Scenario.name = a/b\n", "mine.txt:1: Scenario.name = a/b: no name of a file\nhint: names of reports"),
        ("Scenario.name =\n", "Scenario.name is missing\nhint: add a line"),
        ("Group2.nrofHosts = 3\n", "warning: Group2 has no effect: Scenario.nrofHostGroups is 1\n"),
    ] {
        std::fs::write(mine, text).unwrap();
        let (_, _, said) = one(place.path(), &[mine]);
        assert!(said.contains(says), "{text:?}: {said}");
    }
    let (code, _, said) = one(place.path(), &["--set", "=3"]);
    assert!(code == Some(2) && said.contains("`=3` is not key=value"), "{said}");
}

#[test]
fn uncovered_settings_run_in_fast_mode() {
    let place = tempfile::tempdir().unwrap();
    let auto = |arguments: &[&str]| one(place.path(), &[&["--mode", "auto", "--json"], arguments].concat());
    let mode = |printed: &str| {
        let document: serde_json::Value = serde_json::from_str(printed).expect("one document");
        document["mode"].as_str().unwrap().to_string()
    };
    let (code, printed, said) = auto(&["--set", "Report.report2=NodeDensityReport"]);
    assert_eq!((code, mode(&printed).as_str()), (Some(0), "exact"), "{said}");
    assert!(said.contains("warning: not written: NodeDensityReport\nhint: written are MessageStatsReport, "), "{said}");
    // Farlink's own world has no applications, and says so.
    let pings = &["--set", "Group.nrofApplications=1", "--set", "Scenario.name=pings"];
    let (code, printed, said) = auto(pings);
    assert_eq!((code, mode(&printed).as_str()), (Some(0), "fast"), "{said}");
    let told = "Group.nrofApplications = 1: applications on hosts are";
    let once = |end: &str| said.matches(&format!("{told} {end}\n")).count();
    assert_eq!((once("not covered"), once("left out")), (1, 1), "{said}");
    let (code, _, said) = one(place.path(), &[&["--mode", "exact"], &pings[..]].concat());
    assert!(code == Some(2) && said.contains(&format!("{told} not covered\nhint: ")), "{said}");
    // What neither mode has is an error, told once.
    let (code, _, said) = auto(&["--set", "Group.movementModel=WorkingDayMovement"]);
    assert!(code == Some(2) && said.contains("WorkingDayMovement: not covered\nhint: exact are "), "{said}");
}

#[test]
fn hosts_on_routes_follow_the_same_ways() {
    // Hosts of a group that no scenario describes move along the positions of the exact mode.
    let place = tempfile::tempdir().unwrap();
    let logs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../one/tests/data/logs"));
    let file = |name: &str| logs.join(name).display().to_string();
    let mut sets = vec!["Group1.movementModel=MapRouteMovement".to_string(), "Group1.routeType=2".into()];
    sets.extend([format!("Group1.routeFile={}", file("line.wkt")), "MapBasedMovement.nrofMapFiles=3".into()]);
    sets.extend((1..=3).map(|map| format!("MapBasedMovement.mapFile{map}={}", file(&format!("map{map}.wkt")))));
    sets.extend(["MovementModel.worldSize=2000,2000".into(), "Scenario.name=routes".into()]);
    let arguments: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let (code, _, said) = one(place.path(), &arguments);
    assert_eq!(code, Some(0), "{said}");
    let positions = std::fs::read_to_string(place.path().join("routes.n1.positions")).unwrap();
    let nodes: std::collections::BTreeSet<&str> = positions.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(nodes.len(), 12);
    assert!(positions.lines().all(|line| line.split(' ').count() == 4) && positions.ends_with('\n'));
}
