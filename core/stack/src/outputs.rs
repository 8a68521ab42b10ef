//! Translation of the outputs of agent, store and layers into work for each other, or into outputs of the stack.

use crate::arrivals::{Arrivals, Do as Arrival, Door};
use crate::edge::Edges;
use crate::io::{MessageOutput, Output};
use crate::kinds::Layer;
use crate::outgoing::{Do as Departure, Outgoing};
use crate::reads;
use crate::shards::Across;
use crate::shards::layer_owner::{CENTRE, LayerOwner, Part};
use crate::work::{Work, layer_of};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use farlink_base::layer;
use farlink_base::store;
use farlink_base::{EventClass, LayerId, Lazy, LinkId, Payload, Refusal, Sink};
use farlink_bpa::app::{AppInput, AppOutput, DeliveryId};
use farlink_bpa::{Input, OfferToken, Reading, endpoint_of};

/// Turns the actions of arrivals into work.
pub(crate) fn arrived(todo: &mut Vec<Arrival>, work: &mut VecDeque<Work>) {
    for what in todo.drain(..) {
        let (token, input) = match what {
            Arrival::Whole { token, link, rope, known, digest } => {
                work.push_back(Work::Whole { token, link, rope, known, digest });
                continue;
            }
            Arrival::Piece(token, link, kept) => {
                work.push_back(Work::Piece(token, link, kept));
                continue;
            }
            Arrival::Begins(token, link, begun) => {
                let (meta, hop) = *begun;
                work.push_back(Work::Agent(Input::Begun { link, token, bundle: meta.into(), hop: hop.into() }));
                continue;
            }
            Arrival::Malformed(token, link, error, rope) => {
                work.push_back(Work::Damaged(token, link, Box::new((error, rope))));
                continue;
            }
            Arrival::Abandoned(token) => {
                work.push_back(Work::Agent(Input::Abandoned { token }));
                continue;
            }
            Arrival::Spill { spill, quota, data } => {
                work.push_back(Work::Store(store::Input::Spill { spill, quota, data }));
                continue;
            }
            Arrival::DropSpill { spill } => {
                work.push_back(Work::Store(store::Input::DropSpill { spill }));
                continue;
            }
            Arrival::Spooled { request, bytes } => {
                work.push_back(Work::Tell(Box::new(Output::Spooled { request, bytes })));
                continue;
            }
            Arrival::Send(request, bundle) => {
                let bundle = *bundle;
                work.push_back(Work::Agent(Input::App(AppInput::Send { request, bundle })));
                continue;
            }
            Arrival::NotSent(request, reason) => {
                let result = Err(reason);
                work.push_back(Work::Tell(Box::new(Output::App(AppOutput::SendResult { request, result }))));
                continue;
            }
            Arrival::Refuse(token, reason) => (token, layer::Input::Refused { ticket: token.ticket, reason }),
            Arrival::Hold(token) => (token, layer::Input::Hold { ticket: token.ticket }),
            Arrival::Resume(token) => (token, layer::Input::Resume { ticket: token.ticket }),
        };
        work.push_back(Work::Layer(token.layer, input));
    }
}

/// Turns the actions of leaving bundles into work.
pub(crate) fn departed(todo: Vec<Departure>, work: &mut VecDeque<Work>, link_layer: &[LayerId]) {
    work.extend(todo.into_iter().map(|what| match what {
        Departure::Layer(link, input) => Work::Layer(layer_of(link_layer, link), input),
        Departure::Load { load, payload } => Work::Store(store::Input::Load { load, payload }),
        Departure::Ready { link, ready } => Work::Agent(Input::Ready { link, ready }),
        Departure::Failed { id } => Work::Agent(Input::SendFailed { id, refused: None }),
        Departure::Unreadable { id, for_good } => Work::Agent(Input::Unreadable { what: Reading::Send(id), for_good }),
    }));
}

/// Receives the outputs of the agent and the store.
pub(crate) struct Outputs<'a> {
    pub work: &'a mut VecDeque<Work>,
    pub out: &'a mut dyn Sink<Output>,
    pub link_layer: &'a [LayerId],
    pub layers: &'a [Layer],
    pub arrivals: &'a mut Lazy<Arrivals>,
}

impl Outputs<'_> {
    fn verdict(&mut self, token: OfferToken, result: Result<(), Refusal>) {
        let OfferToken { layer, ticket } = token;
        // A bundle from a tunnel has no layer; the verdict ends the delivery of its outer bundle.
        if layer == OfferToken::TUNNEL {
            let delivery = DeliveryId(ticket.0);
            return self.work.push_back(Work::Agent(Input::Judged { delivery, result }));
        }
        if matches!(self.layers.get(usize::from(layer.0)), Some(Layer::Message)) {
            return self.out.push(Output::Message(MessageOutput::Verdict { ticket, result }));
        }
        let mut todo = Vec::new();
        if let Some(arrivals) = self.arrivals.made() {
            arrivals.decided(token, &mut todo);
        }
        arrived(&mut todo, self.work);
        let input = match result {
            Ok(()) => layer::Input::Accepted { ticket },
            Err(reason) => layer::Input::Refused { ticket, reason },
        };
        self.work.push_back(Work::Layer(layer, input));
    }
    fn link(&mut self, link: LinkId, state: layer::LinkState) {
        let layer = layer_of(self.link_layer, link);
        if !state.transmit {
            self.work.push_back(Work::Down(link));
        }
        if matches!(self.layers.get(usize::from(layer.0)), Some(Layer::Message)) {
            // A link without a protocol takes bundles while it is up, unless its driver takes them one by one.
            return self.work.push_back(Work::Agent(Input::Ready { link, ready: state.transmit }));
        }
        self.work.push_back(Work::Layer(layer, layer::Input::Link { link, state }));
    }
    fn app(&mut self, output: AppOutput) {
        match &output {
            // A stored payload is read first; the application gets it in memory, or reads it part by part.
            AppOutput::Deliver { bundle, .. } if bundle.payload.is_stored() => {
                let payload = bundle.payload.clone();
                return self.work.push_back(Work::Deliver(Box::new((output, payload))));
            }
            AppOutput::SendResult { request, .. } => {
                if let Some(arrivals) = self.arrivals.made() {
                    let mut todo = Vec::new();
                    arrivals.sent(*request, &mut todo);
                    arrived(&mut todo, self.work);
                }
            }
            _ => {}
        }
        self.out.push(Output::App(output));
    }
}

impl Sink<farlink_bpa::Output> for Outputs<'_> {
    fn push(&mut self, value: farlink_bpa::Output) {
        use farlink_bpa::Output as O;
        match value {
            O::Verdict { token, result } => self.verdict(token, result),
            O::Kept { token: OfferToken { layer, ticket }, bytes } => {
                self.work.push_back(Work::Layer(layer, layer::Input::Kept { ticket, bytes }));
            }
            O::Link { link, state } => self.link(link, state),
            O::Close { link } => {
                self.work.push_back(Work::Layer(layer_of(self.link_layer, link), layer::Input::CloseLink { link }));
            }
            O::Send { link, id, bundle, hop, cut, size, reliable, lives } => {
                self.work.push_back(Work::Send(reads::Departure { link, id, bundle, hop, cut, size, reliable, lives }));
            }
            O::Cancel { link, id } => self.work.push_back(Work::Cancel(link, id)),
            O::Hello { link, content } => self.out.push(Output::Message(MessageOutput::Hello { link, content })),
            O::Waits { link } => self.out.push(Output::Message(MessageOutput::Waits { link })),
            O::Put { bundle, index, meta } => self.work.push_back(Work::Put(bundle, index, meta)),
            O::Store(input) => self.work.push_back(Work::Store(input)),
            O::App(output) => self.app(output),
            O::Open { output, bundle } => self.work.push_back(Work::Open(Box::new((output, bundle)))),
            O::Inside { token, bundle } => self.work.push_back(Work::Inside(token, bundle)),
            O::Event(event) => self.out.push(Output::Event(event)),
            O::Shutdown => {
                for layer in 0..self.layers.len() {
                    self.work.push_back(Work::Layer(LayerId(layer as u16), layer::Input::Shutdown));
                }
            }
        }
    }
    fn wants(&self, class: EventClass) -> bool {
        self.out.wants(class)
    }
}

impl Sink<store::Output> for Outputs<'_> {
    fn push(&mut self, value: store::Output) {
        match value {
            store::Output::Disk(op) => self.out.push(Output::Disk(op)),
            store::Output::Event(event) => self.out.push(Output::Event(event)),
            store::Output::Recovered { bundle, index, head, payload, tail } => {
                self.work.push_back(Work::Recover(bundle, index, Box::new((head, payload, tail))));
            }
            store::Output::Loaded { load, result } => self.work.push_back(Work::Loaded(load, result)),
            store::Output::Spilled { spill, result } => {
                let mut todo = Vec::new();
                self.arrivals.spilled(spill, result, &mut todo);
                arrived(&mut todo, self.work);
            }
            other => self.work.push_back(Work::Agent(Input::Store(other))),
        }
    }
    fn wants(&self, class: EventClass) -> bool {
        self.out.wants(class)
    }
}

/// Receives the outputs of one layer.
pub(crate) struct LayerOutputs<'a> {
    pub layer: LayerId,
    pub work: &'a mut VecDeque<Work>,
    pub out: &'a mut dyn Sink<Output>,
    pub arrivals: &'a mut Lazy<Arrivals>,
    pub outgoing: &'a mut Lazy<Outgoing>,
    pub edges: &'a mut Edges,
    pub link_layer: &'a [LayerId],
    /// Actions of arrivals; empty between calls.
    pub todo: &'a mut Vec<Arrival>,
    /// Set if other shards use the layer.
    pub owner: Option<&'a mut LayerOwner>,
}

impl LayerOutputs<'_> {
    fn offer(&mut self, token: OfferToken, link: LinkId, part: Payload, last: bool, total: Option<u64>) {
        let edges = &*self.edges;
        let door = Door { open: &|prefix| edges.begin(prefix), cut: &|meta, hop, range| edges.cut(meta, hop, range) };
        self.arrivals.part(token, link, part, last, total, door, self.todo);
        // The common case, a short bundle in one part, goes to the agent without a detour through the work list.
        if let [Arrival::Whole { rope, known: false, .. }] = &self.todo[..] {
            let owner = self.owner.as_deref().filter(|owner| owner.gives_away());
            match self.edges.arrived_unless(token, link, rope, |meta| owner.is_some_and(|owner| owner.is_central(meta)))
            {
                Some(input) => self.work.push_back(Work::Agent(input)),
                None => {
                    let part = rope.clone();
                    if let Some(owner) = self.owner.as_deref_mut() {
                        owner.give(token.ticket, part.len());
                    }
                    let offer =
                        layer::Output::Offer { ticket: token.ticket, link, part, last: true, total, reliable: true };
                    self.across(CENTRE, Across::Output(offer));
                }
            }
            return self.todo.clear();
        }
        arrived(self.todo, self.work);
    }
    pub(crate) fn across(&mut self, to: u8, what: Across) {
        self.out.push(Output::Across { to, layer: self.layer, what: Box::new(what) });
    }
    /// Distributes an output of a shared layer: messages for other shards become work, and the output for this stack
    /// is returned.
    fn shared(&mut self, value: layer::Output) -> Option<layer::Output> {
        let owner = self.owner.as_deref_mut()?;
        if let layer::Output::Offer { ticket, part, last, .. } = &value {
            // A short offer that came whole need not be read twice: `arrived_unless` finds its shard when it is
            // parsed.
            if !owner.gives_away() || (*last && part.len() <= layer::WINDOW && !owner.knows(*ticket)) {
                return Some(value);
            }
            return self.in_parts(value);
        }
        let mut others = Vec::new();
        let own = owner.on_output(value, &mut others);
        others.into_iter().for_each(|(to, what)| self.across(to, what));
        own
    }
    /// Gives an offer that comes in parts to the shard that the bundle belongs to, as soon as its head is there.
    fn in_parts(&mut self, value: layer::Output) -> Option<layer::Output> {
        let layer::Output::Offer { ticket, link, part, last, total, reliable } = value else { return Some(value) };
        let (owner, edges) = (self.owner.as_deref_mut()?, &*self.edges);
        let central = |owner: &LayerOwner, prefix: &Payload| match edges.begin(prefix) {
            Ok(opening) => opening.map(|opening| owner.is_central(&opening.meta)),
            // A bundle without a readable head belongs nowhere, so this shard refuses it.
            Err(_) => Some(false),
        };
        let (away, least, part) = match owner.part((ticket, link.is_dynamic()), part, last, central) {
            Part::Kept | Part::Dropped => return None,
            Part::Refused => {
                let refused = layer::Input::Refused { ticket, reason: Refusal::NoResources };
                self.work.push_back(Work::Layer(self.layer, refused));
                return None;
            }
            Part::Here { least, part } => (false, least, part),
            Part::Away { least, part } => (true, least, part),
        };
        let offer = layer::Output::Offer { ticket, link, part, last, total, reliable };
        let in_parts = least.map(|least| layer::Output::InParts { ticket, link, least });
        if away {
            in_parts.into_iter().chain([offer]).for_each(|said| self.across(CENTRE, Across::Output(said)));
            return None;
        }
        if let Some(least) = least {
            self.arrivals.in_parts(OfferToken { layer: self.layer, ticket }, link, least);
        }
        Some(offer)
    }
    fn ended(&mut self, id: layer::SendId) -> Option<bool> {
        self.outgoing.made().and_then(|outgoing| outgoing.ended(id))
    }
    fn ready(&mut self, link: LinkId, ready: bool) {
        let mut todo = Vec::new();
        self.outgoing.on_ready(link, ready, &mut todo);
        departed(todo, self.work, self.link_layer);
    }
    fn want(&mut self, id: layer::SendId, from: u64, len: u64) {
        let mut todo = Vec::new();
        self.outgoing.want(id, from, len, &mut todo);
        departed(todo, self.work, self.link_layer);
    }
}

impl Sink<layer::Output> for LayerOutputs<'_> {
    fn push(&mut self, mut value: layer::Output) {
        use layer::Output as O;
        let layer = self.layer;
        if self.owner.is_some() {
            let Some(own) = self.shared(value) else { return };
            value = own;
        }
        let agent = match value {
            O::Socket(output) => return self.out.push(Output::Socket(layer, output)),
            O::Event(event) => return self.out.push(Output::Event(event)),
            O::Offer { ticket, link, part, last, total, reliable: _ } => {
                return self.offer(OfferToken { layer, ticket }, link, part, last, total);
            }
            O::OfferAborted { ticket } => {
                self.arrivals.abort(OfferToken { layer, ticket }, self.todo);
                return arrived(self.todo, self.work);
            }
            O::InParts { ticket, link, least } => {
                return self.arrivals.in_parts(OfferToken { layer, ticket }, link, least);
            }
            O::Want { id, from, len, .. } => return self.want(id, from, len),
            O::SentInPart { id, bytes, .. } => Input::SentInPart { id, bytes },
            O::Sent { id, .. } => {
                self.ended(id);
                Input::Sent { id }
            }
            O::SendFailed { id, refused, .. } => match self.ended(id) {
                Some(for_good) => Input::Unreadable { what: Reading::Send(id), for_good },
                None => Input::SendFailed { id, refused },
            },
            O::Ready { link, ready } => return self.ready(link, ready),
            O::PeerUp { link, claimed, proven, node } => {
                let (claimed, proven) = (endpoint_of(claimed), endpoint_of(proven));
                Input::PeerUp { link, claimed, node, proven }
            }
            O::PeerDown { link } => {
                self.work.push_back(Work::Down(link));
                Input::PeerDown { link }
            }
        };
        self.work.push_back(Work::Agent(agent));
    }
    fn wants(&self, class: EventClass) -> bool {
        self.out.wants(class)
    }
}
