//! Wireshark: an independent reader. What our node sends over UDPCL is put into a capture file, and tshark says
//! what it sees in it.

use super::capture;
use super::load::{Ledger, Load};
use super::matrix::Row;
use super::node::{Ours, SENDS};
use super::trial::Size;
use crate::crash::aap2::Client;
use crate::crash::node::free_port;
use crate::tools;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

/// A bundle in one datagram.
const LARGEST: usize = 60_000;
/// Where bundles are expected in datagrams (RFC 7122 3.2).
const PORT: u16 = 4_556;

/// Both versions, read by tshark.
pub fn trials(dir: &Path, binary: &Path, tshark: &Path, size: Size) -> Result<Vec<Row>> {
    let said = tools::output(Command::new(tshark).arg("--version"))?;
    let version = said.split_whitespace().nth(2).unwrap_or("?").to_string();
    let load = Load::mixed(size.bundles, LARGEST.min(size.largest));
    let mut rows = Vec::new();
    for (bundles, layer) in [(7, "UDPCL"), (6, "UDPCL, version 6")] {
        println!("Wireshark, {layer}");
        let dir = dir.join(format!("wireshark-{bundles}"));
        fs::create_dir_all(&dir)?;
        let came = sent(&dir, binary, bundles, &load, size).and_then(|datagrams| {
            let file = dir.join("sent.pcap");
            fs::write(&file, capture::file(&datagrams, PORT))?;
            read(&file, tshark, bundles, &load)
        });
        let (lost, failed) = came.map_or_else(|why| (load.len(), Some(format!("{why:#}"))), |()| (0, None));
        let notes = vec![match bundles {
            7 => "payloads equal, every checksum right".into(),
            _ => "lengths equal: it shows no more of version 6".into(),
        }];
        let notes = if failed.is_none() { notes } else { Vec::new() };
        let (peer, layer, trial) = (format!("Wireshark {version}"), layer.into(), "reads ours".into());
        let (bundles, sizes) = (load.len(), load.range());
        rows.push(Row { peer, layer, trial, bundles, sizes, lost, notes, failed, left_out: false });
    }
    Ok(rows)
}

/// The datagrams that our node sends for this load.
fn sent(dir: &Path, binary: &Path, version: u8, load: &Load, size: Size) -> Result<Vec<Vec<u8>>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(size.patience))?;
    let (here, there) = (free_port()?, socket.local_addr()?.port());
    let layer = format!(
        "[layer.datagrams]\nkind = \"udpcl\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
         [link.reader]\nlayer = \"datagrams\"\npeer = \"ipn:40.0\"\naddress = \"127.0.0.1:{there}\"\n\
         datagram = \"65507 B\"\nrate = \"200 Mbit/s\"\n"
    );
    let mut ours = Ours::new(dir, binary, &layer, 40, version)?;
    ours.start()?;
    let mut client = Client::attach(&ours.socket(), SENDS, false)?;
    let mut datagrams = Vec::new();
    let mut buffer = vec![0; 65_536];
    for at in 0..load.len() {
        client.send("ipn:40.42", &load.payload(at))?;
        ensure!(client.response()?, "our node refused bundle {at}");
        let length = socket.recv(&mut buffer).with_context(|| format!("no datagram for bundle {at}"))?;
        datagrams.push(buffer[..length].to_vec());
    }
    ours.kill()?;
    Ok(datagrams)
}

/// Has tshark read the file, and holds what it sees against the load.
fn read(file: &Path, tshark: &Path, version: u8, load: &Load) -> Result<()> {
    let seen = match version {
        7 => ["bpv7.primary.version", "bpv7.crc_status", "data.data", "_ws.malformed"],
        _ => ["bundle.version", "bundle.primary.destination", "bundle.payload.length", "_ws.malformed"],
    };
    let mut command = Command::new(tshark);
    command.args(["-T", "fields", "-r"]).arg(file);
    seen.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let text = tools::output(&mut command)?;
    ensure!(text.lines().count() == load.len(), "it sees {} packets of {}", text.lines().count(), load.len());
    if version == 7 { payloads(&text, load) } else { lengths(&text, load) }
}

/// Version 7: a line has the version, whether each checksum is right (1), the payload and a complaint.
fn payloads(text: &str, load: &Load) -> Result<()> {
    let mut ledger = Ledger::of(load);
    for line in text.lines() {
        let [version, checksums, payload, complaint] = fields(line)?;
        ensure!(version == "7" && complaint.is_empty(), "it sees version {version} {complaint}");
        let right = checksums.split(',').all(|status| status == "1") && checksums.split(',').count() >= 2;
        ensure!(right, "it finds checksums wrong: {checksums}");
        ledger.came(&bytes(payload).context("no hexadecimal digits")?)?;
    }
    ledger.settled()
}

/// Version 6: a line has the version, the destination, the length of the payload and a complaint.
fn lengths(text: &str, load: &Load) -> Result<()> {
    for (at, line) in text.lines().enumerate() {
        let [version, destination, length, complaint] = fields(line)?;
        let right = version == "6" && destination == "40.42" && complaint.is_empty();
        ensure!(right, "it sees version {version} for {destination} {complaint}");
        ensure!(length == load.payload(at).len().to_string(), "it sees {length} bytes in bundle {at}");
    }
    Ok(())
}

fn fields(line: &str) -> Result<[&str; 4]> {
    let cells: Vec<&str> = line.split('\t').collect();
    cells.try_into().ok().with_context(|| format!("a line of other fields: {line:.100}"))
}

/// Hexadecimal digits as bytes.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok().filter(|two| two.len() == 2));
    pairs.map(|two| u8::from_str_radix(two?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_checksum_a_complaint_or_another_payload_is_a_failure() {
        let load = Load::equal(1, 3);
        let digits: String = load.payload(0).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(payloads(&format!("7\t1,1,1\t{digits}\t\n"), &load).is_ok());
        let why = |line: String| payloads(&line, &load).unwrap_err().to_string();
        assert!(why(format!("7\t1,0,1\t{digits}\t")).contains("checksums wrong"));
        assert!(why(format!("7\t\t{digits}\t")).contains("checksums wrong"));
        assert!(why(format!("7\t1,1\t{digits}\tMalformed Packet")).contains("Malformed"));
        assert!(why("7\t1,1\tffffff\t".into()).contains("nobody sent"));
        assert!(why("7\t1,1\tff".into()).contains("other fields"));
    }

    #[test]
    fn of_version_6_the_length_is_compared() {
        let load = Load::equal(1, 300);
        assert!(lengths("6\t40.42\t300\t\n", &load).is_ok());
        assert!(lengths("6\t40.42\t299\t", &load).is_err() && lengths("6\t40.1\t300\t", &load).is_err());
        assert_eq!((bytes("00ff7a"), bytes("0"), bytes("zz")), (Some(vec![0, 255, 122]), None, None));
    }
}
