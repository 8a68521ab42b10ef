//! Foreign programs: start, time limits, end.

use crate::tools;
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A process that is killed when its owner drops it.
pub struct Process(pub Child);

impl Process {
    /// Starts a process; its output is appended to `log`.
    pub fn start(command: &mut Command, log: &Path) -> Result<Process> {
        let file = File::options().create(true).append(true).open(log)?;
        let child = command.stdout(file.try_clone()?).stderr(file).spawn();
        Ok(Process(child.with_context(|| format!("cannot run `{}`", tools::shown(command)))?))
    }
    /// Waits until the process accepts connections at a local port.
    pub fn wait_serving(&mut self, port: u16, log: &Path, patience: Duration) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            // An ended process will never serve the port.
            let waits = self.0.try_wait()?.is_none() && begun.elapsed() < patience;
            ensure!(waits, "nothing serves port {port}:\n{}", last_lines(log));
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Last ten lines of a log.
pub fn last_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

/// Runs a command to its end, which must be a success; returns its output.
pub fn finish(command: &mut Command, log: &Path, patience: Duration) -> Result<String> {
    // The output must not contain that of an earlier run.
    let _ = fs::remove_file(log);
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
    // The last line usually names the error.
    let last = said.lines().last().unwrap_or("nothing");
    ensure!(status.success(), "`{}` said: {last} ({status})", tools::shown(command));
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn failed_tool_reports_last_lines() {
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
    fn ended_server_stops_the_wait() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = Command::new("sh");
        let mut server = Process::start(command.args(["-c", "echo no such option; exit 2"]), &log).unwrap();
        let port = crate::harness::free_port().unwrap();
        let why = server.wait_serving(port, &log, Duration::from_secs(60)).unwrap_err().to_string();
        assert!(why.contains(&format!("port {port}")), "{why}");
    }
}
