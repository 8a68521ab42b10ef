//! `farlink plan from-orbits`: computes plans that the other commands read.

use std::path::Path;
use std::process::{Command, Output};

const ORBITS: &str = "epoch = \"2026-11-20T09:00:00Z\"
[[station]]
name = \"north\"
id = 1
position = [\"78.23 N\", \"15.39 E\", \"450 m\"]
[[station]]
name = \"south\"
id = 2
position = [\"53.0 S\", \"70.85 W\"]
[[constellation]]
name = \"polar\"
first_id = 100
walker = { planes = 6, per_plane = 11, inclination = \"86.4 deg\", altitude = \"780 km\", phasing = 2, pattern = \"star\" }
[[link]]
between = [\"stations\", \"polar\"]
rate = \"50 Mbit/s\"
beams = [2, 1]
[[link]]
name = \"laser\"
between = [\"polar\", \"polar\"]
neighbours = \"grid\"
rate = \"1 Gbit/s\"
clearance = \"100 km\"
";

fn farlink(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.current_dir(folder).args(arguments.split_whitespace()).output().expect("the program")
}

fn said(output: &Output) -> (String, String) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_command_reads_orbit_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("polar.toml"), ORBITS).expect("it is written");
    let (data, talk) = said(&farlink(folder.path(), "plan from-orbits polar.toml --for 2h -o polar.plan"));
    assert!(data.is_empty() && talk.contains(" contacts between 68 nodes"), "{talk}");
    let (data, _) = said(&farlink(folder.path(), "plan check --plan polar.plan"));
    assert!(data.contains("between 68 nodes (farlink dialect), 0 errors"), "{data}");
    let route = "plan route --plan polar.plan --from north --to south --at +0 --size 1MB --json";
    let (data, _) = said(&farlink(folder.path(), route));
    let route: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!(route["found"], true);
    assert!(
        route["hops"].as_u64().expect("hops") >= 4 && route["arrival"].as_f64().expect("arrival") < 7200.0,
        "{route}"
    );
    // Without --out the same plan goes to standard output, whatever the number of threads.
    let written = std::fs::read_to_string(folder.path().join("polar.plan")).expect("the plan");
    let (data, _) = said(&farlink(folder.path(), "plan from-orbits polar.toml --for 2h --threads 1"));
    assert_eq!(data, written);
}

#[test]
fn json_matches_the_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("polar.toml"), ORBITS).expect("it is written");
    let arguments = "plan from-orbits polar.toml --from 2026-11-21T00:00:00Z --for 30min --json -o polar.plan";
    let (data, _) = said(&farlink(folder.path(), arguments));
    let made: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!((made["epoch"].as_str(), made["duration_s"].as_f64()), (Some("2026-11-21T00:00:00.000Z"), Some(1800.0)));
    assert_eq!((made["nodes"][0]["name"].as_str(), made["nodes"][0]["id"].as_u64()), (Some("north"), Some(1)));
    let (data, _) = said(&farlink(folder.path(), "plan show --plan polar.plan --json"));
    let shown: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    assert_eq!(made["contacts"], shown["contacts"]);
    assert_eq!(made["epoch"], shown["epoch"]);
    // Mostly laser contacts: 66 satellites with up to four neighbours each.
    assert!(made["contacts"].as_array().expect("contacts").len() > 250);
}

#[test]
fn ion_plan_notes_rounding_once() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("polar.toml"), ORBITS).expect("it is written");
    let (data, talk) = said(&farlink(folder.path(), "plan from-orbits polar.toml --for 30min --to ion"));
    assert!(data.contains("\n@ 2026/11/20-09:00:00\n") && data.contains("\na contact +0 "), "{data}");
    assert!(talk.lines().count() <= 3 && talk.contains("contacts: ION counts whole seconds"), "{talk}");
}
