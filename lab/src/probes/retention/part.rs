//! A report in parts, each of which fits a reply of the emulator's process.

use super::{BundleRetention, RelayRetention, RetentionReport};
use serde::{Deserialize, Serialize};

/// Most entries of a part. One takes up to 85 bytes, and a reply must stay one atomic write of 4096.
const ENTRIES: usize = 40;

/// Relay by which bundles passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionSubject {
    /// The node.
    Relay,
    /// The zero-work relay in the same host, over TCP.
    ZeroWorkStreams,
    /// The zero-work relay in the same host, over UDP.
    ZeroWorkDatagrams,
}

/// Counters of a relay over the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RelayCounters {
    /// Number of bundles whose rest did not come.
    pub cut: u64,
    /// Number of bundles without a readable identity, or beyond those that are kept.
    pub unidentified: u64,
    /// Number of gaps in what could be read.
    pub lost: u64,
    /// Number of conversations enciphered from some point on.
    pub enciphered: u64,
    /// Bytes of payload that could not be read.
    pub unread: u64,
}

/// Part of a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "part")]
pub enum RetentionPart {
    /// Bundles that passed: when the last byte arrived, the first left and the last left, monotonic ns, and the number of
    /// the link over which they left.
    Passed {
        /// Number of the relay.
        relay: usize,
        /// By which relay they passed.
        subject: RetentionSubject,
        /// The bundles.
        bundles: Vec<[u64; 4]>,
    },
    /// Bundles that arrived at the relay and did not leave.
    Stayed {
        /// Number of the relay.
        relay: usize,
        /// When they arrived, monotonic ns.
        at_ns: Vec<u64>,
    },
    /// Counters of a relay.
    Counted {
        /// Number of the relay.
        relay: usize,
        /// The counters.
        counters: RelayCounters,
    },
    /// Frames that the probe missed, as far as their times are kept.
    Missed {
        /// Their times, monotonic ns.
        at_ns: Vec<u64>,
    },
    /// End of the report.
    End {
        /// Number of frames that the probe missed.
        missed: u64,
    },
}

impl RetentionReport {
    /// Calls `each` with the parts of the report.
    pub fn parts(&self, each: &mut dyn FnMut(RetentionPart)) {
        for (number, relay) in self.relays.iter().enumerate() {
            passed(number, RetentionSubject::Relay, relay, each);
            for at_ns in relay.only_arrived_ns.chunks(ENTRIES) {
                each(RetentionPart::Stayed { relay: number, at_ns: at_ns.to_vec() });
            }
            let RelayRetention { cut, unidentified, lost, enciphered, unread, .. } = *relay;
            let counters = RelayCounters { cut, unidentified, lost, enciphered, unread };
            each(RetentionPart::Counted { relay: number, counters });
        }
        for (number, [streams, datagrams]) in self.zero_work.iter().enumerate() {
            passed(number, RetentionSubject::ZeroWorkStreams, streams, each);
            passed(number, RetentionSubject::ZeroWorkDatagrams, datagrams, each);
        }
        for at_ns in self.missed_at_ns.chunks(ENTRIES) {
            each(RetentionPart::Missed { at_ns: at_ns.to_vec() });
        }
        each(RetentionPart::End { missed: self.missed });
    }
}

fn passed(relay: usize, subject: RetentionSubject, found: &RelayRetention, each: &mut dyn FnMut(RetentionPart)) {
    let times = |b: &BundleRetention| [b.arrived_ns, b.left_first_ns, b.left_last_ns, b.left_over as u64];
    for bundles in found.bundles.chunks(ENTRIES) {
        each(RetentionPart::Passed { relay, subject, bundles: bundles.iter().map(times).collect() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::Reply;
    use farlink_base::{CreationTimestamp, EndpointId};
    use farlink_bundle::PeekedIdentity;

    #[test]
    fn parts_are_complete_and_fit_replies() {
        let source = EndpointId::ipn(1, 1);
        let creation = CreationTimestamp::default();
        let bundle = BundleRetention {
            bundle: PeekedIdentity { version: 7, source, creation, fragment_offset: None },
            length: 1,
            arrived_ns: u64::MAX,
            left_first_ns: u64::MAX,
            left_last_ns: u64::MAX,
            left_over: usize::MAX,
        };
        let bundles = vec![bundle; 100];
        let relay = RelayRetention { bundles, only_arrived_ns: vec![u64::MAX; 90], ..RelayRetention::default() };
        let report = RetentionReport {
            zero_work: vec![[relay.clone(), RelayRetention::default()]],
            relays: vec![relay],
            missed: 7,
            missed_at_ns: vec![5; 50],
            unread: 0,
        };
        let (mut seen, mut stayed, mut missed, mut longest) = ([0; 3], 0, 0, 0);
        report.parts(&mut |part| {
            longest = longest.max(serde_json::to_string(&Reply::Retention(part.clone())).unwrap().len());
            match part {
                RetentionPart::Passed { subject, bundles, .. } => seen[subject as usize] += bundles.len(),
                RetentionPart::Stayed { at_ns, .. } => stayed += at_ns.len(),
                RetentionPart::Missed { at_ns } => missed += at_ns.len(),
                RetentionPart::Counted { .. } => {}
                RetentionPart::End { missed } => assert_eq!(missed, 7),
            }
        });
        assert_eq!((seen, stayed, missed), ([100, 100, 0], 90, 50));
        assert!(longest < 4096, "{longest}");
    }
}
