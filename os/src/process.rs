//! Child processes that end with their parent, run in another network namespace, and are accounted for.

use crate::namespace::{enter_ipc, enter_network, hide_mount};
use crate::schedule::set_real_time_in_turns;
use crate::{check, context};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Makes the kernel kill this process when the thread that started it ends. A change of credentials, such as entering a
/// user namespace, clears this: call it again.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes its argument by value.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) }).map(drop)
}

/// Number of threads of this process.
pub fn thread_count() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// Side of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// Parent, with the child's process ID.
    Parent(u32),
    /// The child process.
    Child,
}

/// Forks this process. Refused with more than one thread, as the child could find any lock held for ever.
pub fn fork() -> io::Result<Fork> {
    let threads = thread_count()?;
    if threads != 1 {
        return Err(io::Error::other(format!("fork needs a single-threaded process; this one has {threads} threads")));
    }
    // SAFETY: there is no other thread, so the child inherits no lock held by one and may go on
    // as an ordinary process.
    match check(unsafe { libc::fork() }).map_err(|e| context(e, "fork"))? {
        0 => Ok(Fork::Child),
        child => Ok(Fork::Parent(child as u32)),
    }
}

/// Environment in which a program is started.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Network namespace to enter.
    pub namespace: Option<OwnedFd>,
    /// Namespace of message queues and shared memory to enter.
    pub ipc: Option<OwnedFd>,
    /// Mount that the program shall not see; it then gets a mount namespace of its own.
    pub hidden_mount: Option<CString>,
    /// Files `cgroup.procs` of the control groups to enter, opened for writing.
    pub groups: Vec<OwnedFd>,
    /// Processors that the program may use; empty for all.
    pub processors: Vec<usize>,
    /// Real-time priority (`SCHED_RR`); `None` for ordinary scheduling.
    pub real_time: Option<i32>,
}

/// Makes `command` start in the given network namespace and real-time priority, if any, and die when the calling thread
/// ends.
pub fn start_in(command: &mut Command, namespace: Option<OwnedFd>, real_time: Option<i32>) {
    start_within(command, Surroundings { namespace, real_time, ..Surroundings::default() });
}

/// Makes `command` start in these surroundings and die when the calling thread ends.
pub fn start_within(command: &mut Command, surroundings: Surroundings) {
    let processors = (!surroundings.processors.is_empty()).then(|| processor_set(&surroundings.processors));
    let start = move || {
        for group in &surroundings.groups {
            // 0 stands for the process that writes.
            rustix::io::write(group, b"0")?;
        }
        if let Some(processors) = &processors {
            rustix::thread::sched_setaffinity(None, processors)?;
        }
        if let Some(namespace) = &surroundings.namespace {
            enter_network(namespace.as_fd())?;
        }
        if let Some(ipc) = &surroundings.ipc {
            enter_ipc(ipc.as_fd())?;
        }
        if let Some(mount) = &surroundings.hidden_mount {
            hide_mount(mount)?;
        }
        if let Some(priority) = surroundings.real_time {
            set_real_time_in_turns(priority)?;
        }
        die_with_parent()
    };
    // SAFETY: between fork and exec the closure makes system calls only (write, sched_setaffinity, setns,
    // unshare, mount, sched_setscheduler, prctl); it allocates nothing and takes no lock.
    unsafe { command.pre_exec(start) };
}

fn processor_set(processors: &[usize]) -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    // Numbers beyond the set's size name no processor of this machine.
    processors.iter().filter(|processor| **processor < rustix::thread::CpuSet::MAX_CPU).for_each(|p| set.set(*p));
    set
}

/// Numbers of the processors that the calling thread may use.
pub fn allowed_processors() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
}

/// Moves this process into a new session and replaces its standard input and output by `/dev/null`, so that signals to
/// the caller's terminal do not reach it and it keeps no pipe open.
pub fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    let nothing = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}

/// Creates a close-on-exec pipe; returns its read end and its write end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Lets programs that this one starts have the descriptor, under the same number.
pub fn let_inherit(fd: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
}

/// A copy of a descriptor that the program which started this one [left open](let_inherit); programs that this one
/// starts get neither of them.
///
/// # Errors
/// If there is no open descriptor of that number.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    let no = || io::Error::other(format!("descriptor {number} was not left open"));
    // SAFETY: these requests take an integer and touch no memory; a wrong number is an error.
    let set = |request: i32, value: i32| check(unsafe { libc::fcntl(number, request, value) });
    if number < 0 {
        return Err(no());
    }
    set(libc::F_SETFD, libc::FD_CLOEXEC).map_err(|_| no())?;
    let copy = set(libc::F_DUPFD_CLOEXEC, 3)?;
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Status and resource usage of a child that ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedChild {
    /// Process ID of the child.
    pub process: u32,
    /// Exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Signal that ended the child, if any.
    pub signal: Option<i32>,
    /// Processor time in user mode, including awaited children.
    pub cpu_user: Duration,
    /// Processor time in the kernel, including awaited children.
    pub cpu_system: Duration,
    /// Peak resident memory, bytes, of the child or its largest awaited child.
    pub resident_peak: u64,
}

/// Reaps one ended child, if there is one.
pub fn reap() -> io::Result<Option<EndedChild>> {
    let mut status: libc::c_int = 0;
    // SAFETY: rusage is plain old data; all zeros is a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to whole values that outlive the call.
    let child = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    match check(child) {
        Ok(0) => Ok(None),
        Ok(child) => Ok(Some(EndedChild {
            process: child as u32,
            code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            cpu_user: duration(usage.ru_utime),
            cpu_system: duration(usage.ru_stime),
            resident_peak: (usage.ru_maxrss as u64).saturating_mul(1024),
        })),
        Err(e) if e.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        Err(e) => Err(e),
    }
}

fn duration(t: libc::timeval) -> Duration {
    Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
}

/// Processor time used by the calling thread.
pub fn thread_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Waits until a child ends; returns its exit status, or 128 plus the signal.
pub fn wait_for(process: u32) -> io::Result<i32> {
    let pid = pid(process)?;
    loop {
        match rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                return Ok(status.exit_status().or(status.terminating_signal().map(|s| 128 + s)).unwrap_or(1));
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Flag set by the handler of [`watch_termination`].
static TERMINATION: std::sync::OnceLock<std::sync::Arc<std::sync::atomic::AtomicBool>> = std::sync::OnceLock::new();

extern "C" fn note_termination(_signal: libc::c_int) {
    if let Some(flag) = TERMINATION.get() {
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Makes SIGTERM, SIGINT and SIGHUP (terminal closed) set the returned flag instead of ending the process. An ignored
/// SIGHUP stays ignored, as `nohup` expects.
pub fn watch_termination() -> io::Result<std::sync::Arc<std::sync::atomic::AtomicBool>> {
    let flag = std::sync::Arc::clone(TERMINATION.get_or_init(std::sync::Arc::default));
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        if signal == libc::SIGHUP && is_ignored(signal)? {
            continue;
        }
        // SAFETY: sigaction is plain old data; all zeros is a value of it (no flags, empty mask).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = note_termination as *const () as libc::sighandler_t;
        // SAFETY: the handler only reads an initialised OnceLock and stores to an atomic, both of
        // which are safe in a signal handler; action is a whole sigaction.
        check(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) })?;
    }
    Ok(flag)
}

/// Whether this process ignores a signal.
fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: sigaction is plain old data; all zeros is a value of it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed, and action has room for the result.
    check(unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) })?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// Signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Request to end (`SIGTERM`).
    Terminate,
    /// Immediate end (`SIGKILL`).
    Kill,
    /// Interrupt, as by Control-C (`SIGINT`).
    Interrupt,
    /// Suspend (`SIGSTOP`).
    Stop,
    /// Resume (`SIGCONT`).
    Continue,
}

impl Signal {
    fn raw(self) -> rustix::process::Signal {
        use rustix::process::Signal as Raw;
        match self {
            Signal::Terminate => Raw::TERM,
            Signal::Kill => Raw::KILL,
            Signal::Interrupt => Raw::INT,
            Signal::Stop => Raw::STOP,
            Signal::Continue => Raw::CONT,
        }
    }
}

/// Sends a signal to one process.
pub fn signal(process: u32, which: Signal) -> io::Result<()> {
    Ok(rustix::process::kill_process(pid(process)?, which.raw())?)
}

/// Sends a signal to all processes of a group, named by its first process.
pub fn signal_group(first: u32, which: Signal) -> io::Result<()> {
    Ok(rustix::process::kill_process_group(pid(first)?, which.raw())?)
}

fn pid(process: u32) -> io::Result<rustix::process::Pid> {
    i32::try_from(process)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "process ID 0"))
}

/// Raises the limit of open files and sockets to the maximum permitted; returns the limit.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_is_refused_with_threads() {
        // The test harness has several threads.
        let error = fork().unwrap_err().to_string();
        assert!(error.contains("single-threaded"), "{error}");
    }

    #[test]
    fn hangup_ends_unless_ignored() {
        let hang_up =
            || rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
        // SAFETY: ignoring a signal touches no memory.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
        let flag = watch_termination().unwrap();
        hang_up();
        assert!(!flag.load(std::sync::atomic::Ordering::Relaxed), "under nohup it goes on");
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
        let flag = watch_termination().unwrap();
        hang_up();
        // Any thread may handle the signal, perhaps after a delay.
        while !flag.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn child_ends_with_its_starter() {
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut command = Command::new("sleep");
            command.arg("60");
            start_in(&mut command, None, None);
            send.send(command.spawn().unwrap()).unwrap();
        })
        .join()
        .unwrap();
        let mut child = receive.recv().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn child_keeps_its_start_priority() {
        if !crate::schedule::may_be_real_time() {
            return println!("skipped: real-time scheduling is not permitted");
        }
        let mut command = Command::new("sleep");
        start_in(command.arg("60"), None, Some(7));
        let mut child = command.spawn().unwrap();
        // Fields 40 and 41 of proc_pid_stat(5): real-time priority, and policy (2 is `SCHED_RR`).
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((fields[37], fields[38]), ("7", "2"), "{stat}");
    }

    #[test]
    fn thread_time_grows_with_work() {
        let before = thread_cpu();
        let mut x = 1u64;
        for i in 0..2_000_000u64 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        assert!(thread_cpu() > before);
    }
}
