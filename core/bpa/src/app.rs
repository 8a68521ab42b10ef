//! The application interface: what an application asks of its node and what it is told.

use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{BundleId, CreationTimestamp, EndpointId, Facts, Payload, Priority, Refusal};

/// A registration of an application at an endpoint, numbered by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RegistrationId(pub u64);
impl RegistrationId {
    /// No application: the far ends of tunnels are heard here.
    pub const TUNNEL: RegistrationId = RegistrationId(u64::MAX);
}

/// A request of an application, numbered by the driver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// A delivery to an application, numbered by the agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryId(pub u64);

/// A bundle an application wants sent.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// Source endpoint; must be one of this node's, or null (anonymous).
    pub source: EndpointId,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Where reports go; null for none.
    pub report_to: EndpointId,
    /// What is asked for ([`Facts::REQUESTS`]); the agent adds its own.
    pub facts: Facts,
    /// Lifetime in ms.
    pub lifetime_ms: u64,
    /// Class of service; other than normal travels in a QoS block.
    pub priority: Priority,
    /// Hop limit; 0 for the node's default.
    pub hop_limit: u8,
    /// Whether it must arrive over links that can lose (LTP red), the default, or may be lost.
    pub reliable: bool,
    /// The payload.
    pub payload: Payload,
}

/// What an application tells its node.
#[derive(Clone, Debug)]
pub enum AppInput {
    /// Receive what is addressed to this endpoint, at most `window` deliveries unanswered.
    Register {
        /// The new registration's number.
        registration: RegistrationId,
        /// Endpoint of this node, or of any name where it is a group's. `ipn:!.n` is service `n` here; a dtn name
        /// without node is a demux here.
        endpoint: EndpointId,
        /// Deliveries in flight at once; 1 for durable applications.
        window: u32,
    },
    /// Stop receiving; what was not answered is kept.
    Unregister {
        /// Which.
        registration: RegistrationId,
    },
    /// Send a bundle.
    Send {
        /// Given back in `SendResult`.
        request: RequestId,
        /// What.
        bundle: SendRequest,
    },
    /// The application took a delivery (or could not; it is then delivered again).
    DeliveryDone {
        /// Whose.
        registration: RegistrationId,
        /// Which.
        delivery: DeliveryId,
        /// Whether it is taken for good.
        taken: bool,
    },
}

/// What a node tells an application.
#[derive(Clone, Debug)]
pub enum AppOutput {
    /// The registration stands, or why not.
    Registered {
        /// Which.
        registration: RegistrationId,
        /// Under this endpoint.
        result: Result<EndpointId, Refusal>,
    },
    /// The bundle is kept and will be sent, or why not. On a durable store it comes after the
    /// commit.
    SendResult {
        /// Which.
        request: RequestId,
        /// Its identity.
        result: Result<BundleId, Refusal>,
    },
    /// A bundle for the application.
    Deliver {
        /// Whose.
        registration: RegistrationId,
        /// To be named in `DeliveryDone`.
        delivery: DeliveryId,
        /// The bundle.
        bundle: Delivery,
    },
}

/// A delivered bundle.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Source endpoint.
    pub source: EndpointId,
    /// Destination endpoint.
    pub destination: EndpointId,
    /// Creation timestamp.
    pub creation: CreationTimestamp,
    /// Lifetime, ms.
    pub lifetime_ms: u64,
    /// What it is and asks for.
    pub facts: Facts,
    /// Whether it may have been delivered before a crash.
    pub redelivered: bool,
    /// The payload; the stack reads it into memory where it is on disk.
    pub payload: Payload,
}

/// What an operator asks of a running node.
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
        /// As it was given.
        pattern: String,
    },
    /// Administrative up or down of a link. Turned off, its sessions end, so that the neighbour knows; that
    /// of a neighbour who came by itself stays.
    SetLink {
        /// Its name.
        link: String,
        /// Whether it may be used.
        enabled: bool,
    },
    /// Delete a stored bundle.
    Cancel {
        /// Its handle.
        bundle: farlink_base::BundleHandle,
    },
    /// When an earlier run of the node was there last, as far as that is known, and how long the node may be down.
    /// Before the clock is first read.
    LastRun {
        /// By the clock of that run.
        at: Option<farlink_base::DtnTime>,
        /// A clock that says that it was longer is doubted.
        downtime_max: core::time::Duration,
        /// Operating time of the node so far, all runs together, ms. Waiting bundles age by it where no wall time is trusted.
        ran_ms: u64,
    },
    /// The wall clock is right, whatever earlier runs say.
    ConfirmClock,
    /// End all sessions, take nothing new.
    Shutdown,
}

/// One stored bundle and why it is still here, for operators.
#[derive(Clone, Debug)]
pub struct BundleStatus {
    /// Its number in this node.
    pub handle: farlink_base::BundleHandle,
    /// Its identity.
    pub id: BundleId,
    /// Destination.
    pub destination: EndpointId,
    /// Payload bytes.
    pub payload: u64,
    /// Class of service.
    pub priority: Priority,
    /// Milliseconds of lifetime left here.
    pub remaining_ms: u64,
    /// Whether that is less than its own lifetime: this node keeps it no longer.
    pub shortened: bool,
    /// Why it waits, in a word or two that lists may be grouped by.
    pub reason: &'static str,
    /// When it should leave, or is tried again; `None`: nobody knows.
    pub leaves: Option<farlink_base::Instant>,
    /// Why it waits, as a sentence ("no route", "contact with ipn:3.0 starts in 240 s", ...).
    pub waits_for: String,
}

/// Stored bundles that wait for the same, for operators.
#[derive(Clone, PartialEq, Debug)]
pub struct Sum {
    /// The node they are for.
    pub destination: EndpointId,
    /// Why they wait, in a word or two.
    pub reason: &'static str,
    /// The neighbour they wait for.
    pub neighbour: Option<EndpointId>,
    /// When they should leave, or are tried again; `None`: nobody knows.
    pub leaves: Option<farlink_base::Instant>,
    /// How many.
    pub bundles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Age of the oldest, milliseconds.
    pub oldest_ms: u64,
}
impl Sum {
    /// Others are counted with these.
    pub fn add(&mut self, more: &Sum) {
        self.bundles += more.bundles;
        self.bytes += more.bytes;
        self.oldest_ms = self.oldest_ms.max(more.oldest_ms);
    }
}

/// One quota, for operators.
#[derive(Clone, PartialEq, Debug)]
pub struct QuotaStatus {
    /// Patterns of sources it is about.
    pub sources: Vec<String>,
    /// Patterns of neighbours it is about.
    pub neighbours: Vec<String>,
    /// Bundles held.
    pub bundles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of those, bundles and bytes that nobody vouches for: they fill the same bounds apart from all others.
    pub strangers: (u64, u64),
    /// Most bundles.
    pub bundles_max: Option<u64>,
    /// Most bytes.
    pub bytes_max: Option<u64>,
    /// Bundles refused because of it since it is in force.
    pub refused: u64,
}

/// One link, for operators.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// The neighbour.
    pub peer: EndpointId,
    /// Whether bundles may leave over it now: its layer takes them, and where it has sessions, there is one.
    pub up: bool,
    /// Why not, or "up".
    pub state: String,
    /// Bundles queued for it.
    pub queued: u64,
    /// Bundles handed to its layer and not yet confirmed.
    pub in_flight: u64,
}

/// A snapshot for operators.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Node IDs.
    pub node_ids: Vec<EndpointId>,
    /// Bundles kept.
    pub bundles: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Most bytes kept.
    pub capacity: u64,
    /// Bundles and bytes of neighbours nobody configured.
    pub strangers: (u64, u64),
    /// Quotas, in the order given.
    pub quotas: Vec<QuotaStatus>,
    /// Links.
    pub links: Vec<LinkStatus>,
    /// Registered endpoints.
    pub registrations: Vec<EndpointId>,
    /// Contacts of the plan.
    pub contacts: u64,
}
