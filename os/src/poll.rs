//! Readiness of many file descriptors (epoll, edge-triggered), with nanosecond timeouts and wake-ups from other
//! threads.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// State of a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Token of the descriptor.
    pub token: u64,
    /// Reading returns bytes, a connection, the end or an error.
    pub readable: bool,
    /// Writing makes progress or returns an error.
    pub writable: bool,
    /// The peer sends no more, or the connection failed: read to the end, even after a short read, as no other report
    /// follows.
    pub ended: bool,
}

/// Set of watched file descriptors. Edge-triggered: after a report, read or write until `WouldBlock` before the next
/// wait.
pub struct Poller {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    events: Vec<epoll::Event>,
}

// SAFETY: the room for events holds numbers under which descriptors were added (`EventData::new_u64`), never pointers:
// whichever thread waits, they mean the same.
unsafe impl Send for Poller {}

/// Wakes a [`Poller`] from another thread.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);
impl Waker {
    /// Makes the poller's `wait` return; several calls before that count as one.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

const WAKE: u64 = u64::MAX;

impl Poller {
    /// Creates an empty set.
    ///
    /// # Errors
    /// System call errors.
    pub fn new() -> io::Result<Poller> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Poller { epoll, wake, events: Vec::with_capacity(256) })
    }
    /// Handle for other threads to wake this poller.
    pub fn waker(&self) -> Waker {
        Waker(self.wake.clone())
    }
    /// Watches a descriptor for reading and writing under a token (not `u64::MAX`), until it is closed.
    ///
    /// # Errors
    /// System call errors.
    pub fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags)?)
    }
    /// Watches a descriptor for reading only: on a Unix socket, every read by the peer would be reported as room to
    /// write.
    ///
    /// # Errors
    /// System call errors.
    pub fn add_reader(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags)?)
    }
    /// Starts or stops watching a descriptor from [`Poller::add_reader`] for writing, too. A condition that already
    /// holds is reported.
    ///
    /// # Errors
    /// System call errors.
    pub fn watch_room(&self, fd: impl AsFd, token: u64, room: bool) -> io::Result<()> {
        let reads = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        let flags = if room { reads | EventFlags::OUT } else { reads };
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token), flags)?)
    }
    /// Waits until a descriptor is ready or `timeout` has passed (`None`: for ever); calls `each` for every ready one.
    /// An interrupted wait returns early.
    ///
    /// # Errors
    /// System call errors.
    pub fn wait(&mut self, timeout: Option<Duration>, mut each: impl FnMut(Readiness)) -> io::Result<()> {
        let timeout = timeout.map(|t| rustix::event::Timespec {
            tv_sec: t.as_secs().min(1 << 30) as i64,
            tv_nsec: t.subsec_nanos().into(),
        });
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            let flags = event.flags;
            let token = event.data.u64();
            if token == WAKE {
                let mut count = [0; 8];
                let _ = rustix::io::read(&self.wake, &mut count);
                continue;
            }
            let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            each(Readiness {
                token,
                readable: failed || flags.intersects(EventFlags::IN | EventFlags::RDHUP),
                writable: failed || flags.contains(EventFlags::OUT),
                ended: failed || flags.contains(EventFlags::RDHUP),
            });
        }
        Ok(())
    }

    /// Like [`Poller::wait`], with a timeout of nanoseconds: `epoll_wait` rounds up to the next millisecond. Costs a
    /// system call more.
    ///
    /// # Errors
    /// System call errors.
    pub fn wait_precisely(&mut self, timeout: Duration, each: impl FnMut(Readiness)) -> io::Result<()> {
        if !timeout.is_zero() {
            let timeout = rustix::event::Timespec {
                tv_sec: timeout.as_secs().min(1 << 30) as i64,
                tv_nsec: timeout.subsec_nanos().into(),
            };
            // The set itself is readable while any of its members is ready.
            let mut set = [rustix::event::PollFd::new(&self.epoll, rustix::event::PollFlags::IN)];
            match rustix::event::poll(&mut set, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.wait(Some(Duration::ZERO), each)
    }
}

/// Makes this thread's timed waits end on time rather than up to 50 us late.
pub fn precise_timers() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Instant;

    #[test]
    fn waits_wakes_and_reports_readiness() {
        let mut poller = Poller::new().unwrap();
        let start = Instant::now();
        poller.wait(Some(Duration::from_micros(2500)), |_| panic!("nothing is ready")).unwrap();
        assert!(start.elapsed() >= Duration::from_micros(2400));
        let start = Instant::now();
        poller.wait_precisely(Duration::from_micros(2500), |_| panic!("nothing is ready")).unwrap();
        assert!(start.elapsed() >= Duration::from_micros(2500));
        let waker = poller.waker();
        std::thread::spawn(move || waker.wake());
        poller.wait(Some(Duration::from_secs(10)), |_| {}).unwrap();
        let (mut a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        poller.add(&b, 7).unwrap();
        a.write_all(b"x").unwrap();
        let mut seen = Vec::new();
        poller.wait(Some(Duration::from_secs(10)), |r| seen.push(r)).unwrap();
        assert_eq!(seen, [Readiness { token: 7, readable: true, writable: true, ended: false }]);
        a.write_all(b"last words").unwrap();
        a.shutdown(std::net::Shutdown::Write).unwrap();
        seen.clear();
        poller.wait_precisely(Duration::from_secs(10), |r| seen.push(r)).unwrap();
        assert_eq!(seen, [Readiness { token: 7, readable: true, writable: true, ended: true }]);
    }
}
