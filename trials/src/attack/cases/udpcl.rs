//! UDPCL datagrams of both versions, from unknown addresses and from the spoofed address of a neighbour.

use super::{Case, Outcome, Target};
use crate::attack::stage::EMPTY_HOUSE;
use crate::attack::wire::bundle::Bundle;
use crate::attack::wire::udpcl::{listens, probe, segment};
use crate::attack::wire::{datagrams, stranger};
use crate::random::Random;
use anyhow::Result;
use std::net::UdpSocket;

/// Random datagrams.
pub const GARBAGE: Case =
    Case { name: "udpcl-garbage", what: "130,000 datagrams of random bytes from twenty addresses.", run: garbage };
/// Version 1: one bundle per datagram.
pub const BUNDLES: Case = Case {
    name: "udpcl-bundles",
    what: "130,000 datagrams from twenty addresses, each with a bundle to nowhere.",
    run: bundles,
};
/// Version 2: segments of transfers.
pub const SEGMENTS: Case = Case {
    name: "udpcl-segments",
    what: "130,000 segments from twenty addresses, each of another bundle of 16 MB of which the rest never comes.",
    run: |target| segments(target, &strangers()?),
};
/// Segments from a neighbour's address.
pub const SPOOFED: Case = Case {
    name: "udpcl-spoofed",
    what: "130,000 such segments from the address and port of a configured neighbour.",
    run: |target| segments(target, &[neighbour()?]),
};
/// Small probes that ask for long answers.
pub const QUESTIONS: Case = Case {
    name: "udpcl-questions",
    what: "20,000 datagrams of 200 questions for a sign of life each: nobody is sent more than it sent.",
    run: questions,
};
/// Datagrams that each name another node, which claims to listen.
pub const NAMES: Case = Case {
    name: "udpcl-names",
    what: "60,000 datagrams from twenty addresses, each with the name of another node, which says that it listens.",
    run: names,
};

const COUNT: u64 = 130_000;

fn strangers() -> Result<Vec<UdpSocket>> {
    Ok((1..=20).map(|number| datagrams(stranger(number))).collect::<Result<Vec<_>, _>>()?)
}
/// Socket at the address of a configured neighbour that does not run.
fn neighbour() -> Result<UdpSocket> {
    let socket = UdpSocket::bind(EMPTY_HOUSE)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
/// Sends datagrams evenly over the attack's time; returns the bytes sent.
fn send(target: &Target, sockets: &[UdpSocket], count: u64, mut next: impl FnMut(u64) -> Vec<u8>) -> u64 {
    let mut sent = 0;
    for number in target.paced(count) {
        let socket = &sockets[number as usize % sockets.len()];
        sent += socket.send_to(&next(number), target.udpcl).unwrap_or(0) as u64;
    }
    target.hold();
    sent
}
/// Bytes of the answers, including 28 bytes of IPv4 and UDP headers each.
fn answered(sockets: &[UdpSocket]) -> u64 {
    let mut buffer = [0; 2048];
    let came = |socket: &UdpSocket, buffer: &mut [u8]| socket.recv(buffer).map_or(0, |len| 28 + len as u64);
    sockets
        .iter()
        .map(|socket| std::iter::repeat_with(|| came(socket, &mut buffer)).take_while(|n| *n > 0).sum::<u64>())
        .sum()
}

fn garbage(target: &Target) -> Result<Outcome> {
    let mut random = Random::new(6);
    let sent = send(target, &strangers()?, COUNT, |_| {
        let len = random.below(200) as usize + 1;
        (0..25).flat_map(|_| random.next().to_le_bytes()).take(len).collect()
    });
    Ok(Outcome::of(format!("{:.1} MB", sent as f64 / 1e6)))
}
fn bundles(target: &Target) -> Result<Outcome> {
    let sent = send(target, &strangers()?, COUNT, |number| Bundle::new("ipn:404.1", number).with(&[0x55; 100]));
    Ok(Outcome::of(format!("{:.1} MB", sent as f64 / 1e6)))
}
fn segments(target: &Target, sockets: &[UdpSocket]) -> Result<Outcome> {
    let data = [0x55; 1200];
    // Offsets within the first 10 kB of 16 MB: no transfer can complete.
    let sent = send(target, sockets, COUNT, |number| segment(number, 16_000_000, number % 9 * 1200, &data));
    Ok(Outcome::of(format!("{:.1} MB", sent as f64 / 1e6)))
}
fn questions(target: &Target) -> Result<Outcome> {
    let sockets = strangers()?;
    let packet: Vec<u8> = (0..200).flat_map(|number| probe(1, number % 20)).collect();
    let (mut sent, mut came) = (0, 0);
    for number in target.paced(20_000) {
        let socket = &sockets[number as usize % sockets.len()];
        sent += socket.send_to(&packet, target.udpcl).map_or(0, |len| 28 + len as u64);
        // Answers are read before the socket's buffer overflows.
        if number % 20 == 0 {
            came += answered(&sockets);
        }
    }
    target.hold();
    came += answered(&sockets);
    let did = format!("{:.1} MB asked, {:.1} MB answered", sent as f64 / 1e6, came as f64 / 1e6);
    Ok(Outcome::of(did).unless(came <= sent, || "the node sends more than it is sent".into()))
}
fn names(target: &Target) -> Result<Outcome> {
    let sockets = strangers()?;
    let sent = send(target, &sockets, 60_000, |number| listens(&format!("ipn:{}.0", 1000 + number)));
    let came = answered(&sockets);
    Ok(Outcome::of(format!("{:.1} MB, {:.1} kB answered at the end", sent as f64 / 1e6, came as f64 / 1e3)))
}
