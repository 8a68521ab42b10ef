//! Many hosts and links come up, change and end. `cargo xtask bench links` measures more of them.

#[path = "../examples/many_links/world.rs"]
mod world;

use farlink_lab::supervisor::{Supervisor, run_if_asked};
use std::process::ExitCode;
use world::ManyLinks;

fn main() -> ExitCode {
    // This program is its own supervisor.
    if let Some(code) = run_if_asked() {
        return code;
    }
    let program = std::env::current_exe().unwrap();
    if let Err(error) = Supervisor::start(&program, None) {
        println!("skipped: this machine lets us isolate nothing: {error:#}");
        return ExitCode::SUCCESS;
    }
    let found = ManyLinks { hosts: 40, links: 80, changes: 200 }.run(&program).unwrap();
    let [seen, planned] = found.seen;
    assert!(seen >= planned, "{found:?}");
    println!(
        "test 40 hosts and 80 links come up and change ... ok (joined in {:?}, {} changes late)",
        found.set_up, found.late
    );
    ExitCode::SUCCESS
}
