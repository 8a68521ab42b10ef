//! Outbox of the agent: messages to the testbed, written by a thread of its own. A slow connection delays nothing but
//! files: lines are written before waiting parts of files, and whoever adds a line does not wait.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes of lines that wait; the supervisor then waits, too.
const LINES_MAX: usize = 64 << 20;

/// Messages that wait for the connection.
#[derive(Debug, Default)]
pub struct Outbox {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Part of a file, or a line that must come after all parts before it.
    part: Option<Vec<u8>>,
    writing: bool,
    /// Whether the connection takes nothing more.
    closed: bool,
}

impl Waiting {
    fn take(&mut self) -> Option<Vec<u8>> {
        let message = match self.lines.pop_front() {
            Some(line) => {
                self.bytes -= line.len();
                line
            }
            None => self.part.take()?,
        };
        self.writing = true;
        Some(message)
    }

    fn is_empty(&self) -> bool {
        self.closed || (self.lines.is_empty() && self.part.is_none() && !self.writing)
    }
}

impl Outbox {
    /// Starts the thread that writes to `out`.
    pub fn start(out: impl Write + Send + 'static) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox::default());
        let shared = Arc::clone(&outbox);
        std::thread::spawn(move || shared.write_to(out));
        outbox
    }

    fn write_to(&self, mut out: impl Write) {
        let mut state = self.lock();
        loop {
            let Some(message) = state.take() else {
                state = self.wait(state, Duration::from_secs(1));
                continue;
            };
            drop(state);
            let written = out.write_all(&message).and_then(|()| out.flush());
            state = self.lock();
            state.writing = false;
            state.closed |= written.is_err();
            self.changed.notify_all();
            if state.closed {
                return;
            }
        }
    }

    /// Adds a line, with its end.
    pub fn line(&self, line: Vec<u8>) {
        let mut state = self.lock();
        while state.bytes > LINES_MAX && !state.closed {
            state = self.wait(state, Duration::from_secs(1));
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        self.changed.notify_all();
    }

    /// Adds a part of a file, after those before it; waits until there is room.
    pub fn part(&self, part: Vec<u8>) {
        let mut state = self.lock();
        while state.part.is_some() && !state.closed {
            state = self.wait(state, Duration::from_secs(1));
        }
        state.part = Some(part);
        self.changed.notify_all();
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Waits at most `most` until everything is written.
    pub fn flush(&self, most: Duration) {
        let deadline = Instant::now() + most;
        let mut state = self.lock();
        while !state.is_empty() && Instant::now() < deadline {
            state = self.wait(state, Duration::from_millis(50));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, Waiting>, most: Duration) -> MutexGuard<'a, Waiting> {
        self.changed.wait_timeout(state, most).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn lines_overtake_parts_of_files() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let outbox = Outbox::start(writer);
        // Longer than the pipe, so that it is under way while the others wait.
        outbox.part(vec![b'x'; 1 << 20]);
        while outbox.lock().part.is_some() {
            std::thread::yield_now();
        }
        outbox.part(b"part\n".to_vec());
        outbox.line(b"line\n".to_vec());
        outbox.flush(Duration::from_millis(10));
        assert!(!outbox.is_empty(), "nothing is read yet");
        let mut first = vec![0; 1 << 20];
        reader.read_exact(&mut first).unwrap();
        let mut rest = [0; 10];
        reader.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"line\npart\n");
        outbox.flush(Duration::from_secs(20));
        assert!(outbox.is_empty());
    }

    #[test]
    fn closed_connection_holds_up_nobody() {
        let (reader, writer) = std::io::pipe().unwrap();
        let outbox = Outbox::start(writer);
        drop(reader);
        (0..3).for_each(|_| outbox.part(b"part".to_vec()));
        outbox.flush(Duration::from_secs(20));
        assert!(outbox.is_empty());
    }
}
