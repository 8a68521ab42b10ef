//! Neighbours without configured links: each discovers the other by announcements and sends to it.

use super::load::Load;
use super::matrix::Row;
use super::node::{Ours, RECEIVES, SENDS};
use super::peer::Peer;
use crate::harness::client::{attach, is_taken, to};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};

/// Name of the trial in the table.
pub const TRIAL: &str = "found by announcements";

/// A peer to be discovered.
pub struct Found<'a> {
    /// Name and version of the peer.
    pub name: String,
    pub layer: &'a str,
    /// Endpoint of the peer's application.
    pub endpoint: &'a str,
}

impl Found<'_> {
    /// Exchanges bundles in both directions; then waits until the callback shows that our announcements arrived.
    pub fn trial(
        self,
        ours: &mut Ours,
        peer: &mut dyn Peer,
        load: &Load,
        patience: Duration,
        heard: impl Fn() -> Result<bool>,
    ) -> Row {
        let all = self.all(ours, peer, load, patience, heard);
        peer.kill();
        let failed = all.err().map(|why| format!("{why:#}\n{}", ours.words()));
        println!("  {TRIAL}: {}", failed.as_deref().unwrap_or("ok"));
        let bundles = 2 * load.len();
        let lost = if failed.is_some() { bundles } else { 0 };
        let (layer, trial, sizes) = (self.layer.to_string(), TRIAL.to_string(), load.range());
        Row { peer: self.name, layer, trial, bundles, sizes, lost, notes: Vec::new(), failed, left_out: false }
    }

    fn all(
        &self,
        ours: &mut Ours,
        peer: &mut dyn Peer,
        load: &Load,
        patience: Duration,
        heard: impl Fn() -> Result<bool>,
    ) -> Result<()> {
        ours.start()?;
        peer.start()?;
        let mut receiver = ours.receiver(RECEIVES, patience)?;
        let mut sender = attach(&ours.socket(), SENDS, 0)?;
        // One bundle each way in turn: the second direction uses the discovered neighbour, too.
        for at in 0..load.len() {
            let payload = load.payload(at);
            sender.send(to(self.endpoint), &payload)?;
            ensure!(is_taken(&mut sender)?, "our node refused the bundle");
            let came = peer.take(patience)?.with_context(|| format!("{} has no bundle", self.name))?;
            ensure!(came == payload, "{} has other bytes", self.name);
            peer.send(RECEIVES, &payload)?;
            let delivered = receiver.delivery().with_context(|| format!("no bundle of {} came", self.name))?;
            receiver.taken(true)?;
            ensure!(delivered.payload == payload, "other bytes than {} sent", self.name);
        }
        let begun = Instant::now();
        while !heard()? {
            ensure!(begun.elapsed() < patience, "{} did not hear us", self.name);
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}
