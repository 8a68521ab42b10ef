//! A node as its policies see it, for the tests of several controls, with the agent's evictions on a control's
//! advice.

use crate::control::Control;
use alloc::vec::Vec;
use farlink_base::{BundleMeta, DataRate, EndpointId, Facts, Instant, LinkId, NodeId, PeerId, Priority, Rng};
use farlink_book::{
    Action, Actions, Birth, Book, Flags, Handle, Held, Identity, New, Node, Oracle, Origin, Peer, Peers,
    RetentionConstraint, RetentionConstraints, Side,
};
use std::sync::Arc;

/// Node 1 with its bundles and neighbours.
pub struct ControlSite {
    pub now: Instant,
    pub book: Book,
    pub peers: Peers,
    pub capacity: u64,
}

fn bundle(id: u128, destination: u64, size: usize) -> BundleMeta {
    BundleMeta {
        id,
        source: EndpointId::ipn(1, 1),
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
        head: alloc::vec![0; size].into(),
        tail: 0,
        primary_end: 0,
        tail_len: 0,
        digest: 0,
    }
}

fn new(bundle: BundleMeta) -> New {
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

impl ControlSite {
    pub fn new(capacity: u64) -> Self {
        ControlSite { now: Instant::ZERO, book: Book::new(0), peers: Peers::new(0), capacity }
    }
    pub fn node(&self) -> Node<'_> {
        self.node_with(None)
    }
    pub fn node_with<'a>(&'a self, oracle: Option<&'a dyn Oracle>) -> Node<'a> {
        Node {
            now: self.now,
            me: NodeId(1),
            side: Side::Control,
            book: &self.book,
            peers: &self.peers,
            capacity: self.capacity,
            router: None,
            oracle,
            plan: None,
        }
    }
    /// Holds a bundle of this size, created here.
    pub fn keep(&mut self, destination: u64, size: usize) -> Handle {
        self.keep_with(destination, size, |_, _| {})
    }
    /// Like `keep`, but `change` edits the bundle before it is held.
    pub fn keep_with(&mut self, to: u64, size: usize, change: impl Fn(&mut BundleMeta, &mut New)) -> Handle {
        let mut meta = bundle(u128::from(self.book.last_number()) + 1, to, size);
        let mut new = new(meta.clone());
        change(&mut meta, &mut new);
        self.book.keep(New { bundle: Arc::new(meta), ..new })
    }
    /// A bundle of this size that asks to enter.
    pub fn newcomer(&self, size: usize) -> Held {
        Held::newcomer(new(bundle(u128::MAX, 9, size)))
    }
    pub fn held(&self, bundle: Handle) -> &Held {
        self.book.get(bundle).expect("it is held")
    }
    pub fn label(&self, bundle: Handle) -> u32 {
        self.held(bundle).labels[1]
    }
    pub fn set_label(&mut self, bundle: Handle, label: u32) {
        self.book.get_mut(bundle).expect("it is held").labels[1] = label;
    }
    /// A neighbour that is up.
    pub fn meet(&mut self, number: u64) -> PeerId {
        let id = self.peers.add(Origin::Configured);
        self.peers.learn(id, EndpointId::ipn(number, 0), Identity::Address);
        self.peers.get_mut(id).expect("it was added").up.push(LinkId(number as u32));
        id
    }
    /// Sets the content of a neighbour's last hello and its rate.
    pub fn says(&mut self, peer: PeerId, free: u64, rate: Option<DataRate>) {
        let peer = self.peers.get_mut(peer).expect("it was met");
        (peer.free, peer.capacity, peer.rate) = (Some(free), Some(1000), rate);
    }
    pub fn peer(&self, id: PeerId) -> &Peer {
        self.peers.get(id).expect("it was met")
    }
    /// Writes requested labels; returns the other actions.
    pub fn follow(&mut self, out: &mut Actions) -> Vec<Action> {
        let (labels, others): (Vec<Action>, Vec<Action>) = out.drain().partition(|o| matches!(o, Action::Label { .. }));
        for action in labels {
            if let Action::Label { bundle, label } = action {
                self.set_label(bundle, label);
            }
        }
        others
    }
    /// Bundles evicted for a newcomer of this size; `None` if it is refused.
    pub fn fits(&self, control: &dyn Control, size: usize) -> Option<Vec<Handle>> {
        self.victims(control, size, |_, _| {})
    }
    /// Like `fits`, but `change` edits the newcomer.
    pub fn victims(
        &self,
        control: &dyn Control,
        size: usize,
        change: impl Fn(&mut BundleMeta, &mut New),
    ) -> Option<Vec<Handle>> {
        let mut meta = bundle(u128::MAX, 9, size);
        let mut new = new(meta.clone());
        change(&mut meta, &mut new);
        let newcomer = Held::newcomer(New { bundle: Arc::new(meta), ..new });
        self.room(control, &self.node(), &newcomer)
    }
    /// Bundles that the agent would evict for a newcomer: those worth least, and less than the newcomer. `None` if the
    /// newcomer is refused.
    pub fn room(&self, control: &dyn Control, node: &Node<'_>, newcomer: &Held) -> Option<Vec<Handle>> {
        let own = control.admit(node, newcomer).ok()?;
        let (mut victims, mut freed, mut rng) = (Vec::new(), 0, Rng::new(7));
        while self.book.bytes() - freed + newcomer.size() > self.capacity {
            let victim = self.book.least(&mut rng, |held| {
                // Bundles with other constraints, and those already chosen, do not count.
                let open = held.is_removable() && !victims.contains(&held.handle());
                control.worth(node, held).filter(|worth| open && *worth < own)
            })?;
            freed += self.held(victim).size();
            victims.push(victim);
        }
        Some(victims)
    }
}
