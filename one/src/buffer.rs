//! The messages that a host holds.

use super::java::{Bucketed, Keyed};

/// One copy of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Index of the message in the order of creation.
    pub message: u32,
    pub hash: u32,
    /// Length in bytes.
    pub size: i32,
    /// Number of the host that is the message's destination.
    pub to: u32,
    /// Time at which this host made or received it, seconds.
    pub received: f64,
    /// Time at which the message was made, seconds.
    pub created: f64,
    /// Number of hosts that the copy has passed since the message was made.
    pub hops: u32,
    /// Number of the copy's path, if paths are kept.
    pub path: u32,
    /// Copies that may still be handed on; used by routers that count copies.
    pub copies: u32,
}

impl Keyed for Held {
    fn hash(&self) -> u32 {
        self.hash
    }
    fn same(&self, other: &Held) -> bool {
        self.message == other.message
    }
}

/// Buffer size without bound: the ONE's default is Java's `Integer.MAX_VALUE`.
const UNBOUNDED: i64 = i32::MAX as i64;

/// Messages that a host holds, in the order in which The ONE iterates over them.
#[derive(Clone, Debug)]
pub struct Buffer {
    held: Bucketed<Held>,
    used: i64,
    size: i64,
}

impl Buffer {
    /// Makes an empty buffer of `size` bytes; `i32::MAX` means without bound.
    pub fn new(size: i64) -> Buffer {
        Buffer { held: Bucketed::new(), used: 0, size }
    }
    /// Copies in The ONE's iteration order.
    pub fn held(&self) -> &[Held] {
        self.held.entries()
    }
    /// Copies in The ONE's iteration order, for a router that changes [`Held::copies`].
    pub fn held_mut(&mut self) -> &mut [Held] {
        self.held.entries_mut()
    }
    /// Index of a message's copy in [`Buffer::held`]; `None` if the host holds no copy.
    pub fn place(&self, message: u32) -> Option<usize> {
        self.held().iter().position(|held| held.message == message)
    }
    /// Free bytes; negative when the host's own messages exceed the buffer.
    pub fn free(&self) -> i64 {
        if self.size == UNBOUNDED { UNBOUNDED } else { self.size - self.used }
    }
    /// Whether the empty buffer would have space for a message of that size.
    pub fn could_hold(&self, size: i32) -> bool {
        i64::from(size) <= self.size
    }
    /// Adds a copy, or replaces the copy of the same message.
    pub fn put(&mut self, held: Held) {
        // A replaced copy has the same size, so only a new entry changes the count.
        if self.held.put(held) {
            self.used += i64::from(held.size);
        }
    }
    /// Removes and returns the copy at `place`.
    pub fn remove(&mut self, place: usize) -> Held {
        let held = self.held.remove(place);
        self.used -= i64::from(held.size);
        held
    }
    /// Index of the copy received first, skipping the message `except`; on ties the first in iteration order.
    pub fn oldest(&self, except: Option<u32>) -> Option<usize> {
        let mut found: Option<(usize, f64)> = None;
        for (place, held) in self.held().iter().enumerate() {
            // Strictly less: of copies received at the same time the first in iteration order is chosen, as in The ONE.
            if Some(held.message) != except && found.is_none_or(|(_, received)| held.received < received) {
                found = Some((place, held.received));
            }
        }
        found.map(|(place, _)| place)
    }
}

/// Messages known to each host: one set of message numbers per host, as bits.
#[derive(Default)]
pub struct Knowledge(Vec<Vec<u64>>);

impl Knowledge {
    /// Makes an empty set for each host.
    pub fn new(hosts: usize) -> Knowledge {
        Knowledge(vec![Vec::new(); hosts])
    }
    /// True if the set of `host` has `message`.
    #[inline]
    pub fn has(&self, host: u32, message: u32) -> bool {
        self.0[host as usize].get(message as usize / 64).is_some_and(|word| word >> (message % 64) & 1 == 1)
    }
    /// Adds a message to a host's set or removes it.
    pub fn set(&mut self, host: u32, message: u32, known: bool) {
        let words = &mut self.0[host as usize];
        let word = message as usize / 64;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        let bit = 1 << (message % 64);
        if known { words[word] |= bit } else { words[word] &= !bit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(message: u32, received: f64) -> Held {
        Held { message, hash: message * 7, size: 100, to: 1, received, created: 0.0, hops: 0, path: 0, copies: 1 }
    }

    #[test]
    fn readded_message_counts_once() {
        let mut buffer = Buffer::new(250);
        buffer.put(held(1, 5.0));
        buffer.put(held(1, 6.0));
        assert_eq!((buffer.free(), buffer.held().len()), (150, 1));
        buffer.put(held(2, 1.0));
        buffer.put(held(3, 1.0));
        assert_eq!(buffer.free(), -50);
        assert!(buffer.could_hold(250) && !buffer.could_hold(251));
        // Messages 2 and 3 are equally old; 3 comes first in iteration order (hashes 14 and 21 in 16 buckets).
        let oldest = buffer.oldest(None).expect("three are held");
        assert_eq!(buffer.remove(oldest).message, 3);
        assert_eq!(buffer.free(), 50);
        assert_eq!(Buffer::new(UNBOUNDED).free(), UNBOUNDED);
    }

    #[test]
    fn message_being_sent_is_never_oldest() {
        // The sender still reads the message that is being transferred, so eviction must pass over it.
        let mut buffer = Buffer::new(1000);
        buffer.put(held(1, 1.0));
        assert_eq!(buffer.oldest(Some(1)), None);
        buffer.put(held(2, 9.0));
        assert_eq!(buffer.oldest(Some(1)).map(|place| buffer.held()[place].message), Some(2));
    }

    #[test]
    fn sets_grow_on_insert() {
        // A message beyond the end of a set is not in it; asking for it does not make the set grow.
        let mut known = Knowledge::new(2);
        assert!(!known.has(0, 100_000));
        known.set(0, 700, true);
        assert!(known.has(0, 700) && !known.has(1, 700) && !known.has(0, 701));
        known.set(0, 700, false);
        assert!(!known.has(0, 700));
    }
}
