//! Bundles whose second half never comes.

use super::{Case, Outcome, Target};
use crate::attack::wire::connect_unix;
use crate::crash::aap2::{put_bytes, put_number, put_varint};
use anyhow::Result;
use std::io::{ErrorKind, Write};

/// The case.
pub const CASE: Case = Case {
    name: "aap2-half-sent",
    what: "Six applications each send half of a bundle of 1 GiB, and then nothing.",
    run,
};

const WHOLE: u64 = 1 << 30;

fn run(target: &Target) -> Result<Outcome> {
    let senders: Vec<_> = (0..6)
        .map(|number| {
            let target = target.clone();
            std::thread::spawn(move || one(&target, number).unwrap_or(0))
        })
        .collect();
    let sent: u64 = senders.into_iter().filter_map(|sender| sender.join().ok()).sum();
    Ok(Outcome::of(format!("{} MB sent", sent / 1_000_000)))
}

fn one(target: &Target, number: u64) -> Result<u64> {
    let mut stream = connect_unix(&target.applications)?;
    let framed = |field: u64, body: &[u8]| {
        let (mut message, mut out) = (Vec::new(), Vec::new());
        put_bytes(&mut message, field, body);
        put_varint(&mut out, message.len() as u64);
        out.extend(message);
        out
    };
    let (mut config, mut adu) = (Vec::new(), Vec::new());
    put_bytes(&mut config, 3, b"half");
    put_bytes(&mut config, 4, format!("ipn:1.{}", 600 + number).as_bytes());
    put_bytes(&mut adu, 2, b"ipn:404.1");
    put_number(&mut adu, 5, WHOLE);
    stream.write_all(&framed(2, &config))?;
    stream.write_all(&framed(3, &adu))?;
    let (part, mut sent) = (vec![0x55; 1 << 20], 0);
    while sent < WHOLE / 2 && !target.over() {
        match stream.write(&part) {
            Ok(n) => sent += n as u64,
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    target.hold();
    Ok(sent)
}
