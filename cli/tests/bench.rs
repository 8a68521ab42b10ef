//! Benchmarks stopped in the middle, and mistakes reported before measuring.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn farlink(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.env("TMPDIR", folder).current_dir(folder).args(arguments.split(' '));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Command lines of all processes that mention this folder.
fn processes(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let words = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&words).replace('\0', " "))
    });
    all.filter(|words| words.contains(&name)).collect()
}

fn until(what: &str, child: &mut Child, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        assert!(child.try_wait().unwrap().is_none(), "it ended before {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ended_benchmark_leaves_no_process() {
    // Nodes must also end if the benchmark cannot clean up (SIGKILL): their parent-death signal does it.
    for signal in ["-INT", "-TERM", "-KILL"] {
        let place = tempfile::tempdir().unwrap();
        let mut child = farlink(place.path(), "bench forward --seconds 60").spawn().unwrap();
        until("three nodes run", &mut child, || processes(place.path()).len() == 3);
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let begun = Instant::now();
        while !processes(place.path()).is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{signal}: {:?}", processes(place.path()));
            std::thread::sleep(Duration::from_millis(20));
        }
        // A killed benchmark cannot remove its temporary folder.
        if signal != "-KILL" {
            assert_eq!(output.status.code(), Some(1), "{signal}: {said}");
            assert!(said.contains("stopped"), "{signal}: {said}");
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{signal}: its folder is taken away");
        }
    }
}

#[test]
fn mistakes_are_reported_before_measuring() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("plain.md"), "no marks").unwrap();
    for folder in ["full", "kept/other-1"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        // Existing files in --keep must never be overwritten.
        fs::write(place.path().join(folder).join("node-1.toml"), "dear").unwrap();
    }
    for (arguments, says) in [
        ("bench suite --write plain.md", "plain.md: it has no `<!-- bench:begin -->`"),
        ("bench suite --write nowhere.md", "nowhere.md: "),
        ("bench suite --rows codec --write plain.md", "cannot be used with"),
        ("bench suite --against nowhere", "--against: nowhere: "),
        (
            "bench suite --against /bin/true",
            "/bin/true: its --version does not begin with farlink\nhint: name a farlink",
        ),
        ("bench suite --rows nothing", "--rows: no row has this in its name"),
        ("bench forward --keep full", "--keep: full is not empty"),
        ("bench delivery --keep full", "--keep: full is not empty"),
        ("bench peer other --start x --keep kept", "--keep: kept/other-1 is not empty"),
        ("bench peer other --start ", "--start is empty"),
        ("bench peer hdtn --program /bin/true --cla udpcl", "not measured over udpcl\nhint: --cla stcp"),
        ("bench codec --bundle-size 10GB", "--bundle-size: more than 500 MB"),
    ] {
        let output = farlink(place.path(), arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(says), "{arguments}: {said}");
    }
}

/// Runs a benchmark and returns its JSON result.
fn measured(arguments: &[&str]) -> serde_json::Value {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.env("TMPDIR", place.path()).current_dir(place.path()).arg("bench").args(arguments).arg("--json");
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn node_benchmarks_name_their_baseline() {
    for (arguments, baseline) in [
        ("loopback --cla ltp --seconds 0.3", "copy of 1360 B datagrams, with offload"),
        ("loopback --cla udpcl --bundle-size 1kB --seconds 0.3", "copy of 1000 B datagrams, with offload"),
        ("loopback --seconds 0.3", "TCP copy, "),
        ("loopback --tls --seconds 0.3", "rustls copy, "),
        ("loopback --store durable --seconds 0.3", "TCP copy, at both ends written and synced by "),
        ("forward --cla ltp --seconds 0.3", "copy of 1360 B datagrams by a thread between two, with offload"),
        ("forward --encipher --seconds 0.3", "copy by a thread between two that enciphers (AES-256-GCM)"),
        ("round-trip --count 50 --store durable", "chain of sockets, written and synced before each delivery"),
        ("delivery --bundles 200", "Unix socket copy, "),
        ("delivery --bundles 200 --files", "Unix socket copy into files, synced by 256"),
    ] {
        let result = measured(&arguments.split(' ').collect::<Vec<_>>());
        let named = result["baseline"].as_str().unwrap_or_default();
        assert!(named.starts_with(baseline), "{arguments}: {named}");
        for key in ["cpu_s_per_gb", "baseline_cpu_s_per_gb", "ratio"] {
            assert!(result[key].as_f64().is_some_and(|value| value > 0.0), "{arguments}: {key} in {result}");
        }
    }
}

#[test]
fn suite_against_itself_runs_both_programs() {
    let this = env!("CARGO_BIN_EXE_farlink");
    for (rows, name) in [("node to node, STCP", "Gbit/s"), ("codec, write with CRC-32C, 1 kB", "ns")] {
        let result = measured(&["suite", "--against", this, "--rows", rows, "--runs", "2", "--seconds", "0.2"]);
        let row = &result["rows"][0];
        assert_eq!(row["unit"], name, "{row}");
        for of in ["ours", "theirs"] {
            assert_eq!(row[of].as_array().map(Vec::len), Some(2), "{row}");
            assert!(row["cost_s_per_gb"][of].as_f64().is_some_and(|cost| cost > 0.0), "{row}");
        }
    }
}
