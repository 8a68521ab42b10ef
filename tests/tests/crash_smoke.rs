//! `cargo xtask crash`, a few kills of it: the durable node keeps its promises and the chore works.

mod node_support;

use std::process::Command;

#[test]
fn killed_nodes_and_flipped_bytes_lose_nothing_that_was_acknowledged() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "crash", "--kills", "3", "--flip", "1", "--seed", "7"])
        .env("FARLINK_BIN", node_support::farlink())
        .output()
        .expect("cargo runs");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    assert!(told.contains("0 acknowledged bundles lost"), "{told}");
}
