//! `cargo xtask crash`: kills real nodes under load with SIGKILL at random moments and starts them again. Acknowledged
//! bundles must survive; delivered bundles must not be delivered again.
//!
//! Two nodes with durable stores exchange bundles over TCPCLv4; an application at each sends to two endpoints of the
//! other. The seed fixes payloads, moments and victims; timing depends on the machine. With `--forgetting`, the stores
//! are on a disk that loses unsynced data in about every other kill.

mod flip;
mod forgetting;
mod interrupt;
mod kill;
pub mod load;
mod node;
mod receive;

use crate::harness::build;
use crate::random::Random;
use crate::{Chore, tools};
use anyhow::{Result, bail};

/// The chore `cargo xtask crash`.
pub const CHORE: Chore = Chore {
    name: "crash",
    usage: "[--kills N] [--flip N] [--seed N] [--trial WORDS] [--forgetting [--states N]]",
    help: "Kills nodes under load (20 times), flips bytes of stores (20): nothing acknowledged may be lost.\n\
           \n\
           As many kills each: with plain bundles; with bundles that go in pieces; with full stores; over TLS; over\n\
           STCP and MTCP, of the sender. --trial: only those with these words in their name. The clock is wrong after\n\
           some. --forgetting: instead, N times (40) the power goes as well: the store is on a file system (FUSE) that\n\
           then forgets what was not synced, in part or as a whole; and as often under `farlink recv`.",
    run,
};

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let (kills, flips) = (arguments.number("--kills", 20)?, arguments.number("--flip", 20)?);
    // Without a seed, the clock gives one; it is printed for another try.
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.subsec_nanos();
    let seed = arguments.number("--seed", clock.into())?;
    let (forgetting, states) = (arguments.flag("--forgetting"), arguments.number("--states", 40)?);
    let trial = arguments.word("--trial")?.unwrap_or("");
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an option of crash");
    }
    let binary = build()?;
    let dir = std::env::temp_dir().join(format!("farlink-crash-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let mut random = Random::new(seed);
    let mut complaints = Vec::new();
    if forgetting {
        println!("crash: seed {seed}, {states} power cuts; working in {}", dir.display());
        complaints.extend(kill::run(&dir, &binary, (trial, states), true, &mut random)?);
        if "receiver".contains(trial) {
            complaints.extend(receive::run(&dir, &binary, states, &mut random)?);
        }
    } else {
        println!("crash: seed {seed}, {kills} kills, {flips} flipped bytes; working in {}", dir.display());
        complaints.extend(kill::run(&dir, &binary, (trial, kills), false, &mut random)?);
    }
    if flips > 0 && !forgetting {
        let flips = flip::run(&dir, &binary, flips, &mut random)?;
        println!("\nflipped bytes    {:>8}", flips.tried);
        println!("  cost nothing   {:>8}", flips.tried - flips.lost_one - flips.wrong.len() as u64);
        println!("  cost a bundle  {:>8}", flips.lost_one);
        println!("  cost more      {:>8}", flips.wrong.len());
        complaints.extend(flips.wrong);
    }
    if complaints.is_empty() {
        std::fs::remove_dir_all(&dir)?;
        return Ok(());
    }
    bail!(
        "{}\nstores and logs are in {}\ntry again with `cargo xtask crash {} --seed {seed}`",
        complaints.join("\n"),
        dir.display(),
        if forgetting { format!("--forgetting --states {states}") } else { format!("--kills {kills}") }
    )
}
