//! Interface between a node and its policies: a policy's view of the node ([`Node`]), events ([`PolicyEvent`]) and
//! actions ([`Action`]). The contracts `Router` (`core/routing`) and `Control` (`core/congestion`) build on it.

use crate::book::Book;
use crate::forecast::StoreFlow;
use crate::held::{Handle, Held};
use crate::journeys::Journeys;
use crate::peers::{Peer, Peers};
use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use farlink_base::{DataRate, DeleteReason, Instant, LinkId, NodeId, PeerId, Rng};

/// One of a node's two policies; also the index of its label among a bundle's labels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Side {
    /// The router.
    Router = 0,
    /// The congestion control.
    Control = 1,
}

/// A node as its policies see it.
pub struct Node<'a> {
    /// Current time on the node's monotonic clock.
    pub now: Instant,
    /// Node number of this node.
    pub me: NodeId,
    /// The policy that is called.
    pub side: Side,
    /// Bundles the node holds.
    pub book: &'a Book,
    /// Neighbours of the node.
    pub peers: &'a Peers,
    /// Most bytes the node may hold.
    pub capacity: u64,
    /// Delivery forecast of the router; given to the control only.
    pub router: Option<&'a dyn DeliveryForecast>,
    /// Global knowledge that no real node has; given in simulations only.
    pub oracle: Option<&'a dyn Oracle>,
    /// Contact plan of the node, if it has one; given to the control only.
    pub plan: Option<&'a dyn Journeys>,
}

impl Node<'_> {
    /// The called policy's label of a bundle.
    pub fn label(&self, held: &Held) -> u32 {
        held.labels[self.side as usize]
    }
    /// Free bytes of the node's store.
    pub fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.book.bytes())
    }
    /// Fill level of the node's store, 0 to 1.
    pub fn fill(&self) -> f64 {
        if self.capacity == 0 { 1.0 } else { self.book.bytes() as f64 / self.capacity as f64 }
    }
    /// Looks up a held bundle; `None` after it left the book.
    pub fn get(&self, bundle: Handle) -> Option<&Held> {
        self.book.get(bundle)
    }
}

/// Global knowledge that no real node has. A policy that uses it is registered with `oracle: true`; an agent has an
/// oracle only if the driver gave it one, and reports its own node's events to it.
pub trait Oracle {
    /// Number of copies of a bundle in the whole network.
    fn copies(&self, id: u128) -> u64;
    /// Number of times a bundle was forwarded in the whole network.
    fn forwards(&self, id: u128) -> u64;
    /// Mean number of forwards over all bundles.
    fn mean_forwards(&self) -> f64;
    /// Number of nodes that hold or held a bundle, without its source.
    fn seen(&self, id: u128) -> u64 {
        self.forwards(id)
    }
    /// Number of nodes in the network; 0 if unknown.
    fn nodes(&self) -> u64 {
        0
    }
    /// Notes that the node now holds a bundle.
    fn kept(&mut self, id: u128) {
        let _ = id;
    }
    /// Notes that the node forwarded a bundle to a neighbour.
    fn forwarded(&mut self, id: u128) {
        let _ = id;
    }
    /// Notes that the node no longer holds a bundle.
    fn gone(&mut self, id: u128) {
        let _ = id;
    }
}

/// Cause of a bundle's departure from the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// Delivered to an application of this node.
    Delivered,
    /// Forwarded to a neighbour.
    Forwarded,
    /// Moved to a neighbour to free space here.
    Migrated(PeerId),
    /// A policy learned that the bundle was delivered elsewhere.
    Acked,
    /// Evicted in favour of another bundle.
    Overflow,
    /// Removed because no link vouches for it and a vouched bundle with the same identity arrived.
    Displaced,
    /// Deleted for another reason.
    Deleted(DeleteReason),
}
impl Why {
    /// Reason of deletion as in events and status reports; `Done` if the bundle was not given up.
    pub const fn reason(self) -> DeleteReason {
        match self {
            Why::Delivered | Why::Forwarded | Why::Migrated(_) | Why::Acked => DeleteReason::Done,
            Why::Overflow => DeleteReason::DepletedStorage,
            Why::Displaced => DeleteReason::TrafficPared,
            Why::Deleted(reason) => reason,
        }
    }
}

/// Notification to a policy. A bundle that it names can still be looked up, also in [`PolicyEvent::Gone`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PolicyEvent<'a> {
    /// A neighbour became reachable: its first link is up.
    Up {
        /// Neighbour that changed state.
        peer: PeerId,
    },
    /// A neighbour became unreachable: its last link is down.
    Down {
        /// Neighbour that changed state.
        peer: PeerId,
    },
    /// A link to a neighbour came up.
    LinkUp {
        /// Neighbour at the other end.
        peer: PeerId,
        /// Link that changed state.
        link: LinkId,
        /// Rate of the link, if known.
        rate: Option<DataRate>,
        /// Planned end of the contact, if the contact plan has one.
        until: Option<Instant>,
    },
    /// A link to a neighbour went down.
    LinkDown {
        /// Neighbour at the other end.
        peer: PeerId,
        /// Link that changed state.
        link: LinkId,
    },
    /// A message arrived from the same policy at a neighbour.
    Heard {
        /// Neighbour that sent the message.
        from: PeerId,
        /// Content in the policy's own format.
        bytes: &'a [u8],
    },
    /// A bundle entered the book.
    Kept {
        /// The new bundle.
        bundle: Handle,
        /// Label of this policy that the bundle arrived with; 0 if only the other policy's label travelled. `None` if
        /// no labels travelled (both 0), or the bundle was created here.
        wire: Option<u32>,
    },
    /// A bundle was passed to the convergence layer for a neighbour. Its entry in the book already has the labels that
    /// stay here.
    Handed {
        /// Bundle being sent.
        bundle: Handle,
        /// Neighbour that the bundle is sent to.
        to: PeerId,
        /// Part of this policy's label that travels with the bundle.
        gave: u32,
        /// Whether a copy stays here.
        keep: bool,
    },
    /// A neighbour received a bundle.
    Sent {
        /// Bundle that was sent.
        bundle: Handle,
        /// Neighbour that now has the bundle.
        to: PeerId,
        /// Part of this policy's label that travelled with the bundle.
        gave: u32,
        /// Whether a copy stays here.
        keep: bool,
    },
    /// A neighbour did not receive a bundle, or had it before: the label that travelled comes back.
    Failed {
        /// Bundle that was sent.
        bundle: Handle,
        /// Neighbour that the bundle was sent to.
        to: PeerId,
        /// Part of this policy's label that comes back.
        gave: u32,
        /// Whether a copy was to stay here.
        keep: bool,
    },
    /// A bundle leaves the book after this call.
    Gone {
        /// Bundle that leaves.
        bundle: Handle,
        /// Cause of the bundle's departure.
        why: Why,
    },
    /// The time requested with [`Action::Wake`] has come.
    Wake,
}

/// Set of events that a policy subscribes to; it gets no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventMask(pub u16);
impl EventMask {
    /// Empty set.
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
    /// Set of all events.
    pub const ALL: EventMask = EventMask(u16::MAX);
    /// Union of both sets.
    pub const fn and(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }
    /// Whether a policy with this set gets the event. Messages and wake-ups are always delivered, since a policy causes
    /// them itself.
    pub const fn wants(self, event: &PolicyEvent<'_>) -> bool {
        let class = match event {
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

/// Division of a label when a bundle or copy is passed on. If both policies let 0 travel, no labels travel at all, and
/// the receiver's [`PolicyEvent::Kept`] has `wire: None`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LabelSplit {
    /// Part that stays here.
    pub ours: u32,
    /// Part that travels.
    pub theirs: u32,
}

/// Offer of a bundle to a neighbour, with its rank and the division of its labels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyOffer {
    /// Rank in the order of sending, lowest first.
    pub rank: u64,
    /// Whether a copy stays here.
    pub keep: bool,
    /// Division of both labels; each policy sets its own.
    pub labels: [LabelSplit; 2],
}
impl CopyOffer {
    /// Offers a copy: both policies keep their labels, and nothing travels.
    pub fn copy(held: &Held, rank: u64) -> CopyOffer {
        let stays = |side: usize| LabelSplit { ours: held.labels[side], theirs: 0 };
        CopyOffer { rank, keep: true, labels: [stays(0), stays(1)] }
    }
    /// Offers the bundle itself: it leaves with both labels.
    pub fn give(held: &Held, rank: u64) -> CopyOffer {
        let goes = |side: usize| LabelSplit { ours: 0, theirs: held.labels[side] };
        CopyOffer { rank, keep: false, labels: [goes(0), goes(1)] }
    }
    /// Sets the division of the called policy's label.
    pub fn with(mut self, node: &Node<'_>, ours: u32, theirs: u32) -> CopyOffer {
        self.labels[node.side as usize] = LabelSplit { ours, theirs };
        self
    }
}

/// Next hop of a bundle: a link and the time in which the link may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHop {
    /// Outgoing link to use.
    pub link: LinkId,
    /// Earliest time of departure (the start of the contact), as far as the router knows it.
    pub not_before: Instant,
    /// End of the time in which the bundle may depart (the end of the contact); after it the router is asked again.
    pub until: Instant,
}

/// Decision of a router about a bundle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RouteDecision {
    /// Carry the bundle and offer it to neighbours as they come up; the router's `wants` and [`Action`]s decide
    /// further.
    Carry,
    /// No route yet: ask again at this time, or when something changes.
    Wait(Instant),
    /// Queue the bundle for this next hop.
    One(NextHop),
    /// Queue the bundle for the first usable next hop, and a copy for each other one.
    All(Vec<NextHop>),
}

/// Delivery estimate of a router for a bundle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeliveryEstimate {
    /// Probability of delivery, 0 to 1.
    pub chance: f64,
    /// Expected time of arrival at the destination.
    pub arrival: Instant,
}

/// Forecasts that a control may ask of a router.
pub trait DeliveryForecast {
    /// Estimates the delivery of a bundle from this node, or, with `via`, from a neighbour that it would be passed to;
    /// `None` without an estimate.
    fn prospect(&self, node: &Node<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        let _ = (node, held, via);
        None
    }
    /// Flows into and out of this node that the contact plan allows from now to `until`, from about 1,024 contacts at
    /// most, in no particular order. Empty if the router reads no plan.
    fn flows(&self, node: &Node<'_>, until: Instant) -> Vec<StoreFlow> {
        let _ = (node, until);
        Vec::new()
    }
}

/// Action requested by a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends a message to the same policy at a neighbour, with this node's next hello.
    Tell {
        /// Receiving neighbour.
        to: PeerId,
        /// Content in the policy's own format.
        bytes: Vec<u8>,
    },
    /// Writes the policy's label of a bundle.
    Label {
        /// Bundle to label.
        bundle: Handle,
        /// New value of the label.
        label: u32,
    },
    /// Takes a bundle out of its queues and asks the router again.
    Reroute(Handle),
    /// Asks the router again about every waiting bundle. Bundles that are queued for a link stay there until their next
    /// hop's time ends; [`Action::Reroute`] takes a bundle out.
    RerouteAll,
    /// Asks the router again about waiting bundles for the given node.
    RerouteTo(NodeId),
    /// Asks both policies again which bundles this neighbour should get.
    Reask(PeerId),
    /// Ends the forwarding of a bundle, and deletes it unless custody, delivery or a transmission holds it. No effect
    /// on bundles for this node.
    Delete {
        /// Bundle to delete.
        bundle: Handle,
        /// Cause to report.
        why: Why,
    },
    /// Refuses bundles of this identity from now on, except those addressed to this node.
    Ban {
        /// Identity to refuse.
        id: u128,
    },
    /// Moves a bundle to this neighbour to free space here. No effect if more than forwarding holds the bundle.
    Migrate {
        /// Bundle to move.
        bundle: Handle,
        /// Neighbour that takes the bundle.
        to: PeerId,
    },
    /// Requests a [`PolicyEvent::Wake`] at this time.
    Wake(Instant),
}

/// Actions requested in one call.
#[derive(Clone, Default, Debug)]
pub struct Actions {
    actions: Vec<Action>,
}
impl Actions {
    /// Requests an action.
    pub fn push(&mut self, action: Action) {
        self.actions.push(action);
    }
    /// Requests [`Action::Tell`]: a message to a neighbour.
    pub fn tell(&mut self, to: PeerId, bytes: Vec<u8>) {
        self.push(Action::Tell { to, bytes });
    }
    /// Requests [`Action::Label`]: a new label of a bundle.
    pub fn label(&mut self, bundle: Handle, label: u32) {
        self.push(Action::Label { bundle, label });
    }
    /// Requests [`Action::Delete`]: a bundle's deletion.
    pub fn delete(&mut self, bundle: Handle, why: Why) {
        self.push(Action::Delete { bundle, why });
    }
    /// Whether no action was requested.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }
    /// Actions in the order of their requests.
    pub fn iter(&self) -> core::slice::Iter<'_, Action> {
        self.actions.iter()
    }
    /// Takes all actions out.
    pub fn drain(&mut self) -> alloc::vec::Drain<'_, Action> {
        self.actions.drain(..)
    }
}

/// Appends a number to a policy's message: eight bytes, big-endian.
pub fn put_number(message: &mut Vec<u8>, number: u64) {
    message.extend_from_slice(&number.to_be_bytes());
}
/// Numbers of a policy's message, as [`put_number`] wrote them; trailing bytes are ignored.
pub fn numbers(message: &[u8]) -> impl Iterator<Item = u64> + '_ {
    message.as_chunks::<8>().0.iter().map(|chunk| u64::from_be_bytes(*chunk))
}

/// Most bundles of a book that are all examined; of a larger book a random sample is examined.
const EXACT: usize = 1024;

/// Iterator over bundles in ascending order of score, those with the lowest number first among equals. Each step costs
/// a heap operation at most.
pub struct Ranking<'b>(Ranked<'b>);
enum Ranked<'b> {
    /// Remaining bundles, least score on top.
    Heap(BinaryHeap<Reverse<Rank>>),
    /// Bundles in order of arrival, which is also the order of their scores.
    Walk(Box<dyn Iterator<Item = Handle> + 'b>),
}
/// Score as an integer, the bundle's number, and the bundle.
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

/// Rank of a bundle with this score; `None` without a score or if it is not a number.
fn rank(held: &Held, score: Option<f64>) -> Option<Rank> {
    // Adding zero merges the two zeros; negative numbers have their bits inverted, as in `f64::total_cmp`.
    let bits = (score.filter(|score| !score.is_nan())? + 0.0).to_bits().cast_signed();
    let order = bits ^ ((bits >> 63) & i64::MAX);
    Some((order, held.number, held.handle()))
}

impl Book {
    /// Ranks bundles by score; those with the score `None` are left out. Each bundle is scored once. Returns `None` if
    /// the book has more than 1,024 bundles: use [`Book::least`] then.
    pub fn ranking(&self, mut score: impl FnMut(&Held) -> Option<f64>) -> Option<Ranking<'_>> {
        if self.len() > EXACT {
            return None;
        }
        let ranks = self.all().filter_map(|held| rank(held, score(held)));
        Some(Ranking(Ranked::Heap(ranks.map(Reverse).collect())))
    }
    /// Like [`Book::ranking`], for scores that grow first with the class of service and then with the number: if all
    /// bundles have one class, each is scored only when the iterator reaches it.
    pub fn ranking_of_newest<'b>(&'b self, mut score: impl FnMut(&Held) -> Option<f64> + 'b) -> Option<Ranking<'b>> {
        if self.len() > EXACT || !self.is_even() {
            return self.ranking(score);
        }
        let ranks = self.all().filter_map(move |held| rank(held, score(held)));
        Some(Ranking(Ranked::Walk(Box::new(ranks.map(|(_, _, bundle)| bundle)))))
    }
    /// Bundle with the least score; those with the score `None` are left out. Exact for up to 1,024 bundles; of more,
    /// 64 are drawn at random, so that the cost stays bounded.
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
