//! Typed events, the single source of logs, metrics, the live view, results and test assertions.

use crate::error::Refusal;
use crate::id::{BundleHandle, LinkId, NodeId};
use crate::priority::Priority;

/// Numeric identity of a bundle (RFC 9171 4.2.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BundleKey {
    /// Node of the source endpoint.
    pub source: NodeId,
    /// Service number of the source (ipn), or a stable hash of its demux (dtn).
    pub service: u64,
    /// Creation time, DTN ms.
    pub time: u64,
    /// Sequence number of the creation timestamp.
    pub sequence: u64,
    /// Fragment offset and payload length; `None` for a whole bundle.
    pub fragment: Option<(u64, u64)>,
}

/// Reason for deleting a bundle. The numbers are the status report reason codes of RFC 9171 9.5.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DeleteReason {
    /// Completed: delivered, or forwarded and confirmed. Never reported.
    Done = 0,
    /// Bundle lifetime expired.
    Expired = 1,
    /// Forwarded over a unidirectional link.
    Unidirectional = 2,
    /// An operator cancelled the transmission.
    Cancelled = 3,
    /// The store was full.
    DepletedStorage = 4,
    /// Destination endpoint unavailable.
    DestinationUnavailable = 5,
    /// No known route to the destination.
    NoRoute = 6,
    /// No timely contact with the next node.
    NoTimelyContact = 7,
    /// A block could not be parsed.
    BlockUnintelligible = 8,
    /// Hop count exceeds the limit.
    HopLimit = 9,
    /// Traffic was pared.
    TrafficPared = 10,
    /// A block of unsupported type demanded deletion.
    BlockUnsupported = 11,
    /// Missing security operation (RFC 9172 11.2).
    MissingSecurity = 12,
    /// Security operation of an unknown context.
    UnknownSecurity = 13,
    /// Security operation that no rule expects.
    UnexpectedSecurity = 14,
    /// Security operation that did not verify.
    FailedSecurity = 15,
    /// Security operations contradict each other.
    ConflictingSecurity = 16,
}

/// Class of an event, by which a sink subscribes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventClass {
    /// Life cycle of bundles.
    Bundle,
    /// Links, contacts and sessions.
    Link,
    /// Every LTP segment.
    Segment,
    /// Clock, store and faults of the node.
    Node,
}

/// LTP segment sent or received (RFC 5326 3).
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LtpSegmentEvent {
    pub link: LinkId,
    /// Whether this node sent it.
    pub sent: bool,
    /// Engine number of the block's sender.
    pub engine: u64,
    pub session: u64,
    /// Segment type code, 0 to 15.
    pub kind: u8,
    /// Data segments: offset in the block. Report segments: lower bound.
    pub offset: u64,
    /// Data segments: length. Report segments: upper minus lower bound.
    pub length: u64,
    /// Checkpoint serial number; 0 if the segment has none.
    pub checkpoint: u64,
    /// Report serial number; 0 if the segment has none.
    pub report: u64,
    /// Whether a timer caused this retransmission, not a report.
    pub resend: bool,
}

/// Event at one node, at the time of the `handle` call that pushed it.
/// In every variant, `bundle` is the node's number of the bundle and `link` the link concerned.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The node numbered a bundle; always the first event about it.
    Seen {
        bundle: BundleHandle,
        key: BundleKey,
        /// Node of the destination endpoint.
        destination: NodeId,
        /// Destination service number (ipn), or hash of the demux (dtn).
        destination_service: u64,
        /// Payload length, bytes.
        payload: u64,
        /// Length of the encoded bundle, bytes.
        size: u64,
        priority: Priority,
        lifetime_ms: u64,
    },
    /// A local application created the bundle.
    Created { bundle: BundleHandle },
    /// The bundle arrived completely.
    Received {
        bundle: BundleHandle,
        link: LinkId,
        /// Neighbour that sent it.
        from: NodeId,
    },
    /// The bundle was recovered from the store after a restart.
    Recovered { bundle: BundleHandle },
    /// The bundle is durable (or the store is in memory) and was acknowledged.
    Accepted { bundle: BundleHandle },
    /// The router assigned the bundle to a link.
    Routed {
        bundle: BundleHandle,
        link: LinkId,
        /// Neighbour at the other end.
        next_hop: NodeId,
    },
    /// The bundle waits: no route at present.
    Waiting { bundle: BundleHandle },
    /// The bundle came back after being forwarded and is held for a while, since routes may form a loop.
    Returned { bundle: BundleHandle },
    /// The bundle was handed to the convergence layer.
    Transmitting { bundle: BundleHandle, link: LinkId },
    /// The neighbour confirmed the bundle, or it left over a layer without confirmation.
    Forwarded { bundle: BundleHandle, link: LinkId },
    /// The layer reported a failed transmission; the bundle is routed again.
    ForwardFailed { bundle: BundleHandle, link: LinkId },
    /// A local application accepted the bundle.
    Delivered { bundle: BundleHandle },
    /// The bundle left memory and store.
    Deleted { bundle: BundleHandle, reason: DeleteReason },
    /// This node took custody.
    CustodyTaken { bundle: BundleHandle },
    /// Another node took custody.
    CustodyReleased { bundle: BundleHandle },
    /// No custody signal arrived in time: the bundle is sent again.
    CustodyRepeated { bundle: BundleHandle },
    /// A custody signal was sent to a previous custodian.
    CustodySignalled {
        to: NodeId,
        /// Whether custody was accepted, not refused.
        taken: bool,
        /// Number of bundles covered.
        bundles: u64,
    },
    /// A custody signal from a node without authority over the bundles was ignored.
    CustodySignalIgnored {
        /// Claimed sender.
        from: NodeId,
    },
    /// A compressed report about bundles was sent.
    ReportsCompressed {
        to: NodeId,
        /// Number of bundles covered.
        bundles: u64,
    },
    /// Part of the bundle leaves as a fragment.
    Fragmented {
        bundle: BundleHandle,
        link: LinkId,
        /// Offset of the fragment in the payload.
        offset: u64,
        /// Payload bytes of the fragment.
        length: u64,
    },
    /// The bundle was reassembled from fragments.
    Reassembled { bundle: BundleHandle },
    /// A bundle was refused.
    Refused {
        /// Arrival link; `None` for an application.
        link: Option<LinkId>,
        /// Identity, if it could be parsed.
        key: Option<BundleKey>,
        reason: Refusal,
    },
    /// A link came up.
    LinkUp {
        link: LinkId,
        /// Neighbour at the other end.
        peer: NodeId,
    },
    /// A link went down.
    LinkDown { link: LinkId },
    /// Malformed wire data was discarded.
    Malformed {
        /// Arrival link, if known.
        link: Option<LinkId>,
        /// Byte offset of the error.
        offset: u64,
        reason: &'static str,
    },
    /// A peer's session request was refused.
    SessionRefused {
        /// Link concerned, if known.
        link: Option<LinkId>,
        reason: &'static str,
    },
    /// An LTP segment was sent or received (class `Segment`).
    LtpSegment(LtpSegmentEvent),
    /// An LTP session ended.
    LtpSessionEnd {
        link: LinkId,
        /// Engine number of the block's sender.
        engine: u64,
        session: u64,
        /// Whether it ended by cancellation, with the block undelivered.
        cancelled: bool,
        /// Way it ended; for a cancellation, the side and the reason (RFC 5326 3.2.4).
        why: &'static str,
    },
    /// The wall clock was stepped.
    ClockStepped {
        /// Signed step, ms.
        step_ms: i64,
    },
    /// The wall clock contradicts times kept in the store and is not trusted.
    ClockDoubted {
        /// Clock minus the latest stored time, ms; negative if behind it.
        off_ms: i64,
    },
    /// A damaged store record was found and skipped.
    StoreDamage {
        file: u32,
        /// Byte offset of the record.
        offset: u64,
        /// Bytes skipped.
        len: u64,
    },
    /// A disk operation failed; the store refuses work until the disk answers again.
    StoreFailed { file: u32 },
    /// A planned fault of the run began or ended. Emitted by worlds, never by nodes.
    Fault {
        /// Link affected, if any.
        link: Option<LinkId>,
        /// Kind of fault.
        what: &'static str,
    },
}

impl Event {
    /// Class by which sinks subscribe.
    pub fn class(&self) -> EventClass {
        match self {
            Event::LtpSegment(_) => EventClass::Segment,
            Event::LinkUp { .. }
            | Event::LinkDown { .. }
            | Event::Malformed { .. }
            | Event::SessionRefused { .. }
            | Event::LtpSessionEnd { .. } => EventClass::Link,
            Event::ClockStepped { .. }
            | Event::ClockDoubted { .. }
            | Event::StoreDamage { .. }
            | Event::StoreFailed { .. }
            | Event::Fault { .. } => EventClass::Node,
            _ => EventClass::Bundle,
        }
    }
}
