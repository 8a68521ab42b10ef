//! A `farlink node` process that can be killed and started again.

use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest a node may take until applications can attach.
const START_MAX: Duration = Duration::from_secs(30);

/// One node: its folder, configuration and, while it runs, its process.
pub struct Node {
    pub name: &'static str,
    dir: PathBuf,
    binary: PathBuf,
    child: Option<Child>,
    store: PathBuf,
    keys: String,
    /// What is added to the clock of the process started next, in words.
    pub clock_offset: String,
}

/// What a node has room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Of its store.
    pub capacity: &'static str,
    /// Largest bundle its neighbour may send whole; what is longer comes in pieces.
    pub transfer_mru: &'static str,
}

/// What two nodes speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// TCPCLv4.
    Tcpcl,
    /// The same with TLS.
    Tls,
    /// STCP: a stream each way.
    Stcp,
    /// MTCP: a stream each way.
    Mtcp,
}
impl Over {
    /// Kind and keys of a node's layer; where it is secured, certificates are made beside the nodes' folders.
    fn layer(self, dir: &Path, binary: &Path, number: u64) -> Result<String> {
        let kind = match self {
            Over::Tcpcl | Over::Tls => "tcpclv4",
            Over::Stcp => "stcp",
            Over::Mtcp => "mtcp",
        };
        let mut lines = format!("kind = \"{kind}\"\n");
        if self == Over::Tls {
            let certs = dir.parent().unwrap_or(dir).join("certs");
            if !certs.exists() {
                let mut make = Command::new(binary);
                let made = make.args(["node", "certs", "--out"]).arg(&certs).args(["ipn:1.0", "ipn:2.0"]).output()?;
                ensure!(made.status.success(), "no certificates: {}", String::from_utf8_lossy(&made.stderr));
            }
            let at = certs.display();
            lines += &format!(
                "tls = \"require\"\ncertificate = \"{at}/ipn-{number}.pem\"\nkey = \"{at}/ipn-{number}.key\"\n\
                 authorities = \"{at}/authority.pem\"\n"
            );
        }
        Ok(lines)
    }
    /// Whether each side connects, to send.
    fn both_connect(self) -> bool {
        matches!(self, Over::Stcp | Over::Mtcp)
    }
}

/// A TCP port nothing listens on, below those the system gives to outgoing connections: a node that
/// was killed finds its port free again.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..20_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id().wrapping_mul(61).wrapping_add(step) % 20_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free TCP port between 10000 and 30000")
}

impl Node {
    /// Writes the configuration of a node numbered `number`, with its neighbour over TCPCLv4.
    pub fn new(dir: &Path, binary: &Path, name: &'static str, number: u64, here: u16, there: u16) -> Result<Node> {
        let (dir, wide) = (dir.join(name), Room { capacity: "256 MB", transfer_mru: "4 GiB" });
        let store = dir.join("store");
        Node::narrow(dir, binary, name, (number, here, there), store, wide, Over::Tcpcl)
    }
    /// The same with its store in a folder of its own, with less room, over whatever layer.
    pub fn narrow(
        dir: PathBuf,
        binary: &Path,
        name: &'static str,
        (number, here, there): (u64, u16, u16),
        store: PathBuf,
        room: Room,
        over: Over,
    ) -> Result<Node> {
        fs::create_dir_all(&dir)?;
        let peer = 3 - number;
        let layer = over.layer(&dir, binary, number)?;
        // The first node connects, so that each has the other once.
        let connects = number == 1 || over.both_connect();
        let address = if connects { format!("address = \"127.0.0.1:{there}\"") } else { String::new() };
        let Room { capacity, transfer_mru } = room;
        let keys = format!(
            "[store]\nkind = \"durable\"\ndir = {store:?}\ncapacity = \"{capacity}\"\n\n\
             [layer.tcp]\n{layer}listen = [\"127.0.0.1:{here}\"]\n\
             transfer_mru = \"{transfer_mru}\"\n\n\
             [link.peer]\nlayer = \"tcp\"\npeer = \"ipn:{peer}.0\"\n{address}\n\
             reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n\n\
             [routes]\n\"ipn:{peer}.*\" = \"ipn:{peer}.0\"\n\n\
             [app]\nsocket = \"app.sock\"\n\n[log]\nlevel = \"warn\"\n"
        );
        let keys = format!("node_ids = [\"ipn:{number}.0\"]\n{keys}");
        let mut node = Node::configured(dir, binary, name, keys)?;
        node.store = store;
        Ok(node)
    }
    /// A node with these keys, in this folder.
    pub fn configured(dir: PathBuf, binary: &Path, name: &'static str, keys: String) -> Result<Node> {
        fs::create_dir_all(&dir)?;
        let (store, clock_offset) = (dir.join("store"), String::from("0 s"));
        Ok(Node { name, dir, binary: binary.to_path_buf(), child: None, store, keys, clock_offset })
    }
    /// Where applications attach.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("app.sock")
    }
    /// Its store's folder.
    pub fn store(&self) -> PathBuf {
        self.store.clone()
    }
    fn write(&self) -> Result<()> {
        let text = format!("clock_offset = \"{}\"\n{}", self.clock_offset, self.keys);
        Ok(fs::write(self.dir.join("node.toml"), text)?)
    }
    /// What `--check` says of its configuration.
    pub fn check(&self) -> Result<String> {
        self.write()?;
        let mut check = Command::new(&self.binary);
        let said = check.args(["node", "--check", "--config", "node.toml"]).current_dir(&self.dir).output()?;
        Ok(String::from_utf8_lossy(&said.stderr).into_owned())
    }
    /// Starts the process.
    pub fn start(&mut self) -> Result<()> {
        self.write()?;
        let log = File::options().create(true).append(true).open(self.dir.join("log.txt"))?;
        let child = Command::new(&self.binary)
            .args(["node", "--config", "node.toml"])
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }
    /// Waits until applications can attach; gives how long it took.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        while UnixStream::connect(self.socket()).is_err() {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                bail!("node {} ended by itself ({status}):\n{}", self.name, self.log_tail());
            }
            if begun.elapsed() > START_MAX {
                bail!("node {} is not ready after {START_MAX:?}:\n{}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(begun.elapsed())
    }
    /// `kill -9`. An error when it had ended by itself before.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        if let Some(status) = child.try_wait()? {
            bail!("node {} ended by itself ({status}):\n{}", self.name, self.log_tail());
        }
        child.kill()?;
        child.wait()?;
        // So that nobody takes the dead node's socket for a live one.
        let _ = fs::remove_file(self.socket());
        Ok(())
    }
    /// What it says its store did in this run: files written over, and commits that began while another was under way.
    /// Nothing, where it does not answer.
    pub fn store_work(&self) -> (u64, u64) {
        let told = Command::new(&self.binary).args(["node", "status", "--json"]).current_dir(&self.dir).output();
        let status: serde_json::Value =
            told.ok().and_then(|told| serde_json::from_slice(&told.stdout).ok()).unwrap_or_default();
        let number = |name: &str| status["store"][name].as_u64().unwrap_or(0);
        (number("files_written_over"), number("commits_overlapped"))
    }
    /// What it says of the bundles it holds.
    pub fn holds(&self) -> String {
        let told = Command::new(&self.binary).args(["node", "bundles"]).current_dir(&self.dir).output();
        told.map_or_else(|why| why.to_string(), |told| String::from_utf8_lossy(&told.stdout).into_owned())
    }
    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.dir.join("log.txt")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}
impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
