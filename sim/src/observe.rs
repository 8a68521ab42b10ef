//! Observers of a run, and the trace hash.

use crate::contacts::ContactEdge;
use crate::node::SimulatedNode;
use farlink_base::store::Usage;
use farlink_base::{Event, EventClass, Instant, LinkId};
use farlink_bpa::app::BundleStatus;
use farlink_link::Statistics;
use std::hash::{Hash, Hasher};

/// Observer of a run.
pub trait Observer {
    /// Whether events of a class are wanted; by default all but LTP segments. In message-level simulation unwanted
    /// events are not even created.
    fn wants(&self, class: EventClass) -> bool {
        class != EventClass::Segment
    }
    /// Whether samples are wanted.
    fn samples(&self) -> bool {
        true
    }
    /// Receives an event of a node, given by its index.
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        let _ = (at, node, event);
    }
    /// Receives the name of a new radio link; its number may be that of a removed link.
    fn link_named(&mut self, node: usize, link: LinkId, name: &str) {
        let _ = (node, link, name);
    }
    /// Receives a sample of a store.
    fn node_sample(&mut self, at: Instant, node: usize, usage: &Usage) {
        let _ = (at, node, usage);
    }
    /// Receives a sample of a link direction: queued bytes and counters.
    fn link_sample(&mut self, at: Instant, link: usize, forward: bool, queued: u64, counted: &Statistics) {
        let _ = (at, link, forward, queued, counted);
    }
    /// Receives a contact edge, after faults were applied.
    fn contact(&mut self, edge: &ContactEdge) {
        let _ = edge;
    }
    /// Receives the time to which the run advances, before anything happens at that time. An observer that displays the
    /// run may block here.
    fn reach(&mut self, at: Instant, nodes: &Nodes<'_>) {
        let _ = (at, nodes);
    }
    /// Whether the run should end now, before its time.
    fn stopped(&self) -> bool {
        false
    }
    /// Receives the progress: simulated time and delivered bundles.
    fn progress(&mut self, at: Instant, delivered: u64) {
        let _ = (at, delivered);
    }
}

/// Read access to the nodes of a run between two events, by index.
pub struct Nodes<'a>(pub(crate) &'a [SimulatedNode]);
impl Nodes<'_> {
    /// Usage of a node's store; empty while the node is down, and for an unknown index.
    pub fn usage(&self, node: usize) -> Usage {
        self.0.get(node).map_or_else(Usage::default, SimulatedNode::usage)
    }
    /// Whether a node is down or unknown.
    pub fn is_down(&self, node: usize) -> bool {
        self.0.get(node).is_none_or(|node| node.stopped)
    }
    /// First bundles that a node holds, at most `limit`, with their retention constraints. The cost grows with the
    /// number of all bundles that the node holds.
    pub fn bundles(&self, node: usize, now: Instant, limit: usize) -> Vec<BundleStatus> {
        let up = self.0.get(node).filter(|node| !node.stopped);
        up.map_or_else(Vec::new, |node| node.bundles(now, limit))
    }
}

/// Observer that ignores everything.
pub struct Silent;
impl Observer for Silent {
    fn wants(&self, _: EventClass) -> bool {
        false
    }
    fn samples(&self) -> bool {
        false
    }
}

/// Running 64-bit hash of a run, derived from FNV-1a.
#[derive(Clone, Copy, Debug)]
pub struct Trace(u64);
impl Default for Trace {
    fn default() -> Self {
        Trace(0xcbf2_9ce4_8422_2325)
    }
}
impl Trace {
    /// Mixes numbers into the hash.
    pub fn add(&mut self, numbers: &[u64]) {
        for number in numbers {
            // The rotation spreads the high bits, which multiplication alone never moves down.
            self.0 = (self.0 ^ number).wrapping_mul(0x100_0000_01b3).rotate_left(23);
        }
    }
    /// Mixes an event with all its fields into the hash.
    pub fn event(&mut self, at: Instant, node: usize, event: &Event) {
        self.add(&[at.0, node as u64]);
        event.hash(self);
    }
    /// The current hash.
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
