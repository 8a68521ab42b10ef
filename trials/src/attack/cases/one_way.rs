//! Streams of STCP and MTCP that carry garbage, or nothing. The honest neighbour uses the attacked layer.

use super::{Case, Outcome, Target, open_many};
use crate::attack::stage::LIAR;
use crate::attack::wire::bundle::Bundle;
use crate::attack::wire::{connect, discard, stranger};
use crate::random::Random;
use anyhow::Result;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};

/// Silent STCP streams.
pub const STCP_SILENT: Case = Case {
    name: "stcp-silent",
    what: "2,000 streams from ten addresses, a keepalive in every other one, then silence.",
    run: silent,
};
/// Random bytes over STCP.
pub const STCP_GARBAGE: Case = Case {
    name: "stcp-garbage",
    what: "Streams of random bytes from ten addresses, each as long as the node reads it, one after the other.",
    run: |target| garbage(target, target.stcp),
};
/// Long bundles over STCP that stop early.
pub const STCP_BOMBS: Case = Case {
    name: "stcp-long-bundles",
    what: "900 streams, each with the length of 4 GB and 63 kB of a bundle for an application here; then silence.",
    run: |target| bombs(target, target.stcp, stcp_head),
};
/// Bundles over STCP, a byte at a time.
pub const STCP_TRICKLE: Case = Case {
    name: "stcp-trickle",
    what: "600 streams that each bring a bundle of 60 kB, a byte at a time.",
    run: |target| trickle(target, target.stcp, stcp_head),
};
/// Bundles over STCP at full speed.
pub const STCP_FLOOD: Case = Case {
    name: "stcp-flood",
    what: "Bundles of 20 kB to nowhere from one stranger, as fast as the node reads.",
    run: flood,
};
/// Random bytes over MTCP.
pub const MTCP_GARBAGE: Case = Case {
    name: "mtcp-garbage",
    what: "Streams of random bytes from ten addresses, each as long as the node reads it, one after the other.",
    run: |target| garbage(target, target.mtcp),
};
/// Long bundles over MTCP that stop early.
pub const MTCP_BOMBS: Case = Case {
    name: "mtcp-long-bundles",
    what: "900 streams, each with the head of a string of 4 GB and 63 kB of a bundle for an application here; then silence.",
    run: |target| bombs(target, target.mtcp, mtcp_head),
};
/// Bundles over MTCP, a byte at a time.
pub const MTCP_TRICKLE: Case = Case {
    name: "mtcp-trickle",
    what: "600 streams that each bring a bundle of 60 kB, a byte at a time.",
    run: |target| trickle(target, target.mtcp, mtcp_head),
};
/// MTCP streams of keepalives, empty bundles, endless strings and cut lengths.
pub const MTCP_NOISE: Case = Case {
    name: "mtcp-noise",
    what: "A configured neighbour sends keepalives by the million, and by turns empty bundles, strings of 2^64 bytes, \
           strings without an end, and halves of lengths.",
    run: noise,
};

fn noise(target: &Target) -> Result<Outcome> {
    let bursts: [Vec<u8>; 6] = [
        // An empty byte string is a keepalive, whichever encoding its length uses.
        vec![0x40; 60_000],
        [0x5b, 0, 0, 0, 0, 0, 0, 0, 0].repeat(6000),
        // A byte string of 2^64 - 1 bytes.
        [&[0x5b][..], &[0xff; 8]].concat(),
        // A byte string of indefinite length in parts, then such parts alone.
        [&[0x5f][..], &[0x41, 0x9f].repeat(20_000)].concat(),
        [0x41, 0x9f].repeat(20_000),
        // Half of a length.
        vec![0x5b, 0, 0],
    ];
    let (mut streams, mut bytes) = (0, 0);
    while !target.over() {
        if let Ok(mut stream) = connect(LIAR.0, target.mtcp) {
            let burst = &bursts[streams % bursts.len()];
            streams += 1;
            for _ in 0..20 {
                if stream.write_all(burst).is_err() {
                    break;
                }
                bytes += burst.len();
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    Ok(Outcome::of(format!("{streams} streams, {} MB", bytes / 1_000_000)))
}

fn stcp_head(len: u64) -> Vec<u8> {
    (len as u32).to_be_bytes().to_vec()
}
fn mtcp_head(len: u64) -> Vec<u8> {
    [&[0x5b][..], &len.to_be_bytes()].concat()
}
fn from(number: u64) -> std::net::Ipv4Addr {
    // Ten addresses, so that bounds per address do not hide bounds of the whole layer.
    stranger((number % 10 + 1) as u8)
}
fn still_open(streams: &[TcpStream]) -> usize {
    streams.iter().filter(|stream| discard(stream).1).count()
}

fn silent(target: &Target) -> Result<Outcome> {
    let opened = open_many(target, 2000, |number| {
        let mut stream = connect(from(number), target.stcp)?;
        // A length of 0 is a keepalive of STCP.
        if number % 2 == 0 {
            stream.write_all(&[0; 4])?;
        }
        Ok(stream)
    });
    target.hold();
    Ok(Outcome::of(format!("{} opened, {} still open", opened.len(), still_open(&opened))))
}

fn garbage(target: &Target, at: SocketAddr) -> Result<Outcome> {
    let (mut random, mut streams, mut bytes) = (Random::new(5), 0u64, 0u64);
    while !target.over() {
        streams += 1;
        let Ok(mut stream) = connect(from(streams), at) else { continue };
        for _ in 0..4 {
            let chunk: Vec<u8> = (0..1000).flat_map(|_| random.next().to_le_bytes()).collect();
            if stream.write_all(&chunk).is_err() {
                break;
            }
            bytes += chunk.len() as u64;
        }
        // Without the pause this would be an attack on the machine, not on the node.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Ok(Outcome::of(format!("{streams} streams, {:.1} MB", bytes as f64 / 1e6)))
}

fn bombs(target: &Target, at: SocketAddr, head: fn(u64) -> Vec<u8>) -> Result<Outcome> {
    const WHOLE: u64 = 4_000_000_000;
    let opened = open_many(target, 900, |number| {
        let bundle = Bundle::new("ipn:1.22", number).head(WHOLE - 1000);
        let mut bytes = head(WHOLE);
        bytes.extend(bundle);
        bytes.resize(63_000, 0x55);
        let mut stream = connect(from(number), at)?;
        stream.write_all(&bytes)?;
        Ok(stream)
    });
    target.hold();
    Ok(Outcome::of(format!("{} sent, {} still open", opened.len(), still_open(&opened))))
}

fn trickle(target: &Target, at: SocketAddr, head: fn(u64) -> Vec<u8>) -> Result<Outcome> {
    let bundle = Bundle::new("ipn:1.22", 1).with(&[0x55; 60_000]);
    let bytes = [head(bundle.len() as u64), bundle].concat();
    let mut opened = open_many(target, 600, |number| connect(from(number), at));
    let mut sent = 0;
    while !target.over() && sent < bytes.len() {
        for stream in &mut opened {
            let _ = stream.write(&bytes[sent..=sent]);
        }
        sent += 1;
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Ok(Outcome::of(format!("{} streams, {sent} B each, {} still open", opened.len(), still_open(&opened))))
}

fn flood(target: &Target) -> Result<Outcome> {
    let (mut sent, mut stream) = (0u64, None);
    let mut number = 0;
    while !target.over() {
        let Some(open) = &mut stream else {
            stream = connect(stranger(1), target.stcp).ok();
            continue;
        };
        number += 1;
        let bundle = Bundle::new("ipn:404.1", number).with(&[0x55; 20_000]);
        let bytes = [stcp_head(bundle.len() as u64), bundle].concat();
        match write_until(open, &bytes, target) {
            true => sent += 1,
            false => stream = None,
        }
    }
    Ok(Outcome::of(format!("{sent} bundles")))
}
fn write_until(stream: &mut TcpStream, mut bytes: &[u8], target: &Target) -> bool {
    // A node without room stops reading: the write continues when it resumes, or ends with the attack.
    while !bytes.is_empty() && !target.over() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(why) if matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => return false,
        }
    }
    bytes.is_empty()
}
