//! Storage routing: bundles without space here move to the cheapest neighbour that has space, and are requested back
//! when space returns.
//!
//! M. Seligman, K. Fall, P. Mundur: "Storage Routing for DTN Congestion Control", Wireless Communications and Mobile
//! Computing 7 (2007). One hop instead of an expanding ring; the oldest bundle moves first. A bundle is returned only
//! to the neighbour it came from.

use crate::control::Control;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use farlink_base::{Param, PeerId};
use farlink_book::{Action, Actions, EventMask, Held, Identity, Node, Peer, PolicyEvent, Why, numbers, put_number};

/// Maximum number of bundles remembered per neighbour, and of neighbours.
const AWAY_MAX: usize = 1024;
/// Maximum number of bundles requested back at once.
const ASKED_MAX: usize = 64;

/// Control that migrates bundles to neighbours.
#[derive(Debug)]
pub struct StorageRouting {
    time: f64,
    space: f64,
    threshold: f64,
    away: BTreeMap<PeerId, Vec<u128>>,
}

const fn share(name: &'static str, help: &'static str) -> Param {
    Param { name, help, unit: "", default: 0.5, min: 0.0, max: 1.0 }
}

impl StorageRouting {
    /// Parameters of the control.
    pub const PARAMS: &'static [Param] = &[
        share("time", "Weight of the time to transmit a bundle in the cost of a neighbour."),
        share("space", "Weight of how full the neighbour is."),
        share("threshold", "Free share of the store at which bundles are requested back."),
    ];

    /// Control with values of [`StorageRouting::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(0.5);
        StorageRouting { time: param(0), space: param(1), threshold: param(2), away: BTreeMap::new() }
    }

    /// Cost of a neighbour. Both terms are 0 to 1: transmission from a microsecond to ten thousand seconds, and the
    /// used share of its store (the paper's free share would prefer the fullest).
    fn cost(&self, peer: &Peer, size: u64) -> f64 {
        let seconds = peer.rate.map_or(0.0, |rate| rate.time_for(size).as_secs_f64());
        let time = (log10(seconds.max(1e-6)) / 10.0 + 0.6).clamp(0.0, 1.0);
        let (free, capacity) = (peer.free.unwrap_or(0), peer.capacity.unwrap_or(0).max(1));
        self.time * time + self.space * (1.0 - free as f64 / capacity as f64)
    }

    /// Requests bundles back from a neighbour if enough space is free.
    fn ask_back(&mut self, node: &Node<'_>, peer: PeerId, out: &mut Actions) {
        if node.fill() >= 1.0 - self.threshold {
            return;
        }
        let Some(away) = self.away.get_mut(&peer) else { return };
        let mut message = Vec::new();
        for id in away.drain(..away.len().min(ASKED_MAX)) {
            put_number(&mut message, (id >> 64) as u64);
            put_number(&mut message, id as u64);
        }
        if away.is_empty() {
            self.away.remove(&peer);
        }
        out.tell(peer, message);
    }
}

/// Logarithm that is the same on every machine.
fn log10(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    // ln m = 2 artanh((m - 1) / (m + 1)), whose argument is at most a third here.
    let (s, mut term, mut sum) = ((mantissa - 1.0) / (mantissa + 1.0), (mantissa - 1.0) / (mantissa + 1.0), 0.0);
    for n in 0..16 {
        sum += term / f64::from(2 * n + 1);
        term *= s * s;
    }
    f64::from(exponent) * core::f64::consts::LOG10_2 + 2.0 * sum * core::f64::consts::LOG10_E
}

impl Control for StorageRouting {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::GONE)
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        match *event {
            PolicyEvent::Gone { bundle, why: Why::Migrated(to) } => {
                let room = self.away.len() < AWAY_MAX || self.away.contains_key(&to);
                if let Some(held) = node.get(bundle).filter(|_| room) {
                    let away = self.away.entry(to).or_default();
                    away.push(held.bundle.id);
                    // The oldest is forgotten and stays with the neighbour.
                    if away.len() > AWAY_MAX {
                        away.remove(0);
                    }
                }
            }
            PolicyEvent::Up { peer } => self.ask_back(node, peer, out),
            PolicyEvent::Heard { from, bytes } => {
                let (mut numbers, mut asked) = (numbers(bytes), BTreeSet::new());
                while let (Some(high), Some(low)) = (numbers.next(), numbers.next()) {
                    // A repeated identity must not cost another search.
                    let first = asked.insert((high, low));
                    // No neighbour has more bundles here than are remembered.
                    if asked.len() > AWAY_MAX {
                        return;
                    }
                    if !first {
                        continue;
                    }
                    // A request for a bundle that is no longer here, or came from another neighbour, is ignored.
                    let held = node.book.find(u128::from(high) << 64 | u128::from(low));
                    if let Some(held) = held.filter(|held| held.from == from) {
                        out.push(Action::Migrate { bundle: held.handle(), to: from });
                    }
                }
            }
            _ => {}
        }
    }
    fn worth(&self, _node: &Node<'_>, held: &Held) -> Option<f64> {
        Some(held.number as f64)
    }
    fn rehome(&self, node: &Node<'_>, held: &Held) -> Option<PeerId> {
        let size = held.size();
        // A migrated bundle is no longer here, so neighbours that only claim a name and space get none.
        let sure = |peer: &&Peer| peer.identity() >= Identity::Address;
        let fits = |peer: &&Peer| sure(peer) && peer.free.is_some_and(|free| free >= size) && !peer.has(&held.bundle);
        // A bundle must not move back to the neighbour it came from.
        let fit = node.peers.up().filter(|peer| peer.id != held.from).filter(fits);
        fit.min_by(|a, b| self.cost(a, size).total_cmp(&self.cost(b, size))).map(|peer| peer.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::vec;
    use farlink_base::DataRate;

    #[test]
    fn logarithms_are_right() {
        for x in [1e-6, 0.3, 1.0, 1.999, 2.0, 10.0, 12_345.678, 1e4] {
            assert!((log10(x) - x.log10()).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn oldest_migrates_to_cheapest_neighbour() {
        let (mut site, control) = (ControlSite::new(300), StorageRouting::new(&[]));
        let bundles = [(); 3].map(|()| site.keep(9, 100));
        assert_eq!(site.fits(&control, 100), Some(vec![bundles[0]]));
        let rehome = |site: &ControlSite| control.rehome(&site.node(), site.held(bundles[0]));
        let [full, slow, fast, silent] = [2, 3, 4, 5].map(|number| site.meet(number));
        assert_eq!(rehome(&site), None, "no hello received yet");
        let rate = |bits| Some(DataRate(bits));
        site.says(full, 99, rate(1_000_000));
        site.says(slow, 500, rate(1));
        assert_eq!(rehome(&site), Some(slow));
        site.says(fast, 500, rate(1_000_000));
        assert_eq!(rehome(&site), Some(fast));
        site.says(slow, 1000, rate(100_000));
        assert_eq!(rehome(&site), Some(slow), "a bit slower, but empty");
        site.peers.get_mut(slow).unwrap().note_has(1);
        assert_eq!(rehome(&site), Some(fast), "a neighbour with a copy does not get another");
        assert_eq!(site.peer(silent).free, None);
    }

    #[test]
    fn migrated_bundle_returns_to_owner_only() {
        let (mut site, mut control, mut out) = (ControlSite::new(300), StorageRouting::new(&[]), Actions::default());
        let (bundle, peer) = (site.keep_with(9, 200, |b, _| b.id = 7 << 64 | 5), site.meet(2));
        control.on(&site.node(), &PolicyEvent::Gone { bundle, why: Why::Migrated(peer) }, &mut out);
        control.on(&site.node(), &PolicyEvent::Up { peer }, &mut out);
        assert!(out.is_empty(), "no room yet");
        site.book.remove(bundle);
        control.on(&site.node(), &PolicyEvent::Up { peer }, &mut out);
        let bytes = [7u64.to_be_bytes(), 5u64.to_be_bytes()].concat();
        assert_eq!(out.drain().collect::<Vec<_>>(), [Action::Tell { to: peer, bytes: bytes.clone() }]);
        control.on(&site.node(), &PolicyEvent::Up { peer }, &mut out);
        assert!(out.is_empty(), "asked once");
        let mut there = ControlSite::new(300);
        let (owner, thief) = (there.meet(1), there.meet(3));
        let kept = there.keep_with(9, 200, |b, new| (b.id, new.from) = (7 << 64 | 5, owner));
        let mut heard = |from| {
            control.on(&there.node(), &PolicyEvent::Heard { from, bytes: &bytes }, &mut out);
            out.drain().collect::<Vec<_>>()
        };
        assert_eq!(heard(owner), [Action::Migrate { bundle: kept, to: owner }]);
        assert_eq!(heard(thief), []);
    }

    #[test]
    fn unauthenticated_neighbour_gets_no_migration() {
        let (mut site, mut control, mut out) = (ControlSite::new(300), StorageRouting::new(&[]), Actions::default());
        let bundle = site.keep(9, 100);
        let stranger = site.peers.add(farlink_book::Origin::Came);
        site.peers.learn(stranger, farlink_base::EndpointId::ipn(5, 0), Identity::Claimed);
        site.peers.get_mut(stranger).unwrap().up.push(farlink_base::LinkId(9));
        site.says(stranger, u64::MAX, None);
        assert_eq!(control.rehome(&site.node(), site.held(bundle)), None);
        let owner = site.meet(2);
        site.says(owner, u64::MAX, None);
        assert_eq!(control.rehome(&site.node(), site.held(bundle)), Some(owner));
        let kept = site.keep_with(9, 100, |b, new| (b.id, new.from) = (5, owner));
        let mut bytes = [0u64.to_be_bytes(), 5u64.to_be_bytes()].concat().repeat(1_000);
        control.on(&site.node(), &PolicyEvent::Heard { from: owner, bytes: &bytes }, &mut out);
        assert_eq!(out.drain().collect::<Vec<_>>(), [Action::Migrate { bundle: kept, to: owner }]);
        (100..2_000u64).for_each(|id| bytes.extend([0u64.to_be_bytes(), id.to_be_bytes()].concat()));
        control.on(&site.node(), &PolicyEvent::Heard { from: owner, bytes: &bytes }, &mut out);
        assert_eq!(out.drain().count(), 1, "and a request for too many ends there");
    }
}
