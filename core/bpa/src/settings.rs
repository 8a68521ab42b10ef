//! What an agent is told at construction.

use crate::edge::TunnelCodes;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{DataRate, DataVolume, Duration, EndpointId, LinkId};

/// What a head may take of memory as a matter of course; only what is more counts to [`Limits::head_bytes`].
pub const SHORT_HEAD_BYTES: u64 = 256;

/// Every table and buffer is bounded.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest bundle taken, bytes.
    pub bundle_bytes: u64,
    /// Most bytes kept of neighbours nobody configured, all together; of the bundles kept they may be
    /// half.
    pub stranger_bytes: u64,
    /// Most bytes kept of one source.
    pub source_bytes: u64,
    /// Bytes of the store that only expedited bundles and those applications here wait for may fill; 0: none, and
    /// whoever comes first fills it. Where there are some, no giver fills the rest alone either.
    pub reserved_bytes: u64,
    /// Payload bytes kept in memory before stored bundles are left on disk.
    pub memory_bytes: u64,
    /// Bytes of bundles that are still arriving.
    pub arriving_bytes: u64,
    /// Bytes of what comes before payloads, in memory as long as its bundle, beyond [`SHORT_HEAD_BYTES`] of each.
    /// Those of neighbours nobody configured may be half.
    pub head_bytes: u64,
    /// Bundles kept.
    pub bundles: u64,
    /// Identities remembered as delivered.
    pub remembered: usize,
    /// Registrations.
    pub registrations: usize,
    /// Fragments waiting for reassembly.
    pub fragments: usize,
    /// Links opened by unconfigured peers.
    pub dynamic_links: usize,
    /// Status reports made per second; more are not made.
    pub reports_per_second: u32,
    /// Seconds that a bundle is kept here at most, whatever lifetime it has (RFC 9171 4.3.1); 0: as long as that.
    pub lifetime_s: u32,
}
impl Default for Limits {
    fn default() -> Self {
        Limits {
            bundle_bytes: 4 << 30,
            stranger_bytes: u64::MAX,
            source_bytes: u64::MAX,
            reserved_bytes: 0,
            memory_bytes: 1 << 30,
            arriving_bytes: 1 << 30,
            head_bytes: 1 << 30,
            bundles: 10_000_000,
            remembered: 1_000_000,
            registrations: 10_000,
            fragments: 100_000,
            dynamic_links: 10_000,
            reports_per_second: 1000,
            lifetime_s: 0,
        }
    }
}

/// Custody of bundles (RFC 5050 5.10, CCSDS 734.6-O-1).
#[derive(Clone, PartialEq, Debug)]
pub struct CustodySettings {
    /// Neighbours from whom it is taken and to whom its transfer is answered: patterns of their node IDs. Only of those
    /// whose name is sure.
    pub from: Vec<String>,
    /// Destinations of the bundles it is taken of: patterns.
    pub to: Vec<String>,
    /// Destinations for which bundles made here ask for it: patterns.
    pub request: Vec<String>,
    /// Most bytes of bundles in custody.
    pub bytes: u64,
    /// How long a signal is waited for beyond what the way there and back takes; doubles with each repetition.
    pub timeout: Duration,
    /// The longest that becomes.
    pub timeout_max: Duration,
    /// How long answers are gathered where one signal can be about many bundles.
    pub signal_delay: Duration,
    /// Bundles gathered after which it leaves at once.
    pub signal_bundles: u64,
}
impl Default for CustodySettings {
    fn default() -> Self {
        CustodySettings {
            from: Vec::from([String::from("*")]),
            to: Vec::from([String::from("*")]),
            request: Vec::new(),
            bytes: u64::MAX,
            timeout: Duration::from_secs(30),
            timeout_max: Duration::from_secs(3600),
            signal_delay: Duration::from_secs(1),
            signal_bundles: 1000,
        }
    }
}

/// A tunnel (draft-ietf-dtn-bibect): bundles travel inside others to its far end, which takes them out.
#[derive(Clone, PartialEq, Debug)]
pub struct TunnelSettings {
    /// Node ID of the far end. What comes from there inside other bundles is taken out.
    pub end: EndpointId,
    /// Destinations of bundles that go in: patterns. None: bundles only come out here.
    pub to: Vec<String>,
    /// Whether a bundle is kept until the far end has said that it has it.
    pub custody: bool,
    /// How long that is waited for, from when the bundle around it has left; doubles with each repetition.
    pub timeout: Duration,
    /// The longest that becomes.
    pub timeout_max: Duration,
    /// How long answers to the far end are gathered.
    pub signal_delay: Duration,
    /// Bundles gathered after which they leave at once.
    pub signal_bundles: u64,
    /// Most bundles on their way into the tunnel that have not left this node.
    pub bundles: u64,
    /// Version of the bundles around others.
    pub version: u8,
    /// What the records are called.
    pub codes: TunnelCodes,
}
impl TunnelSettings {
    /// A tunnel to this node.
    pub fn new(end: EndpointId) -> Self {
        TunnelSettings {
            end,
            to: Vec::new(),
            custody: false,
            timeout: Duration::from_secs(60),
            timeout_max: Duration::from_secs(3600),
            signal_delay: Duration::from_secs(1),
            signal_bundles: 1000,
            bundles: 1000,
            version: 7,
            codes: TunnelCodes::default(),
        }
    }
}

/// Compressed reporting (CCSDS 734.6-O-1).
#[derive(Clone, PartialEq, Debug)]
pub struct CompressedSettings {
    /// Who may be told: patterns.
    pub to: Vec<String>,
    /// Destinations for which bundles made here that ask for reports ask for compressed ones: patterns.
    pub request: Vec<String>,
    /// How long what is to be told gathers.
    pub delay: Duration,
    /// Bundles gathered after which it leaves at once.
    pub bundles: u64,
}
impl Default for CompressedSettings {
    fn default() -> Self {
        CompressedSettings {
            to: Vec::from([String::from("*")]),
            request: Vec::new(),
            delay: Duration::from_secs(10),
            bundles: 1000,
        }
    }
}

/// What few nodes do.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RareSettings {
    /// Tunnels.
    pub tunnels: Vec<TunnelSettings>,
    /// Compressed reporting; `None`: nothing is told so.
    pub compressed: Option<CompressedSettings>,
}

/// One link as the agent sees it.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Its number.
    pub link: LinkId,
    /// Its name; contacts name it.
    pub name: String,
    /// The neighbour's node ID.
    pub peer: EndpointId,
    /// Rate to obey when no contact gives one.
    pub rate: Option<DataRate>,
    /// One-way delay when no contact gives one.
    pub one_way_delay: Duration,
    /// Bytes the convergence layer puts on the link for each 1,000,000 bytes of bundle, so that
    /// what is handed over fits the contact.
    pub wire_bytes_per_million: u64,
    /// Whether its layer says when the neighbour is there (sessions), rather than the link's state
    /// alone.
    pub sessions: bool,
    /// Longest bundle it takes, encoded; longer ones are cut, or take another way. `None`: any.
    pub largest: Option<DataVolume>,
}

/// Work handed to a layer ahead of time, unless told otherwise: enough to keep it busy between two turns
/// of the driver, little enough that an urgent bundle does not wait behind it.
pub const HAND_OVER_AHEAD: Duration = Duration::from_millis(20);

/// Numbers of bundles and creation sequences that one shard of a node has: so many that a million bundles a second need
/// four years for them, and so few that those of all 64 are whole numbers wherever JSON is read (2^53).
pub const SHARD_NUMBERS: u64 = 1 << 47;

/// One agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Node IDs, the first being the one this node speaks as.
    pub node_ids: Vec<EndpointId>,
    /// Links configured.
    pub links: Vec<LinkSettings>,
    /// Static routes: pattern and next hop's node ID.
    pub routes: Vec<(String, EndpointId)>,
    /// Bounds.
    pub limits: Limits,
    /// How much work a layer is handed ahead of time, at the link's rate: [`HAND_OVER_AHEAD`] where turns
    /// of the driver come when they are due, more where they may be late.
    pub hand_over_ahead: Duration,
    /// Most bytes kept in the store.
    pub capacity_bytes: u64,
    /// What each bundle takes of it besides its own bytes.
    pub record_bytes: u64,
    /// Whether the store keeps bundles through a restart and says when; otherwise they are kept in
    /// memory only, and the store is told nothing.
    pub durable: bool,
    /// Whether status reports are generated (RFC 9171 5.1).
    // 9171-5.1-1
    pub status_reports: bool,
    /// Custody; `None`: it is neither taken nor asked for, and signals are nobody's here.
    pub custody: Option<Box<CustodySettings>>,
    /// What few nodes do.
    pub rare: Option<Box<RareSettings>>,
    /// Whether what is forwarded says which node it leaves.
    pub previous_node_block: bool,
    /// Hop limit of bundles created here; 0 for none.
    pub hop_limit: u8,
    /// Version of the bundle protocol of bundles created here.
    pub version: u8,
    /// Which part of its node this agent is: its numbers begin at so many [`SHARD_NUMBERS`].
    pub shard: u8,
    /// Seed of hashing and of draws.
    pub seed: u64,
}
