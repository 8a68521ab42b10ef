//! Sessions that stay silent after SESS_INIT.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::tcpcl::{CONTACT, sess_init};
use crate::attack::wire::{connect, discard, stranger};
use anyhow::Result;
use std::io::Write;

pub const CASE: Case = Case {
    name: "tcpcl-silent-sessions",
    what: "1,000 sessions with contact header and SESS_INIT, each another node ID, from ten addresses; then silence.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let opened = open_many(target, 1000, |number| {
        let mut stream = connect(stranger((number % 10 + 1) as u8), target.tcpcl)?;
        stream.write_all(&[CONTACT, &sess_init(&format!("ipn:{}.0", 1000 + number))].concat())?;
        Ok(stream)
    });
    target.hold();
    let open = opened.iter().filter(|stream| discard(stream).1).count();
    Ok(Outcome::of(format!("{} sent, {open} still open", opened.len())))
}
