//! One process of a node: start, readiness, end.

use super::client::Client;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longest startup until applications can attach.
const START_MAX: Duration = Duration::from_secs(30);
/// Bytes of a log that are read for its last lines.
const TAIL: usize = 20_000;

/// A running node; killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Runs `command`, which is or becomes `farlink node ...`. Its output is appended to `log`; applications attach at
    /// `socket`.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: &mut Command, name: &str, socket: PathBuf, log: PathBuf) -> Result<Process> {
        let file = File::options().create(true).append(true).open(&log)?;
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        Ok(Process { name: name.to_string(), child, socket, log })
    }
    /// Waits until applications can attach; returns the time that took.
    ///
    /// # Errors
    /// When the process ends, or takes too long.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        // A connection proves more than the existence of the socket file.
        let (begun, socket) = (Instant::now(), self.socket.display().to_string());
        while Client::connect(&socket).is_err() {
            self.still_runs()?;
            if begun.elapsed() > START_MAX {
                bail!("node {} is not ready after {START_MAX:?}:\n{}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(begun.elapsed())
    }
    /// Process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    /// Whether the process still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
    fn still_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("node {} ended by itself ({status}):\n{}", self.name, self.log_tail()),
            None => Ok(()),
        }
    }
    /// Whole log, including that of earlier processes.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
    /// Last lines of the log.
    pub fn log_tail(&self) -> String {
        log_tail(&self.log)
    }
    /// Kills the process with SIGKILL.
    ///
    /// # Errors
    /// When the process had ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.still_runs()?;
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
    /// Sends SIGHUP, which reloads the configuration.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn hang_up(&self) -> Result<()> {
        self.signal(Signal::HUP)
    }
    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).context("a process has a number")?;
        Ok(kill_process(pid, signal)?)
    }
    /// Sends SIGTERM and waits; kills the process if that takes too long.
    ///
    /// # Errors
    /// When the process had ended before, or had to be killed.
    pub fn end(&mut self, patience: Duration) -> Result<ExitStatus> {
        self.still_runs()?;
        self.signal(Signal::TERM)?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if begun.elapsed() > patience {
                self.child.kill()?;
                self.child.wait()?;
                bail!("node {} does not end within {patience:?} of SIGTERM:\n{}", self.name, self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn log_tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    // The first character may be cut in the middle, and is then replaced by U+FFFD.
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL)..]).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_process_reports_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such key >&2; exit 3"]);
        let (socket, log) = (dir.path().join("app.sock"), dir.path().join("log.txt"));
        let mut process = Process::start(&mut command, "odd", socket, log).unwrap();
        let why = process.wait_ready().unwrap_err().to_string();
        assert!(why.contains("node odd ended by itself") && why.contains("no such key"), "{why}");
        assert!(process.end(Duration::from_secs(1)).is_err() && process.kill().is_err());
    }

    #[test]
    fn slow_process_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // The shell ignores SIGTERM, as a node that hangs would.
        command.args(["-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]);
        let (socket, log) = (dir.path().join("app.sock"), dir.path().join("log.txt"));
        let mut process = Process::start(&mut command, "deaf", socket, log).unwrap();
        while process.log().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(process.end(Duration::from_millis(50)).is_err() && !process.alive());
    }
}
