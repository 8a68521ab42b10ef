//! RAPID: routing as the allotment of what a meeting can carry: the copy goes first that helps most
//! by byte, to shorten delays or to keep deadlines.
//!
//! A. Balasubramanian, B. Levine, A. Venkataramani: "DTN Routing as a Resource Allocation Problem",
//! SIGCOMM 2007: utilities of 3.5, the estimate of delays of 4.1 with exponential meeting times,
//! meetings over three hops of 4.1.2, and the control channel of 4.2, here in hellos. What makes room
//! is a congestion control's to say, which may ask [`DeliveryForecast::prospect`].
//!
//! Parts: `meetings.rs` who meets whom how often, `replicas.rs` who holds what, `hello.rs` what is
//! told.

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
use hello::Queue;
use meetings::{Meetings, millis};
use replicas::{Copy, Replicas};

/// Bundles for the same destination that are looked at to find what leaves before one.
const QUEUE_LOOKED_AT: usize = 256;
/// Nodes of which is known what they were told.
const EXCHANGED_MAX: usize = 1024;
/// Delay of what nobody is expected to deliver, s.
const DELAY_MAX: f64 = 1e9;

/// A neighbour that is up.
#[derive(Debug)]
struct Neighbour {
    since: Instant,
    /// Bytes its meetings carry, as it says.
    meeting_bytes: u64,
    /// What it holds.
    queue: Queue,
    /// Expected time until it meets each node, s.
    reach: BTreeMap<NodeId, f64>,
    /// As of which change.
    reached: u64,
}

/// What was said to a node and by it, as far as the other has it.
#[derive(Clone, Copy, Default, Debug)]
struct Exchanged {
    /// Our changes, as it says.
    ours: u64,
    /// Its changes.
    theirs: u64,
}

/// Utilities by what all copies of a bundle are expected to do.
#[derive(Debug)]
pub struct Rapid {
    deadlines: bool,
    hello_max: usize,
    meeting_bytes: u64,
    /// Meetings whose bytes were measured.
    measured: u64,
    meetings: Meetings,
    replicas: Replicas,
    acks: Acks,
    /// Counts what changed in the two, from `first` on, which is another after each start.
    change: u64,
    first: u64,
    exchanged: BTreeMap<NodeId, Exchanged>,
    neighbours: BTreeMap<PeerId, Neighbour>,
    reach: BTreeMap<NodeId, f64>,
    /// As of which change.
    reached: u64,
}

/// What of a bundle's lifetime is over, ms.
fn age_ms(node: &Node<'_>, held: &Held) -> u64 {
    held.bundle.lifetime_ms.saturating_sub(held.remaining(node.now).as_millis() as u64)
}

/// One by the time, in s, until a bundle is delivered by a node that meets its destination that often
/// and hands over so many bytes each time, of which `ahead` leave before it.
fn rate(mean_s: Option<&f64>, ahead: u64, size: u64, meeting_bytes: u64) -> f64 {
    let meetings = ahead.saturating_add(size).div_ceil(meeting_bytes.max(1)).max(1);
    mean_s.map_or(0.0, |mean| 1.0 / (mean.max(1.0) * meetings as f64))
}

impl Rapid {
    /// Parameters.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "metric",
            help: "What is to be made best: 0 the mean delay, 1 how many bundles arrive within their lifetimes.",
            unit: "",
            default: 0.0,
            min: 0.0,
            max: 1.0,
        },
        Param {
            name: "metadata",
            help: "Bytes of what is told, and listened to, in one meeting at most.",
            unit: "B",
            default: 65_536.0,
            min: 1024.0,
            max: 1_000_000.0,
        },
        Param {
            name: "meeting",
            help: "Bytes that a meeting carries, until some were measured (where links have a known rate).",
            unit: "B",
            default: 1e6,
            min: 1.0,
            max: 1e15,
        },
        HEARSAY,
        TRUST,
    ];

    /// `params` are values of [`Rapid::PARAMS`].
    pub fn new(params: &[f64], seed: u64) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        Rapid {
            deadlines: param(0) >= 0.5,
            hello_max: param(1) as usize,
            meeting_bytes: param(2) as u64,
            measured: 0,
            meetings: Meetings::default(),
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

    /// What this node is expected to do for a bundle it holds, the older ones first.
    fn own_rate(&self, node: &Node<'_>, held: &Held) -> f64 {
        let (to, age) = (held.destination(), age_ms(node, held));
        let Some(mean) = self.reach.get(&to) else { return 0.0 };
        let same = node.book.to(to).take(QUEUE_LOOKED_AT).filter(|other| other.number != held.number);
        let older = |other: &&Held| (age_ms(node, other), held.number) > (age, other.number);
        let ahead = same.filter(older).map(Held::size).sum();
        rate(Some(mean), ahead, held.size(), self.meeting_bytes)
    }
    /// What a neighbour would be expected to do, had it a copy.
    fn their_rate(&self, node: &Node<'_>, peer: &Peer, held: &Held) -> f64 {
        let Some(known) = self.neighbours.get(&peer.id) else { return 0.0 };
        let (to, born_ms) = (held.destination(), millis(node.now).saturating_sub_unsigned(age_ms(node, held)));
        let ahead = known.queue.ahead(to, born_ms);
        rate(known.reach.get(&to), ahead, held.size(), known.meeting_bytes)
    }
    /// What all are expected to do but this neighbour.
    fn known_rate(&self, node: &Node<'_>, held: &Held, but: NodeId) -> f64 {
        self.own_rate(node, held) + self.replicas.rate(held.bundle.id, [node.me, but])
    }
    /// What a copy that adds so much improves.
    fn gain(&self, known: f64, more: f64, left: Duration) -> f64 {
        if self.deadlines {
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
            queue: Queue::default(),
            reach: self.meetings.reach(peer.node),
            reached: self.change,
        };
        self.neighbours.insert(peer.id, neighbour);
        out.tell(peer.id, self.hello(node, peer.node));
    }

    /// Who may be reached when from here and from a neighbour, where anything changed.
    fn reach_anew(&mut self, node: &Node<'_>, from: PeerId) {
        if self.reached != self.change {
            (self.reach, self.reached) = (self.meetings.reach(node.me), self.change);
        }
        let known = self.neighbours.get_mut(&from).filter(|known| known.reached != self.change);
        if let Some((peer, known)) = node.peers.get(from).zip(known) {
            (known.reach, known.reached) = (self.meetings.reach(peer.node), self.change);
        }
    }

    /// The mean of what meetings could carry, by rate and duration.
    fn down(&mut self, node: &Node<'_>, peer: PeerId) {
        let Some(neighbour) = self.neighbours.remove(&peer) else { return };
        let Some(rate) = node.peers.get(peer).and_then(|peer| peer.rate) else { return };
        let bytes = rate.volume_in(node.now.since(neighbour.since));
        let sum = u128::from(self.meeting_bytes) * u128::from(self.measured) + u128::from(bytes);
        self.measured += 1;
        self.meeting_bytes = ((sum / u128::from(self.measured)) as u64).max(1);
    }

    /// This neighbour has a copy now, or this node has none any more.
    fn note_copy(&mut self, node: &Node<'_>, held: &Held, holder: NodeId, rate: f64) {
        if !held.bundle.is_anonymous() && holder != NodeId::NULL {
            let copy = Copy { holder, rate, said_ms: millis(node.now) };
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
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        if let Some(id) = self.acks.hear(node, news) {
            return self.replicas.forget(id);
        }
        match *news {
            PolicyEvent::Up { peer } => {
                if let Some(peer) = node.peers.get(peer).filter(|peer| peer.node != NodeId::NULL) {
                    self.up(node, peer, out);
                }
            }
            PolicyEvent::Down { peer } => self.down(node, peer),
            PolicyEvent::Heard { from, bytes } => {
                let _ = self.heard(node, from, bytes, out);
                self.reach_anew(node, from);
                out.push(Action::Reask(from));
            }
            PolicyEvent::Sent { bundle, to, .. } => {
                if let Some((held, peer)) = node.get(bundle).zip(node.peers.get(to)) {
                    let rate = self.their_rate(node, peer, held);
                    self.note_copy(node, held, peer.node, rate);
                }
            }
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
        // The bits of what is not negative are in the order of the numbers. What helps nothing goes last.
        Some(CopyOffer::copy(held, !gain.max(0.0).to_bits()))
    }
}

#[cfg(test)]
mod tests;
