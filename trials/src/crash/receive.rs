//! `farlink recv` on a forgetting disk: every confirmed bundle and file is kept, exactly once.

use super::forgetting::Mount;
use super::interrupt;
use super::load::{id_of, payload};
use crate::harness::Node;
use crate::harness::client::{attach, is_taken, to};
use crate::random::Random;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Bundles sent for each power cut: more than a receiver takes between two cuts.
const PER_CUT: u64 = 60;
/// Number of files; each has [`LENGTH`] bytes and is sent in pieces of [`PIECE`].
const FILES: usize = 6;
const PIECE: &str = "2 kB";
const LENGTH: u64 = 90_000;

/// Cuts the power `cuts` times while files and bundles are received; returns the complaints.
pub fn run(dir: &Path, binary: &Path, cuts: u64, random: &mut Random) -> Result<Vec<String>> {
    println!("\nreceiver");
    let dir = dir.join("receiver");
    let disk = Mount::new(&dir.join("disk"), random.next())?;
    // Renames survive as a whole here, as on a file system with a journal.
    disk.rename_whole();
    let keys = "node_ids = [\"ipn:1.0\"]\n[store]\nkind = \"memory\"\ncapacity = \"1 GB\"\n\n\
                [app]\nsocket = \"app.sock\"\n\n[log]\nlevel = \"warn\"\n";
    let mut node = Node::configured(dir.join("node"), binary, "n", keys.into())?;
    node.start()?;
    node.wait_ready()?;
    let (bundles, inbox) = (cuts * PER_CUT, disk.path().join("inbox"));
    let files = send(&dir, binary, &node, bundles)?;
    for _ in 0..cuts {
        interrupt::check()?;
        let mut receiver = receive(binary, &node, &inbox)?;
        // The power is cut at random moments, also while the receiver starts.
        std::thread::sleep(Duration::from_millis(10 + random.below(100)));
        receiver.kill()?;
        receiver.wait()?;
        disk.cut(random)?;
    }
    // The last receiver ends by itself when nothing arrives for 3 s.
    let status = receive(binary, &node, &inbox)?.wait()?;
    ensure!(status.success(), "the last receiver failed");
    let complaints = found(&inbox, bundles, &files)?;
    println!("  {cuts} power cuts, {bundles} bundles and {FILES} files in pieces, {} complaints", complaints.len());
    Ok(complaints)
}

/// Hands bundles to the node, with files between them; returns the files' names and bytes.
fn send(dir: &Path, binary: &Path, node: &Node, bundles: u64) -> Result<BTreeMap<String, Vec<u8>>> {
    let (mut files, mut client) = (BTreeMap::new(), attach(&node.socket(), "ipn:1.5", 0)?);
    for id in 0..bundles {
        client.send(to("ipn:1.64"), &payload(id, (id * 97 % 3000) as usize))?;
        ensure!(is_taken(&mut client)?, "bundle {id} was refused");
        let number = files.len();
        // Spread among the bundles, so that cuts can hit a file at any time.
        if id >= number as u64 * bundles / FILES as u64 {
            let (name, bytes) = (format!("file-{number}"), payload(1 << 40 | id, LENGTH as usize));
            std::fs::write(dir.join(&name), &bytes)?;
            let mut command = Command::new(binary);
            command.args(["send", "--to", "ipn:1.64", "--bundle-size", PIECE, "--at"]).arg(node.socket()).arg(&name);
            let sent = command.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            ensure!(sent.success(), "{name} was not sent");
            files.insert(name, bytes);
        }
    }
    Ok(files)
}
fn receive(binary: &Path, node: &Node, inbox: &Path) -> Result<Child> {
    let mut command = Command::new(binary);
    command.args(["recv", "--timeout", "3 s", "--at"]).arg(node.socket()).arg("--out").arg(inbox);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("starting a receiver")
}
fn found(inbox: &Path, bundles: u64, files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<String>> {
    // Confirmed bundles and files must be there once, byte for byte; a torn bundle shows as `odd`.
    let (mut times, mut complaints, mut odd, mut whole) = (BTreeMap::<u64, u32>::new(), Vec::new(), Vec::new(), 0);
    for entry in std::fs::read_dir(inbox)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let bytes = std::fs::read(inbox.join(&name))?;
        let id = id_of(&bytes);
        if let Some(file) = files.get(&name) {
            whole += u64::from(*file == bytes);
        } else if name.starts_with("bundle-") && id < bundles && bytes == payload(id, (id * 97 % 3000) as usize) {
            *times.entry(id).or_default() += 1;
        // `.taken` is the receiver's own record of confirmed bundles.
        } else if name != ".taken" {
            odd.push(format!("receiver: {name} is not what was sent"));
        }
    }
    let twice = times.values().filter(|times| **times > 1).count();
    for (number, what) in [
        (bundles - times.len() as u64, "bundles lost"),
        (twice as u64, "bundles there twice"),
        (FILES as u64 - whole, "files lost or damaged"),
    ] {
        if number > 0 {
            complaints.push(format!("receiver: {number} {what}"));
        }
    }
    complaints.extend(odd.into_iter().take(10));
    Ok(complaints)
}
