//! Neighbours: their names and how certain each is, the links that are up, and the bundles that they have.

use alloc::boxed::Box;
use alloc::vec::Vec;
use farlink_base::{
    BundleMeta, CreationTimestamp, DataRate, Duration, EndpointId, Few, Instant, LinkId, Map, NodeId, PeerId, Set, map,
    set,
};

/// Once a neighbour has this many names, names that it merely claims are ignored.
const NAMES_MAX: usize = 64;

/// Certainty of a neighbour's name, in ascending order. A weaker one never displaces a stronger one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Identity {
    /// No name is known.
    #[default]
    Unknown,
    /// Only the neighbour itself claims the name.
    Claimed,
    /// The neighbour answers at the address that is configured for this name.
    Address,
    /// The neighbour proved the name by authentication (TLS certificate).
    Proven,
}

/// Way in which a neighbour became known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// The configuration names the neighbour.
    Configured,
    /// The neighbour is in radio contact, and the simulation names it (nodes that move): as good as configured while it
    /// is there, forgotten afterwards.
    Met,
    /// The neighbour was discovered by its announcements.
    Discovered,
    /// The neighbour connected to this node.
    Came,
}
impl Origin {
    /// Whether the neighbour's name comes from the configuration or the simulation, not from itself.
    pub fn is_vouched(self) -> bool {
        matches!(self, Origin::Configured | Origin::Met)
    }
}

/// A name of a neighbour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerName {
    /// Node ID of the neighbour.
    pub id: EndpointId,
    /// Certainty of this name.
    pub identity: Identity,
}

/// A neighbour of this node.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Number of the neighbour at this node.
    pub id: PeerId,
    /// Node number of the most certain name; null without names.
    pub node: NodeId,
    /// Names of the neighbour, the most certain first.
    pub names: Vec<PeerName>,
    /// Way in which the neighbour became known.
    pub origin: Origin,
    /// All links to the neighbour.
    pub links: Vec<LinkId>,
    /// Links over which bundles may leave now.
    pub up: Vec<LinkId>,
    /// Planned end of the current contact, the latest of all links; `None` without an end.
    pub until: Option<Instant>,
    /// Planned start of the next contact over any link, if the contact plan has one.
    pub next_up: Option<Instant>,
    /// Rate of the fastest link that is up. Without such a link the last value stays, at first the rate of the fastest
    /// link. `None` if unknown.
    pub rate: Option<DataRate>,
    /// Free bytes of the neighbour's store, from its last hello.
    pub free: Option<u64>,
    /// Capacity of the neighbour's store in bytes, from its last hello.
    pub capacity: Option<u64>,
    /// Whether a hello with a summary was evaluated since the neighbour was last lost.
    pub heard: bool,
    /// Newest hello of this encounter.
    pub newest_hello: Newest,
    /// Time until which the neighbour's budget for hellos is used up.
    pub hellos_until: Instant,
    /// Low halves of the identities of bundles that the neighbour is known to have.
    has: KnownBundles,
}

/// Newest hello of a neighbour: its creation time and its arrival.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    made: CreationTimestamp,
    /// Time of arrival; `Instant::MAX` before the first.
    came: Instant,
}
impl Default for Newest {
    fn default() -> Self {
        Newest { made: CreationTimestamp::default(), came: Instant::MAX }
    }
}
impl Newest {
    /// Notes a hello as the newest if it was created later than the last one, or if the last one arrived at least
    /// `counts` ago. Returns whether it was noted.
    pub fn is_news(&mut self, made: CreationTimestamp, now: Instant, counts: Duration) -> bool {
        let news = self.came == Instant::MAX || made > self.made || self.came + counts <= now;
        if news {
            *self = Newest { made, came: now };
        }
        news
    }
}

/// Most identities of bundles remembered for one neighbour; beyond that all are forgotten.
const HAS_MAX: usize = 1 << 20;

/// Set of low halves of bundle identities. Many are spread over shards that grow one by one: a single table of a
/// million would halt the node for 15 ms each time it doubles. A handful, as for most neighbours of moving nodes, is
/// kept in a vector, where a table would cost more than it saves.
#[derive(Clone, Debug)]
struct KnownBundles {
    handful: Vec<u64>,
    tables: Option<Box<Tables>>,
    seed: u64,
    len: usize,
}
/// Tables for more identities than a handful.
#[derive(Clone, Debug)]
struct Tables {
    few: Set<u64>,
    many: Vec<Set<u64>>,
}
impl KnownBundles {
    const HANDFUL: usize = 32;
    const FEW: usize = 4096;
    const SHARD_BITS: u32 = 5;

    fn new(seed: u64) -> Self {
        KnownBundles { handful: Vec::new(), tables: None, seed, len: 0 }
    }
    /// Shard of an identity, by its upper bits. The shard's own table hashes all bits.
    fn shard(id: u64) -> usize {
        (id >> (64 - Self::SHARD_BITS)) as usize
    }
    fn contains(&self, id: u64) -> bool {
        let in_tables = |tables: &Tables| {
            tables.few.contains(&id) || tables.many.get(Self::shard(id)).is_some_and(|shard| shard.contains(&id))
        };
        self.handful.contains(&id) || self.tables.as_ref().is_some_and(|tables| in_tables(tables))
    }
    fn insert(&mut self, id: u64) {
        // `len` counts distinct identities.
        if self.contains(id) {
            return;
        }
        self.len += 1;
        if self.tables.is_none() && self.handful.len() < Self::HANDFUL {
            return self.handful.push(id);
        }
        let (seed, handful) = (self.seed, &mut self.handful);
        let tables = self.tables.get_or_insert_with(|| {
            let mut few = set(seed);
            few.extend(core::mem::take(handful));
            Box::new(Tables { few, many: Vec::new() })
        });
        if tables.few.len() < Self::FEW {
            tables.few.insert(id);
        } else {
            // Each shard is a small table, so growing one is quick.
            if tables.many.is_empty() {
                tables.many = (0..1 << Self::SHARD_BITS).map(set).collect();
            }
            tables.many[Self::shard(id)].insert(id);
        }
    }
    fn remove(&mut self, id: u64) {
        let handful = self.handful.len();
        self.handful.retain(|known| *known != id);
        let was = self.handful.len() < handful
            || self.tables.as_mut().is_some_and(|tables| {
                tables.few.remove(&id) || tables.many.get_mut(Self::shard(id)).is_some_and(|shard| shard.remove(&id))
            });
        self.len -= usize::from(was);
    }
}

impl Peer {
    /// Whether bundles may leave for the neighbour now.
    #[inline]
    pub fn is_up(&self) -> bool {
        !self.up.is_empty()
    }
    /// Whether one of the neighbour's names has this node number.
    #[inline]
    pub fn is(&self, node: NodeId) -> bool {
        node != NodeId::NULL && (self.node == node || self.names.iter().any(|name| name.id.node() == node))
    }
    /// Certainty of the most certain name.
    pub fn identity(&self) -> Identity {
        self.names.first().map_or(Identity::Unknown, |name| name.identity)
    }
    /// Certainty of the neighbour's name with this node number; `None` if it has no such name.
    pub fn identity_as(&self, node: NodeId) -> Option<Identity> {
        self.names.iter().filter(|name| name.id.node() == node).map(|name| name.identity).max()
    }
    /// Most certain name; null without names.
    pub fn endpoint(&self) -> EndpointId {
        self.names.first().map_or(EndpointId::Null, |name| name.id.clone())
    }
    /// Whether the neighbour is known to have this bundle.
    #[inline]
    pub fn has(&self, bundle: &BundleMeta) -> bool {
        self.has.contains(bundle.id as u64)
    }
    /// Remembers that the neighbour has the bundle with this low half of its identity.
    pub fn note_has(&mut self, id: u64) {
        // Forgetting costs at worst copies that the neighbour refuses.
        if self.has.len >= HAS_MAX {
            self.forget();
        }
        self.has.insert(id);
    }
    /// Remembers that the neighbour does not have the bundle with this low half of its identity.
    pub fn note_lacks(&mut self, id: u64) {
        self.has.remove(id);
    }
    /// Forgets which bundles the neighbour has.
    pub fn forget(&mut self) {
        self.has = KnownBundles::new(u64::from(self.id.0));
    }
    /// Learns a name, or a stronger certainty of it. A merely claimed name is ignored if there are too many names.
    /// Returns whether the neighbour's node number changed.
    pub fn learn(&mut self, id: EndpointId, identity: Identity) -> bool {
        // The null endpoint names no node.
        if id.node() == NodeId::NULL {
            return false;
        }
        let more = self.names.len() < NAMES_MAX || identity > Identity::Claimed;
        match self.names.iter_mut().find(|name| name.id == id) {
            Some(name) => name.identity = name.identity.max(identity),
            None if more => {
                // Most neighbours have one name: growing by doubling would waste memory.
                self.names.reserve_exact(1);
                self.names.push(PeerName { id, identity });
            }
            // A neighbour that claims another name in each session must not grow the table.
            None => return false,
        }
        self.names.sort_by_key(|name| core::cmp::Reverse(name.identity));
        let node = self.names[0].id.node();
        core::mem::replace(&mut self.node, node) != node
    }
}

/// All neighbours of a node.
#[derive(Clone, Debug)]
pub struct Peers {
    peers: Few<PeerId, Box<Peer>>,
    by_node: Map<NodeId, PeerId>,
    last: u32,
}

impl Peers {
    /// Empty table; `seed` keys its hash map.
    pub fn new(seed: u64) -> Self {
        Peers { peers: Few::new(), by_node: map(seed), last: 0 }
    }
    /// Looks up a neighbour by its number.
    #[inline]
    pub fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id).map(|peer| &**peer)
    }
    /// Looks up a neighbour by its number, for changes.
    #[inline]
    pub fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id).map(|peer| &mut **peer)
    }
    /// Neighbour that is most certain to be the node with this number.
    pub fn of(&self, node: NodeId) -> Option<&Peer> {
        self.get(*self.by_node.get(&node)?)
    }
    /// Neighbours that are reachable now, in the order in which they were added.
    pub fn up(&self) -> impl Iterator<Item = &Peer> {
        self.all().filter(|peer| peer.is_up())
    }
    /// All neighbours, in the order in which they were added.
    pub fn all(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().map(|peer| &**peer)
    }
    /// Number of neighbours.
    pub fn len(&self) -> usize {
        self.peers.len()
    }
    /// Whether there are no neighbours.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }
    /// Adds a neighbour without a name.
    pub fn add(&mut self, origin: Origin) -> PeerId {
        self.last += 1;
        let id = PeerId(self.last);
        let peer = Peer {
            id,
            node: NodeId::NULL,
            names: Vec::new(),
            origin,
            links: Vec::new(),
            up: Vec::new(),
            until: None,
            next_up: None,
            rate: None,
            free: None,
            capacity: None,
            heard: false,
            newest_hello: Newest::default(),
            hellos_until: Instant::ZERO,
            has: KnownBundles::new(u64::from(id.0)),
        };
        self.peers.insert(id, Box::new(peer));
        id
    }
    /// Learns a neighbour's name. From then on [`Peers::of`] finds this neighbour by the name's node number if no other
    /// is as certain to be that node.
    pub fn learn(&mut self, id: PeerId, name: EndpointId, identity: Identity) {
        let node = name.node();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.learn(name, identity);
        if node == NodeId::NULL || !peer.is(node) {
            return;
        }
        let owner = self.of(node).and_then(|owner| owner.identity_as(node));
        // On equal certainty the earlier neighbour keeps the number.
        if owner.is_none_or(|owner| owner < identity) {
            self.by_node.insert(node, id);
        }
    }
    /// Removes a neighbour. For each of its names, [`Peers::of`] then finds the neighbour that is next in certainty.
    pub fn remove(&mut self, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        for name in &peer.names {
            let node = name.id.node();
            // Another neighbour already owns this number.
            if self.by_node.get(&node) != Some(&id) {
                continue;
            }
            match self.surest(node) {
                Some(heir) => self.by_node.insert(node, heir),
                None => self.by_node.remove(&node),
            };
        }
        Some(*peer)
    }
    /// Number of the neighbour that is most certain to be this node; among equals, the one added first.
    fn surest(&self, node: NodeId) -> Option<PeerId> {
        // The lower number was added first.
        let sure = |peer: &Peer| Some((peer.identity_as(node)?, core::cmp::Reverse(peer.id)));
        self.all().filter_map(sure).max().map(|(_, id)| id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bundles_scale_to_many() {
        let mut known = KnownBundles::new(1);
        let id = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // 20,000 identities are enough to use the shards; each is inserted twice.
        for n in (0..20_000).chain(0..20_000) {
            known.insert(id(n));
        }
        assert_eq!(known.len, 20_000);
        for n in (0..20_000).step_by(2) {
            known.remove(id(n));
            known.remove(id(n));
        }
        assert_eq!(known.len, 10_000);
        assert!((0..20_000).all(|n| known.contains(id(n)) == (n % 2 == 1)));
    }

    #[test]
    fn a_claim_never_displaces_a_proof() {
        let mut peers = Peers::new(0);
        let (proven, claims) = (peers.add(Origin::Configured), peers.add(Origin::Came));
        peers.learn(proven, EndpointId::ipn(2, 0), Identity::Proven);
        peers.learn(claims, EndpointId::ipn(2, 0), Identity::Claimed);
        assert_eq!(peers.of(NodeId::ipn(2)).map(|p| p.id), Some(proven));
        peers.learn(proven, EndpointId::dtn("mars", ""), Identity::Claimed);
        let peer = peers.get(proven).unwrap();
        assert!(peer.is(NodeId::named("mars")) && peer.node == NodeId::ipn(2));
        // Once the proven neighbour is removed, node number 2 passes to the neighbour that claims it.
        peers.remove(proven);
        assert_eq!(peers.of(NodeId::ipn(2)).map(|p| p.id), Some(claims));
        assert!(peers.of(NodeId::named("mars")).is_none());
        assert_eq!(peers.add(Origin::Came), PeerId(3), "numbers are not used again");
    }
    #[test]
    fn surest_remaining_peer_inherits_number() {
        let mut peers = Peers::new(0);
        let (owner, claims, address) =
            (peers.add(Origin::Came), peers.add(Origin::Came), peers.add(Origin::Configured));
        peers.learn(owner, EndpointId::ipn(2, 0), Identity::Proven);
        peers.learn(claims, EndpointId::ipn(2, 0), Identity::Claimed);
        peers.learn(claims, EndpointId::ipn(3, 0), Identity::Proven);
        peers.learn(address, EndpointId::ipn(2, 0), Identity::Address);
        let of = |peers: &Peers| peers.of(NodeId::ipn(2)).map(|peer| peer.id);
        assert_eq!(of(&peers), Some(owner));
        peers.remove(owner);
        assert_eq!(of(&peers), Some(address), "a proof of another name does not count");
        peers.remove(address);
        assert_eq!(of(&peers), Some(claims));
        peers.remove(claims);
        assert_eq!(of(&peers), None);
    }

    #[test]
    fn claimed_names_are_bounded() {
        let mut peers = Peers::new(0);
        let peer = peers.add(Origin::Configured);
        peers.learn(peer, EndpointId::ipn(2, 0), Identity::Address);
        // A proven name is learned even when the claims have used up the room.
        (1000..3000).for_each(|node| peers.learn(peer, EndpointId::ipn(node, 0), Identity::Claimed));
        assert_eq!((peers.get(peer).map(|peer| peer.names.len()), peers.by_node.len()), (Some(NAMES_MAX), NAMES_MAX));
        peers.learn(peer, EndpointId::ipn(3, 0), Identity::Proven);
        assert_eq!(peers.get(peer).map(Peer::endpoint), Some(EndpointId::ipn(3, 0)));
        assert_eq!(peers.of(NodeId::ipn(3)).map(|found| found.id), Some(peer));
    }

    #[test]
    fn proof_covers_only_its_name() {
        let mut peers = Peers::new(0);
        let (claims, proves) = (peers.add(Origin::Came), peers.add(Origin::Came));
        peers.learn(claims, EndpointId::ipn(3, 0), Identity::Proven);
        peers.learn(claims, EndpointId::ipn(2, 0), Identity::Claimed);
        peers.learn(proves, EndpointId::ipn(2, 0), Identity::Proven);
        assert_eq!(peers.of(NodeId::ipn(2)).map(|peer| peer.id), Some(proves));
    }
}
