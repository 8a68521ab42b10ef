//! Findings of the probe: the passage of each bundle through a relay, and the time that it took.

use crate::probes::watcher::FramePoint;
use farlink_base::Accel;
use farlink_bundle::{PeekedIdentity, peek_identity};
use farlink_cla::reading::Reading;
use std::collections::BTreeMap;

/// Bound of the bundles kept for one relay: arrivals and departures together are at most twice this number. Others are
/// only counted.
const BUNDLES_MAX: usize = 1 << 20;

/// Tolerance in ns for a bundle that seems to leave before it arrives: a hand-over is only known to lie within its
/// system call.
const DOUBT_NS: u64 = 1_000_000;

/// Passage of one bundle through a relay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BundleRetention {
    /// Identity of the bundle; each fragment counts as a bundle.
    pub bundle: PeekedIdentity,
    /// Length of the bundle as it left, in bytes.
    pub length: u64,
    /// Time at which the last byte had been handed over to the relay's host, in monotonic ns.
    pub arrived_ns: u64,
    /// Time at which the first byte left, in monotonic ns.
    pub left_first_ns: u64,
    /// Time at which the last byte left, in monotonic ns.
    pub left_last_ns: u64,
    /// Index of the link over which the bundle left.
    pub left_over: usize,
}
impl BundleRetention {
    /// Time from arrival until the first byte left, in ns; negative if the relay forwards a bundle while it arrives.
    pub fn first_ns(&self) -> i64 {
        self.left_first_ns as i64 - self.arrived_ns as i64
    }
    /// Time from arrival until the last byte left, in ns.
    pub fn last_ns(&self) -> i64 {
        self.left_last_ns as i64 - self.arrived_ns as i64
    }
}

/// Findings about one relay.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RelayRetention {
    /// Name of the relay.
    pub name: String,
    /// Bundles that arrived and left, in order of arrival.
    pub bundles: Vec<BundleRetention>,
    /// Arrival times of bundles that did not leave, such as those for the relay itself, in monotonic ns.
    pub only_arrived_ns: Vec<u64>,
    /// Number of bundles that only left, such as the relay's own.
    pub only_left: u64,
    /// Number of bundles that ended incomplete.
    pub cut: u64,
    /// Number of bundles without a readable identity, or beyond the maximum that is kept.
    pub unidentified: u64,
    /// Number of gaps in the readable bytes.
    pub lost: u64,
    /// Number of conversations that are encrypted from some point on.
    pub enciphered: u64,
    /// Number of payload bytes that could not be read.
    pub unread: u64,
}
impl RelayRetention {
    /// Reason why no retention times were measured; `None` if some were.
    pub fn not_available(&self) -> Option<&'static str> {
        match (self.bundles.is_empty(), self.enciphered > 0) {
            (false, _) => None,
            (true, true) => Some("its conversations are enciphered (TLS)"),
            (true, false) => Some("no bundle was seen to arrive and leave"),
        }
    }
    /// Times from arrival until the first byte left, less `floor_ns` (the time of a zero-work relay), in ns, sorted.
    pub fn sorted_first_ns(&self, floor_ns: i64) -> Vec<i64> {
        let mut times: Vec<i64> = self.bundles.iter().map(|bundle| bundle.first_ns() - floor_ns).collect();
        times.sort_unstable();
        times
    }
}

/// All findings of a probe.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RetentionReport {
    /// Findings about each relay, in the order of the setup.
    pub relays: Vec<RelayRetention>,
    /// Findings about the zero-work relays in the host of each relay: over TCP, and over UDP.
    pub zero_work: Vec<[RelayRetention; 2]>,
    /// Number of frames that the probe missed.
    pub missed: u64,
    /// Times of some of the first missed frames, in monotonic ns.
    pub missed_at_ns: Vec<u64>,
    /// Number of payload bytes that could not be read, at all relays.
    pub unread: u64,
}
impl RetentionReport {
    /// Whether times in this span of monotonic ns are reliable: no frame was missed in it.
    pub fn holds(&self, span_ns: std::ops::Range<u64>) -> bool {
        // If some times are unknown, they may lie in the span.
        self.missed == 0
            || (self.missed == self.missed_at_ns.len() as u64
                && !self.missed_at_ns.iter().any(|at| span_ns.contains(at)))
    }
}

/// Bundles seen at one relay.
#[derive(Debug)]
pub(super) struct RelaySeen {
    /// Times at which the first and the last byte of each bundle arrived.
    arrived: BTreeMap<PeekedIdentity, (u64, u64)>,
    /// Length of each bundle, times at which its first and last byte left, and the link.
    left: BTreeMap<PeekedIdentity, (u64, u64, u64, usize)>,
    found: RelayRetention,
}

impl RelaySeen {
    pub fn new(name: String) -> RelaySeen {
        let found = RelayRetention { name, ..RelayRetention::default() };
        RelaySeen { arrived: BTreeMap::new(), left: BTreeMap::new(), found }
    }
    /// Adds a number of bytes that could not be read.
    pub fn unread(&mut self, bytes: u64) {
        self.found.unread += bytes;
    }
    /// Adds a finding in a conversation over a link, to or from the relay.
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
        // Only the first copy counts: later ones are repetitions.
        match point {
            FramePoint::HandedOver => {
                self.arrived.entry(bundle).or_insert((passage.first.0, passage.last.0));
            }
            FramePoint::Leaving => {
                self.left.entry(bundle).or_insert((passage.length, passage.first.0, passage.last.0, link));
            }
        }
    }
    /// Matches arrivals with departures, and returns the findings.
    pub fn finish(mut self) -> RelayRetention {
        for (bundle, (arriving_ns, arrived_ns)) in self.arrived {
            match self.left.remove(&bundle) {
                // The relay's own bundle, which came back.
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
