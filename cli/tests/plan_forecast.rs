//! `farlink plan forecast`: congestion of a node is forecast from the plan.

use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// The orbiter receives 1 MB in 100 s and later sends half of it.
const PLAN: &str = "epoch 2026-11-20T09:00:00Z\nnode rover 1\nnode orbiter 2\nnode earth 3\n\
    contact rover orbiter +0..+100 rate 10 kB/s delay 1 s\ncontact orbiter earth +200..+300 rate 5 kB/s delay 600 s\n";

fn farlink(plan: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.args(["plan", "forecast", "--plan", "-"]).args(arguments).env("COLUMNS", "60");
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("the program");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), plan.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}
fn text(plan: &str, arguments: &[&str]) -> String {
    let output = farlink(plan, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_plan_node_has_a_line() {
    let all = text(PLAN, &["--capacity", "600 kB"]);
    assert_eq!(
        all,
        "rover: no congestion; 0 B at +0 s at most\n\
         orbiter: congestion at +60 s (2026-11-20T09:01:00.000Z); 1 MB at +100 s at most\n\
         earth: no congestion; 500 kB at +300 s at most\n"
    );
    assert_eq!(text(PLAN, &["--capacity", "2 MB"]).matches("no congestion").count(), 3);
    assert_eq!(text("", &[]), "", "no contacts, no nodes");
}

#[test]
fn node_view_lists_every_change() {
    let one = text(PLAN, &["--node", "orbiter", "--capacity", "600 kB", "--occupied", "100 kB"]);
    assert!(
        one.starts_with("orbiter: congestion at +50 s (2026-11-20T09:00:50.000Z); 1.1 MB at +100 s at most\n"),
        "{one}"
    );
    for part in ["      1.1 MB |", "      600 kB |-", "         0 B ++0 s", "+300 s\n", "        +300 s  600 kB\n"] {
        assert!(one.contains(part), "{part}: {one}");
    }
}

#[test]
fn json_has_every_level() {
    let arguments = ["--json", "--node", "2", "--production", "80 bit/s", "--until", "+400", "--capacity", "600 kB"];
    let document: Value = serde_json::from_str(&text(PLAN, &arguments)).expect("one document");
    assert_eq!((&document["capacity_bytes"], &document["until"]), (&600_000.into(), &400.0.into()));
    let node = &document["nodes"][0];
    assert_eq!((&node["node"], &node["name"]), (&2.into(), &"orbiter".into()));
    // Production of 10 B/s adds 2 kB until 200 s, when the orbiter begins to send more than it receives.
    assert_eq!((&node["congestion"], node["congestion_at"].as_f64().map(|at| at.round())), (&true.into(), Some(60.0)));
    assert_eq!((&node["peak_bytes"], &node["peak_at"]), (&1_002_000.into(), &200.0.into()));
    let levels = node["levels"].as_array().expect("a list");
    assert_eq!(levels.last().map(|level| (&level["at"], &level["bytes"])), Some((&400.0.into(), &504_000.into())));
    let open: Value = serde_json::from_str(&text(PLAN, &["--json"])).expect("one document");
    assert_eq!((&open["capacity_bytes"], open["nodes"].as_array().map(Vec::len)), (&Value::Null, Some(3)));
}

#[test]
fn unreadable_input_gets_a_hint() {
    for (arguments, part) in [
        (["--node", "venus"], "`venus` is not a node"),
        (["--node", "77"], "node 77 is not in the plan\nhint: the plan has rover, orbiter, earth"),
        (["--capacity", "big"], "--capacity: `big` is not a data volume"),
        (["--production", "1 MB"], "--production: `1 MB` is not a data rate"),
        (["--from", "noon"], "`noon` is not a time"),
    ] {
        let output = farlink(PLAN, &arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part) && said.contains("hint: "), "{said}");
    }
}
