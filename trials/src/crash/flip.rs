//! Flips one byte of a stopped node's store: at most the record around it may be lost.

use super::load::{id_of, payload};
use super::node;
use crate::harness::client::{attach, is_taken, to};
use crate::harness::{Node, free_port};
use crate::random::Random;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bundles in the damaged store.
const BUNDLES: u64 = 40;
/// Silence after which a single missing bundle counts as lost.
const QUIET: Duration = Duration::from_millis(700);

/// Results of all flips.
#[derive(Debug, Default)]
pub struct Flips {
    pub tried: u64,
    /// Flips that lost a bundle.
    pub lost_one: u64,
    /// Violations, one sentence each.
    pub wrong: Vec<String>,
}

/// Flips `count` random bytes, one at a time, each in a fresh copy of the same store.
pub fn run(dir: &Path, binary: &Path, count: u64, random: &mut Random) -> Result<Flips> {
    let mut flips = Flips::default();
    let kept = dir.join("kept");
    let sent = fill(&dir.join("fill"), binary, &kept)?;
    for number in 0..count {
        let dir = dir.join(format!("flip-{number}"));
        let (mut sender, mut receiver) = pair(&dir, binary)?;
        fs::create_dir_all(sender.store())?;
        let files = copy(&kept, &sender.store())?;
        let total: u64 = files.iter().map(|(_, len)| len).sum();
        // A byte of all files together; the position is reduced to one within its file.
        let mut at = random.below(total);
        let (file, _) = files
            .iter()
            .find(|(_, len)| {
                let here = at < *len;
                at = if here { at } else { at - len };
                here
            })
            .context("a store without bytes")?;
        let bit = 1 << random.below(8);
        let mut bytes = fs::read(file)?;
        bytes[at as usize] ^= bit;
        fs::write(file, bytes)?;
        let what = format!("byte {at} of {} (bit {bit:#04x})", file.display());
        receiver.start()?;
        receiver.wait_ready()?;
        sender.start()?;
        sender.wait_ready().with_context(|| what.clone())?;
        let got = receive(&receiver, &sent)?;
        let missing = sent.difference(&got).count();
        // One record may be lost with its byte; more would show that damage spreads.
        flips.tried += 1;
        flips.lost_one += u64::from(missing == 1);
        if missing > 1 {
            flips.wrong.push(format!("{what}: {missing} bundles lost"));
        } else {
            sender.kill()?;
            receiver.kill()?;
            fs::remove_dir_all(&dir)?;
        }
    }
    Ok(flips)
}

fn pair(dir: &Path, binary: &Path) -> Result<(Node, Node)> {
    let (a, b) = (free_port()?, free_port()?);
    Ok((node::new(dir, binary, "a", 1, a, b)?, node::new(dir, binary, "b", 2, b, a)?))
}

fn fill(dir: &Path, binary: &Path, kept: &Path) -> Result<BTreeSet<u64>> {
    // The receiver is configured but never started, so the bundles stay in the store.
    let (mut sender, _) = pair(dir, binary)?;
    sender.start()?;
    sender.wait_ready()?;
    let mut client = attach(&sender.socket(), "ipn:1.5", 0)?;
    for id in 0..BUNDLES {
        client.send(to("ipn:2.5"), &payload(id, (id * 97 % 3000) as usize))?;
        ensure!(is_taken(&mut client)?, "bundle {id} was refused");
    }
    sender.kill()?;
    fs::create_dir_all(kept)?;
    copy(&sender.store(), kept)?;
    Ok((0..BUNDLES).collect())
}
/// Copies the files of a store; returns the non-empty copies and their lengths.
fn copy(from: &Path, to: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let len = fs::copy(entry.path(), &target)?;
        if len > 0 {
            files.push((target, len));
        }
    }
    // The same seed finds the same byte only in a fixed order.
    files.sort();
    Ok(files)
}
fn receive(receiver: &Node, sent: &BTreeSet<u64>) -> Result<BTreeSet<u64>> {
    let mut client = attach(&receiver.socket(), "ipn:2.5", 1)?;
    client.set_read_timeout(Some(QUIET))?;
    let (mut got, begun) = (BTreeSet::new(), Instant::now());
    while got.len() < sent.len() && begun.elapsed() < Duration::from_secs(30) {
        match client.delivery() {
            Ok(delivered) => {
                let id = id_of(&delivered.payload);
                let length = delivered.payload.len().saturating_sub(16);
                ensure!(delivered.payload == payload(id, length), "bundle {id} has wrong bytes");
                got.insert(id);
                client.taken(true)?;
            }
            // Nothing came for [`QUIET`]. One missing bundle may be lost; for more of them the wait goes on for 5 s.
            Err(_) if got.len() + 1 >= sent.len() || begun.elapsed() > Duration::from_secs(5) => break,
            Err(_) => {}
        }
    }
    Ok(got)
}
