//! A few seconds of `cargo xtask attack` and `cargo xtask soak`: the chores work, and the node keeps its promises under
//! them.

use crate::node_support;

use std::process::{Command, Output};

fn chore(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--"])
        .args(arguments)
        .env("FARLINK_BIN", node_support::farlink())
        .output()
        .expect("cargo runs")
}

#[test]
fn attacked_node_loses_no_bundle() {
    // One attack each of sessions, of datagrams and of bundles: a few seconds in all.
    let cases = "tcpcl-unfinished,ltp-one-byte,malformed";
    let output = chore(&["attack", "--only", cases, "--limit-time", "1", "--rate", "50"]);
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Goodput and answers in time depend on the machine; losses and crashes do not.
    for case in cases.split(',') {
        assert!(told.contains(&format!("| {case} |")), "{told}\n{errors}");
    }
    for wrong in ["honest bundles lost", "honest bundles corrupt", "the node ended", "nothing arrives"] {
        assert!(!told.contains(wrong), "{told}\n{errors}");
    }
}

#[test]
fn short_soak_loses_and_leaks_nothing() {
    let output = chore(&["soak", "--seconds", "4", "--rate", "50"]);
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    assert!(told.contains(" 0 lost, 0 refused, 0 corrupt"), "{told}");
}
