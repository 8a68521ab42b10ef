//! A relay of several shards between two neighbours, as real processes: each neighbour's link is in a shard of its own.

use crate::node_support::{Node, port, until};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::client::Client;
use farlink_apps::http;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Nodes `ipn:1.0` and `ipn:3.0` with the relay `ipn:2.0` between them.
struct Chain {
    dir: tempfile::TempDir,
    layer: &'static str,
    /// Ports of node 1, of the relay to either side, and of node 3.
    ports: [u16; 4],
    store: &'static str,
}
impl Chain {
    fn new(layer: &'static str, durable: bool) -> Chain {
        let store = if durable { "dir = \"store-N\"" } else { "kind = \"memory\"" };
        Chain { dir: tempfile::tempdir().unwrap(), layer, ports: [port(), port(), port(), port()], store }
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn start(&self, number: u32, top: &str, layers: &[(&str, u16)], links: &[(&str, &str, u32, u16)]) -> Node {
        let store = self.store.replace('N', &number.to_string());
        // Aliases of both ends, to which the relay has no route yet.
        let ids = ["\"ipn:1.0\", \"ipn:6.0\"", "\"ipn:2.0\"", "\"ipn:3.0\", \"ipn:5.0\""][number as usize - 1];
        let mut text = format!("node_ids = [{ids}]\n{top}\n[store]\n{store}\n[app]\nsocket = \"{number}.sock\"\n");
        let kind = self.layer;
        for (name, port) in layers {
            text += &format!("[layer.{name}]\nkind = \"{kind}\"\nlisten = \"127.0.0.1:{port}\"\n");
        }
        for (name, layer, peer, port) in links {
            text += &format!(
                "[link.{name}]\nlayer = \"{layer}\"\npeer = \"ipn:{peer}.0\"\naddress = \"127.0.0.1:{port}\"\n"
            );
        }
        text += match number {
            2 => "[routes]\n\"ipn:1.*\" = \"ipn:1.0\"\n\"ipn:3.*\" = \"ipn:3.0\"\n",
            _ => "[routes]\n\"*\" = \"ipn:2.0\"\n",
        };
        let file = self.path(&format!("{number}.toml"));
        std::fs::write(&file, text).unwrap();
        Node::start(&file, self.path(&format!("{number}.sock")))
    }
    fn near(&self) -> Node {
        self.start(1, "", &[("main", self.ports[0])], &[("relay", "main", 2, self.ports[1])])
    }
    fn far(&self) -> Node {
        self.start(3, "", &[("main", self.ports[3])], &[("relay", "main", 2, self.ports[2])])
    }
    fn relay(&self, top: &str) -> Node {
        let layers = [("a", self.ports[1]), ("b", self.ports[2])];
        self.start(2, top, &layers, &[("near", "a", 1, self.ports[0]), ("far", "b", 3, self.ports[3])])
    }
    fn control(&self, number: u32) -> String {
        self.path(&format!("{number}.control.sock")).display().to_string()
    }
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        http::request(method, &self.control(2), path, body).unwrap()
    }
    fn get(&self, path: &str) -> Value {
        serde_json::from_str(&self.ask("GET", path, "").1).unwrap()
    }
    fn link(&self, name: &str) -> Value {
        let links = self.get("/links");
        links.as_array().unwrap().iter().find(|link| link["name"] == name).cloned().unwrap_or_default()
    }
    fn until_up(&self) {
        until("both links are up", || ["near", "far"].iter().all(|name| self.link(name)["up"] == true));
    }
}

fn send(client: &mut Client, to: &str, payload: &[u8]) {
    let adu = BundleAdu { dst_eid: to.into(), ..Default::default() };
    client.send(adu, payload).unwrap();
    assert_eq!(client.response().unwrap().response_status(), AapStatus::Success);
}
fn payload(n: usize, len: usize) -> Vec<u8> {
    let mut bytes = n.to_be_bytes().to_vec();
    bytes.extend((0..len).map(|i| (i * 31 + n * 7) as u8));
    bytes
}
/// Payloads delivered at an endpoint until `count` different ones came.
fn receive(node: &Node, service: &str, count: usize) -> BTreeSet<Vec<u8>> {
    let mut client = node.client(service, 8);
    let mut came = BTreeSet::new();
    while came.len() < count {
        came.insert(client.delivery().unwrap().payload);
        client.taken(true).unwrap();
    }
    came
}

fn crosses(layer: &'static str) {
    let chain = Chain::new(layer, false);
    let (near, relay, far) = (chain.near(), chain.relay("shards = 2"), chain.far());
    chain.until_up();
    let sizes = [0, 1, 1000, 300_000];
    // Through both shards in both directions, to the relay from either side, and from the relay.
    let all = [(&near, "ipn:3.64"), (&far, "ipn:1.64"), (&near, "ipn:2.64"), (&far, "ipn:2.65"), (&relay, "ipn:3.66")];
    for (from, to) in all {
        let mut client = from.client("99", 0);
        sizes.iter().enumerate().for_each(|(n, size)| send(&mut client, to, &payload(n, *size)));
    }
    let wanted: BTreeSet<Vec<u8>> = sizes.iter().enumerate().map(|(n, size)| payload(n, *size)).collect();
    for (at, service) in [(&far, "64"), (&near, "64"), (&relay, "64"), (&relay, "65"), (&far, "66")] {
        assert!(receive(at, service, sizes.len()) == wanted, "{layer}: {service}");
    }
    until("nothing is held", || chain.get("/status")["bundles"] == 0);
    // Four bundles each: four flows reach the relay, one starts there, and two end there.
    let metrics = chain.ask("GET", "/metrics", "").1;
    for line in
        ["farlink_bundles_received_total 16", "farlink_bundles_created_total 4", "farlink_bundles_delivered_total 8"]
    {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line} is not in\n{metrics}");
    }
    assert_eq!(relay.terminate(), Some(0));
}

#[test]
fn bundles_cross_two_shards_over_tcpclv4() {
    crosses("tcpclv4");
}

#[test]
fn bundles_cross_two_shards_over_ltp() {
    crosses("ltp");
}

#[test]
fn shards_appear_as_one_node() {
    let chain = Chain::new("tcpclv4", false);
    let (near, relay, far) = (chain.near(), chain.relay("shards = 2"), chain.far());
    chain.until_up();
    assert_eq!(chain.get("/status")["links"].as_array().unwrap().len(), 2, "each link is told once");
    assert_eq!(chain.get("/status")["shards"], 2);
    let plain = |client: &Node, to: &str| send(&mut client.client("98", 0), to, b"waits");
    plain(&near, "ipn:5.64");
    plain(&far, "ipn:6.64");
    until("both are held", || chain.get("/bundles").as_array().is_some_and(|all| all.len() == 2));
    let all = chain.get("/bundles");
    let numbers: Vec<u64> = all.as_array().unwrap().iter().map(|one| one["bundle"].as_u64().unwrap()).collect();
    // The shard is in the upper bits of a bundle's number.
    assert!(numbers[0] < 1 << 40 && numbers[1] > 1 << 40, "{numbers:?}");
    assert_eq!(chain.get("/bundles?limit=1").as_array().unwrap().len(), 1);
    let rest = chain.get(&format!("/bundles?after={}", numbers[0]));
    assert_eq!(rest[0]["bundle"], numbers[1], "a page goes on in the next shard");
    let sums = chain.get("/bundles/summary");
    assert_eq!(sums.as_array().unwrap().len(), 2, "{sums}");
    assert_eq!(chain.ask("DELETE", &format!("/bundles/{}", numbers[1]), "").0, 200);
    until("the one of the second shard is gone", || chain.get("/status")["bundles"] == 1);
    // A bundle of the first shard must leave by a new link of the second.
    assert_eq!(chain.ask("DELETE", "/links/far", "").0, 200);
    until("it is gone", || chain.link("far").is_null());
    let added = format!("[link.anew]\nlayer = \"b\"\npeer = \"ipn:3.0\"\naddress = \"127.0.0.1:{}\"\n", chain.ports[3]);
    assert_eq!(chain.ask("POST", "/links", &added).0, 200);
    assert_eq!(chain.ask("POST", "/routes", "{\"pattern\": \"ipn:5.*\", \"next_hop\": \"ipn:3.0\"}").0, 200);
    assert_eq!(receive(&far, "64", 1), BTreeSet::from([b"waits".to_vec()]));
    relay.hang_up();
    until("the file is read again", || relay.log().contains("configuration read again"));
    until("its links are there again", || chain.link("anew").is_null() && chain.link("far")["up"] == true);
    plain(&near, "ipn:3.65");
    assert_eq!(receive(&far, "65", 1).len(), 1);
    assert_eq!(chain.ask("PUT", "/links/far", "{\"enabled\": false}").0, 200);
    until("it is off", || chain.link("far")["state"] == "disabled");
    plain(&near, "ipn:3.66");
    until("it waits", || chain.get("/status")["bundles"] == 1);
    assert_eq!(chain.ask("PUT", "/links/far", "{\"enabled\": true}").0, 200);
    assert_eq!(receive(&far, "66", 1).len(), 1);
    assert_eq!(chain.ask("POST", "/shutdown", "").0, 200);
}

#[test]
fn shards_keep_acknowledged_bundles() {
    // The relay is killed with bundles on their way through both shards and to itself.
    for layer in ["tcpclv4", "ltp"] {
        let chain = Chain::new(layer, true);
        let (near, far) = (chain.near(), chain.far());
        let mut relay = chain.relay("shards = 2");
        let mut count = 0;
        let mut wanted: [BTreeSet<Vec<u8>>; 4] = Default::default();
        for round in 0..6 {
            let (mut from_near, mut from_far) = (near.client("99", 0), far.client("99", 0));
            for n in 0..120 {
                let (client, to) = match n % 4 {
                    0 => (&mut from_near, "ipn:3.64"),
                    1 => (&mut from_near, "ipn:2.64"),
                    2 => (&mut from_far, "ipn:1.64"),
                    _ => (&mut from_far, "ipn:2.64"),
                };
                count += 1;
                let payload = payload(count, count * 397 % 60_000);
                send(client, to, &payload);
                wanted[n % 4].insert(payload);
            }
            std::thread::sleep(std::time::Duration::from_millis(40 * round));
            relay.kill();
            relay = chain.relay("shards = 2");
        }
        let [to_far, here_from_near, to_near, here_from_far] = wanted;
        assert!(receive(&far, "64", to_far.len()) == to_far, "{layer}");
        assert!(receive(&near, "64", to_near.len()) == to_near, "{layer}");
        let here: BTreeSet<Vec<u8>> = here_from_near.union(&here_from_far).cloned().collect();
        assert!(receive(&relay, "64", here.len()) == here, "{layer}");
        until("nothing is held", || chain.get("/status")["bundles"] == 0);
        assert_eq!(relay.terminate(), Some(0));
    }
}

#[test]
fn changed_shard_count_loses_nothing() {
    let chain = Chain::new("tcpclv4", true);
    let relay = chain.relay("shards = 2");
    let mut wanted: [BTreeSet<Vec<u8>>; 2] = Default::default();
    let (near, far) = (chain.near(), chain.far());
    for (at, (from, to)) in [(&near, "ipn:5.64"), (&far, "ipn:6.64")].into_iter().enumerate() {
        let mut client = from.client("99", 0);
        for n in 0..20 {
            send(&mut client, to, &payload(n + 100 * at, n * 5000));
            wanted[at].insert(payload(n + 100 * at, n * 5000));
        }
    }
    until("the relay has them", || chain.get("/status")["bundles"] == 40);
    until("all are durable", || chain.ask("GET", "/metrics", "").1.contains("\nfarlink_bundles_accepted_total 40\n"));
    relay.kill();
    assert!(chain.path("store-2/shard-1").is_dir());
    // The one remaining shard takes over the bundles of the other, whose folder is then removed.
    let relay = chain.relay("shards = 1");
    until("all are found", || chain.get("/status")["bundles"] == 40);
    for (pattern, hop) in [("ipn:5.*", "ipn:3.0"), ("ipn:6.*", "ipn:1.0")] {
        let route = format!("{{\"pattern\": \"{pattern}\", \"next_hop\": \"{hop}\"}}");
        assert_eq!(chain.ask("POST", "/routes", &route).0, 200);
    }
    assert!(receive(&far, "64", 20) == wanted[0]);
    assert!(receive(&near, "64", 20) == wanted[1]);
    until("nothing is held", || chain.get("/status")["bundles"] == 0);
    assert_eq!(relay.terminate(), Some(0));
    assert!(!chain.path("store-2/shard-1").exists(), "there is nothing in it any more");
    let relay = chain.relay("shards = 1");
    chain.until_up();
    assert_eq!(chain.get("/status")["shards"], 1);
    relay.kill();
    // Shards that never existed before start with empty folders.
    let relay = chain.relay("shards = 3");
    chain.until_up();
    send(&mut near.client("99", 0), "ipn:3.65", b"on");
    assert_eq!(receive(&far, "65", 1).len(), 1);
    assert_eq!(relay.terminate(), Some(0));
}
