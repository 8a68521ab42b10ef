//! Real node processes for tests: started from the `farlink` binary beside the test, killed when
//! dropped.
#![allow(dead_code)]

use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::client::Client;
use farlink_apps::http;
use farlink_trials::harness::{self, Process};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The `farlink` binary: `FARLINK_BIN`, or the one of this build, built now if it is absent.
pub fn farlink() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| harness::beside_tests().expect("a program to test"))
}

/// Longest time in which a node ends after SIGTERM.
const END_MAX: Duration = Duration::from_secs(60);

/// Runs `farlink` with arguments until it ends.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(farlink()).args(arguments).output().expect("farlink runs")
}

/// A port free for TCP and UDP; each call returns another one.
pub fn port() -> u16 {
    harness::free_port().expect("a free port")
}

/// Waits up to 20 s until a condition holds.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        // Enough for a machine that runs all tests at once.
        assert!(began.elapsed() < Duration::from_secs(20), "waited 20 s for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Configuration of two neighbours, nodes 1 and 2.
pub struct Pair {
    /// Folder of both nodes' files.
    pub dir: tempfile::TempDir,
    layer: &'static str,
    /// Ports of their layers.
    pub ports: [u16; 2],
    durable: bool,
    /// Further lines for the layer's table in both node files.
    pub layer_keys: &'static str,
}
impl Pair {
    /// Two neighbours over `tcpclv4` or `ltp`, with free ports.
    pub fn new(layer: &'static str, durable: bool) -> Pair {
        let dir = tempfile::tempdir().expect("a folder");
        Pair { dir, layer, ports: [port(), port()], durable, layer_keys: "" }
    }
    /// Path of the control socket of node 1 or 2.
    pub fn control(&self, number: usize) -> String {
        self.dir.path().join(format!("{number}.control.sock")).display().to_string()
    }
    /// Starts node 1 or 2; `more` is added to its file.
    pub fn start(&self, number: usize, more: &str) -> Node {
        self.start_as(number, &format!("\"ipn:{number}.0\""), more)
    }
    /// Starts node 1 or 2 with these node IDs; `more` is added to its file.
    pub fn start_as(&self, number: usize, ids: &str, more: &str) -> Node {
        self.start_with(number, ids, "", more)
    }
    /// Starts node 1 or 2 with these node IDs; `top` holds keys before the first table of its file, and `more` is added
    /// at the end.
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

/// A running node process.
pub struct Node {
    process: Process,
    /// Path of the node's application socket.
    pub socket: String,
}
impl Node {
    /// Starts a node from its configuration; `socket` is the application socket named there.
    pub fn start(file: &Path, socket: PathBuf) -> Node {
        Node::start_as(Command::new(farlink()), file, socket)
    }
    /// Starts a node that cannot write files longer than this number of blocks of 512 bytes.
    pub fn start_with_files_of(blocks: u64, file: &Path, socket: PathBuf) -> Node {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -f {blocks}; exec \"$@\""), "sh"]).arg(farlink());
        Node::start_as(shell, file, socket)
    }
    /// Starts a node that sees `folder` as a file system of its own, mounted with the arguments `disk`; `None` if this
    /// user may not mount.
    pub fn start_on(disk: &str, folder: &Path, file: &Path, socket: PathBuf) -> Option<Node> {
        let mount = |then: &str| {
            let mut unshare = Command::new("unshare");
            unshare.args(["-Urm", "sh", "-c", &format!("mount {disk} none \"$0\" && {then}")]).arg(folder);
            unshare
        };
        // A user namespace allows the mount without root, where the kernel permits such namespaces.
        let may = mount("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        may.then(|| {
            let mut command = mount("exec \"$@\"");
            command.arg(farlink());
            Node::start_as(command, file, socket)
        })
    }
    fn start_as(mut command: Command, file: &Path, socket: PathBuf) -> Node {
        let (place, log) = (socket.display().to_string(), file.with_extension("log"));
        command.args(["node", "--config"]).arg(file);
        let mut process = Process::start(&mut command, "under test", socket, log).expect("the node starts");
        process.wait_ready().unwrap_or_else(|why| panic!("{why:#}"));
        Node { process, socket: place }
    }
    /// Process ID of the node.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
    /// Log of the node so far.
    pub fn log(&self) -> String {
        self.process.log()
    }
    /// A client at the endpoint of this service: a sender if `window` is 0, else a receiver.
    pub fn client(&self, service: &str, window: u32) -> Client {
        let mut client = Client::connect(&self.socket).expect("the node is there");
        let endpoint = client.endpoint(service);
        client.configure(&endpoint, "test", window).expect("the endpoint is free");
        client.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        client
    }
    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        let _ = self.process.kill();
    }
    /// Sends SIGTERM; returns the exit code.
    pub fn terminate(mut self) -> Option<i32> {
        self.process.end(END_MAX).expect("it ends").code()
    }
    /// Sends SIGHUP: the node reads its configuration again.
    pub fn hang_up(&self) {
        self.process.hang_up().expect("it runs");
    }
}
impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "log of the node:\n{}", self.log());
        }
    }
}

/// Writes the file of a durable node without links, whose bundles for others stay in its store. Returns the paths of
/// the file, the application socket and the control socket.
pub fn configure(folder: &Path, id: &str, more: &str) -> (PathBuf, PathBuf, String) {
    let text = format!(
        "node_ids = [\"{id}\"]\n{more}[store]\ndir = \"store\"\ncapacity = \"1 GB\"\n[app]\nsocket = \"1.sock\"\n"
    );
    let file = folder.join("1.toml");
    std::fs::write(&file, text).expect("the configuration");
    (file, folder.join("1.sock"), folder.join("1.control.sock").display().to_string())
}
/// Sends a bundle of so many bytes; returns whether the node acknowledged it.
pub fn accepts(sender: &mut Client, bytes: usize) -> bool {
    let adu = BundleAdu { dst_eid: "ipn:7.64".into(), ..Default::default() };
    sender.send(adu, &vec![7; bytes]).expect("the node takes requests");
    sender.response().expect("the node answers").response_status() == AapStatus::Success
}
/// Number of bundles that the node holds, from its control interface.
pub fn held(at: &str) -> u64 {
    let status: Value =
        serde_json::from_str(&http::request("GET", at, "/status", "").expect("a status").1).expect("JSON");
    status["bundles"].as_u64().expect("a number")
}
