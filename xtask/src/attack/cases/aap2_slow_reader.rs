//! An application that asks for much and reads nothing.

use super::{Case, Outcome, PATIENCE, Target};
use crate::crash::aap2::Client;
use anyhow::Result;

/// The case.
pub const CASE: Case = Case {
    name: "aap2-slow-reader",
    what: "A subscriber with a window of 4,096 deliveries reads none of the 400 bundles of 1 MB another sends it.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let subscriber = Client::attach_with(&target.applications, "ipn:1.700", "slow", 4096)?;
    let mut sender = Client::attach_with(&target.applications, "ipn:1.701", "slow", 0)?;
    sender.set_timeout(10 * PATIENCE)?;
    let (payload, mut taken) = (vec![0x55; 1_000_000], 0);
    for _ in target.paced(400) {
        if sender.send("ipn:1.700", &payload).is_err() {
            break;
        }
        match sender.response() {
            Ok(true) => taken += 1,
            Ok(false) => {}
            Err(_) => break,
        }
    }
    target.hold();
    drop(subscriber);
    Ok(Outcome::of(format!("{taken} MB taken")))
}
