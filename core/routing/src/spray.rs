//! Spray and wait: a fixed number of copies per bundle; a node with more than one copy gives some away, a node with
//! one waits for the destination.
//!
//! T. Spyropoulos, K. Psounis, C. Raghavendra: "Spray and Wait: An Efficient Routing Scheme for Intermittently
//! Connected Mobile Networks", WDTN 2005. The label is the number of copies left; it travels. A restart forgets
//! copies given since a bundle arrived: then there may be more copies, never fewer.

use crate::router::Router;
use farlink_base::Param;
use farlink_book::{Actions, CopyOffer, DeliveryForecast, EventMask, Held, Node, Peer, PolicyEvent};

/// Router that counts copies.
#[derive(Debug)]
pub struct Spray {
    copies: u32,
    binary: bool,
}

impl Spray {
    /// Parameters of the router.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "copies",
            help: "Most copies of a bundle; for ten to a hundred nodes, a tenth of their number is a good value.",
            unit: "",
            default: 8.0,
            min: 1.0,
            max: 65_535.0,
        },
        Param {
            name: "binary",
            help: "1: a node with several copies gives half of them; 0: the source gives one at a time.",
            unit: "",
            default: 1.0,
            min: 0.0,
            max: 1.0,
        },
    ];

    /// Spray and wait with values of [`Spray::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Spray { copies: param(0) as u32, binary: param(1) >= 0.5 }
    }
}

impl DeliveryForecast for Spray {}

impl Router for Spray {
    fn hears(&self) -> EventMask {
        EventMask::KEPT.and(EventMask::OUTCOMES)
    }
    fn copies(&self) -> bool {
        true
    }
    fn asks_summaries(&self) -> bool {
        true
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            // A forged label must not create copies beyond the limit.
            PolicyEvent::Kept { bundle, wire } => out.label(bundle, wire.unwrap_or(self.copies).clamp(1, self.copies)),
            // Add back the copies that the neighbour did not take, so that none is lost.
            PolicyEvent::Failed { bundle, gave, .. } => {
                if let Some(held) = node.get(bundle) {
                    out.label(bundle, node.label(held).saturating_add(gave).min(self.copies));
                }
            }
            _ => {}
        }
    }
    fn wants(&self, node: &Node<'_>, _peer: &Peer, held: &Held) -> Option<CopyOffer> {
        let left = node.label(held);
        let theirs = if self.binary { left / 2 } else { 1 };
        (left >= 2).then(|| CopyOffer::copy(held, held.number).with(node, left - theirs, theirs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RouterSite;
    use farlink_base::PeerId;
    use farlink_book::{Action, LabelSplit};

    fn said(router: &mut Spray, site: &RouterSite, event: PolicyEvent<'_>) -> Option<u32> {
        let mut out = Actions::default();
        router.on(&site.node(), &event, &mut out);
        out.drain().find_map(|order| if let Action::Label { label, .. } = order { Some(label) } else { None })
    }

    #[test]
    fn half_or_one_copy_is_given() {
        let mut site = RouterSite::new();
        let (bundle, peer) = (site.keep(9, 100), site.meet(2, 0));
        // Binary spraying gives half, rounded down; source spraying gives one.
        for (binary, label, split) in
            [(1.0, 8, Some((4, 4))), (1.0, 5, Some((3, 2))), (1.0, 1, None), (0.0, 8, Some((7, 1))), (0.0, 1, None)]
        {
            site.held_mut(bundle).labels[0] = label;
            let router = Spray::new(&[8.0, binary]);
            let want = router.wants(&site.node(), site.peer(peer), site.held(bundle));
            let split = split.map(|(ours, theirs)| LabelSplit { ours, theirs });
            assert_eq!(want.map(|want| want.labels[0]), split, "{label} copies, binary {binary}");
        }
    }

    #[test]
    fn labels_begin_travel_and_return() {
        let mut site = RouterSite::new();
        let bundle = site.keep(9, 100);
        let mut router = Spray::new(&[]);
        assert_eq!(said(&mut router, &site, PolicyEvent::Kept { bundle, wire: None }), Some(8), "made here");
        assert_eq!(said(&mut router, &site, PolicyEvent::Kept { bundle, wire: Some(3) }), Some(3));
        assert_eq!(
            said(&mut router, &site, PolicyEvent::Kept { bundle, wire: Some(u32::MAX) }),
            Some(8),
            "a forged label is bounded"
        );
        site.held_mut(bundle).labels[0] = 4;
        let failed = |gave| PolicyEvent::Failed { bundle, to: PeerId(1), gave, keep: true };
        assert_eq!(said(&mut router, &site, failed(4)), Some(8));
    }

    #[test]
    fn copies_stay_within_one_and_limit() {
        let mut site = RouterSite::new();
        let (bundle, mut router) = (site.keep(9, 100), Spray::new(&[]));
        site.held_mut(bundle).labels[0] = 6;
        let failed = PolicyEvent::Failed { bundle, to: PeerId(1), gave: 4, keep: true };
        assert_eq!(said(&mut router, &site, failed), Some(8));
        assert_eq!(said(&mut router, &site, PolicyEvent::Kept { bundle, wire: Some(0) }), Some(1));
    }
}
