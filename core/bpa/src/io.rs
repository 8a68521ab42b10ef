//! What goes into an agent and what comes out; the stack translates to and from layers and store.

use crate::app::{AdminInput, AppInput, AppOutput};
use alloc::boxed::Box;
use alloc::string::String;
use farlink_base::layer::{LinkState, SendId, Ticket};
use farlink_base::{BundleHandle, Clock, Event, LayerId, LinkId, Malformed, NodeId, Refusal, store};
use farlink_bundle::Bundle;

/// Names an offer of one of the stack's layers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OfferToken {
    /// The layer.
    pub layer: LayerId,
    /// The layer's number for it.
    pub ticket: Ticket,
}

/// What an agent is told.
#[derive(Debug)]
pub enum Input {
    /// A deadline may have passed.
    Wake,
    /// The wall clock.
    Clock(Clock),
    /// A whole bundle arrived and parsed.
    Received {
        /// Over which link.
        link: LinkId,
        /// Whom to tell the verdict; `None` in message-level simulation.
        token: Option<OfferToken>,
        /// The bundle.
        bundle: Box<Bundle>,
        /// Its encoded length.
        size: u64,
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
    /// A transmission is confirmed.
    Sent {
        /// Which.
        id: SendId,
    },
    /// A transmission failed.
    SendFailed {
        /// Which.
        id: SendId,
        /// What the peer said.
        refused: Option<Refusal>,
    },
    /// A peer introduced itself.
    PeerUp {
        /// On which link.
        link: LinkId,
        /// As text.
        node_id: Option<String>,
        /// As a number.
        node: Option<NodeId>,
    },
    /// A peer is gone.
    PeerDown {
        /// From which link.
        link: LinkId,
    },
    /// The store says something.
    Store(store::Output),
    /// An application says something.
    App(AppInput),
    /// An operator says something.
    Admin(AdminInput),
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
    /// Tell a link's layer what the link can do.
    Link {
        /// Which.
        link: LinkId,
        /// Its state.
        state: LinkState,
    },
    /// Encode a bundle and hand it to a link's layer.
    Send {
        /// Over which link.
        link: LinkId,
        /// As which transmission.
        id: SendId,
        /// The bundle, changed for this hop.
        bundle: Box<Bundle>,
        /// Whether it must arrive.
        reliable: bool,
    },
    /// Encode a bundle and hand it to the store.
    Put {
        /// Its number.
        bundle: BundleHandle,
        /// Its index entry.
        index: store::IndexEntry,
        /// The bundle as received or created.
        content: Box<Bundle>,
    },
    /// Tell the store something else.
    Store(store::Input),
    /// Tell an application something.
    App(AppOutput),
    /// Something happened.
    Event(Event),
    /// End all sessions.
    Shutdown,
}
