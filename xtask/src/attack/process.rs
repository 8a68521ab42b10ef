//! A node's process: started, asked, and measured through `/proc`.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest a node may take until applications can attach.
const START_MAX: Duration = Duration::from_secs(30);
/// Longest a node may take to end in good order: twice its own `shutdown_timeout`.
const END_MAX: Duration = Duration::from_secs(20);

/// A running node.
pub struct Process {
    name: &'static str,
    dir: PathBuf,
    binary: PathBuf,
    child: Child,
    /// Its control API, as `farlink node status --at` wants it; empty without one.
    pub control: String,
}

impl Process {
    /// Starts a node in a folder of its own, with a soft limit of descriptors that it may raise.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn new(
        dir: &Path,
        name: &'static str,
        binary: &Path,
        configuration: &str,
        descriptors: u32,
    ) -> Result<Process> {
        let dir = dir.join(name);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("node.toml"), configuration)?;
        let log = File::create(dir.join("log.txt"))?;
        let child = Command::new("sh")
            .args(["-c", &format!("ulimit -Sn {descriptors}; exec \"$0\" node --config node.toml")])
            .arg(binary)
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        Ok(Process { name, dir, binary: binary.to_path_buf(), child, control: String::new() })
    }
    /// Waits until applications can attach.
    ///
    /// # Errors
    /// When it ends, or takes too long.
    pub fn wait_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while UnixStream::connect(self.dir.join("app.sock")).is_err() {
            if !self.alive() {
                bail!("node {} ended:\n{}", self.name, self.log_tail());
            }
            if begun.elapsed() > START_MAX {
                bail!("node {} is not ready after {START_MAX:?}:\n{}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Whether it still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
    fn proc(&self, what: &str) -> PathBuf {
        format!("/proc/{}/{what}", self.child.id()).into()
    }
    /// A value of `/proc/PID/status` in KiB, as bytes; 0 when the process is gone.
    fn status_bytes(&self, name: &str) -> u64 {
        let text = fs::read_to_string(self.proc("status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    }
    /// Memory it has now, bytes.
    pub fn memory(&self) -> u64 {
        self.status_bytes("VmRSS")
    }
    /// Most memory it had since [`Process::forget_peak`], bytes.
    pub fn peak(&self) -> u64 {
        self.status_bytes("VmHWM")
    }
    /// The peak begins anew (proc(5): 5 into `clear_refs`).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn forget_peak(&self) -> Result<()> {
        fs::write(self.proc("clear_refs"), "5").context("resetting the peak of memory")
    }
    /// Descriptors it has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(self.proc("fd")).map_or(0, Iterator::count)
    }
    /// Bytes it has logged.
    pub fn logged(&self) -> u64 {
        fs::metadata(self.dir.join("log.txt")).map_or(0, |log| log.len())
    }
    /// Bytes of the files of its store.
    pub fn stored(&self) -> u64 {
        let files = fs::read_dir(self.dir.join("store")).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }
    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let bytes = fs::read(self.dir.join("log.txt")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(20_000)..]).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
    /// Asks `farlink node ...` with a limit of time: how long the answer took and what it was; `None` when
    /// there was none.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn ask(&self, question: &str, patience: Duration) -> Result<Option<(Duration, String)>> {
        let begun = Instant::now();
        let mut asked = Command::new(&self.binary)
            .args(["node", question, "--json", "--at", &self.control])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // Read meanwhile: an answer of many links is longer than a pipe.
        let mut stdout = asked.stdout.take().context("its standard output")?;
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        loop {
            if let Some(status) = asked.try_wait()? {
                let took = begun.elapsed();
                let text = reader.join().map_err(|_| anyhow::anyhow!("reading the answer failed"))??;
                return Ok(status.success().then_some((took, text)));
            }
            if begun.elapsed() > patience {
                asked.kill()?;
                asked.wait()?;
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    /// Sends SIGTERM and waits; kills it when that takes too long.
    ///
    /// # Errors
    /// When it had ended by itself before, or had to be killed.
    pub fn end(&mut self) -> Result<()> {
        if !self.alive() {
            bail!("node {} ended by itself:\n{}", self.name, self.log_tail());
        }
        let pid = Pid::from_raw(self.child.id() as i32).context("a process has a number")?;
        kill_process(pid, Signal::TERM)?;
        let begun = Instant::now();
        while self.alive() {
            if begun.elapsed() > END_MAX {
                self.child.kill()?;
                self.child.wait()?;
                bail!("node {} does not end within {END_MAX:?} of SIGTERM:\n{}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
