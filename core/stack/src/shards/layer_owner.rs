//! The owner's side of a layer that other shards use: their bundles wait here until the layer takes them, and offers
//! of the layer go to the shard that the bundle belongs to.

use super::{Across, HeadBudget, ShardConfig, tagged, untagged};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::layer::{Input, Output, SendId, Ticket};
use farlink_base::{BundleMeta, Facts, Instant, LinkId, NodeId, Payload};

/// Shard of all bundles that need common tables.
pub(crate) const CENTRE: u8 = 0;
/// Maximum number of bundles of other shards that a layer gets in one call; then its own agent has a turn.
const IN_TURN: usize = 8;
/// Number of first bytes of a bundle that are searched for its destination.
const HEAD: u64 = 64 << 10;

/// Function that charges a bundle of another shard to its link; if the bundle must wait, it returns the time from which
/// it may leave.
pub(crate) type Pace<'a> = &'a mut dyn FnMut(LinkId, u64) -> Option<Instant>;

/// One link of the layer.
#[derive(Debug, Default)]
struct SendLine {
    ready: bool,
    /// Whether the contact plan or the operator keeps the link down.
    down: bool,
    /// Whether the neighbour is reachable; `None`: not known yet.
    up: Option<bool>,
    /// The layer's `PeerUp` output for the open session, repeated for shards that add the link later.
    peer: Option<Box<Output>>,
    /// Bundles of other shards, in order.
    waiting: VecDeque<(u8, Input)>,
}

/// The shard that an arriving bundle belongs to.
#[derive(Debug)]
enum LinkPlace {
    /// The head is incomplete. `parts`: first bytes; `least`: minimum length of a fragment, if the bundle is kept in
    /// fragments; `look`: length at which the head is parsed next; `strange`: from an unconfigured neighbour.
    Asked { parts: Payload, least: Option<u64>, look: u64, strange: bool },
    /// This shard takes the bundle.
    Here,
    /// The bundle exceeded the budget of heads; the layer gets its refusal soon.
    Refused,
    /// Shard 0 got this many bytes of the bundle, and all of them if `ended`.
    Away { bytes: u64, ended: bool },
}

/// Handling of one part of an offer.
#[derive(Debug)]
pub(crate) enum Part {
    /// This shard takes the bundle; `part` includes the parts collected before.
    Here { least: Option<u64>, part: Payload },
    /// Shard 0 takes the bundle; `part` includes the parts collected before.
    Away { least: Option<u64>, part: Payload },
    /// The part was kept, because the head is incomplete.
    Kept,
    /// No room is left for incomplete heads; returned once for each offer, whose layer must be informed.
    Refused,
    /// The part belongs to a refused offer.
    Dropped,
}

/// The owner's record of one layer that other shards use: its links, waiting bundles and offers.
#[derive(Debug)]
pub(crate) struct LayerOwner {
    own: u8,
    count: u8,
    local: Box<[NodeId]>,
    lines: BTreeMap<LinkId, SendLine>,
    places: BTreeMap<Ticket, LinkPlace>,
    /// Memory for incomplete heads, shared with all other layers and shards.
    heads: Arc<HeadBudget>,
    /// Bytes of complete bundles offered to other shards that have no verdict yet.
    away: u64,
    /// Time at which waiting bundles may leave, if known; `None`: the layer takes none, or none wait.
    pending: Option<Instant>,
    /// Bundles of other shards that the layer has.
    under_way: u64,
    /// Bundles and bytes that the layer took since the last report, by shard and link.
    taken: Vec<(u8, LinkId, u32, u64)>,
}

impl LayerOwner {
    /// The owner of a layer of this shard with these links; `local` are the node's IDs.
    pub fn new(shard: &ShardConfig, local: Box<[NodeId]>, links: impl Iterator<Item = LinkId>) -> Self {
        let (own, count, heads) = (shard.own, shard.count, shard.heads.clone());
        let lines = links.map(|link| (link, SendLine::default())).collect();
        let (places, taken) = (BTreeMap::new(), Vec::new());
        LayerOwner { own, count, local, lines, places, heads, away: 0, pending: None, under_way: 0, taken }
    }
    /// All shards but this one.
    pub fn others(&self) -> impl Iterator<Item = u8> + use<> {
        let own = self.own;
        (0..self.count).filter(move |shard| *shard != own)
    }
    /// Bytes of whole bundles offered to other shards that have no verdict yet.
    pub fn away(&self) -> u64 {
        self.away
    }
    /// Time at which waiting bundles may leave without any further input.
    pub fn pending(&self) -> Option<Instant> {
        self.pending
    }
    /// Whether the layer has, or is to get, bundles of other shards.
    pub fn serves(&self) -> bool {
        self.under_way > 0 || self.lines.values().any(|line| !line.waiting.is_empty())
    }
    /// Repeats the state of a link for a shard that has just added it.
    pub fn repeat(&self, link: LinkId, out: &mut Vec<Across>) {
        let Some(line) = self.lines.get(&link) else { return };
        out.extend(line.peer.iter().map(|peer| Across::Output(Output::clone(peer))));
        out.push(Across::Output(Output::Ready { link, ready: line.ready }));
    }
    pub fn add(&mut self, link: LinkId) {
        self.lines.entry(link).or_default();
    }

    /// Whether a bundle belongs to shard 0, wherever it came in.
    pub fn is_central(&self, bundle: &BundleMeta) -> bool {
        // The tables of local applications, reports, custody and groups are in shard 0, so every bundle that may need
        // one of them goes there.
        let local = |node: NodeId| self.local.contains(&node);
        local(bundle.destination_node())
            || bundle.is_for_group()
            || local(bundle.source.node())
            || local(bundle.report_to().node())
            || bundle.facts.has(Facts::CUSTODY)
    }
    /// Whether arriving bundles may belong to another shard.
    pub fn gives_away(&self) -> bool {
        self.own != CENTRE
    }

    /// Takes an input that another shard has for the layer. Returns the input that the layer must get now, if any;
    /// answers for that shard go to `out`.
    pub fn take(&mut self, from: u8, input: Input, out: &mut Vec<Across>) -> Option<Input> {
        Some(match input {
            Input::Send { link, id, total, part, reliable, leaving } => {
                let bytes = part.len();
                let line = self.lines.get_mut(&link).filter(|line| !line.down && line.up != Some(false));
                let Some(line) = line else {
                    out.push(Across::Taken { link, bundles: 1, bytes });
                    out.push(Across::Output(Output::SendFailed { id, link, refused: None }));
                    return None;
                };
                let input = Input::Send { link, id: tagged(from, id), total, part, reliable, leaving };
                line.waiting.push_back((from, input));
                if line.ready {
                    self.pending = Some(Instant::ZERO);
                }
                return None;
            }
            Input::SendMore { link, id, from: at, part } => {
                Input::SendMore { link, id: tagged(from, id), from: at, part }
            }
            Input::SendBroken { link, id } => Input::SendBroken { link, id: tagged(from, id) },
            Input::CancelSend { link, id } => {
                let own = tagged(from, id);
                let waits = |line: &SendLine| line.waiting.iter().position(|(_, input)| sent(input) == Some(own));
                let place = self.lines.get_mut(&link).and_then(|line| Some((waits(line)?, line)));
                let Some((place, line)) = place else { return Some(Input::CancelSend { link, id: own }) };
                let bytes = line.waiting.remove(place).map_or(0, |(_, input)| bytes_of(&input));
                out.push(Across::Taken { link, bundles: 1, bytes });
                out.push(Across::Output(Output::SendFailed { id, link, refused: None }));
                return None;
            }
            Input::Accepted { ticket } | Input::Refused { ticket, .. } => {
                // The verdict ends the offer: the layer reports nothing more about it.
                let place = self.leave(ticket);
                let Some(LinkPlace::Away { bytes, ended }) = place else { return None };
                if ended {
                    self.away = self.away.saturating_sub(bytes);
                } else {
                    out.push(Across::Closed { ticket });
                }
                input
            }
            Input::Hold { ticket } | Input::Resume { ticket } | Input::Kept { ticket, .. } => {
                return self.places.contains_key(&ticket).then_some(input);
            }
            _ => return None,
        })
    }
    fn took(&mut self, shard: u8, link: LinkId, bytes: u64) {
        match self.taken.iter_mut().find(|(by, of, ..)| (*by, *of) == (shard, link)) {
            Some((.., bundles, all)) => (*bundles, *all) = (*bundles + 1, *all + bytes),
            None => self.taken.push((shard, link, 1, bytes)),
        }
    }
    /// Reports of bundles that the layer took, each with the shard that it is for.
    pub fn taken(&mut self) -> impl Iterator<Item = (u8, Across)> + '_ {
        self.taken.drain(..).map(|(shard, link, bundles, bytes)| (shard, Across::Taken { link, bundles, bytes }))
    }
    /// The next bundle of another shard for the layer. `None` if none may leave now, or if `given`, the number that
    /// left in this call, is at its bound. `pace` charges a bundle of this length to its link, or returns when it may
    /// leave.
    pub fn next(&mut self, given: usize, pace: Pace<'_>) -> Option<Input> {
        // The bound keeps one shard's burst from starving the owner's own bundles.
        if self.pending.is_none() || given >= IN_TURN {
            return None;
        }
        let mut later = None;
        for (link, line) in self.lines.iter_mut().filter(|(_, line)| line.ready) {
            let Some((_, Input::Send { total, .. })) = line.waiting.front() else { continue };
            // The owner's agent paces all shards together, so that they share the rate of the link.
            if let Some(at) = pace(*link, *total) {
                later = Instant::earliest([later, Some(at)]);
                continue;
            }
            let (link, (shard, input)) = (*link, line.waiting.pop_front()?);
            self.under_way += 1;
            self.took(shard, link, bytes_of(&input));
            return Some(input);
        }
        self.pending = later;
        None
    }

    /// Notes an input of this shard for the layer; bundles of other shards that can no longer leave go back by `out`.
    pub fn observe(&mut self, input: &Input, out: &mut Vec<(u8, Across)>) {
        match input {
            Input::Link { link, state } => {
                if let Some(line) = self.lines.get_mut(link) {
                    line.down = !state.transmit;
                }
                if !state.transmit {
                    self.give_back(*link, out);
                }
            }
            Input::RemoveLink { link } => {
                self.give_back(*link, out);
                self.lines.remove(link);
            }
            Input::Refused { ticket, .. } | Input::Accepted { ticket } => drop(self.leave(*ticket)),
            _ => {}
        }
    }
    /// Removes the record of an offer, and frees its share of the budget for heads.
    fn leave(&mut self, ticket: Ticket) -> Option<LinkPlace> {
        let place = self.places.remove(&ticket)?;
        if let LinkPlace::Asked { parts, strange, .. } = &place {
            self.heads.give_back(parts.len(), *strange);
        }
        Some(place)
    }
    fn give_back(&mut self, link: LinkId, out: &mut Vec<(u8, Across)>) {
        let Some(line) = self.lines.get_mut(&link) else { return };
        for (shard, input) in line.waiting.drain(..) {
            let Some((_, id)) = sent(&input).and_then(untagged) else { continue };
            out.push((shard, Across::Taken { link, bundles: 1, bytes: bytes_of(&input) }));
            out.push((shard, Across::Output(Output::SendFailed { id, link, refused: None })));
        }
    }

    /// Distributes an output of the layer: returns the part for this shard's stack, and adds the parts for others to
    /// `out`.
    pub fn on_output(&mut self, output: Output, out: &mut Vec<(u8, Across)>) -> Option<Output> {
        match output {
            Output::Ready { link, ready } => {
                // The link of an inbound neighbour may become ready before `PeerUp` introduces the neighbour.
                if ready && link.is_dynamic() {
                    self.add(link);
                }
                if let Some(line) = self.lines.get_mut(&link) {
                    line.ready = ready;
                    if ready && !line.waiting.is_empty() {
                        self.pending = Some(Instant::ZERO);
                    }
                }
                out.extend(self.others().map(|shard| (shard, Across::Output(Output::Ready { link, ready }))));
            }
            Output::PeerUp { link, .. } => {
                if link.is_dynamic() {
                    self.add(link);
                }
                if let Some(line) = self.lines.get_mut(&link) {
                    (line.up, line.peer) = (Some(true), Some(Box::new(output.clone())));
                }
                out.extend(self.others().map(|shard| (shard, Across::Output(output.clone()))));
            }
            Output::PeerDown { link } => {
                self.give_back(link, out);
                if link.is_dynamic() {
                    self.lines.remove(&link);
                } else if let Some(line) = self.lines.get_mut(&link) {
                    (line.up, line.peer) = (Some(false), None);
                }
                out.extend(self.others().map(|shard| (shard, Across::Output(Output::PeerDown { link }))));
            }
            Output::Sent { id, link } => {
                let Some((shard, id)) = untagged(id) else { return Some(output) };
                self.under_way = self.under_way.saturating_sub(1);
                out.push((shard, Across::Output(Output::Sent { id, link })));
                return None;
            }
            Output::SentInPart { id, link, bytes } => {
                let Some((shard, id)) = untagged(id) else { return Some(output) };
                out.push((shard, Across::Output(Output::SentInPart { id, link, bytes })));
                return None;
            }
            Output::SendFailed { id, link, refused } => {
                let Some((shard, id)) = untagged(id) else { return Some(output) };
                self.under_way = self.under_way.saturating_sub(1);
                out.push((shard, Across::Output(Output::SendFailed { id, link, refused })));
                return None;
            }
            Output::Want { id, link, from, len } => {
                let Some((shard, id)) = untagged(id) else { return Some(output) };
                out.push((shard, Across::Output(Output::Want { id, link, from, len })));
                return None;
            }
            Output::InParts { ticket, least, .. } if self.gives_away() => {
                let place = LinkPlace::Asked { parts: Payload::new(), least: Some(least), look: 0, strange: false };
                self.places.insert(ticket, place);
                return None;
            }
            Output::OfferAborted { ticket } => match self.leave(ticket) {
                Some(LinkPlace::Away { bytes, ended }) => {
                    self.away = self.away.saturating_sub(if ended { bytes } else { 0 });
                    out.push((CENTRE, Across::Output(output)));
                    return None;
                }
                // No agent has got any part of this bundle, so none needs to be informed.
                Some(LinkPlace::Asked { .. } | LinkPlace::Refused) => return None,
                Some(LinkPlace::Here) | None => {}
            },
            _ => {}
        }
        Some(output)
    }

    /// Takes a part of an offer that comes in several parts. `central` parses the head: whether the bundle belongs to
    /// shard 0; `None`: more bytes are needed. `strange`: the bundle comes from an unconfigured neighbour.
    pub fn part(
        &mut self,
        (ticket, strange): (Ticket, bool),
        part: Payload,
        last: bool,
        central: impl FnOnce(&Self, &Payload) -> Option<bool>,
    ) -> Part {
        let asked = LinkPlace::Asked { parts: Payload::new(), least: None, look: 0, strange };
        match self.leave(ticket).unwrap_or(asked) {
            LinkPlace::Refused => {
                self.places.insert(ticket, LinkPlace::Refused);
                Part::Dropped
            }
            LinkPlace::Here => {
                if !last {
                    self.places.insert(ticket, LinkPlace::Here);
                }
                Part::Here { least: None, part }
            }
            LinkPlace::Away { bytes, .. } => {
                self.lend(ticket, bytes, part.len(), last);
                Part::Away { least: None, part }
            }
            LinkPlace::Asked { mut parts, least, look, strange: _ } => {
                let len = parts.len() + part.len();
                let whole = (len >= look || last).then(|| {
                    let mut whole = parts.clone();
                    whole.gather(part.clone());
                    whole
                });
                let known = whole.as_ref().and_then(|whole| central(self, &whole.slice(0, HEAD)));
                let Some(parts) = whole.filter(|_| known.is_some() || last || len >= HEAD) else {
                    // The budget is shared by all layers and shards: a node has one memory.
                    if !self.heads.take(len, strange) {
                        self.places.insert(ticket, LinkPlace::Refused);
                        return Part::Refused;
                    }
                    // A few bytes must not keep alive the large buffer they came in.
                    parts.gather(part.own());
                    // Each attempt parses the head from its first byte, so the length doubles between attempts: a
                    // bundle in parts of a byte each must not cost more than others.
                    let look = if len < look { look } else { HEAD.min(2 * len) };
                    self.places.insert(ticket, LinkPlace::Asked { parts, least, look, strange });
                    return Part::Kept;
                };
                match known {
                    Some(true) => {
                        self.lend(ticket, 0, len, last);
                        Part::Away { least, part: parts }
                    }
                    // An unreadable bundle is refused by this shard.
                    Some(false) | None => {
                        if !last {
                            self.places.insert(ticket, LinkPlace::Here);
                        }
                        Part::Here { least, part: parts }
                    }
                }
            }
        }
    }
    /// Gives a bundle that came in one part to shard 0.
    pub fn give(&mut self, ticket: Ticket, bytes: u64) {
        self.lend(ticket, 0, bytes, true);
    }
    fn lend(&mut self, ticket: Ticket, before: u64, more: u64, ended: bool) {
        // Only complete bundles are counted. An incomplete one gets no verdict until its rest was read, so it must not
        // stop the layer from reading; shard 0 bounds the memory of arrivals.
        self.away += if ended { before + more } else { 0 };
        self.places.insert(ticket, LinkPlace::Away { bytes: before + more, ended });
    }
    /// Whether the layer offered this bundle before.
    pub fn knows(&self, ticket: Ticket) -> bool {
        self.places.contains_key(&ticket)
    }
}

fn sent(input: &Input) -> Option<SendId> {
    if let Input::Send { id, .. } = input { Some(*id) } else { None }
}
fn bytes_of(input: &Input) -> u64 {
    if let Input::Send { part, .. } = input { part.len() } else { 0 }
}
