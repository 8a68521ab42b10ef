//! What watches a run: recorders, tests, and the trace hash.

use crate::contacts::ContactEdge;
use crate::node::SimulatedNode;
use farlink_base::store::Usage;
use farlink_base::{Event, EventClass, Instant, LinkId};
use farlink_bpa::app::BundleStatus;
use farlink_link::Statistics;
use std::hash::{Hash, Hasher};

/// Sees a run as it goes.
pub trait Observer {
    /// Whether events of a class are wanted: all but LTP segments, unless it says otherwise. Others are not even made
    /// in simulations of messages.
    fn wants(&self, class: EventClass) -> bool {
        class != EventClass::Segment
    }
    /// Whether samples are wanted.
    fn samples(&self) -> bool {
        true
    }
    /// A node (by its index in the scenario) said something.
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        let _ = (at, node, event);
    }
    /// A node gets a link by a radio, called so from now on; it may have the number of one that is no more.
    fn link_named(&mut self, node: usize, link: LinkId, name: &str) {
        let _ = (node, link, name);
    }
    /// Fill of a node's store.
    fn node_sample(&mut self, at: Instant, node: usize, usage: &Usage) {
        let _ = (at, node, usage);
    }
    /// Bytes waiting in a direction of a link, and its counters so far.
    fn link_sample(&mut self, at: Instant, link: usize, forward: bool, queued: u64, counted: &Statistics) {
        let _ = (at, link, forward, queued, counted);
    }
    /// Two nodes begin to hear each other by a radio, or cease to, as far as faults let them.
    fn contact(&mut self, edge: &ContactEdge) {
        let _ = edge;
    }
    /// The run is about to come to this time: nothing of what happens then has happened yet. Who shows a run may keep
    /// it waiting here.
    fn reach(&mut self, at: Instant, nodes: &Nodes<'_>) {
        let _ = (at, nodes);
    }
    /// Whether the run shall end here, long before its time.
    fn stopped(&self) -> bool {
        false
    }
    /// Simulated time has come so far, and so many bundles have been delivered.
    fn progress(&mut self, at: Instant, delivered: u64) {
        let _ = (at, delivered);
    }
}

/// The nodes of a run between two of its moments, by their places in the scenario: to be looked at only.
pub struct Nodes<'a>(pub(crate) &'a [SimulatedNode]);
impl Nodes<'_> {
    /// Fill of a node's store; nothing while it is down, and of one that is none.
    pub fn usage(&self, node: usize) -> Usage {
        self.0.get(node).map_or_else(Usage::default, SimulatedNode::usage)
    }
    /// Whether a node was killed and has not started again.
    pub fn is_down(&self, node: usize) -> bool {
        self.0.get(node).is_none_or(|node| node.stopped)
    }
    /// The first bundles that a node holds, `limit` at most, and why each is still there. Walks all that it holds.
    pub fn bundles(&self, node: usize, now: Instant, limit: usize) -> Vec<BundleStatus> {
        let up = self.0.get(node).filter(|node| !node.stopped);
        up.map_or_else(Vec::new, |node| node.bundles(now, limit))
    }
}

/// Watches nothing.
pub struct Silent;
impl Observer for Silent {
    fn wants(&self, _: EventClass) -> bool {
        false
    }
    fn samples(&self) -> bool {
        false
    }
}

/// A running hash (FNV-1a, 64 bits) of all that happened in a run.
#[derive(Clone, Copy, Debug)]
pub struct Trace(u64);
impl Default for Trace {
    fn default() -> Self {
        Trace(0xcbf2_9ce4_8422_2325)
    }
}
impl Trace {
    /// Mixes numbers in.
    pub fn add(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.0 = (self.0 ^ number).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        }
    }
    /// Mixes an event in, with all its fields.
    pub fn event(&mut self, at: Instant, node: usize, event: &Event) {
        self.add(&[at.0, node as u64]);
        event.hash(self);
    }
    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.0
    }
}
/// Numbers of any width count as 64 bits, so that the hash is the same on every machine.
impl Hasher for Trace {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    fn write_u8(&mut self, number: u8) {
        self.add(&[u64::from(number)]);
    }
    fn write_u16(&mut self, number: u16) {
        self.add(&[u64::from(number)]);
    }
    fn write_u32(&mut self, number: u32) {
        self.add(&[u64::from(number)]);
    }
    fn write_u64(&mut self, number: u64) {
        self.add(&[number]);
    }
    fn write_usize(&mut self, number: usize) {
        self.add(&[number as u64]);
    }
    fn write_isize(&mut self, number: isize) {
        self.add(&[number as u64]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::BundleHandle;

    #[test]
    fn every_event_field_changes_hash() {
        let of = |at: u64, node: usize, event: Event| {
            let mut trace = Trace::default();
            trace.event(Instant(at), node, &event);
            trace.value()
        };
        let (bundle, link) = (BundleHandle(1), LinkId(2));
        let malformed = |reason| Event::Malformed { link: None, offset: 3, reason };
        let hashes = [
            of(1, 0, Event::Forwarded { bundle, link }),
            of(2, 0, Event::Forwarded { bundle, link }),
            of(1, 1, Event::Forwarded { bundle, link }),
            of(1, 0, Event::ForwardFailed { bundle, link }),
            of(1, 0, Event::Forwarded { bundle: BundleHandle(2), link }),
            of(1, 0, Event::Forwarded { bundle, link: LinkId(1) }),
            of(1, 0, malformed("a")),
            of(1, 0, malformed("b")),
        ];
        let distinct: std::collections::BTreeSet<u64> = hashes.into();
        assert_eq!(distinct.len(), hashes.len());
        assert_eq!(hashes[0], of(1, 0, Event::Forwarded { bundle, link }));
    }
}
