//! Nodes of other implementations in the testbed. Skipped with the reason if the kernel does not permit isolation.

use crate::testbed::{FARLINK, empty_folder, folder, possible};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = "name = \"pair\"\nduration = \"60 s\"\n\
    [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
    [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\nimplementation = \"toy\"\n\
    [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\n\
    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 5, size = \"1 kB\" }\n";

/// Creates a folder with the scenario and a copy of the driver `toy`, in whose `driver.toml` the text `from` becomes
/// `to`.
fn with_driver(name: &str, from: &str, to: &str) -> PathBuf {
    let folder = folder(name, SCENARIO);
    let toy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/drivers/toy");
    let own = folder.join("drivers/toy");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::copy(toy.join("toy.py"), own.join("toy.py")).unwrap();
    let text = std::fs::read_to_string(toy.join("driver.toml")).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(own.join("driver.toml"), text.replacen(from, to, 1)).unwrap();
    folder
}

fn run(folder: &Path) -> Command {
    let mut command = Command::new(FARLINK);
    command.current_dir(folder).args(["run", "scenario.toml", "--in", "lab", "--out", "run"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

#[test]
fn companion_that_succeeds_may_end() {
    if !possible() {
        return;
    }
    for (name, command, succeeds) in [("companion-true", "true", true), ("companion-false", "false", false)] {
        let folder = with_driver(name, "durable = false", &format!("durable = false\nalso = [[\"{command}\"]]"));
        let output = run(&folder).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.success(), succeeds, "{text}");
        assert!(succeeds || text.contains("`companion-1` at node `b` ended by itself: status 1"), "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn signal_ends_wait_for_node() {
    if !possible() {
        return;
    }
    let ready = "ready = { connect = \"{{ port.web }}\", within = \"20 s\" }";
    let folder = with_driver("never-ready", ready, "ready = { file = \"never-{{ port.web }}\", within = \"500 s\" }");
    let child = run(&folder).spawn().unwrap();
    let begun = Instant::now();
    while !folder.join("run/nodes/b/ready-1.log").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the node did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("stopped while node `b` was getting ready"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn stopped_check_is_no_result() {
    if !possible() {
        return;
    }
    let folder = folder("stopped-check", SCENARIO);
    let mut command = Command::new(FARLINK);
    command.current_dir(&folder).args(["lab", "check", "toy", "--out", "check"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while !folder.join("check/tcpclv4/ping/run/manifest.json").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the check did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("stopped in the trial `ping` over tcpclv4") && !text.contains("| pair |"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn list_of_drivers_says_which_can_run_here() {
    let run = |path: &str| {
        let mut command = Command::new(FARLINK);
        let output = command.args(["lab", "drivers"]).env("PATH", path).env_remove("FARLINK_PEERS").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).to_string()
    };
    let folder = empty_folder("drivers");
    let of_toy = |said: String| said.split_once("\ntoy: ").unwrap().1.split_once("\nud3tn: ").unwrap().0.to_string();
    let toy = of_toy(run(&folder.display().to_string()));
    assert!(toy.contains("not on this machine: ") && toy.contains("apt-get install python3"), "{toy}");
    let program = folder.join("python3");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let toy = of_toy(run(&folder.display().to_string()));
    assert!(toy.ends_with("  on this machine"), "{toy}");
    std::fs::remove_dir_all(folder).unwrap();
}
