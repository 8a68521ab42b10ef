//! Text of the node files that `farlink init two-nodes` writes.

use super::TwoNodes;
use farlink_cla::registry::LayerInfo;
use std::net::{IpAddr, SocketAddr};

/// UDP port of announcements.
const ANNOUNCED_AT: u16 = 3003;

/// One of the two nodes.
pub struct InitNode {
    /// Letter of the node, `a` or `b`, in file names.
    pub name: &'static str,
    /// Node number of its ipn node ID.
    pub number: u64,
    /// IP address of its computer.
    pub ip: IpAddr,
    /// Offset of all port numbers: 1 for the second node on the same computer.
    pub ports: u16,
}

impl InitNode {
    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, port + self.ports)
    }
    /// Text of this node's file; `there` is the neighbour.
    pub fn text(&self, there: &InitNode, args: &TwoNodes) -> String {
        let InitNode { name, number, .. } = self;
        let other = there.number;
        let way = match args.layer {
            _ if args.discovery => self.found(there, args),
            None => self.both_ways(there, args),
            Some(layer) => self.one_way(there, layer, args),
        };
        let routes = if args.discovery { String::new() } else { routes(other) };
        let security = if args.secure { security(*number, other) } else { String::new() };
        let custody = if args.custody { custody(other) } else { String::new() };
        format!(
            r#"# Node {name}: ipn:{number}.0, with one neighbour, ipn:{other}.0.
# `farlink node --config node-{name}.toml --check` finds mistakes; docs/reference/node.md has every key.

node_ids = ["ipn:{number}.0"]

[store]                        # holds bundles until they are forwarded or delivered
kind = "durable"               # on disk before they are acknowledged; or "memory"
dir = "store-{name}"
capacity = "1 GB"

{way}
{routes}{security}{custody}[app]                          # socket for applications
socket = "node-{name}.sock"

[api]                          # `farlink node status --at node-{name}.control.sock`
socket = "node-{name}.control.sock"

[log]
level = "info"                 # "debug" shows a line per bundle event
"#
        )
    }
    fn one_way(&self, there: &InitNode, layer: &LayerInfo, args: &TwoNodes) -> String {
        let (kind, port) = (layer.name, layer.port);
        let keyed = args.secure && kind == "ltp";
        let more = match kind {
            "ltp" => {
                "one_way_delay = \"10 ms\"        # \"1.3 s\" to the Moon; sets LTP's timers\nrate = \"100 Mbit/s\"\n"
            }
            "udpcl" if args.custody => {
                "version = 2                    # segments, as bundles in custody are not fragmented\nrate = \"10 Mbit/s\"             # rate of the path: UDPCL has no congestion control\n"
            }
            "udpcl" => "rate = \"10 Mbit/s\"             # rate of the path: UDPCL has no congestion control\n",
            _ => "",
        };
        format!(
            r#"{layer}
[link.{there}]                       # link to the neighbour
layer = "{kind}"
peer = "ipn:{number}.0"
address = "{address}"
{more}{key}"#,
            layer = self.layer(layer, args),
            key = if keyed { "key = \"links\"                  # authenticates every segment\n" } else { "" },
            there = there.name,
            number = there.number,
            address = there.at(port),
        )
    }
    /// Text of a layer's table.
    fn layer(&self, layer: &LayerInfo, args: &TwoNodes) -> String {
        let (kind, what) = (layer.name, layer.summary);
        let here = self.at(layer.port);
        let more = match kind {
            _ if args.tls => self.tls(),
            "ltp" if args.secure => "keys = \"node.keys\"\n".into(),
            _ => String::new(),
        };
        let said = format!("kind = \"{kind}\"");
        format!("[layer.{kind}]\n{said:<30} # {what}\nlisten = [\"{here}\"]\n{more}")
    }
    /// Layer and discovery tables, for neighbours found by announcements.
    fn found(&self, there: &InitNode, args: &TwoNodes) -> String {
        let layer = args.layer.or(LayerInfo::named("tcpclv4")).expect("the registry has it");
        let (here, other) = (self.at(ANNOUNCED_AT), there.at(ANNOUNCED_AT));
        let way = if self.ports != there.ports || self.ip.is_ipv6() {
            // Announcements go from node to node instead of to a multicast group: on one computer each node needs a
            // port of its own, and an IPv6 group needs an interface, which no option names.
            format!("to = \"{other}\"\nlisten = \"{here}\"\n")
        } else {
            "# interfaces = [\"eth0\"]        # to announce on; default: chosen by the kernel\n".into()
        };
        let tls = if args.tls { "require_tls = true             # authenticates the announced node ID\n" } else { "" };
        format!(
            r#"{layer}
[discovery]                    # announces this node and connects to nodes that announce themselves
{way}accept = ["ipn:{number}.*"]           # nodes to connect to; default: all that announce
{tls}"#,
            layer = self.layer(layer, args),
            number = there.number,
        )
    }
    fn both_ways(&self, there: &InitNode, args: &TwoNodes) -> String {
        let (other, other_name) = (there.number, there.name);
        let (tcp, ltp) = (4556, 1113);
        format!(
            r#"[layer.tcp]                    # TCPCLv4, for links that are up most of the time
kind = "tcpclv4"
listen = ["{tcp_here}"]
{tls}{v3}
[layer.ltp]                    # LTP over UDP, for links with long delay or loss
kind = "ltp"
listen = ["{ltp_here}"]
{keys}
[link.{other_name}]                       # link to the neighbour
layer = "tcp"
peer = "ipn:{other}.0"
address = "{tcp_there}"

# The same neighbour over LTP: uncomment these lines and comment out those above.
# [link.{other_name}-ltp]
# layer = "ltp"
# peer = "ipn:{other}.0"
# address = "{ltp_there}"
# one_way_delay = "1.3 s"      # the Moon; sets LTP's timers
# rate = "10 Mbit/s"
{key}"#,
            tcp_here = self.at(tcp),
            ltp_here = self.at(ltp),
            tcp_there = there.at(tcp),
            ltp_there = there.at(ltp),
            tls = if args.tls { self.tls() } else { String::new() },
            v3 = match args.tls {
                true => "",
                false => "# v3 = true                    # also accept TCPCLv3, as ION and µD3TN use it\n",
            },
            keys = if args.secure { "keys = \"node.keys\"\n" } else { "" },
            key = if args.secure { "# key = \"links\"              # authenticates every segment\n" } else { "" },
        )
    }
    fn tls(&self) -> String {
        format!(
            r#"tls = "require"                # both peers must authenticate
certificate = "certs/ipn-{number}.pem"
key = "certs/ipn-{number}.key"
authorities = "certs/authority.pem"
"#,
            number = self.number
        )
    }
}

fn routes(other: u64) -> String {
    format!(
        r#"[routes]                       # next hop by destination; add "*" for a default route
"ipn:{other}.*" = "ipn:{other}.0"

"#
    )
}

fn security(number: u64, other: u64) -> String {
    format!(
        r#"[security]                     # bundles between the two nodes are encrypted end to end
keys = "node.keys"

[[security.rule]]
role = "source"
service = "confidentiality"
from = "ipn:{number}.*"
to = "ipn:{other}.*"
key = "bundles"
wrap = true                    # a key per bundle, wrapped by this one

[[security.rule]]
role = "acceptor"
service = "confidentiality"
from = "ipn:{other}.*"
to = "ipn:{number}.*"
key = "bundles"

"#
    )
}

fn custody(other: u64) -> String {
    format!(
        r#"[custody]                      # accepts custody when a bundle requests it
request = ["ipn:{other}.*"]          # destinations for which this node requests it

"#
    )
}
