//! A node with two layers of each kind, each on its own port and for its own neighbour.

use crate::node_support::{Node, Pair, port, run};
use std::net::UdpSocket;
use std::path::Path;

/// Kinds of the hub's layers. The hub is node 1; node `n` reaches it over the layer with index `n - 2`.
const KINDS: [&str; 8] = ["tcpclv4", "tcpclv4", "ltp", "ltp", "stcp", "mtcp", "udpcl", "tcpclv3"];

fn start(dir: &Path, number: usize, text: &str) -> Node {
    let head = format!("node_ids = [\"ipn:{number}.0\"]\n[app]\nsocket = \"{number}.sock\"\n");
    let file = dir.join(format!("{number}.toml"));
    std::fs::write(&file, format!("{head}{text}")).expect("the configuration is written");
    Node::start(&file, dir.join(format!("{number}.sock")))
}
fn layer(name: &str, kind: &str, port: u16) -> String {
    // Unknown peers are refused, so that a connection to the wrong layer fails the test.
    format!("[layer.{name}]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{port}\"]\naccept_unknown = false\n")
}
fn link(name: &str, layer: &str, peer: usize, port: u16) -> String {
    format!("[link.{name}]\nlayer = \"{layer}\"\npeer = \"ipn:{peer}.0\"\naddress = \"127.0.0.1:{port}\"\n")
}

#[test]
fn neighbours_use_their_own_layers() {
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
    let nodes: Vec<Node> = (2..10)
        .map(|number| {
            let [there, here] = ports[number - 2];
            let own = layer("main", KINDS[number - 2], here) + &link("hub", "main", 1, there);
            let routes: String = (1..10).map(|node| format!("\"ipn:{node}.*\" = \"ipn:1.0\"\n")).collect();
            start(dir.path(), number, &format!("{own}[routes]\n{routes}"))
        })
        .collect();
    // Pings to both neighbours in the ring use every layer of the hub in both directions.
    for (from, node) in nodes.iter().enumerate() {
        for step in [1, 7] {
            let to = format!("ipn:{}", (from + step) % 8 + 2);
            let output = run(&["ping", &to, "--at", &node.socket, "-c", "2", "-i", "5 ms", "--json"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "from ipn:{} to {to}: {said}\n{}", from + 2, hub.log());
        }
    }
    assert!(!hub.log().contains("ERROR"), "{}", hub.log());
}

#[test]
fn malformed_datagrams_close_no_socket() {
    // Datagrams with every first byte, empty ones and the longest, from senders that are gone when they are answered:
    // an ICMP error must not close the socket.
    for kind in ["ltp", "udpcl"] {
        let pair = Pair::new(kind, false);
        let nodes = [pair.start(1, ""), pair.start(2, "")];
        let ping = |when: &str| {
            let output = run(&["ping", "ipn:2", "--at", &nodes[0].socket, "-c", "3", "-i", "5 ms", "--json"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{kind}, {when}: {said}\n{}", nodes[1].log());
        };
        ping("before");
        for to in pair.ports {
            let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            let tell = |bytes: &[u8]| drop(stranger.send_to(bytes, ("127.0.0.1", to)));
            for first in 0..=255 {
                (0..4).for_each(|length| tell(&vec![first; length]));
                tell(&[&[first, 2, 1, 1, 0, 8][..], &[1; 8]].concat());
                tell(&[&[first][..], &[0xff; 1400]].concat());
            }
            // The longest datagram of UDP over IPv4.
            tell(&vec![0x9f; 65_507]);
        }
        ping("after");
    }
}

#[test]
fn one_port_serves_both_tcpcls() {
    // Nodes 2 and 3 speak one version each and know the hub's only port. Each side connects.
    let dir = tempfile::tempdir().expect("a folder");
    let [here, there, old] = [port(), port(), port()];
    let mut hub = layer("tcp", "tcpclv4", here) + "v3 = true\n";
    hub += &(link("to2", "tcp", 2, there) + &link("to3", "tcp", 3, old));
    let hub = start(dir.path(), 1, &hub);
    let other = |number: usize, kind: &str, own: u16| {
        let text = layer("main", kind, own) + &link("hub", "main", 1, here);
        start(dir.path(), number, &format!("{text}[routes]\n\"*\" = \"ipn:1.0\"\n"))
    };
    let nodes = [other(2, "tcpclv4", there), other(3, "tcpclv3", old)];
    for (node, to) in [(&nodes[0], 3), (&nodes[1], 2), (&hub, 2), (&hub, 3)] {
        let to = format!("ipn:{to}");
        let output = run(&["ping", &to, "--at", &node.socket, "-c", "3", "-i", "5 ms", "--json"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "to {to}: {said}\n{}", hub.log());
    }
    assert!(!hub.log().contains("ERROR"), "{}", hub.log());
}
