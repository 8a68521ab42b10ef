//! Our node beside a peer, and its applications.

use crate::harness::Node;
use crate::harness::client::{Client, attach};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Endpoints of our node's applications: a sender, a receiver, and one for delivery reports.
pub const SENDS: &str = "ipn:1.65";
pub const RECEIVES: &str = "ipn:1.64";
pub const HEARS: &str = "ipn:1.99";

/// Our node `ipn:1.0`, with the peer over one layer.
pub struct Ours {
    node: Node,
    events: PathBuf,
}

impl Ours {
    /// Configures the node: `layer` holds the `[layer.NAME]` and `[link.NAME]` tables, `peer` is the peer's node
    /// number, `version` that of the bundles it creates.
    pub fn new(dir: &Path, binary: &Path, layer: &str, peer: u64, version: u8) -> Result<Ours> {
        Ours::named(dir, binary, "\"ipn:1.0\"", layer, &format!("\"ipn:{peer}.*\" = \"ipn:{peer}.0\""), version)
    }
    /// Configures the node with several node IDs, one of them `ipn:1.0`, and this route.
    pub fn named(dir: &Path, binary: &Path, names: &str, layer: &str, route: &str, version: u8) -> Result<Ours> {
        let dir = dir.join("ours");
        // The trials have every delivery reported, far more reports than the default limit allows.
        let keys = format!(
            "node_ids = [{names}]\nstatus_reports = true\nbundle_version = {version}\n\n\
             [store]\nkind = \"durable\"\ndir = \"store\"\ncapacity = \"2 GB\"\n\n{layer}\n\
             [routes]\n{route}\n\n\
             [app]\nsocket = \"app.sock\"\n\n[limits]\nreports_per_second = 100000\n\n\
             [events]\nfile = \"events.jsonl\"\n\n[log]\nlevel = \"info\"\n"
        );
        let events = dir.join("events.jsonl");
        Ok(Ours { node: Node::configured(dir, binary, "ours", keys)?, events })
    }
    /// Whether the node has no layer of this kind.
    pub fn lacks(&self, kind: &str) -> Result<bool> {
        // The error of the configuration check names the kinds that exist.
        Ok(self.node.check()?.contains(&format!("`{kind}` is none of")))
    }
    /// Starts the node and waits until applications can attach.
    pub fn start(&mut self) -> Result<()> {
        self.node.start()?;
        self.node.wait_ready().map(|_| ())
    }
    /// Kills the node; fails if it had ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.node.kill()
    }
    /// Socket at which applications attach.
    pub fn socket(&self) -> PathBuf {
        self.node.socket()
    }
    /// Attaches a receiver that waits `patience` for each delivery.
    pub fn receiver(&self, endpoint: &str, patience: Duration) -> Result<Client> {
        // One delivery in flight: the order of arrival is kept.
        let client = attach(&self.socket(), endpoint, 1)?;
        client.set_read_timeout(Some(patience))?;
        Ok(client)
    }
    /// Number of events of this kind so far, from the node's event file.
    pub fn happened(&self, event: &str) -> usize {
        let told = std::fs::read_to_string(&self.events).unwrap_or_default();
        told.matches(&format!("\"event\":\"{event}\"")).count()
    }
    /// Held bundles and log, for failure messages.
    pub fn words(&self) -> String {
        format!("our node holds:\n{}\nand says:\n{}", self.node.holds(), self.node.log_tail())
    }
}
