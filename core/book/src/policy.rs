//! What a policy sees ([`Node`]), hears ([`PolicyEvent`]) and says ([`Action`]). The two contracts built of
//! these words are `Router` (`core/routing`) and `Control` (`core/congestion`).

use crate::book::Book;
use crate::forecast::Flow;
use crate::held::{Handle, Held};
use crate::journeys::Journeys;
use crate::peers::{Peer, Peers};
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{DataRate, DeleteReason, Instant, LinkId, NodeId, PeerId, Rng};

/// Which of a node's two policies; also which label of a bundle is whose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Side {
    /// The router's.
    Router = 0,
    /// The congestion control's.
    Control = 1,
}

/// A node as its policies see it.
pub struct Node<'a> {
    /// Now.
    pub now: Instant,
    /// This node in numbers.
    pub me: NodeId,
    /// Who is asked.
    pub side: Side,
    /// What it holds.
    pub book: &'a Book,
    /// Its neighbours.
    pub peers: &'a Peers,
    /// Most bytes it may hold.
    pub capacity: u64,
    /// What the router expects; given to the control only.
    pub router: Option<&'a dyn DeliveryForecast>,
    /// Knowledge no node can have, where a driver gives it: simulations only.
    pub oracle: Option<&'a dyn Oracle>,
    /// The contact plan, where the node has one; given to the control only.
    pub plan: Option<&'a dyn Journeys>,
}

impl Node<'_> {
    /// The asking policy's label of a bundle.
    pub fn label(&self, held: &Held) -> u32 {
        held.labels[self.side as usize]
    }
    /// Free bytes of its store.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.book.bytes())
    }
    /// How full its store is, 0 to 1.
    pub fn fill(&self) -> f64 {
        if self.capacity == 0 { 1.0 } else { self.book.bytes() as f64 / self.capacity as f64 }
    }
    /// A held bundle.
    pub fn get(&self, bundle: Handle) -> Option<&Held> {
        self.book.get(bundle)
    }
}

/// Knowledge no node can have. A policy that asks for it is registered `oracle: true`, and gets it
/// only where a driver gives it to the agent. The agent tells it what the node does.
pub trait Oracle {
    /// Copies of a bundle in the whole network.
    fn copies(&self, id: u128) -> u64;
    /// How often a bundle was forwarded in the whole network.
    fn forwards(&self, id: u128) -> u64;
    /// Mean of that over all bundles.
    fn mean_forwards(&self) -> f64;
    /// Nodes that hold a bundle or held it, where it was made not counted.
    fn seen(&self, id: u128) -> u64 {
        self.forwards(id)
    }
    /// Nodes in the whole network.
    fn nodes(&self) -> u64 {
        0
    }
    /// The node holds a bundle from now on.
    fn kept(&mut self, id: u128) {
        let _ = id;
    }
    /// The node forwarded it: a neighbour has it now.
    fn forwarded(&mut self, id: u128) {
        let _ = id;
    }
    /// The node holds it no more.
    fn gone(&mut self, id: u128) {
        let _ = id;
    }
}

/// Why a bundle left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// An application here has it.
    Delivered,
    /// A neighbour has it.
    Forwarded,
    /// A neighbour took it to make room here.
    Migrated(PeerId),
    /// A policy learned that it arrived.
    Acked,
    /// It made room for another.
    Overflow,
    /// Nobody vouched for it, and it had the identity of one that somebody vouches for.
    Displaced,
    /// For another reason.
    Deleted(DeleteReason),
}
impl Why {
    /// As events and status reports say it.
    pub const fn reason(self) -> DeleteReason {
        match self {
            Why::Delivered | Why::Forwarded | Why::Migrated(_) | Why::Acked => DeleteReason::Done,
            Why::Overflow => DeleteReason::DepletedStorage,
            Why::Displaced => DeleteReason::TrafficPared,
            Why::Deleted(reason) => reason,
        }
    }
}

/// What a policy hears. A bundle named in it can still be looked at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PolicyEvent<'a> {
    /// A neighbour can be reached: the first of its links is up.
    Up {
        /// Who.
        peer: PeerId,
    },
    /// It cannot any more: the last of its links is down.
    Down {
        /// Who.
        peer: PeerId,
    },
    /// One link is up.
    LinkUp {
        /// To whom.
        peer: PeerId,
        /// Which.
        link: LinkId,
        /// How fast, where known.
        rate: Option<DataRate>,
        /// Until when, where the contact plan says.
        until: Option<Instant>,
    },
    /// One link is down.
    LinkDown {
        /// To whom.
        peer: PeerId,
        /// Which.
        link: LinkId,
    },
    /// The same policy at a neighbour says this.
    Heard {
        /// Who.
        from: PeerId,
        /// What, in the policy's own format.
        bytes: &'a [u8],
    },
    /// Held from now on.
    Kept {
        /// Which.
        bundle: Handle,
        /// The label it came with, also 0 where only the other policy's is not; `None`: it came with
        /// none, both were 0, or it was made here.
        wire: Option<u32>,
    },
    /// It was handed to the layer for this neighbour; our part of a split label is written.
    Handed {
        /// Which.
        bundle: Handle,
        /// To whom.
        to: PeerId,
        /// The label that travels with it.
        gave: u32,
        /// Whether a copy stays.
        keep: bool,
    },
    /// That neighbour has it.
    Sent {
        /// Which.
        bundle: Handle,
        /// Who.
        to: PeerId,
        /// The label that travelled with it.
        gave: u32,
        /// Whether a copy stays.
        keep: bool,
    },
    /// That neighbour does not have it, or had it before: the label that travelled is given back.
    Failed {
        /// Which.
        bundle: Handle,
        /// Who.
        to: PeerId,
        /// The label that came back.
        gave: u32,
        /// Whether a copy was to stay.
        keep: bool,
    },
    /// The last look: it leaves the book after this.
    Gone {
        /// Which.
        bundle: Handle,
        /// Why.
        why: Why,
    },
    /// The moment asked for with [`Action::Wake`] has come.
    Wake,
}

/// Which news a policy wants; the others are not made for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventMask(pub u16);
impl EventMask {
    /// Nothing.
    pub const NOTHING: EventMask = EventMask(0);
    /// [`PolicyEvent::Up`] and [`PolicyEvent::Down`].
    pub const PEERS: EventMask = EventMask(1);
    /// [`PolicyEvent::LinkUp`] and [`PolicyEvent::LinkDown`].
    pub const LINKS: EventMask = EventMask(1 << 1);
    /// [`PolicyEvent::Kept`].
    pub const KEPT: EventMask = EventMask(1 << 2);
    /// [`PolicyEvent::Handed`].
    pub const HANDED: EventMask = EventMask(1 << 3);
    /// [`PolicyEvent::Sent`] and [`PolicyEvent::Failed`].
    pub const OUTCOMES: EventMask = EventMask(1 << 4);
    /// [`PolicyEvent::Gone`].
    pub const GONE: EventMask = EventMask(1 << 5);
    /// Everything.
    pub const ALL: EventMask = EventMask(u16::MAX);
    /// These and those.
    pub const fn and(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }
    /// Whether this is wanted. What was asked for (messages, wake-ups) is always told.
    pub const fn wants(self, news: &PolicyEvent<'_>) -> bool {
        let class = match news {
            PolicyEvent::Up { .. } | PolicyEvent::Down { .. } => Self::PEERS,
            PolicyEvent::LinkUp { .. } | PolicyEvent::LinkDown { .. } => Self::LINKS,
            PolicyEvent::Kept { .. } => Self::KEPT,
            PolicyEvent::Handed { .. } => Self::HANDED,
            PolicyEvent::Sent { .. } | PolicyEvent::Failed { .. } => Self::OUTCOMES,
            PolicyEvent::Gone { .. } => Self::GONE,
            PolicyEvent::Heard { .. } | PolicyEvent::Wake => return true,
        };
        self.0 & class.0 != 0
    }
}

/// How a label is shared out when a copy is handed over. Where both policies let 0 travel, no labels
/// travel at all, and the receiver's [`PolicyEvent::Kept`] says `wire: None`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LabelSplit {
    /// Stays here.
    pub ours: u32,
    /// Travels.
    pub theirs: u32,
}

/// That a neighbour should get a bundle, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyOffer {
    /// Least first.
    pub rank: u64,
    /// Whether a copy stays here.
    pub keep: bool,
    /// Both labels; a policy fills in its own.
    pub labels: [LabelSplit; 2],
}
impl CopyOffer {
    /// A copy: both keep their labels as they are, nothing travels.
    pub fn copy(held: &Held, rank: u64) -> CopyOffer {
        let stays = |side: usize| LabelSplit { ours: held.labels[side], theirs: 0 };
        CopyOffer { rank, keep: true, labels: [stays(0), stays(1)] }
    }
    /// The bundle itself: it leaves with its labels.
    pub fn give(held: &Held, rank: u64) -> CopyOffer {
        let goes = |side: usize| LabelSplit { ours: 0, theirs: held.labels[side] };
        CopyOffer { rank, keep: false, labels: [goes(0), goes(1)] }
    }
    /// With this split of the asking policy's label.
    pub fn with(mut self, node: &Node<'_>, ours: u32, theirs: u32) -> CopyOffer {
        self.labels[node.side as usize] = LabelSplit { ours, theirs };
        self
    }
}

/// One way a bundle may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// Over which link.
    pub link: LinkId,
    /// Not before then (the contact's start), where the router knows.
    pub not_before: Instant,
    /// Ask again if it has not left by then (the contact's end).
    pub until: Instant,
}

/// What a router answers about a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteDecision {
    /// Keep it and offer it to neighbours as they come ([`Action`]s and `wants` decide).
    Carry,
    /// No way yet; ask again then, or when something changes.
    Wait(Instant),
    /// It belongs to this link and leaves this node over it.
    One(NextHop),
    /// A copy over each of these; the first takes the bundle itself.
    All(Vec<NextHop>),
}

/// How a router expects a bundle to fare.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeliveryEstimate {
    /// Chance that it is delivered at all, 0 to 1.
    pub chance: f64,
    /// When.
    pub arrival: Instant,
}

/// What a control may ask of a router.
pub trait DeliveryForecast {
    /// How the bundle is expected to fare from here, or given to this neighbour; `None`: the router
    /// has no idea.
    fn prospect(&self, node: &Node<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        let _ = (node, held, via);
        None
    }
    /// What the contact plan says may come to this node and leave it from now until then, some 1,024
    /// contacts at most, in no order; nothing where the router reads no plan.
    fn flows(&self, node: &Node<'_>, until: Instant) -> Vec<Flow> {
        let _ = (node, until);
        Vec::new()
    }
}

/// What a policy says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Tell the same policy at a neighbour; travels with the node's hello.
    Tell {
        /// Whom.
        to: PeerId,
        /// What.
        bytes: Vec<u8>,
    },
    /// Write the policy's label of a bundle.
    Label {
        /// Which.
        bundle: Handle,
        /// The label.
        label: u32,
    },
    /// Ask again where this bundle goes.
    Reroute(Handle),
    /// Ask again about every bundle that waits. Those in a queue stay there until their leg ends;
    /// [`Action::Reroute`] takes one out.
    RerouteAll,
    /// Ask again about bundles for this node that wait.
    RerouteTo(NodeId),
    /// Ask again what this neighbour wants.
    Reask(PeerId),
    /// Give a bundle up. It ends no custody and no delivery.
    Delete {
        /// Which.
        bundle: Handle,
        /// Why.
        why: Why,
    },
    /// Refuse this identity from now on (never bundles for this node).
    Ban {
        /// Which.
        id: u128,
    },
    /// Send a bundle to this neighbour to make room here.
    Migrate {
        /// Which.
        bundle: Handle,
        /// Whither.
        to: PeerId,
    },
    /// Send [`PolicyEvent::Wake`] then.
    Wake(Instant),
}

/// The orders of one call.
#[derive(Clone, Default, Debug)]
pub struct Actions {
    orders: Vec<Action>,
}
impl Actions {
    /// Says something.
    pub fn push(&mut self, order: Action) {
        self.orders.push(order);
    }
    /// [`Action::Tell`].
    pub fn tell(&mut self, to: PeerId, bytes: Vec<u8>) {
        self.push(Action::Tell { to, bytes });
    }
    /// [`Action::Label`].
    pub fn label(&mut self, bundle: Handle, label: u32) {
        self.push(Action::Label { bundle, label });
    }
    /// [`Action::Delete`].
    pub fn delete(&mut self, bundle: Handle, why: Why) {
        self.push(Action::Delete { bundle, why });
    }
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }
    /// What was said, in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Action> {
        self.orders.iter()
    }
    /// Takes what was said.
    pub fn drain(&mut self) -> alloc::vec::Drain<'_, Action> {
        self.orders.drain(..)
    }
}

/// Appends a number to a policy's message: eight bytes, big-endian.
pub fn put_number(message: &mut Vec<u8>, number: u64) {
    message.extend_from_slice(&number.to_be_bytes());
}
/// The numbers of a policy's message; what is left over is ignored.
pub fn numbers(message: &[u8]) -> impl Iterator<Item = u64> + '_ {
    message.as_chunks::<8>().0.iter().map(|chunk| u64::from_be_bytes(*chunk))
}

/// Bundles up to which a book looks at all of them, rather than at some it draws.
const EXACT: usize = 1024;

/// Bundles in order of their scores, the least first; of those with the same the oldest. Each costs what
/// finding one in a heap does.
pub struct Ranking<'b>(Ranked<'b>);
enum Ranked<'b> {
    /// All there are.
    Heap(BinaryHeap<Reverse<Rank>>),
    /// In the order in which they came.
    Walk(Box<dyn Iterator<Item = Handle> + 'b>),
}
/// A score as a number, the bundle's number, and the bundle.
type Rank = (i64, u64, Handle);

impl Iterator for Ranking<'_> {
    type Item = Handle;
    fn next(&mut self) -> Option<Handle> {
        match &mut self.0 {
            Ranked::Heap(heap) => heap.pop().map(|Reverse((_, _, bundle))| bundle),
            Ranked::Walk(walk) => walk.next(),
        }
    }
}

/// Where a bundle with this score stands; nowhere without, or with one that is no number.
fn rank(held: &Held, score: Option<f64>) -> Option<Rank> {
    // Adding zero makes the two zeros one; the bits of what is negative are turned around, as in
    // `f64::total_cmp`.
    let bits = (score.filter(|score| !score.is_nan())? + 0.0).to_bits().cast_signed();
    let order = bits ^ ((bits >> 63) & i64::MAX);
    Some((order, held.number, held.handle()))
}

impl Book {
    /// The bundles by score (`None`: not a candidate), each asked for once. `None` where there are more
    /// than 1,024: see [`Book::least`].
    pub fn ranking(&self, mut score: impl FnMut(&Held) -> Option<f64>) -> Option<Ranking<'_>> {
        if self.len() > EXACT {
            return None;
        }
        let ranks = self.all().filter_map(|held| rank(held, score(held)));
        Some(Ranking(Ranked::Heap(ranks.map(Reverse).collect())))
    }
    /// The same for scores that grow with the class of service first and then with the number: where all are of one
    /// class, none is looked at before its turn.
    pub fn ranking_of_newest<'b>(&'b self, mut score: impl FnMut(&Held) -> Option<f64> + 'b) -> Option<Ranking<'b>> {
        if self.len() > EXACT || !self.is_even() {
            return self.ranking(score);
        }
        let ranks = self.all().filter_map(move |held| rank(held, score(held)));
        Some(Ranking(Ranked::Walk(Box::new(ranks.map(|(_, _, bundle)| bundle)))))
    }
    /// The bundle with the least score (`None`: not a candidate): exact up to 1,024 bundles, of 64
    /// drawn ones beyond, so that it costs the same however many there are.
    pub fn least(&self, rng: &mut Rng, mut score: impl FnMut(&Held) -> Option<f64>) -> Option<Handle> {
        const DRAWN: usize = 64;
        let mut look = |held: &Held| rank(held, score(held));
        let least = if self.len() <= EXACT {
            self.all().filter_map(&mut look).min()
        } else {
            (0..DRAWN).filter_map(|_| self.draw(rng)).filter_map(&mut look).min()
        };
        least.map(|(_, _, bundle)| bundle)
    }
}
