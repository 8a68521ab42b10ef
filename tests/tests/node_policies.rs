//! Policies of the field between real node processes over real links: copies arrive, summaries spare a neighbour the
//! bundles it has, labels are split on the wire, and controls exchange messages.

use crate::node_support::{Node, port, run, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::http;
use farlink_base::{Accel, Bytes, Payload};
use farlink_bundle::{Bundle, Profile, decode, decode_prefix};
use serde_json::Value;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NOWHERE: &str = "ipn:9.1";
const EPIDEMIC: &str = "[router]\nname = \"epidemic\"";

/// Sends `count` bundles from a node.
fn send(node: &Node, to: &str, count: u8) {
    let mut client = node.client("99", 0);
    for n in 0..count {
        client.send(BundleAdu { dst_eid: to.into(), ..Default::default() }, &[n; 700]).unwrap();
        assert_eq!(client.response().unwrap().response_status(), AapStatus::Success);
    }
}
/// Number of bundles that a node holds.
fn kept(at: &str) -> u64 {
    let status = http::request("GET", at, "/status", "").unwrap().1;
    serde_json::from_str::<Value>(&status).unwrap()["bundles"].as_u64().unwrap()
}
/// A tapped wire between two nodes, which records the bytes of the dialling node.
#[derive(Default)]
struct Tap {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}
impl Tap {
    fn to(there: u16) -> Tap {
        let tap = Tap { port: port(), ..Tap::default() };
        let listener = TcpListener::bind(("127.0.0.1", tap.port)).unwrap();
        let (heard, open) = (tap.heard.clone(), tap.open.clone());
        let pump = |mut from: TcpStream, mut to: TcpStream, heard: Option<Arc<Mutex<Vec<u8>>>>| {
            let mut part = [0; 65536];
            while let Some(len) = from.read(&mut part).ok().filter(|len| *len > 0) {
                heard.iter().for_each(|heard| heard.lock().unwrap().extend(&part[..len]));
                if to.write_all(&part[..len]).is_err() {
                    break;
                }
            }
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        };
        std::thread::spawn(move || {
            for dialling in listener.incoming().map_while(Result::ok) {
                let Ok(served) = TcpStream::connect(("127.0.0.1", there)) else { continue };
                let (back, forth) = (served.try_clone().unwrap(), dialling.try_clone().unwrap());
                open.lock().unwrap().extend([served.try_clone().unwrap(), dialling.try_clone().unwrap()]);
                let heard = heard.clone();
                std::thread::spawn(move || pump(dialling, served, Some(heard)));
                std::thread::spawn(move || pump(back, forth, None));
            }
        });
        tap
    }
    /// Cuts the session at both ends; the next may begin at once.
    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    /// Bundles that passed, in order; each is short enough for one segment.
    fn bundles(&self) -> Vec<Bundle> {
        let heard = Bytes::from(self.heard.lock().unwrap().clone());
        let (mut bundles, mut at) = (Vec::new(), 0);
        // 0x9f begins a bundle of version 7, and may occur elsewhere: decoding decides.
        while let Some(found) = heard[at..].iter().position(|byte| *byte == 0x9f) {
            at += found;
            let rest = Payload::from(heard.slice(at..));
            let end = decode_prefix(&rest).ok().flatten();
            let bundle = end.and_then(|end| decode(&rest.slice(0, end), Profile::Permissive, &Accel::default()).ok());
            at += end.filter(|_| bundle.is_some()).unwrap_or(1) as usize;
            bundles.extend(bundle);
        }
        bundles
    }
    /// Bundles that passed for the destination [`NOWHERE`].
    fn copies(&self) -> Vec<Bundle> {
        let meant = |bundle: &Bundle| bundle.primary.destination.to_string() == NOWHERE;
        self.bundles().into_iter().filter(meant).collect()
    }
}

/// Nodes in a row, each link tapped; each dials the next.
struct PolicyRow {
    dir: tempfile::TempDir,
    ports: Vec<u16>,
    apis: Vec<String>,
    taps: Vec<Tap>,
}
impl PolicyRow {
    fn new(count: usize) -> PolicyRow {
        let ports: Vec<u16> = (0..count).map(|_| port()).collect();
        let taps = ports[1..].iter().map(|next| Tap::to(*next)).collect();
        let dir = tempfile::tempdir().unwrap();
        let control = |number| dir.path().join(format!("{number}.control.sock")).display().to_string();
        PolicyRow { apis: (1..=count).map(control).collect(), dir, ports, taps }
    }
    /// Starts node 1, 2, ... with a durable store.
    fn start(&self, number: usize, policies: &str) -> Node {
        let link = |peer: usize, address: String| {
            format!("[link.to-{peer}]\nlayer = \"main\"\npeer = \"ipn:{peer}.0\"\n{address}\n")
        };
        let before = if number > 1 { link(number - 1, String::new()) } else { String::new() };
        let address = |tap: &Tap| format!("address = \"127.0.0.1:{}\"", tap.port);
        let next = self.taps.get(number - 1).map(|tap| link(number + 1, address(tap))).unwrap_or_default();
        let port = self.ports[number - 1];
        let text = format!(
            "node_ids = [\"ipn:{number}.0\"]\n[store]\ndir = \"store-{number}\"\n[layer.main]\nkind = \"tcpclv4\"\n\
             listen = [\"127.0.0.1:{port}\"]\n{before}{next}[app]\nsocket = \"{number}.sock\"\n{policies}\n"
        );
        let file = self.dir.path().join(format!("{number}.toml"));
        std::fs::write(&file, text).unwrap();
        Node::start(&file, self.dir.path().join(format!("{number}.sock")))
    }
}

#[test]
fn epidemic_copies_arrive_once() {
    let row = PolicyRow::new(2);
    let (a, _b) = (row.start(1, EPIDEMIC), row.start(2, EPIDEMIC));
    let came = |count| until("the copies", || kept(&row.apis[1]) == count);
    send(&a, NOWHERE, 5);
    came(5);
    assert_eq!(kept(&row.apis[0]), 5, "a copy leaves the original");
    // After the session is lost and comes again, only the new bundle crosses.
    row.taps[0].cut();
    send(&a, NOWHERE, 1);
    came(6);
    // The restarted node no longer knows which bundles it copied; the neighbour's summary keeps it from sending them
    // again.
    a.kill();
    let a = row.start(1, EPIDEMIC);
    until("what was kept is found", || kept(&row.apis[0]) == 6);
    send(&a, NOWHERE, 1);
    came(7);
    // Time for a second copy to cross, if one were sent.
    std::thread::sleep(Duration::from_millis(300));
    let crossed: Vec<_> = row.taps[0].copies().iter().map(Bundle::id).collect();
    let each: HashSet<_> = crossed.iter().collect();
    assert_eq!((each.len(), crossed.len()), (7, 7), "each crossed once");
}

#[test]
fn spray_halves_label_each_hop() {
    let row = PolicyRow::new(3);
    let spray = "[router]\nname = \"spray-and-wait\"\ncopies = 4";
    let nodes = [1, 2, 3].map(|number| row.start(number, spray));
    send(&nodes[0], NOWHERE, 3);
    until("each node has its copies", || row.apis.iter().all(|api| kept(api) == 3));
    let label = |bundle: &Bundle| bundle.labels().expect("a label travels with each copy")[0];
    let labels = |tap: &Tap| tap.copies().iter().map(label).collect::<Vec<_>>();
    assert_eq!(labels(&row.taps[0]), [2, 2, 2], "two of four");
    assert_eq!(labels(&row.taps[1]), [1, 1, 1], "one of two");
    // A neighbour gets bundles for itself even as the last copy.
    let mut receiver = nodes[2].client("64", 1);
    send(&nodes[1], "ipn:3.64", 1);
    assert_eq!(receiver.delivery().unwrap().payload, [0; 700]);
    receiver.taken(true).unwrap();
}

#[test]
fn rrcc_follows_neighbour_copy_limit() {
    let row = PolicyRow::new(2);
    let policies = format!("{EPIDEMIC}\n[control]\nname = \"rrcc\"");
    let (_b, a) = (row.start(2, &policies), row.start(1, &policies));
    send(&a, NOWHERE, 10);
    // The first encounter makes one copy. In each that follows, the neighbour reports that it took copies and gave none
    // up, so the limit rises by one.
    for (encounter, copies) in [1, 3, 6, 10].into_iter().enumerate() {
        until("the copies of an encounter", || kept(&row.apis[1]) >= copies);
        // Time for a copy too many to cross, if one were made.
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(kept(&row.apis[1]), copies, "encounter {encounter}");
        row.taps[0].cut();
    }
    assert_eq!(row.taps[0].copies().len(), 10);
}

#[test]
fn oracle_control_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    std::fs::write(&file, "node_ids = \"ipn:1.0\"\n[control]\nname = \"afner\"\n").unwrap();
    for check in [&["--check"][..], &[]] {
        let said = run(&[&["node", "--config", &file.display().to_string()], check].concat());
        let text = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(2), "{text}");
        for part in ["node.toml:3: control.name", "only a simulator has", "hint: use one of none, drop-oldest"] {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }
}
