//! AFNER without an oracle: a bundle's forwarding count travels with its copies, and nodes that meet exchange the
//! counts of their bundles; the mean is taken over the bundles held here.
//!
//! The paper's [`crate::afner`] counts in the whole network. Here the label is the highest count received, and never
//! less than the hops made. Two branches of copies that do not meet do not know of each other, so the label never
//! exceeds the true count, except for transfers that failed while another was under way.

use crate::control::Control;
use crate::trust::Trust;
use alloc::vec::Vec;
use farlink_base::Param;
use farlink_book::{Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent, numbers, put_number};

/// Highest count that is kept, or accepted from a neighbour.
const MOST: u32 = 65_535;
/// Maximum number of bundles, oldest first, that are examined for the mean and for a message.
const LOOKED_AT: usize = 4096;
/// Maximum number of bundles per message, sent or read.
const SENT_MAX: usize = 256;
/// Divisor of the recount interval: the mean is computed again after as many events as the number of examined bundles
/// divided by `PART`.
const PART: usize = 8;

/// Control by average forwarding number, as far as it is known here.
#[derive(Clone, Copy, Debug)]
pub struct AfnerLocal {
    trust: Trust,
    mean: f64,
    changes: usize,
}

impl AfnerLocal {
    /// Parameters of the control.
    pub const PARAMS: &'static [Param] = &[Trust::PARAM];

    /// Control with values of [`AfnerLocal::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let trust = params.first().copied().unwrap_or(Trust::PARAM.default);
        AfnerLocal { trust: Trust::of(trust), mean: 0.0, changes: 0 }
    }

    fn count(&mut self, node: &Node<'_>) {
        // Recounting at each change would walk the book for every bundle.
        self.changes += 1;
        let many = node.book.len().min(LOOKED_AT);
        if self.changes * PART >= many {
            let sum: u64 = node.book.all().take(many).map(|held| u64::from(node.label(held))).sum();
            self.mean = sum as f64 / many.max(1) as f64;
            self.changes = 0;
        }
    }
}

/// Message with the identities and counts of bundles held here.
fn counts_message(node: &Node<'_>) -> Vec<u8> {
    let mut message = Vec::new();
    // A count of 0 is the default, so sending it would waste space.
    let forwarded = node.book.all().take(LOOKED_AT).filter(|held| node.label(held) > 0);
    for held in forwarded.take(SENT_MAX) {
        put_number(&mut message, (held.bundle.id >> 64) as u64);
        put_number(&mut message, held.bundle.id as u64);
        put_number(&mut message, node.label(held).into());
    }
    message
}

/// Raises the counts of bundles held here to those in a message.
fn merge_counts(node: &Node<'_>, bytes: &[u8], out: &mut Actions) {
    let mut numbers = numbers(bytes);
    for _ in 0..SENT_MAX {
        let (Some(high), Some(low), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else { return };
        // A forged count cannot exceed the bound.
        let count = u32::try_from(count).unwrap_or(MOST).min(MOST);
        let held = node.book.find(u128::from(high) << 64 | u128::from(low));
        if let Some(held) = held.filter(|held| node.label(held) < count) {
            out.label(held.handle(), count);
        }
    }
}

impl Control for AfnerLocal {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::KEPT).and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::Up { peer } => {
                let message = counts_message(node);
                if !message.is_empty() {
                    out.tell(peer, message);
                }
            }
            PolicyEvent::Heard { from, bytes } if self.trust.heeds(node, from).is_some() => {
                merge_counts(node, bytes, out)
            }
            // A node that routes by a plan sends no count, but each hop is at least one forwarding.
            PolicyEvent::Kept { bundle, wire } => {
                let hops = node.get(bundle).map_or(0, |held| u32::from(held.hops));
                out.label(bundle, wire.unwrap_or(0).clamp(hops, MOST));
            }
            // A failed transfer is taken off the count. A copy without a label was never counted: fragments, and
            // bundles that only waited for their contact, have none.
            PolicyEvent::Failed { bundle, gave, keep, .. } if gave > 0 => {
                if let Some(held) = node.get(bundle) {
                    let counted = if keep { node.label(held) } else { gave };
                    out.label(bundle, counted.saturating_sub(1));
                }
            }
            _ => {}
        }
        self.count(node);
    }
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        let forwards = f64::from(node.label(held));
        (forwards > self.mean).then_some(-forwards)
    }
    fn allow(&self, node: &Node<'_>, _peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        let want = want?;
        let count = node.label(held).saturating_add(1).min(MOST);
        // Both copies have been forwarded once more.
        Some(want.with(node, if want.keep { count } else { 0 }, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::vec;
    use farlink_base::PeerId;
    use farlink_book::{Action, LabelSplit};

    fn on(control: &mut AfnerLocal, site: &mut ControlSite, event: PolicyEvent<'_>) -> Vec<Action> {
        let mut out = Actions::default();
        control.on(&site.node(), &event, &mut out);
        site.follow(&mut out)
    }

    #[test]
    fn count_travels_with_each_copy() {
        let (mut site, mut control) = (ControlSite::new(1000), AfnerLocal::new(&[]));
        let (bundle, peer) = (site.keep(9, 100), site.meet(2));
        for (wire, label) in [(Some(u32::MAX), MOST), (None, 0), (Some(3), 3)] {
            on(&mut control, &mut site, PolicyEvent::Kept { bundle, wire });
            assert_eq!(site.label(bundle), label);
        }
        let split = |site: &ControlSite, want| {
            control.allow(&site.node(), site.peer(peer), site.held(bundle), Some(want)).unwrap().labels[1]
        };
        assert_eq!(split(&site, CopyOffer::copy(site.held(bundle), 0)), LabelSplit { ours: 4, theirs: 4 });
        assert_eq!(split(&site, CopyOffer::give(site.held(bundle), 0)), LabelSplit { ours: 0, theirs: 4 });
        assert!(control.allow(&site.node(), site.peer(peer), site.held(bundle), None).is_none());
        for (ours, gave, keep) in [(4, 4, true), (0, 4, false), (3, 0, false), (3, 0, true)] {
            site.set_label(bundle, ours);
            on(&mut control, &mut site, PolicyEvent::Failed { bundle, to: peer, gave, keep });
            assert_eq!(site.label(bundle), 3, "{gave} were given");
        }
    }

    #[test]
    fn hop_count_bounds_forward_count() {
        let (mut site, mut control) = (ControlSite::new(1000), AfnerLocal::new(&[]));
        let bundle = site.keep_with(9, 100, |_, new| new.hops = 5);
        for (wire, label) in [(None, 5), (Some(3), 5), (Some(8), 8)] {
            on(&mut control, &mut site, PolicyEvent::Kept { bundle, wire });
            assert_eq!(site.label(bundle), label);
        }
    }

    #[test]
    fn mean_samples_some_thousands() {
        let (mut site, mut control) = (ControlSite::new(u64::MAX), AfnerLocal::new(&[]));
        let peer = site.meet(2);
        for label in [2].repeat(LOOKED_AT).into_iter().chain([50_000]) {
            let bundle = site.keep(9, 1);
            site.set_label(bundle, label);
        }
        // Any event counts as a change, and the mean is recounted only after so many.
        (0..LOOKED_AT / PART).for_each(|_| drop(on(&mut control, &mut site, PolicyEvent::Down { peer })));
        assert_eq!(control.mean, 2.0);
    }

    #[test]
    fn higher_count_of_trusted_neighbour_wins() {
        let (mut there, mut control) = (ControlSite::new(1000), AfnerLocal::new(&[]));
        let theirs = [5, 0, 2].map(|label| {
            let bundle = there.keep(9, 100);
            there.set_label(bundle, label);
            bundle
        });
        let here_is = there.meet(1);
        let mut said = on(&mut control, &mut there, PolicyEvent::Up { peer: here_is });
        let Some(Action::Tell { bytes, .. }) = said.pop() else { panic!("{said:?}") };
        assert_eq!(bytes.len(), 2 * 24, "forwarded bundles only");
        // The bundles of this node have the same identities as those of the other.
        let mut site = ControlSite::new(1000);
        let ours = theirs.map(|_| site.keep(9, 100));
        site.set_label(ours[2], 7);
        let liar = site.peers.add(farlink_book::Origin::Came);
        site.peers.learn(liar, farlink_base::EndpointId::ipn(5, 0), farlink_book::Identity::Claimed);
        site.peers.get_mut(liar).unwrap().up.push(farlink_base::LinkId(9));
        for from in [liar, PeerId(77)] {
            on(&mut control, &mut site, PolicyEvent::Heard { from, bytes: &bytes });
            assert_eq!(ours.map(|bundle| site.label(bundle)), [0, 0, 7]);
        }
        let known = site.meet(2);
        on(&mut control, &mut site, PolicyEvent::Heard { from: known, bytes: &bytes[..47] });
        assert_eq!(ours.map(|bundle| site.label(bundle)), [5, 0, 7]);
    }

    #[test]
    fn only_most_forwarded_make_room() {
        let (mut site, mut control) = (ControlSite::new(400), AfnerLocal::new(&[]));
        let bundles = [1, 2, 3, 4].map(|label| {
            let bundle = site.keep(9, 100);
            site.set_label(bundle, label);
            bundle
        });
        let peer = site.meet(2);
        on(&mut control, &mut site, PolicyEvent::Down { peer });
        assert_eq!(site.fits(&control, 100), Some(vec![bundles[3]]));
        assert_eq!(site.fits(&control, 200), Some(vec![bundles[3], bundles[2]]));
        assert_eq!(site.fits(&control, 201), None);
    }

    #[test]
    fn bundle_at_the_mean_stays() {
        let (mut site, mut control) = (ControlSite::new(400), AfnerLocal::new(&[]));
        for _ in 0..4 {
            let bundle = site.keep(9, 100);
            site.set_label(bundle, 2);
        }
        let peer = site.meet(2);
        on(&mut control, &mut site, PolicyEvent::Down { peer });
        assert_eq!((control.mean, site.fits(&control, 100)), (2.0, None));
    }

    #[test]
    fn mean_recounted_after_eighth_changed() {
        let (mut site, mut control) = (ControlSite::new(u64::MAX), AfnerLocal::new(&[]));
        let bundles = [(); 80].map(|()| site.keep(9, 1));
        let peer = site.meet(2);
        let mut means = Vec::new();
        for label in 1..=20 {
            bundles.iter().for_each(|bundle| site.set_label(*bundle, label));
            on(&mut control, &mut site, PolicyEvent::Down { peer });
            means.push(control.mean);
        }
        assert_eq!(means, [vec![0.0; 9], vec![10.0; 10], vec![20.0]].concat());
    }

    #[test]
    fn counts_and_messages_are_bounded() {
        let (mut there, mut control) = (ControlSite::new(u64::MAX), AfnerLocal::new(&[]));
        let bundles = [(); SENT_MAX + 1].map(|()| there.keep(9, 1));
        bundles.iter().for_each(|bundle| there.set_label(*bundle, 1));
        let peer = there.meet(2);
        let mut said = on(&mut control, &mut there, PolicyEvent::Up { peer });
        let Some(Action::Tell { bytes, .. }) = said.pop() else { panic!("{said:?}") };
        assert_eq!(bytes.len(), 24 * SENT_MAX);
        // A count at the bound must not grow.
        let held = there.held(bundles[0]);
        let want = |label| {
            let mut site = ControlSite::new(1000);
            let (bundle, peer) = (site.keep(9, 1), site.meet(2));
            site.set_label(bundle, label);
            let held = site.held(bundle);
            AfnerLocal::new(&[])
                .allow(&site.node(), site.peer(peer), held, Some(CopyOffer::copy(held, 0)))
                .unwrap()
                .labels[1]
        };
        assert_eq!(want(MOST), LabelSplit { ours: MOST, theirs: MOST });
        let says_all = |count: u64| {
            let mut message = Vec::new();
            for bundle in bundles {
                [0, there.held(bundle).bundle.id as u64, count].iter().for_each(|n| put_number(&mut message, *n));
            }
            message
        };
        let bytes = says_all(u64::MAX);
        assert_eq!(held.bundle.id >> 64, 0);
        there.peers.get_mut(peer).unwrap().up.clear();
        on(&mut control, &mut there, PolicyEvent::Heard { from: peer, bytes: &bytes });
        assert_eq!(there.label(bundles[0]), 1, "the neighbour is down");
        there.peers.get_mut(peer).unwrap().up.push(farlink_base::LinkId(2));
        on(&mut control, &mut there, PolicyEvent::Heard { from: peer, bytes: &bytes });
        assert_eq!([0, SENT_MAX - 1, SENT_MAX].map(|n| there.label(bundles[n])), [MOST, MOST, 1]);
    }
}
