//! Copies of frames for a reader, queued by the emulator's workers without ever blocking them.

use crate::emulator::FrameObserver;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};

/// Most frames that wait for the reader.
const FRAMES_MAX: usize = 1 << 16;
/// Most bytes that wait for the reader.
const BYTES_MAX: u64 = 256 << 20;
/// Most times of missed frames that are kept; more are only counted.
const TIMES_MAX: usize = 10_000;

/// Point at which a frame is seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FramePoint {
    /// As stamped by the kernel when it left its host.
    Leaving,
    /// When the emulator had handed it over to the sockets of the far host.
    HandedOver,
}

/// Copy of a frame.
#[derive(Debug)]
pub struct WatchedFrame {
    /// Number of the link.
    pub link: usize,
    /// Whether it goes in the link's forward direction.
    pub forward: bool,
    /// Where it was seen.
    pub point: FramePoint,
    /// Monotonic nanoseconds.
    pub at_ns: u64,
    /// The frame, starting with the virtio-net header.
    pub bytes: Box<[u8]>,
}

/// Load of a queue.
#[derive(Debug, Default)]
struct QueueLoad {
    bytes: AtomicU64,
    missed: AtomicU64,
    missed_at: Mutex<Vec<u64>>,
}

/// Sees the frames of one direction of a link.
#[derive(Clone, Debug)]
pub struct Watcher {
    link: usize,
    forward: bool,
    queue: SyncSender<WatchedFrame>,
    load: Arc<QueueLoad>,
}

/// The reader's end.
#[derive(Debug)]
pub struct WatchQueue {
    frames: Receiver<WatchedFrame>,
    load: Arc<QueueLoad>,
    sender: Option<SyncSender<WatchedFrame>>,
}

/// Creates a queue; [`WatchQueue::watcher`] makes its other ends.
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
    /// Copies a frame for the reader, or counts it as missed if too much waits.
    pub fn see(&self, point: FramePoint, at_ns: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        // The counter may exceed the bound by a frame of each worker.
        if self.load.bytes.load(Ordering::Relaxed) + len <= BYTES_MAX {
            self.load.bytes.fetch_add(len, Ordering::Relaxed);
            let frame = WatchedFrame { link: self.link, forward: self.forward, point, at_ns, bytes: bytes.into() };
            if self.queue.try_send(frame).is_ok() {
                return;
            }
            self.load.bytes.fetch_sub(len, Ordering::Relaxed);
        }
        self.load.missed.fetch_add(1, Ordering::Relaxed);
        // A lock held by another worker or the reader must not delay the link: then the time is left out, not the
        // count.
        if let Ok(mut times) = self.load.missed_at.try_lock()
            && times.len() < TIMES_MAX
        {
            times.push(at_ns);
        }
    }
}

impl WatchQueue {
    /// Makes the watcher of one direction; `None` after [`WatchQueue::close`].
    pub fn watcher(&self, link: usize, forward: bool) -> Option<Watcher> {
        let queue = self.sender.clone()?;
        Some(Watcher { link, forward, queue, load: Arc::clone(&self.load) })
    }
    /// Makes no further watchers: the queue ends once the existing ones are dropped.
    pub fn close(&mut self) {
        self.sender = None;
    }
    /// Takes the next frame.
    ///
    /// # Errors
    ///
    /// No frame waits, or no watcher is left.
    pub fn take(&self) -> Result<WatchedFrame, TryRecvError> {
        let frame = self.frames.try_recv()?;
        self.load.bytes.fetch_sub(frame.bytes.len() as u64, Ordering::Relaxed);
        Ok(frame)
    }
    /// Number of frames missed, and the times of the first of them.
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
