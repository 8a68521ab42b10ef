//! Silent TCP connections.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::{connect, stranger};
use anyhow::Result;

pub const CASE: Case = Case {
    name: "tcpcl-silent-connections",
    what: "1,000 TCP connections from one address to the TCPCLv4 port, on which nothing is sent.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let opened = open_many(target, 1000, |_| connect(stranger(1), target.tcpcl));
    target.hold();
    Ok(Outcome::of(format!("{} connected", opened.len())))
}
