//! A subscriber with a large window that reads nothing.

use super::{Case, Outcome, PATIENCE, Target};
use crate::harness::client::{attach_with, is_taken, to};
use anyhow::Result;

pub const CASE: Case = Case {
    name: "aap2-slow-reader",
    what: "A subscriber with a window of 4,096 deliveries reads none of the 400 bundles of 1 MB another sends it.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let subscriber = attach_with(&target.applications, "ipn:1.700", "slow", 4096)?;
    let mut sender = attach_with(&target.applications, "ipn:1.701", "slow", 0)?;
    // The node may answer slowly while it is short of memory.
    sender.set_read_timeout(Some(10 * PATIENCE))?;
    let (payload, mut taken) = (vec![0x55; 1_000_000], 0);
    for _ in target.paced(400) {
        if sender.send(to("ipn:1.700"), &payload).is_err() {
            break;
        }
        match is_taken(&mut sender) {
            Ok(true) => taken += 1,
            Ok(false) => {}
            Err(_) => break,
        }
    }
    target.hold();
    drop(subscriber);
    Ok(Outcome::of(format!("{taken} MB taken")))
}
