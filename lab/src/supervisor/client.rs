//! Client of a supervisor: starts the process and exchanges messages with it.

use super::protocol::{Reply, Request};
use super::{ARGUMENT, protocol};
use anyhow::{Context, Result, bail};
use farlink_os::cgroup::{self, GroupName, Hierarchies};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Running supervisor. Dropping it ends the supervisor's process and everything that this started.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    input: Option<Arc<Mutex<ChildStdin>>>,
    replies: Receiver<Reply>,
    /// Other machine on which the supervisor runs.
    machine: Option<String>,
    /// Process ID of the supervisor's PID 1, as seen from outside.
    pub process: u32,
    /// Whether the supervisor needed a user namespace.
    pub user_namespace: bool,
    /// Name that all control groups of the supervisor carry, if it creates any.
    groups: String,
    /// Control groups of ended runs that the supervisor removed, and directories of control groups that it could not
    /// remove.
    pub swept: [Vec<String>; 2],
}

impl Supervisor {
    /// Starts `program` as a supervisor; its `main` must first call [`super::run_if_asked`]. Standard error of the
    /// supervisor and its emulator goes to the file `log`, or to this process's if `None`. The calling thread must
    /// outlive the supervisor: when the thread ends, the kernel ends the supervisor.
    pub fn start(program: &Path, log: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg(ARGUMENT);
        let mut child = spawn(&mut command, log)?;
        let (sender, replies) = channel();
        // A thread reads replies, so that waiting for them can have a limit.
        let output = child.stdout.take().context("no standard output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(read_reply(line.as_bytes())).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take().context("no standard input")?;
        Supervisor::greet(child, Arc::new(Mutex::new(input)), replies, None)
    }

    /// Waits until a started supervisor is ready. `machine` names the other machine on which it runs, if any.
    pub(crate) fn greet(
        child: Child,
        input: Arc<Mutex<ChildStdin>>,
        replies: Receiver<Reply>,
        machine: Option<String>,
    ) -> Result<Self> {
        let mut supervisor = Supervisor {
            child,
            input: Some(input),
            replies,
            machine,
            process: 0,
            user_namespace: false,
            groups: String::new(),
            swept: Default::default(),
        };
        match supervisor.next(Duration::from_secs(10))? {
            Some(Reply::Ready { process, user_namespace, groups, swept }) => {
                supervisor.process = process;
                supervisor.user_namespace = user_namespace;
                (supervisor.groups, supervisor.swept) = (groups, swept);
                Ok(supervisor)
            }
            other => bail!("the supervisor answered {other:?} instead of being ready"),
        }
    }

    /// Sends a request.
    pub fn tell(&mut self, request: &Request) -> Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.write(&line)
    }

    /// Sends bytes: a request, or what belongs to one.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let input = self.input.clone().context("the supervisor was told to end")?;
        let written = match input.lock() {
            Ok(mut input) => input.write_all(bytes),
            Err(_) => Err(std::io::Error::other("a thread panicked")),
        };
        drop(input);
        if let Err(error) = written {
            // The supervisor may have sent a `Failed` reply before it ended. `next` then fails with the reason, which
            // explains more than a broken pipe.
            while let Some(reply) = self.next(Duration::from_millis(200))? {
                drop(reply);
            }
            bail!("the supervisor is gone: {error}");
        }
        Ok(())
    }

    /// Waits at most `wait` for the next reply; `None` if there was none. Fails if the supervisor has failed or ended.
    pub fn next(&mut self, wait: Duration) -> Result<Option<protocol::Reply>> {
        match self.replies.recv_timeout(wait) {
            Ok(Reply::Failed { reason }) => match &self.machine {
                Some(machine) => bail!("machine {machine}: {reason}"),
                None => bail!("{reason}"),
            },
            Ok(reply) => Ok(Some(reply)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => match &self.machine {
                Some(machine) => bail!(
                    "the connection to machine {machine} ended ({})\nhint: the log of the machine has what ssh and the \
                     shell there said",
                    self.child.wait()?
                ),
                None => bail!("the supervisor ended: {}", self.child.wait()?),
            },
        }
    }

    /// Reads replies until `wanted` returns a value, and passes all replies before that to `others`. Fails after
    /// `most`.
    pub fn wait_for<T>(
        &mut self,
        most: Duration,
        mut wanted: impl FnMut(&Reply) -> Option<T>,
        mut others: impl FnMut(Reply),
    ) -> Result<T> {
        let deadline = Instant::now() + most;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match self.next(left)? {
                Some(reply) => match wanted(&reply) {
                    Some(found) => return Ok(found),
                    None => others(reply),
                },
                None => break,
            }
        }
        bail!("no answer from the supervisor within {most:?}")
    }

    /// Ends the supervisor and waits until everything that it started is gone. Returns the directories of its control
    /// groups that could not be removed.
    pub fn end(mut self) -> Result<Vec<PathBuf>> {
        self.input = None;
        self.child.wait()?;
        // Control groups of another machine are not to be looked for here.
        let name = self.groups.parse::<GroupName>().ok().filter(|_| self.machine.is_none());
        Ok(name.map(|name| cgroup::remains(&Hierarchies::detect(), name)).unwrap_or_default())
    }

    /// Name that all control groups of the supervisor carry, if it creates any.
    pub fn groups(&self) -> &str {
        &self.groups
    }

    /// Process ID of the supervisor's outer process, the parent of its PID 1.
    pub fn outer_process(&self) -> u32 {
        self.child.id()
    }
}

/// Starts a command whose standard input and output are pipes, and whose standard error goes to `log`.
pub(crate) fn spawn(command: &mut Command, log: Option<&Path>) -> Result<Child> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    // A process group of its own: Control-C must reach only this program, whose end then ends the supervisor.
    command.process_group(0);
    if let Some(log) = log {
        command.stderr(File::create(log).with_context(|| format!("cannot create {}", log.display()))?);
    }
    command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// The reply that a line holds.
pub(crate) fn read_reply(line: &[u8]) -> Reply {
    serde_json::from_slice(line).unwrap_or_else(|e| Reply::Failed { reason: format!("unreadable answer: {e}") })
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}
