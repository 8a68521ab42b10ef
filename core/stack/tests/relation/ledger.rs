//! Record of a run as its applications observe it: bundles sent, acknowledged and delivered. The promises of the nodes
//! are checked against it.

use super::forgery::{Honest, LENGTH, STRANGE};
use farlink_base::{BundleId, Bytes};
use farlink_bpa::app::Delivery;
use std::collections::BTreeSet;
use std::fmt;

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Acknowledged to its sender, and neither delivered unchanged nor on its way.
    Lost { bundle: u8, still_held: usize },
    /// A delivered payload that no node sent whole.
    Mixed { node: usize, payload: String },
    /// The world did not come to rest.
    Endless,
}
impl Violation {
    /// Number of the variant.
    pub fn kind(&self) -> u8 {
        match self {
            Violation::Lost { .. } => 0,
            Violation::Mixed { .. } => 1,
            Violation::Endless => 2,
        }
    }
}
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Lost { bundle, still_held } => {
                write!(f, "honest bundle {bundle} was acknowledged and not delivered ({still_held} bundles are held)")
            }
            Violation::Mixed { node, payload } => {
                write!(f, "node {node} delivered a payload that nobody sent: {payload}")
            }
            Violation::Endless => write!(f, "the nodes do not come to rest"),
        }
    }
}

/// One honest bundle that was sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    pub honest: Honest,
    /// Identity that its sender's node gave it.
    pub id: Option<BundleId>,
    /// Whether the sender learnt that the bundle is kept.
    pub acknowledged: bool,
    /// Whether an event may have lost it by right: see [`super::world::World`].
    pub excused: bool,
    pub delivered: usize,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ledger {
    pub sent: [Option<Sent>; 8],
    /// The attacker's pieces: offset in the payload, and byte. An attacker may send a bundle in pieces, of which some
    /// are copied and some are forged.
    pub pieces: BTreeSet<(u64, u8)>,
}

impl Ledger {
    /// Records a delivery at a node.
    ///
    /// # Errors
    /// A payload that no node sent whole under this identity.
    pub fn delivered(&mut self, node: usize, delivery: &Delivery, payload: &Bytes) -> Result<(), Violation> {
        let strange = payload.iter().all(|byte| *byte == STRANGE) && [LENGTH, LENGTH - 7].contains(&payload.len());
        let half = LENGTH / 2;
        let own = |(at, byte): (usize, &u8)| {
            *byte == STRANGE || self.pieces.contains(&(if at < half { 0 } else { half as u64 }, *byte))
        };
        let pieced = payload.len() == LENGTH && !self.pieces.is_empty() && payload.iter().enumerate().all(own);
        let mut known = strange || pieced;
        for sent in self.sent.iter_mut().flatten() {
            let honest = &sent.honest;
            let same = honest.source == delivery.source && honest.payload == *payload;
            known |= same;
            // Version 6 has times in whole seconds, so its lifetimes are rounded up, by a second at most.
            let lifetime = honest.lifetime_ms..=honest.lifetime_ms + 1000;
            let whole = same && honest.destination == delivery.destination && lifetime.contains(&delivery.lifetime_ms);
            sent.delivered += usize::from(whole);
        }
        if known { Ok(()) } else { Err(Violation::Mixed { node, payload: runs(payload) }) }
    }
    /// Excuses the loss of all bundles sent so far.
    pub fn excuse(&mut self) {
        self.sent.iter_mut().flatten().for_each(|sent| sent.excused = true);
    }
    /// The first honest bundle that is still to be delivered.
    pub fn outstanding(&self) -> Option<u8> {
        let due = |sent: &Sent| sent.acknowledged && !sent.excused && sent.delivered == 0;
        self.sent.iter().position(|sent| sent.as_ref().is_some_and(due)).map(|bundle| bundle as u8)
    }
}

/// A payload as runs of equal bytes: `200A 200s`.
fn runs(payload: &Bytes) -> String {
    let mut runs: Vec<(u8, usize)> = Vec::new();
    for byte in payload.iter() {
        match runs.last_mut() {
            Some((last, count)) if last == byte => *count += 1,
            _ => runs.push((*byte, 1)),
        }
    }
    runs.iter().map(|(byte, count)| format!("{count}{}", *byte as char)).collect::<Vec<_>>().join(" ")
}
