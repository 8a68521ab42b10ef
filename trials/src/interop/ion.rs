//! ION: a node of its daemons as our node's neighbour over LTP, STCP, TCPCLv3 and UDP, controlled with its own tools:
//! `ionstart`, `bptrace`, `bprecvfile`, `bpecho`. It runs enclosed, so that it meets no other ION of this machine.

use super::enclosed::Enclosed;
use super::ion_custody;
use super::ion_rc::{self, Duct};
use super::ion_secured::{self, Service};
use super::matrix::Row;
use super::node::Ours;
use super::peer::{Can, Peer};
use super::places;
use super::process::last_lines;
use super::trial::{ECHO, Pair, Size};
use crate::harness::free_port;
use anyhow::{Context, Result, ensure};
use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Programs of ION that are needed.
pub const PROGRAMS: [&str; 7] = ["ionstart", "ionadmin", "bpversion", "bptrace", "bprecvfile", "bpecho", "bplist"];
/// Longest run of `ionstart`, which itself waits for five seconds.
const START_MAX: Duration = Duration::from_secs(60);
/// Time limit of one run of an ION tool; tools that send may first wait for space in ION's store.
const TOOL_MAX: Duration = Duration::from_secs(120);
/// Largest payload in a datagram.
const UDP_TAKES: usize = 60_000;
/// Status of a delivery report in ION's log (BP_DELIVERED_RPT).
const DELIVERED: &str = " status 8 at ";
/// Release whose hashes follow a draft of RFC 9173.
const DRAFT: &str = "4.1.3";
/// Reason why neither side can verify the other's security blocks with release [`DRAFT`].
const OTHER_TEXT: &str =
    "it hashes the whole payload block, with its flags as 0, where RFC 9173 3.7 says the data in it";
/// Log message of `bprecvfile` about a finished file.
const CREATED: &str = "bprecvfile has created '";

/// Trials over every shared layer, with bundles of version 7.
pub fn trials(dir: &Path, binary: &Path, size: Size) -> Result<Vec<Row>> {
    match build("ion", 7) {
        Err(why) => Ok(vec![Row::left_out("ION", "LTP, STCP, TCPCLv3, UDPCL", format!("{why:#}"))]),
        Ok(programs) => plain(dir, binary, &programs, 7, size),
    }
}

/// Trials over every shared layer with bundles of version 6, for which ION needs another build; and custody.
pub fn trials_of_version_6(dir: &Path, binary: &Path, size: Size) -> Result<Vec<Row>> {
    let layers = "LTP, STCP, TCPCLv3, UDPCL, version 6; custody";
    match build("ion-bpv6", 6) {
        Err(why) => Ok(vec![Row::left_out("ION", layers, format!("{why:#}"))]),
        Ok(programs) => {
            let mut rows = plain(dir, binary, &programs, 6, size)?;
            rows.extend(ion_custody::trials(dir, binary, &programs, &name(&programs), size)?);
            Ok(rows)
        }
    }
}

/// Trials of bundle security, with a build that has ciphers; ION's release has none.
pub fn trials_secured(dir: &Path, binary: &Path, size: Size) -> Result<Vec<Row>> {
    let programs = match build("ion-bpsec", 7) {
        Ok(programs) => programs,
        Err(why) => {
            let why = format!("{why:#}; ION's release has no ciphers");
            return Ok(vec![Row::left_out("ION", "STCP, secured", why)]);
        }
    };
    if release(&programs).is_some_and(|release| release == DRAFT) {
        return Ok(vec![Row::left_out(&name(&programs), "STCP, BIB-HMAC-SHA2 and BCB-AES-GCM", OTHER_TEXT)]);
    }
    let mut rows = Vec::new();
    for service in Service::ALL {
        let layer = format!("STCP, {}", service.context());
        let dir = dir.join(format!("ion-{service:?}"));
        rows.extend(pair(&dir, binary, &programs, (Duct::Stcp, 7, Some(service)), &layer, size)?.trials());
    }
    Ok(rows)
}

/// Folder of an ION build for this version of the bundle protocol.
fn build(folder: &str, version: i32) -> Result<PathBuf> {
    let programs = places::find(folder, &PROGRAMS)?;
    let speaks = speaks(&programs)?;
    ensure!(speaks == version, "the ION of {} speaks version {speaks}", programs.display());
    Ok(programs)
}

fn plain(dir: &Path, binary: &Path, programs: &Path, version: u8, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for duct in Duct::ALL {
        let of = if version == 6 { ", version 6" } else { "" };
        let (layer, dir) = (format!("{}{of}", duct.layer()), dir.join(format!("ion-{}-{version}", duct.word())));
        rows.extend(pair(&dir, binary, programs, (duct, version, None), &layer, size)?.trials());
    }
    Ok(rows)
}

fn name(programs: &Path) -> String {
    format!("ION {}", release(programs).unwrap_or_default())
}

/// Version of the bundle protocol for which ION was built.
fn speaks(programs: &Path) -> Result<i32> {
    // `bpversion` returns the version as its exit status.
    let status = tool(programs, "bpversion").stdout(Stdio::null()).status().context("cannot run `bpversion`")?;
    status.code().context("`bpversion` was killed")
}

/// Release number from `ionadmin`.
fn release(programs: &Path) -> Option<String> {
    let mut ionadmin = tool(programs, "ionadmin").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    std::io::Write::write_all(&mut ionadmin.stdin.take()?, b"v\nq\n").ok()?;
    let said = String::from_utf8_lossy(&ionadmin.wait_with_output().ok()?.stdout).into_owned();
    let (_, rest) = said.split_once("SOURCE-")?;
    Some(rest.chars().take_while(|sign| sign.is_ascii_digit() || *sign == '.').collect())
}

fn tool(programs: &Path, name: &str) -> Command {
    let mut command = Command::new(programs.join(name));
    // ION's tools write a log into their working directory.
    command.current_dir(std::env::temp_dir()).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("LD_LIBRARY_PATH", programs.with_file_name("lib"));
    command
}

/// Further configuration for a build of version 6: with aggregate custody signals, nothing is sent before they are
/// configured.
pub fn version_6(programs: &Path) -> String {
    let many = programs.join("acsadmin").is_file();
    if many { "\n## begin acsadmin\n1 1\n## end acsadmin\n".into() } else { String::new() }
}

/// Both nodes over one layer, with bundles of this version, secured or not.
fn pair<'a>(
    dir: &Path,
    binary: &Path,
    programs: &Path,
    (duct, version, service): (Duct, u8, Option<Service>),
    layer: &'a str,
    size: Size,
) -> Result<Pair<'a>> {
    let name = name(programs);
    println!("{name}, {layer}");
    fs::create_dir_all(dir)?;
    let (here, there) = (format!("127.0.0.1:{}", free_port()?), format!("127.0.0.1:{}", free_port()?));
    let datagrams = duct == Duct::Udp;
    let most = |bytes: usize| if datagrams { bytes.min(UDP_TAKES) } else { bytes };
    // Largest single bundle: over LTP, four seconds at the rate that ION's socket accepts.
    let once = match duct {
        Duct::Udp => 0,
        Duct::Ltp => 10_000_000,
        Duct::Stcp | Duct::Tcp => 50_000_000,
    };
    let can = Can {
        endpoint: "ipn:2.42",
        echo: Some("ipn:2.1"),
        takes: most(1_000_000),
        gives: most(1_000_000),
        takes_once: once,
        gives_once: once,
        reports: true,
        understands_reports: true,
        datagrams,
        // STCP has no acknowledgments, and over TCPCLv3 ION counts a bundle as sent when it is written.
        repeats: duct == Duct::Ltp,
        restarts: service.is_none(),
    };
    let (mut ours, mut theirs) = (duct.ours(&here, &there), ion_rc::node(duct, &here, &there));
    if version == 6 {
        theirs += &version_6(programs);
    }
    if let Some(service) = service {
        ours += &service.ours();
        theirs += ion_secured::SECTION;
        fs::create_dir_all(dir.join("ion"))?;
        fs::write(dir.join("ion").join(ion_secured::KEY_FILE), ion_secured::KEY)?;
        fs::write(dir.join("ion").join(ion_secured::RULES_FILE), service.rules())?;
        fs::create_dir_all(dir.join("ours"))?;
        // Our node refuses a file of keys that others can read.
        let keys = dir.join("ours/node.keys");
        fs::write(&keys, ion_secured::keys())?;
        fs::set_permissions(keys, Permissions::from_mode(0o600))?;
    }
    let ours = Ours::new(dir, binary, &ours, 2, version)?;
    Ok(Pair { name, layer, ours, peer: Box::new(Ion::new(dir, programs, &theirs)?), can, size })
}

/// ION as node `ipn:2.0`.
pub struct Ion {
    dir: PathBuf,
    programs: PathBuf,
    shell: Option<Enclosed>,
    log: Log,
    /// Number of bundles sent so far.
    sent: usize,
    /// Number of starts so far.
    started: usize,
    /// Files that `bprecvfile` wrote and that were not taken yet.
    came: VecDeque<PathBuf>,
    reports: usize,
    /// Class of service of the bundles that ION sends, for `bptrace`: custody requested or not, and priority.
    pub class: &'static str,
}

impl Ion {
    /// Prepares a node with this configuration, in a folder of its own.
    pub fn new(dir: &Path, programs: &Path, configuration: &str) -> Result<Ion> {
        let dir = dir.join("ion");
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("node.rc"), configuration)?;
        fs::write(dir.join("node.ionconfig"), ion_rc::CONFIG)?;
        let (log, programs) = (Log::new(dir.join("ion.log")), programs.to_path_buf());
        let came = VecDeque::new();
        Ok(Ion { dir, programs, shell: None, log, sent: 0, started: 0, came, reports: 0, class: "0.1" })
    }
    /// Runs one of ION's tools to the end.
    pub fn tool(&mut self, command: &str) -> Result<()> {
        let shell = self.shell.as_mut().context("ION does not run")?;
        shell.run(command, TOOL_MAX).with_context(|| format!("ion.log:\n{}", last_lines(&self.log.file)))
    }
    /// Number of bundles in ION's store, from `bplist`.
    pub fn kept(&mut self) -> Result<usize> {
        self.tool("bplist > kept")?;
        Ok(fs::read_to_string(self.dir.join("kept"))?.matches("** Bundle").count())
    }
    /// Reads new lines of ION's log.
    fn look(&mut self) -> Result<()> {
        for line in self.log.lines()? {
            self.reports += usize::from(line.contains(DELIVERED));
            if let Some((_, rest)) = line.split_once(CREATED) {
                let name = rest.split('\'').next().unwrap_or_default();
                self.came.push_back(self.received().join(name));
            }
        }
        Ok(())
    }
    /// Folder of the running `bprecvfile`, which restarts its numbering with each start.
    fn received(&self) -> PathBuf {
        self.dir.join(format!("received-{}", self.started))
    }
    /// Receives the answer of our echo service at ION's endpoint 43, which has no permanent receiver.
    fn answer(&mut self) -> Result<()> {
        let folder = self.dir.join(format!("answer-{}", self.sent));
        fs::create_dir_all(&folder)?;
        self.tool(&format!("cd {} && timeout 30 bprecvfile ipn:2.43 1", folder.display()))?;
        self.look()?;
        // `look` has noted the file in the folder of the permanent receiver, whose files have the same names.
        self.came.pop_back();
        self.came.push_front(folder.join("testfile1"));
        Ok(())
    }
}

impl Peer for Ion {
    fn start(&mut self) -> Result<()> {
        self.look()?;
        self.came.clear();
        self.started += 1;
        fs::create_dir_all(self.received())?;
        self.shell = Some(Enclosed::start(&self.dir, &self.programs, &self.dir.join("said"))?);
        let shell = self.shell.as_mut().context("no shell")?;
        shell.run("ionstart -I node.rc", START_MAX)?;
        if self.dir.join(ion_secured::RULES_FILE).exists() {
            shell.run(&format!("bpsecadmin {}", ion_secured::RULES_FILE), TOOL_MAX)?;
        }
        shell.spawn(&format!("cd received-{} && exec bprecvfile ipn:2.42", self.started))?;
        shell.spawn("exec bpecho ipn:2.1")
    }
    fn kill(&mut self) {
        self.shell = None;
    }
    fn send(&mut self, to: &str, payload: &[u8]) -> Result<()> {
        self.sent += 1;
        let file = self.dir.join(format!("sent-{}", self.sent));
        fs::write(&file, payload)?;
        // An endpoint with a receiver cannot be the source of another program.
        let from = if to == ECHO { "ipn:2.43" } else { "ipn:2.65" };
        self.tool(&format!("bptrace {from} {to} ipn:2.0 3600 {} @{} dlv", self.class, file.display()))?;
        if to == ECHO { self.answer() } else { Ok(()) }
    }
    fn take(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        let begun = Instant::now();
        loop {
            if let Some(file) = self.came.pop_front() {
                let payload = fs::read(&file)?;
                fs::remove_file(file)?;
                return Ok(Some(payload));
            }
            self.look()?;
            if self.came.is_empty() {
                if begun.elapsed() >= wait {
                    return Ok(None);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    fn reports(&mut self) -> Result<usize> {
        self.look()?;
        Ok(self.reports)
    }
}

/// A log written by other programs, read incrementally.
struct Log {
    file: PathBuf,
    read: u64,
    /// Beginning of a line that is not complete yet.
    begun: String,
}

impl Log {
    fn new(file: PathBuf) -> Log {
        Log { file, read: 0, begun: String::new() }
    }
    /// Complete lines since the last call.
    fn lines(&mut self) -> Result<Vec<String>> {
        let Ok(mut file) = File::open(&self.file) else { return Ok(Vec::new()) };
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = Vec::new();
        self.read += file.read_to_end(&mut bytes)? as u64;
        // A line may be written in parts: only complete ones are returned.
        self.begun += &String::from_utf8_lossy(&bytes);
        let rest = self.begun.rfind('\n').map_or(0, |end| end + 1);
        let whole = self.begun[..rest].lines().map(String::from).collect();
        self.begun.drain(..rest);
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn log_is_read_by_lines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ion.log");
        let mut log = Log::new(file.clone());
        assert!(log.lines().unwrap().is_empty(), "before there is one");
        let mut writer = File::create(file).unwrap();
        writer.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(log.lines().unwrap(), ["one", "two"]);
        writer.write_all(b"ee\n").unwrap();
        assert_eq!(log.lines().unwrap(), ["three"]);
        assert!(log.lines().unwrap().is_empty());
    }

    #[test]
    fn log_lines_are_parsed() {
        let dir = tempfile::tempdir().unwrap();
        let mut ion = Ion::new(dir.path(), Path::new("/nowhere"), "").unwrap();
        let said = "[2026/11/22-20:00:00] [i] bprecvfile is creating 'testfile1', size 3.\n\
                    [2026/11/22-20:00:00] [i] bprecvfile has created 'testfile1', size 3.\n\
                    [2026/11/22-20:00:01] [s] (ipn:2.65)/848000000:1/0 status 8 at 848000001 on ipn:1.64, 'okay'.\n\
                    [2026/11/22-20:00:01] [s] (ipn:2.65)/848000000:1/0 status 1 at 848000001 on ipn:1.64, 'okay'.\n";
        fs::create_dir_all(ion.received()).unwrap();
        fs::write(ion.received().join("testfile1"), b"one").unwrap();
        fs::write(dir.path().join("ion/ion.log"), said).unwrap();
        assert_eq!(ion.take(Duration::ZERO).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(ion.take(Duration::ZERO).unwrap(), None);
        assert_eq!(ion.reports().unwrap(), 1);
        assert!(ion.send("ipn:1.64", b"x").is_err(), "before it was started");
    }
}
