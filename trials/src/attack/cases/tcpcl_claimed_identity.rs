//! An unknown peer that claims a neighbour's node ID.

use super::{Case, Outcome, Target};
use crate::attack::wire::tcpcl::{END, Message, START, Session};
use crate::attack::wire::{PATIENCE, stranger};
use anyhow::Result;

pub const CASE: Case = Case {
    name: "tcpcl-claimed-identity",
    what: "A stranger says in SESS_INIT that it is the neighbour, and acknowledges every bundle it gets.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let (mut sessions, mut taken) = (0, 0);
    while !target.over() {
        if let Ok(mut session) = Session::open(stranger(1), target.tcpcl, "ipn:2.0") {
            sessions += 1;
            let _ = take(target, &mut session, &mut taken);
        }
        // A pause between sessions: the node may refuse at once.
        std::thread::sleep(PATIENCE / 10);
    }
    Ok(Outcome::of(format!("{sessions} sessions, {taken} bundles taken"))
        .unless(taken == 0, || format!("{taken} bundles for the neighbour were taken")))
}

/// Takes and acknowledges all bundles that arrive.
///
/// # Errors
/// When the session has ended.
pub fn take(target: &Target, session: &mut Session, taken: &mut u64) -> std::io::Result<()> {
    let mut bytes = 0;
    while !target.over() {
        let Some(Message::Segment(flags, transfer, length)) = session.message()? else { continue };
        bytes = if flags & START != 0 { length } else { bytes + length };
        session.acknowledge(flags, transfer, bytes)?;
        *taken += u64::from(flags & END != 0);
    }
    Ok(())
}
