//! Bounded queue of frames from the thread of a link to an ordinary thread. The link's side never waits: it takes no
//! lock that a thread of lower priority could hold, allocates nothing, and makes no system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words before the bytes of a frame: the frame's time and its length.
const HEADER: usize = 2;
const WORD: usize = size_of::<u64>();

/// Memory of a queue, as atomic words, which threads may share without `unsafe`.
#[derive(Debug)]
struct Shared {
    words: Box<[AtomicU64]>,
    /// Number of words read and written since the start.
    read: AtomicU64,
    written: AtomicU64,
    /// Number of frames for which there was no room.
    missed: AtomicU64,
}

/// The link's side of a queue.
#[derive(Debug)]
pub struct FrameWriter {
    shared: Arc<Shared>,
    written: u64,
}

/// The ordinary thread's side of a queue.
#[derive(Debug)]
pub struct FrameReader {
    shared: Arc<Shared>,
    read: u64,
}

/// Creates a queue of `bytes` bytes, rounded up to a power of two; each frame takes its length, rounded up to whole
/// words, plus 16. The memory is populated at once, since page faults would delay the link.
pub fn frame_queue(bytes: usize) -> (FrameWriter, FrameReader) {
    let words = (0..(bytes / WORD).next_power_of_two()).map(|_| AtomicU64::new(0)).collect();
    let zero = || AtomicU64::new(0);
    let shared = Arc::new(Shared { words, read: zero(), written: zero(), missed: zero() });
    (FrameWriter { shared: Arc::clone(&shared), written: 0 }, FrameReader { shared, read: 0 })
}

impl Shared {
    fn word(&self, place: u64) -> &AtomicU64 {
        // The number of words is a power of two, since a division for each word would cost more than the copy.
        &self.words[place as usize & (self.words.len() - 1)]
    }
}

impl FrameWriter {
    /// Adds a frame, or counts it as missed if there is no room.
    pub fn push(&mut self, at_ns: u64, frame: &[u8]) {
        let needed = (HEADER + frame.len().div_ceil(WORD)) as u64;
        let used = self.written - self.shared.read.load(Ordering::Acquire);
        if used + needed > self.shared.words.len() as u64 {
            self.shared.missed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut put = |word: u64| {
            self.shared.word(self.written).store(word, Ordering::Relaxed);
            self.written += 1;
        };
        put(at_ns);
        put(frame.len() as u64);
        let (whole, rest) = frame.as_chunks::<WORD>();
        whole.iter().for_each(|bytes| put(u64::from_le_bytes(*bytes)));
        if !rest.is_empty() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            put(u64::from_le_bytes(last));
        }
        // Releases the words above to the reader.
        self.shared.written.store(self.written, Ordering::Release);
    }
}

impl FrameReader {
    /// Time of the next frame; `None` if the queue is empty.
    pub fn next_at(&self) -> Option<u64> {
        let any = self.shared.written.load(Ordering::Acquire) > self.read;
        any.then(|| self.shared.word(self.read).load(Ordering::Relaxed))
    }

    /// Moves the next frame into `frame`, and returns its time; `None` if the queue is empty.
    pub fn pop(&mut self, frame: &mut Vec<u8>) -> Option<u64> {
        let at_ns = self.next_at()?;
        let length = self.shared.word(self.read + 1).load(Ordering::Relaxed) as usize;
        let first = self.read + HEADER as u64;
        self.read = first + length.div_ceil(WORD) as u64;
        frame.clear();
        for place in first..self.read {
            frame.extend_from_slice(&self.shared.word(place).load(Ordering::Relaxed).to_le_bytes());
        }
        frame.truncate(length);
        self.shared.read.store(self.read, Ordering::Release);
        Some(at_ns)
    }

    /// Number of frames since the start for which there was no room.
    pub fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_order_and_whole() {
        let (mut writer, mut reader) = frame_queue(1 << 10);
        let mut frame = Vec::new();
        for round in 0..1000u64 {
            let sent = vec![round as u8; (round % 97) as usize];
            writer.push(round, &sent);
            writer.push(round + 1, b"x");
            assert_eq!(reader.next_at(), Some(round));
            assert_eq!((reader.pop(&mut frame), &frame), (Some(round), &sent));
            assert_eq!((reader.pop(&mut frame), &frame[..]), (Some(round + 1), &b"x"[..]));
            assert_eq!(reader.pop(&mut frame), None);
        }
        assert_eq!(reader.missed(), 0);
    }

    #[test]
    fn full_queue_counts_missed_frames() {
        let (mut writer, mut reader) = frame_queue(10 * (HEADER + 1) * WORD);
        let mut frame = Vec::new();
        (0..15).for_each(|number| writer.push(number, &[number as u8; 8]));
        writer.push(99, &[0; 1000]);
        assert_eq!(reader.missed(), 6);
        let kept: Vec<u64> = std::iter::from_fn(|| reader.pop(&mut frame)).collect();
        assert_eq!(kept, (0..10).collect::<Vec<u64>>());
        writer.push(20, &[]);
        assert_eq!((reader.pop(&mut frame), frame.len()), (Some(20), 0));
    }

    #[test]
    fn two_threads_lose_nothing_but_misses() {
        const FRAMES: u64 = 200_000;
        let (mut writer, mut reader) = frame_queue(1 << 14);
        let writing = std::thread::spawn(move || {
            (0..FRAMES).for_each(|number| writer.push(number, &number.to_le_bytes()[..1 + number as usize % 8]));
        });
        let (mut frame, mut seen, mut last) = (Vec::new(), 0, None);
        loop {
            let ended = writing.is_finished();
            while let Some(at) = reader.pop(&mut frame) {
                assert!(last < Some(at), "{last:?} {at}");
                assert_eq!(frame, at.to_le_bytes()[..1 + at as usize % 8]);
                (seen, last) = (seen + 1, Some(at));
            }
            if ended {
                break;
            }
        }
        assert_eq!(seen + reader.missed(), FRAMES);
    }
}
