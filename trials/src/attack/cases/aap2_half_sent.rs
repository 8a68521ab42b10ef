//! Transfers that stop halfway.

use super::{Case, Outcome, Target};
use crate::attack::wire::connect_unix;
use crate::harness::client::{AapBody, BundleAdu, ConnectionConfig, framed, to};
use anyhow::Result;
use std::io::{ErrorKind, Write};

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
    // The socket took these bytes; the node answers a bundle only once it is whole.
    Ok(Outcome::of(format!("{} MB sent", sent / 1_000_000)))
}

fn one(target: &Target, number: u64) -> Result<u64> {
    let mut stream = connect_unix(&target.applications)?;
    let config = ConnectionConfig {
        secret: "half".into(),
        endpoint_id: format!("ipn:1.{}", 600 + number),
        ..ConnectionConfig::default()
    };
    let adu = BundleAdu { payload_length: WHOLE, ..to("ipn:404.1") };
    stream.write_all(&framed(AapBody::Config(config)))?;
    stream.write_all(&framed(AapBody::Adu(adu)))?;
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
