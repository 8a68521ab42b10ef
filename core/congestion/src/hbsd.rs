//! Joint scheduling and drop by history: like `gbsd.rs`, but the numbers of nodes that hold and have seen a bundle of a
//! given age are learned from past bundles, which nodes report to each other.
//!
//! A. Krifa, C. Barakat, T. Spyropoulos: "An Optimal Joint Scheduling and Drop Policy for Delay Tolerant Networks",
//! WoWMoM AOC 2008 (HBSD). Bundles of one age differ in worth by their remaining lifetimes only. The number of nodes is
//! that of the known nodes; before anything was learned, a bundle counts as held by its source only.

use crate::control::Control;
use crate::gbsd::{Aim, MeetingCounter, REFUSE, Spread, ranked};
use crate::history::{History, HistorySample, age_s};
use crate::trust::Trust;
use farlink_base::{NodeId, Param, Refusal};
use farlink_book::{Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent, Reporters};

/// Sample used before anything was learned.
const FIRST: &[HistorySample] = &[HistorySample { seen: 0.0, copies: 1.0 }];

/// Control by the history of past bundles.
#[derive(Debug)]
pub struct Hbsd {
    aim: Aim,
    refuse: bool,
    trust: Trust,
    meetings: MeetingCounter,
    history: History,
}

impl Hbsd {
    /// Parameters of the control.
    pub const PARAMS: &'static [Param] = &[
        Aim::PARAM,
        REFUSE,
        Param {
            name: "step",
            help: "Resolution of ages, and interval at which history is recounted.",
            unit: "s",
            default: 60.0,
            min: 1.0,
            max: 1e6,
        },
        Trust::PARAM,
    ];

    /// Control with values of [`Hbsd::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Hbsd {
            aim: Aim::of(param(0)),
            refuse: param(1) >= 0.5,
            trust: Trust::of(param(3)),
            meetings: MeetingCounter::default(),
            history: History::new(param(2) as u32),
        }
    }

    /// Utility of a bundle, interpolated linearly between the two nearest ages.
    fn utility(&self, node: &Node<'_>, held: &Held) -> f64 {
        let spread = self.meetings.spread(node, held, self.history.others());
        let (before, after, share) = self.history.samples(age_s(node, held));
        let worth = self.worth_by(&spread, before);
        worth + (self.worth_by(&spread, after) - worth) * share
    }

    fn worth_by(&self, spread: &Spread, samples: &[HistorySample]) -> f64 {
        let samples = if samples.is_empty() { FIRST } else { samples };
        let mean = |of: &dyn Fn(&HistorySample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
        match self.aim {
            Aim::Delivery => mean(&|sample| spread.utility(self.aim, sample.seen, sample.copies)),
            Aim::Delay => {
                // Avoids a division by zero once all nodes have seen it.
                let unseen = (spread.others - mean(&|sample| sample.seen)).max(1e-3);
                let each = mean(&|sample| (spread.others - sample.seen).max(0.0) / sample.copies);
                each * each / (spread.meetings * spread.others * unseen)
            }
        }
    }
}

impl Control for Hbsd {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::KEPT).and(EventMask::GONE)
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::Up { peer } => {
                self.meetings.met();
                let Some(known) = node.peers.get(peer).filter(|peer| peer.node != NodeId::NULL) else { return };
                self.history.met(node.me, node.now, known.node);
                let message = self.history.message(node.now, known.node);
                if !message.is_empty() {
                    out.tell(peer, message);
                }
            }
            PolicyEvent::Heard { from, bytes } => {
                let Some(peer) = self.trust.heeds(node, from) else { return };
                let _ = self.history.read(node, Reporters::<u128>::name(peer), bytes);
            }
            PolicyEvent::Kept { bundle, .. } | PolicyEvent::Gone { bundle, .. } => {
                // Anonymous bundles cannot be recognised at another node.
                if let Some(held) = node.get(bundle).filter(|held| !held.bundle.is_anonymous()) {
                    self.history.have(node, held, matches!(event, PolicyEvent::Kept { .. }));
                }
            }
            _ => return,
        }
        self.history.count(node.now);
    }
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        let judged = self.refuse && !new.is_own();
        Ok(if judged { self.utility(node, new) } else { f64::INFINITY })
    }
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        Some(self.utility(node, held))
    }
    fn allow(&self, node: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        want.map(|want| ranked(peer, held, want, self.utility(node, held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::vec;
    use alloc::vec::Vec;
    use farlink_base::{Instant, PeerId};
    use farlink_book::{Action, Handle};

    fn on_event(control: &mut Hbsd, node: &Node<'_>, event: PolicyEvent<'_>) -> Vec<Action> {
        let mut out = Actions::default();
        control.on(node, &event, &mut out);
        out.drain().collect()
    }
    fn at(second: u64) -> Instant {
        Instant(second * 1_000_000_000)
    }
    /// A bundle that lives for an hour, created at this second.
    fn keep(site: &mut ControlSite, made: u64) -> Handle {
        site.keep_with(9, 100, |_, new| new.expires = at(made + 3600))
    }

    #[test]
    fn utility_without_history_follows_lifetime() {
        let (mut site, control) = (ControlSite::new(300), Hbsd::new(&[0.0, 1.0]));
        site.now = at(1000);
        let bundles = [0, 500, 900].map(|made| keep(&mut site, made));
        let worth = |bundle| control.worth(&site.node(), site.held(bundle)).unwrap();
        // One meeting in 1,001 s: expected meetings of 2.6, 3.1 and 3.5 until expiry.
        let [old, middle, young] = bundles.map(worth);
        assert!(old > middle && middle > young, "{old} {middle} {young}");
        let rate = 2600.0 / 1001.0;
        assert!((old - rate * libm::exp(-rate)).abs() < 1e-12);
        let peer = site.meet(2);
        let newcomer = |made| control.admit(&site.node(), site.held(made));
        assert_eq!(newcomer(bundles[0]), Ok(f64::INFINITY), "made here");
        assert_eq!(site.fits(&control, 100), Some(vec![bundles[2]]));
        site.book.get_mut(bundles[0]).unwrap().from = peer;
        assert_eq!(control.admit(&site.node(), site.held(bundles[0])), Ok(old));
    }

    #[test]
    fn widely_seen_bundle_makes_room() {
        let (mut site, mut control) = (ControlSite::new(300), Hbsd::new(&[1.0, 1.0, 100.0]));
        site.now = at(1000);
        let past = keep(&mut site, 1000);
        on_event(&mut control, &site.node(), PolicyEvent::Kept { bundle: past, wire: None });
        // Nodes 2 to 5 got it one after the other, 100 s apart.
        for n in 2..6u64 {
            let there = ControlSite { now: at(900 + 100 * n), ..ControlSite::new(9) };
            let theirs = Node { me: NodeId(n), ..there.node() };
            let mut history = History::new(100);
            history.have(&theirs, site.held(past), true);
            let bytes = history.message(there.now, NodeId(1));
            let from = site.meet(n);
            on_event(&mut control, &Node { now: there.now, ..site.node() }, PolicyEvent::Heard { from, bytes: &bytes });
        }
        site.now = at(1600);
        let asked = on_event(&mut control, &site.node(), PolicyEvent::Up { peer: PeerId(1) });
        assert_eq!(asked.len(), 1, "it relays the reports of the others");
        let (young, old) = (keep(&mut site, 1600), keep(&mut site, 1300));
        let between = keep(&mut site, 1250);
        let worth = |bundle| control.worth(&site.node(), site.held(bundle)).unwrap();
        // Two meetings in 1,601 s with one of four nodes. Young: seen by no other. At 300 s three have seen it: 1/16
        // / 4; at 400 s four: 0.
        let meetings: f64 = 2.0 / 1601.0 / 4.0;
        assert!((worth(young) * meetings - 1.0).abs() < 1e-9, "{}", worth(young));
        assert!((worth(old) * meetings - 0.25 * 0.25 / (4.0 * 1.0)).abs() < 1e-9, "{}", worth(old));
        assert!((worth(between) / worth(old) - 0.5).abs() < 1e-9, "half way");
        let _ = site.book.remove(between);
        let peer = site.meet(7);
        let rank = |bundle| {
            let held = site.held(bundle);
            control.allow(&site.node(), site.peer(peer), held, Some(CopyOffer::copy(held, 0))).unwrap().rank
        };
        assert!(rank(young) < rank(old));
        let mut new = site.newcomer(100);
        new.from = peer;
        new.expires = at(5200);
        assert_eq!(site.room(&control, &site.node(), &new), Some(vec![past]), "seen by four at 600 s");
    }

    #[test]
    fn untrusted_history_is_ignored() {
        let (mut site, mut control) = (ControlSite::new(300), Hbsd::new(&[]));
        site.now = at(1000);
        let bundle = keep(&mut site, 900);
        let mut there = History::new(60);
        there.have(&Node { me: NodeId(5), ..site.node() }, site.held(bundle), true);
        let bytes = there.message(site.now, NodeId(1));
        let liar = site.peers.add(farlink_book::Origin::Came);
        site.peers.learn(liar, farlink_base::EndpointId::ipn(5, 0), farlink_book::Identity::Claimed);
        site.peers.get_mut(liar).unwrap().up.push(farlink_base::LinkId(9));
        let others = |control: &mut Hbsd, site: &ControlSite, from| {
            on_event(control, &site.node(), PolicyEvent::Heard { from, bytes: &bytes });
            control.history.message(site.now, NodeId(9)).len()
        };
        assert_eq!(others(&mut control, &site, liar), 0);
        assert_eq!(others(&mut control, &site, PeerId(77)), 0);
        // The same message counts from an authenticated neighbour.
        let known = site.meet(5);
        assert_eq!(others(&mut control, &site, known), bytes.len());
        assert_ne!(
            others(&mut Hbsd::new(&[0.0, 0.0, 60.0, 1.0]), &site, liar),
            0,
            "if the parameter allows claimed names"
        );
    }
}
