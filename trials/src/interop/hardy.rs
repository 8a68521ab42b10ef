//! Hardy: a small daemon built on its published crates (`tests/peers/hardy`), over TCPCLv4.

use super::install;
use super::matrix::Row;
use super::node::Ours;
use super::peer::{Can, Driven};
use super::trial::{Pair, Size};
use crate::harness::free_port;
use crate::tools;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Side that opens the session, and whether TLS secures it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HardySession {
    WeConnect,
    ItConnects,
    /// Our node connects, and both require TLS. Hardy has no client certificate, so it cannot connect to our node.
    Tls,
}

/// Trials of every kind of session.
pub fn trials(dir: &Path, binary: &Path, program: &Path, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (session, layer) in [
        (HardySession::WeConnect, "TCPCLv4"),
        (HardySession::ItConnects, "TCPCLv4, it connects"),
        (HardySession::Tls, "TCPCLv4 with TLS"),
    ] {
        println!("hardy, {layer}");
        let dir = dir.join(layer.replace([' ', ','], "-"));
        fs::create_dir_all(&dir)?;
        rows.extend(pair(&dir, binary, program, layer, session, size)?.trials());
    }
    let why = "as a client it shows no certificate, which we ask of both sides";
    rows.push(Row::left_out(&name(), "TCPCLv4 with TLS, it connects", why));
    rows.push(Row::left_out(&name(), "STCP, MTCP, UDPCL, LTP", "no crate of Hardy's on crates.io has them"));
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
    session: HardySession,
    size: Size,
) -> Result<Pair<'a>> {
    let (here, there) = (free_port()?, free_port()?);
    // Hardy's node ID and listening address come first.
    let mut command = vec!["ipn:20.0".to_string(), format!("127.0.0.1:{there}")];
    let (mut tls, mut address) = (String::new(), format!("address = \"127.0.0.1:{there}\"\n"));
    match session {
        HardySession::WeConnect => {}
        HardySession::ItConnects => {
            address.clear();
            // With `--connect` Hardy opens the session, so our link has no address.
            command.extend(["--connect".into(), format!("127.0.0.1:{here}")]);
        }
        HardySession::Tls => {
            let certs = certificates(dir, binary)?;
            let file = |name: &str| certs.join(name).display().to_string();
            tls = format!(
                "tls = \"require\"\ncertificate = {:?}\nkey = {:?}\nauthorities = {:?}\n",
                file("ipn-1.pem"),
                file("ipn-1.key"),
                file("authority.pem")
            );
            command.extend(["--tls".into(), file("ipn-20.pem"), file("ipn-20.key"), file("authorities")]);
        }
    }
    let ours = format!(
        "[layer.tcp]\nkind = \"tcpclv4\"\nlisten = [\"127.0.0.1:{here}\"]\n{tls}\n\
         [link.hardy]\nlayer = \"tcp\"\npeer = \"ipn:20.0\"\n{address}\
         reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n"
    );
    let program = program.to_path_buf();
    let started = move || {
        let mut started = Command::new(&program);
        started.args(&command);
        started
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
        datagrams: false,
        repeats: true,
        // Hardy does not reconnect by itself.
        restarts: session != HardySession::ItConnects,
    };
    let peer = Box::new(Driven::new(started, dir.join("hardy.log")));
    Ok(Pair { name: name(), layer, ours: Ours::new(dir, binary, &ours, 20, 7)?, peer, can, size })
}

/// Certificates of both nodes, and a folder that holds only the authority's.
fn certificates(dir: &Path, binary: &Path) -> Result<PathBuf> {
    let mut make = Command::new(binary);
    tools::output(make.args(["node", "certs", "ipn:1.0", "ipn:20.0"]).current_dir(dir))?;
    let certs = dir.join("certs");
    fs::create_dir_all(certs.join("authorities"))?;
    fs::copy(certs.join("authority.pem"), certs.join("authorities/authority.pem"))?;
    Ok(certs)
}
