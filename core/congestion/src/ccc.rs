//! Congestion control by credits: copies lose credit with time and with every further copy; the poorest make room
//! first, and evicted bundles are not accepted again.
//!
//! L. Leela-amornsin, H. Esaki: "Heuristic Congestion Control for Message Deletion in Delay Tolerant Network",
//! ruSMART/NEW2AN 2010. Equation 6 is read with `min`: with `max` every received copy would have at least the initial
//! credit.
//!
//! The label of a held bundle is the number of the time unit in which its credit is used up, so that no update is
//! needed as time passes. Between nodes the credit itself travels.

use crate::control::Control;
use farlink_base::Param;
use farlink_book::{Action, Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent, Why};

/// Control by credits.
#[derive(Debug)]
pub struct Ccc {
    initial: u32,
    penalty: u32,
    reward: u32,
    unit_ns: u64,
    no_looping: bool,
}

const fn credit(name: &'static str, help: &'static str, default: f64) -> Param {
    Param { name, help, unit: "", default, min: 0.0, max: 1e9 }
}

impl Ccc {
    /// Parameters. The paper gives no values: 720 units of a minute are the lifetime of its bundles.
    pub const PARAMS: &'static [Param] = &[
        credit("initial", "Initial credit of a bundle, and the most it can have.", 720.0),
        credit("penalty", "Credit that the sender's copy loses for each further copy.", 60.0),
        credit("reward", "Credit that a new copy has beyond that of the sender's.", 60.0),
        Param {
            name: "unit",
            help: "Time in which a bundle loses one credit.",
            unit: "s",
            default: 60.0,
            min: 0.1,
            max: 1e9,
        },
        Param {
            name: "no_looping",
            help: "1: evicted bundles are refused afterwards (decisive in the studies); 0: they are accepted.",
            unit: "",
            default: 1.0,
            min: 0.0,
            max: 1.0,
        },
    ];

    /// Control with values of [`Ccc::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Ccc {
            initial: param(0) as u32,
            penalty: param(1) as u32,
            reward: param(2) as u32,
            unit_ns: (param(3) * 1e9) as u64,
            no_looping: param(4) >= 0.5,
        }
    }

    fn label(&self, node: &Node<'_>, credit: u32) -> u32 {
        // A label has 32 bits; one that wrapped would make the richest bundle the poorest.
        u32::try_from(node.now.0 / self.unit_ns.max(1)).unwrap_or(u32::MAX).saturating_add(credit)
    }
    fn credit(&self, node: &Node<'_>, held: &Held) -> u32 {
        node.label(held).saturating_sub(self.label(node, 0))
    }
    /// Credit of the sender's copy after the failure of a transfer whose copy carried the credit `gave`.
    fn returned(&self, node: &Node<'_>, held: &Held, gave: u32, keep: bool) -> u32 {
        // The credit of a copy includes the reward. At the initial credit it may have been capped, so the reward's part
        // of it is unknown and nothing is subtracted.
        let most = if keep && gave < self.initial { gave.saturating_sub(self.reward) } else { gave };
        if keep { self.credit(node, held).saturating_add(self.penalty).min(most) } else { most }
    }
}

impl Control for Ccc {
    fn hears(&self) -> EventMask {
        EventMask::KEPT.and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::Kept { bundle, wire } => {
                // A forged credit cannot exceed the initial one.
                out.label(bundle, self.label(node, wire.unwrap_or(self.initial).min(self.initial)));
            }
            PolicyEvent::Failed { bundle, gave, keep, .. } => {
                if let Some(held) = node.get(bundle) {
                    out.label(bundle, self.label(node, self.returned(node, held, gave, keep)));
                }
            }
            PolicyEvent::Gone { bundle, why: Why::Overflow } if self.no_looping => {
                if let Some(held) = node.get(bundle) {
                    out.push(Action::Ban { id: held.bundle.id });
                }
            }
            _ => {}
        }
    }
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        // Labels of all bundles decline alike, so their order is that of the credits.
        Some(f64::from(node.label(held)))
    }
    fn allow(&self, node: &Node<'_>, _peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        let (want, credit) = (want?, self.credit(node, held));
        if !want.keep {
            return Some(want.with(node, 0, credit));
        }
        let ours = self.label(node, credit.saturating_sub(self.penalty));
        Some(want.with(node, ours, credit.saturating_add(self.reward).min(self.initial)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::vec;
    use alloc::vec::Vec;
    use farlink_base::{Instant, PeerId};
    use farlink_book::LabelSplit;

    fn on_event(control: &mut Ccc, site: &mut ControlSite, event: PolicyEvent<'_>) -> Vec<Action> {
        let mut out = Actions::default();
        control.on(&site.node(), &event, &mut out);
        site.follow(&mut out)
    }

    #[test]
    fn credit_declines_splits_and_returns() {
        let (mut site, mut control) = (ControlSite::new(1000), Ccc::new(&[]));
        let (bundle, peer) = (site.keep(9, 100), site.meet(2));
        site.now = Instant(600_000_000_000);
        on_event(&mut control, &mut site, PolicyEvent::Kept { bundle, wire: None });
        assert_eq!(site.label(bundle), 730);
        site.now = Instant(6_600_000_000_000);
        let credit = |control: &Ccc, site: &ControlSite| control.credit(&site.node(), site.held(bundle));
        assert_eq!(credit(&control, &site), 620, "100 minutes later");
        let want = CopyOffer::copy(site.held(bundle), 0);
        let split = |control: &Ccc, site: &ControlSite, want| {
            let want = control.allow(&site.node(), site.peer(peer), site.held(bundle), Some(want));
            want.unwrap().labels[1]
        };
        assert_eq!(split(&control, &site, want), LabelSplit { ours: 110 + 560, theirs: 680 });
        assert_eq!(split(&control, &site, CopyOffer::give(site.held(bundle), 0)), LabelSplit { ours: 0, theirs: 620 });
        site.set_label(bundle, 110 + 560);
        // A transfer that failed must restore both the penalty and the credit.
        on_event(&mut control, &mut site, PolicyEvent::Failed { bundle, to: peer, gave: 680, keep: true });
        assert_eq!(credit(&control, &site), 620);
        site.set_label(bundle, 0);
        on_event(&mut control, &mut site, PolicyEvent::Failed { bundle, to: peer, gave: 620, keep: false });
        assert_eq!(credit(&control, &site), 620);
        on_event(&mut control, &mut site, PolicyEvent::Kept { bundle, wire: Some(u32::MAX) });
        assert_eq!(credit(&control, &site), 720, "a forged credit is bounded");
    }

    #[test]
    fn poorest_make_room_and_stay_banned() {
        let (mut site, mut control) = (ControlSite::new(300), Ccc::new(&[]));
        let bundles = [70, 20, 50].map(|credit| {
            let bundle = site.keep(9, 100);
            on_event(&mut control, &mut site, PolicyEvent::Kept { bundle, wire: Some(credit) });
            bundle
        });
        assert_eq!(site.fits(&control, 150), Some(vec![bundles[1], bundles[2]]));
        let id = site.held(bundles[1]).bundle.id;
        let gone = |why| PolicyEvent::Gone { bundle: bundles[1], why };
        assert_eq!(on_event(&mut control, &mut site, gone(Why::Overflow)), [Action::Ban { id }]);
        assert_eq!(on_event(&mut control, &mut site, gone(Why::Migrated(PeerId(1)))), []);
    }

    #[test]
    fn overflowing_credit_saturates() {
        let (mut site, mut control) = (ControlSite::new(1000), Ccc::new(&[1e9, 1e9, 1e9, 0.1]));
        let (bundle, peer) = (site.keep(9, 100), site.meet(2));
        for second in [0, 400_000_000, 10_000_000_000] {
            site.now = Instant(second * 1_000_000_000);
            for wire in [None, Some(u32::MAX)] {
                on_event(&mut control, &mut site, PolicyEvent::Kept { bundle, wire });
                on_event(&mut control, &mut site, PolicyEvent::Failed { bundle, to: peer, gave: u32::MAX, keep: true });
            }
            let want = control.allow(
                &site.node(),
                site.peer(peer),
                site.held(bundle),
                Some(CopyOffer::copy(site.held(bundle), 0)),
            );
            assert!(want.unwrap().labels[1].theirs <= 1_000_000_000);
        }
    }
}
