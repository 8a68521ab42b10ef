//! Applications that are ended by Control-C, or whose node ends: they say what was done until then.

use crate::node_support::{Node, Pair, farlink, until};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Application that runs, with its output in files.
struct Running {
    child: Child,
    out: PathBuf,
}
impl Running {
    fn start(pair: &Pair, name: &str, arguments: &[&str]) -> Running {
        let out = pair.dir.path().join(name);
        let file = |kind: &str| fs::File::create(out.with_extension(kind)).expect("a file");
        let mut command = Command::new(farlink());
        command.args(arguments).stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        Running { child: command.spawn().expect("it starts"), out }
    }
    fn said(&self) -> String {
        let read = |kind: &str| fs::read_to_string(self.out.with_extension(kind)).expect("a file");
        read("out") + &read("err")
    }
    /// Waits until it has printed this.
    fn until(&self, part: &str) {
        until(part, || self.said().contains(part));
    }
    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
    /// Exit status and words of an application that ends.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        (status.code(), self.said())
    }
    /// As after Control-C.
    fn interrupt(self) -> (Option<i32>, String) {
        self.signal("INT");
        self.end()
    }
}
fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(status.expect("kill runs").success());
}
fn pair() -> (Pair, Node) {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "echo = false");
    (pair, node)
}

#[test]
fn control_c_ends_with_summary() {
    let (pair, node) = pair();
    let at = node.socket.as_str();
    let start = |name: &str, arguments: &[&str]| Running::start(&pair, name, &[arguments, &["--at", at]].concat());
    let server = start("serve", &["perf", "--serve"]);
    let echo = start("echo", &["echo", "--service", "7"]);
    server.until("measuring at ipn:1.2000");
    echo.until("answering at ipn:1.7");
    let client = start("perf", &["perf", "ipn:1.2000", "--seconds", "600", "--window", "1"]);
    client.until("1 s: ");
    let (code, said) = client.interrupt();
    assert!(code == Some(0) && said.contains(" answered, ") && said.contains("bundles/s"), "{code:?} {said}");
    let (code, said) = server.interrupt();
    assert!(code == Some(0) && said.contains("stopped: ") && said.contains(" bundles answered, "), "{code:?} {said}");
    let pings = start("ping", &["ping", "ipn:1.7", "-c", "2", "-i", "0 s"]);
    assert_eq!(pings.end().0, Some(0));
    let (code, said) = echo.interrupt();
    assert!(code == Some(0) && said.ends_with("stopped: 2 answered\n"), "{code:?} {said}");
}

#[test]
fn interrupted_transfer_tells_what_went() {
    let (pair, node) = pair();
    let at = node.socket.as_str();
    let start = |name: &str, arguments: &[&str]| Running::start(&pair, name, &[arguments, &["--at", at]].concat());
    let out = pair.dir.path().join("in").display().to_string();
    let receiver = start("recv", &["recv", "--out", &out, "--count", "9", "--service", "64"]);
    let slow = ["send", "--to", "ipn:1.64", "--bundle-size", "1 B", "--interval", "1 h", "--text", "two"];
    let sender = start("send", &slow);
    until("the first piece", || {
        fs::read_dir(&out).is_ok_and(|mut all| {
            all.any(|file| file.is_ok_and(|f| f.file_name().to_string_lossy().ends_with(".journal")))
        })
    });
    let (code, said) = sender.interrupt();
    let told = "error: stopped with 0 of 1 files sent; text: 1 bundle, 1 B of 3 B accepted by the node\nhint: ";
    assert!(code == Some(1) && said.contains(told), "{code:?} {said}");
    let (code, said) = receiver.interrupt();
    let told = ", 0 whole files\nerror: stopped with 1 of 9 bundles received\nhint: ";
    assert!(code == Some(1) && said.contains("stopped: 1 bundle received, ") && said.contains(told), "{code:?} {said}");
    let receiver = start("recv-all", &["recv", "--service", "65", "--discard"]);
    until("it is registered", || {
        let asked = Command::new(farlink()).args(["node", "registrations", "--at", &pair.control(1)]).output();
        String::from_utf8_lossy(&asked.expect("it answers").stdout).contains("ipn:1.65")
    });
    let (code, said) = receiver.interrupt();
    assert!(code == Some(0) && said.contains("stopped: 0 bundles received"), "without a limit it is done: {said}");
}

#[test]
fn sender_names_end_of_its_node() {
    let (pair, node) = pair();
    // A node that is stopped accepts bytes and answers nothing.
    let sender = Running::start(
        &pair,
        "send",
        &[
            "send",
            "--to",
            "ipn:2.64",
            "--interval",
            "10 ms",
            "--bundle-size",
            "1 B",
            "--at",
            &node.socket,
            "--text",
            &"x".repeat(9000),
        ],
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    signal(node.id(), "STOP");
    sender.until("has not accepted the bundle yet");
    node.kill();
    let (code, said) = sender.end();
    assert!(code == Some(1) && said.contains("error: the node ended the connection\n"), "{said}");
    assert!(said.contains(" B of 9 kB accepted by the node\n"), "{said}");
    assert!(said.contains("\nhint: is it still running?") && !said.contains("fill whole buffer"), "{said}");
}

#[test]
fn service_manager_learns_of_start_and_end() {
    let pair = Pair::new("tcpclv4", false);
    let place = pair.dir.path().join("notify");
    let manager = UnixDatagram::bind(&place).expect("a socket");
    manager.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout");
    let heard = || {
        let mut text = [0; 64];
        let length = manager.recv(&mut text).expect("a notice");
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let file = pair.dir.path().join("n.toml");
    fs::write(&file, "node_ids = \"ipn:1.0\"\n[app]\nsocket = \"n.sock\"\n").expect("a file");
    let mut command = Command::new(farlink());
    command.args(["node", "--config"]).arg(&file).env("NOTIFY_SOCKET", &place).stderr(Stdio::null());
    let mut node = command.spawn().expect("it starts");
    assert_eq!(heard(), "READY=1");
    assert!(std::os::unix::net::UnixStream::connect(pair.dir.path().join("n.sock")).is_ok(), "its socket is there");
    signal(node.id(), "TERM");
    assert_eq!(heard(), "STOPPING=1");
    assert!(node.wait().expect("it ends").success());
}
