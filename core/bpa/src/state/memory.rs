//! Payload bytes in memory, and their release once the store has them: at once if nothing else refers to the bundle,
//! else when its last transmission has ended. While memory is scarce, waiting bundles get memory of their own instead
//! of the read buffers they arrived in, and new bundles are refused, at [`Pressure::High`] only those that no link
//! vouches for.

use crate::io::Pressure;
use crate::neighbours::link::Link;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use farlink_base::{Empty, Lazy, Payload};
use farlink_book::{Book, CursorId, Flags, Handle, Held};

/// Payload bytes in memory, and the measures taken while memory is scarce.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    resident: u64,
    scarce: Lazy<Scarce>,
}

/// State that is allocated when memory first is scarce.
#[derive(Debug)]
struct Scarce {
    /// Bundles whose payload is to be released but is still in use, with the payload's place on disk.
    on_disk: BTreeMap<Handle, Payload>,
    pressure: Pressure,
    /// Cursor of the walk over all bundles that gives each one memory of its own; `None` if no walk is in progress.
    settling: Option<CursorId>,
}
impl Scarce {
    const fn new() -> Self {
        Scarce { on_disk: BTreeMap::new(), pressure: Pressure::None, settling: None }
    }
}
impl Empty for Scarce {
    type From = ();
    const EMPTY: &'static Self = &Scarce::new();
    fn make((): ()) -> Self {
        Scarce::new()
    }
}

impl Memory {
    /// Sets the scarcity of memory.
    pub fn press(&mut self, book: &mut Book, pressure: Pressure) {
        self.scarce.pressure = pressure;
        if pressure > Pressure::None && self.scarce.settling.is_none() {
            self.scarce.settling = Some(book.open_cursor());
        }
    }
    pub fn pressure(&self) -> Pressure {
        self.scarce.pressure
    }
    /// Whether memory is too scarce for a new bundle.
    pub fn refuses(&self, new: &Held) -> bool {
        match self.scarce.pressure {
            Pressure::None => false,
            Pressure::High => new.flags.has(Flags::STRANGE),
            Pressure::Full => true,
        }
    }
    /// Whether memory is too scarce to hand a link another bundle beside those in progress, which a stalled or
    /// unauthenticated neighbour would keep in memory.
    pub fn holds_back(&self, link: &Link, strange: bool) -> bool {
        self.scarce.pressure == Pressure::Full && (strange || link.in_flight > 0)
    }
    /// Whether payloads should leave memory once they are on disk: memory holds more than `most` bytes of payloads, or
    /// is scarce.
    pub fn is_scarce(&self, most: u64) -> bool {
        // Under pressure no payload that is on disk may stay in memory, whatever the bound.
        self.resident > most || self.scarce.pressure > Pressure::None
    }
    /// Whether the walk that gives bundles memory of their own is in progress.
    pub fn settles(&self) -> bool {
        self.scarce.settling.is_some()
    }
    /// Gives one more bundle memory of its own. Returns false at the end of the walk, or if no walk is in progress.
    pub fn settle_one(&mut self, book: &mut Book) -> bool {
        let Some(cursor) = self.scarce.settling else { return false };
        let Some(bundle) = book.advance(cursor) else {
            book.close_cursor(cursor);
            self.scarce.settling = None;
            return false;
        };
        if let Some(held) = book.get_mut(bundle).filter(|held| !held.flags.has(Flags::SETTLED)) {
            // The memory of a bundle in transmission is in use: the next walk handles it if it is still here then.
            if let Some(meta) = Arc::get_mut(&mut held.bundle) {
                meta.payload = meta.payload.own();
                held.flags.set(Flags::SETTLED, true);
            }
        }
        true
    }
    pub fn resident(&self) -> u64 {
        self.resident
    }
    /// Payloads whose memory will be released later.
    #[cfg(feature = "audit")]
    pub fn on_disk(&self) -> usize {
        self.scarce.on_disk.len()
    }
    /// Counts a bundle that is now held.
    pub fn come(&mut self, held: &Held) {
        if !held.flags.has(Flags::VIRTUAL) {
            self.resident += held.bundle.payload.resident_len();
        }
    }
    /// Uncounts a bundle that departs.
    pub fn go(&mut self, held: &Held) {
        if !held.flags.has(Flags::VIRTUAL) {
            self.resident = self.resident.saturating_sub(held.bundle.payload.resident_len());
        }
        if let Some(scarce) = self.scarce.made() {
            scarce.on_disk.remove(&held.handle());
        }
    }
    /// Replaces a bundle's payload by its place on disk, at once or as soon as nothing else uses it.
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
            None => drop(self.scarce.on_disk.insert(bundle, on_disk)),
        }
    }
    /// Retries a pending release after a transmission, which may have been the payload's last user.
    pub fn try_again(&mut self, book: &mut Book, bundle: Handle) {
        if let Some(on_disk) = self.scarce.made().and_then(|scarce| scarce.on_disk.remove(&bundle)) {
            self.let_go(book, bundle, on_disk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use farlink_base::{BundleMeta, Bytes, Chunk, Extent, Instant, PeerId, Priority};
    use farlink_book::{Birth, New, RetentionConstraint, RetentionConstraints};

    fn bundle(number: u64, payload: Payload) -> Arc<BundleMeta> {
        let mut meta = crate::testing::meta(number, Priority::Normal, 0);
        meta.payload = payload;
        Arc::new(meta)
    }
    fn keep(book: &mut Book, bundle: Arc<BundleMeta>) -> Handle {
        book.keep(New {
            bundle,
            number: None,
            born: Birth::of(Instant::ZERO, 0),
            expires: Instant::MAX,
            from: PeerId::NONE,
            hops: 0,
            labels: [0; 2],
            reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
            flags: Flags::default(),
        })
    }

    #[test]
    fn scarce_memory_releases_arrival_buffers() {
        let (mut book, mut memory) = (Book::new(0), Memory::default());
        // Each slice of 4 bytes keeps its whole buffer of 1,000 alive until it is settled.
        let buffers: Vec<Bytes> = (0..3u8).map(|n| Bytes::from(alloc::vec![n; 1000])).collect();
        let handles: Vec<Handle> =
            (1..).zip(&buffers).map(|(n, b)| keep(&mut book, bundle(n, b.slice(5..9).into()))).collect();
        let leaving = book.get(handles[1]).unwrap().bundle.clone();
        memory.press(&mut book, Pressure::High);
        while memory.settle_one(&mut book) {}
        let shared = || buffers.iter().map(|b| !b.is_unique()).collect::<Vec<_>>();
        assert!(!memory.settles() && shared() == [false, true, false], "what leaves is in use");
        drop(leaving);
        memory.press(&mut book, Pressure::High);
        while memory.settle_one(&mut book) {}
        assert!(!memory.settles() && shared() == [false; 3]);
        let payload = &book.get(handles[2]).unwrap().bundle.payload;
        assert_eq!(payload.to_bytes().unwrap(), [2u8; 4][..]);
        memory.press(&mut book, Pressure::None);
        assert!(!memory.settles() && !memory.is_scarce(0));
    }

    #[test]
    fn unshared_memory_is_released() {
        // The second reference stands for a transmission in progress.
        let bundle = bundle(1, Payload::from(&b"0123456789"[..]));
        let mut book = Book::new(0);
        let handle = keep(&mut book, bundle.clone());
        let mut memory = Memory::default();
        memory.come(book.get(handle).unwrap());
        let mut on_disk = Payload::new();
        on_disk.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len: 10 });
        memory.let_go(&mut book, handle, on_disk);
        assert_eq!(memory.resident(), 10, "somebody still sends it");
        drop(bundle);
        memory.try_again(&mut book, handle);
        assert_eq!((memory.resident(), memory.scarce.on_disk.len()), (0, 0));
        assert!(book.get(handle).unwrap().bundle.payload.is_stored());
    }
}
