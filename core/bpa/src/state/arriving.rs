//! Pieces of arriving bundles: the arriving bundle of each, and the prefix of it that may be promised to the sender.

use crate::io::OfferToken;
use crate::state::ranges::Ranges;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_book::Handle;

/// Pieces of one arriving bundle.
#[derive(Debug, Default)]
struct ArrivingHold {
    pieces: Vec<Handle>,
    /// Number and bytes of the pieces that still count as pieces: neither departed nor turned into fragments.
    size: (u64, u64),
    /// Durable bytes of the arriving bundle; the contiguous prefix of these is promised.
    durable: Ranges,
}

/// Pieces of all arriving bundles.
#[derive(Debug)]
pub(crate) struct Arriving {
    held: BTreeMap<OfferToken, ArrivingHold>,
    of: BTreeMap<Handle, (OfferToken, u64)>,
    bytes: u64,
}

impl Arriving {
    pub const fn new() -> Self {
        Arriving { held: BTreeMap::new(), of: BTreeMap::new(), bytes: 0 }
    }
    /// Adds a piece to an arriving bundle.
    pub fn add(&mut self, token: OfferToken, piece: Handle, bytes: u64) {
        // Tracking begins with the first piece, or with `begin` if an earlier, broken transfer brought the pieces.
        let held = self.held.entry(token).or_default();
        held.pieces.push(piece);
        held.size = (held.size.0 + 1, held.size.1 + bytes);
        self.of.insert(piece, (token, bytes));
        self.bytes += bytes;
    }
    /// Begins to track promises for an arriving bundle.
    pub fn begin(&mut self, token: OfferToken) {
        self.held.entry(token).or_default();
    }
    /// Notes durable bytes of an arriving bundle. Returns the new length of its promised prefix if that grew; `None` if
    /// it did not, or if the transfer is over.
    pub fn note_durable(&mut self, token: OfferToken, (start, end): (u64, u64)) -> Option<u64> {
        let durable = &mut self.held.get_mut(&token)?.durable;
        // Only a prefix may be promised: the sender resumes a broken transfer at one offset.
        let first = |durable: &Ranges| durable.first().filter(|first| first.start == 0).map_or(0, |first| first.end);
        let before = first(durable);
        durable.insert(start..end);
        Some(first(durable)).filter(|promised| *promised > before)
    }
    /// Stops treating a fragment as a piece of a bundle that is still arriving; returns whether it was one.
    pub fn end(&mut self, piece: Handle) -> bool {
        let Some((token, bytes)) = self.of.remove(&piece) else { return false };
        self.bytes -= bytes;
        if let Some(held) = self.held.get_mut(&token) {
            held.size = (held.size.0 - 1, held.size.1 - bytes);
        }
        true
    }
    /// Forgets an arriving bundle. Returns all of its pieces, also those that departed or no longer count as pieces.
    pub fn take(&mut self, token: OfferToken) -> Vec<Handle> {
        self.held.remove(&token).unwrap_or_default().pieces
    }
    pub fn is_known(&self, token: OfferToken) -> bool {
        self.held.contains_key(&token)
    }
    /// Whether a bundle is a piece of an arriving one.
    pub fn has(&self, piece: Handle) -> bool {
        self.of.contains_key(&piece)
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Number and bytes of all pieces in excess of the room reserved for their arriving bundles; `promised` is the size
    /// of an arriving bundle's reservation.
    pub fn beyond(&self, promised: impl Fn(OfferToken) -> Option<u64>) -> (u64, u64) {
        // A reservation counts as one bundle with its full size.
        self.held.iter().fold((0, 0), |(bundles, bytes), (token, held)| {
            let promised = promised(*token);
            let first = u64::from(promised.is_some());
            (bundles + held.size.0.saturating_sub(first), bytes + held.size.1.saturating_sub(promised.unwrap_or(0)))
        })
    }
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
    fn only_adjacent_pieces_are_promised() {
        let token = |ticket| OfferToken { layer: LayerId(0), ticket: Ticket(ticket) };
        let piece = |slot| Handle { stamp: 1, slot };
        let mut arriving = Arriving::new();
        arriving.add(token(1), piece(1), 100);
        arriving.add(token(1), piece(2), 50);
        arriving.add(token(2), piece(3), 7);
        assert_eq!(arriving.note_durable(token(3), (0, 100)), None, "it is over");
        assert_eq!(arriving.note_durable(token(1), (100, 150)), None, "the first bytes are not durable");
        assert_eq!(arriving.note_durable(token(1), (170, 180)), None, "a gap");
        assert_eq!(arriving.note_durable(token(1), (0, 100)), Some(150), "all that follows on it");
        assert_eq!(
            (arriving.note_durable(token(1), (0, 100)), arriving.note_durable(token(1), (20, 20))),
            (None, None)
        );
        assert_eq!(arriving.note_durable(token(1), (150, 170)), Some(180));
        assert_eq!(arriving.note_durable(token(2), (0, 7)), Some(7));
        assert_eq!((arriving.bytes(), arriving.len()), (157, 2));
        assert!(arriving.end(piece(2)) && !arriving.end(piece(2)) && !arriving.has(piece(2)));
        assert_eq!(arriving.take(token(1)), [piece(1), piece(2)]);
        assert_eq!((arriving.bytes(), arriving.len()), (107, 1));
    }
}
