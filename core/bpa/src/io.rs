//! Inputs and outputs of an agent; the stack translates to and from layers, store and wire formats.

use crate::app::{AdminInput, AppInput, AppOutput};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::layer::{LinkState, SendId, Ticket};
use farlink_base::store::{self, IndexEntry};
use farlink_base::{
    BundleHandle, BundleMeta, Clock, DeleteReason, EndpointId, Event, HopState, Instant, LayerId, LinkId, Malformed,
    NodeId, Refusal,
};

/// Identifies an offer of one of the stack's layers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OfferToken {
    /// Layer that made the offer.
    pub layer: LayerId,
    /// The layer's own number of the offer.
    pub ticket: Ticket,
}
impl OfferToken {
    /// Reserved for bundles taken out of a tunnel; the ticket is the number of the outer bundle's delivery.
    pub const TUNNEL: LayerId = LayerId(u16::MAX);
}

/// Scarcity of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Pressure {
    /// Memory is not scarce.
    #[default]
    None,
    /// Buffers shared with other bundles are released, payloads on disk are not cached, and neighbours that are not
    /// configured are refused.
    High,
    /// Bundles from all neighbours are refused.
    Full,
}

/// Input to an agent.
#[derive(Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// A reading of the wall clock.
    Clock(Clock),
    /// A bundle begins to arrive: its head is here, its payload a placeholder of the right length. It may be refused
    /// before the rest comes; otherwise room is reserved for it.
    Begun {
        /// Link it arrives on.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// The bundle as far as it is known.
        bundle: Arc<BundleMeta>,
        /// Fields that change from hop to hop.
        hop: Box<HopState>,
    },
    /// A piece of an arriving bundle is on disk, as a fragment of its own. [`Output::Kept`] answers once the piece is
    /// held independently of the rest; there is no answer if it may not be kept.
    Piece {
        /// Link it arrives on.
        link: LinkId,
        /// Offer of the arriving bundle.
        token: OfferToken,
        /// The piece as a fragment.
        bundle: Arc<BundleMeta>,
        /// Fields that change from hop to hop.
        hop: Box<HopState>,
        /// Bytes of the encoded arriving bundle that an answer promises.
        promises: Range<u64>,
    },
    /// A bundle that began to arrive will not complete; no verdict is wanted.
    Abandoned {
        /// Offer that ended.
        token: OfferToken,
    },
    /// A whole bundle arrived.
    Arrived {
        /// Link it arrived on.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// The complete bundle.
        bundle: Arc<BundleMeta>,
        /// Fields that change from hop to hop.
        hop: Box<HopState>,
    },
    /// An arrived bundle could not be parsed.
    Malformed {
        /// Link it arrived on.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// Defect that was found.
        error: Malformed,
    },
    /// An arrived bundle is damaged behind its head, which is valid.
    Damaged {
        /// Link it arrived on.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// Identity of the bundle; only the length of its payload is known.
        bundle: Arc<BundleMeta>,
        /// Defect that was found.
        error: Malformed,
    },
    /// The memory pressure from now on; repeated while memory stays scarce.
    Pressure(Pressure),
    /// Carrier of a link appeared or was lost.
    Carrier {
        /// Link that changed.
        link: LinkId,
        /// Whether the medium works.
        up: bool,
    },
    /// A layer's readiness to take a bundle for the link.
    Ready {
        /// Link that is meant.
        link: LinkId,
        /// Whether it can take one.
        ready: bool,
    },
    /// Like [`Input::Ready`], for a link that takes one bundle at a time; used from then on instead of it.
    TakesOne {
        /// Link that is meant.
        link: LinkId,
        /// Whether it takes one now.
        ready: bool,
    },
    /// A neighbour's description of itself, as its [`Output::Hello`] holds it.
    Hello {
        /// Link it arrived on.
        link: LinkId,
        /// Content of the hello.
        content: Vec<u8>,
    },
    /// Turn of a link to a neighbour met by radio, which shares the radio with other links: it takes at most one bundle
    /// in this call. Answered by at most one [`Output::Send`]; whenever a bundle could leave while it is not the link's
    /// turn, [`Output::Waits`] follows, once for each turn.
    Turn {
        /// Link that may send.
        link: LinkId,
    },
    /// A transmission was confirmed.
    Sent {
        /// Number of the transmission.
        id: SendId,
    },
    /// A transmission broke, and the peer keeps this many of its first bytes; `SendFailed` follows.
    SentInPart {
        /// Number of the transmission.
        id: SendId,
        /// Bytes of the encoded bundle.
        bytes: u64,
    },
    /// A transmission failed.
    SendFailed {
        /// Number of the transmission.
        id: SendId,
        /// Refusal by the peer, if any.
        refused: Option<Refusal>,
    },
    /// A payload to be sent or delivered cannot be read from the store.
    Unreadable {
        /// Purpose of the read.
        what: Reading,
        /// Whether it is permanent: the record is damaged.
        for_good: bool,
    },
    /// A delivery is forbidden: its security operations are missing, unknown or failed.
    Insecure {
        /// Number of the delivery.
        delivery: crate::app::DeliveryId,
        /// Reason for the bundle's deletion.
        reason: DeleteReason,
    },
    /// A bundle for a tunnel was encoded.
    Rendered {
        /// Number of the transmission.
        id: SendId,
        /// The encoded bundle; its payload may be on disk.
        rope: farlink_base::Payload,
    },
    /// Payload of a bundle that came through a tunnel, its security verified.
    Outer {
        /// Number of the delivery.
        delivery: crate::app::DeliveryId,
        /// The payload; on disk if it is longer than one read allows.
        payload: farlink_base::Payload,
    },
    /// Verdict on the bundle inside another one.
    Judged {
        /// Delivery of the outer bundle.
        delivery: crate::app::DeliveryId,
        /// Kept, or the refusal.
        result: Result<(), Refusal>,
    },
    /// An arrived bundle is refused by rule, independent of room.
    Unwanted {
        /// Link it arrived on.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// The refused bundle.
        bundle: Arc<BundleMeta>,
        /// Reason of the refusal.
        reason: Refusal,
    },
    /// A peer introduced itself, on a configured link or on a dynamic one that exists from now on.
    PeerUp {
        /// Link that it uses.
        link: LinkId,
        /// Node ID that the peer claimed.
        claimed: Option<EndpointId>,
        /// Node that its LTP engine number stands for.
        node: Option<NodeId>,
        /// Node ID that the peer proved.
        proven: Option<EndpointId>,
    },
    /// A peer is gone; a dynamic link no longer exists.
    PeerDown {
        /// Link that it used.
        link: LinkId,
    },
    /// An output of the store.
    Store(store::Output),
    /// A bundle that an earlier run kept; comes before `Opened`.
    Recovered {
        /// Number of the bundle.
        bundle: BundleHandle,
        /// Index entry of the bundle.
        index: IndexEntry,
        /// The bundle, its payload on disk.
        meta: Arc<BundleMeta>,
        /// Fields that change from hop to hop, as they were at arrival.
        hop: Box<HopState>,
    },
    /// A request of an application.
    App(AppInput),
    /// A request of an operator.
    Admin(AdminInput),
}

/// Purpose of reading a payload from the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reading {
    /// A transmission over a link.
    Send(SendId),
    /// A delivery to an application.
    Delivery(crate::app::DeliveryId),
}

/// Output of an agent.
#[derive(Debug)]
pub enum Output {
    /// The agent's verdict on an offer of a layer.
    Verdict {
        /// Offer that is answered.
        token: OfferToken,
        /// Kept, or the refusal.
        result: Result<(), Refusal>,
    },
    /// Promise to a layer that the first bytes of its offer are kept, whatever becomes of the rest.
    Kept {
        /// Offer that is answered.
        token: OfferToken,
        /// Bytes of the encoded bundle that are kept.
        bytes: u64,
    },
    /// New state of a link, for its layer.
    Link {
        /// Link that changed.
        link: LinkId,
        /// State from now on.
        state: LinkState,
    },
    /// An operator turned a link off: its sessions end.
    Close {
        /// Link whose sessions end.
        link: LinkId,
    },
    /// Render a bundle for this hop and hand it to a link's layer.
    Send {
        /// Link to send over.
        link: LinkId,
        /// Number of the transmission.
        id: SendId,
        /// The bundle to encode.
        bundle: Arc<BundleMeta>,
        /// Fields that change on this hop.
        hop: Box<HopState>,
        /// Range of the payload that leaves as a fragment; `None`: all of it.
        cut: Option<Range<u64>>,
        /// Encoded length of the outgoing bundle; 0 into a tunnel, where it is not used.
        size: u64,
        /// Whether reliable transmission is required.
        reliable: bool,
        /// Reference time of the age in `hop`, and the end of the bundle's lifetime.
        lives: [Instant; 2],
    },
    /// Drop a transmission if it has not left; it is answered all the same.
    Cancel {
        /// Link of the transmission.
        link: LinkId,
        /// Number of the transmission.
        id: SendId,
    },
    /// Hello for a neighbour, over a link on which it costs no transmission time.
    Hello {
        /// Link to the neighbour.
        link: LinkId,
        /// Content that the neighbour receives as [`Input::Hello`].
        content: Vec<u8>,
    },
    /// A bundle could leave over a link that takes turns, but it is not its turn.
    Waits {
        /// Link that waits.
        link: LinkId,
    },
    /// Encode a bundle as it arrived and hand it to the store.
    Put {
        /// Number of the bundle.
        bundle: BundleHandle,
        /// Index entry of the bundle.
        index: IndexEntry,
        /// The bundle to store.
        meta: Arc<BundleMeta>,
    },
    /// Another input for the store.
    Store(store::Input),
    /// A message for an application.
    App(AppOutput),
    /// Deliver a bundle once its security is verified; otherwise [`Input::Insecure`] follows.
    Open {
        /// Message for the application.
        output: AppOutput,
        /// The bundle to verify.
        bundle: Arc<BundleMeta>,
    },
    /// Read a bundle that came inside another, and offer it like one that arrived over [`LinkId::TUNNEL`].
    Inside {
        /// Offer that it becomes.
        token: OfferToken,
        /// The encoded bundle, in memory.
        bundle: farlink_base::Payload,
    },
    /// An event for listeners.
    Event(Event),
    /// End all sessions.
    Shutdown,
}

/// Parses a neighbour's name as a layer gives it.
pub fn endpoint_of(text: Option<String>) -> Option<EndpointId> {
    // A name that cannot be parsed counts as none: links work without names, too.
    text.and_then(|text| text.parse().ok())
}
