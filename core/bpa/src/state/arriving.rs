//! Pieces of bundles that are arriving: which bundle each is of, and how many of its first bytes may be promised.

use crate::io::OfferToken;
use crate::state::ranges::Ranges;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_book::Handle;

/// Pieces of one arriving bundle.
#[derive(Debug, Default)]
struct Held {
    pieces: Vec<Handle>,
    /// How many are pieces still, and their bytes.
    size: (u64, u64),
    /// Bytes of it that are durable: the first ones are promised.
    durable: Ranges,
}

/// Pieces of all arriving bundles.
#[derive(Debug)]
pub(crate) struct Arriving {
    held: BTreeMap<OfferToken, Held>,
    of: BTreeMap<Handle, (OfferToken, u64)>,
    bytes: u64,
}

impl Arriving {
    pub const fn new() -> Self {
        Arriving { held: BTreeMap::new(), of: BTreeMap::new(), bytes: 0 }
    }
    /// A piece more.
    pub fn add(&mut self, token: OfferToken, piece: Handle, bytes: u64) {
        let held = self.held.entry(token).or_default();
        held.pieces.push(piece);
        held.size = (held.size.0 + 1, held.size.1 + bytes);
        self.of.insert(piece, (token, bytes));
        self.bytes += bytes;
    }
    /// Pieces of this arriving bundle are to be promised.
    pub fn begin(&mut self, token: OfferToken) {
        self.held.entry(token).or_default();
    }
    /// These bytes of an arriving bundle are durable; how many of its first ones may be promised, where those are more
    /// than before. None once it is over.
    pub fn promise(&mut self, token: OfferToken, (start, end): (u64, u64)) -> Option<u64> {
        let durable = &mut self.held.get_mut(&token)?.durable;
        let first = |durable: &Ranges| durable.first().filter(|first| first.start == 0).map_or(0, |first| first.end);
        let before = first(durable);
        durable.insert(start..end);
        Some(first(durable)).filter(|promised| *promised > before)
    }
    /// A piece is one no more; whether it was.
    pub fn end(&mut self, piece: Handle) -> bool {
        let Some((token, bytes)) = self.of.remove(&piece) else { return false };
        self.bytes -= bytes;
        if let Some(held) = self.held.get_mut(&token) {
            held.size = (held.size.0 - 1, held.size.1 - bytes);
        }
        true
    }
    /// Forgets an arriving bundle; its pieces.
    pub fn take(&mut self, token: OfferToken) -> Vec<Handle> {
        self.held.remove(&token).unwrap_or_default().pieces
    }
    pub fn is_known(&self, token: OfferToken) -> bool {
        self.held.contains_key(&token)
    }
    /// Whether a bundle is such a piece.
    pub fn has(&self, piece: Handle) -> bool {
        self.of.contains_key(&piece)
    }
    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Bundles and bytes of all of them beyond what is promised to their wholes.
    pub fn beyond(&self, promised: impl Fn(OfferToken) -> Option<u64>) -> (u64, u64) {
        self.held.iter().fold((0, 0), |(bundles, bytes), (token, held)| {
            let promised = promised(*token);
            let first = u64::from(promised.is_some());
            (bundles + held.size.0.saturating_sub(first), bytes + held.size.1.saturating_sub(promised.unwrap_or(0)))
        })
    }
    /// Arriving bundles with pieces.
    #[cfg(any(test, feature = "audit"))]
    pub fn len(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::LayerId;
    use farlink_base::layer::Ticket;

    #[test]
    fn promise_extends_contiguously_only() {
        let token = |ticket| OfferToken { layer: LayerId(0), ticket: Ticket(ticket) };
        let piece = |slot| Handle { stamp: 1, slot };
        let mut arriving = Arriving::new();
        arriving.add(token(1), piece(1), 100);
        arriving.add(token(1), piece(2), 50);
        arriving.add(token(2), piece(3), 7);
        assert_eq!(arriving.promise(token(3), (0, 100)), None, "it is over");
        assert_eq!(arriving.promise(token(1), (100, 150)), None, "the first bytes are not durable");
        assert_eq!(arriving.promise(token(1), (170, 180)), None, "a gap");
        assert_eq!(arriving.promise(token(1), (0, 100)), Some(150), "all that follows on it");
        assert_eq!((arriving.promise(token(1), (0, 100)), arriving.promise(token(1), (20, 20))), (None, None));
        assert_eq!(arriving.promise(token(1), (150, 170)), Some(180));
        assert_eq!(arriving.promise(token(2), (0, 7)), Some(7));
        assert_eq!((arriving.bytes(), arriving.len()), (157, 2));
        assert!(arriving.end(piece(2)) && !arriving.end(piece(2)) && !arriving.has(piece(2)));
        assert_eq!(arriving.take(token(1)), [piece(1), piece(2)]);
        assert_eq!((arriving.bytes(), arriving.len()), (107, 1));
    }
}
