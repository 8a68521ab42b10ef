//! `cargo xtask interop`: bundles to and from implementations that others wrote, as their users run
//! them. The tools are installed once, into `target/interop`, from their own registries.
//!
//! - `ud3tn-utils`: the tools of µD3TN attach to our node over AAP2;
//! - `dtn7`: the daemon of dtn7-rs is our node's neighbour over TCPCLv4.

use crate::crash::aap2::Client;
use crate::crash::build;
use crate::crash::node::{Node, free_port};
use crate::{Chore, tools};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The chore.
pub const CHORE: Chore = Chore {
    name: "interop",
    usage: "[--only aap2|dtn7] [--seconds N]",
    help: "Bundles to and from the tools of µD3TN (AAP2) and dtn7-rs (TCPCLv4): all must arrive.

  --only PEER    only the tools of µD3TN (aap2) or only dtn7-rs (dtn7)
  --seconds N    the longest one transfer may take (30)

The first run installs the peers into target/interop, which takes minutes and the network;
removing that folder forgets them. FARLINK_BIN names a node to test instead of building one.

Examples:
  cargo xtask interop
  cargo xtask interop --only aap2
  FARLINK_BIN=target/release/farlink cargo xtask interop --only dtn7 --seconds 10

Exit status 0: everything arrived; 1: something did not, or a peer could not be installed.",
    run,
};

const UD3TN_UTILS: &str = "0.15.2";
const DTN7: &str = "0.21.0";
/// Payload bytes of the transfers. dtnd says in SESS_INIT that it takes transfers of 64,000 bytes.
const TO_DTND: [usize; 3] = [100, 1_000, 60_000];
const FROM_DTND: [usize; 3] = [100, 60_000, 1_000_000];
const PINGS: u32 = 10;

/// One line of the table.
struct Row {
    peer: &'static str,
    direction: String,
    result: Result<String>,
}

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let only = arguments.word("--only")?;
    let patience = Duration::from_secs(arguments.number("--seconds", 30)?);
    if let Some(word) = arguments.rest()?.first() {
        bail!("`{word}` is not an option of interop; see `cargo xtask interop --help`");
    }
    if let Some(peer) = only.filter(|peer| !["aap2", "dtn7"].contains(peer)) {
        bail!("`{peer}` is not a peer; hint: --only aap2, or --only dtn7");
    }
    let wanted = |peer| only.is_none_or(|only| only == peer);
    let cache = tools::root().join("target/interop");
    fs::create_dir_all(&cache)?;
    let python = if wanted("aap2") { Some(install_ud3tn_utils(&cache)?) } else { None };
    let dtn7 = if wanted("dtn7") { Some(install_dtn7(&cache)?) } else { None };
    let binary = build()?;
    let dir = std::env::temp_dir().join(format!("farlink-interop-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    println!("interop: {} in {}", binary.display(), dir.display());
    let mut rows = Vec::new();
    if let Some(tools) = python {
        rows.extend(aap2(&dir.join("aap2"), &binary, &tools, patience)?);
    }
    if let Some(tools) = dtn7 {
        rows.extend(Dtnd::start(&dir.join("dtn7"), &binary, &tools, patience)?.transfers());
    }
    print!("\n{}", table(&rows));
    let missed = rows.iter().filter(|row| row.result.is_err()).count();
    if missed > 0 {
        bail!("{missed} of {} failed; configurations and logs are in {}", rows.len(), dir.display());
    }
    fs::remove_dir_all(&dir)?;
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let width = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0).max(9);
    let (peer, direction) = (width(&|row| row.peer.chars().count()), width(&|row| row.direction.chars().count()));
    let line = |a: &str, b: &str, c: &str| format!("{a:<peer$}  {b:<direction$}  {c}\n");
    let mut text = line("peer", "direction", "result");
    for row in rows {
        let result = match &row.result {
            Ok(what) => format!("ok: {what}"),
            Err(why) => format!("FAILED: {why:#}"),
        };
        text += &line(row.peer, &row.direction, &result);
    }
    text
}

/// The folder with the tools of µD3TN, installed into an environment of their own.
fn install_ud3tn_utils(cache: &Path) -> Result<PathBuf> {
    let environment = cache.join(format!("ud3tn-utils-{UD3TN_UTILS}"));
    let (bin, complete) = (environment.join("bin"), environment.join("complete"));
    if complete.exists() {
        return Ok(bin);
    }
    println!("installing ud3tn-utils {UD3TN_UTILS} into {}", environment.display());
    let there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    ensure!(there, "python3 is not installed\nhint: apt-get install python3 python3-venv, or --only dtn7");
    let made = tools::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
    made.context("cannot make a Python environment with pip\nhint: apt-get install python3-venv python3-pip")?;
    let mut pip = Command::new(bin.join("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).arg(format!("ud3tn-utils=={UD3TN_UTILS}"));
    tools::run(&mut pip).context("cannot install ud3tn-utils\nhint: pip needs the network (or PIP_INDEX_URL)")?;
    File::create(complete)?;
    Ok(bin)
}

/// The folder with dtnd, dtnsend and dtnrecv.
fn install_dtn7(cache: &Path) -> Result<PathBuf> {
    let place = cache.join(format!("dtn7-{DTN7}"));
    let bin = place.join("bin");
    if ["dtnd", "dtnsend", "dtnrecv"].iter().all(|tool| bin.join(tool).exists()) {
        return Ok(bin);
    }
    println!("installing dtn7 {DTN7} into {}; this takes minutes", place.display());
    let mut cargo = tools::cargo();
    // Its own lock file: with newer dependencies it does not compile.
    cargo.args(["install", "--quiet", "--locked", "dtn7", "--version", DTN7, "--root"]).arg(&place);
    cargo.env("CARGO_TARGET_DIR", place.join("build"));
    tools::run(&mut cargo).context("cannot install dtn7\nhint: cargo needs the network, or --only aap2")?;
    fs::remove_dir_all(place.join("build"))?;
    Ok(bin)
}

/// Two of our nodes, with the tools of µD3TN attached to them.
fn aap2(dir: &Path, binary: &Path, tools: &Path, patience: Duration) -> Result<Vec<Row>> {
    fs::create_dir_all(dir)?;
    let (port_a, port_b) = (free_port()?, free_port()?);
    let mut a = Node::new(dir, binary, "a", 1, port_a, port_b)?;
    let mut b = Node::new(dir, binary, "b", 2, port_b, port_a)?;
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
    for service in [128, 7, 2047] {
        let echo = format!("ipn:2.{service}");
        let mut ping = tool("aap2-ping", &a);
        ping.args(["--interval", "0.1", "--count", &PINGS.to_string()]);
        ping.args(["--timeout", &patience.as_secs().to_string(), &echo]);
        let ended = finish(&mut ping, &dir.join(format!("ping-{service}.log")), patience * 2);
        let result = ended.and_then(|log| answered(&log).context("aap2-ping did not say how many were answered"));
        rows.push(Row { peer: "aap2-ping", direction: format!("node a to {echo} and back"), result });
    }
    for (from, to, service, bytes) in [(&a, &b, 64, 100_000), (&b, &a, 65, 1)] {
        let endpoint = format!("ipn:{}.{service}", if to.name == "a" { 1 } else { 2 });
        let file = dir.join(format!("sent-{service}"));
        let result = fs::write(&file, payload(bytes)).map_err(Into::into).and_then(|()| {
            let mut send = tool("aap2-send", from);
            finish(send.arg(&endpoint).stdin(File::open(&file)?), &dir.join(format!("send-{service}.log")), patience)?;
            let got = dir.join(format!("got-{service}"));
            let mut receive = tool("aap2-receive", to);
            receive.args(["--agentid", &service.to_string(), "--count", "1", "--output"]).arg(&got);
            finish(&mut receive, &dir.join(format!("receive-{service}.log")), patience)?;
            same(&fs::read(got)?, bytes)?;
            Ok(format!("{bytes} payload bytes equal"))
        });
        let direction = format!("node {} to {endpoint}", from.name);
        rows.push(Row { peer: "aap2-send, aap2-receive", direction, result });
    }
    Ok(rows)
}

/// What aap2-ping says at its end: "received 5 of 5 sent".
fn answered(log: &str) -> Option<String> {
    let (_, end) = log.rsplit_once("received ")?;
    let words: Vec<&str> = end.split_whitespace().take(3).collect();
    let [answered, "of", sent] = words[..] else { return None };
    (answered == sent).then(|| format!("{answered} of {sent} answered"))
}

/// One of our nodes, `ipn:1.0`, and dtnd, `ipn:2.0`, as neighbours.
struct Dtnd {
    dir: PathBuf,
    tools: PathBuf,
    node: Node,
    web: String,
    patience: Duration,
    _daemon: Process,
}

impl Dtnd {
    fn start(dir: &Path, binary: &Path, tools: &Path, patience: Duration) -> Result<Dtnd> {
        fs::create_dir_all(dir)?;
        let (ours, theirs, web) = (free_port()?, free_port()?, free_port()?);
        let mut command = Command::new(tools.join("dtnd"));
        command.args(["--nodeid", "2", "--endpoint", "42", "--routing", "epidemic", "--disable_nd"]);
        command.args(["--interval", "0", "--janitor", "1s", "--peer-timeout", "0", "--workdir"]).arg(dir.join("dtnd"));
        command.args(["--web-port", &web.to_string(), "--cla", &format!("tcp:port={theirs}:bind=127.0.0.1")]);
        command.args(["--static-peer", &format!("tcp://127.0.0.1:{ours}/1")]);
        let log = dir.join("dtnd.log");
        let mut daemon = Process::start(&mut command, &log)?;
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", web)).is_err() {
            let ended = daemon.0.try_wait()?;
            let waits = ended.is_none() && begun.elapsed() < patience;
            ensure!(waits, "dtnd does not serve its clients:\n{}", fs::read_to_string(&log)?);
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut node = Node::new(dir, binary, "a", 1, ours, theirs)?;
        node.start()?;
        node.wait_ready()?;
        let (dir, tools, web) = (dir.to_path_buf(), tools.to_path_buf(), web.to_string());
        Ok(Dtnd { dir, tools, node, web, patience, _daemon: daemon })
    }
    fn transfers(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for bytes in TO_DTND {
            rows.push(self.row("farlink to dtnd", bytes, self.send(bytes)));
        }
        for bytes in FROM_DTND {
            rows.push(self.row("dtnd to farlink", bytes, self.receive(bytes)));
        }
        rows
    }
    fn row(&self, direction: &str, bytes: usize, result: Result<()>) -> Row {
        let result = result.map(|()| "payload bytes equal".into());
        Row { peer: "dtn7-rs (TCPCLv4)", direction: format!("{direction}, {bytes} B"), result }
    }
    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.tools.join(name));
        command.args(["--port", &self.web]).env_remove("DTN_WEB_PORT").stdin(Stdio::null());
        command
    }
    /// Ours to theirs.
    fn send(&self, bytes: usize) -> Result<()> {
        let mut client = Client::attach(&self.node.socket(), "ipn:1.65", false)?;
        client.send("ipn:2.42", &payload(bytes))?;
        ensure!(client.response()?, "our node refused the bundle");
        let got = self.dir.join(format!("dtnd-got-{bytes}"));
        let begun = Instant::now();
        while !got.exists() {
            ensure!(begun.elapsed() < self.patience, "dtnd has no bundle after {:?}", self.patience);
            std::thread::sleep(Duration::from_millis(50));
            // Fails as long as there is nothing.
            let mut receive = self.tool("dtnrecv");
            receive.args(["--endpoint", "42", "--outfile"]).arg(&got);
            let _ = finish(&mut receive, &self.dir.join("dtnrecv.log"), self.patience);
        }
        same(&fs::read(got)?, bytes)
    }
    /// Theirs to ours.
    fn receive(&self, bytes: usize) -> Result<()> {
        let file = self.dir.join(format!("dtnd-sends-{bytes}"));
        fs::write(&file, payload(bytes))?;
        let mut client = Client::attach(&self.node.socket(), "ipn:1.64", true)?;
        client.set_timeout(self.patience)?;
        let mut send = self.tool("dtnsend");
        finish(send.args(["--receiver", "ipn:1.64"]).arg(file), &self.dir.join("dtnsend.log"), self.patience)?;
        let delivered = client.delivery().with_context(|| format!("no bundle after {:?}", self.patience))?;
        client.taken()?;
        same(&delivered.payload, bytes)
    }
}

/// A process that ends with its owner.
struct Process(Child);
impl Process {
    fn start(command: &mut Command, log: &Path) -> Result<Process> {
        let file = File::create(log)?;
        let child = command.stdout(file.try_clone()?).stderr(file).spawn();
        Ok(Process(child.with_context(|| format!("cannot run `{}`", tools::shown(command)))?))
    }
}
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command until it ends well, and gives what it said.
fn finish(command: &mut Command, log: &Path, patience: Duration) -> Result<String> {
    let mut process = Process::start(command, log)?;
    let begun = Instant::now();
    let status = loop {
        match process.0.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > patience => bail!("`{}` still ran after {patience:?}", tools::shown(command)),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let said = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    let last = said.lines().last().unwrap_or("nothing");
    ensure!(status.success(), "`{}` said: {last} ({status})", tools::shown(command));
    Ok(said)
}

/// Bytes that are the same for the same length, and no text.
fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 ^ bytes as u8).collect()
}

fn same(got: &[u8], bytes: usize) -> Result<()> {
    let sent = payload(bytes);
    if got == sent {
        return Ok(());
    }
    let first = got.iter().zip(&sent).position(|(a, b)| a != b).unwrap_or(got.len().min(bytes));
    bail!("{} bytes arrived of {bytes}, different from byte {first} on", got.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ping_counts_when_all_are_answered() {
        let said =
            |end: &str| format!("INFO: Received PING from ipn:2.7: seq=0, rtt=0.1\nINFO: Ping ran for 1 s, {end}\n");
        assert_eq!(answered(&said("received 5 of 5 sent")).as_deref(), Some("5 of 5 answered"));
        assert_eq!(answered(&said("received 4 of 5 sent")), None);
        assert_eq!(answered("Traceback"), None);
    }

    #[test]
    fn what_arrives_is_compared_to_the_last_byte() {
        assert!(same(&payload(1000), 1000).is_ok() && payload(1).len() == 1);
        let cut = same(&payload(1000)[..999], 1000).unwrap_err().to_string();
        assert!(cut.contains("999 bytes arrived of 1000"), "{cut}");
        let mut changed = payload(1000);
        changed[7] ^= 1;
        assert!(same(&changed, 1000).unwrap_err().to_string().contains("from byte 7 on"));
    }

    #[test]
    fn the_table_lines_up_and_shows_why_something_failed() {
        let row = |peer, direction: &str, result| Row { peer, direction: direction.into(), result };
        let rows = [
            row("dtn7-rs", "there", Ok("60 B equal".into())),
            row("a longer one", "and back", Err(anyhow::anyhow!("nothing came"))),
        ];
        let text = table(&rows);
        let column = |line: &str, word: &str| line.find(word).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(column(lines[0], "result"), column(lines[1], "ok: 60 B"));
        assert_eq!(column(lines[1], "ok"), column(lines[2], "FAILED: nothing came"));
    }

    #[test]
    fn a_tool_that_fails_or_hangs_is_a_failure_with_its_last_words() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::null());
            command
        };
        assert_eq!(finish(&mut shell("echo fine"), &log, Duration::from_secs(10)).unwrap(), "fine\n");
        let failed = finish(&mut shell("echo no route >&2; exit 3"), &log, Duration::from_secs(10)).unwrap_err();
        assert!(failed.to_string().contains("no route"), "{failed}");
        let hung = finish(&mut shell("exec sleep 60"), &log, Duration::from_millis(50)).unwrap_err();
        assert!(hung.to_string().contains("still ran"), "{hung}");
    }

    #[test]
    fn unknown_peers_and_options_are_refused_before_anything_is_installed() {
        for words in [["--only", "ion"], ["--fast", "1"]] {
            assert!(run(&words.map(String::from)).is_err());
        }
    }
}
