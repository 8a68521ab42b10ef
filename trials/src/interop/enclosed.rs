//! A shell in its own namespaces (`unshare`, of util-linux): its processes, shared memory and semaphores end with it.
//! Peers made of many daemons around shared memory thus need no clean-up, and meet no other instances on this machine.
//! Network and disk are shared with the machine.

use super::process::last_lines;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A shell with all processes that it started.
pub struct Enclosed {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    log: PathBuf,
    /// Number of the last command, so that a late answer is not taken for that of a later command.
    run: usize,
}

/// Script of the shell: its answers go to descriptor 3, the output of commands to the log.
const SHELL: &str = "exec 3>&1 >>\"$0\" 2>&1; mount -t tmpfs none /dev/shm; exec sh -s";

impl Enclosed {
    /// Starts a shell in `dir` with `programs` first on its PATH; output of commands goes to `log`.
    pub fn start(dir: &Path, programs: &Path, log: &Path) -> Result<Enclosed> {
        File::options().create(true).append(true).open(log)?;
        let mut path = vec![programs.to_path_buf()];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--ipc",
            "--pid",
            "--mount",
            "--fork",
            // `--kill-child`: killing `unshare` ends everything within.
            "--kill-child",
            "--mount-proc",
        ]);
        command.args(["sh", "-c", SHELL]).arg(log).current_dir(dir);
        command.env("PATH", std::env::join_paths(path)?);
        // ION's libraries stand beside its programs.
        command.env("LD_LIBRARY_PATH", programs.with_file_name("lib"));
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::options().append(true).open(log)?);
        let mut child = child.spawn().context("cannot run `unshare`\nhint: apt-get install util-linux")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let (answer, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if answer.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Enclosed { child, input, answers, log: log.to_path_buf(), run: 0 })
    }
    /// Runs a command to its end; fails if the command fails or takes longer than `patience`.
    pub fn run(&mut self, command: &str, patience: Duration) -> Result<()> {
        self.run += 1;
        let number = self.run;
        let ended = format!("the shell ended at `{command}`");
        // A subshell, so that `cd` and `exit` do not affect later commands.
        writeln!(self.input, "( {command} ) </dev/null 3>&-; echo {number} $? >&3").with_context(|| ended.clone())?;
        let begun = Instant::now();
        loop {
            match self.answers.recv_timeout(patience.saturating_sub(begun.elapsed())) {
                Ok(answer) => match answer.split_once(' ') {
                    Some((of, "0")) if of == number.to_string() => return Ok(()),
                    Some((of, status)) if of == number.to_string() => {
                        bail!("`{command}` failed ({status}):\n{}", last_lines(&self.log))
                    }
                    // A late answer to an earlier command, for which the wait has ended.
                    _ => {}
                },
                Err(RecvTimeoutError::Timeout) => bail!("`{command}` still ran after {patience:?}"),
                Err(RecvTimeoutError::Disconnected) => bail!("{ended}:\n{}", last_lines(&self.log)),
            }
        }
    }
    /// Starts a command in the background.
    pub fn spawn(&mut self, command: &str) -> Result<()> {
        Ok(writeln!(self.input, "( {command} ) </dev/null 3>&- &")?)
    }
}
impl Drop for Enclosed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell; `None` where this machine permits no namespaces.
    fn shell(dir: &Path) -> Option<Enclosed> {
        let mut shell = Enclosed::start(dir, Path::new("/nowhere/bin"), &dir.join("log")).ok()?;
        shell.run("true", Duration::from_secs(20)).ok()?;
        Some(shell)
    }

    #[test]
    fn failed_command_reports_its_output() {
        let dir = tempfile::tempdir().unwrap();
        let Some(mut shell) = shell(dir.path()) else { return };
        shell.run("echo one > file", Duration::from_secs(20)).unwrap();
        assert_eq!(std::fs::read(dir.path().join("file")).unwrap(), b"one\n");
        let why = shell.run("echo no such thing >&2; exit 7", Duration::from_secs(20)).unwrap_err().to_string();
        assert!(why.contains("(7)") && why.contains("no such thing"), "{why}");
        shell.run("cat", Duration::from_secs(20)).expect("nothing to read is no hanging");
        let why = shell.run("sleep 0.3; exit 9", Duration::from_millis(50)).unwrap_err().to_string();
        assert!(why.contains("still ran"), "{why}");
        shell.run("true", Duration::from_secs(20)).expect("its late answer is that of no other");
    }

    #[test]
    fn enclosed_processes_end_with_shell() {
        let dir = tempfile::tempdir().unwrap();
        let Some(mut shell) = shell(dir.path()) else { return };
        shell.spawn("while sleep 0.02; do echo alive >> beats; done").unwrap();
        shell.run("sleep 0.2; touch /dev/shm/of-the-shell", Duration::from_secs(20)).unwrap();
        assert!(!Path::new("/dev/shm/of-the-shell").exists());
        drop(shell);
        let beats = || std::fs::read(dir.path().join("beats")).unwrap_or_default().len();
        let begun = Instant::now();
        loop {
            let before = beats();
            std::thread::sleep(Duration::from_millis(200));
            if before > 0 && beats() == before {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        }
    }
}
