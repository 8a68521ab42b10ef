//! Requests that arrive byte by byte.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::{connect, stranger};
use anyhow::Result;
use std::io::Write;

pub const CASE: Case = Case {
    name: "http-slow-body",
    what: "300 requests to the control interface whose bodies of 1 MB come a byte at a time.",
    run,
};

fn run(target: &Target) -> Result<Outcome> {
    let mut opened = open_many(target, 300, |_| {
        let mut stream = connect(stranger(1), target.api)?;
        // JSON that begins and then consists of spaces.
        stream.write_all(b"POST /routes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n{")?;
        Ok(stream)
    });
    let many = opened.len();
    while !target.over() {
        opened.retain_mut(|stream| stream.write_all(b" ").is_ok());
        std::thread::sleep(super::PATIENCE / 3);
    }
    Ok(Outcome::of(format!("{many} connected, {} still taken", opened.len())))
}
