//! Silent application connections.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::connect_unix;
use anyhow::Result;

pub const CASE: Case =
    Case { name: "aap2-silent", what: "1,100 connections to the application socket that say nothing.", run };

fn run(target: &Target) -> Result<Outcome> {
    let opened = open_many(target, 1100, |_| connect_unix(&target.applications));
    target.hold();
    Ok(Outcome::of(format!("{} connected", opened.len())))
}
