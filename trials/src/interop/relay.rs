//! Relays between two nodes that record their traffic.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Recorded traffic: direction (true: from the calling side) and bytes.
pub type Passed = Vec<(bool, Vec<u8>)>;

/// A relay; its threads end with the nodes.
pub struct Relay {
    passed: Arc<Mutex<Passed>>,
    /// Port to which the first node sends.
    pub first: u16,
    /// Port to which the second node sends, over UDP.
    pub second: u16,
}

/// Most bytes read at once.
const ONCE: usize = 65_536;
/// Silence after which the traffic is complete.
const QUIET: Duration = Duration::from_millis(500);
/// Most attempts to connect to the called node, which may not listen yet.
const TRIES: u32 = 100;

impl Relay {
    /// Traffic so far.
    pub fn passed(&self) -> Passed {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Traffic up to a silence of [`QUIET`], so that acknowledgments of the last delivery are included.
    pub fn passed_at_last(&self) -> Passed {
        let mut passed = self.passed();
        loop {
            std::thread::sleep(QUIET);
            let now = self.passed();
            if now.len() == passed.len() {
                return now;
            }
            passed = now;
        }
    }
    /// Relays one TCP stream to a port.
    pub fn tcp(to: u16) -> Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let relay = Relay { passed: Arc::default(), first: listener.local_addr()?.port(), second: 0 };
        let passed = relay.passed.clone();
        std::thread::spawn(move || -> Result<()> {
            let (near, _) = listener.accept()?;
            let mut tries = (0..TRIES).filter_map(|_| {
                std::thread::sleep(Duration::from_millis(50));
                TcpStream::connect(("127.0.0.1", to)).ok()
            });
            let far = tries.next().context("nobody listens")?;
            // A direction blocks while it reads, so the way back needs a thread of its own.
            let back = (far.try_clone()?, near.try_clone()?, passed.clone());
            std::thread::spawn(move || copy(back.0, back.1, false, &back.2));
            copy(near, far, true, &passed);
            Ok(())
        });
        Ok(relay)
    }
    /// Relays datagrams between two nodes at these ports.
    pub fn udp(first: u16, second: u16) -> Result<Relay> {
        let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        let (near_port, far_port) = (near.local_addr()?.port(), far.local_addr()?.port());
        let relay = Relay { passed: Arc::default(), first: near_port, second: far_port };
        let ways = [(near.try_clone()?, far.try_clone()?, second, true), (far, near, first, false)];
        for (from, through, to, forth) in ways {
            let passed = relay.passed.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; ONCE];
                // Errors are ignored: a node that does not listen yet must not end the relay.
                loop {
                    let Ok(length) = from.recv(&mut buffer) else { continue };
                    note(&passed, forth, &buffer[..length]);
                    let _ = through.send_to(&buffer[..length], ("127.0.0.1", to));
                }
            });
        }
        Ok(relay)
    }
}

fn note(passed: &Mutex<Passed>, forth: bool, bytes: &[u8]) {
    passed.lock().unwrap_or_else(PoisonError::into_inner).push((forth, bytes.to_vec()));
}

fn copy(mut from: TcpStream, mut to: TcpStream, forth: bool, passed: &Mutex<Passed>) {
    // A piece becomes one packet of the capture file, so it must leave room for headers.
    let mut buffer = vec![0; ONCE - 1_000];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        note(passed, forth, &buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // The end of the stream is passed on, the other direction continues.
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_relayed_and_recorded() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay::tcp(listener.local_addr().unwrap().port()).unwrap();
        let mut caller = TcpStream::connect(("127.0.0.1", relay.first)).unwrap();
        caller.write_all(b"hello").unwrap();
        let mut called = listener.accept().unwrap().0;
        let mut buffer = [0; 5];
        called.read_exact(&mut buffer).unwrap();
        called.write_all(b"and back").unwrap();
        drop(called);
        let mut heard = Vec::new();
        caller.read_to_end(&mut heard).unwrap();
        assert_eq!((&buffer, &heard[..]), (b"hello", &b"and back"[..]));
        assert_eq!(relay.passed(), [(true, b"hello".to_vec()), (false, b"and back".to_vec())]);
    }

    #[test]
    fn datagrams_are_relayed_and_recorded() {
        let nodes = [UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap()];
        let [first, second] = [0, 1].map(|at| nodes[at].local_addr().unwrap().port());
        let relay = Relay::udp(first, second).unwrap();
        let mut buffer = [0; 10];
        nodes[0].send_to(b"there", ("127.0.0.1", relay.first)).unwrap();
        assert_eq!(nodes[1].recv(&mut buffer).unwrap(), 5);
        nodes[1].send_to(b"back", ("127.0.0.1", relay.second)).unwrap();
        assert_eq!(nodes[0].recv(&mut buffer).unwrap(), 4);
        assert_eq!(relay.passed(), [(true, b"there".to_vec()), (false, b"back".to_vec())]);
    }
}
