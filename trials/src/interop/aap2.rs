//! The tools of µD3TN, attached over AAP2 to two of our nodes, which create bundles of version 7 or 6.

use super::install;
use super::load::Load;
use super::matrix::Row;
use super::process::finish;
use super::trial::Size;
use crate::harness::{Node, free_port};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

const PINGS: usize = 10;

/// Pings to every echo service, and bundles in both directions, in either version.
pub fn trials(dir: &Path, binary: &Path, tools: &Path, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for version in [7, 6] {
        println!("ud3tn-utils, version {version}");
        let dir = dir.join(format!("aap2-{version}"));
        fs::create_dir_all(&dir)?;
        rows.extend(attached(&dir, binary, tools, version, size)?);
    }
    Ok(rows)
}

fn row(version: u8, trial: &str, load: &Load, came: Result<Vec<String>>) -> Row {
    let layer = if version == 7 { "AAP2".into() } else { format!("AAP2, version {version}") };
    let (lost, notes, failed) = match came {
        Ok(notes) => (0, notes, None),
        Err(why) => (load.len(), Vec::new(), Some(format!("{why:#}"))),
    };
    let peer = format!("ud3tn-utils {}", install::UD3TN_UTILS);
    let trial = trial.into();
    Row { peer, layer, trial, bundles: load.len(), sizes: load.range(), lost, notes, failed, left_out: false }
}

fn attached(dir: &Path, binary: &Path, tools: &Path, version: u8, size: Size) -> Result<Vec<Row>> {
    let (patience, pings) = (size.patience, PINGS.min(size.bundles / 10));
    let (port_a, port_b) = (free_port()?, free_port()?);
    let mut a = node(dir, binary, version, ("a", 1, port_a), (2, port_b))?;
    let mut b = node(dir, binary, version, ("b", 2, port_b), (1, port_a))?;
    for node in [&mut a, &mut b] {
        node.start()?;
        node.wait_ready()?;
    }
    let tool = |name: &str, at: &Node| {
        let mut command = Command::new(tools.join(name));
        command.arg("--socket").arg(at.socket()).current_dir(dir).stdin(Stdio::null());
        command
    };
    let mut rows = Vec::new();
    // All services at which our node answers pings.
    for service in [128, 7, 2047] {
        let echo = format!("ipn:2.{service}");
        let mut ping = tool("aap2-ping", &a);
        ping.args(["--interval", "0.1", "--count", &pings.to_string()]);
        ping.args(["--timeout", &patience.as_secs().to_string(), &echo]);
        let ended = finish(&mut ping, &dir.join(format!("ping-{service}.log")), patience * 2);
        let came = ended.and_then(|log| answered(&log).context("aap2-ping did not say that all were answered"));
        rows.push(row(version, &format!("aap2-ping {echo}"), &Load::equal(pings, 8), came.map(|_| Vec::new())));
    }
    let load = Load::mixed(pings.min(4), 100_000);
    let sent = |from: &Node, to: &Node, service: u32| -> Result<Vec<String>> {
        let endpoint = format!("ipn:{}.{service}", if to.name() == "a" { 1 } else { 2 });
        // Bundles are sent one by one, since aap2-receive ends after the first.
        for at in 0..load.len() {
            let (file, got) = (dir.join("sent"), dir.join("got"));
            let payload = load.payload(at);
            fs::write(&file, &payload)?;
            let mut send = tool("aap2-send", from);
            finish(send.arg(&endpoint).stdin(File::open(&file)?), &dir.join("send.log"), patience)?;
            let mut receive = tool("aap2-receive", to);
            receive.args(["--agentid", &service.to_string(), "--count", "1", "--output"]).arg(&got);
            finish(&mut receive, &dir.join("receive.log"), patience)?;
            ensure!(fs::read(&got)? == payload, "aap2-receive got other bytes than the {} sent", payload.len());
        }
        Ok(Vec::new())
    };
    rows.push(row(version, "aap2-send at a, aap2-receive at b", &load, sent(&a, &b, 64)));
    rows.push(row(version, "aap2-send at b, aap2-receive at a", &load, sent(&b, &a, 65)));
    Ok(rows)
}

fn node(
    dir: &Path,
    binary: &Path,
    version: u8,
    (name, number, here): (&'static str, u64, u16),
    (peer, there): (u64, u16),
) -> Result<Node> {
    // The first node connects, so that the pair has one session.
    let address = if number == 1 { format!("address = \"127.0.0.1:{there}\"\n") } else { String::new() };
    let keys = format!(
        "node_ids = [\"ipn:{number}.0\"]\nbundle_version = {version}\n\n\
         [store]\nkind = \"durable\"\ndir = \"store\"\ncapacity = \"256 MB\"\n\n\
         [layer.tcp]\nkind = \"tcpclv4\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
         [link.peer]\nlayer = \"tcp\"\npeer = \"ipn:{peer}.0\"\n{address}\
         reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n\n\
         [routes]\n\"ipn:{peer}.*\" = \"ipn:{peer}.0\"\n\n\
         [app]\nsocket = \"app.sock\"\n\n[log]\nlevel = \"warn\"\n"
    );
    Node::configured(dir.join(name), binary, name, keys)
}

/// Result from the last line of aap2-ping: "received 5 of 5 sent".
fn answered(log: &str) -> Option<String> {
    let (_, end) = log.rsplit_once("received ")?;
    let words: Vec<&str> = end.split_whitespace().take(3).collect();
    let [answered, "of", sent] = words[..] else { return None };
    (answered == sent).then(|| format!("{answered} of {sent} answered"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_needs_every_answer() {
        let said =
            |end: &str| format!("INFO: Received PING from ipn:2.7: seq=0, rtt=0.1\nINFO: Ping ran for 1 s, {end}\n");
        assert_eq!(answered(&said("received 5 of 5 sent")).as_deref(), Some("5 of 5 answered"));
        assert_eq!(answered(&said("received 4 of 5 sent")), None);
        assert_eq!(answered("Traceback"), None);
    }
}
