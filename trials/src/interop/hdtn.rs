//! HDTN: its node (`hdtn-one-process`) over LTP, STCP, TCPCLv4, TCPCLv3 and UDP, with bundles of versions 7 and 6. Its
//! applications are nodes beside it, connected by STCP: `bpsendpacket` turns each packet from this driver into a
//! bundle, `bpreceivepacket` returns the payloads of arriving bundles.

use super::hdtn_json::{self, BUNDLE_MAX, Duct};
use super::matrix::Row;
use super::node::{Ours, RECEIVES};
use super::peer::{Can, Peer};
use super::places;
use super::process::{Process, last_lines};
use super::trial::{ECHO, Pair, Size};
use crate::harness::free_port;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Programs of HDTN that are needed.
pub const PROGRAMS: [&str; 3] = ["hdtn-one-process", "bpsendpacket", "bpreceivepacket"];
const NAME: &str = "HDTN";
/// Endpoint of HDTN's application, which sends and receives there, so that answers of echo services reach it.
const APPLICATION: &str = "ipn:2.42";
/// Largest payload in a datagram.
const UDP_TAKES: usize = 60_000;
/// Longest startup of each of HDTN's programs.
const START_MAX: Duration = Duration::from_secs(30);
/// Longest wait until `bpsendpacket` has room for a packet.
const SEND_MAX: Duration = Duration::from_secs(30);

/// Trials over every shared layer, with bundles of both versions.
pub fn trials(dir: &Path, binary: &Path, size: Size) -> Result<Vec<Row>> {
    let programs = match places::find("hdtn", &PROGRAMS) {
        Ok(programs) => programs,
        Err(why) => return Ok(vec![Row::left_out(NAME, "LTP, STCP, TCPCLv4, TCPCLv3, UDPCL", format!("{why:#}"))]),
    };
    let mut rows = Vec::new();
    for version in [7, 6] {
        for duct in Duct::ALL {
            let layer = format!("{}{}", duct.layer(), if version == 6 { ", version 6" } else { "" });
            println!("{NAME}, {layer}");
            let dir = dir.join(format!("hdtn-{}-{version}", duct.word()));
            fs::create_dir_all(&dir)?;
            rows.extend(pair(&dir, binary, &programs, (duct, version), &layer, size)?.trials());
        }
    }
    Ok(rows)
}

fn pair<'a>(
    dir: &Path,
    binary: &Path,
    programs: &Path,
    (duct, version): (Duct, u8),
    layer: &'a str,
    size: Size,
) -> Result<Pair<'a>> {
    let datagrams = duct == Duct::Udp;
    let most = |bytes: usize| if datagrams { bytes.min(UDP_TAKES) } else { bytes };
    let once = match duct {
        Duct::Udp => 0,
        Duct::Ltp => 10_000_000,
        Duct::Stcp | Duct::Tcpclv4 | Duct::Tcpclv3 => 50_000_000,
    };
    let can = Can {
        endpoint: APPLICATION,
        echo: Some("ipn:10.2047"),
        takes: most(1_000_000),
        gives: most(1_000_000),
        takes_once: once,
        gives_once: once,
        // HDTN sends no status reports, and its applications request none.
        reports: false,
        understands_reports: false,
        datagrams,
        // STCP has no acknowledgments, and HDTN drops unconfirmed bundles at the end of a TCPCL session.
        repeats: duct == Duct::Ltp,
        restarts: true,
    };
    let ports = (free_port()?, free_port()?);
    let route = "\"ipn:10.*\" = \"ipn:10.0\"\n\"ipn:2.*\" = \"ipn:10.0\"";
    let ours = Ours::named(dir, binary, "\"ipn:1.0\"", &duct.ours(ports.0, ports.1), route, version)?;
    let (dir, programs) = (dir.join("hdtn"), programs.to_path_buf());
    let peer = Hdtn { dir, programs, duct, version, ports, running: None };
    Ok(Pair { name: NAME.into(), layer, ours, peer: Box::new(peer), can, size })
}

/// HDTN as node `ipn:10.0`, with its applications at `ipn:2.42`.
struct Hdtn {
    dir: PathBuf,
    programs: PathBuf,
    duct: Duct,
    version: u8,
    /// Ports of our node and of HDTN.
    ports: (u16, u16),
    running: Option<HdtnRunning>,
}

struct HdtnRunning {
    /// Streams of packets to the programs `bpsendpacket`, by destination.
    senders: Vec<(&'static str, TcpStream)>,
    payloads: Receiver<Vec<u8>>,
    _programs: Vec<Process>,
}

impl Hdtn {
    fn write(&self, name: &str, what: &Value) -> Result<()> {
        Ok(fs::write(self.dir.join(name), format!("{what:#}\n"))?)
    }
    fn program(&self, name: &str, options: &[&str], log: &Path) -> Result<Process> {
        let mut command = Command::new(self.programs.join(name));
        command.args(options).current_dir(&self.dir).stdin(Stdio::null());
        Process::start(&mut command, log)
    }
    /// Starts a `bpsendpacket` for bundles to `to`; returns it with the stream that takes its packets.
    fn sender(&self, to: &'static str, name: &str, node: u16) -> Result<(Process, TcpStream)> {
        let port = free_port()?;
        let (packets, bundles) = (format!("{name}-packets.json"), format!("{name}-bundles.json"));
        self.write(&packets, &hdtn_json::stcp_induct(port))?;
        self.write(&bundles, &hdtn_json::stcp_outduct(10, node))?;
        let mut options = vec![
            format!("--my-uri-eid={APPLICATION}"),
            format!("--dest-uri-eid={to}"),
            format!("--packet-inducts-config-file={packets}"),
            format!("--outducts-config-file={bundles}"),
            format!("--max-bundle-size-bytes={BUNDLE_MAX}"),
            "--bundle-send-timeout-seconds=30".into(),
            "--bundle-lifetime-milliseconds=3600000".into(),
        ];
        if self.version == 7 {
            options.push("--use-bp-version-7".into());
        }
        // `bpsendpacket` prints every payload, so its output is discarded.
        let log = Path::new("/dev/null");
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut sender = self.program("bpsendpacket", &options, log)?;
        sender.wait_serving(port, log, START_MAX).with_context(|| format!("bpsendpacket to {to}"))?;
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_MAX))?;
        Ok((sender, stream))
    }
}

impl Peer for Hdtn {
    fn start(&mut self) -> Result<()> {
        fs::create_dir_all(&self.dir)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let streams = (free_port()?, free_port()?);
        self.write("receiver-bundles.json", &hdtn_json::stcp_induct(streams.1))?;
        self.write("receiver-packets.json", &hdtn_json::stcp_outduct(1, listener.local_addr()?.port()))?;
        self.write("hdtn.json", &hdtn_json::node(self.duct, self.ports, streams, (free_port()?, free_port()?)))?;
        self.write("contacts.json", &hdtn_json::contacts(self.duct))?;
        let (name, most) = (format!("--my-uri-eid={APPLICATION}"), format!("--max-rx-bundle-size-bytes={BUNDLE_MAX}"));
        let files =
            ["--inducts-config-file=receiver-bundles.json", "--packet-outducts-config-file=receiver-packets.json"];
        let options = [name.as_str(), files[0], files[1], most.as_str()];
        let log = self.dir.join("bpreceivepacket.log");
        let mut receiver = self.program("bpreceivepacket", &options, &log)?;
        // `bpreceivepacket` connects to this driver for the payloads, and serves a port for the bundles.
        let mut packets = accepted(&listener, &mut receiver, &log)?;
        receiver.wait_serving(streams.1, &log, START_MAX)?;
        let log = self.dir.join("hdtn.log");
        let options = ["--hdtn-config-file=hdtn.json", "--contact-plan-file=contacts.json"];
        let mut node = self.program("hdtn-one-process", &options, &log)?;
        node.wait_serving(streams.0, &log, START_MAX)?;
        let (to_application, first) = self.sender(RECEIVES, "sender", streams.0)?;
        let (to_echo, second) = self.sender(ECHO, "pinger", streams.0)?;
        let (payload, payloads) = channel();
        std::thread::spawn(move || {
            while let Ok(came) = packet(&mut packets) {
                // Nobody receives the payloads any more: the trial has ended.
                if payload.send(came).is_err() {
                    break;
                }
            }
        });
        let senders = vec![(RECEIVES, first), (ECHO, second)];
        self.running =
            Some(HdtnRunning { senders, payloads, _programs: vec![receiver, node, to_application, to_echo] });
        Ok(())
    }
    fn kill(&mut self) {
        self.running = None;
    }
    fn send(&mut self, to: &str, payload: &[u8]) -> Result<()> {
        let running = self.running.as_mut().context("HDTN does not run")?;
        let sender = running.senders.iter_mut().find(|(destination, _)| *destination == to);
        let (_, stream) = sender.with_context(|| format!("nobody of HDTN sends to {to}"))?;
        stream.write_all(&u32::try_from(payload.len())?.to_be_bytes())?;
        Ok(stream.write_all(payload)?)
    }
    fn take(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        match self.running.as_ref().context("HDTN does not run")?.payloads.recv_timeout(wait) {
            Ok(payload) => Ok(Some(payload)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("bpreceivepacket ended:\n{}", last_lines(&self.dir.join("bpreceivepacket.log")))
            }
        }
    }
    fn reports(&mut self) -> Result<usize> {
        Ok(0)
    }
}

/// Accepts the stream that a program opens to us.
fn accepted(listener: &TcpListener, program: &mut Process, log: &Path) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let begun = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(why) if why.kind() != ErrorKind::WouldBlock => return Err(why.into()),
            Err(_) => {}
        }
        let waits = program.0.try_wait()?.is_none() && begun.elapsed() < START_MAX;
        ensure!(waits, "it does not connect:\n{}", last_lines(log));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads the next packet of STCP: a length (4 bytes, big-endian) and its bytes; length 0 is a keepalive.
fn packet(stream: &mut impl Read) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    while length == [0; 4] {
        stream.read_exact(&mut length)?;
    }
    let length = u32::from_be_bytes(length);
    // Refused before memory is allocated.
    ensure!(u64::from(length) <= BUNDLE_MAX, "a packet of {length} bytes");
    let mut body = Vec::new();
    stream.take(length.into()).read_to_end(&mut body)?;
    ensure!(body.len() as u64 == u64::from(length), "a packet cut short");
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_skip_keepalives() {
        assert_eq!(packet(&mut &b"\0\0\0\0\0\0\0\0\0\0\0\x02hi\0"[..]).unwrap(), b"hi");
        for bytes in [&b""[..], b"\0\0\0\0", b"\0\0\0\x02h", b"\xff\xff\xff\xffhi"] {
            assert!(packet(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn ended_program_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = Command::new("sh");
        let mut program = Process::start(command.args(["-c", "echo bad config; exit 1"]), &log).unwrap();
        let why = accepted(&TcpListener::bind("127.0.0.1:0").unwrap(), &mut program, &log).unwrap_err().to_string();
        assert!(why.contains("bad config"), "{why}");
        let (dir, programs) = (dir.path().to_path_buf(), dir.path().to_path_buf());
        let mut hdtn = Hdtn { dir, programs, duct: Duct::Stcp, version: 7, ports: (1, 2), running: None };
        assert!(hdtn.take(Duration::ZERO).is_err() && hdtn.send(ECHO, b"x").is_err());
        assert!(hdtn.start().unwrap_err().to_string().contains("cannot run"));
    }
}
