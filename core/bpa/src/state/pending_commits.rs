//! Answers that are due once a bundle is durable: verdicts to layers, results to applications.
//!
//! Owns the retention constraint `Commit`. Entries are found by the bundle's number, which the store's answers name.

use crate::app::RequestId;
use crate::io::OfferToken;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::Refusal;
use farlink_book::{Book, Handle, RetentionConstraint};

/// Receiver of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Debt {
    /// A layer that offered this bundle.
    Offer(OfferToken),
    /// An application that requested to send the bundle.
    Request(RequestId),
    /// A layer that offers the bundle of which this one is a piece; once the piece is durable, this range of the
    /// offered bundle's bytes may be promised.
    Piece(OfferToken, (u64, u64)),
    /// The pieces of this offer, which are dropped once this whole bundle is durable.
    Pieces(OfferToken),
}

/// Answers due about one bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owed {
    pub bundle: Handle,
    pub debts: Vec<Debt>,
    /// Refusal by the store while the bundle was being sent; it counts only if the transmission fails.
    pub refused: Option<Refusal>,
}

/// Pending answers about all bundles.
#[derive(Debug, Default)]
pub(crate) struct PendingCommits {
    owed: BTreeMap<u64, Owed>,
}

impl PendingCommits {
    /// Notes that the store was asked to commit a bundle, and the receiver of the answer.
    pub fn begin(&mut self, book: &mut Book, bundle: Handle, debt: Option<Debt>) {
        // Entries are keyed by the number that the store's answer will contain.
        let Some(number) = book.get(bundle).map(|held| held.number) else { return };
        self.owed.insert(number, Owed { bundle, debts: debt.into_iter().collect(), refused: None });
        book.hold(bundle, RetentionConstraint::Commit);
    }
    /// Adds a receiver of the answer about a bundle. Returns false if no commit of the bundle is pending.
    pub fn add(&mut self, number: u64, debt: Debt) -> bool {
        match self.owed.get_mut(&number) {
            Some(owed) => {
                owed.debts.push(debt);
                true
            }
            None => false,
        }
    }
    /// Takes the answers due, because the store has answered or the bundle departs.
    pub fn settle(&mut self, number: u64) -> Option<Owed> {
        self.owed.remove(&number)
    }
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.owed.len()
    }
    /// Bundle whose commit is pending under this number.
    pub fn bundle(&self, number: u64) -> Option<Handle> {
        self.owed.get(&number).map(|owed| owed.bundle)
    }
    /// Keeps a refusal by the store until the bundle's transmission ends.
    pub fn refuse(&mut self, number: u64, reason: Refusal) {
        if let Some(owed) = self.owed.get_mut(&number) {
            owed.refused = Some(reason);
        }
    }
    /// Takes the answers and the store's refusal, after the transmission failed as well; `None` if the store did not
    /// refuse.
    pub fn take_refused(&mut self, number: u64) -> Option<(Owed, Refusal)> {
        let reason = self.owed.get(&number)?.refused?;
        Some((self.owed.remove(&number)?, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::book_with;
    use farlink_base::Priority;

    #[test]
    fn pending_commits_are_settled_once() {
        let (mut book, handles) = book_with(&[Priority::Normal]);
        let mut pending = PendingCommits::default();
        let request = |n| Debt::Request(RequestId(n));
        pending.begin(&mut book, handles[0], Some(request(1)));
        assert!(book.get(handles[0]).unwrap().has(RetentionConstraint::Commit));
        assert!(pending.add(1, request(2)) && !pending.add(2, request(3)));
        // Nothing is refused while the store has not answered.
        assert_eq!(pending.take_refused(1), None);
        pending.refuse(1, Refusal::NoResources);
        assert_eq!(pending.bundle(1), Some(handles[0]));
        let (owed, reason) = pending.take_refused(1).unwrap();
        assert_eq!((owed.debts, reason), (Vec::from([request(1), request(2)]), Refusal::NoResources));
        assert_eq!(pending.settle(1), None);
    }
}
