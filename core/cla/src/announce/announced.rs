//! Nodes that are heard: by their address and the name they give, so that whoever says another's name takes nothing of
//! it; bounded by address and in all, with those that were found never among those that give way.

use super::{DiscoveredId, HEARD_MAX, NAMES_MAX, PERIOD_MAX, SILENCE, SILENCE_ANSWERING};
use crate::registry::LayerInfo;
use alloc::collections::BTreeMap;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::Medium;
use farlink_base::{Duration, EndpointId, Instant, Rng};

/// Where somebody is heard, and what it calls itself.
pub(super) type AnnouncerKey = (IpAddr, EndpointId);

/// One that announces itself.
#[derive(Clone, Debug)]
pub struct AnnouncedNode {
    /// Where it can be reached.
    pub address: SocketAddr,
    /// By which layer: its place in [`super::Config::reach`].
    pub layer: usize,
    /// When it was heard first.
    pub first: Instant,
    /// When it was heard last.
    pub last: Instant,
    /// How often it says that it speaks; where it does not, as often as this node.
    pub period: Duration,
    /// The number of its last beacon, where it has one.
    pub sequence: Option<u32>,
    /// Beacons heard of it.
    pub beacons: u64,
    /// Where it stands.
    pub stands: NodeState,
    /// Attempts to reach it that failed.
    pub failed: u32,
    /// It said that it leaves.
    pub leaves: bool,
}

/// What is done about one that is heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeState {
    /// Nothing before then.
    Waiting {
        /// When it may be tried.
        until: Instant,
    },
    /// It has a link.
    Linked {
        /// Which.
        id: DiscoveredId,
        /// Since when.
        since: Instant,
        /// Since when bundles may leave over it.
        up: Option<Instant>,
    },
}

impl AnnouncedNode {
    /// When it is taken to be gone, if nothing more is heard of it. Only sessions that ask whether the other side is
    /// there count as an answer.
    pub fn silent_at(&self, layer: &LayerInfo) -> Instant {
        let answers = matches!(self.stands, NodeState::Linked { up: Some(_), .. })
            && layer.medium == Medium::Streams
            && !layer.one_way;
        let periods = if answers { SILENCE_ANSWERING } else { SILENCE };
        self.last + self.period.clamp(Duration::from_secs(1), PERIOD_MAX) * periods
    }
    /// The link made for it.
    pub fn found(&self) -> Option<DiscoveredId> {
        match self.stands {
            NodeState::Linked { id, .. } => Some(id),
            NodeState::Waiting { .. } => None,
        }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct AnnouncedNodes {
    all: BTreeMap<AnnouncerKey, AnnouncedNode>,
    found: usize,
    rng: Rng,
}

impl AnnouncedNodes {
    /// None yet.
    pub fn new(seed: u64) -> AnnouncedNodes {
        AnnouncedNodes { all: BTreeMap::new(), found: 0, rng: Rng::stream(seed, 1) }
    }
    /// One, to change; where it stands only by [`AnnouncedNodes::stand`].
    pub fn get_mut(&mut self, key: &AnnouncerKey) -> Option<&mut AnnouncedNode> {
        self.all.get_mut(key)
    }
    /// All, by address and name.
    pub fn iter(&self) -> impl Iterator<Item = (&AnnouncerKey, &AnnouncedNode)> {
        self.all.iter()
    }
    /// How many have links.
    pub fn found(&self) -> usize {
        self.found
    }
    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
    /// One is found, or waits again.
    pub fn stand(&mut self, key: &AnnouncerKey, stands: NodeState) {
        let Some(heard) = self.all.get_mut(key) else { return };
        self.found -= usize::from(heard.found().is_some());
        heard.stands = stands;
        self.found += usize::from(heard.found().is_some());
    }
    /// One is no more.
    pub fn remove(&mut self, key: &AnnouncerKey) {
        if let Some(heard) = self.all.remove(key) {
            self.found -= usize::from(heard.found().is_some());
        }
    }
    /// One that waits is heard for the first time. Where there are as many as may be, of its address or in all, any of
    /// those that wait gives way; false where none does.
    pub fn insert(&mut self, key: AnnouncerKey, heard: AnnouncedNode) -> bool {
        let first = (key.0, EndpointId::Null);
        let of_host = || self.all.range(&first..).take_while(|(other, _)| other.0 == key.0);
        let crowded = of_host().take(NAMES_MAX).count() >= NAMES_MAX;
        let waits = |(_, heard): &(&AnnouncerKey, &AnnouncedNode)| heard.found().is_none();
        if crowded || self.all.len() - self.found >= HEARD_MAX {
            let waiting = if crowded { of_host().filter(waits).count() } else { self.all.len() - self.found };
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
