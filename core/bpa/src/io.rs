//! What goes into an agent and what comes out; the stack translates to and from layers, store and
//! wire formats.

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

/// Names an offer of one of the stack's layers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OfferToken {
    /// The layer.
    pub layer: LayerId,
    /// The layer's number for it.
    pub ticket: Ticket,
}
impl OfferToken {
    /// No layer: a bundle that came out of another one, named by the delivery of that.
    pub const TUNNEL: LayerId = LayerId(u16::MAX);
}

/// How scarce the memory of a node is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Pressure {
    /// There is enough.
    #[default]
    None,
    /// What bundles share with others (read buffers) is let go, what is on disk is not kept in memory,
    /// and neighbours nobody configured are refused.
    High,
    /// Everybody is refused.
    Full,
}

/// What an agent is told.
#[derive(Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// The wall clock.
    Clock(Clock),
    /// A bundle begins to arrive: its head is here, its payload a stand-in of the right length. It
    /// may be refused before the rest comes; otherwise room is promised to it.
    Begun {
        /// Over which link.
        link: LinkId,
        /// Whom to tell.
        token: OfferToken,
        /// What is known of it.
        bundle: Arc<BundleMeta>,
        /// What changes from hop to hop.
        hop: Box<HopState>,
    },
    /// A piece of a bundle that is arriving, as a fragment of its own, is on disk. Answered by [`Output::Kept`] once it is
    /// held whatever becomes of the rest; where that may not be, by nothing.
    Piece {
        /// Over which link.
        link: LinkId,
        /// The arriving bundle.
        token: OfferToken,
        /// The fragment.
        bundle: Arc<BundleMeta>,
        /// What changes from hop to hop.
        hop: Box<HopState>,
        /// Which bytes of the encoded arriving bundle are promised with it.
        promises: Range<u64>,
    },
    /// A bundle that began to arrive does not come; no verdict is wanted.
    Abandoned {
        /// Which.
        token: OfferToken,
    },
    /// A whole bundle arrived.
    Arrived {
        /// Over which link.
        link: LinkId,
        /// Whom to tell the verdict.
        token: OfferToken,
        /// The bundle.
        bundle: Arc<BundleMeta>,
        /// What changes from hop to hop.
        hop: Box<HopState>,
    },
    /// What arrived did not parse.
    Malformed {
        /// Over which link.
        link: LinkId,
        /// Whom to tell.
        token: OfferToken,
        /// Why.
        error: Malformed,
    },
    /// Something is wrong in what arrived behind its head, which is right.
    Damaged {
        /// Over which link.
        link: LinkId,
        /// Whom to tell.
        token: OfferToken,
        /// Which bundle it is; nothing is known of its payload but the length.
        bundle: Arc<BundleMeta>,
        /// Why.
        error: Malformed,
    },
    /// How scarce memory is from now on; said again while it stays scarce.
    Pressure(Pressure),
    /// The medium under a link works or not.
    Carrier {
        /// Which.
        link: LinkId,
        /// Whether it works.
        up: bool,
    },
    /// A layer can take a bundle for the link, or not.
    Ready {
        /// Which.
        link: LinkId,
        /// Whether it can.
        ready: bool,
    },
    /// The link is one that takes a bundle at a time, and takes one now, or none. From then on only
    /// this is heeded of it, and no [`Input::Ready`].
    TakesOne {
        /// Which.
        link: LinkId,
        /// Whether it takes one now.
        ready: bool,
    },
    /// A neighbour says of itself what its [`Output::Hello`] holds.
    Hello {
        /// Over which link.
        link: LinkId,
        /// What.
        content: Vec<u8>,
    },
    /// It is the turn of a link to a neighbour that was met, whose radio has others as well: it takes one bundle in this call, or
    /// none. Answered by [`Output::Send`], or by nothing, and whenever something could leave while it is
    /// not its turn by [`Output::Waits`], once for each turn.
    Turn {
        /// Whose.
        link: LinkId,
    },
    /// A transmission is confirmed.
    Sent {
        /// Which.
        id: SendId,
    },
    /// A transmission broke, and the peer keeps so many of its first bytes: `SendFailed` follows.
    SentInPart {
        /// Which.
        id: SendId,
        /// Bytes of the encoded bundle.
        bytes: u64,
    },
    /// A transmission failed.
    SendFailed {
        /// Which.
        id: SendId,
        /// What the peer said.
        refused: Option<Refusal>,
    },
    /// What was to be sent or delivered cannot be read from the store.
    Unreadable {
        /// What for.
        what: Reading,
        /// Whether it never will: the record is damaged.
        for_good: bool,
    },
    /// What was to be delivered may not be: its security operations are missing, unknown or failed.
    Insecure {
        /// Which delivery.
        delivery: crate::app::DeliveryId,
        /// Why.
        reason: DeleteReason,
    },
    /// A bundle for a tunnel is rendered.
    Rendered {
        /// Which transmission.
        id: SendId,
        /// The encoded bundle; its payload may be on disk.
        rope: farlink_base::Payload,
    },
    /// The payload of a bundle that came through a tunnel, its security checked.
    Outer {
        /// Which delivery.
        delivery: crate::app::DeliveryId,
        /// The payload; on disk where it is longer than what may be read at once.
        payload: farlink_base::Payload,
    },
    /// What became of the bundle inside another one.
    Judged {
        /// The delivery of the one around it.
        delivery: crate::app::DeliveryId,
        /// Kept or not.
        result: Result<(), Refusal>,
    },
    /// What arrived is not taken, whatever it is.
    Unwanted {
        /// Over which link.
        link: LinkId,
        /// Whom to tell.
        token: OfferToken,
        /// What it is.
        bundle: Arc<BundleMeta>,
        /// Why.
        reason: Refusal,
    },
    /// A peer introduced itself, on a configured link or on a dynamic one that exists from now on.
    PeerUp {
        /// On which link.
        link: LinkId,
        /// The node ID it gave.
        claimed: Option<EndpointId>,
        /// The node its engine number stands for.
        node: Option<NodeId>,
        /// The node ID it proved.
        proven: Option<EndpointId>,
    },
    /// A peer is gone; a dynamic link no longer exists.
    PeerDown {
        /// From which link.
        link: LinkId,
    },
    /// The store says something.
    Store(store::Output),
    /// A bundle an earlier run kept; before `Opened`.
    Recovered {
        /// Its number.
        bundle: BundleHandle,
        /// Its index entry.
        index: IndexEntry,
        /// The bundle, its payload on disk.
        meta: Arc<BundleMeta>,
        /// What changes from hop to hop, as it was when it arrived.
        hop: Box<HopState>,
    },
    /// An application says something.
    App(AppInput),
    /// An operator says something.
    Admin(AdminInput),
}

/// What a payload is read from the store for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reading {
    /// A transmission.
    Send(SendId),
    /// A delivery.
    Delivery(crate::app::DeliveryId),
}

/// What an agent decides.
#[derive(Debug)]
pub enum Output {
    /// Tell a layer what became of its offer.
    Verdict {
        /// Which offer.
        token: OfferToken,
        /// Kept or not.
        result: Result<(), Refusal>,
    },
    /// Tell a layer that the first bytes of its offer are kept, whatever becomes of the rest.
    Kept {
        /// Which offer.
        token: OfferToken,
        /// How many bytes of the encoded bundle.
        bytes: u64,
    },
    /// Tell a link's layer what the link can do.
    Link {
        /// Which.
        link: LinkId,
        /// Its state.
        state: LinkState,
    },
    /// An operator turned a link off: its sessions end.
    Close {
        /// Which.
        link: LinkId,
    },
    /// Render a bundle for this hop and hand it to a link's layer.
    Send {
        /// Over which link.
        link: LinkId,
        /// As which transmission.
        id: SendId,
        /// The bundle.
        bundle: Arc<BundleMeta>,
        /// What changes on this hop.
        hop: Box<HopState>,
        /// The piece of its payload that leaves, as a fragment; `None`: all of it.
        cut: Option<Range<u64>>,
        /// Encoded length of what leaves; 0 into a tunnel, where nobody asks.
        size: u64,
        /// Whether it must arrive.
        reliable: bool,
        /// The moment of which the age in `hop` is, and the end of its lifetime.
        lives: [Instant; 2],
    },
    /// Forget a transmission if it has not left; it is answered all the same.
    Cancel {
        /// Over which link.
        link: LinkId,
        /// Which.
        id: SendId,
    },
    /// What a neighbour is to be told of this node, over a link beside which that is free.
    Hello {
        /// Over which.
        link: LinkId,
        /// The neighbour is to have it as [`Input::Hello`].
        content: Vec<u8>,
    },
    /// Something may leave over a link that takes turns, and it is not its turn.
    Waits {
        /// Which.
        link: LinkId,
    },
    /// Encode a bundle as it came and hand it to the store.
    Put {
        /// Its number.
        bundle: BundleHandle,
        /// Its index entry.
        index: IndexEntry,
        /// The bundle.
        meta: Arc<BundleMeta>,
    },
    /// Tell the store something else.
    Store(store::Input),
    /// Tell an application something.
    App(AppOutput),
    /// Deliver a bundle when its security is checked; else [`Input::Insecure`].
    Open {
        /// The delivery.
        output: AppOutput,
        /// The bundle.
        bundle: Arc<BundleMeta>,
    },
    /// Read a bundle that came inside another, and tell of it like of one that arrived over [`LinkId::TUNNEL`].
    Inside {
        /// Which.
        token: OfferToken,
        /// The encoded bundle, in memory.
        bundle: farlink_base::Payload,
    },
    /// Something happened.
    Event(Event),
    /// End all sessions.
    Shutdown,
}

/// A neighbour's name as a layer gives it, as text.
pub fn endpoint_of(text: Option<String>) -> Option<EndpointId> {
    text.and_then(|text| text.parse().ok())
}
