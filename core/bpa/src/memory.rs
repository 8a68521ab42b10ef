//! Payload bytes in memory, and letting go of those the store has: through the only holder's hand,
//! tried again when the last transmission ends.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use farlink_base::Payload;
use farlink_book::{Book, Flags, Handle, Held};

/// What is in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    resident: u64,
    /// Bundles that are on disk but still shared: where their payload is there.
    on_disk: BTreeMap<Handle, Payload>,
}

impl Memory {
    /// Payload bytes of held bundles in memory.
    pub fn resident(&self) -> u64 {
        self.resident
    }
    /// Payloads to be let go later.
    #[cfg(feature = "audit")]
    pub fn on_disk(&self) -> usize {
        self.on_disk.len()
    }
    /// A bundle is held from now on.
    pub fn come(&mut self, held: &Held) {
        if !held.flags.has(Flags::VIRTUAL) {
            self.resident += held.bundle.payload.resident_len();
        }
    }
    /// A bundle leaves.
    pub fn go(&mut self, held: &Held) {
        if !held.flags.has(Flags::VIRTUAL) {
            self.resident = self.resident.saturating_sub(held.bundle.payload.resident_len());
        }
        self.on_disk.remove(&held.handle());
    }
    /// The payload is on disk: its memory is let go as soon as nobody else uses it.
    pub fn let_go(&mut self, book: &mut Book, bundle: Handle, on_disk: Payload) {
        let Some(held) = book.get_mut(bundle) else { return };
        let before = held.bundle.payload.resident_len();
        if on_disk.len() != held.bundle.payload.len() {
            return;
        }
        match Arc::get_mut(&mut held.bundle) {
            Some(meta) => {
                meta.payload = on_disk;
                self.resident = self.resident.saturating_sub(before);
            }
            None => {
                held.flags.set(Flags::ASIDE, true);
                self.on_disk.insert(bundle, on_disk);
            }
        }
    }
    /// A transmission ended: perhaps it was the last that used the memory.
    pub fn try_again(&mut self, book: &mut Book, bundle: Handle) {
        if let Some(on_disk) = self.on_disk.remove(&bundle) {
            self.let_go(book, bundle, on_disk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{Chunk, Extent, Instant, PeerId, Priority};
    use farlink_book::{New, Reason, Reasons};

    #[test]
    fn memory_is_let_go_when_the_last_other_user_is_done() {
        let mut meta = crate::testing::meta(1, Priority::Normal, 0);
        meta.payload = Payload::from(&b"0123456789"[..]);
        let bundle = Arc::new(meta);
        let mut book = Book::new(0);
        let handle = book.keep(New {
            bundle: bundle.clone(),
            number: None,
            received: Instant::ZERO,
            expires: Instant::MAX,
            from: PeerId::NONE,
            hops: 0,
            labels: [0; 2],
            reasons: Reasons::of(&[Reason::Route]),
            flags: Flags::default(),
        });
        let mut memory = Memory::default();
        memory.come(book.get(handle).unwrap());
        let mut on_disk = Payload::new();
        on_disk.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len: 10 });
        memory.let_go(&mut book, handle, on_disk);
        assert_eq!(memory.resident(), 10, "somebody still sends it");
        drop(bundle);
        memory.try_again(&mut book, handle);
        assert_eq!((memory.resident(), memory.on_disk.len()), (0, 0));
        assert!(book.get(handle).unwrap().bundle.payload.is_stored());
    }
}
