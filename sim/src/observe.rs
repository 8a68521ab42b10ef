//! What watches a run: recorders, tests, and the trace hash.

use farlink_base::store::Usage;
use farlink_base::{Event, Instant};
use farlink_link::Statistics;
use std::fmt::{self, Write};

/// Sees a run as it goes.
pub trait Observer {
    /// Whether LTP segments are wanted as events.
    fn segments(&self) -> bool {
        false
    }
    /// A node (by its index in the scenario) said something.
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        let _ = (at, node, event);
    }
    /// Fill of a node's store.
    fn node_sample(&mut self, at: Instant, node: usize, usage: &Usage) {
        let _ = (at, node, usage);
    }
    /// Bytes waiting in a direction of a link, and its counters so far.
    fn link_sample(&mut self, at: Instant, link: usize, forward: bool, queued: u64, counted: &Statistics) {
        let _ = (at, link, forward, queued, counted);
    }
    /// Simulated time has come so far, and so many bundles have been delivered.
    fn progress(&mut self, at: Instant, delivered: u64) {
        let _ = (at, delivered);
    }
}

/// Watches nothing.
pub struct Silent;
impl Observer for Silent {}

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
        // Writing into a hash cannot fail.
        let _ = write!(self, "{event:?}");
    }
    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.0
    }
}
impl Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(())
    }
}
