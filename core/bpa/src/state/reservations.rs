//! Room promised to bundles that are arriving: whoever else comes may not have it.

use crate::io::OfferToken;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use farlink_book::Held;

/// What is promised to whom.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    made: BTreeMap<OfferToken, Promise>,
    /// All of them together.
    bytes: u128,
}

#[derive(Debug)]
struct Promise {
    bytes: u64,
    /// What counts to shares as if it were here.
    counted: Option<Box<Held>>,
}

impl Reservations {
    /// Promises room to an arrival; what was promised to it before counts no more.
    pub fn make(&mut self, token: OfferToken, bytes: u64, counted: Option<Box<Held>>) {
        debug_assert!(!self.made.contains_key(&token), "what was promised before has ended");
        self.bytes += u128::from(bytes);
        self.made.insert(token, Promise { bytes, counted });
    }
    /// It arrived, or will not; what counted to shares for it.
    pub fn end(&mut self, token: OfferToken) -> Option<Box<Held>> {
        let ended = self.made.remove(&token)?;
        self.bytes -= u128::from(ended.bytes);
        ended.counted
    }
    /// What counts to shares for one arrival.
    pub fn of(&self, token: OfferToken) -> Option<&Held> {
        self.made.get(&token)?.counted.as_deref()
    }
    /// What counts to shares as if it were here.
    pub fn counted(&self) -> impl Iterator<Item = &Held> {
        self.made.values().filter_map(|promise| promise.counted.as_deref())
    }
    /// Bytes promised in all.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }
    /// Arrivals they are promised to.
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
    fn total_matches_open_reservations() {
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
