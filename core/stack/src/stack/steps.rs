//! Executes one step of the work list: passes it to the agent, the store, a layer or the edge.

use super::Stack;
use crate::io::Output;
use crate::kinds::Layer;
use crate::outputs::{LayerOutputs, Outputs};
use crate::pieces::Kept;
use crate::reads::Waiting;
use crate::shards::{self, Across};
use crate::work::Work;
use alloc::boxed::Box;
use alloc::sync::Arc;
use farlink_base::store::{self, IndexEntry};
use farlink_base::{BundleHandle, Bytes, Event, Instant, LayerId, LinkId, Payload, Sink, StreamId, layer};
use farlink_bpa::OfferToken;

impl Stack {
    pub(super) fn step(&mut self, now: Instant, work: Work, out: &mut dyn Sink<Output>) {
        match work {
            Work::Layer(id, input) => self.step_layer(now, id, Ok(input), out),
            Work::Write(id, stream) => self.step_layer(now, id, Err(stream), out),
            Work::Agent(input) => self.step_agent(now, input, out),
            Work::Store(input) => self.step_store(now, input, out),
            Work::Whole { token, link, rope, known, digest } => {
                // The agent may have refused the bundle at its beginning, before the last part came.
                if !known || self.arrivals.awaits(token) {
                    let input = self.edges.arrived(token, link, &rope, digest);
                    self.work.push_back(Work::Agent(input));
                }
            }
            Work::Damaged(token, link, damaged) => {
                let input = self.edges.damaged(token, link, &damaged.1, damaged.0);
                self.work.push_back(Work::Agent(input));
            }
            Work::Piece(token, link, kept) => {
                let Kept { promises, encoded } = *kept;
                if let Some((bundle, hop)) = self.edges.piece_of(encoded) {
                    let (bundle, hop) = (Arc::new(bundle), Box::new(hop));
                    // The agent gets the piece at once: `Abandoned` for the same bundle may already be in the list.
                    self.step_agent(now, farlink_bpa::Input::Piece { link, token, bundle, hop, promises }, out);
                }
            }
            Work::Send(departure) => self.send(departure, out),
            Work::Deliver(read) if self.reads.stays(&read.1, self.agent.unanswered()) => out.push(Output::App(read.0)),
            Work::Deliver(read) => self.read(Waiting::Delivery(read.0, None), read.1),
            Work::Open(guarded) => {
                let (output, bundle) = *guarded;
                let payload = bundle.payload.clone();
                // A payload too long for memory cannot be checked, and is not handed out.
                match payload.is_stored() && !self.reads.exceeds(&payload) {
                    true => self.read(Waiting::Delivery(output, Some(bundle)), payload),
                    false => self.open(output, &bundle, payload, out),
                }
            }
            Work::Inside(token, rope) => {
                let input = self.edges.arrived(token, LinkId::TUNNEL, &rope, 0);
                self.work.push_back(Work::Agent(input));
            }
            Work::Tell(what) => out.push(*what),
            Work::Cancel(link, id) => self.cancel(link, id, out),
            Work::Rescue(id) => {
                if let Some((load, payload)) = self.outgoing.made().and_then(|outgoing| outgoing.rescue(id)) {
                    self.step_store(now, store::Input::Load { load, payload }, out);
                }
            }
            Work::Down(link) => self.down(link),
            Work::Put(bundle, index, meta) => {
                let (head, tail) = self.edges.around(&meta);
                let payload = meta.payload.clone();
                self.step_store(now, store::Input::Put { bundle, index: Box::new(index), head, payload, tail }, out);
            }
            Work::Recover(bundle, index, parts) => {
                let (head, payload, tail) = *parts;
                self.recover(now, bundle, *index, &head, payload, &tail, out);
            }
            Work::Loaded(load, result) => self.loaded(load, result, out),
            Work::Across(id, from, what) => self.step_across(now, id, from, *what, out),
        }
    }

    fn step_agent(&mut self, now: Instant, input: farlink_bpa::Input, out: &mut dyn Sink<Output>) {
        let Stack { agent, edges, work, link_layer, layers, arrivals, .. } = self;
        agent.handle(now, input, edges, &mut Outputs { work, out, link_layer, layers, arrivals });
    }

    fn step_store(&mut self, now: Instant, input: store::Input, out: &mut dyn Sink<Output>) {
        let Stack { store, work, link_layer, layers, arrivals, .. } = self;
        store.handle(now, input, &mut Outputs { work, out, link_layer, layers, arrivals });
    }

    /// Gives a layer an input, or has it write the bytes waiting for a stream.
    fn step_layer(
        &mut self,
        now: Instant,
        id: LayerId,
        input: Result<layer::Input, StreamId>,
        out: &mut dyn Sink<Output>,
    ) {
        let Stack { agent, layers, work, arrivals, outgoing, edges, link_layer, todo, .. } = self;
        let refused = match &input {
            Ok(layer::Input::Refused { ticket, .. }) => Some(OfferToken { layer: id, ticket: *ticket }),
            _ => None,
        };
        let Some(layer) = layers.get_mut(usize::from(id.0)) else { return };
        let outputs =
            &mut LayerOutputs { layer: id, work, out, arrivals, outgoing, edges, link_layer, todo, owner: None };
        let waits = match (layer, input) {
            (Layer::Shared(shared), input) => {
                shards::steps::on_input(now, shared, input, &mut |link, size| agent.pace(now, link, size), outputs);
                None
            }
            (Layer::Remote(remote), Ok(input)) => {
                shards::steps::step_remote(remote, Ok(input), outputs);
                None
            }
            (layer, Ok(input)) => layer.handle_soon(now, input, outputs),
            (layer, Err(stream)) => {
                layer.write(now, stream, outputs);
                None
            }
        };
        // Writes go behind the work in the list, so that further bundles for the same stream join them.
        self.work.extend(waits.map(|stream| Work::Write(id, stream)));
        if let Some(token) = refused {
            self.arrivals.refused(token);
        }
    }

    /// Takes a message of another shard about a layer, owned by this shard or by the other.
    fn step_across(&mut self, now: Instant, id: LayerId, from: u8, what: Across, out: &mut dyn Sink<Output>) {
        let Stack { agent, layers, work, arrivals, outgoing, edges, link_layer, todo, .. } = self;
        let Some(layer) = layers.get_mut(usize::from(id.0)) else { return };
        let outputs =
            &mut LayerOutputs { layer: id, work, out, arrivals, outgoing, edges, link_layer, todo, owner: None };
        match (layer, what) {
            (Layer::Shared(shared), Across::Input(input)) => {
                shards::steps::on_shard_input(
                    now,
                    shared,
                    (from, input),
                    &mut |link, size| agent.pace(now, link, size),
                    outputs,
                );
            }
            (Layer::Shared(shared), Across::Known { link }) => {
                shards::steps::repeat_state(&shared.owner, (from, link), outputs);
            }
            (Layer::Remote(remote), what) if remote.owner() == from => {
                shards::steps::step_remote(remote, Err(what), outputs);
            }
            _ => {}
        }
    }

    fn recover(
        &mut self,
        now: Instant,
        bundle: BundleHandle,
        index: IndexEntry,
        head: &Bytes,
        payload: Payload,
        tail: &Bytes,
        out: &mut dyn Sink<Output>,
    ) {
        // The agent gets the bundle at once: a `Work::Agent` with `Opened`, which ends recovery, may already be in
        // the list.
        match self.edges.read_parts(head, payload, tail) {
            Ok((meta, hop)) => {
                let meta = farlink_base::BundleMeta { digest: index.digest, ..meta };
                let (meta, hop) = (Arc::new(meta), Box::new(hop));
                self.step_agent(now, farlink_bpa::Input::Recovered { bundle, index, meta, hop }, out);
            }
            Err(error) => {
                out.push(Output::Event(Event::Malformed { link: None, offset: error.offset, reason: error.reason }));
                // A record that no codec can read, as after a version was switched off, would otherwise stay for
                // ever.
                self.work.push_back(Work::Store(store::Input::Delete { bundle, remember: None }));
            }
        }
    }
}
