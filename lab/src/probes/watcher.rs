//! Watchers, which copy frames for a reader: the emulator's workers put them into a queue without ever blocking.

use crate::emulator::FrameObserver;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};

/// Maximum number of frames that wait for the reader.
const FRAMES_MAX: usize = 1 << 16;
/// Maximum bytes that wait for the reader.
const BYTES_MAX: u64 = 256 << 20;
/// Maximum number of missed frames whose times are kept; more are only counted.
const TIMES_MAX: usize = 10_000;

/// Point at which a frame was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FramePoint {
    /// At the sending host, with the kernel's timestamp of sending.
    Leaving,
    /// At the receiving host, with the time at which the hand-over to its sockets had ended.
    HandedOver,
}

/// Copy of a frame for the reader.
#[derive(Debug)]
pub struct WatchedFrame {
    /// Number of the link.
    pub link: usize,
    /// Whether the frame travels in the link's forward direction.
    pub forward: bool,
    /// Point at which the frame was seen.
    pub point: FramePoint,
    /// Time at that point, in monotonic nanoseconds.
    pub at_ns: u64,
    /// Bytes of the frame, starting with the virtio-net header.
    pub bytes: Box<[u8]>,
}

/// Bytes waiting in a queue, and the frames missed by its watchers.
#[derive(Debug, Default)]
struct QueueLoad {
    bytes: AtomicU64,
    missed: AtomicU64,
    missed_at: Mutex<Vec<u64>>,
}

/// Observer of one direction of a link, which copies its frames into the queue.
#[derive(Clone, Debug)]
pub struct Watcher {
    link: usize,
    forward: bool,
    queue: SyncSender<WatchedFrame>,
    load: Arc<QueueLoad>,
}

/// Reader's end of the queue.
#[derive(Debug)]
pub struct WatchQueue {
    frames: Receiver<WatchedFrame>,
    load: Arc<QueueLoad>,
    sender: Option<SyncSender<WatchedFrame>>,
}

/// Creates a queue; [`WatchQueue::watcher`] creates its writing ends.
pub fn watch_queue() -> WatchQueue {
    let (sender, frames) = sync_channel(FRAMES_MAX);
    WatchQueue { frames, load: Arc::default(), sender: Some(sender) }
}

impl FrameObserver for Watcher {
    fn sent(&mut self, at_ns: u64, frame: &[u8]) {
        self.see(FramePoint::Leaving, at_ns, frame);
    }
    fn handed_over(&mut self, _: u64, end_ns: u64, frame: &[u8]) {
        self.see(FramePoint::HandedOver, end_ns, frame);
    }
}
impl Watcher {
    /// Copies a frame into the queue, or counts it as missed if the queue is full.
    pub fn see(&self, point: FramePoint, at_ns: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        // Several workers may pass this check at once: the bound may be exceeded by a frame of each.
        if self.load.bytes.load(Ordering::Relaxed) + len <= BYTES_MAX {
            self.load.bytes.fetch_add(len, Ordering::Relaxed);
            let frame = WatchedFrame { link: self.link, forward: self.forward, point, at_ns, bytes: bytes.into() };
            if self.queue.try_send(frame).is_ok() {
                return;
            }
            self.load.bytes.fetch_sub(len, Ordering::Relaxed);
        }
        self.load.missed.fetch_add(1, Ordering::Relaxed);
        // If another worker or the reader holds the lock, the time is not kept: waiting would delay the link.
        if let Ok(mut times) = self.load.missed_at.try_lock()
            && times.len() < TIMES_MAX
        {
            times.push(at_ns);
        }
    }
}

impl WatchQueue {
    /// Creates the watcher of one direction; `None` after [`WatchQueue::close`].
    pub fn watcher(&self, link: usize, forward: bool) -> Option<Watcher> {
        let queue = self.sender.clone()?;
        Some(Watcher { link, forward, queue, load: Arc::clone(&self.load) })
    }
    /// Permits no further watchers: the queue ends once the existing ones are dropped.
    pub fn close(&mut self) {
        self.sender = None;
    }
    /// Takes the next frame.
    ///
    /// # Errors
    ///
    /// If no frame waits, or no watcher is left.
    pub fn take(&self) -> Result<WatchedFrame, TryRecvError> {
        let frame = self.frames.try_recv()?;
        self.load.bytes.fetch_sub(frame.bytes.len() as u64, Ordering::Relaxed);
        Ok(frame)
    }
    /// Number of frames missed, and the times of some of the first, in monotonic ns.
    pub fn missed(&self) -> (u64, Vec<u64>) {
        let times = self.load.missed_at.lock().map_or_else(|e| e.into_inner().clone(), |times| times.clone());
        (self.load.missed.load(Ordering::Relaxed), times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_is_bounded_and_counts_misses() {
        let mut queue = watch_queue();
        let watcher = queue.watcher(3, true).unwrap();
        queue.close();
        assert!(queue.watcher(4, true).is_none());
        let frame = vec![7; 16 << 20];
        (0..20).for_each(|at| watcher.see(FramePoint::Leaving, at, &frame));
        assert_eq!(queue.missed(), (4, vec![16, 17, 18, 19]));
        let first = queue.take().unwrap();
        assert_eq!((first.link, first.forward, first.at_ns, first.bytes.len()), (3, true, 0, 16 << 20));
        watcher.see(FramePoint::HandedOver, 20, &frame);
        assert_eq!(queue.missed().0, 4, "room again");
        while queue.take().is_ok() {}
        (0..FRAMES_MAX as u64 + 5).for_each(|at| watcher.see(FramePoint::HandedOver, at, b"short"));
        assert_eq!(queue.missed().0, 9);
        drop(watcher);
        while queue.take().is_ok() {}
        assert_eq!(queue.take().unwrap_err(), TryRecvError::Disconnected);
        assert_eq!(queue.load.bytes.load(Ordering::Relaxed), 0);
    }
}
