//! Epidemic routing: a copy to every neighbour met, until the destination has one.
//!
//! A. Vahdat, D. Becker: "Epidemic Routing for Partially-Connected Ad Hoc Networks", Duke CS-2000-06.
//! The summary vector of the paper is the peer's own duplicate check: a copy it already has is
//! refused, and not offered to it again.

use crate::router::{ContactChange, Outcome, Question, Router, RouterOutput};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{BundleHandle, BundleView, Instant, LinkId, NodeId, Proposal, Sink};

/// Flooding.
#[derive(Default)]
pub struct Epidemic {
    /// Links that are up, and to whom.
    up: BTreeMap<LinkId, NodeId>,
    /// Who got which bundle from here.
    given: BTreeMap<BundleHandle, Vec<(LinkId, NodeId)>>,
}

impl Epidemic {
    /// Knows no neighbour yet.
    pub fn new() -> Self {
        Epidemic::default()
    }

    fn propose_to(&self, now: Instant, peer: NodeId, link: LinkId, bundle: &BundleView, out: &mut Vec<Proposal>) {
        let has_it = bundle.received_from == Some(peer)
            || bundle.source == peer
            || bundle.excluded.contains(&peer)
            || self.given.get(&bundle.bundle).is_some_and(|given| given.iter().any(|(_, to)| *to == peer));
        if has_it {
            return;
        }
        out.push(if peer == bundle.destination {
            Proposal::Forward { link, next_hop: peer, not_before: now, until: Instant::MAX, arrival: None }
        } else {
            Proposal::Copy { link, next_hop: peer, split: 1 }
        });
    }
}

impl Router for Epidemic {
    fn name(&self) -> &'static str {
        "epidemic"
    }
    fn replicates(&self) -> bool {
        true
    }

    fn on_contact(&mut self, _now: Instant, change: ContactChange, _out: &mut dyn Sink<RouterOutput>) {
        match change {
            ContactChange::Up { peer, link, .. } => drop(self.up.insert(link, peer)),
            ContactChange::Down { link, .. } => drop(self.up.remove(&link)),
        }
    }

    fn propose(&mut self, now: Instant, question: Question<'_>, out: &mut Vec<Proposal>) {
        match question {
            Question::Peer { peer, link, bundle } => self.propose_to(now, peer, link, bundle, out),
            Question::Bundle(bundle) => {
                // To the destination itself first, and then to nobody else.
                let there = self.up.iter().find(|(_, peer)| **peer == bundle.destination);
                if let Some((link, peer)) = there {
                    self.propose_to(now, *peer, *link, bundle, out);
                    return;
                }
                let mut asked: Vec<NodeId> = Vec::new();
                for (link, peer) in &self.up {
                    if !asked.contains(peer) {
                        asked.push(*peer);
                        self.propose_to(now, *peer, *link, bundle, out);
                    }
                }
            }
        }
    }

    fn on_outcome(&mut self, _now: Instant, bundle: &BundleView, outcome: Outcome, _: &mut dyn Sink<RouterOutput>) {
        match outcome {
            Outcome::Queued { link } | Outcome::Sent { link } => {
                if let Some(peer) = self.up.get(&link) {
                    let given = self.given.entry(bundle.bundle).or_default();
                    if !given.contains(&(link, *peer)) {
                        given.push((link, *peer));
                    }
                }
            }
            Outcome::Failed { link } => {
                if let Some(given) = self.given.get_mut(&bundle.bundle) {
                    given.retain(|(over, _)| *over != link);
                }
            }
            Outcome::Gone => drop(self.given.remove(&bundle.bundle)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::view;

    fn meet(router: &mut Epidemic, link: u32, peer: u64) {
        let change = ContactChange::Up { peer: NodeId(peer), link: LinkId(link), rate: None, until: None };
        router.on_contact(Instant(0), change, &mut Vec::new());
    }
    fn peers(out: &[Proposal]) -> Vec<(u64, bool)> {
        let each = out.iter().map(|p| match p {
            Proposal::Forward { next_hop, .. } => (next_hop.0, true),
            Proposal::Copy { next_hop, .. } => (next_hop.0, false),
            Proposal::Wait { .. } => (0, false),
        });
        each.collect()
    }
    fn ask(router: &mut Epidemic, bundle: &BundleView) -> Vec<(u64, bool)> {
        let mut out = Vec::new();
        router.propose(Instant(1), Question::Bundle(bundle), &mut out);
        peers(&out)
    }

    #[test]
    fn everyone_met_gets_one_copy_and_the_destination_the_bundle() {
        let mut router = Epidemic::new();
        let mut bundle = view(1, 9);
        bundle.received_from = Some(NodeId(3));
        meet(&mut router, 0, 2);
        meet(&mut router, 1, 3);
        meet(&mut router, 2, 4);
        assert_eq!(ask(&mut router, &bundle), [(2, false), (4, false)], "not back to where it came from");
        router.on_outcome(Instant(1), &bundle, Outcome::Queued { link: LinkId(0) }, &mut Vec::new());
        router.on_outcome(Instant(2), &bundle, Outcome::Sent { link: LinkId(0) }, &mut Vec::new());
        assert_eq!(ask(&mut router, &bundle), [(4, false)]);
        let mut out = Vec::new();
        let question = Question::Peer { peer: NodeId(2), link: LinkId(0), bundle: &bundle };
        router.propose(Instant(1), question, &mut out);
        assert!(out.is_empty(), "it has one");
        meet(&mut router, 3, 9);
        assert_eq!(ask(&mut router, &bundle), [(9, true)]);
        router.on_outcome(Instant(3), &bundle, Outcome::Gone, &mut Vec::new());
        assert!(router.given.is_empty());
    }

    #[test]
    fn a_copy_that_failed_is_offered_again() {
        let mut router = Epidemic::new();
        meet(&mut router, 0, 2);
        let bundle = view(1, 9);
        router.on_outcome(Instant(1), &bundle, Outcome::Queued { link: LinkId(0) }, &mut Vec::new());
        assert_eq!(ask(&mut router, &bundle), []);
        router.on_outcome(Instant(1), &bundle, Outcome::Failed { link: LinkId(0) }, &mut Vec::new());
        assert_eq!(ask(&mut router, &bundle), [(2, false)]);
    }
}
