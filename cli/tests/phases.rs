//! Phases, baselines and limits of hosts in the testbed, by `farlink run`. Skipped with the reason if the kernel does not
//! permit isolation.

use crate::testbed::{FARLINK, folder, possible};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const SCENARIO: &str = r#"
name = "phases"
duration = "30 s"
[[node]]
name = "a"
id = "ipn:1.0"
host = { cpus = 1 }
[[node]]
name = "b"
id = "ipn:2.0"
[[link]]
name = "l"
between = ["a", "b"]
layer = "tcpclv4"
delay = "5 ms"
rate = "20 Mbit/s"
[[phase]]
name = "base"
kind = "baseline"
duration = "4500 ms"
[[phase]]
name = "busy"
kind = "load"
until = "sent"
[[phase]]
name = "rest"
kind = "unload"
duration = "1 s"
[[traffic]]
from = "a"
to = "b"
start = "5 s"
bundles = { count = 40, size = "10 kB", interval = "20 ms" }
"#;

/// Runs a scenario; returns its JSON and its manifest.
fn run(folder: &PathBuf, world: &str) -> (Value, Value) {
    let mut command = Command::new(FARLINK);
    command.current_dir(folder).args(["run", "scenario.toml", "--in", world, "--json", "--out", world]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let manifest = std::fs::read_to_string(folder.join(world).join("manifest.json")).unwrap();
    (serde_json::from_slice(&output.stdout).unwrap(), serde_json::from_str(&manifest).unwrap())
}

fn phase<'a>(run: &'a Value, name: &str) -> &'a Value {
    run["phases"].as_array().unwrap().iter().find(|phase| phase["name"] == name).unwrap_or_else(|| panic!("{run:#}"))
}

#[test]
fn phases_have_their_own_results() {
    if !possible() {
        return;
    }
    let folder = folder("phases", SCENARIO);
    let (result, manifest) = run(&folder, "lab");
    let number = |phase: &Value, key: &str| phase[key].as_f64().unwrap();
    let [base, busy, rest] = ["base", "busy", "rest"].map(|name| phase(&result, name).clone());
    for (before, after) in [(&base, &busy), (&busy, &rest)] {
        assert!(number(after, "start_s") >= number(before, "end_s"), "{result:#}");
    }
    assert_eq!((&base["created"], &busy["created"], &busy["delivered"]), (&0.into(), &40.into(), &40.into()));
    let rates: Vec<Option<f64>> =
        base["baseline"].as_array().unwrap().iter().map(|flow| flow["bit_s"].as_f64()).collect();
    assert_eq!(rates.len(), 3, "{base:#}");
    assert!(rates.iter().all(|rate| rate.is_some_and(|rate| rate > 1e6 && rate < 21e6)), "{rates:?}");
    // Resources are accounted by role and node; the emulator belongs to no node.
    let roles = |phase: &Value| -> Vec<String> {
        let roles = phase["roles"].as_array().unwrap().iter();
        roles.map(|role| format!("{} {}", role["role"].as_str().unwrap(), role["node"])).collect()
    };
    for role in ["implementation \"a\"", "application \"b\"", "emulator null"] {
        assert!(roles(&busy).iter().any(|found| found == role), "{busy:#}");
    }
    let memory = &busy["roles"][0]["anonymous_peak_bytes"];
    assert!(memory.as_u64().is_some_and(|bytes| bytes > 100_000), "{busy:#}");
    let counted = manifest["validity"]["accounting"].as_str().unwrap();
    let notes = manifest["validity"]["notes"].to_string();
    let words = if counted == "cgroup" { "counted by control groups" } else { "counted by /proc" };
    assert!(notes.contains(words) && notes.contains("limited to one processor"), "{counted}: {notes}");
    assert!(["clean", "disturbed"].contains(&manifest["validity"]["verdict"].as_str().unwrap()));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn simulation_names_what_it_leaves_out() {
    let folder = folder("phases-sim", SCENARIO);
    let (result, manifest) = run(&folder, "sim");
    assert_eq!(phase(&result, "base")["end_s"].as_f64(), Some(4.5));
    assert_eq!(phase(&result, "busy")["created"].as_u64(), Some(40));
    let notes = manifest["validity"]["notes"].to_string();
    for words in ["The limits of the host of a (one processor) have no effect", "no baseline", "`until` has no effect"]
    {
        assert!(notes.contains(words), "{notes}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn host_too_small_for_node_is_named() {
    if !possible() {
        return;
    }
    let folder = folder("limits", &SCENARIO.replace("cpus = 1", "memory = \"4 MiB\""));
    let mut command = Command::new(FARLINK);
    command.current_dir(&folder).args(["run", "scenario.toml", "--in", "lab", "--out", "lab"]);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        errors.contains("of memory, and who needs more is killed") || errors.contains("need control groups"),
        "{errors}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
