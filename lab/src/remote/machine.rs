//! A machine reached by SSH, seen from here: the connection, the supervisor there, its files and its tunnels.

use super::clock::{self, Measured};
use super::program;
use super::protocol::{AgentRequest, PART, VERSION};
use super::reader::{Came, News, Reader};
use crate::supervisor::{self, Reply, Supervisor};
use anyhow::{Context, Result, bail, ensure};
use farlink_scenario::SshMachine;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

/// Longest wait for the shell of the machine, for the program there, and for files to come back.
const CONNECT: Duration = Duration::from_secs(30);
const UPLOAD: Duration = Duration::from_secs(600);
const FETCH: Duration = Duration::from_secs(600);
/// Interval at which the machine is told that the testbed is still there.
const ALIVE: Duration = Duration::from_secs(3);

/// Says what the machine is, takes the program from standard input, runs it, and leaves nothing.
const SCRIPT: &str = r#"umask 077; d=${TMPDIR:-/tmp}/farlink-lab.$$; mkdir "$d" || exit 1
l=; for f in /lib/ld-* /lib64/ld-*; do [ -e "$f" ] && l="$l$f,"; done
echo "farlink-machine $(uname -m) ${l:--} $SSH_CONNECTION"
head -c BYTES >"$d/farlink" && chmod 700 "$d/farlink" && "$d/farlink" lab-agent "$d"
rm -rf "$d" 2>/dev/null || { sleep 1; rm -rf "$d"; }"#;

/// A machine reached by SSH with the hosts of a run.
pub struct Machine {
    /// Destination, as the scenario names it.
    pub at: String,
    /// Supervisor there.
    pub supervisor: Supervisor,
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
    /// Size and time of the files that were sent.
    sent: BTreeMap<PathBuf, (u64, Option<SystemTime>)>,
    /// Files that came from there.
    came: Came,
}

impl Machine {
    /// Connects to a machine and starts the program there. `run` is the folder of the run, into which files come back;
    /// `log` the file for what `ssh` says; `folder` that of the scenario.
    ///
    /// # Errors
    /// If the machine cannot be reached, or cannot run the program.
    pub fn connect(setup: &SshMachine, folder: &Path, own: &Path, run: &Path, log: &Path) -> Result<Machine> {
        let at = &setup.at;
        Machine::start(setup, folder, own, run, log).with_context(|| format!("machine {at}"))
    }

    fn start(setup: &SshMachine, folder: &Path, own: &Path, run: &Path, log: &Path) -> Result<Machine> {
        let path = setup.program.as_ref().map_or_else(|| own.to_path_buf(), |program| folder.join(program));
        let bytes = fs::read(&path).with_context(|| format!("cannot read the program {}", path.display()))?;
        let mut command = Command::new("ssh");
        command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5"]);
        command.args(["-o", "ServerAliveCountMax=3", "-o", "ClearAllForwardings=yes"]);
        if let Some(config) = &setup.config {
            command.arg("-F").arg(folder.join(config));
        }
        let script = SCRIPT.replace("BYTES", &bytes.len().to_string());
        command.arg("--").arg(&setup.at).arg(format!("exec sh -c '{script}'"));
        let mut child = supervisor::spawn(&mut command, Some(log))?;
        let input = Arc::new(Mutex::new(child.stdin.take().context("no standard input")?));
        let output = child.stdout.take().context("no standard output")?;
        let ((news, told), (reply, replies)) = (channel(), channel());
        let (root, came) = (run.to_path_buf(), Came::default());
        let into = Arc::clone(&came);
        std::thread::spawn(move || Reader { news, reply, root, came: into }.read(BufReader::new(output)));
        let at = &setup.at;
        let config = setup.config.as_ref().map_or_else(String::new, |c| format!("-F {} ", folder.join(c).display()));
        let hint = format!(
            "hint: `ssh` must get there without a password: try `ssh {config}-o BatchMode=yes {at} true` by hand"
        );
        let mut wait = |most: Duration, what: &str, hint: &str| match told.recv_timeout(most) {
            Ok(news) => Ok(news),
            Err(RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                bail!("{what}: no answer within {most:?}\n{hint}")
            }
            Err(RecvTimeoutError::Disconnected) => {
                // A reply tells more than the end of the connection.
                let said = replies.try_iter().find_map(|reply: Reply| match reply {
                    Reply::Failed { reason } => Some(reason),
                    _ => None,
                });
                let status = child.wait()?;
                let said = said.map_or_else(|| said_in(log), |reason| format!(": {reason}"));
                bail!("{what}{said} (ssh: {status})\n{hint}")
            }
        };
        let News::Greeting(greeting) = wait(CONNECT, "connecting by ssh", &hint)? else { bail!("no greeting") };
        let address = program::check(&greeting, &bytes, &path)?;
        // What fails there is told by its own words.
        let _ = send(&input, &bytes);
        let hint = "hint: the folder $TMPDIR or /tmp there must have room for the program and allow to run it, and the \
                    libraries that it loads must be there (`cargo xtask static` builds one that loads none)";
        let News::Hello { version, port } = wait(UPLOAD, "starting the program there", hint)? else {
            bail!("no word of the program there")
        };
        ensure!(
            version == VERSION,
            "the program {} is version {version}, this one is {VERSION}\nhint: build both from the same source",
            path.display()
        );
        keep_alive(&input);
        let supervisor = Supervisor::greet(child, input, replies, Some(setup.at.clone()))?;
        let mut secret = [0; 8];
        farlink_os::random(&mut secret)?;
        let address = SocketAddr::new(address, port);
        Ok(Machine {
            at: setup.at.clone(),
            supervisor,
            news: told,
            address,
            token: u64::from_ne_bytes(secret),
            sockets: BTreeMap::new(),
            probe: connected(address)?,
            measured: Measured::default(),
            sent: BTreeMap::new(),
            came,
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
        let came = self.came.lock().is_ok_and(|came| came.contains(path));
        if !found.is_file() || came || self.sent.get(path) == Some(&state) {
            return Ok(());
        }
        self.send_file(path, found.len(), found.mode()).with_context(|| format!("sending {}", path.display()))?;
        self.sent.insert(path.to_path_buf(), state);
        Ok(())
    }

    fn send_file(&mut self, path: &Path, length: u64, mode: u32) -> Result<()> {
        let file = File::open(path)?;
        let mut part = vec![0; PART];
        let mut offset = 0;
        loop {
            let count = file.read_at(&mut part, offset)?;
            // What is zero need not be sent: bundles' content takes no room here, and none there.
            if offset == 0 || part[..count].iter().any(|byte| *byte != 0) {
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

    /// Waits until all files of the watched folders are here as they are there.
    ///
    /// # Errors
    /// A lost connection.
    pub fn fetch(&mut self) -> Result<()> {
        self.ask(&AgentRequest::Sync)?;
        match self.news.recv_timeout(FETCH) {
            Ok(_) => Ok(()),
            Err(RecvTimeoutError::Timeout) => bail!("machine {}: its files did not come within {FETCH:?}", self.at),
            // The supervisor's words say why.
            Err(RecvTimeoutError::Disconnected) => loop {
                self.supervisor.next(Duration::from_secs(1))?;
            },
        }
    }

    fn ask(&mut self, request: &AgentRequest) -> Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.supervisor.write(&line)
    }
}

fn send(input: &Mutex<ChildStdin>, bytes: &[u8]) -> std::io::Result<()> {
    input.lock().map_err(|_| std::io::Error::other("a thread panicked"))?.write_all(bytes)
}

/// Tells the machine now and then that the testbed is still there, until the input is closed.
fn keep_alive(input: &Arc<Mutex<ChildStdin>>) {
    let input: Weak<Mutex<ChildStdin>> = Arc::downgrade(input);
    let Ok(mut line) = serde_json::to_vec(&AgentRequest::Alive) else { return };
    line.push(b'\n');
    std::thread::spawn(move || {
        while let Some(input) = input.upgrade() {
            if send(&input, &line).is_err() {
                return;
            }
            drop(input);
            std::thread::sleep(ALIVE);
        }
    });
}

/// A socket for datagrams to this address.
fn connected(address: SocketAddr) -> std::io::Result<UdpSocket> {
    let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    crate::emulator::tunnel::prepared(socket)
}

/// Last line that `ssh` or the shell there wrote.
fn said_in(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rfind(|line| !line.trim().is_empty()).map_or_else(String::new, |line| format!(": {}", line.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_reach_the_script() {
        assert!(!SCRIPT.contains('\''), "it is quoted");
        assert!(SCRIPT.contains(super::super::protocol::ARGUMENT));
        assert!(SCRIPT.contains(super::super::protocol::GREETING.trim_end()));
    }
}
