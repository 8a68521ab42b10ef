//! The router of static networks: bundles for a neighbour go to it while a link is up. Everything
//! else follows the configured routes, which the agent keeps and tries when a router has none.

use crate::router::{ContactChange, Question, Router, RouterOutput};
use alloc::vec::Vec;
use farlink_base::{DataRate, Instant, LinkId, NodeId, Proposal, Sink};

/// A link that is up.
struct Up {
    peer: NodeId,
    link: LinkId,
    rate: Option<DataRate>,
    until: Instant,
}

/// Direct neighbours only.
#[derive(Default)]
pub struct Direct {
    up: Vec<Up>,
}

impl Direct {
    /// Knows no neighbour yet.
    pub fn new() -> Self {
        Direct::default()
    }
}

impl Router for Direct {
    fn name(&self) -> &'static str {
        "static"
    }

    fn on_contact(&mut self, _now: Instant, change: ContactChange, out: &mut dyn Sink<RouterOutput>) {
        match change {
            ContactChange::Up { peer, link, rate, until } => {
                self.up.retain(|u| (u.peer, u.link) != (peer, link));
                self.up.push(Up { peer, link, rate, until: until.unwrap_or(Instant::MAX) });
                // The fastest first; of equals, the one configured first.
                self.up.sort_by_key(|u| (core::cmp::Reverse(u.rate), u.link));
                out.push(RouterOutput::Reconsider);
            }
            ContactChange::Down { peer, link } => self.up.retain(|u| (u.peer, u.link) != (peer, link)),
        }
    }

    fn propose(&mut self, now: Instant, question: Question<'_>, out: &mut Vec<Proposal>) {
        let Question::Bundle(bundle) = question else { return };
        if bundle.excluded.contains(&bundle.destination) {
            return;
        }
        for up in self.up.iter().filter(|u| u.peer == bundle.destination && u.until > now) {
            let arrival = None;
            out.push(Proposal::Forward { link: up.link, next_hop: up.peer, not_before: now, until: up.until, arrival });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::view;

    fn up(link: u32, rate: u64) -> ContactChange {
        ContactChange::Up { peer: NodeId(2), link: LinkId(link), rate: Some(DataRate(rate)), until: None }
    }

    #[test]
    fn a_neighbour_is_proposed_while_up_fastest_link_first() {
        let (mut router, mut said) = (Direct::new(), Vec::new());
        let ask = |router: &mut Direct, destination| {
            let mut out = Vec::new();
            router.propose(Instant(5), Question::Bundle(&view(1, destination)), &mut out);
            let links = out.iter().map(|p| match p {
                Proposal::Forward { link, .. } => link.0,
                _ => u32::MAX,
            });
            links.collect::<Vec<_>>()
        };
        assert_eq!(ask(&mut router, 2), []);
        router.on_contact(Instant(0), up(0, 10), &mut said);
        router.on_contact(Instant(0), up(1, 20), &mut said);
        assert_eq!(ask(&mut router, 2), [1, 0]);
        assert_eq!(ask(&mut router, 3), []);
        router.on_contact(Instant(1), ContactChange::Down { peer: NodeId(2), link: LinkId(1) }, &mut said);
        assert_eq!(ask(&mut router, 2), [0]);
        assert_eq!(said, [RouterOutput::Reconsider, RouterOutput::Reconsider]);
    }
}
