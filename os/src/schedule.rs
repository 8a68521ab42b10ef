//! Scheduling of this thread: real-time priority, timer slack, processors, and waiting until a deadline.

use crate::{check, context, monotonic_ns};
use std::io;
use std::os::fd::BorrowedFd;

/// Sets first-in-first-out real-time scheduling (`SCHED_FIFO`) for the calling thread; priority 1 (lowest) to 99.
pub fn set_real_time(priority: i32) -> io::Result<()> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority).map_err(|e| context(e, "real-time scheduling"))
}

/// Sets round-robin real-time scheduling (`SCHED_RR`) for the calling thread and its later children; priority 1
/// (lowest) to 99. For programs that share a processor with others of the same priority.
pub fn set_real_time_in_turns(priority: i32) -> io::Result<()> {
    set_policy(libc::SCHED_RR, priority)
}

/// Sets ordinary scheduling for the calling thread.
pub fn set_ordinary() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER, 0)
}

fn set_policy(policy: libc::c_int, priority: i32) -> io::Result<()> {
    // Calls the kernel directly: the function of musl fails with ENOSYS, as Linux sets the policy of a thread, and
    // POSIX asks for that of a process.
    // SAFETY: the kernel's sched_param is one int, which outlives the call; 0 names the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether this process may start programs with real-time scheduling. Leaves the calling thread with ordinary
/// scheduling.
pub fn may_be_real_time() -> bool {
    set_real_time_in_turns(1).and_then(|()| set_ordinary()).is_ok()
}

/// Sets the nice value of the calling thread, for machines that do not permit real-time scheduling.
pub fn set_nice(value: i32) -> io::Result<()> {
    rustix::process::setpriority_process(None, value).map_err(|e| context(e.into(), "nice value"))
}

/// Sets the delay in ns by which the kernel may combine wake-ups of the calling thread: at least 1, by default 50,000.
pub fn set_timer_slack(nanoseconds: u64) -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes its argument by value.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds.max(1) as libc::c_ulong, 0, 0, 0) }).map(drop)
}

/// Number of processors that the calling thread may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Sleeps until one of `fds` is readable or the monotonic clock reaches `deadline_ns` (`None`: never); returns whether
/// one is readable. A signal ends the wait early.
pub fn wait_readable(fds: &[BorrowedFd<'_>], deadline_ns: Option<u64>) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = deadline_ns.map(|deadline| {
        let left = deadline.saturating_sub(monotonic_ns());
        Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ }
    });
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match poll(&mut polled, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn wait_ends_at_deadline() {
        set_timer_slack(1).unwrap();
        let (reader, _writer) = std::io::pipe().unwrap();
        let deadline = monotonic_ns() + 5_000_000;
        assert!(!wait_readable(&[reader.as_fd()], Some(deadline)).unwrap());
        assert!(monotonic_ns() >= deadline);
    }

    #[test]
    fn wait_ends_when_readable() {
        use std::io::Write;
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        assert!(wait_readable(&[reader.as_fd()], Some(monotonic_ns() + 60_000_000_000)).unwrap());
    }

    #[test]
    fn real_time_refusal_is_explained() {
        std::thread::spawn(|| match set_real_time(1) {
            Ok(()) => println!("real-time scheduling is permitted"),
            Err(e) => assert!(e.to_string().contains("real-time")),
        })
        .join()
        .unwrap();
    }
}
