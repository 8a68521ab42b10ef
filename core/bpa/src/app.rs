//! The application interface: requests of applications and the node's answers.

use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{BundleId, CreationTimestamp, EndpointId, Facts, Payload, Priority, Refusal};

/// A registration of an application at an endpoint, numbered by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegistrationId(pub u64);
impl RegistrationId {
    /// Reserved for outer bundles of tunnels that end here; they are delivered to this node, not to an application.
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
    /// Class of service; other than normal travels in a QoS block.
    pub priority: Priority,
    /// Hop limit; 0 for the node's default.
    pub hop_limit: u8,
    /// Whether lossy links must deliver it reliably (LTP red part, the default); otherwise it may be lost.
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
        /// Endpoint of this node, or a group endpoint of any name. `ipn:!.n` is service `n` here; a dtn name without
        /// node is a demux here.
        endpoint: EndpointId,
        /// Deliveries in flight at once; 1 for durable applications.
        window: u32,
    },
    /// Stop receiving; unanswered bundles are kept.
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
    /// The application's answer to a delivery: taken, or not, in which case it is repeated.
    DeliveryDone {
        /// Registration that received the delivery.
        registration: RegistrationId,
        /// Number of the answered delivery.
        delivery: DeliveryId,
        /// Whether it is taken for good.
        taken: bool,
    },
}

/// A message from a node to one of its applications.
#[derive(Clone, Debug)]
pub enum AppOutput {
    /// The registration is active, or the reason why it is not.
    Registered {
        /// Number of the registration asked for.
        registration: RegistrationId,
        /// Endpoint under which it is active, or the refusal.
        result: Result<EndpointId, Refusal>,
    },
    /// The bundle is kept and will be sent, or the reason why not. On a durable store this follows the commit.
    SendResult {
        /// Number of the request.
        request: RequestId,
        /// Identity of the new bundle, or the refusal.
        result: Result<BundleId, Refusal>,
    },
    /// A bundle for the application.
    Deliver {
        /// Registration that receives it.
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
    /// Whether it was possibly delivered before a crash.
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
        /// Pattern as it was added.
        pattern: String,
    },
    /// Administrative state of a link. Turning it off ends its sessions, so that the neighbour notices; a link to a
    /// neighbour that connected on its own stays.
    SetLink {
        /// Name of the link.
        link: String,
        /// Whether it may be used.
        enabled: bool,
    },
    /// Delete a stored bundle.
    Cancel {
        /// Handle of the bundle.
        bundle: farlink_base::BundleHandle,
    },
    /// End of an earlier run of the node as far as known, and the longest time the node may be down. Given before the
    /// clock is first read.
    LastRun {
        /// Time by the clock of that run.
        at: Option<farlink_base::DtnTime>,
        /// Longest plausible downtime; a clock that claims more is doubted.
        downtime_max: core::time::Duration,
        /// Operating time of the node so far, all runs together, ms. Without trusted wall time the age of waiting
        /// bundles follows it.
        ran_ms: u64,
    },
    /// Confirms the wall clock against the record of earlier runs.
    ConfirmClock,
    /// End all sessions and accept nothing new.
    Shutdown,
}

/// One stored bundle and the reason why it is still here, for operators.
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
    /// Milliseconds of lifetime left here.
    pub remaining_ms: u64,
    /// Whether this node keeps the bundle for less than its own lifetime.
    pub shortened: bool,
    /// Why it waits, in a word or two by which lists can be grouped.
    pub reason: &'static str,
    /// Expected departure or next attempt; `None` if unknown.
    pub leaves: Option<farlink_base::Instant>,
    /// Why it waits, as a sentence ("no route", "contact with ipn:3.0 starts in 240 s", ...).
    pub waits_for: String,
}

/// Sum over stored bundles that wait for the same reason, for operators.
#[derive(Clone, PartialEq, Debug)]
pub struct Sum {
    /// Node they are addressed to.
    pub destination: EndpointId,
    /// Why they wait, in a word or two.
    pub reason: &'static str,
    /// The neighbour they wait for.
    pub neighbour: Option<EndpointId>,
    /// Expected departure or next attempt; `None` if unknown.
    pub leaves: Option<farlink_base::Instant>,
    /// Number of bundles summed.
    pub bundles: u64,
    /// Total size of the bundles, bytes.
    pub bytes: u64,
    /// Age of the oldest, milliseconds.
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
    /// Patterns of sources that it applies to.
    pub sources: Vec<String>,
    /// Patterns of neighbours that it applies to.
    pub neighbours: Vec<String>,
    /// Number of bundles held.
    pub bundles: u64,
    /// Size of the bundles held.
    pub bytes: u64,
    /// Bundles and bytes among them that no link vouches for; the same bounds apply to these separately.
    pub strangers: (u64, u64),
    /// Most bundles allowed; `None`: unbounded.
    pub bundles_max: Option<u64>,
    /// Most bytes allowed; `None`: unbounded.
    pub bytes_max: Option<u64>,
    /// Bundles refused because of this quota since it took effect.
    pub refused: u64,
}

/// One link, for operators.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    /// Name of the link.
    pub name: String,
    /// Node ID of the neighbour.
    pub peer: EndpointId,
    /// Whether bundles may leave over it now: its layer takes them and has a session, if it uses sessions.
    pub up: bool,
    /// "up", or the reason why not.
    pub state: String,
    /// Bundles queued for it.
    pub queued: u64,
    /// Bundles handed to its layer and not yet confirmed.
    pub in_flight: u64,
}

/// A snapshot of the node's state for operators.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Node IDs of this node.
    pub node_ids: Vec<EndpointId>,
    /// Number of bundles kept.
    pub bundles: u64,
    /// Size of the bundles kept.
    pub bytes: u64,
    /// Most bytes that may be kept.
    pub capacity: u64,
    /// Bundles and bytes from neighbours that are not configured.
    pub strangers: (u64, u64),
    /// Quotas, in the order given.
    pub quotas: Vec<QuotaStatus>,
    /// Links, in order of their numbers.
    pub links: Vec<LinkStatus>,
    /// Registered endpoints.
    pub registrations: Vec<EndpointId>,
    /// Number of contacts in the plan.
    pub contacts: u64,
}
