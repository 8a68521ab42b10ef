//! Peers that begin a TLS handshake and never complete it. The honest neighbour uses TLS, too.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::tcpcl::{CONTACT as PLAIN, sess_init};
use crate::attack::wire::tls::{CONTACT, client_hello};
use crate::attack::wire::{PATIENCE, connect, discard, stranger};
use crate::random::Random;
use anyhow::Result;
use std::io::{Read, Write};

/// Half of a ClientHello.
pub const HALF: Case = Case {
    name: "tls-half-handshakes",
    what: "1,000 sessions from ten addresses that say half of their first word; then silence.",
    run: half,
};
/// Complete ClientHellos without a second flight.
pub const HELLOS: Case = Case {
    name: "tls-hellos",
    what: "3,000 sessions from ten addresses that each let the node answer, and go.",
    run: hellos,
};
/// Random bytes instead of TLS.
pub const GARBAGE: Case = Case {
    name: "tls-garbage",
    what: "Sessions from ten addresses with random records, one after the other.",
    run: garbage,
};
/// Downgrade to an unencrypted session.
pub const STRIPPED: Case = Case {
    name: "tls-stripped",
    what: "2,000 sessions from ten addresses that say they cannot do TLS and introduce themselves in the clear.",
    run: stripped,
};

fn from(number: u64) -> std::net::Ipv4Addr {
    stranger((number % 10 + 1) as u8)
}

fn half(target: &Target) -> Result<Outcome> {
    let mut random = Random::new(7);
    let opened = open_many(target, 1000, |number| {
        let hello = client_hello(|| random.next());
        let mut stream = connect(from(number), target.tls)?;
        stream.write_all(&[CONTACT, &hello[..hello.len() / 2]].concat())?;
        Ok(stream)
    });
    target.hold();
    let open = opened.iter().filter(|stream| discard(stream).1).count();
    Ok(Outcome::of(format!("{} opened, {open} still open", opened.len())))
}

fn hellos(target: &Target) -> Result<Outcome> {
    let (mut random, mut asked, mut answered) = (Random::new(8), 0u64, 0u64);
    for number in target.paced(3000) {
        let Ok(mut stream) = connect(from(number), target.tls) else { continue };
        if stream.write_all(CONTACT).is_err() {
            continue;
        }
        // The node's contact header, then its ServerHello: a record of type 22.
        let mut header = [0; 6];
        if stream.read_exact(&mut header).is_err() || stream.write_all(&client_hello(|| random.next())).is_err() {
            continue;
        }
        asked += 1;
        let mut record = [0; 5];
        answered += u64::from(stream.read_exact(&mut record).is_ok() && record[0] == 22);
    }
    target.hold();
    Ok(Outcome::of(format!("{asked} asked, {answered} answered")))
}

fn garbage(target: &Target) -> Result<Outcome> {
    let (mut random, mut sent) = (Random::new(9), 0u64);
    for number in target.paced(5000) {
        let Ok(mut stream) = connect(from(number), target.tls) else { continue };
        let mut bytes: Vec<u8> = (0..500).flat_map(|_| random.next().to_le_bytes()).collect();
        // Every other session begins with a handshake record (type 22) of random content.
        if number % 2 == 0 {
            bytes[..5].copy_from_slice(&[22, 3, 1, 0x0f, 0]);
        }
        sent += u64::from(stream.write_all(&[CONTACT, &bytes].concat()).is_ok());
    }
    target.hold();
    Ok(Outcome::of(format!("{sent} sessions")))
}

fn stripped(target: &Target) -> Result<Outcome> {
    let (mut sent, mut introduced) = (0u64, 0u64);
    for number in target.paced(2000) {
        let Ok(mut stream) = connect(from(number), target.tls) else { continue };
        let hello = [PLAIN, &sess_init(&format!("ipn:{}.0", 66 + number))].concat();
        sent += u64::from(stream.write_all(&hello).is_ok());
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let mut answer = Vec::new();
        let _ = stream.take(64).read_to_end(&mut answer);
        // The node may send a contact header and SESS_TERM, but no SESS_INIT (type 7) in the clear.
        introduced += u64::from(answer.get(6) == Some(&7));
    }
    target.hold();
    let did = format!("{sent} sessions");
    Ok(Outcome::of(did).unless(introduced == 0, || format!("{introduced} sessions in the clear")))
}
