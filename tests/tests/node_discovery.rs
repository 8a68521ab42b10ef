//! Discovery of neighbours by announcements, between real nodes that do not know each other.

use crate::node_support::{Node, port, run, until};
use farlink_apps::http;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Files and ports of one node over TCPCLv4.
struct DiscoverySite {
    dir: PathBuf,
    number: usize,
    layer: u16,
}
impl DiscoverySite {
    fn new(dir: &Path, number: usize) -> DiscoverySite {
        DiscoverySite { dir: dir.to_path_buf(), number, layer: port() }
    }
    fn write(&self, discovery: &str) -> PathBuf {
        let (number, layer) = (self.number, self.layer);
        let file = self.dir.join(format!("{number}.toml"));
        let text = format!(
            "node_ids = \"ipn:{number}.0\"\n[store]\nkind = \"memory\"\n[layer.tcp]\nkind = \"tcpclv4\"\n\
             listen = \"0.0.0.0:{layer}\"\n[app]\nsocket = \"{number}.sock\"\n{discovery}\n"
        );
        std::fs::write(&file, text).unwrap();
        file
    }
    fn start(&self, discovery: &str) -> Node {
        Node::start(&self.write(discovery), self.dir.join(format!("{}.sock", self.number)))
    }
    fn get(&self, path: &str) -> Value {
        let at = self.dir.join(format!("{}.control.sock", self.number)).display().to_string();
        let (code, body) = http::request("GET", &at, path, "").unwrap();
        assert_eq!(code, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }
    /// Peers of links that were made for discovered neighbours.
    fn found(&self) -> Vec<String> {
        let links = self.get("/links");
        let found = links.as_array().unwrap().iter().filter(|link| link["found"].is_object());
        found.map(|link| link["peer"].as_str().unwrap().to_string()).collect()
    }
    /// Names of all links.
    fn links(&self) -> Vec<String> {
        self.get("/links").as_array().unwrap().iter().map(|link| link["name"].as_str().unwrap().to_string()).collect()
    }
}
fn pings(from: &Node, to: usize) -> bool {
    run(&["ping", &format!("ipn:{to}"), "--at", &from.socket, "-c", "2", "-i", "5 ms"]).status.success()
}
/// Table `[discovery]` that announces to one port of this machine and listens on another, without a multicast group.
fn between(here: u16, there: u16) -> String {
    format!("[discovery]\nto = \"127.0.0.1:{there}\"\nlisten = \"127.0.0.1:{here}\"\ninterval = \"1 s\"\n")
}

#[test]
fn only_accepted_neighbours_meet() {
    let dir = tempfile::tempdir().unwrap();
    let group = port();
    let table = |accept: &str| {
        format!(
            "[discovery]\nto = \"224.0.0.26:{group}\"\nlisten = \"0.0.0.0:{group}\"\ninterfaces = [\"lo\"]\n\
             interval = \"1 s\"\naccept = [{accept}]\n"
        )
    };
    let sites = [1, 2, 3].map(|number| DiscoverySite::new(dir.path(), number));
    let own = "\"ipn:1.*\", \"ipn:2.*\"";
    let [first, second, third] = [(0, own), (1, own), (2, "\"ipn:99.*\"")].map(|(at, accept)| {
        let site: &DiscoverySite = &sites[at];
        site.start(&table(accept))
    });
    until("the two have met", || pings(&first, 2));
    assert!(pings(&second, 1));
    // More than two announcements, so that the third node had time to connect if it tried to.
    until("the third was heard, and heard them", || {
        sites.iter().all(|site| site.get("/status")["announcements"]["unwanted"].as_u64().unwrap() > 2)
    });
    assert!(sites[2].links().is_empty(), "nobody spoke to it: {}", third.log());
    assert!(sites[..2].iter().all(|site| !site.found().contains(&"ipn:3.0".into())));
    // Either node may have discovered the other first.
    let (finder, other) = if sites[0].found().is_empty() { (&sites[1], 1) } else { (&sites[0], 2) };
    assert_eq!(finder.found(), [format!("ipn:{other}.0")]);
    let control = dir.path().join(format!("{}.control.sock", finder.number)).display().to_string();
    let said = run(&["node", "links", "--at", &control]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(&format!("found:ipn:{other}.0@")) && said.contains("s ago, last heard"), "{said}");
}

#[test]
fn lost_neighbour_is_discovered_again() {
    let dir = tempfile::tempdir().unwrap();
    let [here, there] = [port(), port()];
    let [a, b] = [DiscoverySite::new(dir.path(), 1), DiscoverySite::new(dir.path(), 2)];
    let first = a.start(&between(here, there));
    let second = b.start(&between(there, here));
    until("they have met", || pings(&first, 2));
    second.kill();
    until("it is lost", || a.links().is_empty());
    let mut sender = first.client("99", 0);
    let adu = farlink_aap2::proto::BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
    sender.send(adu, b"waits").unwrap();
    sender.response().unwrap();
    let second = b.start(&between(there, here));
    let mut receiver = second.client("64", 1);
    assert_eq!(receiver.delivery().unwrap().payload, b"waits");
    // A clean end is noticed at once, whoever opened the session.
    assert_eq!(second.terminate(), Some(0));
    until("it left", || a.links().is_empty());
}

#[test]
fn reload_switches_discovery() {
    let dir = tempfile::tempdir().unwrap();
    let [here, there] = [port(), port()];
    let [a, b] = [DiscoverySite::new(dir.path(), 1), DiscoverySite::new(dir.path(), 2)];
    let first = a.start("");
    assert!(a.get("/status")["announcements"].is_null());
    // The second accepts no one, so only the first may connect.
    let _second = b.start(&format!("{}accept = \"ipn:99.*\"\n", between(there, here)));
    a.write(&between(here, there));
    first.hang_up();
    until("it begins", || pings(&first, 2));
    first.hang_up();
    until("the file was read again", || first.log().matches("configuration read again").count() == 2);
    assert_eq!(a.found(), ["ipn:2.0"], "nothing about it is new");
    a.write("[discovery]\ninterfaces = [\"nosuch0\"]\n");
    first.hang_up();
    until("it is refused", || first.log().contains("interface nosuch0"));
    assert_eq!(a.found(), ["ipn:2.0"], "nothing changed");
    a.write("");
    first.hang_up();
    until("it ends", || a.found().is_empty() && a.get("/status")["announcements"].is_null());
}

#[test]
fn configured_links_precede_discovered_ones() {
    let dir = tempfile::tempdir().unwrap();
    let [here, there] = [port(), port()];
    let [a, b] = [DiscoverySite::new(dir.path(), 1), DiscoverySite::new(dir.path(), 2)];
    let link = format!("[link.peer]\nlayer = \"tcp\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:{}\"\n", b.layer);
    let first = a.start(&format!("{}{link}", between(here, there)));
    let second = b.start(&between(there, here));
    until("they are joined", || pings(&first, 2));
    until("it was heard", || {
        a.get("/status")["announcements"]["heard"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["beacons"].as_u64() > Some(3))
    });
    assert_eq!(a.links(), ["peer"]);
    // Node 2 has a link to the discovered neighbour, or the session that node 1 opened; its configured link replaces
    // either.
    let control = dir.path().join("2.control.sock").display().to_string();
    let back = format!("[link.back]\nlayer = \"tcp\"\npeer = \"ipn:1.0\"\naddress = \"127.0.0.1:{}\"\n", a.layer);
    assert_eq!(http::request("POST", &control, "/links", &back).unwrap().0, 200);
    until("that one is up", || pings(&second, 1) && b.links().contains(&"back".into()));
    assert!(b.found().is_empty());
}

/// Starts a node that requires TLS, with the certificate of this name.
fn secured(site: &DiscoverySite, discovery: &str, certificate: &str) -> Node {
    let file = site.write(&format!("{discovery}require_tls = true\n"));
    let text = std::fs::read_to_string(&file).unwrap();
    let tls = format!(
        "tls = \"require\"\ncertificate = \"certs/{certificate}.pem\"\nkey = \"certs/{certificate}.key\"\n\
         authorities = \"certs/authority.pem\"\nlisten"
    );
    std::fs::write(&file, text.replacen("listen", &tls, 1)).unwrap();
    Node::start(&file, site.dir.join(format!("{}.sock", site.number)))
}
fn certificates(dir: &Path) {
    let out = dir.join("certs").display().to_string();
    let made = run(&["node", "certs", "--out", &out, "ipn:1.0", "ipn:2.0", "ipn:9.0"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn discovered_neighbours_prove_their_names() {
    // An announced name is a claim, and a certificate proves it, whichever side connects.
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let [here, there] = [port(), port()];
    let [a, b] = [DiscoverySite::new(dir.path(), 1), DiscoverySite::new(dir.path(), 2)];
    let first = secured(&a, &between(here, there), "ipn-1");
    let second = secured(&b, &between(there, here), "ipn-2");
    until("they have met", || pings(&first, 2) && pings(&second, 1));
    assert!([&first, &second].iter().all(|node| !node.log().contains("proves another node")));
    // A discovered neighbour that has proven its name is still no configured one: its link is removed when it ends.
    assert_eq!(a.found().len() + b.found().len(), 1, "one of the two connected");
    assert_eq!(second.terminate(), Some(0));
    until("it left", || a.links().is_empty());
}

#[test]
fn unproven_announced_name_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let [here, there] = [port(), port()];
    let [a, b] = [DiscoverySite::new(dir.path(), 1), DiscoverySite::new(dir.path(), 2)];
    let first = secured(&a, &between(here, there), "ipn-1");
    // The announced name is that of node 2, and the certificate proves another one.
    let _second = secured(&b, &between(there, here), "ipn-9");
    until("it is turned away", || first.log().contains("proves another node"));
    assert!(!pings_for(&first, 2, "2 s"), "nothing goes to it: {}", first.log());
    until("what came of it is told", || {
        let heard = a.get("/status")["announcements"]["heard"].clone();
        heard.as_array().unwrap().iter().any(|one| one["node"] == "ipn:2.0")
    });
    assert!(a.links().is_empty() || a.get("/links")[0]["up"] != true);
}
fn pings_for(from: &Node, to: usize, timeout: &str) -> bool {
    run(&["ping", &format!("ipn:{to}"), "--at", &from.socket, "-c", "1", "--timeout", timeout]).status.success()
}

#[test]
fn required_tls_excludes_plain_neighbours() {
    // A node without TLS announces no service that a node requiring TLS connects to.
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let [here, there] = [port(), port()];
    let [a, b] = [DiscoverySite::new(dir.path(), 1), DiscoverySite::new(dir.path(), 2)];
    let first = secured(&a, &between(here, there), "ipn-1");
    let second = b.start(&between(there, here));
    until("one is told why", || {
        [first.log(), second.log()].iter().any(|log| log.contains("cannot do TLS, which this node requires"))
    });
    assert!(!pings_for(&first, 2, "2 s") && !pings_for(&second, 1, "2 s"));
}
