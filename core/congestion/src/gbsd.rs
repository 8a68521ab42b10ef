//! Joint scheduling and drop with global knowledge: the change that one copy more or less makes to the mean over all
//! bundles decides both the sending order and evictions.
//!
//! A. Krifa, C. Barakat, T. Spyropoulos: "An Optimal Joint Scheduling and Drop Policy for Delay Tolerant Networks",
//! WoWMoM AOC 2008 (GBSD); both utilities are theirs. In the paper a newcomer may itself be dropped (`refuse`). Here
//! a refused newcomer has used its link in vain, and the previous node chose it, so by default it enters, as bundles
//! created here always do. `hbsd.rs` is the version without global knowledge.

use crate::control::Control;
use farlink_base::{Param, Refusal};
use farlink_book::{Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent};

/// Metric to optimise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aim {
    /// Number of bundles delivered within their lifetimes.
    Delivery,
    /// Mean delay until delivery.
    Delay,
}
impl Aim {
    /// Parameter that selects the metric.
    pub const PARAM: Param = Param {
        name: "metric",
        help: "Metric to optimise: 0 the number of bundles delivered in time, 1 the mean delay.",
        unit: "",
        default: 0.0,
        min: 0.0,
        max: 1.0,
    };
    pub fn of(param: f64) -> Aim {
        if param < 0.5 { Aim::Delivery } else { Aim::Delay }
    }
}

/// Parameter that allows a newcomer to be dropped itself.
pub(crate) const REFUSE: Param = Param {
    name: "refuse",
    help: "1: a newcomer worth less than the bundles it would replace is refused; 0: it enters.",
    unit: "",
    default: 0.0,
    min: 0.0,
    max: 1.0,
};

/// Inputs of the utilities.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    /// Rate of meetings between two nodes, 1/s.
    pub meetings: f64,
    /// Number of other nodes.
    pub others: f64,
    /// Remaining lifetime of the bundle, s.
    pub left_s: f64,
}
impl Spread {
    /// Utility of a copy if `seen` nodes besides the source have seen the bundle and `copies` nodes hold it.
    pub fn utility(&self, aim: Aim, seen: f64, copies: f64) -> f64 {
        // `seen` may exceed the number of nodes that are known.
        let unseen = (1.0 - seen / self.others).max(0.0);
        match aim {
            Aim::Delivery => {
                let rate = self.meetings * self.left_s;
                unseen * rate * libm::exp(-rate * copies)
            }
            Aim::Delay => unseen / (copies * copies * self.meetings),
        }
    }
}

/// Counter of a node's meetings with any other.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct MeetingCounter {
    met: u32,
}
impl MeetingCounter {
    pub fn met(&mut self) {
        self.met = self.met.saturating_add(1);
    }
    /// Rate of meetings with one other node, 1/s; one meeting and one second are added, so that it is defined from
    /// the start.
    pub fn rate(&self, node: &Node<'_>, others: f64) -> f64 {
        (f64::from(self.met) + 1.0) / (node.now.as_secs_f64() + 1.0) / others
    }
    /// Inputs of a bundle's utility.
    pub fn spread(&self, node: &Node<'_>, held: &Held, others: f64) -> Spread {
        let left_s = held.remaining(node.now).as_secs_f64();
        Spread { meetings: self.rate(node, others), others, left_s }
    }
}

/// Ranks offers by worth, the highest first; bundles for the neighbour itself come before all.
pub(crate) fn ranked(peer: &Peer, held: &Held, want: CopyOffer, worth: f64) -> CopyOffer {
    // Bits of non-negative floats are ordered like the floats.
    let rank = if peer.is(held.destination()) { 0 } else { !worth.max(0.0).to_bits() };
    CopyOffer { rank, ..want }
}

/// Control by utilities with global knowledge.
#[derive(Debug)]
pub struct Gbsd {
    aim: Aim,
    refuse: bool,
    meetings: MeetingCounter,
}

impl Gbsd {
    /// Parameters of the control.
    pub const PARAMS: &'static [Param] = &[Aim::PARAM, REFUSE];

    /// Control with values of [`Gbsd::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Gbsd { aim: Aim::of(param(0)), refuse: param(1) >= 0.5, meetings: MeetingCounter::default() }
    }

    /// Utility of a copy if `more` copies are added to those there are now; `None` without an oracle.
    fn utility(&self, node: &Node<'_>, held: &Held, more: u64) -> Option<f64> {
        let (oracle, id) = (node.oracle?, held.bundle.id);
        let others = oracle.nodes().saturating_sub(1).max(1) as f64;
        // The copy here exists, even if the oracle does not know it.
        let copies = (oracle.copies(id) + more).max(1) as f64;
        Some(self.meetings.spread(node, held, others).utility(self.aim, oracle.seen(id) as f64, copies))
    }
}

impl Control for Gbsd {
    fn hears(&self) -> EventMask {
        EventMask::PEERS
    }
    fn on(&mut self, _node: &Node<'_>, event: &PolicyEvent<'_>, _out: &mut Actions) {
        if let PolicyEvent::Up { .. } = event {
            self.meetings.met();
        }
    }
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        // Bundles created here always enter.
        let judged = self.refuse && !new.is_own();
        Ok(if judged { self.utility(node, new, 1).unwrap_or(f64::INFINITY) } else { f64::INFINITY })
    }
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        self.utility(node, held, 0)
    }
    fn allow(&self, node: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        let want = want?;
        Some(match self.utility(node, held, 0) {
            Some(worth) => ranked(peer, held, want, worth),
            None => want,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::vec;
    use farlink_base::Instant;
    use farlink_book::Oracle;

    /// Oracle of eleven nodes: `id` of them hold bundle `id`, and as many besides its source have seen it.
    struct Knows;
    impl Oracle for Knows {
        fn copies(&self, id: u128) -> u64 {
            if id == u128::MAX { 2 } else { id as u64 }
        }
        fn forwards(&self, id: u128) -> u64 {
            self.copies(id)
        }
        fn mean_forwards(&self) -> f64 {
            1.0
        }
        fn nodes(&self) -> u64 {
            11
        }
    }

    #[test]
    fn utilities_match_the_paper() {
        // 0.01 meetings per second for 100 s: one meeting of each pair is expected.
        let spread = Spread { meetings: 0.01, others: 10.0, left_s: 100.0 };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(spread.utility(Aim::Delivery, 0.0, 1.0), 0.367_879_441);
        close(spread.utility(Aim::Delivery, 5.0, 2.0), 0.5 * 0.135_335_283);
        close(spread.utility(Aim::Delay, 0.0, 1.0), 100.0);
        close(spread.utility(Aim::Delay, 5.0, 2.0), 12.5);
        close(spread.utility(Aim::Delay, 11.0, 2.0), 0.0);
        let dying = Spread { left_s: 0.0, ..spread };
        close(dying.utility(Aim::Delivery, 0.0, 1.0), 0.0);
    }

    #[test]
    fn a_node_counts_its_meetings() {
        let (mut site, mut gbsd) = (ControlSite::new(1000), Gbsd::new(&[]));
        site.now = Instant(99_000_000_000);
        let peer = site.meet(2);
        (0..3).for_each(|_| gbsd.on(&site.node(), &PolicyEvent::Up { peer }, &mut Actions::default()));
        gbsd.on(&site.node(), &PolicyEvent::Down { peer }, &mut Actions::default());
        assert_eq!(gbsd.meetings.rate(&site.node(), 10.0), 0.004, "four in 100 s, with one of ten");
    }

    #[test]
    fn most_copied_makes_room() {
        let (mut site, gbsd) = (ControlSite::new(400), Gbsd::new(&[1.0, 1.0]));
        let bundles = [(); 4].map(|()| site.keep_with(9, 100, |_, new| new.expires = Instant(100_000_000_000)));
        // The newcomer will be the third copy: 0.8 / 9. Bundle 3 is worth 0.7 / 9, bundle 4 0.6 / 16.
        let peer = site.meet(2);
        let room = |size: usize| {
            let mut new = site.newcomer(size);
            new.from = peer;
            site.room(&gbsd, &site.node_with(Some(&Knows)), &new)
        };
        let mut new = site.newcomer(100);
        (new.from, new.expires) = (peer, Instant(100_000_000_000));
        let worth = gbsd.admit(&site.node_with(Some(&Knows)), &new).unwrap();
        assert!((worth - 0.8 / 9.0 / 0.1).abs() < 1e-9, "{worth}: a node meets each other one a tenth of the time");
        assert_eq!(room(100), Some(vec![bundles[3]]));
        assert_eq!(room(200), Some(vec![bundles[3], bundles[2]]));
        assert_eq!(room(201), None, "bundle 2 is worth 0.8 / 4");
        // Bundles created here evict any other.
        let own = |size| site.room(&gbsd, &site.node_with(Some(&Knows)), &site.newcomer(size)).map(|them| them.len());
        assert_eq!(own(400), Some(4), "made here");
        assert_eq!(site.fits(&gbsd, 100), None, "without an oracle it evicts nothing");
        let new = site.newcomer(201);
        let room = site.room(&Gbsd::new(&[1.0]), &site.node_with(Some(&Knows)), &new);
        assert_eq!(room.map(|them| them.len()), Some(3), "without refusals");
    }

    #[test]
    fn unknown_copies_count_as_one() {
        let (mut site, gbsd) = (ControlSite::new(1000), Gbsd::new(&[1.0]));
        let bundle = site.keep_with(9, 100, |bundle, _| bundle.id = 0);
        // An identity of 0 has no copies in this oracle.
        let worth = gbsd.worth(&site.node_with(Some(&Knows)), site.held(bundle)).unwrap();
        assert!((worth - 10.0).abs() < 1e-9, "{worth}");
    }

    #[test]
    fn direct_deliveries_precede_best_utility() {
        let (mut site, gbsd) = (ControlSite::new(1000), Gbsd::new(&[]));
        let keep =
            |site: &mut ControlSite, to| site.keep_with(to, 100, |_, new| new.expires = Instant(100_000_000_000));
        let bundles = [keep(&mut site, 9), keep(&mut site, 9), keep(&mut site, 2)];
        let peer = site.meet(2);
        let rank = |oracle: Option<&dyn Oracle>, bundle| {
            let held = site.held(bundle);
            gbsd.allow(&site.node_with(oracle), site.peer(peer), held, Some(CopyOffer::copy(held, 7))).unwrap().rank
        };
        let ranks = bundles.map(|bundle| rank(Some(&Knows), bundle));
        assert!(ranks[0] < ranks[1] && ranks[2] == 0, "{ranks:?}");
        assert_eq!(rank(None, bundles[0]), 7, "without an oracle the router's rank holds");
        let node = site.node_with(Some(&Knows));
        assert_eq!(
            gbsd.allow(&node, site.peer(peer), site.held(bundles[0]), None),
            None,
            "it offers no copies of its own"
        );
    }
}
