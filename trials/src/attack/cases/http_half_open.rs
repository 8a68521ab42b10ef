//! Requests that never end.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::{connect, discard, stranger};
use anyhow::Result;
use std::io::Write;

pub const CASE: Case =
    Case { name: "http-half-open", what: "1,100 connections to the control interface, each with half a request.", run };

fn run(target: &Target) -> Result<Outcome> {
    let opened = open_many(target, 1100, |_| {
        let mut stream = connect(stranger(1), target.api)?;
        // The header is cut in the middle of a name.
        stream.write_all(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")?;
        Ok(stream)
    });
    target.hold();
    let open = opened.iter().filter(|stream| discard(stream).1).count();
    Ok(Outcome::of(format!("{} connected, {open} still open", opened.len())))
}
