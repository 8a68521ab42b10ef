//! Table of nodes that announce themselves, keyed by source address and claimed node ID, so that a node that claims
//! another's name does not replace that node's entry. Bounded per address and in total; only nodes without a link are
//! evicted.

use super::{DiscoveredId, HEARD_MAX, NAMES_MAX, PERIOD_MAX, SILENCE, SILENCE_ANSWERING};
use crate::registry::LayerInfo;
use alloc::collections::BTreeMap;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::Medium;
use farlink_base::{Duration, EndpointId, Instant, Rng};

/// Source address and the node ID claimed there.
pub(super) type AnnouncerKey = (IpAddr, EndpointId);

/// A node that announces itself.
#[derive(Clone, Debug)]
pub struct AnnouncedNode {
    /// Address and port of the node's convergence layer.
    pub address: SocketAddr,
    /// Index of the node's layer in [`super::Config::reach`].
    pub layer: usize,
    /// Time of the node's first beacon.
    pub first: Instant,
    /// Time of the node's latest beacon.
    pub last: Instant,
    /// Announced beacon period; this node's own interval if the latest beacon has none.
    pub period: Duration,
    /// Sequence number of the latest beacon, if the format has one.
    pub sequence: Option<u32>,
    /// Number of beacons received from the node.
    pub beacons: u64,
    /// State of the link to the node.
    pub stands: NodeState,
    /// Number of failed attempts to connect to the node since its entry was made.
    pub failed: u32,
    /// Whether the latest beacon announced that the node leaves.
    pub leaves: bool,
}

/// Link state of an announced node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// No link; the node waits for an attempt to connect.
    Waiting {
        /// Earliest time of the next attempt to connect, unless the backoff of the address ends later.
        until: Instant,
    },
    /// A link to the node was made.
    Linked {
        /// Number of the link made to the node.
        id: DiscoveredId,
        /// Time the link was made.
        since: Instant,
        /// Time at which the link was first found up; `None` before.
        up: Option<Instant>,
    },
}

impl AnnouncedNode {
    /// Time at which the node counts as gone unless another beacon arrives.
    pub fn silent_at(&self, layer: &LayerInfo) -> Instant {
        // Over a stream that carries bundles both ways, keepalives show that the peer lives, so missing beacons count
        // less. A one-way stream shows nothing about the receiving node.
        let answers = matches!(self.stands, NodeState::Linked { up: Some(_), .. })
            && layer.medium == Medium::Streams
            && !layer.one_way;
        let periods = if answers { SILENCE_ANSWERING } else { SILENCE };
        self.last + self.period.clamp(Duration::from_secs(1), PERIOD_MAX) * periods
    }
    /// Number of the node's link, if it has one.
    pub fn link_id(&self) -> Option<DiscoveredId> {
        match self.stands {
            NodeState::Linked { id, .. } => Some(id),
            NodeState::Waiting { .. } => None,
        }
    }
}

/// All announced nodes and the number of those with a link.
#[derive(Debug)]
pub(super) struct AnnouncedNodes {
    all: BTreeMap<AnnouncerKey, AnnouncedNode>,
    linked: usize,
    rng: Rng,
}

impl AnnouncedNodes {
    /// Creates an empty table.
    pub fn new(seed: u64) -> AnnouncedNodes {
        AnnouncedNodes { all: BTreeMap::new(), linked: 0, rng: Rng::stream(seed, 1) }
    }
    /// Entry of one node. Change its link state only by [`AnnouncedNodes::stand`], which counts the links.
    pub fn get_mut(&mut self, key: &AnnouncerKey) -> Option<&mut AnnouncedNode> {
        self.all.get_mut(key)
    }
    /// All entries, ordered by address and node ID.
    pub fn iter(&self) -> impl Iterator<Item = (&AnnouncerKey, &AnnouncedNode)> {
        self.all.iter()
    }
    /// Number of entries with a link.
    pub fn linked(&self) -> usize {
        self.linked
    }
    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// Changes the link state of a node.
    pub fn stand(&mut self, key: &AnnouncerKey, stands: NodeState) {
        let Some(heard) = self.all.get_mut(key) else { return };
        self.linked -= usize::from(heard.link_id().is_some());
        heard.stands = stands;
        self.linked += usize::from(heard.link_id().is_some());
    }
    pub fn remove(&mut self, key: &AnnouncerKey) {
        if let Some(heard) = self.all.remove(key) {
            self.linked -= usize::from(heard.link_id().is_some());
        }
    }
    /// Inserts a node without a link. At the limit per address, a random node without a link at that address is
    /// evicted; at the limit in total, a random one at any address. Returns false if the address is full and all its
    /// nodes have links.
    pub fn insert(&mut self, key: AnnouncerKey, heard: AnnouncedNode) -> bool {
        let first = (key.0, EndpointId::Null);
        let of_host = || self.all.range(&first..).take_while(|(other, _)| other.0 == key.0);
        let crowded = of_host().take(NAMES_MAX).count() >= NAMES_MAX;
        let waits = |(_, heard): &(&AnnouncerKey, &AnnouncedNode)| heard.link_id().is_none();
        if crowded || self.all.len() - self.linked >= HEARD_MAX {
            let waiting = if crowded { of_host().filter(waits).count() } else { self.all.len() - self.linked };
            // Evict at random, so that a flood of beacons cannot choose the entry to displace.
            let place = self.rng.below(waiting as u64) as usize;
            let gives_way = match crowded {
                true => of_host().filter(waits).nth(place),
                false => self.all.iter().filter(waits).nth(place),
            };
            let Some(gives_way) = gives_way.map(|(key, _)| key.clone()) else { return false };
            self.all.remove(&gives_way);
        }
        self.all.insert(key, heard);
        true
    }
}
