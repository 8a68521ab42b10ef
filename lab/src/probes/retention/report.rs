//! Findings of the probe: each bundle where it arrived and where it left, and the time between.

use crate::probes::watcher::FramePoint;
use farlink_base::Accel;
use farlink_bundle::{PeekedIdentity, peek_identity};
use farlink_cla::reading::Reading;
use std::collections::BTreeMap;

/// Most bundles of one relay that are kept; further ones are only counted.
const BUNDLES_MAX: usize = 1 << 20;

/// Time by which a bundle may seem to leave before it arrives: hand-over is known by the span of its system call.
const DOUBT_NS: u64 = 1_000_000;

/// Passage of one bundle through a relay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleRetention {
    /// Its identity; fragments are bundles of their own.
    pub bundle: PeekedIdentity,
    /// Length as it left, bytes.
    pub length: u64,
    /// When its last byte was handed over to the relay's host, monotonic ns.
    pub arrived_ns: u64,
    /// When its first byte left.
    pub left_first_ns: u64,
    /// When its last byte left.
    pub left_last_ns: u64,
    /// Number of the link over which it left.
    pub left_over: usize,
}
impl BundleRetention {
    /// Time until the first byte left, ns; negative for a relay that forwards a bundle while it arrives.
    pub fn first_ns(&self) -> i64 {
        self.left_first_ns as i64 - self.arrived_ns as i64
    }
    /// Time until the last byte left, ns.
    pub fn last_ns(&self) -> i64 {
        self.left_last_ns as i64 - self.arrived_ns as i64
    }
}

/// Findings about one relay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RelayRetention {
    /// Name of the relay.
    pub name: String,
    /// Bundles that arrived and left, in the order of their arrival.
    pub bundles: Vec<BundleRetention>,
    /// When bundles came that only arrived, such as those for the relay itself, monotonic ns.
    pub only_arrived_ns: Vec<u64>,
    /// Number of bundles that only left, such as the relay's own.
    pub only_left: u64,
    /// Number of bundles that ended incomplete.
    pub cut: u64,
    /// Number of bundles without a readable identity, or beyond those that are kept.
    pub unidentified: u64,
    /// Number of gaps in the readable bytes.
    pub lost: u64,
    /// Number of conversations enciphered from some point on.
    pub enciphered: u64,
    /// Bytes of payload that could not be read.
    pub unread: u64,
}
impl RelayRetention {
    /// Reason why there are no figures; `None` if there are.
    pub fn not_available(&self) -> Option<&'static str> {
        match (self.bundles.is_empty(), self.enciphered > 0) {
            (false, _) => None,
            (true, true) => Some("its conversations are enciphered (TLS)"),
            (true, false) => Some("no bundle was seen to arrive and leave"),
        }
    }
    /// Times until the first byte left, sorted, ns, less the time of a relay that does nothing.
    pub fn sorted_first_ns(&self, floor_ns: i64) -> Vec<i64> {
        let mut times: Vec<i64> = self.bundles.iter().map(|bundle| bundle.first_ns() - floor_ns).collect();
        times.sort_unstable();
        times
    }
}

/// Findings of a probe.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RetentionReport {
    /// Findings about each relay, in the order of the setup.
    pub relays: Vec<RelayRetention>,
    /// Findings about the zero-work relay beside each: over TCP, and over UDP.
    pub zero_work: Vec<[RelayRetention; 2]>,
    /// Number of frames that the probe missed.
    pub missed: u64,
    /// Times of the first missed frames, monotonic ns.
    pub missed_at_ns: Vec<u64>,
    /// Bytes of payload that could not be read.
    pub unread: u64,
}
impl RetentionReport {
    /// Whether figures of this span of monotonic nanoseconds hold: no frame was missed in it.
    pub fn holds(&self, span_ns: std::ops::Range<u64>) -> bool {
        // Later times may be missing from a long list.
        self.missed == 0
            || (self.missed == self.missed_at_ns.len() as u64
                && !self.missed_at_ns.iter().any(|at| span_ns.contains(at)))
    }
}

/// Bundles seen at one relay.
#[derive(Debug)]
pub(super) struct RelaySeen {
    /// Times of the first and the last byte.
    arrived: BTreeMap<PeekedIdentity, (u64, u64)>,
    /// Length, times of the first and the last byte, and the link.
    left: BTreeMap<PeekedIdentity, (u64, u64, u64, usize)>,
    found: RelayRetention,
}

impl RelaySeen {
    pub fn new(name: String) -> RelaySeen {
        let found = RelayRetention { name, ..RelayRetention::default() };
        RelaySeen { arrived: BTreeMap::new(), left: BTreeMap::new(), found }
    }
    /// Adds bytes that could not be read.
    pub fn unread(&mut self, bytes: u64) {
        self.found.unread += bytes;
    }
    /// Takes a finding in a conversation over a link, to or from the relay.
    pub fn reading(&mut self, (point, link): (FramePoint, usize), reading: &Reading<'_>, accel: &Accel) {
        let passage = match reading {
            Reading::Bundle(passage) => passage,
            Reading::Cut(_) => return self.found.cut += 1,
            Reading::Enciphered => return self.found.enciphered += 1,
            Reading::Lost(_) => return self.found.lost += 1,
        };
        let full = self.arrived.len() + self.left.len() >= 2 * BUNDLES_MAX;
        let Some(bundle) = peek_identity(passage.head, accel).ok().filter(|_| !full) else {
            return self.found.unidentified += 1;
        };
        // The first copy counts: later ones are repetitions.
        match point {
            FramePoint::HandedOver => {
                self.arrived.entry(bundle).or_insert((passage.first.0, passage.last.0));
            }
            FramePoint::Leaving => {
                self.left.entry(bundle).or_insert((passage.length, passage.first.0, passage.last.0, link));
            }
        }
    }
    /// Joins arrivals and departures.
    pub fn finish(mut self) -> RelayRetention {
        for (bundle, (arriving_ns, arrived_ns)) in self.arrived {
            match self.left.remove(&bundle) {
                // Its own, which came back.
                Some((_, _, left_last_ns, _)) if left_last_ns.saturating_add(DOUBT_NS) < arriving_ns => {
                    self.found.only_left += 1;
                }
                Some((length, left_first_ns, left_last_ns, left_over)) => {
                    self.found.bundles.push(BundleRetention {
                        bundle,
                        length,
                        arrived_ns,
                        left_first_ns,
                        left_last_ns,
                        left_over,
                    });
                }
                None => self.found.only_arrived_ns.push(arrived_ns),
            }
        }
        self.found.only_left += self.left.len() as u64;
        self.found.bundles.sort_by_key(|bundle| (bundle.arrived_ns, bundle.left_first_ns));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_frames_void_their_span() {
        let report = |missed, missed_at_ns: &[u64]| RetentionReport {
            missed,
            missed_at_ns: missed_at_ns.to_vec(),
            ..RetentionReport::default()
        };
        assert!(report(0, &[]).holds(0..u64::MAX));
        assert!(report(2, &[5, 9]).holds(6..9) && !report(2, &[5, 9]).holds(6..10));
        assert!(!report(3, &[5, 9]).holds(20..30), "the third time is unknown");
    }
}
