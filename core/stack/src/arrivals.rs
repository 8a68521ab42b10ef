//! Bundles that are still arriving: parts are joined to a rope until the last one is in.

use alloc::collections::BTreeMap;
use farlink_base::{LinkId, Payload, Refusal};
use farlink_bpa::OfferToken;

/// One bundle on its way in.
struct Arrival {
    rope: Payload,
    /// Refused already; the rest is thrown away.
    refused: bool,
}

/// What a part led to.
pub(crate) enum Arrived {
    /// More is to come (or was refused before).
    Partly,
    /// The whole bundle.
    Whole(LinkId, Payload),
    /// It is too large, or too much is arriving at once.
    Refused(Refusal),
}

/// All of them, bounded in bytes.
pub(crate) struct Arrivals {
    open: BTreeMap<OfferToken, Arrival>,
    bytes: u64,
    bytes_max: u64,
    bundle_max: u64,
}

impl Arrivals {
    pub fn new(bytes_max: u64, bundle_max: u64) -> Self {
        Arrivals { open: BTreeMap::new(), bytes: 0, bytes_max, bundle_max }
    }

    /// Takes the next part of an offer.
    pub fn part(&mut self, token: OfferToken, link: LinkId, part: Payload, last: bool, total: Option<u64>) -> Arrived {
        let known = self.open.contains_key(&token);
        if !known && last {
            // The common case: one part, nothing to remember.
            return if part.len() > self.bundle_max {
                Arrived::Refused(Refusal::TooLarge)
            } else {
                Arrived::Whole(link, part)
            };
        }
        let arrival = self.open.entry(token).or_insert_with(|| Arrival { rope: Payload::new(), refused: false });
        if arrival.refused {
            if last {
                self.open.remove(&token);
            }
            return Arrived::Partly;
        }
        let len = arrival.rope.len() + part.len();
        let refusal = if len.max(total.unwrap_or(0)) > self.bundle_max {
            Some(Refusal::TooLarge)
        } else if self.bytes + part.len() > self.bytes_max {
            Some(Refusal::NoResources)
        } else {
            None
        };
        if let Some(reason) = refusal {
            self.bytes -= arrival.rope.len();
            *arrival = Arrival { rope: Payload::new(), refused: true };
            if last {
                self.open.remove(&token);
            }
            return Arrived::Refused(reason);
        }
        self.bytes += part.len();
        arrival.rope.append(part);
        if !last {
            return Arrived::Partly;
        }
        match self.open.remove(&token) {
            Some(arrival) => {
                self.bytes -= arrival.rope.len();
                Arrived::Whole(link, arrival.rope)
            }
            None => Arrived::Partly,
        }
    }

    /// The layer gave one up.
    pub fn abort(&mut self, token: OfferToken) {
        if let Some(arrival) = self.open.remove(&token) {
            self.bytes -= arrival.rope.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::LayerId;
    use farlink_base::layer::Ticket;

    fn token(n: u64) -> OfferToken {
        OfferToken { layer: LayerId(0), ticket: Ticket(n) }
    }

    #[test]
    fn parts_join_and_bounds_hold() {
        let mut arrivals = Arrivals::new(100, 80);
        let part = |n: u64| Payload::fill(0, n);
        assert!(matches!(arrivals.part(token(1), LinkId(0), part(60), false, None), Arrived::Partly));
        assert!(matches!(
            arrivals.part(token(2), LinkId(0), part(50), false, None),
            Arrived::Refused(Refusal::NoResources)
        ));
        assert!(matches!(arrivals.part(token(2), LinkId(0), part(50), true, None), Arrived::Partly));
        assert!(matches!(
            arrivals.part(token(3), LinkId(0), part(1), false, Some(81)),
            Arrived::Refused(Refusal::TooLarge)
        ));
        match arrivals.part(token(1), LinkId(0), part(20), true, None) {
            Arrived::Whole(_, rope) => assert_eq!(rope.len(), 80),
            _ => panic!("whole"),
        }
        assert_eq!(arrivals.bytes, 0);
        assert!(matches!(
            arrivals.part(token(4), LinkId(0), part(81), true, None),
            Arrived::Refused(Refusal::TooLarge)
        ));
        arrivals.part(token(5), LinkId(0), part(10), false, None);
        arrivals.abort(token(5));
        assert_eq!(arrivals.bytes, 0);
    }
}
