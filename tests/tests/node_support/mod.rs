//! Real node processes for tests: started from the `farlink` binary beside the test, killed when
//! dropped.
#![allow(dead_code)]

use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::client::Client;
use farlink_apps::http;
use serde_json::Value;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The `farlink` binary: `FARLINK_BIN`, or the one of this build, built now if it is absent.
pub fn farlink() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("FARLINK_BIN") {
            return given.into();
        }
        let mut folder = std::env::current_exe().expect("this test has a path");
        folder.pop();
        if folder.ends_with("deps") {
            folder.pop();
        }
        let binary = folder.join("farlink");
        if !binary.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "farlink"]);
            match folder.file_name().and_then(|name| name.to_str()) {
                Some("debug") | None => {}
                Some(profile) => drop(build.args(["--profile", profile])),
            }
            assert!(build.status().expect("cargo runs").success(), "cargo build -p farlink");
        }
        binary
    })
}

/// Runs `farlink` with arguments until it ends.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(farlink()).args(arguments).output().expect("farlink runs")
}

/// A port free for TCP and UDP, below those the system gives to outgoing connections, and each only
/// once: what was free a moment ago stays free until the node binds it.
pub fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + (std::process::id().wrapping_mul(61).wrapping_add(step) % 20_000) as u16;
        let free = TcpListener::bind(("127.0.0.1", port)).is_ok() && UdpSocket::bind(("127.0.0.1", port)).is_ok();
        if free {
            return port;
        }
    }
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited 20 s for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two neighbours: how node `number` (1 or 2) is told about the other.
pub struct Pair {
    /// Folder of both.
    pub dir: tempfile::TempDir,
    layer: &'static str,
    /// Ports of their layers.
    pub ports: [u16; 2],
    durable: bool,
    /// More keys of the layer.
    pub layer_keys: &'static str,
}
impl Pair {
    /// Over `tcpclv4` or `ltp`.
    pub fn new(layer: &'static str, durable: bool) -> Pair {
        let dir = tempfile::tempdir().expect("a folder");
        Pair { dir, layer, ports: [port(), port()], durable, layer_keys: "" }
    }
    /// Where node 1 or 2 is asked and changed.
    pub fn control(&self, number: usize) -> String {
        self.dir.path().join(format!("{number}.control.sock")).display().to_string()
    }
    /// Starts node 1 or 2; `more` is added to its file.
    pub fn start(&self, number: usize, more: &str) -> Node {
        self.start_as(number, &format!("\"ipn:{number}.0\""), more)
    }
    /// The same, with these node IDs.
    pub fn start_as(&self, number: usize, ids: &str, more: &str) -> Node {
        self.start_with(number, ids, "", more)
    }
    /// The same, with these keys at the top of its file.
    pub fn start_with(&self, number: usize, ids: &str, top: &str, more: &str) -> Node {
        let (here, there) = (self.ports[number - 1], self.ports[2 - number]);
        let other = 3 - number;
        let store = if self.durable { format!("dir = \"store-{number}\"") } else { "kind = \"memory\"".into() };
        let (layer, keys) = (self.layer, self.layer_keys);
        let text = format!(
            "node_ids = [{ids}]\n{top}\n[store]\n{store}\n[layer.main]\nkind = \"{layer}\"\n\
             listen = [\"127.0.0.1:{here}\"]\n{keys}\n[link.peer]\nlayer = \"main\"\npeer = \"ipn:{other}.0\"\n\
             address = \"127.0.0.1:{there}\"\n[routes]\n\"ipn:{other}.*\" = \"ipn:{other}.0\"\n\
             [app]\nsocket = \"{number}.sock\"\n{more}\n"
        );
        let file = self.dir.path().join(format!("{number}.toml"));
        std::fs::write(&file, text).expect("the configuration is written");
        Node::start(&file, self.dir.path().join(format!("{number}.sock")))
    }
}

/// A running node.
pub struct Node {
    child: Child,
    /// Its application socket.
    pub socket: String,
    log: PathBuf,
}
impl Node {
    /// Starts a node from its configuration; `socket` is the application socket named there.
    pub fn start(file: &Path, socket: PathBuf) -> Node {
        Node::start_as(Command::new(farlink()), file, socket)
    }
    /// Starts a node none of whose files may grow beyond so many blocks of 512 bytes.
    pub fn start_with_files_of(blocks: u64, file: &Path, socket: PathBuf) -> Node {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh"]).arg(farlink());
        Node::start_as(shell, file, socket)
    }
    /// Starts a node to whom this folder is a file system of its own, which `mount` makes of these arguments. `None`: this user
    /// may not.
    pub fn start_on(disk: &str, folder: &Path, file: &Path, socket: PathBuf) -> Option<Node> {
        let mount = |then: &str| {
            let mut unshare = Command::new("unshare");
            unshare.args(["-Urm", "sh", "-c", &format!("mount {disk} none \"$0\" && {then}")]).arg(folder);
            unshare
        };
        let may = mount("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        may.then(|| {
            let mut command = mount("exec \"$@\"");
            command.arg(farlink());
            Node::start_as(command, file, socket)
        })
    }
    fn start_as(mut command: Command, file: &Path, socket: PathBuf) -> Node {
        let log = file.with_extension("log");
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log");
        let child = command
            .args(["node", "--config"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .expect("the node starts");
        let mut node = Node { child, socket: socket.display().to_string(), log };
        until("the node's application socket", || {
            if let Some(status) = node.child.try_wait().expect("a status") {
                panic!("the node ended with {status}: {}", node.log());
            }
            Client::connect(&node.socket).is_ok()
        });
        node
    }
    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
    /// A client at an endpoint: `window` 0 sends, else receives.
    pub fn client(&self, service: &str, window: u32) -> Client {
        let mut client = Client::connect(&self.socket).expect("the node is there");
        let endpoint = client.endpoint(service);
        client.configure(&endpoint, "test", window).expect("the endpoint is free");
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        client
    }
    /// Kills it as a power cut would.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    /// Sends SIGTERM; gives the exit code.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("it ends").code()
    }
    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().expect("kill runs").success());
    }
}
impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "log of the node:\n{}", self.log());
        }
    }
}

/// A durable node whose bundles wait for a neighbour that never comes.
pub fn configure(folder: &Path, id: &str, more: &str) -> (PathBuf, PathBuf, String) {
    let text = format!(
        "node_ids = [\"{id}\"]\n{more}[store]\ndir = \"store\"\ncapacity = \"1 GB\"\n[app]\nsocket = \"1.sock\"\n"
    );
    let file = folder.join("1.toml");
    std::fs::write(&file, text).expect("the configuration");
    (file, folder.join("1.sock"), folder.join("1.control.sock").display().to_string())
}
/// Whether the node acknowledged a bundle of so many bytes.
pub fn accepts(sender: &mut Client, bytes: usize) -> bool {
    let adu = BundleAdu { dst_eid: "ipn:7.64".into(), ..Default::default() };
    sender.send(adu, &vec![7; bytes]).expect("the node takes requests");
    sender.response().expect("the node answers").response_status() == AapStatus::Success
}
/// Bundles the node holds, as its control interface says.
pub fn held(at: &str) -> u64 {
    let status: Value =
        serde_json::from_str(&http::request("GET", at, "/status", "").expect("a status").1).expect("JSON");
    status["bundles"].as_u64().expect("a number")
}
