//! Benchmarks that are ended in the middle, and mistakes that cost no minutes.

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

/// Processes that name this folder.
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
fn a_benchmark_that_is_ended_leaves_no_process_and_what_can_be_told_no_files() {
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
        if signal != "-KILL" {
            assert_eq!(output.status.code(), Some(1), "{signal}: {said}");
            assert!(said.contains("stopped"), "{signal}: {said}");
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{signal}: its folder is taken away");
        }
    }
}

#[test]
fn mistakes_are_told_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("plain.md"), "no marks").unwrap();
    for folder in ["full", "kept/other-1"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        fs::write(place.path().join(folder).join("node-1.toml"), "dear").unwrap();
    }
    for (arguments, says) in [
        ("bench suite --write plain.md", "plain.md: it has no `<!-- bench:begin -->`"),
        ("bench suite --write nowhere.md", "nowhere.md: "),
        ("bench suite --only codec --write plain.md", "cannot be used with"),
        ("bench forward --keep full", "--keep: full is not empty"),
        ("bench delivery --keep full", "--keep: full is not empty"),
        ("bench peer other --start x --keep kept", "--keep: kept/other-1 is not empty"),
        ("bench peer other --start ", "--start is empty"),
        ("bench peer hdtn --program /bin/true --cla udpcl", "it is not measured over udpcl\nhint: --cla stcp"),
        ("bench codec --bundle-size 10GB", "--bundle-size: more than 500 MB"),
    ] {
        let output = farlink(place.path(), arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(says), "{arguments}: {said}");
    }
}
