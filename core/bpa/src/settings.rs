//! Settings of an agent at construction.

use crate::edge::TunnelCodes;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{
    AgentSettings, CustodyTerms, DataRate, DataVolume, Duration, EndpointId, Limits, LinkId, LinkTerms, ReportTerms,
    TunnelTerms,
};

/// Custody of bundles (RFC 5050 5.10, CCSDS 734.6-O-1).
#[derive(Clone, PartialEq, Debug)]
pub struct CustodySettings {
    /// Patterns of node IDs. Custody is accepted only from neighbours that match, and only they get answers about
    /// custody. Names count only if a link vouches for them.
    pub from: Vec<String>,
    /// Patterns of destinations; custody is accepted only for bundles to these.
    pub to: Vec<String>,
    /// Patterns of destinations; bundles that applications here send to these request custody.
    pub request: Vec<String>,
    /// Most bytes of bundles in custody.
    pub bytes: u64,
    /// Time to wait for a custody signal beyond the round-trip time; doubles with each repetition.
    pub timeout: Duration,
    /// Upper bound of the doubled timeout.
    pub timeout_max: Duration,
    /// Time for which answers are gathered so that one signal covers many bundles.
    pub signal_delay: Duration,
    /// Number of gathered bundles after which a signal leaves at once.
    pub signal_bundles: u64,
}
impl Default for CustodySettings {
    fn default() -> Self {
        CustodySettings {
            from: Vec::from([String::from("*")]),
            to: Vec::from([String::from("*")]),
            request: Vec::new(),
            bytes: u64::MAX,
            ..CustodySettings::of(&CustodyTerms::default())
        }
    }
}
impl CustodySettings {
    /// Settings with these terms, empty pattern lists, and 0 bytes of custody.
    pub fn of(terms: &CustodyTerms) -> Self {
        let CustodyTerms { timeout, timeout_max, signal_delay, signal_bundles, .. } = *terms;
        let [from, to, request] = [const { Vec::new() }; 3];
        CustodySettings { from, to, request, bytes: 0, timeout, timeout_max, signal_delay, signal_bundles }
    }
}

/// A tunnel (draft-ietf-dtn-bibect): bundles travel to its far end inside other bundles, and are extracted there.
#[derive(Clone, PartialEq, Debug)]
pub struct TunnelSettings {
    /// Node ID of the far end. Bundles that come from there inside other bundles are extracted here.
    pub end: EndpointId,
    /// Patterns of destinations whose bundles enter the tunnel. Empty: this node only extracts bundles.
    pub to: Vec<String>,
    /// Whether a bundle is kept until the far end has acknowledged it.
    pub custody: bool,
    /// Time to wait for the far end's acknowledgment after the outer bundle left; doubles with each repetition.
    pub timeout: Duration,
    /// Upper bound of the doubled timeout.
    pub timeout_max: Duration,
    /// Time for which answers to the far end are gathered.
    pub signal_delay: Duration,
    /// Number of gathered answers at which the signal with them leaves at once.
    pub signal_bundles: u64,
    /// Most bundles on their way into the tunnel at once: those whose outer bundle has not left this node. At least one
    /// may enter.
    pub bundles: u64,
    /// Version of the outer bundles.
    pub version: u8,
    /// Record types on the wire.
    pub codes: TunnelCodes,
}
impl TunnelSettings {
    /// A tunnel to the far end `end` with the default terms and no destinations.
    pub fn new(end: EndpointId) -> Self {
        TunnelSettings::of(end, &TunnelTerms::default())
    }
    /// A tunnel to the far end `end` on these terms, with no destinations.
    pub fn of(end: EndpointId, terms: &TunnelTerms) -> Self {
        let TunnelTerms { custody, timeout, timeout_max, signal_delay, signal_bundles, bundles, .. } = *terms;
        let codes = TunnelCodes { bundle: terms.record, signal: terms.signal_record, unix: terms.times };
        let (to, version) = (Vec::new(), 7);
        TunnelSettings { end, to, custody, timeout, timeout_max, signal_delay, signal_bundles, bundles, version, codes }
    }
}

/// Compressed reporting (CCSDS 734.6-O-1).
#[derive(Clone, PartialEq, Debug)]
pub struct CompressedSettings {
    /// Patterns of endpoints that may receive reports.
    pub to: Vec<String>,
    /// Patterns of destinations. Bundles made here for these request compressed reports in place of the status reports
    /// that their application requested.
    pub request: Vec<String>,
    /// Time for which reports are gathered.
    pub delay: Duration,
    /// Number of gathered reports at which the signal with them leaves at once.
    pub bundles: u64,
}
impl Default for CompressedSettings {
    fn default() -> Self {
        CompressedSettings { to: Vec::from([String::from("*")]), ..CompressedSettings::of(&ReportTerms::default()) }
    }
}
impl CompressedSettings {
    /// Settings with these terms and empty pattern lists.
    pub fn of(terms: &ReportTerms) -> Self {
        CompressedSettings { to: Vec::new(), request: Vec::new(), delay: terms.delay, bundles: terms.bundles }
    }
}

/// Settings of features that few nodes use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RareSettings {
    /// Tunnels of this node.
    pub tunnels: Vec<TunnelSettings>,
    /// Compressed reporting; `None`: no compressed reports are sent.
    pub compressed: Option<CompressedSettings>,
}

/// One link as configured for the agent.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Number of the link.
    pub link: LinkId,
    /// Name of the link; contacts refer to it.
    pub name: String,
    /// The neighbour's node ID.
    pub peer: EndpointId,
    /// Rate that applies without a contact; `None`: unknown, and bundles are handed over without a pace.
    pub rate: Option<DataRate>,
    /// One-way delay in the absence of a contact.
    pub one_way_delay: Duration,
    /// Settings of the link that do not depend on its layer.
    pub terms: LinkTerms,
    /// Bytes that the convergence layer puts on the link for each 1,000,000 bytes of bundle, so that bundles handed
    /// over fit the contact.
    pub wire_bytes_per_million: u64,
    /// Whether the link's layer reports the neighbour's presence (sessions). Otherwise the neighbour counts as present
    /// while the link is up.
    pub sessions: bool,
    /// MTU, for encoded bundles; longer ones are fragmented or take another route. `None`: unbounded.
    pub largest: Option<DataVolume>,
}

/// Bundle numbers and creation sequences per shard of a node: enough for four years at a million bundles a second, and
/// few enough that the numbers of all 64 shards are exact integers in JSON (2^53).
pub const SHARD_NUMBERS: u64 = 1 << 47;

/// Settings of one agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Node IDs, the first being the default source of this node.
    pub node_ids: Vec<EndpointId>,
    /// Links from the configuration.
    pub links: Vec<LinkSettings>,
    /// Static routes: pattern of destinations, and the next hop's node ID.
    pub routes: Vec<(String, EndpointId)>,
    /// Bounds of tables and lengths.
    pub limits: Limits,
    /// Settings that the node's configuration file states as plain values.
    // 9171-5.1-1
    pub node: AgentSettings,
    /// Most bytes kept in the store.
    pub capacity_bytes: u64,
    /// Bytes of the capacity that each bundle takes beyond its own length, for its record on disk.
    pub record_bytes: u32,
    /// Whether the store keeps bundles through a restart and confirms commits; otherwise bundles are in memory only,
    /// and the store gets no inputs.
    pub durable: bool,
    /// Custody; `None`: it is neither accepted nor requested, and custody signals count as records for applications.
    pub custody: Option<Box<CustodySettings>>,
    /// Features that few nodes use.
    pub rare: Option<Box<RareSettings>>,
    /// Version of the bundle protocol of bundles created here.
    pub version: u8,
    /// Index of this agent among its node's shards: its bundle numbers begin at this multiple of [`SHARD_NUMBERS`].
    pub shard: u8,
    /// Seed of hashing and of random draws.
    pub seed: u64,
}
