//! pyD3TN, the Python library of µD3TN's authors: its encoders and its decoder over MTCP and TCPCLv3
//! (`tests/peers/pyd3tn/peer.py`), with bundles of versions 7 and 6.

use super::install;
use super::matrix::Row;
use super::node::Ours;
use super::peer::{Can, Driven};
use super::trial::{Pair, Size};
use crate::harness::free_port;
use crate::tools;
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Largest payload: pyD3TN computes CRCs in Python, a second per megabyte.
const LARGEST: usize = 100_000;

/// Trials over both layers and with both versions; version 6 only from pyD3TN's encoder.
pub fn trials(dir: &Path, binary: &Path, bin: &Path, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (kind, version, layer) in [
        ("mtcp", 7, "MTCP"),
        ("mtcp", 6, "MTCP, version 6"),
        ("tcpclv3", 7, "TCPCLv3"),
        ("tcpclv3", 6, "TCPCLv3, version 6"),
    ] {
        println!("pyD3TN, {layer}");
        let dir = dir.join(format!("pyd3tn-{kind}-{version}"));
        fs::create_dir_all(&dir)?;
        let mut pair = pair(&dir, binary, bin, (kind, version, layer), size)?;
        if pair.ours.lacks(kind)? {
            rows.push(Row::left_out(&pair.name, layer, "this node has no such layer"));
            continue;
        }
        rows.extend(pair.trials());
    }
    Ok(rows)
}

type PydKind<'a> = (&'static str, u8, &'a str);

fn pair<'a>(
    dir: &Path,
    binary: &Path,
    bin: &Path,
    (kind, version, layer): PydKind<'a>,
    size: Size,
) -> Result<Pair<'a>> {
    let (here, there) = (free_port()?, free_port()?);
    // Over TCPCLv3 pyD3TN connects, and one session serves both directions.
    let address = format!("address = \"127.0.0.1:{there}\"\nreconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n");
    let address = if kind == "mtcp" { address } else { String::new() };
    // Without keepalives, since pyD3TN's reader treats an empty byte string as an error.
    let ours = format!(
        "[layer.streams]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{here}\"]\nkeepalive = \"0 s\"\n\n\
         [link.python]\nlayer = \"streams\"\npeer = \"ipn:30.0\"\n{address}"
    );
    let (python, script) = (bin.join("python"), tools::root().join("tests/peers/pyd3tn/peer.py"));
    let command = move || {
        let mut command = Command::new(&python);
        command.arg(&script).args(["--layer", kind, "--version", &version.to_string()]);
        command.args(["--node", "ipn:30.0", "--listen", &there.to_string(), "--connect", &here.to_string()]);
        command
    };
    let can = Can {
        endpoint: "ipn:30.42",
        echo: None,
        takes: LARGEST,
        gives: LARGEST,
        takes_once: 0,
        gives_once: 0,
        // pyD3TN has a decoder for bundles of version 7 only.
        reports: version == 7,
        understands_reports: version == 7,
        datagrams: false,
        repeats: false,
        restarts: false,
    };
    let peer = Box::new(Driven::new(command, dir.join("python.log")));
    let name = format!("pyD3TN {}", install::UD3TN_UTILS);
    Ok(Pair { name, layer, ours: Ours::new(dir, binary, &ours, 30, version)?, peer, can, size })
}
