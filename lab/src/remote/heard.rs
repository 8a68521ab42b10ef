//! Time of the last byte from the other end of a connection: what ends a connection is silence, not a long message.

use farlink_os::monotonic_ns;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Silence after which the other end counts as gone: both ends say every few seconds that they are there.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Interval at which each end says so.
pub const ALIVE: Duration = Duration::from_secs(3);

/// Time of the last byte from the other end, on the monotonic clock (ns).
#[derive(Clone, Debug)]
pub struct Heard(Arc<AtomicU64>);

impl Heard {
    pub fn now() -> Heard {
        Heard(Arc::new(AtomicU64::new(monotonic_ns())))
    }

    pub fn note(&self) {
        self.0.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// Whether nothing has come for [`SILENCE`].
    pub fn is_silent(&self) -> bool {
        monotonic_ns().saturating_sub(self.0.load(Ordering::Relaxed)) > SILENCE.as_nanos() as u64
    }
}

/// Input that notes when bytes come.
pub struct NotingReader<R> {
    pub input: R,
    pub heard: Heard,
}

impl<R: Read> Read for NotingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.heard.note();
        Ok(count)
    }
}

/// Reads a line with its end; empty at the end of the input.
///
/// # Errors
/// As reading has them, and a line longer than `most`.
pub fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, most: usize) -> io::Result<()> {
    line.clear();
    input.take(most as u64 + 1).read_until(b'\n', line)?;
    if line.len() > most {
        return Err(io::Error::other(format!("a line of more than {most} bytes came")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_without_end_is_refused() {
        let mut line = Vec::new();
        let mut input = io::BufReader::new(&b"one\ntwo\nlong line"[..]);
        read_line(&mut input, &mut line, 4).unwrap();
        read_line(&mut input, &mut line, 4).unwrap();
        assert_eq!(line, b"two\n");
        assert!(read_line(&mut input, &mut line, 4).unwrap_err().to_string().contains("more than 4 bytes"));
    }

    #[test]
    fn every_byte_ends_silence() {
        let heard = Heard(Arc::new(AtomicU64::new(0)));
        let mut reader = NotingReader { input: io::repeat(7), heard: heard.clone() };
        assert!(monotonic_ns() < SILENCE.as_nanos() as u64 || heard.is_silent());
        reader.read_exact(&mut [0; 3]).unwrap();
        assert!(!heard.is_silent());
    }
}
