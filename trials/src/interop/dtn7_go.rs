//! dtn7-go: its daemon over MTCP, controlled with its `dtnclient`. The daemon accepts only neighbours that announce
//! themselves, so this driver announces our node. It refuses service number 0, so both nodes use `dtn` names.

use super::found::{Found, TRIAL};
use super::load::Load;
use super::matrix::Row;
use super::node::Ours;
use super::peer::{Can, Peer};
use super::places;
use super::process::{Process, finish, last_lines};
use super::trial::{Pair, Size};
use crate::harness::free_port;
use anyhow::{Context, Result, ensure};
use std::collections::VecDeque;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Programs of dtn7-go. dtn7-rs has a `dtnd`, too, but no `dtnclient`.
pub const PROGRAMS: [&str; 2] = ["dtnd", "dtnclient"];
const NAME: &str = "dtn7-go";
/// Endpoint of dtn7-go's application.
const APPLICATION: &str = "dtn://peer/in";
/// Multicast group and port of dtn7-go's announcements; other programs may share the port.
const GROUP: (&str, u16) = ("224.23.23.23", 35_039);
/// Unicast address at which dtn7-go receives announcements.
const DISCOVERY: (&str, u16) = ("127.0.0.1", 35_039);
/// Largest payload of the discovery trial.
const FOUND_MAX: usize = 63_000;
/// Longest startup of the daemon.
const START_MAX: Duration = Duration::from_secs(30);
/// Longest run of `dtnclient`.
const CLIENT_MAX: Duration = Duration::from_secs(60);

/// Trials over MTCP, the only layer that dtn7-go shares with Farlink.
pub fn trials(dir: &Path, binary: &Path, size: Size) -> Result<Vec<Row>> {
    let programs = match places::find(NAME, &PROGRAMS) {
        Ok(programs) => programs,
        Err(why) => return Ok(vec![Row::left_out(NAME, "MTCP", format!("{why:#}"))]),
    };
    println!("{NAME}, MTCP");
    let dir = dir.join(NAME);
    fs::create_dir_all(&dir)?;
    let (here, there) = (free_port()?, free_port()?);
    let layer = format!(
        "[layer.mtcp]\nkind = \"mtcp\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
         [link.dtn7]\nlayer = \"mtcp\"\npeer = \"dtn://peer/\"\naddress = \"127.0.0.1:{there}\"\n\
         reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n"
    );
    let names = "\"dtn://farlink/\", \"ipn:1.0\"";
    let ours = Ours::named(&dir, binary, names, &layer, "\"dtn://peer/*\" = \"dtn://peer/\"", 7)?;
    let can = Can {
        endpoint: APPLICATION,
        echo: None,
        takes: 1_000_000,
        gives: 1_000_000,
        takes_once: 50_000_000,
        gives_once: 50_000_000,
        // dtn7-go sends no status reports, and its clients cannot request any.
        reports: false,
        understands_reports: false,
        datagrams: false,
        repeats: false,
        restarts: true,
    };
    let peer = Box::new(Dtn7GoDaemon::new(&dir, &programs, (here, there), DISCOVERY));
    let mut rows = Pair { name: NAME.into(), layer: "MTCP", ours, peer, can, size }.trials();
    rows.push(found(&dir.join("found"), binary, &programs, size)?);
    rows.push(Row::left_out(NAME, "QUICL", "a layer of its own, which no other implementation shares"));
    Ok(rows)
}

/// Trial without configured neighbours: our node discovers the peer by its multicast announcements, and this driver
/// announces our node.
fn found(dir: &Path, binary: &Path, programs: &Path, size: Size) -> Result<Row> {
    fs::create_dir_all(dir)?;
    let (group, port) = GROUP;
    // Some machines have no route for multicast.
    let reached = UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(&[], GROUP));
    if let Err(why) = reached {
        return Ok(Row::left_out(NAME, "MTCP", format!("{TRIAL}: nothing reaches {group}: {why}")));
    }
    let (here, there) = (free_port()?, free_port()?);
    let tables = format!(
        "[layer.near]\nkind = \"mtcp\"\nlisten = [\"0.0.0.0:{here}\"]\n\n\
         [discovery]\nto = \"{group}:{port}\"\nlisten = \"0.0.0.0:{port}\"\ninterval = \"1 s\"\n\
         accept = [\"dtn://peer/\"]\n"
    );
    let names = "\"dtn://farlink/\", \"ipn:1.0\"";
    let mut ours = Ours::named(dir, binary, names, &tables, "\"dtn://peer/*\" = \"dtn://peer/\"", 7)?;
    let mut dtnd = Dtn7GoDaemon::new(dir, programs, (here, there), GROUP);
    let load = Load::mixed(size.bundles.min(10), FOUND_MAX);
    let found = Found { name: NAME.into(), layer: "MTCP", endpoint: APPLICATION };
    Ok(found.trial(&mut ours, &mut dtnd, &load, size.patience, || Ok(true)))
}

/// The daemon dtnd as node `dtn://peer/`.
struct Dtn7GoDaemon {
    dir: PathBuf,
    programs: PathBuf,
    /// Ports of our node and of the daemon.
    ports: (u16, u16),
    /// Address for the announcements of our node; a multicast group reaches both nodes at any address of this machine.
    announced: (&'static str, u16),
    running: Option<(Process, Announcer)>,
    sent: usize,
    came: VecDeque<PathBuf>,
}

impl Dtn7GoDaemon {
    fn new(dir: &Path, programs: &Path, ports: (u16, u16), announced: (&'static str, u16)) -> Dtn7GoDaemon {
        let (dir, programs) = (dir.join("dtnd"), programs.to_path_buf());
        Dtn7GoDaemon { dir, programs, ports, announced, running: None, sent: 0, came: VecDeque::new() }
    }
    fn log(&self) -> PathBuf {
        self.dir.join("dtnd.log")
    }
    fn client(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(self.programs.join("dtnclient"));
        // The parser of `dtnclient` expects the command before all options.
        command.args(words).args(["--address", "../dtnd.sock"]).stdin(Stdio::null());
        finish(command.current_dir(self.dir.join("received")), &self.dir.join("dtnclient.log"), CLIENT_MAX)?;
        Ok(())
    }
    fn configuration(&self) -> String {
        let address = if self.announced == GROUP { "0.0.0.0" } else { "127.0.0.1" };
        format!(
            "node_id = \"dtn://peer/\"\nlog_level = \"Info\"\n\n[Store]\npath = \"store\"\n\n\
             [Routing]\nalgorithm = \"epidemic\"\n\n[Agents]\n[Agents.UNIX]\nsocket = \"dtnd.sock\"\n\n\
             [[Listener]]\ntype = \"MTCP\"\naddress = \"{address}:{}\"\n\n[Cron]\ndispatch = \"10s\"\ngc = \"1h15s\"\n",
            self.ports.1
        )
    }
}

impl Peer for Dtn7GoDaemon {
    fn start(&mut self) -> Result<()> {
        fs::create_dir_all(self.dir.join("received"))?;
        fs::write(self.dir.join("config.toml"), self.configuration())?;
        let (socket, log) = (self.dir.join("dtnd.sock"), self.log());
        // A stale socket would pass for a running daemon.
        let _ = fs::remove_file(&socket);
        let mut command = Command::new(self.programs.join("dtnd"));
        command.arg("config.toml").current_dir(&self.dir).stdin(Stdio::null());
        let mut daemon = Process::start(&mut command, &log)?;
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            let waits = daemon.0.try_wait()?.is_none() && begun.elapsed() < START_MAX;
            ensure!(waits, "dtnd is not ready:\n{}", last_lines(&log));
            std::thread::sleep(Duration::from_millis(20));
        }
        daemon.wait_serving(self.ports.1, &log, START_MAX)?;
        self.client(&["register", "--eid", APPLICATION])?;
        self.running = Some((daemon, Announcer::start(self.ports.0, self.announced)?));
        Ok(())
    }
    fn kill(&mut self) {
        self.running = None;
    }
    fn send(&mut self, to: &str, payload: &[u8]) -> Result<()> {
        self.sent += 1;
        let file = self.dir.join(format!("sent-{}", self.sent));
        fs::write(&file, payload)?;
        let path = file.display().to_string();
        let create = ["create", "--source", APPLICATION, "--destination", to, "--lifetime", "1h", "--payload", &path];
        let sent = self.client(&create).with_context(|| last_lines(&self.log()));
        fs::remove_file(file)?;
        sent
    }
    fn take(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        while self.came.is_empty() {
            self.client(&["get", "all", "--mailbox", APPLICATION, "--remove", "--new"])?;
            for entry in fs::read_dir(self.dir.join("received"))? {
                self.came.push_back(entry?.path());
            }
            if self.came.is_empty() {
                if begun.elapsed() >= wait {
                    return Ok(None);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let Some(file) = self.came.pop_front() else { return Ok(None) };
        let payload = fs::read(&file)?;
        fs::remove_file(file)?;
        Ok(Some(payload))
    }
    fn reports(&mut self) -> Result<usize> {
        Ok(0)
    }
}

/// Announces our node once a second.
struct Announcer(Arc<AtomicBool>);

impl Announcer {
    fn start(port: u16, to: (&'static str, u16)) -> Result<Announcer> {
        let (socket, stopped) = (UdpSocket::bind("0.0.0.0:0")?, Arc::new(AtomicBool::new(false)));
        let (announcement, stop) = (announcement(port), stopped.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // Sending fails while the daemon does not listen yet.
                let _ = socket.send_to(&announcement, to);
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Ok(Announcer(stopped))
    }
}
impl Drop for Announcer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An announcement in CBOR: MTCP (10), node, port.
fn announcement(port: u16) -> Vec<u8> {
    let node = b"//farlink/";
    let [high, low] = port.to_be_bytes();
    [&[0x81, 0x83, 10, 0x82, 1, 0x60 | node.len() as u8], &node[..], &[0x19, high, low]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_lists_layer_node_port() {
        assert_eq!(announcement(4_556), b"\x81\x83\x0a\x82\x01\x6a//farlink/\x19\x11\xcc");
    }

    #[test]
    fn announcements_stop_on_drop() {
        let announcer = Announcer::start(1, DISCOVERY).unwrap();
        let stopped = announcer.0.clone();
        drop(announcer);
        assert!(stopped.load(Ordering::Relaxed));
    }
}
