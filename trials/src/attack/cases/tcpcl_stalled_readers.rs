//! Neighbours that have bundles stored for them and then read none.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::bundle::Bundle;
use crate::attack::wire::tcpcl::{CONTACT, Session, sess_init, transfer};
use crate::attack::wire::{connect, discard, stranger};
use anyhow::Result;
use std::io::Write;

pub const CASE: Case = Case {
    name: "tcpcl-stalled-readers",
    what: "120 bundles of 1 MB for 12 nodes, which then open a session each and read nothing.",
    run,
};

const NODES: u64 = 12;

fn run(target: &Target) -> Result<Outcome> {
    let payload = vec![0x55; 1_000_000];
    let mut giver = Session::open(stranger(1), target.tcpcl, "ipn:66.0")?;
    // The first third of the time fills the store; the rest is for the readers.
    let until = target.begun + target.lasts / 3;
    let gave = (0..10 * NODES)
        .take_while(|number| {
            let bundle = Bundle::new(&format!("ipn:{}.1", 900 + number % NODES), *number).with(&payload);
            giver.push(&transfer(*number, &bundle), until)
        })
        .count();
    let readers = open_many(target, NODES, |number| {
        let mut stream = connect(stranger(10 + number as u8), target.tcpcl)?;
        stream.write_all(&[CONTACT, &sess_init(&format!("ipn:{}.0", 900 + number))].concat())?;
        Ok(stream)
    });
    target.hold();
    let open = readers.iter().filter(|stream| discard(stream).1).count();
    Ok(Outcome::of(format!("{gave} MB given, {} came, {open} still open", readers.len())))
}
