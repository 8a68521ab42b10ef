//! A node with two layers of each kind, each on its own port and for its own neighbour.

mod node_support;

use node_support::{Node, port, run};
use std::path::Path;

/// The hub is node 1; node `n` reaches it by layer `n - 2` of these.
const KINDS: [&str; 7] = ["tcpclv4", "tcpclv4", "ltp", "ltp", "stcp", "mtcp", "udpcl"];

fn start(dir: &Path, number: usize, text: &str) -> Node {
    let head = format!("node_ids = [\"ipn:{number}.0\"]\n[app]\nsocket = \"{number}.sock\"\n");
    let file = dir.join(format!("{number}.toml"));
    std::fs::write(&file, format!("{head}{text}")).expect("the configuration is written");
    Node::start(&file, dir.join(format!("{number}.sock")))
}
fn layer(name: &str, kind: &str, port: u16) -> String {
    // Strangers are not served: what came to the wrong layer would be lost.
    format!("[layer.{name}]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{port}\"]\naccept_unknown = false\n")
}
fn link(name: &str, layer: &str, peer: usize, port: u16) -> String {
    format!("[link.{name}]\nlayer = \"{layer}\"\npeer = \"ipn:{peer}.0\"\naddress = \"127.0.0.1:{port}\"\n")
}

#[test]
fn each_neighbour_is_served_by_its_own_layer() {
    let dir = tempfile::tempdir().expect("a folder");
    let ports: Vec<[u16; 2]> = KINDS.iter().map(|_| [port(), port()]).collect();
    let mut hub = String::new();
    let mut routes = String::from("[routes]\n");
    for (place, kind) in KINDS.iter().enumerate() {
        let (peer, [here, there]) = (place + 2, ports[place]);
        hub += &layer(&format!("l{peer}"), kind, here);
        hub += &link(&format!("to{peer}"), &format!("l{peer}"), peer, there);
        routes += &format!("\"ipn:{peer}.*\" = \"ipn:{peer}.0\"\n");
    }
    let hub = start(dir.path(), 1, &format!("{hub}{routes}"));
    let nodes: Vec<Node> = (2..9)
        .map(|number| {
            let [there, here] = ports[number - 2];
            let own = layer("main", KINDS[number - 2], here) + &link("hub", "main", 1, there);
            let routes: String = (1..9).map(|node| format!("\"ipn:{node}.*\" = \"ipn:1.0\"\n")).collect();
            start(dir.path(), number, &format!("{own}[routes]\n{routes}"))
        })
        .collect();
    // Round the ring, both ways: every layer of the hub hears and says.
    for (from, node) in nodes.iter().enumerate() {
        for step in [1, 6] {
            let to = format!("ipn:{}", (from + step) % 7 + 2);
            let output = run(&["ping", &to, "--at", &node.socket, "-c", "2", "-i", "5 ms", "--json"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "from ipn:{} to {to}: {said}\n{}", from + 2, hub.log());
        }
    }
    assert!(!hub.log().contains("ERROR"), "{}", hub.log());
}
