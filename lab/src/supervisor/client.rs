//! Client of a supervisor: starts the process and exchanges messages with it.

use super::protocol::{Reply, Request};
use super::{ARGUMENT, protocol};
use crate::remote::Heard;
use anyhow::{Context, Result, bail};
use farlink_os::cgroup::{self, GroupName, Hierarchies};
use farlink_os::process::{Signal, signal_group};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Interval at which a wait for another machine looks whether it should go on.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);
/// Longest wait for a supervisor to be ready.
const READY: Duration = Duration::from_secs(10);
/// Time in which a connection must take something. `ssh` takes 16 KiB at a time, so one of 300 byte/s does.
const STALL: Duration = Duration::from_secs(60);
/// Time for a machine to tidy up after a run, after a failure, and after a wait that was stopped; then `ssh` is killed,
/// and the machine goes on alone.
const TIDY: Duration = Duration::from_secs(15);
const TIDY_FAILED: Duration = Duration::from_secs(3);
const TIDY_STOPPED: Duration = Duration::from_millis(500);
/// Bytes at the end of a log in which its last line is looked for.
const LOG_END: u64 = 4096;
/// Time for which requests may still wait for the connection when the run is being stopped.
const STOPPED: Duration = Duration::from_secs(10);

/// Running supervisor. Dropping it ends the supervisor's process and everything that this started.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    input: Option<Arc<Mutex<UnixStream>>>,
    replies: Receiver<Reply>,
    /// Connection to the other machine on which the supervisor runs.
    connection: Option<Connection>,
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

/// Connection to a supervisor on another machine, and what ends a wait for it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Destination, as the scenario names it.
    pub at: String,
    /// File for what `ssh` and the shell there say.
    pub log: PathBuf,
    /// Flag that the caller sets to stop the run.
    pub stop: Arc<AtomicBool>,
    pub heard: Heard,
}

impl Connection {
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Fails if the run is to be stopped.
    pub fn check_stop(&self) -> Result<()> {
        if self.is_stopped() {
            bail!("machine {}: stopped", self.at);
        }
        Ok(())
    }

    /// Last line that `ssh` or the shell there wrote.
    pub fn said(&self) -> String {
        let mut text = Vec::new();
        // The machine chooses how long it is.
        let _ = File::open(&self.log).and_then(|mut log| {
            let end = log.seek(SeekFrom::End(0))?;
            log.seek(SeekFrom::Start(end.saturating_sub(LOG_END)))?;
            log.take(LOG_END).read_to_end(&mut text)
        });
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().rfind(|line| !line.trim().is_empty());
        line.map_or_else(String::new, |line| format!(": {}", protocol::plain(line.trim())))
    }
}

impl Supervisor {
    /// Starts `program` as a supervisor; its `main` must first call [`super::run_if_asked`]. Standard error of the
    /// supervisor and its emulator goes to the file `log`, or to this process's if `None`. The calling thread must
    /// outlive the supervisor: when the thread ends, the kernel ends the supervisor.
    pub fn start(program: &Path, log: Option<&Path>) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg(ARGUMENT);
        let (mut child, input) = spawn(command, log)?;
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
        let mut supervisor = Supervisor::of(child, input, replies, None);
        supervisor.greet()?;
        Ok(supervisor)
    }

    /// Supervisor of a started process, or of one at the other end of a connection.
    pub(crate) fn of(
        child: Child,
        input: UnixStream,
        replies: Receiver<Reply>,
        connection: Option<Connection>,
    ) -> Supervisor {
        Supervisor {
            child,
            input: Some(Arc::new(Mutex::new(input))),
            replies,
            connection,
            process: 0,
            user_namespace: false,
            groups: String::new(),
            swept: Default::default(),
        }
    }

    /// Waits until the supervisor is ready.
    pub(crate) fn greet(&mut self) -> Result<()> {
        match self.wait_for(READY, |reply| Some(reply.clone()), |_| {})? {
            Reply::Ready { process, user_namespace, groups, swept } => {
                self.process = process;
                self.user_namespace = user_namespace;
                (self.groups, self.swept) = (groups, swept);
                Ok(())
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
        if let Err(error) = self.send(bytes)? {
            // The supervisor may have sent a `Failed` reply before it ended. `next` then fails with the reason, which
            // explains more than a broken pipe.
            while let Some(reply) = self.next(Duration::from_millis(200))? {
                drop(reply);
            }
            bail!("the supervisor is gone: {error}");
        }
        Ok(())
    }

    /// Sends bytes; the inner result tells whether they were taken.
    ///
    /// # Errors
    /// If another machine takes nothing for a long time, or the run is stopped meanwhile.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<io::Result<()>> {
        let input = self.input.clone().context("the supervisor was told to end")?;
        let mut socket = loop {
            match input.try_lock() {
                Ok(socket) => break socket,
                // The word that this end is there, which is short.
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::Poisoned(_)) => return Ok(Err(io::Error::other("a thread panicked"))),
            }
        };
        let (begun, mut taken, mut left) = (Instant::now(), Instant::now(), bytes);
        let stopped_before = self.connection.as_ref().is_some_and(Connection::is_stopped);
        while !left.is_empty() {
            match socket.write(left) {
                Ok(0) => return Ok(Err(ErrorKind::WriteZero.into())),
                Ok(count) => (left, taken) = (&left[count..], Instant::now()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Ok(Err(error)),
            }
            let Some(connection) = self.connection.as_ref().filter(|_| !left.is_empty()) else { continue };
            if !stopped_before || begun.elapsed() > STOPPED {
                connection.check_stop()?;
            }
            if taken.elapsed() > STALL {
                bail!("machine {}: the connection has taken nothing for {STALL:?}", connection.at);
            }
        }
        Ok(Ok(()))
    }

    /// Standard input of the supervisor, until it is told to end.
    pub(crate) fn input(&self) -> Option<Arc<Mutex<UnixStream>>> {
        self.input.clone()
    }

    /// Waits at most `wait` for the next reply; `None` if there was none. Fails if the supervisor has failed or ended,
    /// and if another machine is silent.
    pub fn next(&mut self, wait: Duration) -> Result<Option<protocol::Reply>> {
        let reply = self.replies.recv_timeout(wait);
        let Some(connection) = &self.connection else {
            return match reply {
                Ok(Reply::Failed { reason }) => bail!("{reason}"),
                Ok(reply) => Ok(Some(reply)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => bail!("the supervisor ended: {}", self.child.wait()?),
            };
        };
        let (at, log) = (&connection.at, connection.log.display());
        match reply {
            Ok(Reply::Failed { reason }) => bail!("machine {at}: {reason}"),
            Ok(reply) => Ok(Some(reply)),
            Err(RecvTimeoutError::Timeout) if connection.heard.is_silent() => bail!(
                "machine {at}: nothing has come from it for 30 s, although the connection is still there\nhint: the \
                 program there may be stopped, or the machine too busy"
            ),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!(
                "the connection to machine {at} ended ({}){}\nhint: {log} has what ssh and the shell there said; \
                 programs there may also have been killed",
                how(&mut self.child, TIDY_FAILED)?.0,
                connection.said()
            ),
        }
    }

    /// Reason for which a supervisor that was not ready yet has failed, and how its process ended, in words and as its
    /// exit status.
    pub(crate) fn why_ended(&mut self) -> Result<(Option<String>, String, Option<i32>)> {
        let said = self.replies.try_iter().find_map(|reply: Reply| match reply {
            Reply::Failed { reason } => Some(reason),
            _ => None,
        });
        let (how, code) = how(&mut self.child, TIDY_FAILED)?;
        Ok((said, how, code))
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
            match self.next(left.min(GLANCE))? {
                Some(reply) => match wanted(&reply) {
                    Some(found) => return Ok(found),
                    None => others(reply),
                },
                None => self.connection.as_ref().map_or(Ok(()), Connection::check_stop)?,
            }
        }
        bail!("no answer from the supervisor within {most:?}")
    }

    /// Ends the supervisor and waits until everything that it started is gone. Returns the directories of its control
    /// groups that could not be removed.
    pub fn end(mut self) -> Result<Vec<PathBuf>> {
        self.input = None;
        if self.connection.is_some() {
            end_within(&mut self.child, TIDY)?;
            // Control groups of another machine are not to be looked for here.
            return Ok(Vec::new());
        }
        self.child.wait()?;
        let name = self.groups.parse::<GroupName>().ok();
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

/// Starts a command whose standard input is the returned socket, whose standard output is a pipe, and whose standard
/// error goes to `log`.
pub(crate) fn spawn(mut command: Command, log: Option<&Path>) -> Result<(Child, UnixStream)> {
    // A socket, unlike a pipe, lets writing have a limit.
    let (ours, theirs) = UnixStream::pair()?;
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped());
    // A process group of its own: Control-C must reach only this program, whose end then ends the supervisor.
    command.process_group(0);
    if let Some(log) = log {
        command.stderr(File::create(log).with_context(|| format!("cannot create {}", log.display()))?);
    }
    let child = command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    Ok((child, ours))
}

/// How a process ended that has closed its output, in words and as its exit status.
fn how(child: &mut Child, most: Duration) -> io::Result<(String, Option<i32>)> {
    let begun = Instant::now();
    let status = end_within(child, most)?;
    let killed = begun.elapsed() >= most;
    let text = if killed { "it closed its output, went on, and was killed".into() } else { status.to_string() };
    Ok((text, status.code()))
}

/// Waits at most `most` for a process to end, then kills it and its group.
fn end_within(child: &mut Child, most: Duration) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + most;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            signal_group(child.id(), Signal::Kill)?;
            return child.wait();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The reply that a line holds.
pub(crate) fn read_reply(line: &[u8]) -> Reply {
    serde_json::from_slice(line).unwrap_or_else(|e| Reply::Failed { reason: format!("unreadable answer: {e}") })
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.input = None;
        // After a run that ended well, the process has ended already.
        let _ = match &self.connection {
            Some(connection) if connection.is_stopped() => end_within(&mut self.child, TIDY_STOPPED),
            Some(_) => end_within(&mut self.child, TIDY_FAILED),
            None => self.child.wait(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Supervisor behind an `ssh` that neither reads nor writes nor ends.
    fn sleeping() -> Supervisor {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let (child, input) = spawn(command, None).unwrap();
        input.set_write_timeout(Some(GLANCE)).unwrap();
        let stop = Arc::default();
        let connection = Connection { at: "far".into(), log: "/none".into(), stop, heard: Heard::now() };
        Supervisor::of(child, input, channel().1, Some(connection))
    }

    #[test]
    fn connection_that_takes_nothing_can_be_stopped() {
        let mut supervisor = sleeping();
        let stop = Arc::clone(&supervisor.connection.as_ref().unwrap().stop);
        let begun = Instant::now();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        });
        let why = supervisor.write(&vec![0; 8 << 20]).unwrap_err().to_string();
        assert!(why.contains("machine far: stopped"), "{why}");
        drop(supervisor);
        assert!(begun.elapsed() < Duration::from_secs(15), "the process was killed");
    }

    #[test]
    fn process_that_stays_without_output_is_killed() {
        let mut supervisor = sleeping();
        let begun = Instant::now();
        let why = supervisor.next(Duration::ZERO).unwrap_err().to_string();
        assert!(why.contains("the connection to machine far ended (it closed its output, went on"), "{why}");
        assert!(why.contains("hint: /none has what"), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
}
