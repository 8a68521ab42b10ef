//! Wireshark as an independent dissector: traffic of our nodes is written into a capture file and read by tshark.

mod sessions;

use super::capture;
use super::load::{Ledger, Load};
use super::matrix::Row;
use super::node::{Ours, SENDS};
use super::trial::Size;
use crate::harness::client::{attach, is_taken, to};
use crate::harness::free_port;
use crate::tools;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest payload: one bundle per datagram.
const LARGEST: usize = 60_000;
/// Registered port of bundles in datagrams (RFC 7122 section 3.2).
const PORT: u16 = 4_556;

/// The program tshark and its version.
pub struct Reader {
    tshark: PathBuf,
    version: String,
}

/// Trials of bundles of both versions in datagrams, and of sessions between two nodes.
pub fn trials(dir: &Path, binary: &Path, tshark: &Path, size: Size) -> Result<Vec<Row>> {
    let said = tools::output(Command::new(tshark).arg("--version"))?;
    let version = said.split_whitespace().nth(2).unwrap_or("?").to_string();
    let reader = Reader { tshark: tshark.to_path_buf(), version };
    let mut rows = Vec::new();
    let load = Load::mixed(size.bundles, LARGEST.min(size.largest));
    for (bundles, layer) in [(7, "UDPCL"), (6, "UDPCL, version 6")] {
        println!("Wireshark, {layer}");
        let dir = dir.join(format!("wireshark-{bundles}"));
        fs::create_dir_all(&dir)?;
        rows.push(reader.row(layer, &load, reader.bundles(&dir, binary, bundles, &load, size)));
    }
    let load = Load::mixed(size.bundles.min(100), sessions::LARGEST.min(size.largest));
    for (kind, layer) in [("tcpclv4", "TCPCLv4, both ways"), ("ltp", "LTP, both ways")] {
        println!("Wireshark, {layer}");
        let dir = dir.join(format!("wireshark-{kind}"));
        rows.push(reader.row(layer, &load, sessions::session(&reader, &dir, binary, kind, &load, size)));
    }
    Ok(rows)
}

impl Reader {
    fn row(&self, layer: &str, load: &Load, seen: Result<Vec<String>>) -> Row {
        let (notes, failed) = seen.map_or_else(|why| (Vec::new(), Some(format!("{why:#}"))), |notes| (notes, None));
        let lost = if failed.is_some() { load.len() } else { 0 };
        let (peer, layer, trial) = (format!("Wireshark {}", self.version), layer.into(), "reads ours".into());
        let (bundles, sizes) = (load.len(), load.range());
        Row { peer, layer, trial, bundles, sizes, lost, notes, failed, left_out: false }
    }
    fn bundles(&self, dir: &Path, binary: &Path, version: u8, load: &Load, size: Size) -> Result<Vec<String>> {
        let datagrams = sent(dir, binary, version, load, size)?;
        let file = dir.join("sent.pcap");
        fs::write(&file, capture::datagrams(&datagrams, PORT))?;
        let text = match version {
            7 => self.fields(&file, &["bpv7.primary.version", "bpv7.crc_status", "data.data", "_ws.malformed"])?,
            // For bundles of version 6, tshark has no fields of payload and checksums.
            _ => self.fields(
                &file,
                &["bundle.version", "bundle.primary.destination", "bundle.payload.length", "_ws.malformed"],
            )?,
        };
        ensure!(text.lines().count() == load.len(), "it sees {} packets of {}", text.lines().count(), load.len());
        if version == 7 {
            payloads(&text, load)?;
            Ok(vec!["payloads equal, every checksum right".into()])
        } else {
            lengths(&text, load)?;
            Ok(vec!["lengths equal: it shows no more of version 6".into()])
        }
    }
    /// Reads a session in which all payloads passed once in each direction.
    fn session(&self, file: &Path, load: &Load) -> Result<Vec<String>> {
        let fields = ["bpv7.crc_status", "data.data", "_ws.malformed", "_ws.expert.message"];
        let packets = session(&self.fields(file, &fields)?, load)?;
        Ok(vec![format!("{packets} packets, no complaint")])
    }
    /// Fields of every packet: one line each, separated by tabs.
    fn fields(&self, file: &Path, fields: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.tshark);
        // Two passes: acknowledgments refer to earlier packets.
        command.args(["-2", "-T", "fields", "-r"]).arg(file);
        for field in fields {
            command.args(["-e", field]);
        }
        tools::output(&mut command)
    }
}

/// Datagrams that our node sends for a load.
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
    let mut client = attach(&ours.socket(), SENDS, 0)?;
    let mut datagrams = Vec::new();
    let mut buffer = vec![0; 65_536];
    for at in 0..load.len() {
        client.send(to("ipn:40.42"), &load.payload(at))?;
        ensure!(is_taken(&mut client)?, "our node refused bundle {at}");
        let length = socket.recv(&mut buffer).with_context(|| format!("no datagram for bundle {at}"))?;
        datagrams.push(buffer[..length].to_vec());
    }
    ours.kill()?;
    Ok(datagrams)
}

/// Checks lines of version 7: version, CRC status of each block (1 is good), payload, error.
fn payloads(text: &str, load: &Load) -> Result<()> {
    let mut ledger = Ledger::of(load);
    for line in text.lines() {
        let [version, checksums, payload, complaint] = fields(line)?;
        ensure!(version == "7" && complaint.is_empty(), "it sees version {version} {complaint}");
        // Primary block and payload block at least.
        let right = checksums.split(',').all(|status| status == "1") && checksums.split(',').count() >= 2;
        ensure!(right, "it finds checksums wrong: {checksums}");
        ledger.came(&bytes(payload).context("no hexadecimal digits")?)?;
    }
    ledger.settled()
}

/// Messages that tshark prints about every session: its beginning, and payloads that no dissector knows.
const HARMLESS: [&str; 3] = ["", "Unknown type code", "Connection establish "];

/// Checks lines of a session: CRC status and payload at the end of a bundle, and messages; returns the number of lines.
fn session(text: &str, load: &Load) -> Result<usize> {
    // Both directions carry the same load: a single ledger would see every payload twice.
    let mut ledgers = [Ledger::of(load), Ledger::of(load)];
    for line in text.lines() {
        let [checksums, payload, malformed, complaints] = fields(line)?;
        let known = |complaint: &str| {
            HARMLESS.iter().any(|known| complaint == *known || !known.is_empty() && complaint.starts_with(known))
        };
        ensure!(malformed.is_empty() && complaints.split(',').all(known), "it complains: {malformed} {complaints}");
        if checksums.is_empty() {
            continue;
        }
        ensure!(checksums.split(',').all(|status| status == "1"), "it finds checksums wrong: {checksums}");
        // The second direction begins when the first is complete.
        let way = usize::from(ledgers[0].missing() == 0);
        for payload in payload.split(',') {
            ledgers[way].came(&bytes(payload).context("no hexadecimal digits")?)?;
        }
    }
    ledgers.iter().try_for_each(Ledger::settled)?;
    Ok(text.lines().count())
}

/// Checks lines of version 6: version, destination, payload length, error.
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

/// Bytes from hexadecimal digits; `None` if they are malformed.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    // An odd digit at the end is an error.
    let pairs = digits.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok().filter(|two| two.len() == 2));
    pairs.map(|two| u8::from_str_radix(two?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dissection_errors_are_failures() {
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
    fn session_carries_every_payload_twice() {
        let load = Load::equal(1, 2);
        let digits: String = load.payload(0).iter().map(|byte| format!("{byte:02x}")).collect();
        let bundle = format!("1,1\t{digits}\t\tUnknown type code\n");
        let whole = format!("\t\t\tConnection establish request (SYN): server port 4556\n{bundle}\t\t\t\n{bundle}");
        assert_eq!(session(&whole, &load).unwrap(), 4);
        assert!(session(&bundle, &load).unwrap_err().to_string().contains("did not arrive"));
        let why = |line: &str| session(line, &load).unwrap_err().to_string();
        assert!(why("\t\t\tXFER_SEGMENT has no related XFER_ACK,Unknown type code").contains("XFER_ACK"));
        assert!(why("\t\tMalformed Packet\t").contains("Malformed"));
        assert!(why(&bundle.replace("1,1", "1,0")).contains("checksums"));
    }

    #[test]
    fn version_6_lengths_are_compared() {
        let load = Load::equal(1, 300);
        assert!(lengths("6\t40.42\t300\t\n", &load).is_ok());
        assert!(lengths("6\t40.42\t299\t", &load).is_err() && lengths("6\t40.1\t300\t", &load).is_err());
        assert_eq!((bytes("00ff7a"), bytes("0"), bytes("zz")), (Some(vec![0, 255, 122]), None, None));
    }
}
