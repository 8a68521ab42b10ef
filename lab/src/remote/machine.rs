//! A machine reached by SSH, seen from here: the connection, the supervisor there, its files and its tunnels.

use super::clock::{self, Measured};
use super::heard::{ALIVE, Heard, NotingReader};
use super::program;
use super::protocol::{AgentRequest, PART, VERSION};
use super::reader::{News, Reader, SharedShelf, Shelf};
use crate::supervisor::{self, Connection, GLANCE, Supervisor};
use anyhow::{Context, Result, bail, ensure};
use farlink_scenario::SshMachine;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Longest wait for the shell of the machine, and for the program there once all of it was sent.
const CONNECT: Duration = Duration::from_secs(30);
const UPLOAD: Duration = Duration::from_secs(600);
/// Longest wait for files at the end of a run that was stopped; else files may come as long as they do come.
const FETCH_STOPPED: Duration = Duration::from_secs(60);
/// Bytes of the program that are sent between two words of progress.
const STEP: usize = 64 << 10;

/// Says what the machine is, takes the program from standard input, runs it, and leaves nothing. On one line, since
/// some shells allow no other in quotes. The trap keeps the shell, not the program, from ending by a signal.
const SCRIPT: &str = concat!(
    "umask 077; trap : HUP INT TERM; t=${TMPDIR:-/tmp}; d=$(mktemp -d \"$t/farlink-lab.XXXXXX\" 2>/dev/null); ",
    "for n in 1 2 3 4 5; do [ -n \"$d\" ] && break; mkdir \"$t/farlink-lab.$$.$n\" && d=$t/farlink-lab.$$.$n; done; ",
    "[ -n \"$d\" ] || exit 1; ",
    "l=; for f in /lib/ld-* /lib64/ld-*; do [ -e \"$f\" ] && l=\"$l$f,\"; done; ",
    "echo \"farlink-machine $(uname -m) ${l:--} $SSH_CONNECTION\"; ",
    "head -c BYTES >\"$d/farlink\" && chmod 700 \"$d/farlink\" && \"$d/farlink\" lab-agent \"$d\"; ",
    "rm -rf \"$d\" 2>/dev/null || { sleep 1; rm -rf \"$d\"; }"
);

/// A machine reached by SSH with the hosts of a run.
pub struct Machine {
    /// Destination, as the scenario names it.
    pub at: String,
    /// Supervisor there.
    pub supervisor: Supervisor,
    connection: Connection,
    news: Receiver<News>,
    /// Address of the relay.
    address: SocketAddr,
    /// Secret of the run.
    pub token: u64,
    /// Sockets of the tunnels, until the emulator has them.
    pub sockets: BTreeMap<u16, UdpSocket>,
    /// Socket for probes.
    probe: UdpSocket,
    /// Network and clocks before the run.
    pub measured: Measured,
    shelf: SharedShelf,
}

/// Files of this machine that a connection to another one needs, and its caller's wishes.
pub struct Connecting<'a> {
    /// Folder of the scenario.
    pub folder: &'a Path,
    /// This program.
    pub program: &'a Path,
    /// File for what `ssh` says.
    pub log: &'a Path,
    /// Flag that stops the run.
    pub stop: &'a Arc<AtomicBool>,
    /// Takes what is being done.
    pub progress: &'a mut dyn FnMut(&'static str),
}

/// Wait for what a machine says before its supervisor is ready.
struct Waiting<'a> {
    told: &'a Receiver<News>,
    connection: &'a Connection,
    progress: &'a mut dyn FnMut(&'static str),
}

impl Waiting<'_> {
    /// Waits for the next news. The second hint is for a shell that ended there, the first for any other failure.
    fn next(
        &mut self,
        supervisor: &mut Supervisor,
        most: Duration,
        what: &'static str,
        hints: [&str; 2],
    ) -> Result<News> {
        let deadline = Instant::now() + most;
        loop {
            (self.progress)(what);
            match self.told.recv_timeout(GLANCE) {
                Ok(news) => return Ok(news),
                Err(RecvTimeoutError::Timeout) => {
                    self.connection.check_stop()?;
                    ensure!(Instant::now() < deadline, "{what}: no answer within {most:?}\n{}", hints[0]);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    // A reply tells more than the end of the connection.
                    let (said, how, code) = supervisor.why_ended()?;
                    let said = said.map_or_else(|| self.connection.said(), |reason| format!(": {reason}"));
                    // `ssh` ends with 255 if it does not get there, else as the shell did.
                    let hint = hints[usize::from(code.is_some_and(|code| code != 255))];
                    bail!("{what}{said} (ssh: {how})\n{hint}")
                }
            }
        }
    }
}

impl Machine {
    /// Connects to a machine and starts the program there.
    ///
    /// # Errors
    /// If the machine cannot be reached, or cannot run the program.
    pub fn connect(setup: &SshMachine, mut connecting: Connecting<'_>) -> Result<Machine> {
        let name = format!("machine {}", setup.at);
        Machine::start(setup, &mut connecting).map_err(|error| match error.to_string().contains(&name) {
            true => error,
            false => error.context(name),
        })
    }

    fn start(setup: &SshMachine, connecting: &mut Connecting<'_>) -> Result<Machine> {
        let folder = connecting.folder;
        let path = setup.program.as_ref().map_or_else(|| connecting.program.to_path_buf(), |own| folder.join(own));
        let bytes = fs::read(&path).with_context(|| format!("cannot read the program {}", path.display()))?;
        let mut command = Command::new("ssh");
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"]);
        command.args(["-o", "ServerAliveCountMax=3", "-o", "ClearAllForwardings=yes"]);
        if let Some(config) = &setup.config {
            command.arg("-F").arg(folder.join(config));
        }
        let script = SCRIPT.replace("BYTES", &bytes.len().to_string());
        command.arg("--").arg(&setup.at).arg(format!("exec sh -c '{script}'"));
        let (mut child, input) = supervisor::spawn(command, Some(connecting.log))?;
        input.set_write_timeout(Some(GLANCE))?;
        let output = child.stdout.take().context("no standard output")?;
        let ((news, told), (reply, replies)) = (channel(), channel());
        let (at, heard, shelf) = (setup.at.clone(), Heard::now(), SharedShelf::default());
        let connection =
            Connection { at, log: connecting.log.into(), stop: Arc::clone(connecting.stop), heard: heard.clone() };
        // From here on its end is the end of `ssh`.
        let mut supervisor = Supervisor::of(child, input, replies, Some(connection.clone()));
        let reader = Reader { news, reply, shelf: Arc::clone(&shelf) };
        std::thread::spawn(move || reader.read(NotingReader { input: output, heard }));
        let config = setup.config.as_ref().map_or_else(String::new, |c| format!("-F {} ", folder.join(c).display()));
        let by_hand = format!(
            "hint: `ssh` must get there without a password: try `ssh {config}-o BatchMode=yes {} true` by hand",
            setup.at
        );
        let no_shell = "hint: ssh got there, but its shell could not begin: it needs `sh` and a folder $TMPDIR or /tmp \
                        that it may write to";
        let mut wait = Waiting { told: &told, connection: &connection, progress: &mut *connecting.progress };
        let greeting = wait.next(&mut supervisor, CONNECT, "connecting by ssh", [by_hand.as_str(), no_shell])?;
        let News::Greeting(greeting) = greeting else { bail!("no greeting") };
        let mut address = program::check(&greeting, &bytes, &path)?;
        for part in bytes.chunks(STEP) {
            (wait.progress)("sending the program");
            connection.check_stop()?;
            // What fails there is told by its own words.
            if supervisor.send(part)?.is_err() {
                break;
            }
        }
        let hint = "hint: the folder $TMPDIR or /tmp there must have room for the program and allow to run it, and the \
                    libraries that it loads must be there (`cargo xtask static` builds one that loads none)";
        let hello = wait.next(&mut supervisor, UPLOAD, "starting the program there", [hint; 2])?;
        let News::Hello { version, port } = hello else { bail!("no word of the program there") };
        ensure!(
            version == VERSION,
            "the program {} is version {}, this one is {VERSION}\nhint: build both from the same source",
            path.display(),
            supervisor::plain(&version)
        );
        keep_alive(supervisor.input());
        supervisor.greet()?;
        let mut secret = [0; 8];
        farlink_os::random(&mut secret)?;
        address.set_port(port);
        Ok(Machine {
            at: setup.at.clone(),
            supervisor,
            connection,
            news: told,
            address,
            token: u64::from_ne_bytes(secret),
            sockets: BTreeMap::new(),
            probe: connected(address)?,
            measured: Measured::default(),
            shelf,
        })
    }

    /// Opens the tunnels of these numbers to the relay there, which must be running, and measures network and clocks.
    ///
    /// # Errors
    /// If no datagram comes back.
    pub fn open_tunnels(&mut self, numbers: &[u16]) -> Result<()> {
        let unreached = || {
            format!(
                "machine {}: no datagram came back from {} over UDP\nhint: firewalls on the way must let UDP through; \
                 a machine behind another one cannot be reached so",
                self.at, self.address
            )
        };
        for number in numbers {
            let socket = connected(self.address)?;
            clock::greet(&socket, self.token, *number).with_context(unreached)?;
            self.sockets.insert(*number, socket);
        }
        self.measured = clock::measure(&self.probe, self.token, u16::MAX).with_context(unreached)?;
        Ok(())
    }

    /// Measures network and clocks again; `None` if the relay does not answer.
    pub fn measure_again(&self) -> Option<Measured> {
        clock::measure(&self.probe, self.token, u16::MAX).ok()
    }

    /// Largest IP packet that the path to the machine is known to take.
    pub fn path_mtu(&self) -> Option<u32> {
        farlink_os::udp::path_mtu(&self.probe)
    }

    /// Lets the files of these folders come here as they grow there.
    ///
    /// # Errors
    /// A lost connection.
    pub fn watch(&mut self, folders: Vec<PathBuf>) -> Result<()> {
        Shelf::lock(&self.shelf).folders.extend(folders.iter().cloned());
        self.ask(&AgentRequest::Watch { folders })
    }

    /// Sends a file, or the files of a folder and of the folders in it, if they have changed since the last call.
    ///
    /// # Errors
    /// Files that cannot be read, and a lost connection.
    pub fn give(&mut self, path: &Path) -> Result<()> {
        if path.is_dir() {
            let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
            return entries.flatten().try_for_each(|entry| self.give(&entry.path()));
        }
        let Ok(found) = fs::metadata(path) else { return Ok(()) };
        let state = (found.len(), found.modified().ok());
        let mut shelf = Shelf::lock(&self.shelf);
        if !found.is_file() || shelf.has_come(path) || shelf.sent.get(path) == Some(&state) {
            return Ok(());
        }
        // From now on it does not come back.
        shelf.sent.insert(path.to_path_buf(), state);
        drop(shelf);
        self.send_file(path, found.len(), found.mode()).with_context(|| format!("sending {}", path.display()))
    }

    fn send_file(&mut self, path: &Path, length: u64, mode: u32) -> Result<()> {
        let file = File::open(path)?;
        let mut part = vec![0; PART];
        let mut offset = 0;
        loop {
            let count = file.read_at(&mut part, offset)?;
            // What is zero need not be sent: bundles' content takes no room here, and none there.
            if offset == 0 || part[..count].iter().any(|byte| *byte != 0) {
                self.connection.check_stop()?;
                let path = path.to_path_buf();
                self.ask(&AgentRequest::Put { path, offset, bytes: count, length, mode })?;
                self.supervisor.write(&part[..count])?;
            }
            offset += count as u64;
            if count == 0 || offset >= length {
                return Ok(());
            }
        }
    }

    /// Waits until all files of the watched folders are here as they are there, as long as anything comes. The caller's
    /// flag ends the wait; if it was set before, a limit of time does.
    ///
    /// # Errors
    /// A lost or silent connection.
    pub fn fetch(&mut self) -> Result<()> {
        let stopped = self.connection.is_stopped().then(Instant::now);
        self.ask(&AgentRequest::Sync)?;
        loop {
            match self.news.recv_timeout(GLANCE) {
                Ok(_) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if self.connection.heard.is_silent() => {
                    // Says what is known of the silence.
                    while self.supervisor.next(Duration::ZERO)?.is_some() {}
                }
                Err(RecvTimeoutError::Timeout) => match stopped {
                    Some(since) if since.elapsed() > FETCH_STOPPED => {
                        bail!("machine {}: its files did not come within {FETCH_STOPPED:?}", self.at)
                    }
                    Some(_) => {}
                    None => self.connection.check_stop().context("waiting for its files")?,
                },
                // The supervisor's words say why.
                Err(RecvTimeoutError::Disconnected) => loop {
                    self.supervisor.next(Duration::from_secs(1))?;
                },
            }
        }
    }

    fn ask(&mut self, request: &AgentRequest) -> Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.supervisor.write(&line)
    }
}

/// Tells the machine now and then that the testbed is still there, until the input is closed.
fn keep_alive(input: Option<Arc<Mutex<UnixStream>>>) {
    let input: Weak<Mutex<UnixStream>> = input.as_ref().map(Arc::downgrade).unwrap_or_default();
    let Ok(mut line) = serde_json::to_vec(&AgentRequest::Alive) else { return };
    line.push(b'\n');
    std::thread::spawn(move || {
        while let Some(input) = input.upgrade() {
            // Where it is locked, bytes are under way that tell as much.
            if let Ok(mut socket) = input.try_lock()
                && say_alive(&mut socket, &line).is_err()
            {
                return;
            }
            drop(input);
            std::thread::sleep(ALIVE);
        }
    });
}

/// Sends a line, unless there is no room for any of it.
fn say_alive(socket: &mut UnixStream, line: &[u8]) -> std::io::Result<()> {
    let mut left = line;
    while !left.is_empty() {
        match socket.write(left) {
            Ok(count) => left = &left[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock && left.len() == line.len() => return Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A socket for datagrams to this address.
fn connected(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    crate::emulator::tunnel::prepared(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_reach_the_script() {
        assert!(!SCRIPT.contains(['\'', '\n', '!']), "it is quoted, for csh, too");
        assert!(SCRIPT.contains(super::super::protocol::ARGUMENT));
        assert!(SCRIPT.contains(super::super::protocol::GREETING.trim_end()));
    }
}
