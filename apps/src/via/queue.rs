//! Queue between a thread that reads a stream and whoever uses it, bounded by bytes: a flood fills the stream's buffers
//! rather than memory.

use anyhow::{Result, bail};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes queued beyond which the reader waits; one longer item is queued alone.
const QUEUED_MAX: usize = 64 << 20;
/// Bytes that an item counts for at least, since short items take memory, too.
const ITEM_LEAST: usize = 256;

/// Items with their lengths, oldest first.
pub struct ByteQueue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

struct QueueState<T> {
    items: VecDeque<(T, usize)>,
    bytes: usize,
    /// Reason for the end of the stream, after the last item.
    ended: Option<String>,
}

impl<T> Default for ByteQueue<T> {
    fn default() -> Self {
        let state = Mutex::new(QueueState { items: VecDeque::new(), bytes: 0, ended: None });
        ByteQueue { state, changed: Condvar::new() }
    }
}

impl<T> ByteQueue<T> {
    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        // A panic elsewhere leaves the state whole: every change is complete before the lock is released.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    /// Appends an item once there is room; returns false after the end.
    pub fn push(&self, item: T, bytes: usize) -> bool {
        let bytes = bytes.max(ITEM_LEAST);
        let mut state = self.lock();
        while state.ended.is_none() && !state.items.is_empty() && state.bytes + bytes > QUEUED_MAX {
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if state.ended.is_some() {
            return false;
        }
        state.items.push_back((item, bytes));
        state.bytes += bytes;
        self.changed.notify_all();
        true
    }
    /// Takes the oldest item, or `None` if none arrives within `wait`.
    ///
    /// # Errors
    /// The reason for the end, after the last item.
    pub fn pop(&self, wait: Duration) -> Result<Option<T>> {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if let Some((item, bytes)) = state.items.pop_front() {
                state.bytes -= bytes;
                self.changed.notify_all();
                return Ok(Some(item));
            }
            if let Some(why) = &state.ended {
                bail!("{why}");
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
    /// Whether the queue has ended, even if it holds something.
    pub fn has_ended(&self) -> bool {
        self.lock().ended.is_some()
    }
    /// Ends the queue: what it holds can still be taken. The first reason counts.
    pub fn end(&self, why: impl Into<String>) {
        self.lock().ended.get_or_insert_with(|| why.into());
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn items_precede_the_end() {
        let queue = ByteQueue::default();
        assert!(queue.push(1, 0) && queue.push(2, 0));
        queue.end("the stream ended");
        queue.end("later");
        assert!(!queue.push(3, 0));
        assert_eq!(queue.pop(Duration::ZERO).unwrap(), Some(1));
        assert_eq!(queue.pop(Duration::ZERO).unwrap(), Some(2));
        assert_eq!(queue.pop(Duration::from_secs(60)).unwrap_err().to_string(), "the stream ended");
        assert_eq!(ByteQueue::<u8>::default().pop(Duration::ZERO).unwrap(), None);
    }

    #[test]
    fn full_queue_blocks_the_writer() {
        let queue = Arc::new(ByteQueue::default());
        // An item longer than the bound is accepted if the queue is empty.
        assert!(queue.push(0, 2 * QUEUED_MAX));
        let writer = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || (1..=1000).all(|item| queue.push(item, QUEUED_MAX / 10)))
        };
        for expected in 0..=1000 {
            assert_eq!(queue.pop(Duration::from_secs(60)).unwrap(), Some(expected));
            assert!(queue.lock().bytes <= QUEUED_MAX, "{}", queue.lock().bytes);
        }
        assert!(writer.join().unwrap());
    }
}
