//! `farlink node certs`: a certificate authority and node certificates (RFC 9174 section 4.4.1).

use crate::CliError;
use anyhow::Context;
use farlink_base::EndpointId;
use farlink_node::tls::certificate::{Made, authority, of_node};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `farlink node certs`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink node certs ipn:1.0 ipn:2.0\n  \
    farlink node certs ipn:3.0 --host moon.example --host 10.0.0.3 --days 30 --out certs\n\n\
    The folder's authority is created once and used for every later certificate.\n\
    Whoever has authority.key can issue certificates for any node: keep it safe.\n\
    In a node's file:\n\n  \
    [layer.tcp]\n  kind = \"tcpclv4\"\n  tls = \"require\"\n  certificate = \"certs/ipn-1.pem\"\n  \
    key = \"certs/ipn-1.key\"\n  authorities = \"certs/authority.pem\"")]
pub struct Args {
    /// Node IDs; each gets a certificate.
    #[arg(required = true, value_name = "NODE_ID")]
    nodes: Vec<String>,
    /// Another node ID of the same node, added to each certificate.
    #[arg(long, value_name = "NODE_ID")]
    alias: Vec<String>,
    /// Host name or address of the node, for peers that verify it.
    #[arg(long, value_parser = host)]
    host: Vec<String>,
    /// Days of validity.
    #[arg(long, default_value = "365", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
    /// Folder for the files.
    #[arg(long, default_value = "certs")]
    out: PathBuf,
    /// Replace existing certificates.
    #[arg(long)]
    force: bool,
}

impl Args {
    /// Arguments for these nodes and this folder, valid for a year.
    pub fn of(nodes: &[&str], out: PathBuf, force: bool) -> Args {
        let nodes = nodes.iter().map(ToString::to_string).collect();
        Args { nodes, alias: Vec::new(), host: Vec::new(), days: 365, out, force }
    }
}

pub fn run(args: &Args) -> Result<(), CliError> {
    let valid = Duration::from_secs(u64::from(args.days) * 86_400);
    let aliases = args.alias.iter().map(|id| node_id(id)).collect::<Result<Vec<_>, _>>()?;
    let nodes = args.nodes.iter().map(|id| node_id(id)).collect::<Result<Vec<_>, _>>()?;
    let files: Vec<[PathBuf; 2]> = nodes.iter().map(|id| files(&args.out, &file_name(id))).collect();
    if let Some(there) = files.iter().flatten().find(|file| file.exists()).filter(|_| !args.force) {
        let why = format!("{} exists already\nhint: --force replaces it, --out names another folder", there.display());
        return Err(CliError::Input(why));
    }
    // Existing files were refused above, before the first one is written.
    crate::make_folder(&args.out, "--out")?;
    let authority = the_authority(&args.out, valid)?;
    for (id, [certificate, key]) in nodes.iter().zip(files) {
        let names: Vec<String> = std::iter::once(id).chain(&aliases).map(ToString::to_string).collect();
        let made = of_node(&authority, &names, &args.host, valid)
            .map_err(|why| CliError::Input(format!("no certificate can be made for {id}: {why}")))?;
        write(&key, &made.key, 0o600)?;
        write(&certificate, &made.certificate, 0o644)?;
        println!("{}  {}  {}", id, certificate.display(), key.display());
    }
    println!("trusted by nodes with authorities = \"{}\"", args.out.join("authority.pem").display());
    Ok(())
}

/// Checks that the text is a host name or an IP address.
fn host(text: &str) -> Result<String, String> {
    let letters = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let fits = text.parse::<IpAddr>().is_ok() || text.trim_end_matches('.').split('.').all(letters);
    if fits { Ok(text.to_string()) } else { Err(format!("`{text}` is neither a host name nor an IP address")) }
}

fn node_id(text: &str) -> Result<EndpointId, CliError> {
    let id: EndpointId = text.parse().map_err(|why| CliError::Input(format!("`{text}`: {why}")))?;
    if id.is_node_id() && !id.is_null() {
        return Ok(id);
    }
    Err(CliError::Input(format!("`{text}` is not a node ID\nhint: write e.g. ipn:1.0 or dtn://moon/")))
}

/// File name of a node's certificate: `ipn-1` for `ipn:1.0`, `dtn-moon` for `dtn://moon/`.
fn file_name(id: &EndpointId) -> String {
    let text = id.to_string();
    let text = text.strip_suffix(".0").unwrap_or(&text);
    // Other characters become single hyphens.
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { ' ' };
    text.chars().map(plain).collect::<String>().split_whitespace().collect::<Vec<_>>().join("-")
}

fn files(folder: &Path, name: &str) -> [PathBuf; 2] {
    ["pem", "key"].map(|kind| folder.join(format!("{name}.{kind}")))
}

/// Reads the authority of the folder, or creates one.
fn the_authority(folder: &Path, valid: Duration) -> Result<Made, CliError> {
    let [certificate, key] = files(folder, "authority");
    // Used again, so that nodes which trust this authority accept later certificates.
    if certificate.exists() && key.exists() {
        let read = |file: &Path| fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
        return Ok(Made { certificate: read(&certificate)?, key: read(&key)? });
    }
    if let Some(half) = [&certificate, &key].into_iter().find(|file| file.exists()) {
        let why = format!(
            "{} exists without its counterpart (certificate or key)\nhint: name another folder with --out",
            half.display()
        );
        return Err(CliError::Input(why));
    }
    let made = authority(valid).context("an authority cannot be made")?;
    // The key first: a certificate without its key would be refused by the next call.
    write(&key, &made.key, 0o600)?;
    write(&certificate, &made.certificate, 0o644)?;
    Ok(made)
}

/// Writes a file with these permission bits, replacing an existing one.
pub fn write(file: &Path, text: &str, mode: u32) -> Result<(), CliError> {
    // An existing file would keep its old permissions.
    let _ = fs::remove_file(file);
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
    Ok(written.with_context(|| format!("cannot write {}", file.display()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_their_nodes() {
        for (id, name) in [("ipn:1.0", "ipn-1"), ("ipn:977000.5.0", "ipn-977000.5"), ("dtn://moon/", "dtn-moon")] {
            assert_eq!(file_name(&id.parse().unwrap()), name);
        }
        for (text, fits) in
            [("moon.example", true), ("::1", true), ("10.0.0.3", true), ("a b", false), ("", false), ("a..b", false)]
        {
            assert_eq!(host(text).is_ok(), fits, "{text}");
        }
        assert!(node_id("ipn:1.7").is_err() && node_id("dtn:none").is_err() && node_id("moon").is_err());
    }
}
