//! What an agent is told at construction.

use crate::edge::TunnelCodes;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{
    AgentSettings, CustodyTerms, DataRate, DataVolume, Duration, EndpointId, Limits, LinkId, ReportTerms, TunnelTerms,
};

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
            ..CustodySettings::of(&CustodyTerms::default())
        }
    }
}
impl CustodySettings {
    /// On these terms, with nobody and of nothing.
    pub fn of(terms: &CustodyTerms) -> Self {
        let CustodyTerms { timeout, timeout_max, signal_delay, signal_bundles, .. } = *terms;
        let [from, to, request] = [const { Vec::new() }; 3];
        CustodySettings { from, to, request, bytes: 0, timeout, timeout_max, signal_delay, signal_bundles }
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
        TunnelSettings::of(end, &TunnelTerms::default())
    }
    /// A tunnel to this node on these terms, into which nothing goes.
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
        CompressedSettings { to: Vec::from([String::from("*")]), ..CompressedSettings::of(&ReportTerms::default()) }
    }
}
impl CompressedSettings {
    /// On these terms, to nobody.
    pub fn of(terms: &ReportTerms) -> Self {
        CompressedSettings { to: Vec::new(), request: Vec::new(), delay: terms.delay, bundles: terms.bundles }
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
    /// What a node's file says in plain values.
    // 9171-5.1-1
    pub node: AgentSettings,
    /// Most bytes kept in the store.
    pub capacity_bytes: u64,
    /// What each bundle takes of it besides its own bytes.
    pub record_bytes: u32,
    /// Whether the store keeps bundles through a restart and says when; otherwise they are kept in
    /// memory only, and the store is told nothing.
    pub durable: bool,
    /// Custody; `None`: it is neither taken nor asked for, and signals are nobody's here.
    pub custody: Option<Box<CustodySettings>>,
    /// What few nodes do.
    pub rare: Option<Box<RareSettings>>,
    /// Version of the bundle protocol of bundles created here.
    pub version: u8,
    /// Which part of its node this agent is: its numbers begin at so many [`SHARD_NUMBERS`].
    pub shard: u8,
    /// Seed of hashing and of draws.
    pub seed: u64,
}
