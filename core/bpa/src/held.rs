//! A bundle this node holds, and where in the node it is.

use crate::app::{DeliveryId, RequestId};
use crate::io::OfferToken;
use crate::link::QueueKey;
use alloc::vec::Vec;
use farlink_base::layer::SendId;
use farlink_base::{BundleView, Instant, LinkId, NodeId, Payload, TimerKey};
use farlink_bundle::Bundle;

/// What happens with a held bundle next.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// Just arrived; not dispatched yet.
    New,
    /// No way to go for now.
    Waiting {
        /// Ask again then.
        retry: Option<TimerKey>,
    },
    /// In a link's queue.
    Queued {
        /// Which link.
        link: LinkId,
        /// Where in its queue.
        key: QueueKey,
        /// Leaves the queue then, to be routed again.
        until: Option<TimerKey>,
    },
    /// Taken from a link's queue; its payload is being read from the store.
    Loading {
        /// Which link.
        link: LinkId,
    },
    /// Handed to a convergence layer.
    InFlight {
        /// Which link.
        link: LinkId,
        /// As which transmission.
        send: SendId,
    },
    /// Addressed to this node; no application took it yet.
    ForDelivery,
    /// Being read from the store for an application, or handed to it.
    Delivering {
        /// As which delivery.
        delivery: DeliveryId,
    },
    /// To be cut once its payload is in memory.
    Cutting {
        /// Payload bytes of the first piece.
        first: u64,
    },
    /// A fragment waiting for the others.
    Fragment,
    /// Done with; the store has not confirmed yet.
    Leaving,
}

/// One held bundle.
#[derive(Debug)]
pub struct Held {
    /// The bundle as received or created.
    pub bundle: Bundle,
    /// What policies see of it.
    pub view: BundleView,
    /// Its identity.
    pub fingerprint: u128,
    /// Where it is.
    pub place: Place,
    /// When it arrived, for residence time.
    pub received: Instant,
    /// Its age block when it arrived, ms.
    pub age_ms: Option<u64>,
    /// Fires at the end of its lifetime.
    pub expiry: Option<TimerKey>,
    /// Whether the store keeps it, or has said that it cannot and nobody is owed an answer.
    pub durable: bool,
    /// Offers to be accepted once it is durable.
    pub offers: Vec<OfferToken>,
    /// The application's request to be answered once it is durable.
    pub request: Option<RequestId>,
    /// Its payload read back from the store, while it is in use.
    pub loaded: Option<Payload>,
    /// Whether it came from an earlier run.
    pub recovered: bool,
    /// Neighbours that have or are getting a copy.
    pub given: Vec<NodeId>,
    /// Failures in a row, for back-off.
    pub failures: u32,
}
