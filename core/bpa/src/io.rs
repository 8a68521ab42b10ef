//! Inputs and outputs of an agent; the stack translates them from and to layers, store and wire formats.

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
    /// Layer number reserved for bundles taken out of a tunnel; their ticket is the number of the outer bundle's
    /// delivery.
    pub const TUNNEL: LayerId = LayerId(u16::MAX);
}

/// Scarcity of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Pressure {
    /// Memory is not scarce.
    #[default]
    None,
    /// Bundles get memory of their own instead of shared buffers, payloads on disk are not cached, and bundles that no
    /// link vouches for are refused.
    High,
    /// All new bundles are refused.
    Full,
}

/// Input to an agent.
#[derive(Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// A reading of the wall clock.
    Clock(Clock),
    /// A bundle begins to arrive: its head is here, its payload is a placeholder of the right length. The agent refuses
    /// the bundle at once or reserves room for it.
    Begun {
        /// Link over which the bundle arrives.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// The bundle, as far as it has arrived.
        bundle: Arc<BundleMeta>,
        /// Fields that change from hop to hop.
        hop: Box<HopState>,
    },
    /// A piece of an arriving bundle is on disk, as a fragment of its own. [`Output::Kept`] follows once the piece is
    /// held independently of the rest; no answer follows if it may not be kept.
    Piece {
        /// Link over which the bundle arrives.
        link: LinkId,
        /// Offer of the arriving bundle.
        token: OfferToken,
        /// The piece as a fragment.
        bundle: Arc<BundleMeta>,
        /// Fields that change from hop to hop.
        hop: Box<HopState>,
        /// Range of the arriving bundle's encoded bytes that is promised once the piece is kept.
        promises: Range<u64>,
    },
    /// A bundle that began to arrive will not complete; no verdict is wanted.
    Abandoned {
        /// Offer that ended.
        token: OfferToken,
    },
    /// A whole bundle arrived.
    Arrived {
        /// Link over which the bundle arrived.
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
        /// Link over which the bundle arrived.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// Defect that was found.
        error: Malformed,
    },
    /// An arrived bundle has a valid head and damage behind it.
    Damaged {
        /// Link over which the bundle arrived.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// The bundle's head; of its payload only the length is known.
        bundle: Arc<BundleMeta>,
        /// Defect that was found.
        error: Malformed,
    },
    /// The memory pressure that applies from now on; repeated while memory stays scarce.
    Pressure(Pressure),
    /// Carrier of a link appeared or was lost.
    Carrier {
        /// Link that changed.
        link: LinkId,
        /// Whether the medium works.
        up: bool,
    },
    /// A layer's readiness to take bundles for a link.
    Ready {
        /// Link whose layer reports.
        link: LinkId,
        /// Whether the layer can take a bundle.
        ready: bool,
    },
    /// Readiness of a link that takes one bundle at a time. Replaces [`Input::Ready`] for the link from then on.
    TakesOne {
        /// Link whose layer reports.
        link: LinkId,
        /// Whether the link takes a bundle now.
        ready: bool,
    },
    /// A hello that a neighbour sent as [`Output::Hello`].
    Hello {
        /// Link over which the hello arrived.
        link: LinkId,
        /// Content of the hello.
        content: Vec<u8>,
    },
    /// Turn of a link to a neighbour met by radio, which shares the radio with other links. At most one
    /// [`Output::Send`] follows. If a bundle could leave after the turn, [`Output::Waits`] follows, once between two
    /// turns.
    Turn {
        /// Link that may send.
        link: LinkId,
    },
    /// A transmission was confirmed.
    Sent {
        /// Number of the transmission.
        id: SendId,
    },
    /// A transmission broke, and the peer keeps the first `bytes` of it; `SendFailed` follows.
    SentInPart {
        /// Number of the transmission.
        id: SendId,
        /// Bytes of the encoded bundle that the peer keeps.
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
        /// Whether later reads will fail, too, because the record is damaged.
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
    /// Payload of a bundle that came through a tunnel, after its security was verified.
    Outer {
        /// Number of the delivery.
        delivery: crate::app::DeliveryId,
        /// The payload; still on disk if it exceeds the length of one read.
        payload: farlink_base::Payload,
    },
    /// Verdict on a bundle that came inside another one.
    Judged {
        /// Delivery of the outer bundle.
        delivery: crate::app::DeliveryId,
        /// Kept, or the refusal.
        result: Result<(), Refusal>,
    },
    /// An arrived bundle is refused because a security rule demands a check or a block that this node cannot make now.
    Unwanted {
        /// Link over which the bundle arrived.
        link: LinkId,
        /// Offer that the verdict answers.
        token: OfferToken,
        /// The refused bundle.
        bundle: Arc<BundleMeta>,
        /// Reason of the refusal.
        reason: Refusal,
    },
    /// A peer introduced itself on a configured link, or on a dynamic link that exists from now on.
    PeerUp {
        /// Link that the peer uses.
        link: LinkId,
        /// Node ID that the peer claimed, if any.
        claimed: Option<EndpointId>,
        /// Node that the peer's LTP engine number stands for, if it has one.
        node: Option<NodeId>,
        /// Node ID that the peer proved, if any.
        proven: Option<EndpointId>,
    },
    /// A peer is gone; a dynamic link no longer exists.
    PeerDown {
        /// Link that the peer used.
        link: LinkId,
    },
    /// An output of the store.
    Store(store::Output),
    /// A bundle that an earlier run kept. All of them come before `Opened`.
    Recovered {
        /// Number of the bundle.
        bundle: BundleHandle,
        /// Index entry of the bundle.
        index: IndexEntry,
        /// The bundle; its payload is on disk.
        meta: Arc<BundleMeta>,
        /// Fields that change from hop to hop, as they were when the bundle arrived.
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
    /// Promise to a layer that the first bytes of its offer are kept, whatever becomes of the rest of the bundle.
    Kept {
        /// Offer of the bundle, still without a verdict.
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
    /// End the sessions of a link, because an operator turned it off.
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
        /// Encoded length of the outgoing bundle; 0 for a bundle that enters a tunnel.
        size: u64,
        /// Whether reliable transmission is required.
        reliable: bool,
        /// Time at which the bundle has the age in `hop`, and the end of its lifetime.
        lives: [Instant; 2],
    },
    /// Drop a transmission that has not begun. The layer answers it in any case, as sent or failed.
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
    /// A bundle could leave over a link that takes turns, but the link must wait for its next turn.
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
    /// Verify a bundle's security, then deliver it; if the verification fails, [`Input::Insecure`] follows.
    Open {
        /// Message for the application.
        output: AppOutput,
        /// The bundle to verify.
        bundle: Arc<BundleMeta>,
    },
    /// Parse a bundle that came inside another one, and offer it like a bundle that arrived over [`LinkId::TUNNEL`].
    Inside {
        /// Offer under which the inner bundle arrives.
        token: OfferToken,
        /// The encoded bundle, in memory.
        bundle: farlink_base::Payload,
    },
    /// An event for listeners.
    Event(Event),
    /// End all sessions.
    Shutdown,
}

/// Parses a neighbour's name as a layer gives it; `None` without a name or if it cannot be parsed.
pub fn endpoint_of(text: Option<String>) -> Option<EndpointId> {
    // A name that cannot be parsed is no error: links work without names, too.
    text.and_then(|text| text.parse().ok())
}
