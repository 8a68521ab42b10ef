//! Configuration of the two nodes that are killed.

use crate::harness::Node;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Limits of a node.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Store capacity.
    pub capacity: &'static str,
    /// Largest bundle that the node's neighbour may send whole; longer bundles arrive in fragments.
    pub transfer_mru: &'static str,
}

/// Convergence layer between the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Tcpcl,
    /// TCPCLv4 with TLS.
    Tls,
    /// STCP, one stream in each direction.
    Stcp,
    /// MTCP, one stream in each direction.
    Mtcp,
}
impl Over {
    fn layer(self, dir: &Path, binary: &Path, number: u64) -> Result<String> {
        let kind = match self {
            Over::Tcpcl | Over::Tls => "tcpclv4",
            Over::Stcp => "stcp",
            Over::Mtcp => "mtcp",
        };
        let mut lines = format!("kind = \"{kind}\"\n");
        // Certificates stand beside the nodes' folders, since both nodes need the same authority.
        if self == Over::Tls {
            let certs = dir.parent().unwrap_or(dir).join("certs");
            if !certs.exists() {
                let mut make = Command::new(binary);
                let made = make.args(["node", "certs", "--out"]).arg(&certs).args(["ipn:1.0", "ipn:2.0"]).output()?;
                ensure!(made.status.success(), "no certificates: {}", String::from_utf8_lossy(&made.stderr));
            }
            let at = certs.display();
            lines += &format!(
                "tls = \"require\"\ncertificate = \"{at}/ipn-{number}.pem\"\nkey = \"{at}/ipn-{number}.key\"\n\
                 authorities = \"{at}/authority.pem\"\n"
            );
        }
        Ok(lines)
    }
    /// Whether both sides connect: streams carry bundles in one direction only.
    fn both_connect(self) -> bool {
        matches!(self, Over::Stcp | Over::Mtcp)
    }
}

/// Configures a node over TCPCLv4, with ample room and its store in its own folder.
pub fn new(dir: &Path, binary: &Path, name: &'static str, number: u64, here: u16, there: u16) -> Result<Node> {
    let (dir, wide) = (dir.join(name), Room { capacity: "256 MB", transfer_mru: "4 GiB" });
    let store = dir.join("store");
    narrow(dir, binary, name, (number, here, there), store, wide, Over::Tcpcl)
}
/// Configures a node with the store in `store`, limited room, and any layer.
pub fn narrow(
    dir: PathBuf,
    binary: &Path,
    name: &'static str,
    (number, here, there): (u64, u16, u16),
    store: PathBuf,
    room: Room,
    over: Over,
) -> Result<Node> {
    std::fs::create_dir_all(&dir)?;
    // Numbers are 1 and 2.
    let peer = 3 - number;
    let layer = over.layer(&dir, binary, number)?;
    // Over a layer with sessions only the first node connects, so that each pair has one.
    let connects = number == 1 || over.both_connect();
    let address = if connects { format!("address = \"127.0.0.1:{there}\"") } else { String::new() };
    let Room { capacity, transfer_mru } = room;
    let keys = format!(
        "[store]\nkind = \"durable\"\ndir = {store:?}\ncapacity = \"{capacity}\"\n\n\
         [layer.tcp]\n{layer}listen = [\"127.0.0.1:{here}\"]\n\
         transfer_mru = \"{transfer_mru}\"\n\n\
         [link.peer]\nlayer = \"tcp\"\npeer = \"ipn:{peer}.0\"\n{address}\n\
         reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n\n\
         [routes]\n\"ipn:{peer}.*\" = \"ipn:{peer}.0\"\n\n\
         [app]\nsocket = \"app.sock\"\n\n[log]\nlevel = \"warn\"\n"
    );
    let keys = format!("node_ids = [\"ipn:{number}.0\"]\n{keys}");
    Ok(Node::configured(dir, binary, name, keys)?.with_store(store))
}
