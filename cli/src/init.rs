//! `farlink init`: write commented working files.

use crate::Failure;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Arguments of `farlink init`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink init two-nodes\n  \
    farlink init two-nodes --a 192.168.1.10 --b 192.168.1.20 --dir dtn\n  \
    farlink init scenario && farlink run scenario.toml --in sim")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Two nodes: node-a.toml (ipn:1.0) and node-b.toml (ipn:2.0), linked over TCP; LTP is there to be
    /// switched to. Without addresses both run on this computer.
    TwoNodes {
        /// IP address of the first computer.
        #[arg(long, default_value = "127.0.0.1")]
        a: IpAddr,
        /// IP address of the second.
        #[arg(long, default_value = "127.0.0.1")]
        b: IpAddr,
        /// Folder to write to.
        #[arg(long, default_value = ".")]
        dir: PathBuf,
        /// Replace files that exist.
        #[arg(long)]
        force: bool,
    },
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

/// Runs the subcommand.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::TwoNodes { a, b, dir, force } => two_nodes(a, b, &dir, force),
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

fn two_nodes(a: IpAddr, b: IpAddr, dir: &Path, force: bool) -> Result<(), Failure> {
    crate::make_folder(dir, "--dir")?;
    // On one computer the second node takes the next ports.
    let step = u16::from(a == b);
    let [first, second] =
        [Side { name: "a", number: 1, ip: a, ports: 0 }, Side { name: "b", number: 2, ip: b, ports: step }];
    for (here, there) in [(&first, &second), (&second, &first)] {
        let file = dir.join(format!("node-{}.toml", here.name));
        write(&file, &here.text(there), force)?;
        eprintln!("wrote {}", file.display());
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

fn write(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    if file.exists() && !force {
        let message = format!("{} exists\nhint: --force replaces it, --dir writes elsewhere", file.display());
        return Err(Failure::Input(message));
    }
    std::fs::write(file, text).map_err(|why| crate::cannot_write(file, &why, "--dir"))
}

struct Side {
    name: &'static str,
    number: u64,
    ip: IpAddr,
    ports: u16,
}

impl Side {
    fn text(&self, there: &Side) -> String {
        let at = |side: &Side, port: u16| std::net::SocketAddr::new(side.ip, port + side.ports);
        let Side { name, number, .. } = self;
        let (other, other_name) = (there.number, there.name);
        let (tcp, ltp) = (4556, 1113);
        format!(
            r#"# Node {name}: ipn:{number}.0, with one neighbour, ipn:{other}.0.
# `farlink node --config node-{name}.toml --check` finds mistakes; docs/reference/node.md has every key.

node_ids = ["ipn:{number}.0"]

[store]                        # where bundles wait
kind = "durable"               # on disk before they are acknowledged; or "memory"
dir = "store-{name}"
capacity = "1 GB"

[layer.tcp]                    # TCPCLv4, for links that are up most of the time
kind = "tcpclv4"
listen = ["{tcp_here}"]
# v3 = true                    # neighbours that speak TCPCLv3 too, such as ION and µD3TN

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

[routes]                       # where bundles for the neighbour go; add "*" for those for everyone else
"ipn:{other}.*" = "ipn:{other}.0"

[app]                          # where applications attach
socket = "node-{name}.sock"

[api]                          # `farlink node status --at node-{name}.control.sock`
socket = "node-{name}.control.sock"

[log]
level = "info"                 # "debug" shows a line per bundle event
"#,
            tcp_here = at(self, tcp),
            ltp_here = at(self, ltp),
            tcp_there = at(there, tcp),
            ltp_there = at(there, ltp),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_without_mistakes() {
        let side = |name, number, ports| Side { name, number, ip: IpAddr::from([127, 0, 0, 1]), ports };
        let (a, b) = (side("a", 1, 0), side("b", 2, 1));
        for (here, there) in [(&a, &b), (&b, &a)] {
            let text = here.text(there);
            farlink_node::config::NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
            // With the comments about LTP taken away, too.
            let ltp: String = text
                .lines()
                .map(|line| match line.strip_prefix("# ") {
                    Some(rest) if rest.contains(" = \"") || rest.starts_with("[link") => format!("{rest}\n"),
                    _ => format!("{line}\n"),
                })
                .collect();
            farlink_node::config::NodeConfig::parse(&ltp, Path::new("node.toml")).unwrap();
        }
    }
}
