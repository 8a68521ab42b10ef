//! Timer queue of the engine: timers that can be cancelled and fire in the order of deadline, then of insertion, so
//! that a run can be replayed exactly.
//!
//! A heap of small entries orders the timers; their values lie in slots, whatever their size. Cancelling a timer
//! empties its slot and leaves its entry in the heap until that reaches the top, or until more than half of the heap
//! are such leftovers. With four children per entry, a timer passes fewer cache lines than with two (LaMarca and Ladner
//! 1996).

use crate::time::Instant;
use alloc::vec::Vec;

/// Children per heap entry.
const ARITY: usize = 4;
/// Number of leftovers up to which the heap is not cleaned, and of slots that an empty queue keeps.
const FEW: usize = 64;

/// Key of an armed timer, by which it is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerKey {
    deadline: Instant,
    order: u64,
    slot: u32,
}
impl TimerKey {
    /// Instant at which the timer fires.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
    /// Rank in the order of deadline, then of insertion, as one number.
    fn rank(&self) -> u128 {
        u128::from(self.deadline.0) << 64 | u128::from(self.order)
    }
}

/// Marks the end of the list of empty slots.
const NONE: u32 = u32::MAX;

/// Slot for one value. `order` identifies the timer that uses the slot, or used it last.
#[derive(Clone, Debug)]
struct TimerSlot<T> {
    order: u64,
    content: SlotContent<T>,
}

#[derive(Clone, Debug)]
enum SlotContent<T> {
    Armed(T),
    /// Empty; the index of the next empty slot.
    Free(u32),
}

/// Queue of timers, each with a value.
#[derive(Clone, Debug)]
pub struct TimerQueue<T> {
    /// Heap by rank; its first entry is always an armed timer.
    heap: Vec<TimerKey>,
    slots: Vec<TimerSlot<T>>,
    /// First slot of the list of empty ones.
    free: u32,
    armed: u32,
    order: u64,
}
impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T> TimerQueue<T> {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        TimerQueue { heap: Vec::new(), slots: Vec::new(), free: NONE, armed: 0, order: 0 }
    }
    /// Arms a timer and returns its key.
    pub fn arm(&mut self, deadline: Instant, value: T) -> TimerKey {
        let filled = TimerSlot { order: self.order, content: SlotContent::Armed(value) };
        let slot = match self.slots.get_mut(self.free as usize) {
            Some(empty) => {
                let slot = self.free;
                if let SlotContent::Free(next) = core::mem::replace(empty, filled).content {
                    self.free = next;
                }
                slot
            }
            None => {
                self.slots.push(filled);
                (self.slots.len() - 1) as u32
            }
        };
        self.armed += 1;
        let key = TimerKey { deadline, order: self.order, slot };
        self.order += 1;
        self.heap.push(key);
        self.rise(self.heap.len() - 1);
        key
    }
    /// Cancels a timer and returns its value; `None` if it fired or was cancelled before.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let value = self.take(key)?;
        self.settle_top();
        let leftovers = self.heap.len() - self.len();
        // Leftovers stay at most half of the heap, so that cancelling costs amortised O(log n).
        if leftovers > FEW && leftovers > self.len() {
            self.clean();
        }
        Some(value)
    }
    /// Deadline of the next timer to fire; `None` if no timer is armed.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.heap.first().map(|key| key.deadline)
    }
    /// Removes the earliest timer if it is due at `now`; returns its deadline and value.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        let key = *self.heap.first().filter(|key| key.deadline <= now)?;
        let value = self.take(key)?;
        self.remove_top();
        self.settle_top();
        Some((key.deadline, value))
    }
    /// Number of armed timers.
    pub fn len(&self) -> usize {
        self.armed as usize
    }
    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Empties the slot of a timer and returns the value, if the timer is still armed.
    fn take(&mut self, key: TimerKey) -> Option<T> {
        let slot = self.slots.get_mut(key.slot as usize).filter(|slot| slot.order == key.order)?;
        if let SlotContent::Free(_) = slot.content {
            return None;
        }
        let SlotContent::Armed(value) = core::mem::replace(&mut slot.content, SlotContent::Free(self.free)) else {
            return None;
        };
        self.free = key.slot;
        self.armed -= 1;
        Some(value)
    }
    fn is_armed(&self, key: &TimerKey) -> bool {
        let slot = &self.slots[key.slot as usize];
        slot.order == key.order && matches!(slot.content, SlotContent::Armed(_))
    }
    /// Removes entries of cancelled timers from the top of the heap.
    fn settle_top(&mut self) {
        while self.heap.first().is_some_and(|key| !self.is_armed(key)) {
            self.remove_top();
        }
        if self.heap.is_empty() && self.slots.len() > FEW {
            // Slot numbers start from 0 again. Old keys cannot match, because orders are never reused.
            self.slots = Vec::new();
            self.heap = Vec::new();
            self.free = NONE;
        }
    }
    /// Removes the entries of all cancelled timers, and frees memory that many timers took.
    fn clean(&mut self) {
        let mut heap = core::mem::take(&mut self.heap);
        heap.retain(|key| self.is_armed(key));
        // A sorted array is a heap.
        heap.sort_unstable();
        heap.shrink_to(2 * heap.len());
        self.heap = heap;
    }
    fn remove_top(&mut self) {
        let Some(last) = self.heap.pop() else { return };
        if !self.heap.is_empty() {
            self.heap[0] = last;
            self.sink();
        }
    }
    /// Moves an entry up until its parent is not later.
    fn rise(&mut self, mut at: usize) {
        let key = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent].rank() <= key.rank() {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }
    /// Moves the first entry down. It came from the end of the heap and so belongs near the bottom: the gap moves to
    /// the bottom first, then the entry rises from there (Wegener 1993).
    fn sink(&mut self) {
        let key = self.heap[0];
        let mut at = 0;
        loop {
            let first = ARITY * at + 1;
            let end = (first + ARITY).min(self.heap.len());
            let Some(children) = self.heap.get(first..end).filter(|children| !children.is_empty()) else { break };
            let (mut least, mut rank) = (0, children[0].rank());
            for (place, child) in children.iter().enumerate().skip(1) {
                let other = child.rank();
                // Selected without a branch, which would be mispredicted half of the time.
                least = if other < rank { place } else { least };
                rank = rank.min(other);
            }
            self.heap[at] = children[least];
            at = first + least;
        }
        self.heap[at] = key;
        self.rise(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn timers_fire_in_deadline_then_insertion_order() {
        let mut queue = TimerQueue::new();
        queue.arm(Instant(20), "c");
        let b = queue.arm(Instant(10), "b");
        queue.arm(Instant(10), "a");
        let gone = queue.arm(Instant(5), "gone");
        assert_eq!(queue.cancel(gone), Some("gone"));
        assert_eq!(queue.cancel(gone), None);
        assert_eq!(queue.next_deadline(), Some(b.deadline()));
        let mut fired = Vec::new();
        while let Some((_, value)) = queue.pop_due(Instant(15)) {
            fired.push(value);
        }
        assert_eq!(fired, ["b", "a"]);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn timer_queue_matches_sorted_map() {
        for seed in 0..20 {
            let (mut queue, mut model) = (TimerQueue::new(), BTreeMap::new());
            let (mut rng, mut keys, mut order) = (Rng::new(seed), Vec::new(), 0u64);
            for step in 0..5000u64 {
                match rng.below(10) {
                    0..=4 => {
                        let at = Instant(step + rng.below(200));
                        keys.push((queue.arm(at, order), (at, order)));
                        model.insert((at, order), order);
                        order += 1;
                    }
                    5..=7 if !keys.is_empty() => {
                        // Many of these keys have fired or been cancelled: a stale key must do nothing.
                        let (key, place) = keys[rng.below(keys.len() as u64) as usize];
                        assert_eq!(queue.cancel(key), model.remove(&place));
                    }
                    _ => {
                        let due = model.first_key_value().filter(|(place, _)| place.0.0 <= step).map(|(p, _)| *p);
                        let want = due.map(|place| (place.0, place.1));
                        model.retain(|place, _| Some(*place) != due);
                        assert_eq!(queue.pop_due(Instant(step)), want);
                    }
                }
                assert_eq!(queue.next_deadline(), model.first_key_value().map(|(place, _)| place.0));
                assert_eq!((queue.len(), queue.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }

    #[test]
    fn cancelled_timers_release_memory() {
        let mut queue = TimerQueue::new();
        queue.arm(Instant(1), 0);
        for n in 0..100_000u64 {
            // Later than the first timer: the cancelled entry is not on top of the heap.
            let key = queue.arm(Instant(1_000_000 + n), n);
            queue.cancel(key);
        }
        assert!(queue.heap.len() <= FEW + 2 && queue.slots.len() <= 2, "{} {}", queue.heap.len(), queue.slots.len());
        // All fire, and the memory of the burst must be freed.
        let burst: Vec<TimerKey> = (2..10_000).map(|n| queue.arm(Instant(n), n)).collect();
        while queue.pop_due(Instant::MAX).is_some() {}
        assert_eq!((queue.slots.capacity(), queue.cancel(burst[0]), queue.len()), (0, None, 0));
    }
}
