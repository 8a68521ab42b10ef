//! `farlink run`, `report` and `compare` from the command line: files they may overwrite, and messages about runs that
//! are interrupted, damaged or miss an expectation.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Two nodes and a link without loss.
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
fn run_without_force_replaces_nothing() {
    let folder = folder("force");
    let dear = folder.join("dear");
    std::fs::create_dir(&dear).unwrap();
    let foreign = "{\"name\": \"my web app\"}";
    std::fs::write(dear.join("manifest.json"), foreign).unwrap();
    // --force replaces runs, never other folders.
    for force in ["", " --force"] {
        let (code, _, said) = farlink(&folder, &format!("run scenario.toml --in sim --out dear{force}"));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("dear is not empty and holds no run") && said.contains("--force"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(dear.join("manifest.json")).unwrap(), foreign);
    assert_eq!(std::fs::read_dir(&dear).unwrap().count(), 1, "nothing was written beside it");

    std::fs::create_dir(folder.join("run")).unwrap();
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out run").0, Some(0), "an empty directory is free");
    let before = std::fs::read(folder.join("run/manifest.json")).unwrap();
    let (code, _, said) = farlink(&folder, "run scenario.toml --in sim --seed 7 --out run");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("run holds another run: Simulation of pair") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read(folder.join("run/manifest.json")).unwrap(), before);
    // Another seed, so that a replaced manifest differs.
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --seed 7 --out run --force").0, Some(0));
    assert_ne!(std::fs::read(folder.join("run/manifest.json")).unwrap(), before);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn report_without_force_replaces_only_reports() {
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
fn missed_expectation_fails_the_command() {
    let folder = folder("expect");
    let expect = |text: &str| std::fs::write(folder.join("scenario.toml"), format!("{SCENARIO}[expect]\n{text}\n"));
    expect("delivery_ratio = 1.0\nfinished_within = \"5 s\"").unwrap();
    let (code, printed, said) = farlink(&folder, "run scenario.toml --in sim --out missed");
    assert_eq!(code, Some(1), "{said}");
    assert!(printed.contains("10 of 10 bundles"), "the results are printed all the same: {printed}");
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
fn init_scenario_meets_its_expectation() {
    let folder = folder("init");
    assert_eq!(farlink(&folder, "init scenario --force").0, Some(0));
    let (code, printed, said) = farlink(&folder, "run scenario.toml --in sim --out run");
    assert_eq!(code, Some(0), "{printed}{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Starts a run that would take days and sends it a signal.
fn interrupted(folder: &Path, out: &str, signal: &str) -> Output {
    // 70,000 days are just within the limit of 200 years; no machine simulates a billion bundles in a test.
    let endless = SCENARIO.replace("20 s", "70000 d").replace("count = 10,", "count = 1000000000,");
    std::fs::write(folder.join("endless.toml"), endless).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.current_dir(folder).args(["run", "endless.toml", "--in", "sim", "--out", out]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The manifest is the first file of a run; then wait until events happen.
    while !folder.join(out).join("manifest.json").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was told to");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    child.wait_with_output().unwrap()
}

#[test]
fn interrupted_run_is_marked_unfinished() {
    let folder = folder("interrupted");
    let output = interrupted(&folder, "stopped", "-INT");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted after") && said.contains("hint: "), "{said}");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("seed 1, interrupted") && printed.contains("  delivered  "), "{printed}");
    assert_eq!(farlink(&folder, "report stopped").0, Some(0));
    let page = std::fs::read_to_string(folder.join("stopped/report.html")).unwrap();
    assert!(page.contains("was interrupted after") && !page.contains("NaN"));

    // A killed run has unfinished tables: it still counts as a run, which only --force replaces.
    let output = interrupted(&folder, "killed", "-KILL");
    // A process killed by a signal has no exit status.
    assert_eq!(output.status.code(), None);
    let (code, _, said) = farlink(&folder, "report killed");
    assert_eq!(code, Some(0), "{said}");
    let page = std::fs::read_to_string(folder.join("killed/report.html")).unwrap();
    assert!(page.contains("was interrupted before its tables were written") && !page.contains("NaN"));
    let (code, printed, said) = farlink(&folder, "compare killed stopped");
    assert_eq!(code, Some(0), "{said}");
    assert!(printed.contains("killed was interrupted") && printed.contains("stopped was interrupted"), "{printed}");
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out killed").0, Some(2));
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out killed --force").0, Some(0));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn message_and_packet_runs_compare() {
    let folder = folder("fidelity");
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out full").0, Some(0));
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --fidelity message --out message").0, Some(0));
    let (code, printed, said) = farlink(&folder, "compare full message");
    assert_eq!(code, Some(0), "{said}");
    assert!(printed.contains("full (sim)") && printed.contains("message (sim, message)"), "{printed}");
    assert!(!printed.contains("different scenarios"), "{printed}");
    let manifest = std::fs::read_to_string(folder.join("message/manifest.json")).unwrap();
    assert!(manifest.contains("--fidelity message"), "the command repeats the run: {manifest}");
    let (code, _, said) = farlink(&folder, "run scenario.toml --in lab --fidelity message --out lab");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("\nhint: ") && !folder.join("lab").exists(), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn refusals_at_senders_of_groups_are_counted() {
    let folder = folder("refused");
    let scenario = "name = \"s\"\nduration = \"60 s\"\nstop_when_delivered = false\nfidelity = \"message\"\n\
        [[mobility]]\nname = \"m\"\nmodel = \"random_waypoint\"\narea = \"100 m\"\nspeed = \"1 m/s\"\n\
        [[radio]]\nname = \"r\"\nrate = \"1 kB/s\"\nrange = \"10 m\"\n\
        [[group]]\nname = \"w\"\ncount = 5\nfirst_id = 1\nmobility = \"m\"\nradio = \"r\"\nrouter = \"epidemic\"\n\
        store_capacity = \"30 kB\"\n[[traffic]]\nname = \"t\"\nfrom = \"w\"\nto = \"w\"\n\
        bundles = { count = 1000, size = \"10 kB\", interval = \"1 s\" }\n";
    std::fs::write(folder.join("scenario.toml"), scenario).unwrap();
    let (code, printed, said) = farlink(&folder, "run scenario.toml --in sim --out run --json");
    assert_eq!(code, Some(0), "{said}");
    let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let [created, refused] = ["created", "refused"].map(|key| value[key].as_u64().unwrap());
    assert!(refused > 10 && created + refused == 60, "one a second: {created} + {refused}");
    assert_eq!(value["traffic"][0]["refused"].as_u64(), Some(refused));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn results_are_listed_per_traffic() {
    let folder = folder("traffic");
    let second = "[[traffic]]\nname = \"u\"\nfrom = \"b\"\nto = \"a\"\nstart = \"5 s\"\n\
                  bundles = { count = 3, size = \"2 kB\", interval = \"1 s\" }\n\
                  [[traffic]]\nname = \"echo\"\nfrom = \"a\"\nto = \"b\"\n\
                  ping = { count = 2, size = \"100 B\", interval = \"1 s\" }\n";
    std::fs::write(folder.join("scenario.toml"), format!("{SCENARIO}{second}")).unwrap();
    let (code, printed, said) = farlink(&folder, "run scenario.toml --in sim --out run --json");
    assert_eq!(code, Some(0), "{said}");
    let value: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let counts: Vec<_> =
        value["traffic"].as_array().unwrap().iter().map(|t| (t["traffic"].as_str(), t["delivered"].as_u64())).collect();
    assert_eq!(
        counts,
        [(Some("t"), Some(10)), (Some("echo"), Some(4)), (Some("u"), Some(3))],
        "pings with their answers"
    );
    let (_, printed, _) = farlink(&folder, "run scenario.toml --in sim --out run --force");
    let lines: Vec<&str> = printed.lines().filter_map(|line| line.trim().strip_prefix("traffic ")).collect();
    let names: Vec<&str> = lines.iter().filter_map(|line| line.trim().split(':').next()).collect();
    assert_eq!(names, ["t", "u", "echo"], "in the order of the file");
    let (_, printed, _) = farlink(&folder, "compare run run");
    assert!(
        printed.contains("u: mean latency") && printed.contains("arrivals at nodes per delivered bundle"),
        "{printed}"
    );
    assert_eq!(farlink(&folder, "report run").0, Some(0));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn damaged_run_gets_a_remedy() {
    let folder = folder("damaged");
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out whole").0, Some(0));
    assert_eq!(farlink(&folder, "run scenario.toml --in sim --out run").0, Some(0));
    let empty = |name: &str| std::fs::write(folder.join("run").join(name), "").unwrap();
    // Each row empties a file, and the damage of earlier rows stays: first a table, later the manifest, too.
    for (name, command, says) in [
        ("bundles.parquet", "compare whole run", "the run run cannot be read: run/bundles.parquet is damaged"),
        ("bundles.parquet", "report run", "hint: `farlink run scenario.toml --in sim --seed 1` makes it again"),
        ("manifest.json", "report run", "the run run is damaged: manifest.json: "),
        ("manifest.json", "compare whole run", "\nhint: make the run again"),
    ] {
        empty(name);
        let (code, _, said) = farlink(&folder, command);
        assert!(
            code.is_some_and(|code| code > 0) && said.contains(says) && said.contains("\nhint: "),
            "{command}: {said}"
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn run_repeats_plan_warnings() {
    let folder = folder("plan");
    let plan = "a contact +0 +20 1 2 125000\na contact +0 +20 2 1 125000\na range +0 +20 1 2 1\nm production 1000000\n";
    std::fs::write(folder.join("ion.plan"), plan).unwrap();
    let scenario = SCENARIO.replace("duration =", "plan = \"ion.plan\"\nduration =");
    std::fs::write(folder.join("scenario.toml"), scenario).unwrap();
    let (code, _, checked) = farlink(&folder, "plan check --plan ion.plan");
    assert_eq!(code, Some(0), "{checked}");
    let warning = checked.lines().find_map(|line| line.strip_prefix("warning: ")).expect("a warning");
    let (code, _, said) = farlink(&folder, "run scenario.toml --in sim --out run");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("ion.plan: {warning}\n")), "{said} is without {warning}");

    std::fs::write(folder.join("empty.plan"), "# nothing yet\n").unwrap();
    let (code, printed, said) = farlink(&folder, "plan check --plan empty.plan");
    assert_eq!((code, &said[..]), (Some(0), "warning: the plan has no contacts: nothing can be sent\n"), "{printed}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn long_lists_stop_at_twenty() {
    let folder = folder("many");
    let traffic = |to: &str| {
        let one = |n| {
            format!(
                "[[traffic]]\nname = \"t{n}\"\nfrom = \"a\"\nto = \"{to}\"\nbundles = {{ count = 1, size = \"1 kB\" }}\n"
            )
        };
        (0..25).map(one).collect::<String>()
    };
    // 25 entries exceed the twenty that commands list.
    let (nodes, _) = SCENARIO.split_once("[[traffic]]").unwrap();
    std::fs::write(folder.join("many.toml"), format!("{nodes}{}", traffic("b"))).unwrap();
    let (code, printed, _) = farlink(&folder, "run many.toml --in sim --out run");
    assert_eq!((code, printed.matches("  traffic    t").count()), (Some(0), 20), "{printed}");
    assert!(printed.contains("  traffic    and 5 more: `farlink report` and `--json` show all\n"), "{printed}");
    assert_eq!(farlink(&folder, "report run --out page.html").0, Some(0));
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    let (above, folded) = page.split_once("<details><summary>Each traffic flow</summary>").expect("folded");
    assert!(!above.contains("t24: ") && folded.contains("<th>t24: bundles delivered</th>"));
    std::fs::write(folder.join("wrong.toml"), format!("{nodes}{}", traffic("nobody"))).unwrap();
    let (code, _, said) = farlink(&folder, "run wrong.toml --in sim --out other");
    assert_eq!((code, said.matches("no node is called `nobody`").count()), (Some(2), 20), "{said}");
    assert!(said.trim_end().ends_with("and 5 more"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}
