//! Requests of unlimited length.

use super::{Case, Outcome, Target};
use crate::attack::wire::{connect, stranger};
use anyhow::Result;
use std::io::{ErrorKind, Write};

pub const CASE: Case = Case {
    name: "http-huge",
    what: "Requests to the control interface with 100 MB of headers, and with a body of 1 GiB, eight at once.",
    run,
};

/// Beginning of each request, the part repeated after it, and the bytes of all repetitions.
const KINDS: [(&str, &[u8], u64); 2] = [
    (
        "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"X-Header: 0123456789012345678901234567890123456789\r\n",
        100 << 20,
    ),
    (
        "POST /links HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: 1073741824\r\n\r\n",
        b"# 0123456789012345678901234567890123456789012345\n",
        1 << 30,
    ),
];

fn run(target: &Target) -> Result<Outcome> {
    let senders: Vec<_> = (0..8)
        .map(|number| {
            let target = target.clone();
            std::thread::spawn(move || one(&target, KINDS[number % 2]).unwrap_or(0))
        })
        .collect();
    let sent: u64 = senders.into_iter().filter_map(|sender| sender.join().ok()).sum();
    Ok(Outcome::of(format!("{} MB sent", sent / 1_000_000)))
}

fn one(target: &Target, (begin, part, most): (&str, &[u8], u64)) -> Result<u64> {
    let mut sent = 0;
    while !target.over() {
        let Ok(mut stream) = connect(stranger(1), target.api) else { continue };
        stream.write_all(begin.as_bytes())?;
        // A refused connection ends the loop; the next one starts over.
        let (parts, mut here) = (part.repeat(2000), 0);
        while here < most && !target.over() {
            let at = (here % parts.len() as u64) as usize;
            match stream.write(&parts[at..]) {
                Ok(n) => here += n as u64,
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        sent += here;
        // A pause after a refusal: reconnecting at once would load the machine, not the node.
        std::thread::sleep(super::PATIENCE / 10);
    }
    Ok(sent)
}
