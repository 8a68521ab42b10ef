//! Construction parameters of a stack. Plain data: the node makes it from its TOML file, the simulator from the
//! scenario.

use crate::custody::CustodyConfig;
use crate::kinds::{LayerKind, LinkParams};
use crate::reporting::CompressedConfig;
use crate::security::SecurityConfig;
use crate::shards::ShardConfig;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{Accel, DataRate, DataVolume, Duration, EndpointId, LinkTerms, NodeSettings};
use farlink_bpa::{Quota, TunnelSettings};
use farlink_routing::PlanIndex;

/// Parameters of one node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Node IDs: the first is the source of the node's own administrative records; the others are aliases.
    pub node_ids: Vec<EndpointId>,
    /// Convergence layers; their place in this list is their `LayerId`.
    pub layers: Vec<LayerConfig>,
    /// Links; their place in this list is their `LinkId`.
    pub links: Vec<LinkConfig>,
    /// Contact plan, shared by all nodes of the process. A link that it names, or whose two nodes it names, is up only
    /// during its contacts.
    pub plan: Option<Arc<PlanIndex>>,
    /// Name of the router.
    pub router: String,
    /// Parameters of the router, by name.
    pub router_params: Vec<(String, f64)>,
    /// Static routes: (pattern, next hop's node ID); tried when the router has none.
    pub routes: Vec<(String, EndpointId)>,
    /// Congestion control by name.
    pub control: String,
    /// Parameters of the control, by name.
    pub control_params: Vec<(String, f64)>,
    /// Kind and files of the bundle store.
    pub store: StoreConfig,
    /// Settings that configuration files give as plain values. A bundle longer than `store.spill_from` takes a few
    /// megabytes of [`farlink_base::Limits::arriving_bytes`], and leaves from disk. A bundle for an application of
    /// this node is read back whole: at most [`farlink_base::Limits::memory_bytes`] are read at once, further ones
    /// wait, and a longer one is read alone.
    pub node: NodeSettings,
    /// Quotas of the store for some sources and neighbours.
    pub quotas: Vec<Quota>,
    /// Custody settings; `None`: custody is neither taken nor asked for.
    pub custody: Option<CustodyConfig>,
    /// Compressed reporting of bundles of version 7; `None`: no such reports are sent.
    pub compressed: Option<CompressedConfig>,
    /// Tunnels: bundles inside others.
    pub tunnels: Vec<TunnelSettings>,
    /// Seed of everything random in this node.
    pub seed: u64,
    /// Accelerated functions of this machine, checked by the driver.
    pub accel: Accel,
    /// Security of bundles of version 7; without it, security blocks pass as they came.
    pub security: Option<SecurityConfig>,
    /// Part of the node that this stack runs; `None`: the whole node.
    pub shards: Option<ShardConfig>,
}

/// One convergence layer instance.
#[derive(Clone, Debug)]
pub struct LayerConfig {
    /// Name of the layer in logs.
    pub name: String,
    /// Protocol of the layer, and its parameters.
    pub kind: LayerKind,
}

/// One link to a neighbour.
#[derive(Clone, PartialEq, Debug)]
pub struct LinkConfig {
    /// Name for logs, contact plan and operators.
    pub name: String,
    /// The neighbour's node ID.
    pub peer: EndpointId,
    /// Index of the link's layer in [`Config::layers`].
    pub layer: usize,
    /// Rate to obey when no contact gives one. `None`: the rate is unknown, and bundles are handed to the layer without
    /// pacing.
    pub rate: Option<DataRate>,
    /// One-way delay when no contact gives one; LTP derives its timers from this delay.
    pub one_way_delay: Duration,
    /// Settings that do not depend on the layer.
    pub terms: LinkTerms,
    /// Parameters of the layer for this link.
    pub params: LinkParams,
}

/// Parameters of the bundle store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Storage in memory or on disk.
    pub kind: StoreKind,
    /// Maximum length of one file of the store; the store's own bound applies if it is shorter. Small files let a full
    /// disk regain room in small steps.
    pub file_max: DataVolume,
}

/// Location of held bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// In memory: gone at exit, acknowledged at once.
    Memory,
    /// On disk: acknowledged after the group commit.
    Durable,
}

impl Config {
    /// A node with memory store, SABR and no links: the starting point of drivers and tests.
    pub fn new(node_id: EndpointId) -> Self {
        Config {
            node_ids: Vec::from([node_id]),
            layers: Vec::new(),
            links: Vec::new(),
            plan: None,
            router: String::from("sabr"),
            router_params: Vec::new(),
            routes: Vec::new(),
            control: String::from("none"),
            control_params: Vec::new(),
            store: StoreConfig { kind: StoreKind::Memory, file_max: DataVolume(u64::MAX) },
            node: NodeSettings::default(),
            quotas: Vec::new(),
            custody: None,
            compressed: None,
            tunnels: Vec::new(),
            seed: 0,
            accel: Accel::default(),
            security: None,
            shards: None,
        }
    }
    /// Keeps bundles in a store of this kind and capacity.
    pub fn keep_in(&mut self, kind: StoreKind, capacity: DataVolume) {
        self.store.kind = kind;
        self.node.store.capacity = capacity;
    }
}
