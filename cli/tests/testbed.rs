//! Helpers of the tests that use the testbed.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

pub const FARLINK: &str = env!("CARGO_BIN_EXE_farlink");

/// Whether this machine can run the testbed; prints the reason if not.
pub fn possible() -> bool {
    let findings = doctor();
    let possible = findings["lab"] == true;
    if !possible {
        println!("skipped: {}", findings["checks"][0]["found"]);
    }
    possible
}

/// Findings of `farlink doctor`.
pub fn doctor() -> Value {
    let output = Command::new(FARLINK).args(["doctor", "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An empty folder of this process.
pub fn empty_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("farlink-cli-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A folder with `scenario.toml`.
pub fn folder(name: &str, scenario: &str) -> PathBuf {
    let folder = empty_folder(name);
    std::fs::write(folder.join("scenario.toml"), scenario).unwrap();
    folder
}
