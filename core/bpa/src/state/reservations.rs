//! Room reserved for arriving bundles, which no other bundle may use.

use crate::io::OfferToken;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use farlink_book::Held;

/// All reservations by offer.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    made: BTreeMap<OfferToken, Promise>,
    /// Sum of all reservations modulo 2^64; `carries` is the sum divided by 2^64. A `u128` would align the whole agent
    /// to 16 bytes.
    bytes: u64,
    carries: u32,
}

#[derive(Debug)]
struct Promise {
    bytes: u64,
    /// The arriving bundle, if it is charged to shares.
    counted: Option<Box<Held>>,
}

impl Reservations {
    /// Reserves room for an arrival that has no reservation.
    pub fn make(&mut self, token: OfferToken, bytes: u64, counted: Option<Box<Held>>) {
        debug_assert!(!self.made.contains_key(&token), "what was promised before has ended");
        // Heads may claim lengths whose sum exceeds 64 bits.
        let (sum, carry) = self.bytes.overflowing_add(bytes);
        (self.bytes, self.carries) = (sum, self.carries + u32::from(carry));
        self.made.insert(token, Promise { bytes, counted });
    }
    /// Ends a reservation. Returns the bundle that was charged to shares for it, if any.
    pub fn end(&mut self, token: OfferToken) -> Option<Box<Held>> {
        let ended = self.made.remove(&token)?;
        let (sum, borrow) = self.bytes.overflowing_sub(ended.bytes);
        (self.bytes, self.carries) = (sum, self.carries - u32::from(borrow));
        ended.counted
    }
    /// Bundle that is charged to shares for one arrival, if any.
    pub fn of(&self, token: OfferToken) -> Option<&Held> {
        self.made.get(&token)?.counted.as_deref()
    }
    /// Bundles charged to shares as if they were here.
    pub fn counted(&self) -> impl Iterator<Item = &Held> {
        self.made.values().filter_map(|promise| promise.counted.as_deref())
    }
    /// Sum of all reservations, bytes; at most `u64::MAX`.
    pub fn bytes(&self) -> u64 {
        if self.carries == 0 { self.bytes } else { u64::MAX }
    }
    #[cfg(any(test, feature = "audit"))]
    pub fn len(&self) -> usize {
        self.made.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::LayerId;
    use farlink_base::layer::Ticket;

    #[test]
    fn total_counts_open_reservations() {
        let token = |ticket| OfferToken { layer: LayerId(0), ticket: Ticket(ticket) };
        let mut reservations = Reservations::default();
        reservations.make(token(1), 7, None);
        reservations.make(token(2), 30, None);
        assert_eq!((reservations.bytes(), reservations.len()), (37, 2));
        let _ = reservations.end(token(2));
        let _ = reservations.end(token(2));
        let _ = reservations.end(token(3));
        assert_eq!((reservations.bytes(), reservations.len()), (7, 1));
        reservations.make(token(3), u64::MAX, None);
        assert_eq!(reservations.bytes(), u64::MAX, "lengths that nobody has");
        let _ = reservations.end(token(3));
        let _ = reservations.end(token(1));
        assert_eq!((reservations.bytes(), reservations.len()), (0, 0));
    }
}
