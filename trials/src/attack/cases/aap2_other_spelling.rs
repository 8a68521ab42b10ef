//! Registration of another application's endpoint under a different spelling.

use super::{Case, Outcome, PATIENCE, Target};
use crate::harness::client::attach_with;
use anyhow::Result;

pub const CASE: Case = Case {
    name: "aap2-other-spelling",
    what: "An application without the secret registers the honest one's endpoint as ipn:1.22, ipn:!.22 and ipn:01.22.",
    run,
};

/// Spellings of the endpoint at which an honest application receives from the neighbour.
const SPELLINGS: [&str; 4] = ["ipn:1.22", "ipn:!.22", "ipn:01.22", "ipn:0.1.22"];

fn run(target: &Target) -> Result<Outcome> {
    let (mut registered, mut taken) = (Vec::new(), 0u64);
    for spelling in SPELLINGS {
        // Each attempt without the owner's secret should be refused.
        if let Ok(client) = attach_with(&target.applications, spelling, "thief", 64) {
            client.set_read_timeout(Some(PATIENCE))?;
            registered.push((spelling, client));
        }
    }
    let names: Vec<&str> = registered.iter().map(|(spelling, _)| *spelling).collect();
    while !target.over() && !registered.is_empty() {
        registered.retain_mut(|(_, client)| match client.delivery() {
            Ok(_) => {
                taken += 1;
                client.taken(true).is_ok()
            }
            Err(why) => matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        });
    }
    target.hold();
    let names = if names.is_empty() { "nothing".into() } else { names.join(" ") };
    // A bundle taken here would be missing at its owner.
    Ok(Outcome::of(format!("registered {names}, {taken} bundles taken"))
        .unless(names == "nothing", || format!("registered {names} beside its owner, {taken} bundles taken")))
}
