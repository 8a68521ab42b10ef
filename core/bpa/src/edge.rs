//! The agent's interface to wire formats. The stack implements it with its codecs; the agent itself knows no version of
//! the bundle protocol.

use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::{
    BundleId, BundleMeta, Bytes, CreationTimestamp, DeleteReason, DtnTime, EndpointId, Facts, HopState, Malformed,
    Payload, Priority, Refusal,
};

/// Fields of a bundle that is to be created.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Version of the bundle protocol.
    pub version: u8,
    /// Source endpoint of the bundle.
    pub source: EndpointId,
    /// Destination endpoint of the bundle.
    pub destination: EndpointId,
    /// Endpoint that receives status reports; null for none.
    pub report_to: EndpointId,
    /// Properties and requested reports.
    pub facts: Facts,
    /// Lifetime from creation, ms.
    pub lifetime_ms: u64,
    /// Class of service.
    pub priority: Priority,
    /// Most hops; 0 for no limit.
    pub hop_limit: u8,
    /// Number and flags of the bundle's compressed reporting block; `None` for a bundle without one.
    pub compressed: Option<(u64, u64)>,
}

/// Assertion of a status report (RFC 9171 6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The node received the bundle.
    Received,
    /// The node forwarded the bundle.
    Forwarded,
    /// The node delivered the bundle.
    Delivered,
    /// The node deleted the bundle.
    Deleted,
}

/// Answer about a bundle to the custodian that handed it over (RFC 5050 6.1.2), or to the node that sent it into a
/// tunnel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Answer {
    /// Custody was taken, or the bundle delivered.
    Taken,
    /// The answering node has the bundle already (redundant reception).
    Redundant,
    /// The answering node has no room for the bundle.
    Depleted,
    /// The bundle's destination cannot be understood.
    Unintelligible,
    /// There is no route to the destination.
    NoRoute,
    /// There is no contact to the destination in time.
    NoContact,
    /// A block of the bundle cannot be understood.
    BadBlock,
    /// Custody was refused without a stated reason.
    Refused,
}
impl Answer {
    /// Whether the receiver of the answer may release the bundle: another node has custody of it, or it was delivered.
    pub const fn releases(self) -> bool {
        matches!(self, Answer::Taken | Answer::Redundant)
    }
}

/// A range of numbers that one node gave to bundles or transmissions. Never iterate over it: one signal may name all
/// 2^64 of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Identifier of the counter that assigned the numbers; 0: the counter for `destination`.
    pub sequence: u64,
    /// Destination whose bundles the counter `sequence` numbers; null if it numbers all bundles.
    pub destination: EndpointId,
    /// First number of the range.
    pub first: u64,
    /// Last number of the range.
    pub last: u64,
}

/// Bundles that a custody signal refers to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// One bundle or one fragment, by identity.
    One(BundleId),
    /// Bundles by ranges of the custodian's numbers.
    Numbers(Vec<Numbers>),
}

/// A custody signal: one answer for one or more bundles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signal {
    /// The answer given.
    pub answer: Answer,
    /// Bundles that the answer is about.
    pub about: About,
}

/// Content of an administrative record, as far as the agent uses it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// Hello of a neighbour.
    Hello(Bytes),
    /// Custody signals about bundles handed over.
    Custody(Vec<Signal>),
    /// Status report or record of unknown type, for the application registered at the record's destination.
    Other,
    /// A record that cannot be parsed.
    Unreadable,
}

/// Event that a compressed report asserts about numbered bundles (CCSDS 734.6-O-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fate {
    /// The node received the bundles.
    Received,
    /// The node forwarded the bundles.
    Forwarded,
    /// The node delivered the bundles.
    Delivered,
    /// The node deleted the bundles.
    Deleted,
    /// The node took custody of the bundles.
    CustodyTaken,
    /// The node did not take custody of the bundles.
    CustodyRefused,
}
impl Fate {
    /// Flag of the compressed reporting block that requests this event.
    pub const fn flag(self) -> u64 {
        // Events are declared in the order of the block's flags (CCSDS 734.6-O-1).
        1 << self as u64
    }
}

/// Request in a compressed reporting block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Number that `source` gave to the bundle.
    pub number: u64,
    /// Identifier of the counter of `source` that assigned the number; 0: the counter for the bundle's destination.
    pub sequence: u64,
    /// Flags of the events to report.
    pub asks: u64,
    /// Node that gave the number to the bundle.
    pub source: EndpointId,
    /// Endpoint that receives the reports.
    pub report_to: EndpointId,
}

/// One line of a compressed report: which event, for bundles numbered by which counter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Item {
    /// Event that is asserted.
    pub fate: Fate,
    /// Identifier of the counter that assigned the numbers; 0: the counter for `destination`.
    pub sequence: u64,
    /// Destination whose bundles the counter `sequence` numbers; null if it numbers all bundles.
    pub destination: EndpointId,
    /// Node that gave the numbers.
    pub source: EndpointId,
}

/// Record types of a tunnel on the wire; only the edge interprets them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TunnelCodes {
    /// Type of the record that carries a bundle.
    pub bundle: u64,
    /// Type of the signals about such records.
    pub signal: u64,
    /// Whether times are Unix seconds, as ION writes them, instead of DTN milliseconds.
    pub unix: bool,
}
impl Default for TunnelCodes {
    fn default() -> Self {
        // Record types of draft-ietf-dtn-bibect, whose times are DTN milliseconds.
        TunnelCodes { bundle: 3, signal: 4, unix: false }
    }
}

/// Content of a record from the far end of a tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Carried {
    /// The record carries neither a bundle nor a signal.
    Nothing,
    /// A bundle, and the number that its sender gave to the transmission; 0: the sender wants no signal.
    Inside(u64, Payload),
    /// An answer about transmissions, named by ranges of their numbers.
    Signal(Answer, Vec<Numbers>),
}

/// Creates, joins, measures and parses bundles of any version.
pub trait Edge {
    /// Creates a bundle. Optional features, such as a hop limit, are left out if the version does not have them.
    ///
    /// # Errors
    /// If the version cannot express the draft.
    fn make(&mut self, draft: Draft, creation: CreationTimestamp, payload: Payload) -> Result<BundleMeta, Refusal>;
    /// Adds the configured security blocks to a bundle made here. Called once for each bundle that is to be kept, not
    /// for bundles made only to learn their size.
    ///
    /// # Errors
    /// If the security blocks cannot be made.
    fn protect(&mut self, made: BundleMeta) -> Result<BundleMeta, Refusal> {
        // Without security configured, bundles leave as they were made.
        Ok(made)
    }
    /// Whether the payload may be delivered only through [`Output::Open`](crate::Output::Open), which verifies its
    /// security and decrypts it.
    fn guards(&self, _bundle: &BundleMeta) -> bool {
        // Without security configured, payloads are delivered as they are.
        false
    }
    /// Makes the reassembled bundle; `first` is its first fragment, `payload` its whole payload.
    ///
    /// # Errors
    /// If the fragments form no valid bundle.
    fn whole(&mut self, first: &BundleMeta, payload: Payload) -> Result<BundleMeta, Refusal>;
    /// Encoded length of the bundle when it leaves with the fields of `hop`, or of its fragment with the payload range
    /// `cut`.
    fn size(&self, bundle: &BundleMeta, hop: &HopState, cut: Option<Range<u64>>) -> u64;
    /// Payload of a status report about a bundle.
    fn status_report(&self, about: &BundleMeta, status: Status, reason: DeleteReason, at: Option<DtnTime>) -> Payload;
    /// Payload of a custody signal in this version of the bundle protocol; `None` if the version cannot express it.
    fn custody_signal(&self, version: u8, signal: &Signal, at: Option<DtnTime>) -> Option<Payload>;
    /// Request in the bundle's compressed reporting block; `None` without such a block.
    fn asked(&self, _bundle: &BundleMeta) -> Option<Asked> {
        // Compressed reporting is optional (CCSDS 734.6-O-1).
        None
    }
    /// Payload of a compressed reporting signal, which names a source only if it is not among `known`. `None` if this
    /// edge makes no such signals.
    fn compressed_report(&self, _said: &[(Item, Numbers)], _known: &[&EndpointId]) -> Option<Payload> {
        // Compressed reporting is optional (CCSDS 734.6-O-1).
        None
    }
    /// Payload of the outer bundle that carries the encoded `bundle`. `number` is the transmission's number, 0 if no
    /// signal is wanted; `due` is the time at which the transmission is repeated unless a signal comes.
    fn carry(&self, codes: TunnelCodes, number: u64, due: Option<DtnTime>, bundle: Payload) -> Payload;
    /// Payload of a signal about transmissions through a tunnel.
    fn tunnel_signal(&self, codes: TunnelCodes, answer: Answer, runs: &[Numbers]) -> Payload;
    /// Content of a record from the far end of a tunnel; `payload` is its payload, decrypted and in memory.
    ///
    /// # Errors
    /// The record's defect. Nesting deeper than `depth_max` is a defect.
    fn carried(
        &self,
        outer: &BundleMeta,
        payload: &Payload,
        codes: TunnelCodes,
        depth_max: usize,
    ) -> Result<Carried, Malformed>;
    /// Number of bundles, this one included, that carry another bundle inside; counted from outside, up to `most`.
    fn depth(&self, bundle: &BundleMeta, codes: TunnelCodes, most: usize) -> usize;
    /// Keyed digest of the payload, or of its plaintext if this node can decrypt it. 0 if the payload is not in memory
    /// and was not digested before.
    fn digest(&mut self, bundle: &BundleMeta) -> u64;
    /// Sets the secret from which the key of digests is derived. Must precede the first bundle.
    fn set_secret(&mut self, _secret: u64) {}
    /// Payload of a hello bundle.
    fn hello(&self, content: &[u8]) -> Payload;
    /// Parses the administrative record that a bundle carries.
    fn record(&self, bundle: &BundleMeta) -> Record;
}

/// Appends a big-endian number.
pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}
