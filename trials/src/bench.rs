//! `cargo xtask bench`: measures everything on this machine and writes the README's table.

mod cells;
mod emulator;
mod exact;
mod hybla;
mod kills;
mod links;
mod phases;
mod retention;
mod sim;
mod sky;

use crate::{Chore, tools};
use anyhow::{Result, bail};
use std::process::Command;

/// The chore `cargo xtask bench`.
pub const CHORE: Chore = Chore {
    name: "bench",
    usage: "[--runs N] | sim [--only NAME] [--all] [--limit SECONDS] [--seeds N] | emulator [--only NAME] [--against FARLINK] [--runs N] [--seconds N] | links [--hosts N] [--links N] [--changes N] | phases [--runs N] | kills [--times N] [--seed N] | retention [--only NAME] | hybla [--runs N] [--seconds N]",
    help: "Runs `farlink bench suite` and writes the table of the README.\n\
           \n\
           `sim` prints what simulations of whole bundles cost instead, beside the marks that are aimed at and what\n\
           The ONE needs, and those of 50 nodes beside its own world with so many seeds (5; 0: not at all). Those that\n\
           take minutes are run with `--all` only, or by name; one that takes more than so many seconds of a processor\n\
           (300) is given up, and its row says so. Builds `trials/examples/cost.rs` with `--profile quick`, or runs the\n\
           one FARLINK_COST names.\n\
           \n\
           `emulator` prints what the testbed's emulator costs and how late it is, in turns with another build of it.\n\
           `links` prints how long many hosts and links take to come up, and how many of their changes are late.\n\
           `phases` shows how exactly the testbed tells memory and processor time of a program in the phases in which\n\
           it uses them, by control groups and, as an ordinary user, by /proc. `kills` kills random processes of runs at\n\
           random moments, and fails where anything is left.\n\
           \n\
           `retention` prints how well its probe measures relays that copy and relays that work 200 µs, over each layer.\n\
           \n\
           `hybla` prints what plain TCP flows carry through 600 ms and 1 % loss, and fails if Hybla carries less than five\n\
           times what Reno does. It registers TCP Hybla for the time it takes, where the kernel has none.\n\
           \n\
           Builds with `--profile quick` (what `make demo` runs) first; FARLINK_BIN names a ready binary instead.",
    run,
};

type Bench = fn(&[String]) -> Result<()>;

/// Benchmarks apart from the suite, by the word that selects them.
const BENCHES: [(&str, Bench); 7] = [
    ("sim", sim::run),
    ("emulator", emulator::run),
    ("links", links::run),
    ("phases", phases::run),
    ("hybla", hybla::run),
    ("kills", kills::run),
    ("retention", retention::run),
];

fn run(arguments: &[String]) -> Result<()> {
    if let Some((first, rest)) = arguments.split_first()
        && let Some((_, run)) = BENCHES.iter().find(|(name, _)| name == first)
    {
        return run(rest);
    }
    let mut arguments = tools::Arguments::new(arguments);
    let runs = arguments.number("--runs", 3)?;
    if let Some(extra) = arguments.rest()?.first() {
        bail!("`{extra}` is not an argument of bench");
    }
    let mut suite = Command::new(tools::farlink()?);
    suite.args(["bench", "suite", "--runs", &runs.to_string(), "--write"]).arg(tools::root().join("README.md"));
    tools::run(&mut suite)
}
