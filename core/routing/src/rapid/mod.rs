//! RAPID: routing as allocation of the bytes that a meeting can carry: the copy with the greatest benefit per byte
//! goes first, for shorter delays or for deadlines.
//!
//! A. Balasubramanian, B. Levine, A. Venkataramani: "DTN Routing as a Resource Allocation Problem", SIGCOMM 2007:
//! utilities of 3.5, the delay estimate of 4.1 with exponential meeting times, meetings over three hops of 4.1.2, and
//! the control channel of 4.2, here in hellos. Eviction is left to a congestion control, which may ask
//! [`DeliveryForecast::prospect`].
//!
//! Parts: meeting times in `meetings.rs`, known copies in `replicas.rs`, messages in `hello.rs`.

mod hello;
mod meetings;
mod replicas;

use crate::acks::{Acks, HEARSAY, TRUST};
use crate::router::Router;
use alloc::collections::BTreeMap;
use farlink_base::{Duration, Instant, NodeId, Param, PeerId};
use farlink_book::{
    Action, Actions, CopyOffer, DeliveryEstimate, DeliveryForecast, EventMask, Held, Identity, Node, Peer, PolicyEvent,
    Why,
};
use hello::NeighbourQueue;
use meetings::{MeetingTable, millis};
use replicas::{KnownCopy, Replicas};

/// Maximum number of bundles for one destination examined to find those that leave earlier.
const QUEUE_LOOKED_AT: usize = 256;
/// Maximum number of nodes with which change counters are kept.
const EXCHANGED_MAX: usize = 1024;
/// Delay assumed if no node is expected to deliver, s.
const DELAY_MAX: f64 = 1e9;

/// A neighbour that is up.
#[derive(Debug)]
struct Neighbour {
    since: Instant,
    /// Bytes per meeting, as the neighbour reports them.
    meeting_bytes: u64,
    /// The neighbour's bundles by destination.
    queue: NeighbourQueue,
    /// Expected time until the neighbour meets each node, s.
    reach: BTreeMap<NodeId, f64>,
    /// Value of `change` for which `reach` was computed.
    reached: u64,
}

/// Change counters of an exchange with a node, as far as it was confirmed.
#[derive(Clone, Copy, Default, Debug)]
struct Exchanged {
    /// Change of this node that the other node confirmed last.
    ours: u64,
    /// Latest change of the other node that this node knows.
    theirs: u64,
}

/// Router that orders copies by their utility, given all known copies.
#[derive(Debug)]
pub struct Rapid {
    deadlines: bool,
    hello_max: usize,
    meeting_bytes: u64,
    /// Number of meetings whose bytes were measured.
    measured: u64,
    meetings: MeetingTable,
    replicas: Replicas,
    acks: Acks,
    /// Counter of changes of meetings and copies; starts at `first`, which differs after each restart.
    change: u64,
    first: u64,
    exchanged: BTreeMap<NodeId, Exchanged>,
    neighbours: BTreeMap<PeerId, Neighbour>,
    reach: BTreeMap<NodeId, f64>,
    /// Value of `change` for which `reach` was computed.
    reached: u64,
}

/// Elapsed lifetime of a bundle, ms.
fn age_ms(node: &Node<'_>, held: &Held) -> u64 {
    held.bundle.lifetime_ms.saturating_sub(held.remaining(node.now).as_millis() as u64)
}

/// Inverse of the expected time to delivery, 1/s, by a node that meets the destination once per `mean_s` and
/// transfers `meeting_bytes` each time, with `ahead` bytes in front of the bundle.
fn rate(mean_s: Option<&f64>, ahead: u64, size: u64, meeting_bytes: u64) -> f64 {
    let meetings = ahead.saturating_add(size).div_ceil(meeting_bytes.max(1)).max(1);
    mean_s.map_or(0.0, |mean| 1.0 / (mean.max(1.0) * meetings as f64))
}

impl Rapid {
    /// Parameters of the router.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "metric",
            help: "Metric to optimise: 0 the mean delay, 1 the number of bundles delivered within their lifetimes.",
            unit: "",
            default: 0.0,
            min: 0.0,
            max: 1.0,
        },
        Param {
            name: "metadata",
            help: "Most bytes of control messages sent, and read, per meeting.",
            unit: "B",
            default: 65_536.0,
            min: 1024.0,
            max: 1_000_000.0,
        },
        Param {
            name: "meeting",
            help: "Bytes per meeting, until meetings were measured (over links with a known rate).",
            unit: "B",
            default: 1e6,
            min: 1.0,
            max: 1e15,
        },
        HEARSAY,
        TRUST,
    ];

    /// RAPID with values of [`Rapid::PARAMS`]; `seed` makes the change counter differ after a restart.
    pub fn new(params: &[f64], seed: u64) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Rapid {
            deadlines: param(0) >= 0.5,
            hello_max: param(1) as usize,
            meeting_bytes: param(2) as u64,
            measured: 0,
            meetings: MeetingTable::default(),
            replicas: Replicas::default(),
            acks: Acks::new(param(3), param(4)),
            change: seed << 32,
            first: seed << 32,
            exchanged: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            reach: BTreeMap::new(),
            reached: 0,
        }
    }

    /// Delivery rate of this node for a bundle it holds, behind older ones for the same destination, 1/s.
    fn own_rate(&self, node: &Node<'_>, held: &Held) -> f64 {
        let (to, age) = (held.destination(), age_ms(node, held));
        let Some(mean) = self.reach.get(&to) else { return 0.0 };
        let same = node.book.to(to).take(QUEUE_LOOKED_AT).filter(|other| other.number != held.number);
        let older = |other: &&Held| (age_ms(node, other), held.number) > (age, other.number);
        let ahead = same.filter(older).map(Held::size).sum();
        rate(Some(mean), ahead, held.size(), self.meeting_bytes)
    }
    /// Delivery rate that a neighbour would add with a copy, 1/s.
    fn their_rate(&self, node: &Node<'_>, peer: &Peer, held: &Held) -> f64 {
        let Some(known) = self.neighbours.get(&peer.id) else { return 0.0 };
        let (to, born_ms) = (held.destination(), millis(node.now).saturating_sub_unsigned(age_ms(node, held)));
        let ahead = known.queue.ahead(to, born_ms);
        rate(known.reach.get(&to), ahead, held.size(), known.meeting_bytes)
    }
    /// Delivery rate of all known holders except `but`, 1/s.
    fn known_rate(&self, node: &Node<'_>, held: &Held, but: NodeId) -> f64 {
        self.own_rate(node, held) + self.replicas.rate(held.bundle.id, [node.me, but])
    }
    /// Benefit of a copy that adds `more` to the rate.
    fn gain(&self, known: f64, more: f64, left: Duration) -> f64 {
        if self.deadlines {
            // The chance of missing the deadline, with exponential times.
            let missed = |rate: f64| libm::exp(-rate * left.as_secs_f64());
            return missed(known) - missed(known + more);
        }
        let delay = |rate: f64| if rate > 0.0 { (1.0 / rate).min(DELAY_MAX) } else { DELAY_MAX };
        delay(known) - delay(known + more)
    }

    fn up(&mut self, node: &Node<'_>, peer: &Peer, out: &mut Actions) {
        let sure = peer.identity() >= Identity::Address;
        self.meetings.meet(node.me, node.now, (peer.node, sure), &mut self.change);
        (self.reach, self.reached) = (self.meetings.reach(node.me), self.change);
        let neighbour = Neighbour {
            since: node.now,
            meeting_bytes: self.meeting_bytes,
            queue: NeighbourQueue::default(),
            reach: self.meetings.reach(peer.node),
            reached: self.change,
        };
        self.neighbours.insert(peer.id, neighbour);
        out.tell(peer.id, self.hello(node, peer.node));
    }

    /// Recomputes the expected meeting times of this node and a neighbour, if anything changed.
    fn reach_anew(&mut self, node: &Node<'_>, from: PeerId) {
        if self.reached != self.change {
            (self.reach, self.reached) = (self.meetings.reach(node.me), self.change);
        }
        let known = self.neighbours.get_mut(&from).filter(|known| known.reached != self.change);
        if let Some((peer, known)) = node.peers.get(from).zip(known) {
            (known.reach, known.reached) = (self.meetings.reach(peer.node), self.change);
        }
    }

    /// Updates the mean bytes per meeting from a link's rate and the duration.
    fn down(&mut self, node: &Node<'_>, peer: PeerId) {
        let Some(neighbour) = self.neighbours.remove(&peer) else { return };
        let Some(rate) = node.peers.get(peer).and_then(|peer| peer.rate) else { return };
        let bytes = rate.volume_in(node.now.since(neighbour.since));
        let sum = u128::from(self.meeting_bytes) * u128::from(self.measured) + u128::from(bytes);
        self.measured += 1;
        self.meeting_bytes = ((sum / u128::from(self.measured)) as u64).max(1);
    }

    /// Records that a node now has a copy, or with rate 0 that it has none.
    fn note_copy(&mut self, node: &Node<'_>, held: &Held, holder: NodeId, rate: f64) {
        if !held.bundle.is_anonymous() && holder != NodeId::NULL {
            let copy = KnownCopy { holder, rate, said_ms: millis(node.now) };
            self.replicas.learn(held.bundle.id, copy, node.me, &mut self.change);
        }
    }
}

impl DeliveryForecast for Rapid {
    fn prospect(&self, node: &Node<'_>, held: &Held, via: Option<&Peer>) -> Option<DeliveryEstimate> {
        let rate = match via {
            Some(peer) if peer.is(held.destination()) => {
                return Some(DeliveryEstimate { chance: 1.0, arrival: node.now });
            }
            Some(peer) => self.their_rate(node, peer, held),
            None if self.acks.has(held) => 0.0,
            None => self.known_rate(node, held, NodeId::NULL),
        };
        let left = held.remaining(node.now);
        let delay = if rate > 0.0 { (1.0 / rate).min(DELAY_MAX) } else { DELAY_MAX };
        let arrival = node.now + Duration::from_nanos((delay * 1e9) as u64);
        Some(DeliveryEstimate { chance: 1.0 - libm::exp(-rate * left.as_secs_f64()), arrival })
    }
}

impl Router for Rapid {
    fn hears(&self) -> EventMask {
        EventMask::PEERS.and(EventMask::OUTCOMES).and(EventMask::GONE)
    }
    fn copies(&self) -> bool {
        true
    }
    fn asks_summaries(&self) -> bool {
        true
    }
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        // A delivered bundle needs no further copies.
        if let Some(id) = self.acks.observe(node, event) {
            return self.replicas.forget(id);
        }
        match *event {
            PolicyEvent::Up { peer } => {
                if let Some(peer) = node.peers.get(peer).filter(|peer| peer.node != NodeId::NULL) {
                    self.up(node, peer, out);
                }
            }
            PolicyEvent::Down { peer } => self.down(node, peer),
            PolicyEvent::Heard { from, bytes } => {
                let _ = self.read_hello(node, from, bytes, out);
                self.reach_anew(node, from);
                out.push(Action::Reask(from));
            }
            PolicyEvent::Sent { bundle, to, .. } => {
                if let Some((held, peer)) = node.get(bundle).zip(node.peers.get(to)) {
                    let rate = self.their_rate(node, peer, held);
                    self.note_copy(node, held, peer.node, rate);
                }
            }
            // An acknowledged bundle is forgotten as a whole.
            PolicyEvent::Gone { bundle, why } if why != Why::Acked => {
                if let Some(held) = node.get(bundle) {
                    self.note_copy(node, held, node.me, 0.0);
                }
            }
            _ => {}
        }
    }
    fn looks(&self) -> usize {
        2 * self.meetings.looks()
    }
    fn wants(&self, node: &Node<'_>, peer: &Peer, held: &Held) -> Option<CopyOffer> {
        if self.acks.has(held) {
            return None;
        }
        let (known, more) = (self.known_rate(node, held, peer.node), self.their_rate(node, peer, held));
        let gain = self.gain(known, more, held.remaining(node.now)) / held.size().max(1) as f64;
        // Bits of non-negative floats are ordered like the floats; a copy without benefit goes last.
        Some(CopyOffer::copy(held, !gain.max(0.0).to_bits()))
    }
}

#[cfg(test)]
mod tests;
