//! Measurements of a node through `/proc` and its folder, and queries with a time limit.

use super::node::Node;
use super::process::Process;
use anyhow::{Context, Result};
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

impl Node {
    fn proc(&self, what: &str) -> PathBuf {
        format!("/proc/{}/{what}", self.process.as_ref().map_or(0, Process::id)).into()
    }
    fn status_bytes(&self, name: &str) -> u64 {
        // Returns 0 if the process is gone. The kernel reports KiB.
        let text = fs::read_to_string(self.proc("status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    }
    /// Resident memory now, bytes.
    pub fn memory(&self) -> u64 {
        self.status_bytes("VmRSS")
    }
    /// Peak resident memory since [`Node::forget_peak`], bytes.
    pub fn peak(&self) -> u64 {
        self.status_bytes("VmHWM")
    }
    /// Resets the peak of memory (proc(5): writing 5 to `clear_refs`).
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn forget_peak(&self) -> Result<()> {
        fs::write(self.proc("clear_refs"), "5").context("resetting the peak of memory")
    }
    /// Number of open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(self.proc("fd")).map_or(0, Iterator::count)
    }
    /// Size of the node's log, bytes.
    pub fn logged(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |log| log.len())
    }
    /// Total size of the files of the node's store, bytes.
    pub fn stored(&self) -> u64 {
        let files = fs::read_dir(self.store()).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }
    /// Runs `farlink node QUESTION` with a time limit; returns the elapsed time and the answer, or `None` without an
    /// answer.
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
        // Read in parallel: an answer about many links exceeds a pipe's buffer.
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
}
