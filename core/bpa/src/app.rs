//! The application interface: requests of applications and the node's answers.

use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{BundleId, CreationTimestamp, EndpointId, Facts, Payload, Priority, Refusal};

/// A registration of an application at an endpoint, numbered by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegistrationId(pub u64);
impl RegistrationId {
    /// Reserved for outer bundles of tunnels that end here: the node itself receives them, no application does.
    pub const TUNNEL: RegistrationId = RegistrationId(u64::MAX);
}

/// A request of an application, numbered by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// A delivery to an application, numbered by the agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryId(pub u64);

/// A request to send one bundle.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// Source endpoint; must be one of this node's, or null (anonymous).
    pub source: EndpointId,
    /// Destination endpoint of the bundle.
    pub destination: EndpointId,
    /// Endpoint that receives status reports; null for none.
    pub report_to: EndpointId,
    /// Requested reports and other flags ([`Facts::REQUESTS`]); the agent adds its own.
    pub facts: Facts,
    /// Lifetime of the bundle, ms.
    pub lifetime_ms: u64,
    /// Class of service; any but normal adds a QoS block.
    pub priority: Priority,
    /// Hop limit; 0 for the node's default.
    pub hop_limit: u8,
    /// Whether lossy links must deliver the bundle reliably (LTP red part); if false, it may be lost.
    pub reliable: bool,
    /// Application data of the bundle.
    pub payload: Payload,
}

/// A request from an application to its node.
#[derive(Clone, Debug)]
pub enum AppInput {
    /// Receive bundles addressed to this endpoint, at most `window` deliveries unanswered.
    Register {
        /// The new registration's number.
        registration: RegistrationId,
        /// Endpoint of this node, or a group endpoint of any name. `ipn:!.n` is service `n` of this node; a dtn name
        /// without a node is a demux of this node.
        endpoint: EndpointId,
        /// Most deliveries that may await the application's answer at once; 0 counts as 1.
        window: u32,
    },
    /// End a registration. Unanswered bundles wait for the endpoint's next registration; a group's bundle is dropped if
    /// it was held only to be delivered to this member.
    Unregister {
        /// Registration that ends.
        registration: RegistrationId,
    },
    /// Request to send a bundle.
    Send {
        /// Number returned in `SendResult`.
        request: RequestId,
        /// The bundle to send.
        bundle: SendRequest,
    },
    /// The application's answer to a delivery: it accepts the bundle, or the delivery must be repeated.
    DeliveryDone {
        /// Registration that received the delivery.
        registration: RegistrationId,
        /// Number of the answered delivery.
        delivery: DeliveryId,
        /// Whether the application accepts the bundle; if false, the bundle is delivered again.
        taken: bool,
    },
}

/// A message from a node to one of its applications.
#[derive(Clone, Debug)]
pub enum AppOutput {
    /// Answer to `Register`: the registration is active, or was refused.
    Registered {
        /// Number of the registration asked for.
        registration: RegistrationId,
        /// Endpoint under which the registration is active, or the refusal.
        result: Result<EndpointId, Refusal>,
    },
    /// Answer to `Send`: the bundle is kept and will be sent, or was refused. On a durable store the answer follows the
    /// commit.
    SendResult {
        /// Number of the request.
        request: RequestId,
        /// Identity of the new bundle, or the refusal.
        result: Result<BundleId, Refusal>,
    },
    /// A bundle for the application.
    Deliver {
        /// Registration that receives the bundle.
        registration: RegistrationId,
        /// Number to name in `DeliveryDone`.
        delivery: DeliveryId,
        /// The bundle itself, with its payload.
        bundle: Delivery,
    },
}

/// A bundle as delivered to an application.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Source endpoint of the bundle.
    pub source: EndpointId,
    /// Destination endpoint of the bundle.
    pub destination: EndpointId,
    /// Creation timestamp of the bundle.
    pub creation: CreationTimestamp,
    /// Lifetime from creation, ms.
    pub lifetime_ms: u64,
    /// Properties and requested reports.
    pub facts: Facts,
    /// Whether an application may have received the bundle before: an earlier delivery was not answered as taken, or
    /// the node restarted.
    pub redelivered: bool,
    /// The payload; the stack reads it into memory if it is on disk.
    pub payload: Payload,
}

/// A request of an operator to a running node.
#[derive(Clone, Debug)]
pub enum AdminInput {
    /// Replace the contact plan.
    SetPlan(alloc::sync::Arc<farlink_routing::PlanIndex>),
    /// Add or replace a static route: destinations matching `pattern` go to `next_hop`.
    AddRoute {
        /// `ipn:5.*`, `dtn://node/`, or `*`.
        pattern: String,
        /// The neighbour's node ID.
        next_hop: EndpointId,
    },
    /// Remove a static route.
    RemoveRoute {
        /// Pattern with which the route was added.
        pattern: String,
    },
    /// Administrative state of a link. Turning it off ends its sessions, so that the neighbour notices.
    SetLink {
        /// Name of the link.
        link: String,
        /// Whether the link may be used.
        enabled: bool,
    },
    /// Delete a stored bundle.
    Cancel {
        /// Handle of the bundle.
        bundle: farlink_base::BundleHandle,
    },
    /// End of the node's last run as far as known, and the longest plausible downtime. Must precede the first reading
    /// of the clock.
    LastRun {
        /// Latest time that the run recorded by its clock; `None` if unknown.
        at: Option<farlink_base::DtnTime>,
        /// Longest plausible downtime; a clock that claims more is doubted.
        downtime_max: core::time::Duration,
        /// Time for which the node ran in all runs so far, ms. Bundles that were stored without a trusted wall time age
        /// by this time.
        ran_ms: u64,
    },
    /// Trust the wall clock even if it contradicts the record of earlier runs.
    ConfirmClock,
    /// End all sessions and accept nothing new.
    Shutdown,
}

/// One stored bundle and the reason why this node still holds it, for operators.
#[derive(Clone, Debug)]
pub struct BundleStatus {
    /// Number of the bundle in this node.
    pub handle: farlink_base::BundleHandle,
    /// Identity of the bundle.
    pub id: BundleId,
    /// Destination endpoint of the bundle.
    pub destination: EndpointId,
    /// Length of the payload, bytes.
    pub payload: u64,
    /// Class of service.
    pub priority: Priority,
    /// Time until this node deletes the bundle, ms.
    pub remaining_ms: u64,
    /// Whether this node deletes the bundle before its lifetime ends.
    pub shortened: bool,
    /// Cause of waiting in a word or two, by which lists can be grouped.
    pub reason: &'static str,
    /// Expected departure or next attempt; `None` if unknown.
    pub leaves: Option<farlink_base::Instant>,
    /// Cause of waiting as a phrase ("no route", "contact with ipn:3.0 starts in 240 s", ...).
    pub waits_for: String,
}

/// Sum over stored bundles with the same destination, cause of waiting, neighbour and second of departure, for
/// operators.
#[derive(Clone, PartialEq, Debug)]
pub struct Sum {
    /// Node that the bundles are addressed to.
    pub destination: EndpointId,
    /// Cause of waiting, in a word or two.
    pub reason: &'static str,
    /// Neighbour that the bundles wait for; `None` if they wait for something else.
    pub neighbour: Option<EndpointId>,
    /// Expected departure or next attempt; `None` if unknown.
    pub leaves: Option<farlink_base::Instant>,
    /// Number of bundles summed.
    pub bundles: u64,
    /// Total size of the bundles, bytes.
    pub bytes: u64,
    /// Age of the oldest bundle, milliseconds.
    pub oldest_ms: u64,
}
impl Sum {
    /// Adds another sum to this one.
    pub fn add(&mut self, more: &Sum) {
        self.bundles += more.bundles;
        self.bytes += more.bytes;
        // Ages do not add up: the older of the two is the age of the sum.
        self.oldest_ms = self.oldest_ms.max(more.oldest_ms);
    }
}

/// One quota, for operators.
#[derive(Clone, PartialEq, Debug)]
pub struct QuotaStatus {
    /// Patterns of sources that the quota applies to.
    pub sources: Vec<String>,
    /// Patterns of neighbours that the quota applies to.
    pub neighbours: Vec<String>,
    /// Number of held bundles that the quota counts.
    pub bundles: u64,
    /// Size of these bundles, bytes.
    pub bytes: u64,
    /// Number and bytes of those bundles that no link vouches for; the bounds apply to these separately.
    pub strangers: (u64, u64),
    /// Most bundles allowed; `None`: unbounded.
    pub bundles_max: Option<u64>,
    /// Most bytes allowed; `None`: unbounded.
    pub bytes_max: Option<u64>,
    /// Number of bundles refused because of this quota since it was set.
    pub refused: u64,
}

/// One link, for operators.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    /// Name of the link.
    pub name: String,
    /// Node ID of the neighbour.
    pub peer: EndpointId,
    /// Whether bundles may leave over the link now: it is enabled, has a carrier and a contact, and a session if its
    /// layer uses sessions.
    pub up: bool,
    /// "up", or the reason why no bundle may leave.
    pub state: String,
    /// Bundles queued for the link.
    pub queued: u64,
    /// Bundles handed to the link's layer and not yet confirmed.
    pub in_flight: u64,
}

/// A snapshot of the node's state for operators.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Node IDs of this node.
    pub node_ids: Vec<EndpointId>,
    /// Number of bundles kept.
    pub bundles: u64,
    /// Size of the bundles kept, bytes.
    pub bytes: u64,
    /// Most bytes that may be kept in the store.
    pub capacity: u64,
    /// Number and bytes of bundles that no link vouches for.
    pub strangers: (u64, u64),
    /// Quotas, in the order in which they were set.
    pub quotas: Vec<QuotaStatus>,
    /// Links, in order of their numbers.
    pub links: Vec<LinkStatus>,
    /// Registered endpoints.
    pub registrations: Vec<EndpointId>,
    /// Number of contacts in the plan.
    pub contacts: u64,
}
