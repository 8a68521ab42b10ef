//! Three real nodes: the attacked one, durable, between an honest neighbour over TCPCLv4 (or the attacked layer) and
//! one over LTP. Each has a loopback address of its own; attackers use other addresses.

use super::setting::{Setting, Way, secured};
use crate::harness::{Node, free_port};
use anyhow::{Context, Result, ensure};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Memory budget of the attacked node, MiB.
pub const BUDGET_MIB: u64 = 256;

/// Features of a build of the node, found with `node --check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// `[limits] memory`: one budget for all memory.
    pub budget: bool,
    /// `[api] socket`: control over a Unix socket, and a token over TCP.
    pub control_socket: bool,
}

impl Abilities {
    /// Determines the abilities of a binary by checking configurations.
    ///
    /// # Errors
    /// When files cannot be written or the binary cannot be started.
    pub fn of(binary: &Path, dir: &Path) -> Result<Abilities> {
        // An older build refuses keys that it does not know.
        let takes = |name: &str, lines: &str| -> Result<bool> {
            let file = dir.join(format!("ability-{name}.toml"));
            std::fs::write(&file, format!("node_ids = [\"ipn:1.0\"]\n{lines}\n"))?;
            let mut command = Command::new(binary);
            let checked = command.args(["node", "--check", "--config"]).arg(&file).output();
            Ok(checked.with_context(|| format!("starting {}", binary.display()))?.status.success())
        };
        Ok(Abilities {
            budget: takes("budget", "[limits]\nmemory = \"256 MiB\"")?,
            control_socket: takes("control", "[api]\nsocket = \"control.sock\"")?,
        })
    }
    /// Lines of the memory budget; older builds get a quarter of it for each of their bounds.
    fn limits(self) -> String {
        if self.budget {
            return format!("[limits]\nmemory = \"{BUDGET_MIB} MiB\"\n");
        }
        let share = BUDGET_MIB / 4;
        format!("[limits]\nmemory_bytes = \"{share} MiB\"\narriving_bytes = \"{share} MiB\"\n")
    }
    fn ltp_memory(self) -> String {
        if self.budget { String::new() } else { format!("memory = \"{} MiB\"\n", BUDGET_MIB / 4) }
    }
    fn api(self, port: u16) -> String {
        let listen = format!("[api]\nlisten = \"127.0.0.1:{port}\"\n");
        if self.control_socket {
            listen + "socket = \"control.sock\"\ntoken_file = \"control.token\"\n"
        } else {
            listen
        }
    }
}

/// Address of each node's layers.
const ADDRESSES: [Ipv4Addr; 3] =
    [Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 0, 3)];
/// Address of a configured UDPCL neighbour that does not run; attackers spoof it.
pub const EMPTY_HOUSE: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 4), 4556);

/// Address of the hostile neighbour, as configured at node 1.
pub const LIAR: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 66, 66), 4556);

/// The running nodes and the addresses of node 1.
pub struct Stage {
    /// Node 1, then its neighbours 2 (TCPCLv4) and 3 (LTP).
    pub nodes: [Node; 3],
    /// Listener of node 1 for TCPCLv4 sessions.
    pub tcpcl: SocketAddr,
    /// Listener of node 1 for LTP segments.
    pub ltp: SocketAddr,
    /// Listener of node 1 for TCPCLv4 sessions with TLS.
    pub tls: SocketAddr,
    /// Listener of node 1 for TCPCLv3 sessions.
    pub old: SocketAddr,
    /// Listener of node 1 for STCP streams.
    pub stcp: SocketAddr,
    /// Listener of node 1 for MTCP streams.
    pub mtcp: SocketAddr,
    /// Listener of node 1 for UDPCL datagrams.
    pub udpcl: SocketAddr,
    /// Listener of node 1 for announcements; used by the case about them only.
    pub announcements: SocketAddr,
    /// Control interface of node 1 (HTTP).
    pub api: SocketAddr,
}

impl Stage {
    /// Starts the nodes in a folder.
    ///
    /// # Errors
    /// When a node does not start.
    pub fn start(binary: &Path, dir: &Path, abilities: Abilities, setting: Setting) -> Result<Stage> {
        let way = setting.way;
        let mut ports = [0; 11];
        for port in &mut ports {
            *port = free_port()?;
        }
        let [tcpcl, ltp, api, there_tcpcl, there_ltp, tls, stcp, mtcp, udpcl, old, announcements] = ports;
        let certificates = dir.join("certs");
        let mut make = Command::new(binary);
        let made = make.args(["node", "certs", "--out"]).arg(&certificates).args(["ipn:1.0", "ipn:2.0"]).output();
        ensure!(made.with_context(|| format!("starting {}", binary.display()))?.status.success(), "no certificates");
        let at = |node: usize, port: u16| SocketAddr::from((ADDRESSES[node - 1], port));
        let sessions = setting.sessions();
        let attacked = format!(
            "node_ids = [\"ipn:1.0\"]\nstatus_reports = true\n{}\n\
             [store]\nkind = \"durable\"\ndir = \"store\"\ncapacity = \"256 MB\"\n\n\
             [layer.tcp]\nkind = \"tcpclv4\"\nlisten = [\"{}\"]\n{sessions}\n\
             [layer.ltp]\nkind = \"ltp\"\nlisten = [\"{}\"]\n{}\n\
             [layer.tls]\nkind = \"tcpclv4\"\nlisten = [\"{}\"]\n{}\n\
             [layer.stcp]\nkind = \"stcp\"\nlisten = [\"{}\"]\n{sessions}\n\
             [layer.mtcp]\nkind = \"mtcp\"\nlisten = [\"{}\"]\n{sessions}\n\
             [layer.udpcl]\nkind = \"udpcl\"\nlisten = [\"{}\"]\n\n\
             [layer.old]\nkind = \"tcpclv3\"\nlisten = [\"{}\"]\n\n\
             [link.empty-house]\nlayer = \"udpcl\"\npeer = \"ipn:4.0\"\naddress = \"{}:{}\"\n\n\
             [link.tcp]\nlayer = \"{}\"\npeer = \"ipn:2.0\"\naddress = \"{}\"\n\
             reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n\n\
             [link.ltp]\nlayer = \"ltp\"\npeer = \"ipn:3.0\"\naddress = \"{}\"\n\n\
             [routes]\n\"ipn:2.*\" = \"ipn:2.0\"\n\"ipn:3.*\" = \"ipn:3.0\"\n\n\
             [app]\nsocket = \"app.sock\"\n\n{}\n{}\n{}{}",
            setting.shards(),
            at(1, tcpcl),
            at(1, ltp),
            abilities.ltp_memory(),
            at(1, tls),
            secured(1, &certificates),
            at(1, stcp),
            at(1, mtcp),
            at(1, udpcl),
            at(1, old),
            EMPTY_HOUSE.0,
            EMPTY_HOUSE.1,
            way.layer(),
            at(2, there_tcpcl),
            at(3, there_ltp),
            abilities.api(api),
            abilities.limits(),
            setting.besides(&at(1, announcements).to_string()),
            way.liar(),
        );
        let neighbour = |number: usize, layer: &str, here: SocketAddr, there: SocketAddr| {
            // A neighbour over TCPCL waits for node 1 to connect, so that each pair has one session.
            let passive = if layer.starts_with("tcpcl") { "connect = false\n" } else { "" };
            let tls = if number == 2 && way == Way::Tls { secured(number, &certificates) } else { String::new() };
            format!(
                "node_ids = [\"ipn:{number}.0\"]\n\n[store]\nkind = \"memory\"\n\n\
                 [layer.main]\nkind = \"{layer}\"\nlisten = [\"{here}\"]\n{tls}\n\
                 [link.main]\nlayer = \"main\"\npeer = \"ipn:1.0\"\naddress = \"{there}\"\n{passive}\n\
                 [routes]\n\"*\" = \"ipn:1.0\"\n\n[app]\nsocket = \"app.sock\"\n\n{}\n{}",
                // With a budget, the neighbours' caches soon reach their final size.
                abilities.limits(),
                way.policies(),
            )
        };
        // A usual default of systems. Even under attack the node must not run out of descriptors for its neighbours and
        // files.
        let descriptors = 1024;
        let near = match way {
            Way::Old => old,
            Way::Stcp => stcp,
            Way::Mtcp => mtcp,
            _ => tcpcl,
        };
        let mut nodes = [
            Node::started(dir, "attacked", binary, &attacked, descriptors)?,
            Node::started(dir, "over-tcpcl", binary, &neighbour(2, way.kind(), at(2, there_tcpcl), at(1, near)), 1024)?,
            Node::started(dir, "over-ltp", binary, &neighbour(3, "ltp", at(3, there_ltp), at(1, ltp)), 1024)?,
        ];
        for node in &mut nodes {
            node.wait_ready()?;
        }
        if abilities.control_socket {
            for node in &mut nodes[1..] {
                node.control = node.dir().join("node.control.sock").display().to_string();
            }
        }
        nodes[0].control = if abilities.control_socket {
            nodes[0].dir().join("control.sock").display().to_string()
        } else {
            format!("http://{}", at(1, api))
        };
        Ok(Stage {
            nodes,
            tcpcl: at(1, tcpcl),
            ltp: at(1, ltp),
            tls: at(1, tls),
            old: at(1, old),
            stcp: at(1, stcp),
            mtcp: at(1, mtcp),
            udpcl: at(1, udpcl),
            announcements: at(1, announcements),
            api: at(1, api),
        })
    }
    /// Application socket of node 1, 2 or 3.
    pub fn socket(&self, node: usize) -> PathBuf {
        self.nodes[node - 1].socket()
    }
    pub fn attacked(&mut self) -> &mut Node {
        &mut self.nodes[0]
    }
    /// Ends the nodes gracefully where possible; no process is left when this returns.
    ///
    /// # Errors
    /// When a node had ended before, or had to be killed.
    pub fn end(&mut self) -> Result<()> {
        // Every node is ended, even if an earlier one fails to end.
        let ended: Vec<Result<()>> = self.nodes.iter_mut().map(Node::end).collect();
        ended.into_iter().collect()
    }
}
