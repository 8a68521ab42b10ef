//! `farlink init`: writes commented, working configuration files.

mod files;

use crate::CliError;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use farlink_cla::registry::{LayerInfo, NAMES};
use files::InitNode;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Arguments of `farlink init`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink init two-nodes\n  \
    farlink init two-nodes --a 192.168.1.10 --b 192.168.1.20 --dir dtn\n  \
    farlink init two-nodes --layer tcpclv4 --tls --secure --custody\n  \
    farlink init two-nodes --discovery\n  \
    farlink init scenario && farlink run scenario.toml --in sim")]
pub struct Args {
    #[command(subcommand)]
    what: InitCommand,
}

#[derive(clap::Subcommand)]
enum InitCommand {
    /// Two nodes: node-a.toml (ipn:1.0) and node-b.toml (ipn:2.0), linked over TCP; the files also hold a link over
    /// LTP, commented out. Without addresses both nodes run on this computer.
    TwoNodes(Box<TwoNodes>),
    /// A scenario for simulation and testbed: scenario.toml.
    Scenario {
        /// Folder to write to.
        #[arg(long, default_value = ".")]
        dir: PathBuf,
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
}

#[derive(clap::Args)]
struct TwoNodes {
    /// IP address of the first computer; default, without --b: 127.0.0.1.
    #[arg(long, value_parser = address)]
    a: Option<IpAddr>,
    /// IP address of the second.
    #[arg(long, value_parser = address)]
    b: Option<IpAddr>,
    /// Convergence layer between the nodes; default: TCPCLv4, with LTP prepared.
    #[arg(long, value_parser = PossibleValuesParser::new(NAMES).try_map(|name| layer(&name)))]
    layer: Option<&'static LayerInfo>,
    /// Secure the sessions with TLS 1.3; also writes an authority and certificates to `certs`.
    #[arg(long)]
    tls: bool,
    /// Encrypt payloads end to end (BPSec) and authenticate LTP segments; also writes keys to `node.keys`.
    #[arg(long)]
    secure: bool,
    /// Request custody: each node keeps its bundles until the other node has accepted custody.
    #[arg(long)]
    custody: bool,
    /// Discover the other node by announcements instead of naming it in the file.
    #[arg(long)]
    discovery: bool,
    /// Folder to write to.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

impl TwoNodes {
    /// Addresses of both computers: without any, both nodes run on this one.
    fn addresses(&self) -> [IpAddr; 2] {
        [self.a, self.b].map(|given| given.unwrap_or(IpAddr::from([127, 0, 0, 1])))
    }
}

/// Parses the address of a computer.
fn address(text: &str) -> Result<IpAddr, String> {
    let hint = "hint: write e.g. 192.168.1.20, not a name and no port";
    let ip: IpAddr = text.parse().map_err(|_| format!("`{text}` is not an IP address\n{hint}"))?;
    if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(format!("`{text}` is the address of no single computer\n{hint}"));
    }
    Ok(ip)
}

/// Layer with this name; clap admits only names that exist.
fn layer(name: &str) -> Result<&'static LayerInfo, String> {
    LayerInfo::named(name).ok_or_else(|| format!("one of: {}", NAMES.join(", ")))
}

pub fn run(args: Args) -> Result<(), CliError> {
    match args.what {
        InitCommand::TwoNodes(args) => two_nodes(&args),
        InitCommand::Scenario { dir, force } => scenario(&dir, force),
    }
}

fn scenario(dir: &Path, force: bool) -> Result<(), CliError> {
    crate::make_folder(dir, "--dir")?;
    let file = dir.join("scenario.toml");
    write(&file, farlink_scenario::EXAMPLE, force)?;
    eprintln!("wrote {0}\nrun it with\n  farlink run {0} --in sim", file.display());
    Ok(())
}

fn two_nodes(args: &TwoNodes) -> Result<(), CliError> {
    let ([a, b], TwoNodes { dir, force, .. }) = (args.addresses(), args);
    possible(args).map_err(|why| CliError::Input(why.into()))?;
    crate::make_folder(dir, "--dir")?;
    let [first, second] = sides(args);
    let file = |side: &InitNode| dir.join(format!("node-{}.toml", side.name));
    // All files are checked before the first is written: a failure must not leave half of them.
    [&first, &second].map(file).iter().try_for_each(|file| absent(file, *force))?;
    if args.tls {
        crate::certs::run(&crate::certs::Args::of(&["ipn:1.0", "ipn:2.0"], dir.join("certs"), *force))?;
    }
    if args.secure {
        let keys = dir.join("node.keys");
        absent(&keys, *force)?;
        crate::certs::write(&keys, &new_key().map_err(anyhow::Error::from)?, 0o600)?;
        // Never printed to standard output: a log must not contain the keys.
        eprintln!("wrote {}: both nodes need it; keep it secret", keys.display());
    }
    for (here, there) in [(&first, &second), (&second, &first)] {
        write(&file(here), &here.text(there, args), *force)?;
        eprintln!("wrote {}", file(here).display());
    }
    // Without secrets, running the same command on the other computer gives the same files.
    if a != b && (args.tls || args.secure) {
        // Another run would make other keys, which do not match these.
        let what = if args.tls { ", but for certs/authority.key" } else { "" };
        eprintln!("copy the folder to the other computer{what}: both nodes need the same keys");
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

/// Both nodes; on one computer the second one uses the next port numbers.
fn sides(args: &TwoNodes) -> [InitNode; 2] {
    // Two nodes cannot listen at the same port of one address.
    let [a, b] = args.addresses();
    let step = u16::from(a == b);
    [InitNode { name: "a", number: 1, ip: a, ports: 0 }, InitNode { name: "b", number: 2, ip: b, ports: step }]
}

/// Checks that the options can be combined; the error has a hint.
fn possible(args: &TwoNodes) -> Result<(), &'static str> {
    let ([a, b], TwoNodes { tls, custody, discovery, .. }) = (args.addresses(), args);
    let (tls, custody, discovery) = (*tls, *custody, *discovery);
    if args.a.is_some() != args.b.is_some() {
        return Err("one of two addresses is missing: the nodes are on two computers, and each must reach the other\n\
             hint: give both, --a 192.168.1.10 --b 192.168.1.20, or none for two nodes on this computer");
    }
    if tls && args.layer.is_some_and(|layer| !layer.knows_tls()) {
        return Err("only TCPCLv4 has TLS\nhint: --layer tcpclv4, or --secure for bundles");
    }
    if discovery && args.layer.is_some_and(|layer| !layer.sessions) {
        return Err(
            "--discovery needs a layer over TCP: over UDP a neighbour's presence cannot be verified\nhint: use --layer tcpclv4",
        );
    }
    // Anyone on the network can announce any node ID.
    if discovery && custody && !tls {
        return Err("custody is not accepted from discovered neighbours that are not authenticated\nhint: add --tls");
    }
    if a.is_ipv4() != b.is_ipv4() {
        return Err(
            "--a and --b are of different families, IPv4 and IPv6, and cannot reach each other\nhint: give two of one family",
        );
    }
    Ok(())
}

fn absent(file: &Path, force: bool) -> Result<(), CliError> {
    if file.exists() && !force {
        let message = format!("{} exists\nhint: --force replaces it, --dir writes elsewhere", file.display());
        return Err(CliError::Input(message));
    }
    Ok(())
}

fn write(file: &Path, text: &str, force: bool) -> Result<(), CliError> {
    absent(file, force)?;
    std::fs::write(file, text).map_err(|why| crate::cannot_write(file, &why, "--dir"))
}

/// Text of a key file with two random keys: one for bundles, one for links over LTP.
fn new_key() -> std::io::Result<String> {
    let key = |name: &str| -> std::io::Result<String> {
        let mut secret = [0; 32];
        // 32 bytes: as long as the key of AES-256.
        farlink_os::random(&mut secret)?;
        let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("[[key]]\nname = \"{name}\"\nsecret = \"{digits}\"\n"))
    };
    Ok([key("bundles")?, key("links")?].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use farlink_node::config::NodeConfig;

    #[derive(Parser)]
    struct InitLine {
        #[command(flatten)]
        args: TwoNodes,
    }
    fn args(line: &[&str]) -> TwoNodes {
        InitLine::parse_from([&["init"], line].concat()).args
    }
    fn texts(args: &TwoNodes) -> [String; 2] {
        let [a, b] = sides(args);
        [a.text(&b, args), b.text(&a, args)]
    }

    #[test]
    fn discovery_picks_group_or_peer_address() {
        let found = |a: &str, b: &str| {
            let text = texts(&args(&["--discovery", "--a", a, "--b", b]))[0].clone();
            NodeConfig::parse(&text, Path::new("node.toml")).unwrap().discovery.unwrap()
        };
        let group = found("10.0.0.1", "10.0.0.2");
        assert_eq!(
            (group.to[0].to_string(), group.listen[0].to_string()),
            ("224.0.0.26:3003".into(), "0.0.0.0:3003".into())
        );
        assert_eq!(found("2001:db8::1", "2001:db8::2").to[0].to_string(), "[2001:db8::2]:3003");
        // On one computer each node listens at its own port and announces itself to the other's.
        let here = found("127.0.0.1", "127.0.0.1");
        assert_eq!((here.to[0].port(), here.listen[0].port()), (3004, 3003));
    }

    #[test]
    fn generated_files_are_valid() {
        for text in texts(&args(&[])) {
            NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
            // Also with the LTP link enabled, as the comment in the file describes.
            let ltp: String = text
                .lines()
                .map(|line| match line.strip_prefix("# ") {
                    Some(rest) if rest.contains(" = \"") || rest.starts_with("[link") => format!("{rest}\n"),
                    _ => format!("{line}\n"),
                })
                .collect();
            NodeConfig::parse(&ltp, Path::new("node.toml")).unwrap();
        }
        for discovery in [&["--discovery"][..], &["--discovery", "--layer", "mtcp", "--secure"]] {
            for text in texts(&args(discovery)) {
                let config = NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
                let found = config.discovery.unwrap();
                assert!(config.stack.links.is_empty() && found.layers.len() == 1 && found.accept.len() == 1, "{text}");
            }
        }
        for name in NAMES {
            for text in texts(&args(&["--layer", name, "--custody"])) {
                let config = NodeConfig::parse(&text, Path::new("node.toml")).unwrap();
                assert_eq!((config.stack.links.len(), config.stack.custody.is_some()), (1, true), "{name}");
            }
        }
    }

    #[test]
    fn security_files_are_written_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let line = ["--tls", "--secure", "--custody", "--dir", folder];
        two_nodes(&args(&line)).unwrap();
        for name in ["node-a.toml", "node-b.toml"] {
            let file = dir.path().join(name);
            let config = NodeConfig::load(&file).unwrap();
            assert_eq!(config.stack.security.map(|security| security.rules.len()), Some(2));
        }
        for wrong in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "moon"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        let key = std::fs::read_to_string(dir.path().join("node.keys")).unwrap();
        assert!(two_nodes(&args(&line)).is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("node.keys")).unwrap(), key);
        // Combinations that `possible` refuses.
        for cannot in [
            &["--tls", "--layer", "ltp"][..],
            &["--discovery", "--layer", "ltp"],
            &["--discovery", "--custody"],
            &["--a", "10.0.0.1", "--b", "::1"],
            &["--a", "10.0.0.1"],
            &["--b", "10.0.0.1"],
        ] {
            assert!(two_nodes(&args(&[cannot, &["--dir", folder, "--force"]].concat())).is_err(), "{cannot:?}");
        }
        two_nodes(&args(&["--discovery", "--tls", "--custody", "--dir", folder, "--force"])).unwrap();
        let config = NodeConfig::load(&dir.path().join("node-b.toml")).unwrap();
        assert_eq!(config.discovery.unwrap().layers, ["tcpclv4"]);
        two_nodes(&args(&["--secure", "--layer", "ltp", "--dir", folder, "--force"])).unwrap();
        for name in ["node-a.toml", "node-b.toml"] {
            let config = NodeConfig::load(&dir.path().join(name)).unwrap();
            assert_eq!(config.links[0].key.as_deref(), Some("links"), "{name}");
        }
    }
}
