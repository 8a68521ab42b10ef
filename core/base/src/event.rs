//! Typed events: the single source of logs, metrics, the live view, results and test assertions.

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
    /// Offset and payload length of a fragment; `None` for a whole bundle.
    pub fragment: Option<(u64, u64)>,
}

/// Reason for deleting a bundle. The numbers are the status report reason codes of RFC 9171 9.5.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DeleteReason {
    /// Nothing left to do: delivered, or forwarded and confirmed. Never reported.
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
    /// The hop limit was reached.
    HopLimit = 9,
    /// Traffic was pared: the node shortened the lifetime, or removed the bundle in favour of another.
    TrafficPared = 10,
    /// A block of unsupported type demanded deletion.
    BlockUnsupported = 11,
    /// A required security operation is missing (RFC 9172 11.2).
    MissingSecurity = 12,
    /// A security operation of an unknown context, or one for which there is no key.
    UnknownSecurity = 13,
    /// A security operation that no rule expects.
    UnexpectedSecurity = 14,
    /// A security operation that did not verify.
    FailedSecurity = 15,
    /// Security operations contradict each other.
    ConflictingSecurity = 16,
}

/// Class of an event; sinks subscribe by class.
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
    /// Whether this node sent the segment; if false, it received it.
    pub sent: bool,
    /// Engine number of the block's sender.
    pub engine: u64,
    pub session: u64,
    /// Segment type code, 0 to 15.
    pub kind: u8,
    /// For data segments the offset in the block, for report segments the lower bound.
    pub offset: u64,
    /// For data segments the length, for report segments the upper minus the lower bound.
    pub length: u64,
    /// Checkpoint serial number; 0 if the segment has none.
    pub checkpoint: u64,
    /// Report serial number; 0 if the segment has none.
    pub report: u64,
    /// Whether this repeats an earlier checkpoint, report, cancellation or acknowledgment; false for data sent again
    /// because a report did not claim it.
    pub resend: bool,
}

/// Event at one node, at the time of the `handle` call that pushed it. In every variant, `bundle` is the node's number
/// of the bundle and `link` the link concerned.
#[allow(missing_docs, reason = "field names that say all have no docs")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// The node gave a number to a bundle; always the first event about the bundle.
    Seen {
        bundle: BundleHandle,
        key: BundleKey,
        /// Node of the destination endpoint.
        destination: NodeId,
        /// Service number of the destination (ipn), or a hash of its demux (dtn).
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
        /// Neighbour that sent the bundle.
        from: NodeId,
    },
    /// The bundle was recovered from the store after a restart.
    Recovered { bundle: BundleHandle },
    /// The bundle is durable (or the store is in memory), and its sender was answered.
    Accepted { bundle: BundleHandle },
    /// The bundle was queued for a link.
    Routed {
        bundle: BundleHandle,
        link: LinkId,
        /// Neighbour at the other end.
        next_hop: NodeId,
    },
    /// The bundle waits, because it has no route at present or no room in its tunnel.
    Waiting { bundle: BundleHandle },
    /// The bundle came back after this node had forwarded it, and is delayed, since routes may form a loop.
    Returned { bundle: BundleHandle },
    /// The bundle was handed to the convergence layer.
    Transmitting { bundle: BundleHandle, link: LinkId },
    /// The neighbour confirmed the bundle, or it left over a layer without confirmation.
    Forwarded { bundle: BundleHandle, link: LinkId },
    /// A transmission of the bundle failed, was undone, or ended because the bundle came back.
    ForwardFailed { bundle: BundleHandle, link: LinkId },
    /// A local application confirmed the delivery of the bundle.
    Delivered { bundle: BundleHandle },
    /// The bundle left memory and store.
    Deleted { bundle: BundleHandle, reason: DeleteReason },
    /// This node took custody.
    CustodyTaken { bundle: BundleHandle },
    /// This node released the bundle, because another node has custody of it, or because the far end of its tunnel has
    /// it.
    CustodyReleased { bundle: BundleHandle },
    /// No custody signal arrived in time, or custody was refused: the bundle is sent again.
    CustodyRepeated { bundle: BundleHandle },
    /// A signal was sent to a previous custodian, or to the other end of a tunnel.
    CustodySignalled {
        to: NodeId,
        /// Whether the receiver may release the bundles; if false, they were refused.
        taken: bool,
        /// Number of bundles covered.
        bundles: u64,
    },
    /// A signal about custody or a tunnel was ignored, because its sender has no authority over the bundles it names.
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
    /// A bundle was refused: by this node, by its store, or because it exceeds the MTU of its only link.
    Refused {
        /// Link over which the bundle arrived or was to leave; `None` for requests of applications and refusals by the
        /// store.
        link: Option<LinkId>,
        /// Identity of the bundle, if it is known.
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
        /// Link over which the data arrived, if known.
        link: Option<LinkId>,
        /// Byte offset of the error.
        offset: u64,
        reason: &'static str,
    },
    /// A session was refused, by this node or by its peer.
    SessionRefused {
        /// Link concerned, if known.
        link: Option<LinkId>,
        /// Node that the peer says it is, if it said so.
        peer: Option<NodeId>,
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
        /// Whether the session was cancelled, so that the block was not delivered.
        cancelled: bool,
        /// Way in which the session ended; for a cancellation, which side cancelled and why (RFC 5326 3.2.4).
        why: &'static str,
    },
    /// The wall clock made a step.
    ClockStepped {
        /// Size of the step, ms; negative if the clock was set back.
        step_ms: i64,
    },
    /// The wall clock contradicts times that were kept in the store, so it is not trusted.
    ClockDoubted {
        /// Clock's time minus the latest stored time, ms; negative if the clock is behind it.
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
    /// A planned fault of the run began or ended. Worlds emit this event, nodes never do.
    Fault {
        /// Link affected, if any.
        link: Option<LinkId>,
        /// Kind of fault.
        what: &'static str,
    },
}

impl Event {
    /// Class of the event, by which sinks subscribe.
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
