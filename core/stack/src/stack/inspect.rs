//! Views of the node for its operators and its driver.

use super::Stack;
use crate::kinds::Layer;
use crate::security::{SecurityAlarm, SecurityCounts};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{AgentSettings, BundleHandle, EndpointId, Instant, Limits, store};
use farlink_bpa::CursorId;
use farlink_bpa::app::{BundleStatus, SendRequest, Status, Sum};
use farlink_routing::PlanIndex;

impl Stack {
    /// A snapshot for operators.
    pub fn status(&self, now: Instant) -> Status {
        self.agent.status(now)
    }
    /// Begins a list before the oldest bundle, for [`Stack::page`] and [`Stack::sums`]; [`Stack::end_list`] ends it.
    pub fn begin_list(&mut self) -> CursorId {
        self.agent.begin_list()
    }
    /// Ends a list.
    pub fn end_list(&mut self, list: CursorId) {
        self.agent.end_list(list);
    }
    /// The next bundles of a list, at most `limit` and all with numbers above `after`, and whether there may be more.
    /// A call looks at some hundreds of bundles at most, and may return none although there are more.
    pub fn page(&mut self, now: Instant, list: CursorId, after: u64, limit: usize) -> (Vec<BundleStatus>, bool) {
        self.agent.page(now, list, after, limit)
    }
    /// The next bundles of a list, summed by destination, reason and departure, and whether there are more.
    pub fn sums(&mut self, now: Instant, list: CursorId) -> (Vec<Sum>, bool) {
        self.agent.sums(now, list)
    }
    /// The first `limit` held bundles with numbers above `after`, and why each is still here. Walks all held bundles.
    pub fn bundles(&self, now: Instant, after: BundleHandle, limit: usize) -> Vec<BundleStatus> {
        self.agent.bundles(now, after, limit)
    }
    /// Number of bundles held.
    pub fn held(&self) -> u64 {
        self.agent.fill().0
    }
    /// Bytes of long heads in memory, as bounded by `limits.head_bytes`.
    pub fn heads(&self) -> u64 {
        self.agent.heads()
    }
    /// Wall time, if the clock is trusted.
    pub fn utc(&self, now: Instant) -> Option<farlink_base::DtnTime> {
        self.agent.utc(now)
    }
    /// Operating time of the node in ms, over all runs, if known.
    pub fn ran_ms(&self, now: Instant) -> u64 {
        self.agent.ran_ms(now)
    }
    /// Whether the store was read: only then are bundles accepted.
    pub fn is_open(&self) -> bool {
        self.agent.is_open()
    }
    /// Payload bytes in memory: of bundles held, and of bundles that are still arriving.
    pub fn memory(&self) -> (u64, u64) {
        (self.agent.resident(), self.arrivals.memory())
    }
    /// The plain settings and the bounds that the agent obeys.
    pub fn plain_settings(&self) -> (&AgentSettings, &Limits) {
        self.agent.plain_settings()
    }
    /// Static routes: pattern and next hop.
    pub fn routes(&self) -> &[(String, EndpointId)] {
        self.agent.routes()
    }
    /// The contact plan in force.
    pub fn plan(&self) -> Option<&Arc<PlanIndex>> {
        self.agent.plan()
    }
    /// Longest bundle that can be admitted now, bytes; a longer one is refused until another bundle leaves. `None` if
    /// more than free space decides about admission: the congestion control, or a disk.
    pub fn room(&self) -> Option<u64> {
        self.agent.room()
    }
    /// Encoded length, bytes, of the bundle that this request would make, to be compared with [`Stack::room`]. `None`
    /// if that is `None`, or if the bundle cannot be made.
    pub fn needs(&mut self, now: Instant, wanted: SendRequest) -> Option<u64> {
        self.agent.needs(now, wanted, &mut self.edges)
    }
    /// Whether announcements of this node ID need no action: the ID is this node's own, a link to it is configured, or
    /// a reachable neighbour has proven it.
    pub fn is_surely_known(&self, node: &EndpointId) -> bool {
        self.agent.is_surely_known(node.node())
    }
    /// Security operations performed, if the node has rules.
    pub fn security(&mut self) -> Option<SecurityCounts> {
        self.edges.security().map(|security| security.counts())
    }
    /// Takes the last bundle that failed a rule of security since the last call.
    pub fn take_security_alarm(&mut self) -> Option<alloc::boxed::Box<SecurityAlarm>> {
        self.edges.security().and_then(|security| security.take_alarm())
    }
    /// Bytes of whole bundles that layers of this shard offered to other shards, and that have no verdict yet.
    pub fn offered_to_shards(&self) -> u64 {
        let away = |layer: &Layer| if let Layer::Shared(shared) = layer { shared.owner.away() } else { 0 };
        self.layers.iter().map(away).sum()
    }
    /// Whether layers of this shard have, or will get, bundles of other shards.
    pub fn serves_others(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer, Layer::Shared(shared) if shared.owner.serves()))
    }
    /// Fill of the store.
    pub fn store_usage(&self) -> store::Usage {
        self.store.usage(self.agent.fill())
    }
    /// The administrative endpoint of a node named in an event.
    pub fn node_name(&self, node: farlink_base::NodeId) -> EndpointId {
        self.agent.node_name(node)
    }
}
