//! The testbed end to end: real node processes in isolated hosts, as the user who runs the tests.
//! Skipped with the reason if the kernel does not permit isolation.

use crate::testbed::{self, FARLINK, possible};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
name = "lab-test"
duration = "20 s"
seed = 3
[[node]]
name = "probe"
id = "ipn:1.0"
[[node]]
name = "relay"
id = "ipn:2.0"
store = "durable"
[[node]]
name = "ground"
id = "ipn:3.0"
[[link]]
name = "space"
between = ["probe", "relay"]
layer = "ltp"
delay = "50 ms"
rate = "20 Mbit/s"
loss = "2 %"
[[link]]
name = "cable"
between = ["relay", "ground"]
layer = "tcpclv4"
delay = "1 ms"
rate = "100 Mbit/s"
[[contact]]
link = "space"
start = "100 ms"
end = "20 s"
[[traffic]]
name = "picture"
from = "probe"
to = "ground"
file = { size = "300 kB", bundle_size = "50 kB" }
[[traffic]]
name = "telemetry"
from = "probe"
to = "relay"
bundles = { count = 4, size = ["1 kB", "2 kB"], interval = "50 ms" }
"#;

fn folder(name: &str) -> PathBuf {
    testbed::folder(&format!("lab-{name}"), SCENARIO)
}

fn run(folder: &Path) -> Command {
    let mut command = Command::new(FARLINK);
    command.current_dir(folder).args(["run", "scenario.toml", "--in", "lab", "--json"]);
    command.arg("--out").arg(folder.join("run")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn file_arrives_intact_through_nodes() {
    if !possible() {
        return;
    }
    let folder = folder("file");
    let output = run(&folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result["created"].as_u64(), result["delivered"].as_u64()), (Some(10), Some(10)), "{result}");
    // At least the delay of the first link.
    let latency = result["latency_s"]["p50"].as_f64().unwrap();
    assert!((0.05..5.0).contains(&latency), "{result}");
    let text = std::fs::read_to_string(folder.join("run/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["finished"], true);
    let file = &manifest["files"][0];
    assert_eq!(file["sent_checksum"], file["received_checksum"]);
    assert!(file["complete_s"].as_f64().is_some_and(|s| s > 0.1), "{file}");
    assert!(manifest["validity"]["emulator_lateness"]["count"].as_u64().is_some_and(|n| n > 0));
    // Only kernels with schedstat count how long threads wait for a processor.
    if std::path::Path::new("/proc/self/schedstat").exists() {
        assert!(manifest["validity"]["node_lateness"]["count"].as_u64().is_some_and(|n| n > 0), "{manifest}");
    }
    assert!(!folder.join("run/nodes/relay/store").exists(), "stores are removed");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn store_downgrade_is_reported() {
    if !possible() {
        return;
    }
    let folder = folder("lowered");
    let given = SCENARIO.replace("store = \"durable\"", "store = \"memory\"\nstore_capacity = \"900 TB\"");
    std::fs::write(folder.join("scenario.toml"), given).unwrap();
    let output = run(&folder).output().unwrap();
    let result = String::from_utf8_lossy(&output.stdout);
    let told = "Node relay: store.capacity is ";
    assert!(output.status.success() && result.contains(told) && result.contains("not 900000 GB"), "{result}");
    let mut simulated = Command::new(FARLINK);
    simulated.current_dir(&folder).args(["run", "scenario.toml", "--in", "sim", "--out", "simulated"]);
    assert!(simulated.output().unwrap().status.success());
    let compared = Command::new(FARLINK).current_dir(&folder).args(["compare", "simulated", "run"]).output().unwrap();
    assert!(String::from_utf8_lossy(&compared.stdout).contains(told), "{compared:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Addition to the scenario: TLS, BPSec and custody.
const SECURED: &str = r#"
[node_defaults]
tcpclv4 = { tls = "require" }
custody = "take"
store = "durable"
[[security]]
nodes = "probe"
role = "source"
service = "confidentiality"
from = "ipn:1.*"
key = "picture"
[[security]]
nodes = ["relay", "ground"]
role = "acceptor"
service = "confidentiality"
from = "ipn:1.*"
key = "picture"
to = "ipn:2.*"
[[security]]
nodes = "ground"
role = "acceptor"
service = "confidentiality"
from = "ipn:1.*"
key = "picture"
"#;

#[test]
fn secured_custody_bundles_leave_no_keys() {
    if !possible() {
        return;
    }
    let folder = folder("secured");
    let text = SCENARIO.replace("id = \"ipn:1.0\"", "id = \"ipn:1.0\"\ncustody = \"ask\"");
    std::fs::write(folder.join("scenario.toml"), text + SECURED).unwrap();
    let output = run(&folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result["created"].as_u64(), result["delivered"].as_u64()), (Some(10), Some(10)), "{result}");
    // The source takes custody of all ten; the relay of the six whose destination is behind it.
    assert_eq!(result["custody"]["taken"].as_u64(), Some(10 + 6), "by its source, and by the relay: {result}");
    let nodes = folder.join("run/nodes");
    let configuration = std::fs::read_to_string(nodes.join("relay/node.toml")).unwrap();
    assert!(configuration.contains("tls = \"require\"") && configuration.contains("ipn-2.pem"), "{configuration}");
    assert!(!nodes.join(".common").exists() && !nodes.join("probe/node.keys").exists(), "keys are removed");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn killed_run_leaves_nothing() {
    if !possible() {
        return;
    }
    let folder = folder("kill");
    let mut child = run(&folder).spawn().unwrap();
    let start = Instant::now();
    while nodes_running(&folder) < 3 {
        assert!(start.elapsed() < Duration::from_secs(20), "the nodes did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let start = Instant::now();
    while nodes_running(&folder) > 0 {
        assert!(start.elapsed() < Duration::from_secs(5), "{} nodes left", nodes_running(&folder));
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Number of processes whose working directory is in the run.
fn nodes_running(folder: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let inside = |p: &std::fs::DirEntry| {
        std::fs::read_link(p.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder.join("run/nodes")))
    };
    processes.filter(inside).count()
}

#[test]
fn scenario_mistake_exits_two_with_place() {
    let folder = folder("mistake");
    std::fs::write(folder.join("scenario.toml"), SCENARIO.replace("delay = \"50 ms\"", "dealy = \"50 ms\"")).unwrap();
    let output = run(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("dealy") && text.contains("delay"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Two nodes with neighbour discovery, compressed reports, and quotas.
const FOUND: &str = r#"
name = "found"
duration = "12 s"
stop_when_delivered = false
[node_defaults]
router = "static"
[[node]]
name = "probe"
id = "ipn:1.0"
compressed_reports = { request = ["*"] }
[[node]]
name = "ground"
id = "ipn:2.0"
compressed_reports = { delay = "1 s" }
[[link]]
name = "cable"
between = ["probe", "ground"]
layer = "tcpclv4"
delay = "5 ms"
rate = "10 Mbit/s"
found = true
[[traffic]]
from = "probe"
to = "ground"
reports = ["delivery"]
bundles = { count = 20, size = "2 kB", interval = "20 ms" }
[[quota]]
nodes = "ground"
sources = ["ipn:9.*"]
bundles = 1
"#;

#[test]
fn discovered_neighbours_use_scenario_link() {
    if !possible() {
        return;
    }
    let folder = folder("found");
    std::fs::write(folder.join("scenario.toml"), FOUND).unwrap();
    let output = run(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result["created"].as_u64(), result["delivered"].as_u64()), (Some(20), Some(20)), "{result}");
    let configuration = std::fs::read_to_string(folder.join("run/nodes/ground/node.toml")).unwrap();
    assert!(configuration.contains("[discovery]") && !configuration.contains("[link."), "{configuration}");
    assert!(configuration.contains("[[quota]]") && configuration.contains("[compressed_reports]"), "{configuration}");
    let (mut over, mut told) = (Vec::new(), 0);
    let reader = farlink_report::RunReader::open(&folder.join("run")).unwrap();
    let read = reader.events(&mut |row| {
        told += usize::from(&*row.event == "reports_compressed");
        if &*row.event == "forwarded" {
            over.extend(row.link.map(|link| link.to_string()));
        }
        Ok(())
    });
    read.unwrap();
    assert!(over.len() >= 20 && over.iter().all(|link| link == "cable"), "whoever found whom: {over:?}");
    // Reports are collected for one second; 20 bundles take 0.4 s.
    assert!((1..=2).contains(&told), "{told} reports on 20 deliveries");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Scenario with faults: the destination restarts before the first bundle, and the relay is killed twice while its link
/// to the destination is down.
const RESTARTED: &str = r#"
name = "restarted"
duration = "25 s"
seed = 3
[node_defaults]
store = "durable"
[[node]]
name = "probe"
id = "ipn:1.0"
[[node]]
name = "relay"
id = "ipn:2.0"
[[node]]
name = "ground"
id = "ipn:3.0"
[[link]]
name = "space"
between = ["probe", "relay"]
layer = "ltp"
rate = "20 Mbit/s"
[[link]]
name = "cable"
between = ["relay", "ground"]
layer = "tcpclv4"
rate = "100 Mbit/s"
[[traffic]]
name = "telemetry"
from = "probe"
to = "ground"
start = "2 s"
bundles = { count = 80, size = "2 kB", interval = "50 ms" }
[[fault]]
kind = "restart"
node = "ground"
at = "500 ms"
lasts = "500 ms"
[[fault]]
kind = "restart"
node = "relay"
at = "3 s"
lasts = "700 ms"
[[fault]]
kind = "restart"
node = "relay"
at = "5 s"
lasts = "700 ms"
[[fault]]
kind = "link_down"
link = "cable"
at = "2500 ms"
lasts = "3500 ms"
"#;

/// Faults in the event table of a run: time, and node with kind and link.
fn faults(run: &Path) -> Vec<(u64, String)> {
    let mut faults = Vec::new();
    let reader = farlink_report::RunReader::open(run).unwrap();
    let read = reader.events(&mut |row| {
        if &*row.event == "fault" {
            let (what, link) = (row.reason.as_deref().unwrap_or("-"), row.link.as_deref().unwrap_or("-"));
            faults.push((row.time_ns, format!("{} {what} {link}", row.node)));
        }
        Ok(())
    });
    read.unwrap();
    faults
}

/// Faults of the same scenario in simulation, sorted, without times.
fn simulated_faults(folder: &Path) -> Vec<String> {
    let mut command = Command::new(FARLINK);
    command.current_dir(folder).args(["run", "scenario.toml", "--in", "sim", "--out", "simulated"]);
    assert!(command.output().unwrap().status.success());
    sorted(faults(&folder.join("simulated")))
}
fn sorted(faults: Vec<(u64, String)>) -> Vec<String> {
    let mut all: Vec<String> = faults.into_iter().map(|(_, what)| what).collect();
    all.sort_unstable();
    all
}

#[test]
fn restarted_nodes_lose_no_kept_bundle() {
    if !possible() {
        return;
    }
    let folder = folder("restarted");
    std::fs::write(folder.join("scenario.toml"), RESTARTED).unwrap();
    let output = run(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (mut recovered, mut delivered) = (0, std::collections::BTreeSet::new());
    let reader = farlink_report::RunReader::open(&folder.join("run")).unwrap();
    let read = reader.events(&mut |row| {
        match &*row.event {
            "delivered" => drop(delivered.insert((row.creation_ms, row.sequence))),
            "recovered" => recovered += usize::from(&*row.node == "relay"),
            _ => {}
        }
        Ok(())
    });
    read.unwrap();
    assert!(recovered > 0, "the relay had bundles on its disk each time");
    assert_eq!(delivered.len(), 80, "what the relay kept it had again, and the rest came once more");
    let faults = faults(&folder.join("run"));
    for node in ["relay", "ground"] {
        let here = faults.iter().filter(|(_, what)| what.starts_with(node)).map(|(at, _)| *at);
        assert!(here.is_sorted(), "{faults:?}");
    }
    assert_eq!(sorted(faults), simulated_faults(&folder), "both worlds tell of the same");
    assert!(!folder.join("run/nodes/relay/events.0.jsonl").exists(), "events are in tables");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn node_down_at_end_is_reported() {
    if !possible() {
        return;
    }
    let folder = folder("down");
    // The relay is killed while the cable is down, and the run ends before it is to start again.
    let text = RESTARTED.replace("duration = \"25 s\"", "duration = \"5500 ms\"");
    std::fs::write(folder.join("scenario.toml"), text).unwrap();
    let output = run(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = faults(&folder.join("run"));
    let last = told.iter().rfind(|(_, what)| what.starts_with("relay"));
    assert_eq!(last.map(|(_, what)| what.as_str()), Some("relay node down -"), "{told:?}");
    assert_eq!(sorted(told), simulated_faults(&folder), "both worlds tell of the same");
    let mut kept = Vec::new();
    let reader = farlink_report::RunReader::open(&folder.join("run")).unwrap();
    let read = reader.samples(&mut |row| {
        let is = row.node.as_deref() == Some("relay") && &*row.metric == farlink_report::schema::STORED_BUNDLES;
        kept.extend(is.then_some((row.time_ns, row.value)));
        Ok(())
    });
    read.unwrap();
    assert!(kept.iter().any(|(_, bundles)| *bundles > 0.0), "{kept:?}");
    assert_eq!(kept.last().map(|(_, bundles)| *bundles), Some(0.0), "{kept:?}");
    std::fs::remove_dir_all(&folder).unwrap();
}
