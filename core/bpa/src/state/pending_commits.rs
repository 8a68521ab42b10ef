//! What is owed when a bundle is durable: verdicts to layers, answers to applications.
//!
//! Owns the reason `Commit`. Kept by number, as the store names bundles.

use crate::app::RequestId;
use crate::io::OfferToken;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::Refusal;
use farlink_book::{Book, Handle, RetentionConstraint};

/// To whom an answer is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Debt {
    /// A layer's offer.
    Offer(OfferToken),
    /// An application's request.
    Request(RequestId),
    /// A layer's offer, of which this is a piece: the bytes that are promised with it.
    Piece(OfferToken, (u64, u64)),
    /// The pieces of this offer, which is here whole: they may go.
    Pieces(OfferToken),
}

/// What is owed about one bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Owed {
    /// The bundle.
    pub bundle: Handle,
    /// To whom.
    pub debts: Vec<Debt>,
    /// The store refused it while it was being sent: if that fails, so does this.
    pub refused: Option<Refusal>,
}

/// Everything owed.
#[derive(Debug, Default)]
pub(crate) struct PendingCommits {
    owed: BTreeMap<u64, Owed>,
}

impl PendingCommits {
    /// The store was asked to keep a bundle.
    pub fn begin(&mut self, book: &mut Book, bundle: Handle, debt: Option<Debt>) {
        let Some(number) = book.get(bundle).map(|held| held.number) else { return };
        self.owed.insert(number, Owed { bundle, debts: debt.into_iter().collect(), refused: None });
        book.hold(bundle, RetentionConstraint::Commit);
    }
    /// Somebody else is owed the same answer. False: the bundle is durable already.
    pub fn add(&mut self, number: u64, debt: Debt) -> bool {
        match self.owed.get_mut(&number) {
            Some(owed) => {
                owed.debts.push(debt);
                true
            }
            None => false,
        }
    }
    /// The store has answered, or its answer matters no longer.
    pub fn settle(&mut self, number: u64) -> Option<Owed> {
        self.owed.remove(&number)
    }
    /// Bundles something is owed about.
    #[cfg(feature = "audit")]
    pub fn len(&self) -> usize {
        self.owed.len()
    }
    /// The bundle a record was to be made of.
    pub fn bundle(&self, number: u64) -> Option<Handle> {
        self.owed.get(&number).map(|owed| owed.bundle)
    }
    /// The store refused it, but it is being sent: the answer waits for that.
    pub fn refuse(&mut self, number: u64, reason: Refusal) {
        if let Some(owed) = self.owed.get_mut(&number) {
            owed.refused = Some(reason);
        }
    }
    /// The send failed too: takes what is owed, and why it is refused.
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
    fn pending_commits_settle_once() {
        let (mut book, handles) = book_with(&[Priority::Normal]);
        let mut pending = PendingCommits::default();
        let request = |n| Debt::Request(RequestId(n));
        pending.begin(&mut book, handles[0], Some(request(1)));
        assert!(book.get(handles[0]).unwrap().has(RetentionConstraint::Commit));
        assert!(pending.add(1, request(2)) && !pending.add(2, request(3)));
        assert_eq!(pending.take_refused(1), None);
        pending.refuse(1, Refusal::NoResources);
        assert_eq!(pending.bundle(1), Some(handles[0]));
        let (owed, reason) = pending.take_refused(1).unwrap();
        assert_eq!((owed.debts, reason), (Vec::from([request(1), request(2)]), Refusal::NoResources));
        assert_eq!(pending.settle(1), None);
    }
}
