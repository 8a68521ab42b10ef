//! Report in parts, each of which fits a reply of the emulator's process.

use super::{BundleRetention, RelayRetention, RetentionReport};
use serde::{Deserialize, Serialize};

/// Maximum number of entries of a part. An entry takes up to 85 bytes, and the write of a reply is atomic up to 4096.
const ENTRIES: usize = 40;

/// Kind of relay through which bundles passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetentionSubject {
    /// Node under test.
    Relay,
    /// Zero-work relay in the same host, over TCP.
    ZeroWorkStreams,
    /// Zero-work relay in the same host, over UDP.
    ZeroWorkDatagrams,
}

/// Counters of a relay over the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RelayCounters {
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

/// Part of a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "part")]
pub enum RetentionPart {
    /// Bundles that passed a relay.
    Passed {
        /// Index of the relay in the setup.
        relay: usize,
        /// Kind of relay through which the bundles passed.
        subject: RetentionSubject,
        /// For each bundle: times (monotonic ns) at which its last byte arrived, its first byte left and its last byte
        /// left, and the index of the link over which it left.
        bundles: Vec<[u64; 4]>,
    },
    /// Bundles that arrived at a relay and did not leave.
    Stayed {
        /// Index of the relay in the setup.
        relay: usize,
        /// Times at which the bundles arrived, in monotonic ns.
        at_ns: Vec<u64>,
    },
    /// Counters of a relay.
    Counted {
        /// Index of the relay in the setup.
        relay: usize,
        /// Values of the counters.
        counters: RelayCounters,
    },
    /// Frames that the probe missed, as far as their times are kept.
    Missed {
        /// Times of the frames, in monotonic ns.
        at_ns: Vec<u64>,
    },
    /// End of the report.
    End {
        /// Number of frames that the probe missed.
        missed: u64,
    },
}

impl RetentionReport {
    /// Calls `each` with the parts of the report, in order.
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
