//! dtn7-rs: its daemon as our node's neighbour over TCPCLv4, MTCP and UDP, controlled over its HTTP interface.

use super::found::{Found, TRIAL};
use super::load::Load;
use super::matrix::Row;
use super::node::Ours;
use super::peer::{Can, Peer};
use super::process::{Process, finish};
use super::trial::{Pair, Size};
use super::{cbor, install};
use crate::harness::client::{attach, is_taken, to};
use crate::harness::free_port;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Answer of the daemon for an empty endpoint.
const NOTHING: &[u8] = b"Nothing to receive";
/// Longest startup of the daemon.
const START_MAX: Duration = Duration::from_secs(30);
/// Largest payload over TCPCLv4: dtnd's SESS_INIT allows transfers of 64,000 bytes.
const TCP_TAKES: usize = 63_000;
/// Largest payload over UDP, where a bundle must fit into one datagram.
const UDP_TAKES: usize = 60_000;
/// Port of dtnd 0.21 for announcements; it cannot be changed.
const HEARS: u16 = 3003;

/// Trials over every shared layer.
pub fn trials(dir: &Path, binary: &Path, tools: &Path, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (cla, layer) in [("tcp", "TCPCLv4"), ("mtcp", "MTCP"), ("udp", "UDPCL")] {
        println!("dtn7-rs, {layer}");
        let dir = dir.join(format!("dtn7-{cla}"));
        fs::create_dir_all(&dir)?;
        let mut pair = pair(&dir, binary, tools, cla, layer, size)?;
        rows.extend(pair.trials());
        if cla == "tcp" {
            rows.push(its_tools(&dir.join("tools"), binary, tools, size)?);
        }
        if cla != "udp" {
            rows.push(found(&dir.join("found"), binary, tools, (cla, layer), size)?);
        }
    }
    let why = "bundles pushed over HTTP: a layer of its own, which no other implementation shares";
    rows.push(Row::left_out(&name(), "HTTP", why));
    rows.push(Row::left_out(&name(), "TCPCLv4 with TLS", "it has no TLS"));
    Ok(rows)
}

fn name() -> String {
    format!("dtn7-rs {}", install::DTN7)
}

fn pair<'a>(dir: &Path, binary: &Path, tools: &Path, cla: &str, layer: &'a str, size: Size) -> Result<Pair<'a>> {
    let (here, there) = (free_port()?, free_port()?);
    let link = format!("layer = \"to-dtnd\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:{there}\"\n");
    let again = "reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n";
    let (kind, more) = match cla {
        "tcp" => ("tcpclv4", again),
        "mtcp" => ("mtcp", again),
        // dtnd reads one datagram per call from a socket buffer of default size: at 40 Mbit/s half of them are lost.
        _ => ("udpcl", "datagram = \"65507 B\"\nrate = \"4 Mbit/s\"\n"),
    };
    let ours =
        format!("[layer.to-dtnd]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{here}\"]\n\n[link.dtnd]\n{link}{more}");
    let (takes, gives) = match cla {
        "tcp" => (TCP_TAKES, 1_000_000),
        "mtcp" => (1_000_000, 1_000_000),
        _ => (UDP_TAKES, UDP_TAKES),
    };
    let long = |bytes| if cla == "udp" { 0 } else { bytes };
    let can = Can {
        endpoint: "ipn:2.42",
        echo: None,
        takes,
        gives,
        takes_once: if cla == "mtcp" { 50_000_000 } else { 0 },
        // dtnd's HTTP interface accepts no payload above 2 MB.
        gives_once: long(2_000_000),
        reports: true,
        understands_reports: true,
        datagrams: cla == "udp",
        repeats: false,
        restarts: true,
    };
    let peer = Box::new(Dtn7Daemon::new(dir, tools, cla, here, there)?);
    Ok(Pair { name: name(), layer, ours: Ours::new(dir, binary, &ours, 2, 7)?, peer, can, size })
}

/// The daemon dtnd as node `ipn:2.0`.
struct Dtn7Daemon {
    dir: PathBuf,
    tools: PathBuf,
    cla: String,
    peer: String,
    web: u16,
    /// Port of our node for announcements, in trials with discovery.
    announces: Option<u16>,
    daemon: Option<Process>,
}

impl Dtn7Daemon {
    fn new(dir: &Path, tools: &Path, cla: &str, ours: u16, theirs: u16) -> Result<Dtn7Daemon> {
        Ok(Dtn7Daemon {
            dir: dir.to_path_buf(),
            tools: tools.to_path_buf(),
            cla: format!("{cla}:port={theirs}:bind=127.0.0.1"),
            peer: format!("{cla}://127.0.0.1:{ours}/1"),
            web: free_port()?,
            announces: None,
            daemon: None,
        })
    }
    fn log(&self) -> PathBuf {
        self.dir.join("dtnd.log")
    }
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        ask(self.web, method, path, body).with_context(|| format!("dtnd: {method} {path}"))
    }
    fn popped(&self, endpoint: &str) -> Result<Option<Vec<u8>>> {
        let bundle = self.ask("GET", &format!("/endpoint?{endpoint}"), &[])?;
        if bundle == NOTHING {
            return Ok(None);
        }
        // dtnd delivers whole bundles, not payloads.
        let payload = cbor::payload(&bundle).context("dtnd gives something that is no bundle")?;
        Ok(Some(payload.to_vec()))
    }
}

impl Peer for Dtn7Daemon {
    fn start(&mut self) -> Result<()> {
        let mut command = Command::new(self.tools.join("dtnd"));
        command.args(["--nodeid", "2", "--endpoint", "42", "--routing", "epidemic"]);
        command.args(["--janitor", "1s", "--generate-status-reports"]);
        command.args(["--web-port", &self.web.to_string(), "--cla", &self.cla]);
        match self.announces {
            Some(port) => {
                let to = format!("127.0.0.1:{port}");
                command.args(["--interval", "1s", "--beacon-period", "--discovery-destination", &to]);
            }
            None => {
                command.args(["--disable_nd", "--interval", "0", "--peer-timeout", "0", "--static-peer", &self.peer]);
            }
        }
        // A database on disk keeps confirmed bundles across a restart.
        command.args(["--db", "sled", "--workdir"]).arg(self.dir.join("dtnd"));
        fs::create_dir_all(self.dir.join("dtnd"))?;
        let log = self.log();
        let mut daemon = Process::start(command.env_remove("RUST_LOG").stdin(Stdio::null()), &log)?;
        daemon.wait_serving(self.web, &log, START_MAX)?;
        self.daemon = Some(daemon);
        Ok(())
    }
    fn kill(&mut self) {
        self.daemon = None;
    }
    fn send(&mut self, to: &str, payload: &[u8]) -> Result<()> {
        // dtnd sends from its own node ID and requests a report of the delivery.
        self.ask("POST", &format!("/send?dst={to}"), payload).map(|_| ())
    }
    fn take(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        loop {
            for endpoint in ["ipn:2.42", "ipn:2.0"] {
                if let Some(payload) = self.popped(endpoint)? {
                    // Delivery reports arrive at dtnd's node ID, and so do answers of an echo service.
                    if endpoint.ends_with(".42") || !cbor::reports_delivery(&payload) {
                        return Ok(Some(payload));
                    }
                }
            }
            if begun.elapsed() >= wait {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    fn reports(&mut self) -> Result<usize> {
        // dtnd may have forgotten the bundle of a report, and then logs it as unknown. It has understood the report
        // nevertheless.
        let log = fs::read(self.log())?;
        let log = String::from_utf8_lossy(&log);
        let read = ["Status Report indicated bundle delivery", "Status Report's bundle is unknown"];
        Ok(read.iter().map(|words| log.matches(words).count()).sum())
    }
}

/// Whether the daemon knows the announcement period of node `ipn:1.0`, which it can only have from announcements.
fn has_heard_us(web: u16) -> Result<bool> {
    let peers: serde_json::Value = serde_json::from_slice(&ask(web, "GET", "/status/peers", &[])?)?;
    Ok(peers["1"]["period"].is_object())
}

/// One HTTP/1.1 request on a connection of its own.
fn ask(port: u16, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(START_MAX))?;
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    // The connection closes after the answer, so all of it has been read.
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").context("an answer without an end of its head")?;
    let body = answer.split_off(end + 4);
    let head = String::from_utf8_lossy(&answer);
    ensure!(
        head.starts_with("HTTP/1.1 200"),
        "{}: {}",
        head.lines().next().unwrap_or_default(),
        String::from_utf8_lossy(&body)
    );
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        bail!("an answer in chunks");
    }
    Ok(body)
}

/// Trial of dtnsend and dtnrecv, as the how-to page shows them.
fn its_tools(dir: &Path, binary: &Path, tools: &Path, size: Size) -> Result<Row> {
    fs::create_dir_all(dir)?;
    let (here, there) = (free_port()?, free_port()?);
    let layer = format!(
        "[layer.tcp]\nkind = \"tcpclv4\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
         [link.dtnd]\nlayer = \"tcp\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:{there}\"\n"
    );
    let mut ours = Ours::new(dir, binary, &layer, 2, 7)?;
    let mut dtnd = Dtn7Daemon::new(dir, tools, "tcp", here, there)?;
    let load = Load::mixed(3, TCP_TAKES);
    let mut all = || -> Result<()> {
        ours.start()?;
        dtnd.start()?;
        for at in 0..load.len() {
            let payload = load.payload(at);
            there_and_back(dir, &ours, &dtnd, &payload, size.patience)?;
        }
        Ok(())
    };
    let failed = all().err().map(|why| format!("{why:#}"));
    let (bundles, lost) = (2 * load.len(), if failed.is_some() { 2 * load.len() } else { 0 });
    let (layer, trial) = ("TCPCLv4".into(), "dtnsend and dtnrecv".into());
    Ok(Row {
        peer: name(),
        layer,
        trial,
        bundles,
        sizes: load.range(),
        lost,
        notes: Vec::new(),
        failed,
        left_out: false,
    })
}

/// Trial without configured links: the nodes discover each other.
fn found(dir: &Path, binary: &Path, tools: &Path, (cla, layer): (&str, &str), size: Size) -> Result<Row> {
    fs::create_dir_all(dir)?;
    // dtnd listens for announcements at this port only.
    if UdpSocket::bind(("0.0.0.0", HEARS)).is_err() {
        return Ok(Row::left_out(&name(), layer, format!("{TRIAL}: UDP port {HEARS} is in use")));
    }
    let (here, there, hears) = (free_port()?, free_port()?, free_port()?);
    let kind = if cla == "tcp" { "tcpclv4" } else { cla };
    let tables = format!(
        "[layer.near]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
         [discovery]\nto = \"127.0.0.1:{HEARS}\"\nlisten = \"127.0.0.1:{hears}\"\ninterval = \"1 s\"\n"
    );
    let mut ours = Ours::new(dir, binary, &tables, 2, 7)?;
    let mut dtnd = Dtn7Daemon { announces: Some(hears), ..Dtn7Daemon::new(dir, tools, cla, here, there)? };
    let (load, web) = (Load::mixed(size.bundles.min(10), TCP_TAKES), dtnd.web);
    let found = Found { name: name(), layer, endpoint: "ipn:2.42" };
    // The check waits until dtnd knows our announcement. Bundles may pass before that, over a session that dtnd's own
    // announcement caused.
    Ok(found.trial(&mut ours, &mut dtnd, &load, size.patience, || has_heard_us(web)))
}

fn there_and_back(dir: &Path, ours: &Ours, dtnd: &Dtn7Daemon, payload: &[u8], patience: Duration) -> Result<()> {
    let tool = |name: &str| {
        let mut command = Command::new(dtnd.tools.join(name));
        command.args(["--port", &dtnd.web.to_string()]).env_remove("DTN_WEB_PORT").stdin(Stdio::null());
        command
    };
    let (file, got) = (dir.join("sent"), dir.join("got"));
    fs::write(&file, payload)?;
    let _ = fs::remove_file(&got);
    let mut client = attach(&ours.socket(), "ipn:1.65", 0)?;
    client.send(to("ipn:2.42"), payload)?;
    ensure!(is_taken(&mut client)?, "our node refused the bundle");
    let begun = Instant::now();
    while !got.exists() {
        ensure!(begun.elapsed() < patience, "dtnd has no bundle after {patience:?}");
        std::thread::sleep(Duration::from_millis(50));
        // dtnrecv fails while the endpoint is empty.
        let _ = finish(
            tool("dtnrecv").args(["--endpoint", "42", "--outfile"]).arg(&got),
            &dir.join("dtnrecv.log"),
            patience,
        );
    }
    ensure!(fs::read(got)? == payload, "dtnrecv got other bytes");
    let mut client = ours.receiver("ipn:1.64", patience)?;
    finish(tool("dtnsend").args(["--receiver", "ipn:1.64"]).arg(file), &dir.join("dtnsend.log"), patience)?;
    let delivered = client.delivery().context("no bundle of dtnsend came")?;
    client.taken(true)?;
    ensure!(delivered.payload == payload, "other bytes than dtnsend sent");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves one HTTP answer.
    fn answered(answer: &'static str) -> Result<Vec<u8>> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let _ = stream.read(&mut [0; 1_000]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let body = ask(port, "GET", "/", &[]);
        server.join().unwrap();
        body
    }

    #[test]
    fn refusals_are_errors() {
        assert_eq!(answered("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").unwrap(), b"hi");
        let refused = answered("HTTP/1.1 404 Not Found\r\n\r\nno such endpoint").unwrap_err().to_string();
        assert!(refused.contains("404") && refused.contains("no such endpoint"), "{refused}");
        assert!(answered("HTTP/1.1 200 OK\r\n").is_err());
        assert!(answered("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n").is_err());
    }
}
