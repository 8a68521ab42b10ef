//! Consistency checks between the book, its retention constraints and their owners, and the sizes of all tables; for
//! tests.

use crate::agent::Agent;
use crate::custody::Stage;
use farlink_base::Instant;
use farlink_book::{Held, RetentionConstraint, RetentionConstraints};

/// Number of entries in each table of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Held bundles of all kinds.
    pub bundles: usize,
    /// Bundles whose commit is pending.
    pub debts: usize,
    /// Arriving bundles with reserved room.
    pub promises: usize,
    /// Entries of bundles in the queues of links; a bundle may have several.
    pub legs: usize,
    /// Lists in the queues of all links: one for each priority and contact.
    pub lists: usize,
    /// Open cursors of the book: of lists for operators, rerouting, memory and offers to neighbours.
    pub cursors: usize,
    /// Transmissions under way.
    pub sends: usize,
    /// Bundles that leave in fragments.
    pub cuts: usize,
    /// Entries about bundles that wait for a time or for room at a neighbour, that were refused, or that came back.
    pub waits: usize,
    /// Neighbours with an open offer.
    pub offers: usize,
    /// Entries of bundles in applications' queues, and unanswered deliveries of held bundles.
    pub deliveries: usize,
    /// Endpoints with a registration or waiting bundles.
    pub endpoints: usize,
    /// Present and former group members that are remembered with bundles.
    pub members: usize,
    /// Originals whose fragments are being collected, reassembled bundles, and arriving bundles with pieces.
    pub fragments: usize,
    /// Payloads on disk whose memory will be released later.
    pub on_disk: usize,
    /// Number of bundles that request custody, and of groups of gathered answers.
    pub custody: (usize, usize),
    /// Hellos that are to be sent, are under way, or wait to be evaluated.
    pub hellos: usize,
    /// Sum of neighbours and links.
    pub neighbours: usize,
    /// Number of armed timers.
    pub timers: usize,
    /// Steps left in the work list.
    pub steps: usize,
}

impl Agent {
    /// Counts the entries of all tables.
    pub fn counts(&self) -> Counts {
        Counts {
            bundles: self.book.len(),
            debts: self.pending_commits.len(),
            promises: self.bounds.reservations.len(),
            legs: self.outbound.queues.len(),
            lists: self.outbound.queues.lists(),
            cursors: self.book.cursors(),
            sends: self.outbound.transmissions.len(),
            cuts: self.outbound.partial_sends.len(),
            waits: self.outbound.waits.len() + self.outbound.backoff.len(),
            offers: self.outbound.offers.peers().count(),
            deliveries: self.deliveries.bundles(),
            endpoints: self.deliveries.endpoints(),
            members: self.deliveries.members(),
            fragments: self.fragments.len(),
            on_disk: self.bounds.memory.on_disk(),
            custody: self.custody.as_ref().map_or((0, 0), |custody| custody.counts()),
            hellos: self.hellos.len(),
            neighbours: self.neighbours.peers().len() + self.neighbours.links().count(),
            timers: self.work.timers(),
            steps: self.work.steps(),
        }
    }

    /// Checks the book and every retention constraint against its owner.
    ///
    /// # Panics
    /// If they do not agree.
    pub fn audit(&self) {
        self.book.audit();
        self.book.all().for_each(|held| self.audit_one(held));
        assert!(self.deliveries.shared().all(|bundle| self.book.get(bundle).is_some()), "what members have is held");
        let (mut sends, mut legs) = (0, 0);
        for held in self.book.all() {
            sends += self.outbound.transmissions.of(held.handle()).count();
            legs += self.outbound.queues.legs_of(held);
        }
        assert!(sends <= self.outbound.transmissions.len(), "transmissions of held bundles");
        assert_eq!(legs, self.outbound.queues.len(), "places in queues belong to held bundles");
        if let Some(custody) = &self.custody {
            custody.audit(&self.book);
        }
        if let Some(tunnels) = &self.tunnels {
            tunnels.audit(&self.book);
        }
        // An arriving bundle is charged through its reservation until it completes, so its pieces are left out.
        let here = self.book.all().filter(|held| !self.fragments.is_arriving(held.handle()));
        self.bounds.fair_share.audit(here.chain(self.bounds.reservations.counted()), &self.settings.limits);
        // Outer bundles and pieces take no room of their own, but all of them are in the book.
        let around = self.tunnels.as_ref().map_or((0, 0), |tunnels| tunnels.around());
        let unmade = (around.1 + self.fragments.arriving_bytes(), around.0);
        assert!(unmade.0 <= self.book.bytes() && unmade.1 <= self.book.len() as u64, "what takes no room is held");
        let owed = self.book.all().filter(|held| held.has(RetentionConstraint::Commit)).count();
        assert_eq!(owed, self.pending_commits.len(), "debts belong to held bundles");
        // `Instant::MAX` means never, so no timer may have it as deadline.
        assert!(self.next_timeout().is_none_or(|at| at < Instant::MAX), "nothing is due never");
    }

    fn audit_one(&self, held: &Held) {
        let (handle, number) = (held.handle(), held.number);
        let sends = self.outbound.transmissions.of(handle).count();
        let is = |reason| held.has(reason);
        const UNCOMMITTED: RetentionConstraints = RetentionConstraints::of(&[RetentionConstraint::Commit]);
        assert!(!held.reasons().within(UNCOMMITTED), "bundle {number} is held for a reason: {held:?}");
        assert_eq!(is(RetentionConstraint::Send), sends > 0, "bundle {number} is being sent");
        // The counter of a bundle is 8 bits wide and saturates.
        let counted = usize::from(held.sends);
        assert!(counted == sends || counted == 255 && sends > 0, "transmissions of bundle {number}");
        assert_eq!(is(RetentionConstraint::Queue), self.outbound.queues.legs_of(held) > 0, "bundle {number} is queued");
        assert_eq!(
            is(RetentionConstraint::Commit),
            self.pending_commits.bundle(number) == Some(handle),
            "bundle {number} is not durable"
        );
        let stage = |stage| self.custody.as_ref().is_some_and(|custody| custody.is(number, stage));
        assert_eq!(is(RetentionConstraint::Custody), stage(Stage::Ours), "bundle {number} is in custody");
        assert!(!stage(Stage::Ours) || self.is_durable(held), "bundle {number} in custody is durable");
        let awaits = || self.custody.as_ref().is_some_and(|custody| custody.awaits(number));
        let goes_on =
            is(RetentionConstraint::Route) || is(RetentionConstraint::Send) || !stage(Stage::Ours) || awaits();
        assert!(goes_on, "bundle {number} in custody goes on, or waits for a signal");
        assert!(
            !stage(Stage::Promised) || is(RetentionConstraint::Commit) && !is(RetentionConstraint::Send),
            "bundle {number} waits for the store"
        );
        let arriving = self.fragments.is_arriving(handle);
        assert!(!arriving || is(RetentionConstraint::Whole), "bundle {number} is a piece of what is arriving");
        let (part, owed) = (self.fragments.whole_of(handle).is_some(), self.deliveries.owes(handle));
        assert!(!(part || owed) || is(RetentionConstraint::Whole), "bundle {number} is a part, or to come to members");
        let part = part || arriving;
        assert!(
            !is(RetentionConstraint::Whole) || part || self.deliveries.is_shared(handle),
            "something refers to bundle {number}"
        );
        if is(RetentionConstraint::Fragment) {
            assert!(self.fragments.is_joining(held), "bundle {number} waits for other fragments");
        }
        for part in self.fragments.parts(handle) {
            assert!(
                self.book.get(*part).is_some_and(|part| part.has(RetentionConstraint::Whole)),
                "parts of {number} are here"
            );
        }
        // A bundle for this node is not forwarded; a group's bundle uses `Whole` for its members.
        assert!(
            !(is(RetentionConstraint::Deliver) && is(RetentionConstraint::Route)),
            "bundle {number} is delivered or forwarded"
        );
    }
}
