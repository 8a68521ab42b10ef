//! Keepalives whose answers are never read.

use super::{Case, Outcome, Target};
use crate::attack::wire::connect_unix;
use anyhow::Result;
use std::io::{ErrorKind, Write};

pub const CASE: Case = Case {
    name: "aap2-keepalives",
    what: "An application sends keepalives as fast as it can and never reads the answers.",
    run,
};

/// `AAPMessage(keepalive = Keepalive())` with its length prefix.
const KEEPALIVE: [u8; 3] = [2, 6 << 3 | 2, 0];

fn run(target: &Target) -> Result<Outcome> {
    let mut sent = 0u64;
    if let Ok(mut stream) = connect_unix(&target.applications) {
        // 20,000 keepalives a write: the attack is bounded by the node, not by system calls.
        let (many, mut at) = (KEEPALIVE.repeat(20_000), 0);
        while !target.over() {
            match stream.write(&many[at..]) {
                // A keepalive that was cut continues where it stopped.
                Ok(n) => (at, sent) = ((at + n) % many.len(), sent + n as u64),
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        target.hold();
    }
    Ok(Outcome::of(format!("{} keepalives", sent / KEEPALIVE.len() as u64)))
}
