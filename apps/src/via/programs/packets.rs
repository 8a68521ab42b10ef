//! Programs that turn packets of a TCP stream into bundles, and back, as HDTN's `bpsendpacket` and `bpreceivepacket`: a
//! length (4 bytes, big-endian) and that many bytes; length 0 is a keepalive.

use super::super::lines::StartedProgram;
use super::super::queue::ByteQueue;
use super::super::{ANSWER_MAX, ATTENTION, BundleReceiver, BundleSender, DeliveredPayload, MESSAGE_MAX, SenderTerms};
use super::{OwnCommand, OwnProgram};
use anyhow::{Context, Result, bail, ensure};
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sender with a program and a stream for its destination.
pub struct PacketSender {
    command: OwnCommand,
    place: String,
    terms: SenderTerms,
    /// Destination, stream and program.
    open: Option<(String, TcpStream, StartedProgram)>,
}

/// Sender whose program is started with the first bundle, as only then its destination is known.
pub fn sender(command: OwnCommand, place: String, terms: &SenderTerms) -> PacketSender {
    PacketSender { command, place, terms: terms.clone(), open: None }
}

impl PacketSender {
    fn open(&mut self, to: &str, size: usize) -> Result<()> {
        // All programs would listen at the same address, so the earlier one must end first.
        self.open = None;
        let values = [
            ("to", to.to_string()),
            ("source", self.terms.source.clone().unwrap_or_default()),
            ("size", size.to_string()),
            ("lifetime_s", self.terms.lifetime.as_secs().max(1).to_string()),
        ];
        let mut program = self.command.start(&values, Path::new("."), Stdio::null())?;
        let begun = Instant::now();
        let stream = loop {
            match TcpStream::connect(&self.place) {
                Ok(stream) => break stream,
                Err(why) => wait_for(&mut program, begun, || format!("takes no packets at {}: {why}", self.place))?,
            }
        };
        stream.set_nodelay(true)?;
        self.open = Some((to.into(), stream, program));
        Ok(())
    }
}

/// Waits a moment for a program that starts; fails if it ended or takes too long.
fn wait_for(program: &mut StartedProgram, begun: Instant, why: impl Fn() -> String) -> Result<()> {
    if let Some(status) = program.ended()? {
        bail!("`{}` {}; it ended: {status}", program.shown(), why());
    }
    ensure!(begun.elapsed() < ANSWER_MAX, "`{}` {} after {} s", program.shown(), why(), ANSWER_MAX.as_secs());
    std::thread::sleep(ATTENTION / 5);
    Ok(())
}

impl BundleSender for PacketSender {
    fn room(&mut self) -> Result<()> {
        Ok(())
    }
    fn hand_over(&mut self, to: &str, payload: Vec<u8>) -> Result<()> {
        if self.open.as_ref().is_none_or(|(open, ..)| open != to) {
            self.open(to, payload.len())?;
        }
        let (_, stream, program) = self.open.as_mut().context("no stream")?;
        let length = u32::try_from(payload.len()).context("a payload of more than 4 GiB")?;
        let packet = [&length.to_be_bytes()[..], &payload].concat();
        stream.write_all(&packet).with_context(|| format!("`{}` takes no more packets", program.shown()))
    }
    /// Closes the stream, then waits a moment: the program confirms nothing.
    fn finish(&mut self) -> Result<()> {
        let Some((_, stream, mut program)) = self.open.take() else { return Ok(()) };
        stream.shutdown(std::net::Shutdown::Write)?;
        // A program that ends with its stream has sent everything by then; any other gets a second for the remaining
        // bundles.
        program.wait_until(Instant::now() + 20 * ATTENTION)?;
        Ok(())
    }
}

/// Receiver of packets.
pub struct PacketReceiver {
    packets: Arc<ByteQueue<(u64, Vec<u8>)>>,
    _program: StartedProgram,
}

/// Listens at the address, starts the program, and accepts its stream.
pub fn receiver(command: &OwnCommand, program: &OwnProgram, place: &str, endpoint: &str) -> Result<PacketReceiver> {
    let listener = TcpListener::bind(place).with_context(|| format!("cannot listen at {place} for packets"))?;
    listener.set_nonblocking(true)?;
    let values = [("endpoint", endpoint.to_string()), ("source", endpoint.to_string()), ("count", "0".into())];
    let folder = program.folder.as_deref().unwrap_or(".");
    std::fs::create_dir_all(folder).with_context(|| format!("the folder {folder}"))?;
    let mut program = command.start(&values, Path::new(folder), Stdio::null())?;
    let begun = Instant::now();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(why) if why.kind() != ErrorKind::WouldBlock => return Err(why.into()),
            Err(_) => wait_for(&mut program, begun, || format!("does not connect to {place}"))?,
        }
    };
    stream.set_nonblocking(false)?;
    let packets = Arc::new(ByteQueue::default());
    let queue = Arc::clone(&packets);
    std::thread::Builder::new().name("packets".into()).spawn(move || {
        let mut stream = BufReader::new(stream);
        let why = loop {
            match packet(&mut stream) {
                Ok(packet) => {
                    let length = packet.len();
                    queue.push((farlink_os::monotonic_ns(), packet), length);
                }
                Err(why) => break why,
            }
        };
        queue.end(format!("{why:#}"));
    })?;
    Ok(PacketReceiver { packets, _program: program })
}

impl BundleReceiver for PacketReceiver {
    fn receive(&mut self, wait: Duration) -> Result<Option<DeliveredPayload>> {
        let packet = self.packets.pop(wait)?;
        Ok(packet.map(|(at_ns, bytes)| DeliveredPayload { at_ns, source: None, bytes }))
    }
}

/// Reads the next packet.
fn packet(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    while length == [0; 4] {
        stream.read_exact(&mut length).context("the stream of packets ended")?;
    }
    let length = u64::from(u32::from_be_bytes(length));
    ensure!(length <= MESSAGE_MAX, "a packet of {length} bytes: more than {MESSAGE_MAX}");
    let mut body = Vec::new();
    // Grows with the bytes that arrive, whatever the length claims.
    stream.take(length).read_to_end(&mut body)?;
    ensure!(body.len() as u64 == length, "the stream of packets ended within a packet");
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::super::Programs;
    use super::*;
    use serde_json::json;

    /// Takes packets at a port and copies the stream to a file; or sends a file as packets to a port.
    const PROGRAM: &str = "
import socket, sys
what, port, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if what == 'take':
    stream = socket.create_server(('127.0.0.1', port)).accept()[0]
    with open(file, 'wb') as out:
        while data := stream.recv(65536): out.write(data)
else:
    stream = socket.create_connection(('127.0.0.1', port))
    stream.sendall(open(file, 'rb').read())
";

    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn packets_skip_keepalives() {
        assert_eq!(packet(&mut &b"\0\0\0\0\0\0\0\0\0\0\0\x02hi\0"[..]).unwrap(), b"hi");
        for bytes in [&b""[..], b"\0\0\0\0", b"\0\0\0\x02h", b"\xff\xff\xff\xffhi"] {
            assert!(packet(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn packets_pass_through_both_programs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stream").display().to_string();
        let (to, from) = (free_port(), free_port());
        let run = |what: &str, port: u16| json!(["python3", "-c", PROGRAM, what, port.to_string(), &file]);
        let value = json!({
            "send": { "run": run("take", to), "packets": format!("127.0.0.1:{to}") },
            "receive": { "run": run("give", from), "packets": format!("127.0.0.1:{from}") },
        });
        let programs = Programs::parse(&value.to_string()).unwrap();
        let terms = SenderTerms { source: None, lifetime: Duration::from_secs(60), window: 1 };
        let mut sender = programs.sender(&terms).unwrap();
        let payloads = [vec![1], vec![2; 1000], vec![3; 200_000]];
        for payload in &payloads {
            sender.hand_over("ipn:2.1", payload.clone()).unwrap();
        }
        sender.finish().unwrap();
        let mut receiver = programs.receiver("ipn:1.1").unwrap();
        for payload in &payloads {
            assert_eq!(receiver.receive(Duration::from_secs(20)).unwrap().unwrap().bytes, *payload);
        }
        let why = receiver.receive(Duration::from_secs(20)).unwrap_err().to_string();
        assert!(why.contains("the stream of packets ended"), "{why}");
    }

    #[test]
    fn ended_programs_are_reported() {
        let place = format!("127.0.0.1:{}", free_port());
        let part = json!({ "run": ["sh", "-c", "exit 3"], "packets": place });
        let programs = Programs::parse(&json!({ "send": part, "receive": part }).to_string()).unwrap();
        let terms = SenderTerms { source: None, lifetime: Duration::from_secs(60), window: 1 };
        let why = programs.sender(&terms).unwrap().hand_over("ipn:2.1", vec![1]).unwrap_err().to_string();
        assert!(why.contains("takes no packets") && why.contains("exit status: 3"), "{why}");
        let why = programs.receiver("1").err().unwrap().to_string();
        assert!(why.contains("does not connect") && why.contains("exit status: 3"), "{why}");
    }
}
