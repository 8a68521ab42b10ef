//! Long transfers that never end.

use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::Bundle;
use crate::attack::wire::stranger;
use crate::attack::wire::tcpcl::{START, Session, segment_head};
use anyhow::Result;

/// One transfer of 1 GiB without its end.
pub const ONE: Case = Case {
    name: "tcpcl-unfinished",
    what: "One session sends all but the last segment of a bundle of 1 GiB for an application here.",
    run: |target| run(target, 1, 1 << 30),
};
/// Eight transfers of 1 GiB at once without their ends.
pub const SEVERAL: Case =
    Case { name: "tcpcl-unfinished-8", what: "Eight strangers do so at once.", run: |target| run(target, 8, 1 << 30) };

/// Transfers that just fit into the store.
pub const FITTING: Case = Case {
    name: "tcpcl-unfinished-fitting",
    what: "Three strangers do so with bundles of 75 MiB, which together nearly fill the store.",
    run: |target| run(target, 3, 75 << 20),
};

const SEGMENT: u64 = 256 << 10;

fn run(target: &Target, sessions: u8, whole: u64) -> Result<Outcome> {
    let strangers = (1..=sessions).map(|number| {
        let target = target.clone();
        std::thread::spawn(move || one(&target, number, whole))
    });
    let sent: u64 = strangers.collect::<Vec<_>>().into_iter().filter_map(|stranger| stranger.join().ok()).sum();
    Ok(Outcome::of(format!("{} MB sent", sent / 1_000_000)))
}

fn one(target: &Target, number: u8, whole: u64) -> u64 {
    let Ok(mut session) = Session::open(stranger(number), target.tcpcl, &format!("ipn:{}.0", 66 + u64::from(number)))
    else {
        target.hold();
        return 0;
    };
    let head = Bundle::new("ipn:1.77", number.into()).head(whole);
    // The announced length includes the 0xff that ends the bundle.
    let mut first = segment_head(START, 0, Some(whole + head.len() as u64 + 1), head.len() as u64);
    first.extend(&head);
    let mut sent = 0;
    let next = [segment_head(0, 0, None, SEGMENT), vec![0x55; SEGMENT as usize]].concat();
    if session.push(&first, target.end()) {
        while sent + SEGMENT < whole && session.push(&next, target.end()) {
            sent += SEGMENT;
        }
    }
    target.hold();
    sent
}
