//! Sessions of two of our nodes, recorded by a relay between them for tshark.

use super::super::capture;
use super::super::load::{Ledger, Load};
use super::super::node::{Ours, RECEIVES, SENDS};
use super::super::relay::Relay;
use super::super::trial::Size;
use super::Reader;
use crate::harness::client::{self, Client, attach, is_taken};
use crate::harness::{Node, free_port};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

/// Registered ports of TCPCLv4 and LTP.
const TCPCL: u16 = 4_556;
const LTP: u16 = 1_113;
/// Largest payload, long enough for several segments.
pub const LARGEST: usize = 100_000;

/// A session over TCPCLv4 (RFC 9174) or LTP (RFC 5326) in both directions, and its dissection.
pub fn session(reader: &Reader, dir: &Path, binary: &Path, kind: &str, load: &Load, size: Size) -> Result<Vec<String>> {
    fs::create_dir_all(dir)?;
    let (near, far) = (free_port()?, free_port()?);
    let relay = if kind == "ltp" { Relay::udp(near, far)? } else { Relay::tcp(far)? };
    let layer = |here: u16, peer: u64, there: u16| {
        // Over TCPCLv4 only the first node connects.
        let address = if there == 0 { String::new() } else { format!("address = \"127.0.0.1:{there}\"\n") };
        let more = if kind == "ltp" { "one_way_delay = \"1 ms\"\nrate = \"100 Mbit/s\"\n" } else { "" };
        format!(
            "[layer.l]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
             [link.other]\nlayer = \"l\"\npeer = \"ipn:{peer}.0\"\n{address}{more}"
        )
    };
    let mut ours = Ours::new(dir, binary, &layer(near, 2, relay.first), 2, 7)?;
    let keys = format!(
        "node_ids = [\"ipn:2.0\"]\n\n[store]\nkind = \"memory\"\ncapacity = \"1 GB\"\n\n{}\n\
         [routes]\n\"ipn:1.*\" = \"ipn:1.0\"\n\n[app]\nsocket = \"app.sock\"\n",
        layer(far, 1, relay.second)
    );
    let mut other = Node::configured(dir.join("other"), binary, "other", keys)?;
    other.start()?;
    other.wait_ready()?;
    ours.start()?;
    let there = attach(&other.socket(), "ipn:2.42", 1)?;
    pass(&ours.socket(), SENDS, "ipn:2.42", there, load)?;
    // The second direction begins when the first is complete: the check of the dissection distinguishes them by that.
    pass(&other.socket(), "ipn:2.43", RECEIVES, ours.receiver(RECEIVES, size.patience)?, load)?;
    let passed = relay.passed_at_last();
    ours.kill()?;
    other.kill()?;
    let file = dir.join("session.pcap");
    if kind == "ltp" {
        let datagrams: Vec<Vec<u8>> = passed.into_iter().map(|(_, bytes)| bytes).collect();
        fs::write(&file, capture::datagrams(&datagrams, LTP))?;
    } else {
        fs::write(&file, capture::stream(&passed, TCPCL))?;
    }
    reader.session(&file, load)
}

/// Sends a load from one node to an application at the other.
fn pass(socket: &Path, from: &str, to: &str, mut receiver: Client, load: &Load) -> Result<()> {
    let mut ledger = Ledger::of(load);
    let mut sender = attach(socket, from, 0)?;
    for at in 0..load.len() {
        sender.send(client::to(to), &load.payload(at))?;
        ensure!(is_taken(&mut sender)?, "our node refused bundle {at}");
        let delivered = receiver.delivery().with_context(|| format!("bundle {at} for {to} did not come"))?;
        receiver.taken(true)?;
        ledger.came(&delivered.payload)?;
    }
    ledger.settled()
}
