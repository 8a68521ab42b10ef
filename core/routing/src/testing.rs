//! A node as its policies see it, for the tests of several routers.

use crate::Router;
use std::sync::Arc;
use std::vec::Vec;

use farlink_base::{BundleMeta, EndpointId, Facts, Instant, LinkId, NodeId, PeerId, Priority};
use farlink_book::{
    Action, Actions, Birth, Book, Flags, Handle, Held, Identity, New, Node, Origin, Peer, Peers, PolicyEvent,
    RetentionConstraint, RetentionConstraints, Side,
};

/// A bundle of this encoded size; `id` is its identity.
pub fn bundle(id: u128, source: u64, destination: u64, size: usize) -> BundleMeta {
    BundleMeta {
        id,
        source: EndpointId::ipn(source, 1),
        destination: EndpointId::ipn(destination, 1),
        created_ms: 1,
        sequence: id as u64,
        lifetime_ms: 3_600_000,
        payload: Default::default(),
        facts: Facts::default(),
        version: 7,
        priority: Priority::Normal,
        duties: Default::default(),
        hop_limit: 0,
        rare: None,
        head: std::vec![0; size].into(),
        tail: 0,
        primary_end: 0,
        tail_len: 0,
        digest: 0,
    }
}

/// A new entry of the book, as the agent makes it.
pub fn new(bundle: BundleMeta) -> New {
    New {
        bundle: Arc::new(bundle),
        number: None,
        born: Birth::of(Instant::ZERO, 0),
        expires: Instant::MAX,
        from: PeerId::NONE,
        hops: 0,
        labels: [0; 2],
        reasons: RetentionConstraints::of(&[RetentionConstraint::Route]),
        flags: Flags::default(),
    }
}

/// Node 1 with its bundles and neighbours.
pub struct RouterSite {
    pub now: Instant,
    pub book: Book,
    pub peers: Peers,
}

impl RouterSite {
    pub fn new() -> Self {
        RouterSite { now: Instant::ZERO, book: Book::new(0), peers: Peers::new(0) }
    }
    pub fn node(&self) -> Node<'_> {
        Node {
            now: self.now,
            me: NodeId(1),
            side: Side::Router,
            book: &self.book,
            peers: &self.peers,
            capacity: 1 << 30,
            router: None,
            oracle: None,
            plan: None,
        }
    }
    /// Holds a bundle of this size, created here, that never expires.
    pub fn keep(&mut self, destination: u64, size: usize) -> Handle {
        self.keep_with(destination, size, |_, _| {})
    }
    /// Like `keep`, but `change` edits the bundle before it is held.
    pub fn keep_with(&mut self, to: u64, size: usize, change: impl Fn(&mut BundleMeta, &mut New)) -> Handle {
        let mut meta = bundle(u128::from(self.book.last_number()) + 1, 1, to, size);
        let mut new = new(meta.clone());
        change(&mut meta, &mut new);
        self.book.keep(New { bundle: Arc::new(meta), ..new })
    }
    pub fn held(&self, bundle: Handle) -> &Held {
        self.book.get(bundle).expect("it is held")
    }
    pub fn held_mut(&mut self, bundle: Handle) -> &mut Held {
        self.book.get_mut(bundle).expect("it is held")
    }
    /// Brings a neighbour up over this link.
    pub fn meet(&mut self, number: u64, link: u32) -> PeerId {
        // A node met before keeps its peer number.
        let known = self.peers.of(NodeId(number)).map(|peer| peer.id);
        let id = known.unwrap_or_else(|| self.peers.add(Origin::Configured));
        self.peers.learn(id, EndpointId::ipn(number, 0), Identity::Address);
        let peer = self.peers.get_mut(id).expect("it was added");
        peer.links.push(LinkId(link));
        peer.up.push(LinkId(link));
        id
    }
    pub fn peer(&self, id: PeerId) -> &Peer {
        self.peers.get(id).expect("it was met")
    }
}

/// Message of a router to a neighbour that came up.
pub fn greeting(router: &mut impl Router, site: &RouterSite, peer: PeerId) -> Vec<u8> {
    let mut out = Actions::default();
    router.on(&site.node(), &PolicyEvent::Up { peer }, &mut out);
    out.drain().find_map(|o| if let Action::Tell { bytes, .. } = o { Some(bytes) } else { None }).unwrap()
}
