//! `farlink init`: write commented working files.

use crate::Failure;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Arguments of `farlink init`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink init two-nodes\n  \
    farlink init two-nodes --a 192.168.1.10 --b 192.168.1.20 --dir dtn\n  \
    farlink init two-nodes --layer tcpclv4 --tls --secure --custody\n  \
    farlink init scenario && farlink run scenario.toml --in sim")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Two nodes: node-a.toml (ipn:1.0) and node-b.toml (ipn:2.0), linked over TCP; LTP is there to be
    /// switched to. Without addresses both run on this computer.
    TwoNodes(Box<TwoNodes>),
    /// A scenario for simulation and testbed: scenario.toml.
    Scenario {
        /// Folder to write to.
        #[arg(long, default_value = ".")]
        dir: PathBuf,
        /// Replace a file that exists.
        #[arg(long)]
        force: bool,
    },
}

#[derive(clap::Args)]
struct TwoNodes {
    /// IP address of the first computer.
    #[arg(long, default_value = "127.0.0.1")]
    a: IpAddr,
    /// IP address of the second.
    #[arg(long, default_value = "127.0.0.1")]
    b: IpAddr,
    /// The convergence layer between them; without it, TCPCLv4 with LTP to switch to.
    #[arg(long)]
    layer: Option<Layer>,
    /// Secure their sessions (TLS 1.3): also makes an authority and certificates, in `certs`.
    #[arg(long)]
    tls: bool,
    /// Encipher bundles from end to end (BPSec), and authenticate the link over LTP: also makes keys, `node.keys`.
    #[arg(long)]
    secure: bool,
    /// Each has custody of what it sends until the other has taken it.
    #[arg(long)]
    custody: bool,
    /// Folder to write to.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Layer {
    Tcpclv4,
    Tcpclv3,
    Stcp,
    Mtcp,
    Udpcl,
    Ltp,
}
impl Layer {
    /// What it is called in the file, its port, and what one should know.
    fn facts(self) -> (&'static str, u16, &'static str) {
        match self {
            Layer::Tcpclv4 => ("tcpclv4", 4556, "sessions over TCP, every bundle acknowledged"),
            Layer::Tcpclv3 => ("tcpclv3", 4556, "as ION and µD3TN speak it"),
            Layer::Stcp => ("stcp", 4456, "bundles one after the other in a TCP stream, nothing acknowledged"),
            Layer::Mtcp => ("mtcp", 16162, "bundles one after the other in a TCP stream, nothing acknowledged"),
            Layer::Udpcl => ("udpcl", 4556, "a bundle, or a piece of one, in a datagram; what is lost is lost"),
            Layer::Ltp => ("ltp", 1113, "LTP over UDP, for links with long delay or loss"),
        }
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::TwoNodes(args) => two_nodes(&args),
        What::Scenario { dir, force } => scenario(&dir, force),
    }
}

fn scenario(dir: &Path, force: bool) -> Result<(), Failure> {
    crate::make_folder(dir, "--dir")?;
    let file = dir.join("scenario.toml");
    write(&file, farlink_scenario::EXAMPLE, force)?;
    eprintln!("wrote {0}\nrun it with\n  farlink run {0} --in sim", file.display());
    Ok(())
}

fn two_nodes(args: &TwoNodes) -> Result<(), Failure> {
    let TwoNodes { a, b, dir, force, .. } = args;
    if args.tls && args.layer.is_some_and(|layer| layer != Layer::Tcpclv4) {
        return Err(Failure::Input("only TCPCLv4 has TLS\nhint: --layer tcpclv4, or --secure for bundles".into()));
    }
    crate::make_folder(dir, "--dir")?;
    // On one computer the second node takes the next ports.
    let step = u16::from(a == b);
    let [first, second] =
        [Side { name: "a", number: 1, ip: *a, ports: 0 }, Side { name: "b", number: 2, ip: *b, ports: step }];
    let file = |side: &Side| dir.join(format!("node-{}.toml", side.name));
    [&first, &second].map(file).iter().try_for_each(|file| absent(file, *force))?;
    if args.tls {
        crate::certs::run(&crate::certs::Args::of(&["ipn:1.0", "ipn:2.0"], dir.join("certs"), *force))?;
    }
    if args.secure {
        let keys = dir.join("node.keys");
        absent(&keys, *force)?;
        crate::certs::write(&keys, &new_key().map_err(anyhow::Error::from)?, 0o600)?;
        eprintln!("wrote {}: both nodes need it, nobody else should have it", keys.display());
    }
    for (here, there) in [(&first, &second), (&second, &first)] {
        write(&file(here), &here.text(there, args), *force)?;
        eprintln!("wrote {}", file(here).display());
    }
    let folder = if dir == Path::new(".") { String::new() } else { format!("{}/", dir.display()) };
    eprintln!(
        "start them with\n  farlink node --config {folder}node-a.toml\n  farlink node --config {folder}node-b.toml"
    );
    eprintln!(
        "then\n  farlink ping ipn:2 --at {folder}node-a.sock\n  \
         farlink node status --at {folder}node-a.control.sock"
    );
    Ok(())
}

fn absent(file: &Path, force: bool) -> Result<(), Failure> {
    if file.exists() && !force {
        let message = format!("{} exists\nhint: --force replaces it, --dir writes elsewhere", file.display());
        return Err(Failure::Input(message));
    }
    Ok(())
}

fn write(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    absent(file, force)?;
    std::fs::write(file, text).map_err(|why| crate::cannot_write(file, &why, "--dir"))
}

/// A file of keys that nobody knows: one for bundles, and one for links over LTP.
fn new_key() -> std::io::Result<String> {
    let key = |name: &str| -> std::io::Result<String> {
        let mut secret = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("[[key]]\nname = \"{name}\"\nsecret = \"{digits}\"\n"))
    };
    Ok([key("bundles")?, key("links")?].join("\n"))
}

struct Side {
    name: &'static str,
    number: u64,
    ip: IpAddr,
    ports: u16,
}

impl Side {
    fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip, port + self.ports)
    }
    fn text(&self, there: &Side, args: &TwoNodes) -> String {
        let Side { name, number, .. } = self;
        let other = there.number;
        let way = match args.layer {
            None => self.both_ways(there, args.tls),
            Some(layer) => self.one_way(there, layer, args),
        };
        let security = if args.secure { security(*number, other) } else { String::new() };
        let custody = if args.custody { custody(other) } else { String::new() };
        format!(
            r#"# Node {name}: ipn:{number}.0, with one neighbour, ipn:{other}.0.
# `farlink node --config node-{name}.toml --check` finds mistakes; docs/reference/node.md has every key.

node_ids = ["ipn:{number}.0"]

[store]                        # where bundles wait
kind = "durable"               # on disk before they are acknowledged; or "memory"
dir = "store-{name}"
capacity = "1 GB"

{way}
[routes]                       # where bundles for the neighbour go; add "*" for those for everyone else
"ipn:{other}.*" = "ipn:{other}.0"

{security}{custody}[app]                          # where applications attach
socket = "node-{name}.sock"

[api]                          # `farlink node status --at node-{name}.control.sock`
socket = "node-{name}.control.sock"

[log]
level = "info"                 # "debug" shows a line per bundle event
"#
        )
    }
    fn one_way(&self, there: &Side, layer: Layer, args: &TwoNodes) -> String {
        let (kind, port, what) = layer.facts();
        let keyed = args.secure && layer == Layer::Ltp;
        let more = if layer == Layer::Ltp {
            "one_way_delay = \"10 ms\"        # \"1.3 s\" to the Moon; LTP's timers follow from it\nrate = \"100 Mbit/s\"\n"
        } else {
            ""
        };
        format!(
            r#"[layer.{kind}]
kind = "{kind}"                # {what}
listen = ["{here}"]
{tls}
[link.{there}]                       # the way to the neighbour
layer = "{kind}"
peer = "ipn:{number}.0"
address = "{address}"
{more}{key}"#,
            here = self.at(port),
            tls = match (args.tls, keyed) {
                (true, _) => self.tls(),
                (_, true) => "keys = \"node.keys\"\n".into(),
                _ => String::new(),
            },
            key = if keyed { "key = \"links\"                  # every segment shows a keyed hash\n" } else { "" },
            there = there.name,
            number = there.number,
            address = there.at(port),
        )
    }
    fn both_ways(&self, there: &Side, tls: bool) -> String {
        let (other, other_name) = (there.number, there.name);
        let (tcp, ltp) = (4556, 1113);
        format!(
            r#"[layer.tcp]                    # TCPCLv4, for links that are up most of the time
kind = "tcpclv4"
listen = ["{tcp_here}"]
{tls}# v3 = true                    # neighbours that speak TCPCLv3 too, such as ION and µD3TN

[layer.ltp]                    # LTP over UDP, for links with long delay or loss
kind = "ltp"
listen = ["{ltp_here}"]

[link.{other_name}]                       # the way to the neighbour
layer = "tcp"
peer = "ipn:{other}.0"
address = "{tcp_there}"

# The same neighbour over LTP: take the `#` away here and put it before the lines above.
# [link.{other_name}-ltp]
# layer = "ltp"
# peer = "ipn:{other}.0"
# address = "{ltp_there}"
# one_way_delay = "1.3 s"      # the Moon; LTP's timers follow from it
# rate = "10 Mbit/s"
"#,
            tcp_here = self.at(tcp),
            ltp_here = self.at(ltp),
            tcp_there = there.at(tcp),
            ltp_there = there.at(ltp),
            tls = if tls { self.tls() } else { String::new() },
        )
    }
    fn tls(&self) -> String {
        format!(
            r#"tls = "require"                # both sides show who they are, or there is no session
certificate = "certs/ipn-{number}.pem"
key = "certs/ipn-{number}.key"
authorities = "certs/authority.pem"
"#,
            number = self.number
        )
    }
}

fn security(number: u64, other: u64) -> String {
    format!(
        r#"[security]                     # what goes between the two is enciphered from end to end
keys = "node.keys"

[[security.rule]]
role = "source"
service = "confidentiality"
from = "ipn:{number}.*"
to = "ipn:{other}.*"
key = "bundles"
wrap = true                    # each bundle gets a key of its own, which that one wraps

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
        r#"[custody]                      # takes custody of what asks for it
request = ["ipn:{other}.*"]         # what is made here for these destinations does

"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Parser, ValueEnum};
    use farlink_node::config::NodeConfig;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TwoNodes,
    }
    fn args(line: &[&str]) -> TwoNodes {
        Line::parse_from([&["init"], line].concat()).args
    }
    fn texts(args: &TwoNodes) -> [String; 2] {
        let side = |name, number, ports| Side { name, number, ip: IpAddr::from([127, 0, 0, 1]), ports };
        let (a, b) = (side("a", 1, 0), side("b", 2, 1));
        [a.text(&b, args), b.text(&a, args)]
    }

    #[test]
    fn the_files_are_without_mistakes() {
        for text in texts(&args(&[])) {
            NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
            // With the comments about LTP taken away, too.
            let ltp: String = text
                .lines()
                .map(|line| match line.strip_prefix("# ") {
                    Some(rest) if rest.contains(" = \"") || rest.starts_with("[link") => format!("{rest}\n"),
                    _ => format!("{line}\n"),
                })
                .collect();
            NodeConfig::parse(&ltp, Path::new("node.toml")).unwrap();
        }
        for layer in Layer::value_variants() {
            let name = layer.facts().0;
            for text in texts(&args(&["--layer", name, "--custody"])) {
                let config = NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
                assert_eq!((config.stack.links.len(), config.stack.custody.is_some()), (1, true), "{name}");
            }
        }
    }

    #[test]
    fn what_is_to_be_secured_gets_its_keys_and_certificates_and_nothing_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let line = ["--tls", "--secure", "--custody", "--dir", folder];
        two_nodes(&args(&line)).unwrap();
        for name in ["node-a.toml", "node-b.toml"] {
            let file = dir.path().join(name);
            let config = NodeConfig::load(&file).unwrap();
            assert_eq!(config.stack.security.map(|security| security.rules.len()), Some(2));
        }
        let key = std::fs::read_to_string(dir.path().join("node.keys")).unwrap();
        assert!(two_nodes(&args(&line)).is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("node.keys")).unwrap(), key);
        assert!(two_nodes(&args(&["--tls", "--layer", "ltp", "--dir", folder, "--force"])).is_err());
        two_nodes(&args(&["--secure", "--layer", "ltp", "--dir", folder, "--force"])).unwrap();
        for name in ["node-a.toml", "node-b.toml"] {
            let config = NodeConfig::load(&dir.path().join(name)).unwrap();
            assert_eq!(config.links[0].key.as_deref(), Some("links"), "{name}");
        }
    }
}
