//! Hardy: a small daemon on its published crates (`tests/peers/hardy`) over TCPCLv4.

use super::install;
use super::matrix::Row;
use super::node::Ours;
use super::peer::{Can, Driven};
use super::trial::{Pair, Size};
use crate::crash::node::free_port;
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Sessions that we open, and sessions that it opens.
pub fn trials(dir: &Path, binary: &Path, program: &Path, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (layer, we_connect) in [("TCPCLv4", true), ("TCPCLv4, it connects", false)] {
        println!("hardy, {layer}");
        let dir = dir.join(if we_connect { "hardy" } else { "hardy-connects" });
        fs::create_dir_all(&dir)?;
        rows.extend(pair(&dir, binary, program, layer, we_connect, size)?.trials());
    }
    for layer in ["STCP", "MTCP", "UDPCL", "LTP"] {
        rows.push(Row::left_out(&name(), layer, "no crate of Hardy's on crates.io has it"));
    }
    Ok(rows)
}

fn name() -> String {
    format!("hardy {}", install::HARDY)
}

fn pair<'a>(
    dir: &Path,
    binary: &Path,
    program: &Path,
    layer: &'a str,
    we_connect: bool,
    size: Size,
) -> Result<Pair<'a>> {
    let (here, there) = (free_port()?, free_port()?);
    let address = if we_connect { format!("address = \"127.0.0.1:{there}\"\n") } else { String::new() };
    let ours = format!(
        "[layer.tcp]\nkind = \"tcpclv4\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
         [link.hardy]\nlayer = \"tcp\"\npeer = \"ipn:20.0\"\n{address}\
         reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n"
    );
    let program = program.to_path_buf();
    let command = move || {
        let mut command = Command::new(&program);
        command.arg("ipn:20.0").arg(format!("127.0.0.1:{there}"));
        if !we_connect {
            command.arg(format!("127.0.0.1:{here}"));
        }
        command
    };
    let can = Can {
        endpoint: "ipn:20.42",
        echo: Some("ipn:20.7"),
        takes: 1_000_000,
        gives: 1_000_000,
        takes_once: 50_000_000,
        gives_once: 50_000_000,
        reports: true,
        understands_reports: true,
        acknowledged: true,
        repeats: true,
        // Nothing but a peer of ours opens the session again.
        restarts: we_connect,
    };
    let peer = Box::new(Driven::new(command, dir.join("hardy.log")));
    Ok(Pair { name: name(), layer, ours: Ours::new(dir, binary, &ours, 20, 7)?, peer, can, size })
}
