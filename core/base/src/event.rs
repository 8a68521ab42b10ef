//! What happened, typed and without strings: the one source of logs, metrics, the live view,
//! results and test assertions.

use crate::error::Refusal;
use crate::id::{BundleHandle, LinkId, NodeId};
use crate::priority::Priority;

/// Identity of a bundle, as RFC 9171 4.2.7 defines it, in numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BundleKey {
    /// Source node.
    pub source: NodeId,
    /// Service number of the source (ipn), or a stable hash of its demux (dtn).
    pub service: u64,
    /// Creation time, DTN ms.
    pub time: u64,
    /// Sequence number.
    pub sequence: u64,
    /// Fragment offset and length, when it is a fragment.
    pub fragment: Option<(u64, u64)>,
}

/// Why a bundle is gone; the numbers are the status report reasons of RFC 9171 (9.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum DeleteReason {
    /// Done with: delivered, or forwarded and confirmed. No report.
    Done = 0,
    /// Lifetime expired.
    Expired = 1,
    /// Forwarded over a unidirectional link.
    Unidirectional = 2,
    /// Transmission cancelled.
    Cancelled = 3,
    /// Depleted storage.
    DepletedStorage = 4,
    /// Destination endpoint unavailable.
    DestinationUnavailable = 5,
    /// No known route.
    NoRoute = 6,
    /// No timely contact with the next node.
    NoTimelyContact = 7,
    /// Block unintelligible.
    BlockUnintelligible = 8,
    /// Hop limit exceeded.
    HopLimit = 9,
    /// Traffic pared.
    TrafficPared = 10,
    /// Block unsupported.
    BlockUnsupported = 11,
    /// Missing security operation (RFC 9172 11.3).
    MissingSecurity = 12,
    /// Unknown security operation.
    UnknownSecurity = 13,
    /// Unexpected security operation.
    UnexpectedSecurity = 14,
    /// Failed security operation.
    FailedSecurity = 15,
    /// Conflicting security operations.
    ConflictingSecurity = 16,
}

/// Groups of events; a sink says which it wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventClass {
    /// The life of bundles.
    Bundle,
    /// Links, contacts and sessions.
    Link,
    /// Every LTP segment.
    Segment,
    /// Clock, store and other matters of the node.
    Node,
}

/// One LTP segment as it left or arrived (RFC 5326 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LtpSegmentEvent {
    /// Over which link.
    pub link: LinkId,
    /// Whether this node sent it.
    pub sent: bool,
    /// Originating engine of the session.
    pub engine: u64,
    /// Session number.
    pub session: u64,
    /// Segment type, 0 to 15.
    pub kind: u8,
    /// Data: block offset. Report: lower bound.
    pub offset: u64,
    /// Data: length. Report: upper bound less lower bound.
    pub length: u64,
    /// Checkpoint serial number, 0 when none.
    pub checkpoint: u64,
    /// Report serial number, 0 when none.
    pub report: u64,
    /// Whether a timer, not a report, caused it to be sent again.
    pub resend: bool,
}

/// What happened at one node. The time is that of the `handle` call that pushed it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A bundle got its number here; always the first event about it.
    Seen {
        /// Number.
        bundle: BundleHandle,
        /// Identity.
        key: BundleKey,
        /// Destination node.
        destination: NodeId,
        /// Destination service (ipn) or hash of the demux.
        destination_service: u64,
        /// Payload bytes.
        payload: u64,
        /// Whole bundle in bytes.
        size: u64,
        /// Class of service.
        priority: Priority,
        /// Lifetime in ms.
        lifetime_ms: u64,
    },
    /// An application here created it.
    Created {
        /// Number.
        bundle: BundleHandle,
    },
    /// It arrived whole over a link.
    Received {
        /// Number.
        bundle: BundleHandle,
        /// Over which link.
        link: LinkId,
        /// From which neighbour.
        from: NodeId,
    },
    /// It was found in the store after a restart.
    Recovered {
        /// Number.
        bundle: BundleHandle,
    },
    /// It is durable (or the store is memory) and was acknowledged.
    Accepted {
        /// Number.
        bundle: BundleHandle,
    },
    /// The router chose a way for it.
    Routed {
        /// Number.
        bundle: BundleHandle,
        /// Over which link.
        link: LinkId,
        /// To which neighbour.
        next_hop: NodeId,
    },
    /// It has no way to go for now.
    Waiting {
        /// Number.
        bundle: BundleHandle,
    },
    /// It came back after it was forwarded, and is held back for a while: routes may form a loop.
    Returned {
        /// Number.
        bundle: BundleHandle,
    },
    /// It was handed to the convergence layer.
    Transmitting {
        /// Number.
        bundle: BundleHandle,
        /// Over which link.
        link: LinkId,
    },
    /// The neighbour confirmed it (or the layer cannot know and it left).
    Forwarded {
        /// Number.
        bundle: BundleHandle,
        /// Over which link.
        link: LinkId,
    },
    /// The layer gave it back; it will be routed again.
    ForwardFailed {
        /// Number.
        bundle: BundleHandle,
        /// Over which link.
        link: LinkId,
    },
    /// An application here took it.
    Delivered {
        /// Number.
        bundle: BundleHandle,
    },
    /// It left this node's memory and store.
    Deleted {
        /// Number.
        bundle: BundleHandle,
        /// Why.
        reason: DeleteReason,
    },
    /// This node has custody of it.
    CustodyTaken {
        /// Number.
        bundle: BundleHandle,
    },
    /// Another node has custody of it.
    CustodyReleased {
        /// Number.
        bundle: BundleHandle,
    },
    /// No node said that it took custody: it is sent again.
    CustodyRepeated {
        /// Number.
        bundle: BundleHandle,
    },
    /// A custodian is told about bundles it handed over.
    CustodySignalled {
        /// Whom.
        to: NodeId,
        /// Whether another node has custody of them now.
        taken: bool,
        /// How many.
        bundles: u64,
    },
    /// A custody signal came from somebody who has no say in it; it ends nothing.
    CustodySignalIgnored {
        /// Who says it is the sender.
        from: NodeId,
    },
    /// Somebody is told in short what became of bundles.
    ReportsCompressed {
        /// Whom.
        to: NodeId,
        /// How many.
        bundles: u64,
    },
    /// A piece of it leaves as a fragment.
    Fragmented {
        /// Number.
        bundle: BundleHandle,
        /// Over which link.
        link: LinkId,
        /// First byte of the piece in its payload.
        offset: u64,
        /// Bytes of the piece.
        length: u64,
    },
    /// Fragments were joined to this bundle.
    Reassembled {
        /// Number.
        bundle: BundleHandle,
    },
    /// Something offered was not taken.
    Refused {
        /// Over which link; `None` from an application.
        link: Option<LinkId>,
        /// Its identity, where it could be read.
        key: Option<BundleKey>,
        /// Why.
        reason: Refusal,
    },
    /// A link may carry bundles.
    LinkUp {
        /// Which.
        link: LinkId,
        /// To which neighbour.
        peer: NodeId,
    },
    /// A link may not.
    LinkDown {
        /// Which.
        link: LinkId,
    },
    /// Wire data that did not parse was thrown away.
    Malformed {
        /// From which link, where known.
        link: Option<LinkId>,
        /// Byte offset.
        offset: u64,
        /// Why.
        reason: &'static str,
    },
    /// A session that a peer wants was not taken up.
    SessionRefused {
        /// For which link, where known.
        link: Option<LinkId>,
        /// Why.
        reason: &'static str,
    },
    /// An LTP segment (class `Segment`).
    LtpSegment(LtpSegmentEvent),
    /// An LTP session ended; `cancelled` tells whether in vain, `why` by whom and why.
    LtpSessionEnd {
        /// Over which link.
        link: LinkId,
        /// Originating engine.
        engine: u64,
        /// Session number.
        session: u64,
        /// Whether it was cancelled.
        cancelled: bool,
        /// How it ended: for one that was cancelled by which side, and the reason (RFC 5326 3.2.4).
        why: &'static str,
    },
    /// The wall clock jumped by this many milliseconds.
    ClockStepped {
        /// Signed step.
        step_ms: i64,
    },
    /// The wall clock cannot be right, by what the store kept, and is not believed.
    ClockDoubted {
        /// Ahead of the latest time something was stored at (behind it, when negative), ms.
        off_ms: i64,
    },
    /// A damaged record was found in the store and left out.
    StoreDamage {
        /// File number.
        file: u32,
        /// Offset of the record.
        offset: u64,
        /// Bytes left out.
        len: u64,
    },
    /// A disk operation failed; the store refuses work until the disk answers again.
    StoreFailed {
        /// File number.
        file: u32,
    },
    /// Something went wrong here because the run says so, or is right again. Nodes cannot know; worlds say it.
    Fault {
        /// Which link it is about, if any.
        link: Option<LinkId>,
        /// What.
        what: &'static str,
    },
}

impl Event {
    /// The group it belongs to.
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
