//! µD3TN: its daemon over MTCP and TCPCLv3 with bundles of versions 7 and 6, controlled over its application interface
//! (AAP2), which also accepts its contacts.

use super::matrix::Row;
use super::node::Ours;
use super::peer::{Can, Peer};
use super::places;
use super::process::{Process, last_lines};
use super::trial::{Pair, Size};
use crate::harness::client::{self, Client, ClientSender, attach, is_taken, to};
use crate::harness::free_port;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

/// Programs of µD3TN that are needed.
pub const PROGRAMS: [&str; 1] = ["ud3tn"];
/// Endpoint of µD3TN's application, which sends and receives there, so that answers of echo services reach it.
const APPLICATION: &str = "ipn:2.42";
/// Endpoint of µD3TN that accepts contacts.
const CONTACTS: &str = "ipn:2.9000";
/// Endpoint of µD3TN that answers pings.
const ITS_ECHO: &str = "ipn:2.9002";
/// Reason why bundles of version 6 from µD3TN are unreadable.
const BLOCK_LENGTH: &str = "it says that primary blocks are 3 bytes longer than they are (RFC 5050 4.5.1)";
/// Largest payload over TCPCLv3: µD3TN acknowledges transfers of several segments but cannot read them.
const ONE_SEGMENT: usize = 200_000;
/// Longest startup until applications can attach.
const START_MAX: Duration = Duration::from_secs(30);
/// 2000-01-01 in Unix time, s.
const DTN_EPOCH: u64 = 946_684_800;
/// Read timeout of µD3TN's application: a day, longer than any trial.
const FOREVER: Duration = Duration::from_secs(86_400);

/// Trials over both layers and with both versions.
pub fn trials(dir: &Path, binary: &Path, size: Size) -> Result<Vec<Row>> {
    let programs = match places::find("ud3tn", &PROGRAMS) {
        Ok(programs) => programs,
        Err(why) => return Ok(vec![Row::left_out("µD3TN", "MTCP, TCPCLv3", format!("{why:#}"))]),
    };
    let program = programs.join("ud3tn");
    let usage = Command::new(&program).arg("--usage").output().context("cannot run `ud3tn`")?;
    let usage = [usage.stdout, usage.stderr].concat();
    // Archipel Core is a fork with a store on disk.
    let archipel = String::from_utf8_lossy(&usage).contains("--persist");
    let name = if archipel { "µD3TN (Archipel Core)" } else { "µD3TN" };
    let mut rows = Vec::new();
    for (cla, version, layer) in [
        ("mtcp", 7, "MTCP"),
        ("mtcp", 6, "MTCP, version 6"),
        ("tcpclv3", 7, "TCPCLv3"),
        ("tcpclv3", 6, "TCPCLv3, version 6"),
    ] {
        println!("{name}, {layer}");
        let dir = dir.join(format!("ud3tn-{cla}-{version}"));
        fs::create_dir_all(&dir)?;
        let (here, there) = (free_port()?, free_port()?);
        let can = Can {
            endpoint: APPLICATION,
            echo: (version == 7).then_some(ITS_ECHO),
            takes: if cla == "mtcp" { 1_000_000 } else { ONE_SEGMENT },
            gives: if version == 7 { 1_000_000 } else { 0 },
            takes_once: if cla == "mtcp" { 50_000_000 } else { 0 },
            gives_once: if version == 7 { 50_000_000 } else { 0 },
            // Two reports that µD3TN creates in the same millisecond have the same identity.
            reports: false,
            // µD3TN's application interface cannot request reports.
            understands_reports: false,
            datagrams: false,
            repeats: false,
            // Over TCPCLv3 µD3TN connects, and takes long to reconnect.
            restarts: cla == "mtcp",
        };
        let peer = Ud3tn {
            dir: dir.join("ud3tn"),
            program: program.clone(),
            archipel,
            version,
            cla,
            ports: (here, there),
            started: 0,
            running: None,
        };
        let ours = Ours::new(&dir, binary, &ours(cla, here, there), 2, version)?;
        rows.extend(Pair { name: name.into(), layer, ours, peer: Box::new(peer), can, size }.trials());
        if version == 6 {
            rows.push(Row { trial: "it to ours".into(), ..Row::left_out(name, layer, BLOCK_LENGTH) });
        }
    }
    Ok(rows)
}

/// Configuration of our layer and of the link to µD3TN, which connects over TCPCLv3: one session serves both
/// directions.
fn ours(cla: &str, here: u16, there: u16) -> String {
    let address = if cla == "mtcp" {
        format!("address = \"127.0.0.1:{there}\"\nreconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n")
    } else {
        String::new()
    };
    format!(
        "[layer.streams]\nkind = \"{cla}\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
         [link.ud3tn]\nlayer = \"streams\"\npeer = \"ipn:2.0\"\n{address}"
    )
}

/// The daemon as node `ipn:2.0`.
struct Ud3tn {
    dir: PathBuf,
    program: PathBuf,
    archipel: bool,
    version: u8,
    cla: &'static str,
    /// Ports of our node and of the daemon.
    ports: (u16, u16),
    started: usize,
    running: Option<Ud3tnRunning>,
}

struct Ud3tnRunning {
    sender: Client,
    receiver: ClientSender,
    payloads: Receiver<Vec<u8>>,
    /// Dropped last, after the clients.
    _daemon: Process,
}

impl Ud3tn {
    fn log(&self) -> PathBuf {
        self.dir.join("ud3tn.log")
    }
    fn attached(&self, subscriber: bool) -> Result<Client> {
        let client = attach(&self.dir.join("aap2.sock"), APPLICATION, subscriber.into());
        client.with_context(|| format!("cannot attach to µD3TN:\n{}", last_lines(&self.log())))
    }
    fn running(&mut self) -> Result<&mut Ud3tnRunning> {
        self.running.as_mut().context("µD3TN does not run")
    }
}

/// Contact with our node for a day, at 100 MB/s.
fn contact(cla: &str, port: u16, now: u64) -> String {
    let (from, to) = (now.saturating_sub(1), now + 86_400);
    format!("1(ipn:1.0):({cla}:127.0.0.1:{port})::[{{{from},{to},100000000}}];")
}

impl Peer for Ud3tn {
    fn start(&mut self) -> Result<()> {
        fs::create_dir_all(&self.dir)?;
        let socket = self.dir.join("aap2.sock");
        // A stale socket would pass for a running daemon.
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(&self.program);
        command.args(["--eid", "ipn:2.0", "--bp-version", &self.version.to_string(), "--lifetime", "3600"]);
        command.args(["--cla", &format!("{}:127.0.0.1,{}", self.cla, self.ports.1), "--status-reports"]);
        command.args(["--aap-socket", "aap.sock", "--aap2-socket", "aap2.sock", "--log-level", "2"]);
        if self.archipel {
            // Each start gets a new store: from an old one, bundles would be delivered again.
            self.started += 1;
            let store = format!("store-{}", self.started);
            fs::create_dir_all(self.dir.join(&store))?;
            command.args(["--persist", &store]);
        }
        let log = self.log();
        let mut daemon = Process::start(command.current_dir(&self.dir).stdin(Stdio::null()), &log)?;
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            let waits = daemon.0.try_wait()?.is_none() && begun.elapsed() < START_MAX;
            ensure!(waits, "µD3TN is not ready:\n{}", last_lines(&log));
            std::thread::sleep(Duration::from_millis(20));
        }
        // The receiver attaches first: bundles that wait go to the first client, and are lost if that only sends.
        let (receiver, mut sender) = (self.attached(true)?, self.attached(false)?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs().saturating_sub(DTN_EPOCH);
        sender.send(to(CONTACTS), contact(self.cla, self.ports.0, now).as_bytes())?;
        ensure!(is_taken(&mut sender)?, "µD3TN does not take its contacts:\n{}", last_lines(&log));
        receiver.set_read_timeout(Some(FOREVER))?;
        let (payload, payloads) = channel();
        let (receiver, mut reader) = receiver.split()?;
        std::thread::spawn(move || {
            while let Ok(delivered) = reader.delivery() {
                if reader.taken(true).is_err() || payload.send(delivered.payload).is_err() {
                    break;
                }
            }
        });
        self.running = Some(Ud3tnRunning { sender, receiver, payloads, _daemon: daemon });
        Ok(())
    }
    fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            // Ends the reading thread, which holds the other half of the connection.
            running.receiver.shutdown();
        }
    }
    fn send(&mut self, to: &str, payload: &[u8]) -> Result<()> {
        let sender = &mut self.running()?.sender;
        sender.send(client::to(to), payload)?;
        ensure!(is_taken(sender)?, "µD3TN refused the bundle");
        Ok(())
    }
    fn take(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        let log = self.log();
        match self.running()?.payloads.recv_timeout(wait) {
            Ok(payload) => Ok(Some(payload)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("µD3TN ended:\n{}", last_lines(&log)),
        }
    }
    fn reports(&mut self) -> Result<usize> {
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_matches_the_manual() {
        assert_eq!(contact("mtcp", 4223, 1_000), "1(ipn:1.0):(mtcp:127.0.0.1:4223)::[{999,87400,100000000}];");
    }

    #[test]
    fn connecting_side_depends_on_layer() {
        assert!(ours("mtcp", 1, 2).contains("address = \"127.0.0.1:2\""));
        assert!(!ours("tcpclv3", 1, 2).contains("address"));
    }
}
