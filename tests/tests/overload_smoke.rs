//! A few seconds of `cargo xtask overload`: a full node loses nothing, keeps to its memory and accepts urgent bundles.
//! Checks that depend on the machine's speed are left to the chore.

use crate::node_support;

use std::process::Command;

#[test]
fn full_node_stays_within_memory() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "overload", "--seconds", "4", "--link", "4"])
        .env("FARLINK_BIN", node_support::farlink())
        .output()
        .expect("cargo runs");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    assert!(told.contains(" acknowledged, 0 lost, 0 corrupt"), "{told}");
    let urgent = told.lines().find(|line| line.starts_with("expedited")).expect("it says what became of urgent ones");
    assert!(urgent.contains(" taken, 0 refused, "), "{urgent}");
}
