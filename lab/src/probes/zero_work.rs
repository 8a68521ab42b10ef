//! Programs of a zero-work measurement: a source, a relay that only copies bundles, and a sink, each in a host. No
//! relay in that host can take less time than this one. Each program is the testbed's own, started again with a hidden
//! argument.

use farlink_base::{Accel, CreationTimestamp, EndpointId, Payload};
use farlink_bundle::Bundle;
use farlink_cla::oneway::Framing;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::time::Duration;

/// Hidden argument, followed by a [`ZeroWork`] as JSON.
pub const ARGUMENT: &str = "lab-zero-work";
/// Port at which relay and sink listen, over TCP and UDP.
pub const PORT: u16 = 15_199;
/// First sequence number. CBOR encodes numbers from here up to 2^32 - 1 in equally many bytes, so that all bundles have
/// one length.
pub const FIRST_SEQUENCE: u64 = 1 << 30;

/// Number of attempts to connect, and the time between them.
const ATTEMPTS: u32 = 100;
const ATTEMPT_EVERY: Duration = Duration::from_millis(20);

/// One of the three programs of a measurement, with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ZeroWork {
    /// Role of this program, with the addresses that it needs.
    pub part: ZeroWorkPart,
    /// Whether bundles are sent in STCP over TCP; otherwise they are sent in UDPCL over UDP.
    pub stream: bool,
    /// Length of each bundle's payload, in bytes.
    pub payload: u64,
    /// Number of bundles.
    pub count: u64,
    /// Time between two bundles, in µs.
    pub pace_us: u64,
    /// Sequence number of the first bundle.
    pub sequence: u64,
}

/// Role of a program in the chain from source to sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ZeroWorkPart {
    /// Source: sends bundles.
    Source {
        /// Address at which the relay listens.
        to: SocketAddr,
    },
    /// Relay: forwards each bundle as soon as it is complete.
    Relay {
        /// Address at which the relay listens for the source.
        at: SocketAddr,
        /// Address at which the sink listens.
        to: SocketAddr,
    },
    /// Sink: receives and discards bundles.
    Sink {
        /// Address at which the sink listens for the relay.
        at: SocketAddr,
    },
}

/// Runs the program, if this process was started as one of the three, and returns its exit code; else `None`.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next().filter(|argument| argument == ARGUMENT).and_then(|_| arguments.next())?;
    let result = serde_json::from_str::<ZeroWork>(&text).map_err(io::Error::other).and_then(|program| program.run());
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    })
}

impl ZeroWork {
    /// Command-line arguments that start this program.
    pub fn arguments(&self) -> io::Result<Vec<String>> {
        Ok(vec![ARGUMENT.to_string(), serde_json::to_string(self)?])
    }

    /// Runs until all bundles have passed.
    ///
    /// # Errors
    /// If a socket fails.
    pub fn run(&self) -> io::Result<()> {
        match (self.part, self.stream) {
            (ZeroWorkPart::Source { to }, true) => {
                let mut stream = connect(to)?;
                self.each_bundle(&mut |unit| stream.write_all(unit))
            }
            (ZeroWorkPart::Source { to }, false) => {
                let socket = UdpSocket::bind(any(to))?;
                self.each_bundle(&mut |unit| socket.send_to(unit, to).map(drop))
            }
            (ZeroWorkPart::Relay { at, to }, true) => {
                // Listens first, so that the source may connect while the relay connects to the sink.
                let listener = TcpListener::bind(at)?;
                let mut to = connect(to)?;
                let (mut from, _) = listener.accept()?;
                let mut unit = self.unit(0);
                for _ in 0..self.count {
                    from.read_exact(&mut unit)?;
                    to.write_all(&unit)?;
                }
                Ok(())
            }
            (ZeroWorkPart::Relay { at, to }, false) => {
                let (from, onward) = (UdpSocket::bind(at)?, UdpSocket::bind(any(to))?);
                let mut unit = vec![0; 1 << 16];
                for _ in 0..self.count {
                    let length = from.recv(&mut unit)?;
                    onward.send_to(&unit[..length], to)?;
                }
                Ok(())
            }
            (ZeroWorkPart::Sink { at }, true) => {
                let (mut from, _) = TcpListener::bind(at)?.accept()?;
                io::copy(&mut from, &mut io::sink()).map(drop)
            }
            (ZeroWorkPart::Sink { at }, false) => {
                let (socket, mut unit) = (UdpSocket::bind(at)?, vec![0; 1 << 16]);
                (0..self.count).try_for_each(|_| socket.recv(&mut unit).map(drop))
            }
        }
    }

    fn each_bundle(&self, send: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        for number in 0..self.count {
            std::thread::sleep(Duration::from_micros(self.pace_us));
            send(&self.unit(number))?;
        }
        Ok(())
    }

    /// Encodes a bundle as it is sent: with the STCP header over TCP, without a header over UDP.
    fn unit(&self, number: u64) -> Vec<u8> {
        let creation = CreationTimestamp { sequence: self.sequence + number, ..CreationTimestamp::default() };
        let made = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(3, 1), creation);
        let wire = made.payload(Payload::fill(0, self.payload)).build().encode(&Accel::default()).into_payload();
        let mut unit = Vec::new();
        if self.stream {
            Framing::Stcp.put_head(&mut unit, wire.len());
        }
        let head = unit.len();
        unit.resize(head + wire.len() as usize, 0);
        wire.copy_to(0, &mut unit[head..]);
        unit
    }
}

/// Unspecified address and port 0, of the family of `like`.
fn any(like: SocketAddr) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let mut result = TcpStream::connect(to);
    for _ in 1..ATTEMPTS {
        if result.is_ok() {
            break;
        }
        std::thread::sleep(ATTEMPT_EVERY);
        result = TcpStream::connect(to);
    }
    let stream = result?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_forwards_all_bundles() {
        for stream in [true, false] {
            let address = || -> SocketAddr {
                let free = if stream {
                    TcpListener::bind("127.0.0.1:0").unwrap().local_addr()
                } else {
                    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr()
                };
                free.unwrap()
            };
            let [relay, sink] = [address(), address()];
            let part =
                |part| ZeroWork { part, stream, payload: 500, count: 20, pace_us: 1000, sequence: FIRST_SEQUENCE };
            let run = |program: ZeroWork| std::thread::spawn(move || program.run());
            let sink = (run(part(ZeroWorkPart::Sink { at: sink })), sink);
            let relay = (run(part(ZeroWorkPart::Relay { at: relay, to: sink.1 })), relay);
            std::thread::sleep(Duration::from_millis(300));
            let source = part(ZeroWorkPart::Source { to: relay.1 });
            assert_eq!(source.unit(0).len(), source.unit(19).len());
            source.run().unwrap();
            relay.0.join().unwrap().unwrap();
            sink.0.join().unwrap().unwrap();
        }
    }

    #[test]
    fn program_survives_its_argument() {
        let at = "10.0.0.1:15199".parse().unwrap();
        let part = ZeroWorkPart::Relay { at, to: at };
        let program = ZeroWork { part, stream: true, payload: 1, count: 2, pace_us: 3, sequence: 4 };
        let arguments = program.arguments().unwrap();
        assert_eq!(serde_json::from_str::<ZeroWork>(&arguments[1]).unwrap(), program);
    }
}
