//! Our node beside a peer, and the applications attached to it.

use anyhow::Result;
use farlink_trials::harness::Node;
use farlink_trials::harness::client::{Client, attach};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Applications of our node: one sends, one is sent to, and one hears of deliveries.
pub const SENDS: &str = "ipn:1.65";
pub const RECEIVES: &str = "ipn:1.64";
pub const HEARS: &str = "ipn:1.99";

/// Node `ipn:1.0`, with the peer over one layer.
pub struct Ours {
    node: Node,
    events: PathBuf,
}

impl Ours {
    /// Writes its configuration: `layer` holds the `[layer.NAME]` and `[link.NAME]` tables, `peer` is the
    /// peer's number, `version` that of the bundles it makes.
    pub fn new(dir: &Path, binary: &Path, layer: &str, peer: u64, version: u8) -> Result<Ours> {
        Ours::named(dir, binary, "\"ipn:1.0\"", layer, &format!("\"ipn:{peer}.*\" = \"ipn:{peer}.0\""), version)
    }
    /// The same by these names, of which one is `ipn:1.0`, with this route.
    pub fn named(dir: &Path, binary: &Path, names: &str, layer: &str, route: &str, version: u8) -> Result<Ours> {
        let dir = dir.join("ours");
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
    /// Whether it has no layer of this kind.
    pub fn lacks(&self, kind: &str) -> Result<bool> {
        Ok(self.node.check()?.contains(&format!("`{kind}` is none of")))
    }
    /// Starts it and waits until applications can attach.
    pub fn start(&mut self) -> Result<()> {
        self.node.start()?;
        self.node.wait_ready().map(|_| ())
    }
    /// Kills it; an error when it had ended by itself.
    pub fn kill(&mut self) -> Result<()> {
        self.node.kill()
    }
    /// Where applications attach.
    pub fn socket(&self) -> PathBuf {
        self.node.socket()
    }
    /// An application that is sent to, as long as it is told of something within this time.
    pub fn receiver(&self, endpoint: &str, patience: Duration) -> Result<Client> {
        let client = attach(&self.socket(), endpoint, 1)?;
        client.set_read_timeout(Some(patience))?;
        Ok(client)
    }
    /// How often this happened since it began, as its events file says by now.
    pub fn happened(&self, event: &str) -> usize {
        let told = std::fs::read_to_string(&self.events).unwrap_or_default();
        told.matches(&format!("\"event\":\"{event}\"")).count()
    }
    /// What it says of itself, for failures.
    pub fn words(&self) -> String {
        format!("our node holds:\n{}\nand says:\n{}", self.node.holds(), self.node.log_tail())
    }
}
