//! `farlink app`: between two nodes, with programs of `lab/drivers`, and with wrong input.

use crate::testbed::{FARLINK, empty_folder};
use serde_json::Value;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A program that is killed at the end of its test.
struct Started(Child);
impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
impl Started {
    fn new(folder: &Path, program: &str, words: &[&str]) -> Started {
        let mut command = Command::new(program);
        command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Started(command.spawn().unwrap())
    }
    /// Lines of the output, after its end, and whether it succeeded.
    fn finish(mut self) -> (Vec<Value>, bool) {
        let mut output = String::new();
        std::io::Read::read_to_string(&mut self.0.stdout.take().unwrap(), &mut output).unwrap();
        let success = self.0.wait().unwrap().success();
        (output.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), success)
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn app(folder: &Path, words: &[&str]) -> Output {
    Command::new(FARLINK).arg("app").args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn started_app(folder: &Path, words: &[&str]) -> Started {
    Started::new(folder, FARLINK, &[&["app"], words].concat())
}

/// Starts a node that listens at the first port and has a neighbour at the second.
fn node(folder: &Path, name: &str, number: u64, ports: (u16, u16), peer: u64) -> Started {
    let text = format!(
        "node_ids = [\"ipn:{number}.0\"]\n[store]\nkind = \"memory\"\n[layer.tcp]\nkind = \"tcpclv4\"\n\
         listen = [\"127.0.0.1:{}\"]\n[link.peer]\nlayer = \"tcp\"\npeer = \"ipn:{peer}.0\"\n\
         address = \"127.0.0.1:{}\"\nreconnect_min = \"20 ms\"\nreconnect_max = \"100 ms\"\n[routes]\n\
         \"ipn:{peer}.*\" = \"ipn:{peer}.0\"\n[app]\nsocket = \"{name}.sock\"\n[log]\nlevel = \"warn\"\n",
        ports.0, ports.1
    );
    std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    let node = Started::new(folder, FARLINK, &["node", "--config", &format!("{name}.toml")]);
    let socket = format!("test -S {name}.sock");
    let ready = app(folder, &["ready", "--within", "20 s", "--touch", name, "--run", "sh", "-c", &socket]);
    assert!(ready.status.success() && folder.join(name).exists(), "{}", String::from_utf8_lossy(&ready.stderr));
    node
}

/// Sends bundles from one interface to an endpoint at another; every one must arrive once.
fn exchange(folder: &Path, from: &[&str], to: &[&str], endpoint: &str, size: &str) {
    let words = [&["receive", "--service", endpoint, "--count", "5", "--timeout", "20 s", "--json"], to].concat();
    let receiver = started_app(folder, &words);
    let words = [&["send", "--to", endpoint, "--count", "5", "--size", size, "--flow", "9", "--json"], from].concat();
    let (sent, success) = started_app(folder, &words).finish();
    assert!(success && sent.len() == 6, "{sent:?}");
    let (delivered, success) = receiver.finish();
    assert!(success && delivered.len() == 5, "{endpoint}, {size}: {delivered:?}");
    let identity = |line: &Value, event: &str, time: &str| {
        assert_eq!(line["event"], event);
        (line["flow"].as_u64(), line["number"].as_u64(), line[time].as_u64(), line["bytes"].as_u64())
    };
    let mut came: Vec<_> = delivered.iter().map(|line| identity(line, "delivered", "created_ns")).collect();
    came.sort_unstable();
    if size == "1 B" {
        assert!(came.iter().all(|found| *found == (None, None, None, Some(1))), "{came:?}");
        return;
    }
    let made: Vec<_> = sent[..5].iter().map(|line| identity(line, "created", "at_ns")).collect();
    assert_eq!(came, made);
    assert!(
        delivered.iter().all(|line| line["again"] == false && line["at_ns"].as_u64() > line["created_ns"].as_u64())
    );
}

/// Sends a file in pieces.
fn transfer(folder: &Path, from: &[&str], to: &[&str], endpoint: &str) {
    let content: Vec<u8> = (0..500_000u32).flat_map(|word| word.to_be_bytes()).collect();
    std::fs::write(folder.join("file"), &content).unwrap();
    let words = ["receive", "--service", endpoint, "--out", "copy", "--file-size", "2000000 B", "--timeout", "20 s"];
    let receiver = started_app(folder, &[&words, to].concat());
    let sent = app(folder, &[&["send", "--to", endpoint, "--file", "file", "--bundle-size", "60 kB"], from].concat());
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let mut receiver = receiver;
    assert!(receiver.0.wait().unwrap().success());
    assert!(std::fs::read(folder.join("copy")).unwrap() == content);
}

#[test]
fn applications_meet_between_two_nodes() {
    let folder = empty_folder("app-nodes");
    let (first, second) = (free_port(), free_port());
    let _a = node(&folder, "a", 1, (first, second), 2);
    let _b = node(&folder, "b", 2, (second, first), 1);
    let (a, b) = (["--at", "a.sock"], ["--at", "b.sock", "--via", "aap2"]);
    for size in ["1 B", "1 kB", "1 MB"] {
        exchange(&folder, &a, &b, "ipn:2.64", size);
    }
    transfer(&folder, &b, &a, "ipn:1.64");
    let answers = |to: &str| {
        let words = ["ping", "--at", "a.sock", "--to", to, "--count", "3", "--interval", "10 ms", "--timeout", "2 s"];
        let (lines, success) = started_app(&folder, &[&words[..], &["--json"]].concat()).finish();
        assert_eq!(lines.len(), 3, "{lines:?}");
        (lines.iter().filter(|line| line["event"] == "round_trip").count(), success)
    };
    assert_eq!(answers("ipn:2.128"), (3, true));
    assert_eq!(answers("ipn:2.900"), (0, false));
    let echo = started_app(&folder, &["echo", "--at", "b.sock", "--service", "900"]);
    // Pings wait at the node until the service is there.
    assert_eq!(answers("ipn:2.900"), (3, true));
    let stopped = Command::new("kill").arg(echo.0.id().to_string()).status().unwrap();
    assert!(stopped.success() && echo.finish().1, "a signal is the usual end");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn toy_exchanges_bundles_with_a_node() {
    let folder = empty_folder("app-toy");
    let (ours, toy, web) = (free_port(), free_port(), free_port());
    let _a = node(&folder, "a", 1, (ours, toy), 2);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/drivers/toy/toy.py");
    let (listen, web) = (format!("127.0.0.1:{toy}"), format!("127.0.0.1:{web}"));
    let script = script.display().to_string();
    let _toy = Started::new(&folder, "python3", &[&script, "--node", "2", "--listen", &listen, "--web", &web]);
    let ready = app(&folder, &["ready", "--connect", &web, "--within", "20 s", "--touch", "toy"]);
    assert!(ready.status.success(), "{}", String::from_utf8_lossy(&ready.stderr));
    let address = format!("http://{web}");
    let (a, toy) = (["--at", "a.sock"], ["--via", "dtn7-http", "--at", &address]);
    for size in ["1 B", "1 kB", "60 kB", "1 MB"] {
        exchange(&folder, &a, &toy, "ipn:2.42", size);
        // This direction must still work after a bundle of up to 1 MB in the other.
        exchange(&folder, &toy, &a, "ipn:1.42", size);
    }
    transfer(&folder, &a, &toy, "ipn:2.43");
    for (from, to) in [(&a[..], "ipn:2.7"), (&toy[..], "ipn:1.128")] {
        let words = ["ping", "--to", to, "--count", "3", "--interval", "10 ms", "--timeout", "5 s", "--json"];
        let (lines, success) = started_app(&folder, &[&words, from].concat()).finish();
        assert!(success && lines.iter().all(|line| line["event"] == "round_trip"), "{to}: {lines:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A node of ours stands for HDTN: the applications' program only needs a neighbour that speaks TCPCLv4.
#[test]
fn applications_of_hdtn_meet_a_node() {
    let folder = empty_folder("app-hdtn");
    let port = free_port();
    let _a = node(&folder, "a", 1, (port, free_port()), 2);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/drivers/hdtn/app.py").display().to_string();
    for version in ["7", "6"] {
        let socket = format!("v{version}.sock");
        let _program = Started::new(&folder, "python3", &[&script, "2", &port.to_string(), &socket, version]);
        let ready = app(&folder, &["ready", "--file", &socket, "--within", "20 s", "--touch", "ready"]);
        assert!(ready.status.success(), "{}", String::from_utf8_lossy(&ready.stderr));
        let (a, b) = (["--at", "a.sock"], ["--via", "aap2", "--at", &socket]);
        for size in ["1 B", "1 kB", "60 kB", "2 MB"] {
            exchange(&folder, &a, &b, "ipn:2.42", size);
            exchange(&folder, &b, &a, "ipn:1.42", size);
        }
        transfer(&folder, &b, &a, "ipn:1.43");
        let words = ["ping", "--to", "ipn:1.128", "--count", "3", "--interval", "10 ms", "--timeout", "5 s", "--json"];
        let (lines, success) = started_app(&folder, &[&words[..], &b].concat()).finish();
        assert!(success && lines.iter().all(|line| line["event"] == "round_trip"), "{lines:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Arguments of `farlink app`, separated by `|`; exit status; part of the message.
const MISTAKES: &[(&str, i32, &str)] = &[
    ("send|--to|ipn:2.1|--count|1|--via|mtcp", 2, "invalid value 'mtcp' for '--via"),
    ("send|--to|ipn:2.1|--count|1", 1, "no node has its application socket in this folder"),
    ("send|--to|ipn:2.1|--count|1|--via|aap2", 2, "--at is missing"),
    ("send|--to|ipn:2.1|--count|1|--at|no.sock", 1, "no node at the application socket no.sock"),
    ("send|--to|ipn:2.1|--count|1|--via|dtn7-http|--at|127.0.0.1:1", 2, "`127.0.0.1:1` is not the address"),
    ("send|--to|ipn:2.1|--count|1|--via|dtn7-ws|--at|http://127.0.0.1:1", 1, "nothing answers at http://127.0.0.1:1"),
    ("send|--to|ipn:2.1|--count|1|--via|dtn7-go|--at|no.sock", 1, "needs the endpoint ID to send from"),
    ("send|--to|ipn:2.1|--count|1|--via|frames|--at|no.json", 1, "no.json: "),
    ("send|--to|ipn:2.1|--count|1|--via|programs|--at|no.json", 2, "no.json: "),
    ("send|--to|ipn:2.1|--count|1|--via|programs|--at|empty.json", 1, "no program `send`"),
    ("send|--to|ipn:2.1|--count|1|--via|programs|--at|wrong.json", 2, "`{payload}` in `{payload}` is none of"),
    ("send|--to|nonsense|--count|1", 2, "`nonsense` is not an endpoint"),
    ("send|--to|ipn:2.1", 2, "nothing to send"),
    ("send|--to|ipn:2.1|--count|0", 2, "must be at least 1"),
    ("send|--to|ipn:2.1|--count|1|--size|huge", 2, "`huge` is not a data volume"),
    ("send|--to|ipn:2.1|--count|1|--size|1 GB", 2, "--size: a payload of more than 256 MiB"),
    ("send|--to|ipn:2.1|--sizes|no.txt", 2, "no.txt: "),
    ("send|--to|ipn:2.1|--sizes|empty.json", 2, "--sizes takes a text file"),
    ("send|--to|ipn:2.1|--sizes|sizes.txt|--size|1 kB", 2, "--sizes goes without --size"),
    ("send|--to|ipn:2.1|--sizes|sizes.txt|--count|3", 2, "2 sizes for 3 bundles"),
    ("send|--to|ipn:2.1|--file|no.bin", 2, "no.bin: "),
    ("send|--to|ipn:2.1|--file|.", 2, ".: is not a file"),
    ("send|--to|ipn:2.1|--file|sizes.txt|--count|1", 2, "--file goes without --count"),
    ("send|--to|ipn:2.1|--file|sizes.txt|--bundle-size|32 B", 2, "--bundle-size: at least 33 B"),
    ("send|--to|ipn:2.1|--file|sizes.txt|--bundle-size|1 GB", 2, "--bundle-size: a payload of more than"),
    ("send|--to|ipn:2.1|--count|1|--bundle-size|1 kB", 2, "--bundle-size needs --file"),
    ("send|--to|ipn:2.1|--count|1|--rate|fast", 2, "`fast` is not a data rate"),
    ("send|--to|ipn:2.1|--count|1|--interval|soon", 2, "`soon` is not a duration"),
    ("send|--to|ipn:2.1|--count|1|--interval|1 s|--rate|1 Mbit/s", 2, "cannot be used with"),
    ("send|--to|ipn:2.1|--count|1|--window|0", 2, "must be at least 1"),
    ("send|--to|ipn:2.1|--count|1|--lifetime|0 s", 2, "bundles with a lifetime below 1 ms expire"),
    ("send|--to|ipn:2.1|--count|1|--flow|-1", 2, "`-1` is not a whole number"),
    ("send|--to|ipn:2.1|--count|1|--own|--at|no.sock", 2, "--own needs --via programs"),
    ("receive|--at|no.sock", 2, "--service <SERVICE>"),
    ("receive|--service|64|--at|no.sock", 1, "no node at the application socket no.sock"),
    ("receive|--service|64|--at|no.sock|--out|copy", 2, "--out and --file-size go together"),
    ("receive|--service|64|--at|no.sock|--out|/no/such/copy|--file-size|1 B", 2, "/no/such/copy cannot be written"),
    ("receive|--service|64|--at|no.sock|--own", 2, "--own needs --count"),
    ("receive|--service|64|--at|no.sock|--timeout|soon", 2, "`soon` is not a duration"),
    ("receive|--service|64|--via|dtn7-go|--at|no.sock", 1, "`64` is not an endpoint ID"),
    ("ping|--to|ipn:2|--at|no.sock", 2, "`ipn:2` is not an endpoint"),
    ("ping|--to|ipn:2.7|--at|no.sock|--size|23 B", 2, "--size 23 B: 24 B to 256 MiB"),
    ("ping|--to|ipn:2.7|--via|frames|--at|no.sock", 1, "needs the endpoint ID to send from"),
    ("ping|--to|ipn:2.7|--via|programs|--at|empty.json|--source|7", 1, "`7` is not an endpoint ID"),
    ("echo|--service|7|--at|no.sock", 1, "no node at the application socket no.sock"),
    ("ready|--touch|ready", 2, "nothing to wait for"),
    ("ready|--touch|ready|--connect|3000", 2, "--connect: `3000` is not HOST:PORT"),
    ("ready|--touch|ready|--log|x.log", 2, "--log needs --match"),
    ("ready|--touch|ready|--log|x.log|--match|(", 2, "--match: `(`: "),
    ("ready|--touch|ready|--file|x|--connect|a:1", 2, "cannot be used with"),
    ("ready|--touch|ready|--file|no.sock|--within|10 ms", 1, "waited for the file no.sock"),
    ("ready|--touch|/no/such/ready|--file|.", 1, "/no/such/ready cannot be created"),
    ("ready|--file|.", 2, "--touch <FILE>"),
    ("frames|--at|node.sock", 2, "<WORD>"),
    ("frames|--at|node.sock|--|/no/such/program", 1, "/no/such/program"),
];

#[test]
fn every_mistake_gets_a_hint() {
    let folder: PathBuf = empty_folder("app-mistakes");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("empty.json", "{}");
    write("wrong.json", "{\"send\": {\"run\": [\"x\", \"{payload}\"]}}");
    write("sizes.txt", "100\n200\n");
    let mut wrong = Vec::new();
    for (words, code, says) in MISTAKES {
        let output = app(&folder, &words.split('|').collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr);
        let hint = ["hint: ", "--help", "tip: "].iter().any(|hint| said.contains(hint));
        if output.status.code() != Some(*code) || !said.contains(says) || !hint || said.contains("panicked") {
            wrong.push(format!("{words} ({:?}), wanted {code}, {says}\n{said}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), MISTAKES.len(), wrong.join("\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}
