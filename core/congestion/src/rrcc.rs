//! Retiring replicants: the number of copies per encounter follows the drops per replication that nodes report to
//! each other, by additive increase and multiplicative decrease.
//!
//! N. Thompson, S. Nelson, M. Bakht, T. Abdelzaher, R. Kravets: "Retiring Replicants: Congestion Control for
//! Intermittently-Connected Networks", INFOCOM 2010. Where the paper leaves a choice: the first sample sets the
//! congestion value (otherwise it decays for hundreds of encounters), the limit never falls below 1, both sides
//! report before either resets its counts, and deliveries are free.

use crate::control::Control;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{Param, PeerId, Rng};
use farlink_book::{Action, Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent, Why, numbers, put_number};

/// Highest believable number of drops per replication: a larger claim counts as this and fades within some
/// encounters.
const SAMPLE_MAX: f64 = 1000.0;

/// Counts since the congestion value was last computed.
#[derive(Clone, Copy, Default, Debug)]
struct RrccCounts {
    drops: u64,
    replications: u64,
    /// Hops that received bundles had made before the hop to this node; each was a replication elsewhere.
    hops: u64,
}

/// An encounter that is under way.
#[derive(Default, Debug)]
struct RrccEncounter {
    /// Counts that this node reported, until the neighbour's report arrives.
    told: Option<RrccCounts>,
    /// Number of copies that may still be made.
    budget: u32,
}

/// Control that limits copies per encounter.
#[derive(Debug)]
pub struct Rrcc {
    weight: f64,
    decrease: f64,
    counts: RrccCounts,
    /// Congestion value; `None` before the first sample.
    congestion: Option<f64>,
    limit: u32,
    encounters: BTreeMap<PeerId, RrccEncounter>,
    seed: u64,
    /// Number of evictions so far, which changes the random order.
    victims: u64,
}

impl Rrcc {
    /// Parameters of the control.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "weight",
            help: "Weight of the newest sample in the congestion value.",
            unit: "",
            default: 0.9,
            min: 0.0,
            max: 1.0,
        },
        Param {
            name: "decrease",
            help: "Factor on the limit when congestion rose.",
            unit: "",
            default: 0.2,
            min: 0.0,
            max: 1.0,
        },
        Param {
            name: "first_limit",
            help: "Copies per encounter before anything is known.",
            unit: "",
            default: 1.0,
            min: 0.0,
            max: 1e6,
        },
    ];

    /// Control with values of [`Rrcc::PARAMS`].
    pub fn new(params: &[f64], seed: u64) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Rrcc {
            weight: param(0),
            decrease: param(1),
            counts: RrccCounts::default(),
            congestion: None,
            limit: param(2) as u32,
            encounters: BTreeMap::new(),
            seed,
            victims: 0,
        }
    }

    /// Adds a sample: drops and replications of both sides.
    fn sample(&mut self, drops: u64, replications: u64) {
        // Without replications there is no ratio.
        if replications == 0 {
            return;
        }
        let sample = (drops as f64 / replications as f64).min(SAMPLE_MAX);
        let value = self.congestion.map_or(sample, |old| self.weight * sample + (1.0 - self.weight) * old);
        if self.congestion.is_none_or(|old| value <= old) {
            self.limit = self.limit.saturating_add(1);
        } else {
            let left = f64::from(self.limit) * self.decrease;
            let whole = left as u32;
            // Rounded up: a product of 0.2 and 1 leaves one copy.
            self.limit = (whole + u32::from(f64::from(whole) < left)).max(1);
        }
        self.congestion = Some(value);
        // Both sides have reported, so the counts start again.
        self.counts = RrccCounts::default();
    }

    fn up(&mut self, peer: PeerId, out: &mut Actions) {
        self.encounters.insert(peer, RrccEncounter { told: Some(self.counts), budget: self.limit });
        let mut message = Vec::with_capacity(16);
        put_number(&mut message, self.counts.drops);
        put_number(&mut message, self.counts.replications);
        out.tell(peer, message);
    }

    fn on_report(&mut self, from: PeerId, message: &[u8], out: &mut Actions) {
        let mut numbers = numbers(message);
        let (Some(drops), Some(replications)) = (numbers.next(), numbers.next()) else { return };
        // Only the first report of an encounter counts.
        let Some(told) = self.encounters.get_mut(&from).and_then(|e| e.told.take()) else { return };
        let seen = told.replications.saturating_add(told.hops);
        self.sample(told.drops.saturating_add(drops), seen.saturating_add(replications));
        if let Some(encounter) = self.encounters.get_mut(&from) {
            encounter.budget = self.limit;
            out.push(Action::Reask(from));
        }
    }
}

/// Whether the transfer counts as a copy: deliveries and moves do not.
fn is_copy(peer: &Peer, held: &Held, keep: bool) -> bool {
    keep && !peer.is(held.destination())
}

impl Control for Rrcc {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::KEPT).and(EventMask::HANDED).and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        let spent = |bundle, to, keep| {
            let known = node.get(bundle).zip(node.peers.get(to));
            u32::from(known.is_some_and(|(held, peer)| is_copy(peer, held, keep)))
        };
        match *event {
            PolicyEvent::Up { peer } => self.up(peer, out),
            PolicyEvent::Down { peer } => drop(self.encounters.remove(&peer)),
            PolicyEvent::Heard { from, bytes } => self.on_report(from, bytes, out),
            PolicyEvent::Kept { bundle, .. } => {
                // Bundles created here were not replicated.
                if let Some(held) = node.get(bundle).filter(|held| !held.is_own()) {
                    self.counts.replications += 1;
                    self.counts.hops += u64::from(held.hops.saturating_sub(1));
                }
            }
            PolicyEvent::Gone { why: Why::Overflow, .. } => {
                self.counts.drops += 1;
                self.victims += 1;
            }
            PolicyEvent::Handed { bundle, to, keep, .. } => {
                if let Some(encounter) = self.encounters.get_mut(&to) {
                    encounter.budget = encounter.budget.saturating_sub(spent(bundle, to, keep));
                }
            }
            PolicyEvent::Failed { bundle, to, keep, .. } => {
                if let Some(encounter) = self.encounters.get_mut(&to) {
                    encounter.budget = encounter.budget.saturating_add(spent(bundle, to, keep)).min(self.limit);
                }
            }
            _ => {}
        }
    }
    /// Random order, which changes with each eviction.
    fn worth(&self, _node: &Node<'_>, held: &Held) -> Option<f64> {
        Some(Rng::stream(self.seed ^ self.victims, held.number).unit())
    }
    fn allow(&self, _node: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        let want = want?;
        let has_budget = || self.encounters.get(&peer.id).is_some_and(|encounter| encounter.budget > 0);
        (!is_copy(peer, held, want.keep) || has_budget()).then_some(want)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;

    fn on_event(control: &mut Rrcc, site: &ControlSite, event: PolicyEvent<'_>) -> Vec<Action> {
        let mut out = Actions::default();
        control.on(&site.node(), &event, &mut out);
        out.drain().collect()
    }
    fn message(drops: u64, replications: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_number(&mut bytes, drops);
        put_number(&mut bytes, replications);
        bytes
    }

    #[test]
    fn limit_rises_additively_falls_multiplicatively() {
        let (mut site, mut control) = (ControlSite::new(1000), Rrcc::new(&[], 7));
        let peer = site.meet(2);
        let mut limits = Vec::new();
        for (drops, replications) in [(0, 0), (1, 10), (0, 5), (0, 5), (0, 5), (0, 5), (0, 5), (9, 10), (9, 1)] {
            on_event(&mut control, &site, PolicyEvent::Up { peer });
            let bytes = message(drops, replications);
            assert_eq!(
                on_event(&mut control, &site, PolicyEvent::Heard { from: peer, bytes: &bytes }),
                [Action::Reask(peer)]
            );
            limits.push(control.limit);
            assert_eq!(
                on_event(&mut control, &site, PolicyEvent::Heard { from: peer, bytes: &bytes }),
                [],
                "once an encounter"
            );
        }
        assert_eq!(limits, [1, 2, 3, 4, 5, 6, 7, 2, 1]);
    }

    #[test]
    fn both_sides_report_before_reset() {
        let (mut site, mut control) = (ControlSite::new(1000), Rrcc::new(&[], 7));
        let peer = site.meet(2);
        // It made three hops before the last: three replications elsewhere.
        let came = site.keep_with(9, 100, |_, new| (new.from, new.hops) = (peer, 4));
        let made = site.keep(9, 100);
        on_event(&mut control, &site, PolicyEvent::Kept { bundle: came, wire: None });
        on_event(&mut control, &site, PolicyEvent::Kept { bundle: made, wire: None });
        on_event(&mut control, &site, PolicyEvent::Gone { bundle: made, why: Why::Overflow });
        let told = on_event(&mut control, &site, PolicyEvent::Up { peer });
        assert_eq!(told, [Action::Tell { to: peer, bytes: message(1, 1) }]);
        on_event(&mut control, &site, PolicyEvent::Heard { from: peer, bytes: &message(1, 4) });
        assert_eq!(control.congestion, Some(2.0 / 8.0), "two drops; one and four replications, three hops");
        assert_eq!(control.counts.drops, 0);
    }

    #[test]
    fn encounter_limits_copies_not_deliveries() {
        let (mut site, mut control) = (ControlSite::new(1000), Rrcc::new(&[], 7));
        let peer = site.meet(2);
        let (bundle, theirs) = (site.keep(9, 100), site.keep(2, 100));
        let allow = |control: &Rrcc, site: &ControlSite, bundle| {
            let want = Some(CopyOffer::copy(site.held(bundle), 0));
            control.allow(&site.node(), site.peer(peer), site.held(bundle), want).is_some()
        };
        assert!(!allow(&control, &site, bundle), "not met");
        on_event(&mut control, &site, PolicyEvent::Up { peer });
        assert!(allow(&control, &site, bundle));
        on_event(&mut control, &site, PolicyEvent::Handed { bundle, to: peer, gave: 0, keep: true });
        assert!(!allow(&control, &site, bundle) && allow(&control, &site, theirs));
        on_event(&mut control, &site, PolicyEvent::Failed { bundle, to: peer, gave: 0, keep: true });
        assert!(allow(&control, &site, bundle), "a failed transfer is no copy");
    }

    #[test]
    fn victims_are_drawn_evenly() {
        let (mut site, mut control) = (ControlSite::new(500), Rrcc::new(&[], 7));
        let bundles: Vec<_> = (0..5).map(|_| site.keep(9, 100)).collect();
        let mut chosen = [0; 5];
        for _ in 0..1000 {
            let victims = site.fits(&control, 100).unwrap();
            chosen[bundles.iter().position(|b| *b == victims[0]).unwrap()] += 1;
            on_event(&mut control, &site, PolicyEvent::Gone { bundle: victims[0], why: Why::Overflow });
        }
        assert!(chosen.iter().all(|n| (140..260).contains(n)), "{chosen:?}");
    }

    #[test]
    fn absurd_drop_counts_fade() {
        let (mut site, mut control) = (ControlSite::new(1000), Rrcc::new(&[], 7));
        let (liar, honest) = (site.meet(2), site.meet(3));
        let meets = |control: &mut Rrcc, peer, drops, replications| {
            on_event(control, &site, PolicyEvent::Up { peer });
            on_event(control, &site, PolicyEvent::Heard { from: peer, bytes: &message(drops, replications) });
        };
        meets(&mut control, honest, 1, 10);
        meets(&mut control, liar, u64::MAX, 1);
        assert!(control.congestion.unwrap() <= SAMPLE_MAX);
        (0..8).for_each(|_| meets(&mut control, honest, 1, 10));
        assert!((control.congestion.unwrap() - 0.1).abs() < 1e-3, "{:?}", control.congestion);
        // Extreme values must not overflow.
        meets(&mut control, liar, u64::MAX, u64::MAX);
        meets(&mut control, liar, 0, u64::MAX);
        assert!(control.congestion.unwrap().is_finite() && control.limit > 0);
    }
}
