//! `farlink run` and `farlink report` as a user meets them: what they write over, and what they say of a run
//! that is not as expected.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Two nodes and a link that never loses anything.
const SCENARIO: &str = "\
name = \"pair\"\nduration = \"20 s\"\n\
[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\ndelay = \"1 s\"\nrate = \"1 Mbit/s\"\n\
[[traffic]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 10, size = \"1 kB\", interval = \"1 s\" }\n";

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("farlink-cli-runs-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("scenario.toml"), SCENARIO).unwrap();
    folder
}

fn farlink(folder: &Path, arguments: &str) -> (Option<i32>, String, String) {
    let output: Output =
        Command::new(env!("CARGO_BIN_EXE_farlink")).current_dir(folder).args(arguments.split(' ')).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_run_replaces_nothing_without_force() {
    let folder = folder("force");
    let dear = folder.join("dear");
    std::fs::create_dir(&dear).unwrap();
    let foreign = "{\"name\": \"my web app\"}";
    std::fs::write(dear.join("manifest.json"), foreign).unwrap();
    let (code, _, said) = farlink(&folder, "run scenario.toml --in sim --out dear");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("dear is not empty and holds no run") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read_to_string(dear.join("manifest.json")).unwrap(), foreign);
    assert_eq!(std::fs::read_dir(&dear).unwrap().count(), 1, "nothing was written beside it");

    std::fs::create_dir(folder.join("run")).unwrap();
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out run").0, Some(0), "an empty directory is free");
    let before = std::fs::read(folder.join("run/manifest.json")).unwrap();
    let (code, _, said) = farlink(&folder, "run scenario.toml --in sim --seed 7 --out run");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("run holds another run: Simulation of pair") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read(folder.join("run/manifest.json")).unwrap(), before);
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --seed 7 --out run --force").0, Some(0));
    assert_ne!(std::fs::read(folder.join("run/manifest.json")).unwrap(), before);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_report_replaces_only_reports_without_force() {
    let folder = folder("report");
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out run").0, Some(0));
    let page = "<!doctype html>\n<p>My page.";
    std::fs::write(folder.join("page.html"), page).unwrap();
    let (code, _, said) = farlink(&folder, "report run --out page.html");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("page.html exists and is not a report") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read_to_string(folder.join("page.html")).unwrap(), page);
    assert_eq!(farlink(&folder, "report run --out page.html --force").0, Some(0));
    assert_eq!(farlink(&folder, "report run --out page.html").0, Some(0), "now it is one");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_missed_expectation_is_said_and_fails_the_command() {
    let folder = folder("expect");
    let expect = |text: &str| std::fs::write(folder.join("scenario.toml"), format!("{SCENARIO}[expect]\n{text}\n"));
    expect("delivery_ratio = 1.0\nfinished_within = \"5 s\"").unwrap();
    let (code, printed, said) = farlink(&folder, "run scenario.toml --in sim --out missed");
    assert_eq!(code, Some(1), "{said}");
    assert!(printed.contains("10 of 10 bundles"), "the run is told all the same: {printed}");
    assert!(said.contains("finished_within: expected all bundles delivered within 5 s, found the last one"), "{said}");
    assert!(!said.contains("delivery_ratio"), "{said}");
    let (code, printed, _) = farlink(&folder, "run scenario.toml --in sim --json --out json");
    let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, value["missed"][0]["key"].as_str()), (Some(1), Some("finished_within")), "{printed}");
    let (code, ..) = farlink(&folder, "report missed");
    assert_eq!(code, Some(0));
    let report = std::fs::read_to_string(folder.join("missed/report.html")).unwrap();
    assert!(report.contains("(finished_within): the last one after"), "{report}");

    expect("delivery_ratio = 1.0\nfinished_within = \"15 s\"").unwrap();
    let (code, _, said) = farlink(&folder, "run scenario.toml --in sim --out met");
    assert_eq!(code, Some(0), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_scenario_that_init_writes_meets_its_own_expectation() {
    let folder = folder("init");
    assert_eq!(farlink(&folder, "init scenario --force").0, Some(0));
    let (code, printed, said) = farlink(&folder, "run scenario.toml --in sim --out run");
    assert_eq!(code, Some(0), "{printed}{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
