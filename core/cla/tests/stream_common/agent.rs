//! Simple agent of one side: sends each bundle until it is confirmed, and accepts each bundle once.

use super::{LINK, StreamPlan};
use farlink_base::layer::{Input, Output, SendId, Ticket};
use farlink_base::{Leaving, Payload, Refusal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub struct StreamAgent {
    side: usize,
    lengths: Vec<usize>,
    queue: VecDeque<usize>,
    failed: Vec<usize>,
    sending: BTreeMap<SendId, usize>,
    next_send: u64,
    ready: bool,
    peers: i32,
    confirmed: BTreeSet<usize>,
    offers: BTreeMap<Ticket, Payload>,
    refused: BTreeSet<Ticket>,
    stream_from: usize,
    finished: BTreeSet<Ticket>,
    accepted: BTreeMap<usize, usize>,
    pub repeated: u64,
    /// Claimed and proven node IDs of the peer, as reported, in order.
    pub met: Vec<(Option<String>, Option<String>)>,
}

impl std::fmt::Debug for StreamAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let StreamAgent { side, queue, sending, ready, confirmed, .. } = self;
        write!(f, "side {side}: {queue:?} waiting, {sending:?} under way, ready {ready}, confirmed {confirmed:?}")
    }
}

/// Contents of bundle `index` of a side; the contents of any two bundles differ, even where they are mixed up.
fn content(side: usize, index: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(index as u8)).collect();
    let name = [&[side as u8][..], &(index as u32).to_be_bytes()].concat();
    bytes.iter_mut().zip(name).for_each(|(byte, name)| *byte = name);
    bytes
}

impl StreamAgent {
    pub fn new(side: usize, plan: &StreamPlan) -> Self {
        let lengths = plan.bundles[side].clone();
        StreamAgent {
            side,
            queue: (0..lengths.len()).collect(),
            lengths,
            failed: Vec::new(),
            sending: BTreeMap::new(),
            next_send: 0,
            ready: false,
            peers: 0,
            confirmed: BTreeSet::new(),
            offers: BTreeMap::new(),
            refused: BTreeSet::new(),
            stream_from: plan.stream_from,
            finished: BTreeSet::new(),
            accepted: BTreeMap::new(),
            repeated: 0,
            met: Vec::new(),
        }
    }
    pub fn is_done(&self) -> bool {
        self.confirmed.len() == self.lengths.len()
    }
    /// Number of bundles accepted from the other side.
    pub fn accepted(&self) -> usize {
        self.accepted.len()
    }
    pub fn next_send(&mut self) -> Option<Input> {
        let index = if self.ready { self.queue.pop_front()? } else { return None };
        let id = SendId(self.next_send);
        self.next_send += 1;
        self.sending.insert(id, index);
        let bundle = Payload::from(content(self.side, index, self.lengths[index]));
        let (total, len) = (bundle.len(), self.lengths[index]);
        let part = if len > self.stream_from { bundle.slice(0, 1 + id.0 * 7919 % total) } else { bundle };
        Some(Input::Send { link: LINK, id, total, part, reliable: true, leaving: Leaving::AS_IT_IS })
    }
    /// Answers a request for bytes of a bundle; `broken`: by a read failure.
    pub fn more(&self, id: SendId, from: u64, len: u64, broken: bool) -> Input {
        let index = self.sending[&id];
        let part = Payload::from(content(self.side, index, self.lengths[index])).slice(from, len);
        assert_eq!(part.len(), len, "wanted beyond the end");
        if broken { Input::SendBroken { link: LINK, id } } else { Input::SendMore { link: LINK, id, from, part } }
    }
    pub fn on_failed(&mut self, id: SendId) {
        let index = self.sending.remove(&id).expect("a bundle that is not under way failed");
        self.failed.push(index);
    }
    pub fn retry(&mut self) {
        self.queue.extend(self.failed.drain(..));
    }
    /// Loses everything but the bundles on disk; unconfirmed bundles will be sent again.
    pub fn restart(&mut self) {
        let lost = std::mem::take(&mut self.sending);
        self.queue.extend(lost.into_values());
        self.offers.clear();
        self.refused.clear();
        self.finished.clear();
        self.ready = false;
        self.peers = 0;
    }
    /// Returns the verdict on a bundle if it is due: at the last part, or at the first part for a refusal.
    pub fn on_offer(&mut self, ticket: Ticket, part: Payload, last: bool, refuse: bool) -> Option<Input> {
        assert!(!self.finished.contains(&ticket), "{ticket:?} goes on after its end");
        if last {
            self.finished.insert(ticket);
        }
        if self.refused.contains(&ticket) {
            return None;
        }
        let begun = self.offers.contains_key(&ticket);
        let offer = self.offers.entry(ticket).or_default();
        offer.append(part);
        if refuse && !begun {
            self.refused.insert(ticket);
            return Some(Input::Refused { ticket, reason: Refusal::NoResources });
        }
        if !last {
            return None;
        }
        let bytes = self.offers.remove(&ticket)?.to_bytes().unwrap();
        let index = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
        assert_eq!(&bytes[..], content(1 - self.side, index, bytes.len()), "bundle {index} came damaged");
        // An accepted bundle is on disk from now on, even if the answer is lost.
        if self.accepted.insert(index, bytes.len()).is_some() {
            self.repeated += 1;
            return Some(Input::Refused { ticket, reason: Refusal::Duplicate });
        }
        Some(Input::Accepted { ticket })
    }
    pub fn on_output(&mut self, output: Output) {
        match output {
            Output::Sent { id, .. } => {
                let index = self.sending.remove(&id).expect("a bundle that is not under way was confirmed");
                assert!(self.confirmed.insert(index), "bundle {index} was confirmed twice");
            }
            Output::Ready { ready, .. } => {
                assert_ne!(self.ready, ready, "said twice");
                self.ready = ready;
            }
            Output::OfferAborted { ticket } => {
                assert!(self.offers.remove(&ticket).is_some(), "{ticket:?} was not open");
            }
            Output::PeerUp { claimed, proven, .. } => {
                self.peers += 1;
                self.met.push((claimed, proven));
            }
            Output::PeerDown { .. } => self.peers -= 1,
            Output::Event(_) => {}
            other => panic!("unexpected {other:?}"),
        }
        assert!((0..=1).contains(&self.peers), "peer up and down do not alternate");
    }
    /// Asserts that every bundle of the other side was accepted once and intact; if bundles may be lost, asserts it of
    /// the accepted ones.
    pub fn check_accepted(&self, lengths: &[usize], plan: &StreamPlan) {
        let came = |index: &usize| !plan.may_lose() || self.accepted.contains_key(index);
        let want: BTreeMap<usize, usize> = lengths.iter().copied().enumerate().filter(|(at, _)| came(at)).collect();
        assert_eq!(self.accepted, want, "{plan:?}");
    }
}
