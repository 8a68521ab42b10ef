//! Real nodes over TCPCLv4 with TLS (RFC 9174 section 4.4): a peer that proves to be the neighbour is accepted, any
//! other is refused with the reason in the log.

use crate::node_support::{Node, port, run, until};
use farlink_apps::http;
use std::path::Path;

/// Nodes 1 and 2 and their folder, with certificates `ipn-1`, `ipn-2` and `ipn-9` of one authority in `certs`.
struct TlsNodes {
    dir: tempfile::TempDir,
    ports: [u16; 2],
}
impl TlsNodes {
    fn new() -> TlsNodes {
        let nodes = TlsNodes { dir: tempfile::tempdir().expect("a folder"), ports: [port(), port()] };
        nodes.certs("certs", &["ipn:1.0", "ipn:2.0", "ipn:9.0"]);
        nodes
    }
    fn certs(&self, folder: &str, ids: &[&str]) {
        let out = self.dir.path().join(folder);
        let output = run(&[&["node", "certs", "--out", &out.display().to_string()], ids].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    /// State of the link of node 1 or 2: `up` with a session.
    fn state(&self, number: usize) -> String {
        self.link(number)["state"].as_str().expect("a state").to_string()
    }
    fn last_error(&self, number: usize) -> String {
        self.link(number)["last_error"]["what"].as_str().unwrap_or_default().to_string()
    }
    fn link(&self, number: usize) -> serde_json::Value {
        let at = self.dir.path().join(format!("{number}.control.sock")).display().to_string();
        let (_, links) = http::request("GET", &at, "/links", "").expect("an answer");
        let links: serde_json::Value = serde_json::from_str(&links).expect("a document");
        links[0].clone()
    }
    /// Starts node 1 or 2 with these lines in its layer.
    fn start(&self, number: usize, layer: &str) -> Node {
        let other = 3 - number;
        let [here, there] = [self.ports[number - 1], self.ports[other - 1]];
        let text = format!(
            "node_ids = [\"ipn:{number}.0\"]\n[app]\nsocket = \"{number}.sock\"\n[layer.tcp]\nkind = \"tcpclv4\"\n\
             listen = [\"127.0.0.1:{here}\"]\n{layer}\n[link.peer]\nlayer = \"tcp\"\npeer = \"ipn:{other}.0\"\n\
             address = \"127.0.0.1:{there}\"\nconnect = {}\nreconnect_max = \"300 ms\"\n\
             [routes]\n\"ipn:{other}.*\" = \"ipn:{other}.0\"\n",
            number == 1
        );
        let file = self.dir.path().join(format!("{number}.toml"));
        std::fs::write(&file, text).expect("the configuration is written");
        Node::start(&file, self.dir.path().join(format!("{number}.sock")))
    }
}
/// Keys of a layer with this TLS policy, and a certificate of this name in a folder.
fn tls(policy: &str, folder: &str, name: &str) -> String {
    format!(
        "tls = \"{policy}\"\ncertificate = \"{folder}/{name}.pem\"\nkey = \"{folder}/{name}.key\"\n\
         authorities = \"certs/authority.pem\""
    )
}
fn pings(node: &Node, to: &str) -> bool {
    run(&["ping", to, "--at", &node.socket, "-c", "2", "-i", "5 ms", "--size", "100 kB", "--timeout", "10 s"])
        .status
        .success()
}
fn mode(file: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).expect("a file").permissions()) & 0o777
}

#[test]
fn tls_is_required_or_optional() {
    let nodes = TlsNodes::new();
    assert_eq!(mode(&nodes.dir.path().join("certs/ipn-1.key")), 0o600);
    // TLS is used where both nodes support it. A session without TLS needs one node that forbids TLS and one that does
    // not require it.
    for (first, second) in [("require", "require"), ("allow", "require"), ("allow", "forbid")] {
        let lines = |policy, name| if policy == "forbid" { String::new() } else { tls(policy, "certs", name) };
        let one = nodes.start(1, &lines(first, "ipn-1"));
        let two = nodes.start(2, &lines(second, "ipn-2"));
        assert!(pings(&one, "ipn:2"), "{first} {second}: {}", one.log());
        assert!(pings(&two, "ipn:1"), "{first} {second}: {}", two.log());
        assert_eq!(nodes.state(2), "up");
        one.terminate();
        two.terminate();
    }
}

#[test]
fn unproven_neighbour_is_refused() {
    let nodes = TlsNodes::new();
    nodes.certs("theirs", &["ipn:1.0"]);
    // A certificate of another node, one of another authority, and no TLS at all: both sides warn, with names.
    for (layer, reason, found, other_side) in [
        (
            tls("require", "certs", "ipn-9"),
            "proves another node",
            "its certificate is of ipn:9.0",
            "the peer refused this node",
        ),
        (
            tls("require", "theirs", "ipn-1"),
            "has signed it",
            "a certificate of ipn:1.0",
            "theirs/ipn-1.pem, of ipn:1.0",
        ),
        (
            String::new(),
            "cannot do TLS, which this node requires",
            "hint: give the peer a certificate",
            "this node does no TLS: its [layer] has tls = \"forbid\"",
        ),
    ] {
        let two = nodes.start(2, &tls("require", "certs", "ipn-2"));
        let one = nodes.start(1, &layer);
        let warns = |node: &Node, what: &str| {
            let log = node.log();
            log.lines().any(|line| line.contains("WARN") && line.contains(what)) && log.contains("\nhint: ")
        };
        until(reason, || warns(&two, reason) && two.log().contains(found));
        until(other_side, || warns(&one, other_side));
        assert_ne!(nodes.state(2), "up", "{}", two.log());
        assert!(!one.log().contains("malformed") && !two.log().contains("malformed"), "{}\n{}", one.log(), two.log());
        until("the last error of a link", || nodes.last_error(2).contains(reason));
        one.kill();
        two.kill();
        // The next case must not find its reason in this log.
        std::fs::remove_file(nodes.dir.path().join("2.log")).expect("a log");
    }
}

#[test]
fn reloaded_certificates_serve_next_session() {
    // A reload reads the certificate files again; sessions under way stay as they are.
    let nodes = TlsNodes::new();
    let certs = nodes.dir.path().join("certs");
    let show = |name: &str| {
        for kind in ["pem", "key"] {
            std::fs::copy(certs.join(format!("{name}.{kind}")), certs.join(format!("own.{kind}"))).expect("a copy");
        }
    };
    show("ipn-9");
    let two = nodes.start(2, &tls("require", "certs", "ipn-2"));
    let one = nodes.start(1, &tls("require", "certs", "own"));
    until("the refusal", || two.log().contains("proves another node"));
    // A new certificate without its key changes nothing, and the log names the file.
    std::fs::copy(certs.join("ipn-1.pem"), certs.join("own.pem")).expect("a copy");
    one.hang_up();
    until("the complaint", || one.log().contains("own.pem") && one.log().contains("do not go together"));
    assert_ne!(nodes.state(2), "up");
    show("ipn-1");
    one.hang_up();
    until("the new certificate", || one.log().contains("configuration read again"));
    assert!(pings(&one, "ipn:2"), "{}\n{}", one.log(), two.log());
    assert!(!one.log().contains("needs a restart"), "{}", one.log());
    // An established session outlives its authority.
    nodes.certs("theirs", &["ipn:2.0"]);
    std::fs::copy(nodes.dir.path().join("theirs/authority.pem"), certs.join("authority.pem")).expect("a copy");
    let times = |node: &Node| node.log().matches("configuration read again").count();
    one.hang_up();
    until("the other authority", || times(&one) == 2);
    assert!(pings(&one, "ipn:2"), "{}", one.log());
    two.kill();
    let two = nodes.start(2, &tls("require", "theirs", "ipn-2").replace("certs/", "theirs/"));
    until("whom node 1 believes now", || two.log().contains("has signed it") || two.log().contains("TLS with"));
    drop(two);
}

#[test]
fn unusable_certificates_stop_start() {
    let nodes = TlsNodes::new();
    let check = |layer: &str| {
        let file = nodes.dir.path().join("check.toml");
        let text = format!("node_ids = [\"ipn:1.0\"]\n[layer.tcp]\nkind = \"tcpclv4\"\n{layer}\n");
        std::fs::write(&file, text).expect("the configuration is written");
        let output = run(&["node", "--check", "--config", &file.display().to_string()]);
        (
            output.status.code(),
            [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).concat(),
        )
    };
    assert_eq!(check(&tls("require", "certs", "ipn-1")).0, Some(0));
    std::fs::write(nodes.dir.path().join("certs/empty.pem"), "").expect("a file");
    std::fs::create_dir(nodes.dir.path().join("certs/folder.pem")).expect("a folder");
    for (layer, code, words) in [
        ("tls = \"require\"".to_string(), 2, "layer.tcp.certificate: missing"),
        (tls("allow", "certs", "nobody"), 2, "nobody.pem: No such file"),
        (tls("allow", "certs", "empty"), 2, "empty.pem: holds no certificate"),
        (tls("allow", "certs", "folder"), 2, "folder.pem: Is a directory"),
        (tls("allow", "certs", "ipn-1").replace("authority.pem", "ipn-1.key"), 2, "ipn-1.key: holds no certificate"),
        (tls("allow", "certs", "ipn-1").replace("ipn-1.key", "ipn-2.key"), 2, "do not go together"),
        (tls("require", "certs", "ipn-2"), 0, "does not name this node"),
        (tls("forbid", "certs", "ipn-1"), 0, "has no effect"),
    ] {
        let (status, said) = check(&layer);
        assert!(status == Some(code) && said.contains(words), "{layer}\n{status:?} {said}");
    }
    let again = nodes.dir.path().join("certs").display().to_string();
    let output = run(&["node", "certs", "--out", &again, "ipn:1.0"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("exists already") && said.contains("--force"), "{said}");
    // A certificate for a new node keeps the authority; existing ones need `--force`.
    nodes.certs("certs", &["ipn:3.0"]);
    assert!(run(&["node", "certs", "--out", &again, "--force", "ipn:1.0"]).status.success());
    assert_eq!(check(&tls("require", "certs", "ipn-1")).0, Some(0), "of the same authority");
}
