//! A few kills and power cuts of `cargo xtask crash`: the durable node keeps its promises and the chore works.

use crate::node_support;

use std::process::Command;

fn crash(options: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--", "crash"])
        .args(options)
        .env("FARLINK_BIN", node_support::farlink())
        .output()
        .expect("cargo runs");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    // The report has six counts of losses, and all must be zero.
    assert_eq!(told.matches("; 0 acknowledged bundles lost").count(), 6, "{told}");
    told.into_owned()
}

#[test]
fn kills_lose_nothing_acknowledged() {
    crash(&["--kills", "6", "--flip", "1", "--seed", "7"]);
}

#[test]
fn power_cuts_lose_nothing_acknowledged() {
    // The forgetting disk is a FUSE file system, which needs the device and the right to mount.
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        eprintln!("not run: this user or machine has no /dev/fuse");
        return;
    }
    crash(&["--forgetting", "--states", "12", "--seed", "7"]);
}
