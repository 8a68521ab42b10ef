//! `farlink lab bisect` with builds of the toy that differ in the memory that they need.

use crate::testbed::{self, FARLINK, possible};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = r#"
name = "builds"
duration = "6 s"
[[node]]
name = "here"
id = "ipn:1.0"
[[node]]
name = "there"
id = "ipn:2.0"
implementation = "toy"
[[link]]
name = "link"
between = ["here", "there"]
layer = "tcpclv4"
delay = "5 ms"
rate = "10 Mbit/s"
[[traffic]]
name = "bundles"
from = "here"
to = "there"
bundles = { count = 5, size = "1 kB", rate = "1 Mbit/s" }
"#;

/// Makes a build of the toy that keeps so much memory for itself.
fn make_build(path: &Path, megabytes: u32) {
    fs::create_dir_all(path).unwrap();
    let program = path.join("python3");
    let text = format!(
        "#!/bin/sh\ncase $1 in -*) exec /usr/bin/env -S PATH=/usr/bin:/bin:/usr/local/bin python3 \"$@\";; esac\n\
         export PATH=/usr/bin:/bin:/usr/local/bin\n\
         exec python3 -c 'import sys, runpy; kept = b\"x\" * ({megabytes} << 20); sys.argv = sys.argv[1:]\n\
         runpy.run_path(sys.argv[0], run_name=\"__main__\")' \"$@\"\n"
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

fn bisect(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(FARLINK);
    command.current_dir(folder).args(["lab", "bisect"]).args(arguments).output().unwrap()
}

#[test]
fn first_build_that_needs_more_memory_is_found() {
    if !possible() {
        return;
    }
    let folder = testbed::folder("bisect", SCENARIO);
    for (name, megabytes) in [("v1", 1), ("v2", 60), ("v3", 62)] {
        make_build(&folder.join(name), megabytes);
    }
    let metric = ["--metric", "memory_peak_implementation_anonymous_bytes", "--json"];
    let builds = ["toy", "scenario.toml", "--good", "v1", "--bad", "v3", "v2"];
    let output = bisect(&folder, &[&builds[..], &metric].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["first_bad"].as_str().unwrap().ends_with("/v2"), "{found:#}");
    assert_eq!(found["builds"].as_array().unwrap().len(), 3, "{found:#}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn wrong_bisections_are_refused_before_anything_runs() {
    let folder = testbed::folder("bisect-refused", SCENARIO);
    make_build(&folder.join("v1"), 1);
    let said = |arguments: &[&str]| {
        let output = bisect(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).to_string()
    };
    let said_of = |name: &str, bad: &str, metric: &str| {
        said(&[name, "scenario.toml", "--good", "v1", "--bad", bad, "--metric", metric])
    };
    assert!(said_of("toy", "v9", "rtt_p90_s").contains("v9"));
    assert!(said_of("ion", "v1", "rtt_p90_s").contains("no node of scenario.toml has `implementation = \"ion\"`"));
    assert!(said_of("toy", "v1", "speed").contains("unknown metric `speed`"));
    fs::remove_dir_all(folder).unwrap();
}
