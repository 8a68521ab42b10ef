//! Room promised to bundles that are arriving: whoever else comes may not have it.

use crate::io::OfferToken;
use alloc::collections::BTreeMap;

/// What is promised to whom.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    sizes: BTreeMap<OfferToken, u64>,
    /// All of them together.
    bytes: u128,
}

impl Promises {
    /// Promises room to an arrival; what was promised to it before counts no more.
    pub fn make(&mut self, token: OfferToken, bytes: u64) {
        let before = self.sizes.insert(token, bytes).unwrap_or(0);
        self.bytes = self.bytes - u128::from(before) + u128::from(bytes);
    }
    /// It arrived, or will not.
    pub fn end(&mut self, token: OfferToken) {
        self.bytes -= u128::from(self.sizes.remove(&token).unwrap_or(0));
    }
    /// Bytes promised in all.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }
    /// Arrivals they are promised to.
    #[cfg(any(test, feature = "audit"))]
    pub fn len(&self) -> usize {
        self.sizes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::LayerId;
    use farlink_base::layer::Ticket;

    #[test]
    fn the_total_is_what_is_promised_now() {
        let token = |ticket| OfferToken { layer: LayerId(0), ticket: Ticket(ticket) };
        let mut promises = Promises::default();
        promises.make(token(1), 100);
        promises.make(token(2), 30);
        assert_eq!((promises.bytes(), promises.len()), (130, 2));
        promises.make(token(1), 7);
        assert_eq!((promises.bytes(), promises.len()), (37, 2), "the same once more");
        promises.end(token(2));
        promises.end(token(2));
        promises.end(token(3));
        assert_eq!((promises.bytes(), promises.len()), (7, 1));
        promises.make(token(3), u64::MAX);
        assert_eq!(promises.bytes(), u64::MAX, "lengths that nobody has");
        promises.end(token(3));
        promises.end(token(1));
        assert_eq!((promises.bytes(), promises.len()), (0, 0));
    }
}
