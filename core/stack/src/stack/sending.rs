//! Transmissions on their way to a layer: rendered, handed over, cancelled, failed with their link.

use super::Stack;
use crate::io::{MessageOutput, Output};
use crate::kinds::Layer;
use crate::outputs::departed;
use crate::reads::{Departure, Waiting};
use crate::work::{Work, layer_of};
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::{BundleMeta, Leaving, LinkId, Payload, Sink, layer};
use farlink_bpa::Reading;

/// Maximum length of a stored fragment that is read once, into memory, for its CRC; a longer one is read twice.
const PIECE_BYTES: u64 = 16 << 20;

impl Stack {
    /// Hands a bundle to its link's layer, rendered for this hop.
    pub(super) fn send(&mut self, departure: Departure, out: &mut dyn Sink<Output>) {
        // A tunnel has no layer: the bundle becomes the payload of another one.
        if departure.link == LinkId::TUNNEL {
            let payload = departure.payload();
            // Only a payload in memory can be secured; a longer one leaves from disk unchanged.
            return match payload.is_stored() && payload.len() <= PIECE_BYTES {
                true => self.read(Waiting::Departure(departure), payload),
                false => self.render(departure, payload),
            };
        }
        let layer = layer_of(&self.link_layer, departure.link);
        let message = matches!(self.layers.get(usize::from(layer.0)), Some(Layer::Message));
        let payload = departure.payload();
        let computes = payload.is_stored() && self.edges.computes_crc(&departure.bundle, &departure.hop);
        let passing = if computes { Some(0..payload.len()) } else { None };
        // A whole bundle on disk leaves from there; a short piece is read before, for its CRC.
        match departure.cut.as_ref().or(passing.as_ref()) {
            _ if message && payload.is_stored() => self.read(Waiting::Departure(departure), payload),
            _ if message => self.send_message(departure, payload, out),
            Some(_) if payload.is_stored() && payload.len() <= PIECE_BYTES => {
                self.read(Waiting::Departure(departure), payload);
            }
            Some(cut) if payload.is_stored() => {
                let Some(piece) = self.edges.piece(&departure.bundle, &departure.hop, cut.clone()) else {
                    return self.read(Waiting::Departure(departure), payload);
                };
                if piece.wants_bytes() {
                    return self.read(Waiting::Piece(departure, piece), payload);
                }
                self.leave(&departure, piece.finish(payload).into_payload());
            }
            _ => self.render(departure, payload),
        }
    }
    pub(super) fn render(&mut self, departure: Departure, payload: Payload) {
        let Departure { link, id, bundle, hop, cut, .. } = &departure;
        let rope = self.edges.render(bundle, payload, hop, cut.clone());
        if *link == LinkId::TUNNEL {
            return self.work.push_back(Work::Agent(farlink_bpa::Input::Rendered { id: *id, rope }));
        }
        self.leave(&departure, rope);
    }
    /// Hands an encoded bundle over, in the order of its link.
    pub(super) fn leave(&mut self, departure: &Departure, rope: Payload) {
        let Departure { link, id, bundle, hop, reliable, lives: [written, expires], .. } = departure;
        let (link, id, reliable) = (*link, *id, *reliable);
        let restamp = self.edges.restamp(bundle);
        let leaving = Leaving { written: *written, age_ms: hop.age_ms, expires: *expires, restamp };
        // The common case skips the queue.
        if !rope.is_stored() && !self.outgoing.waits(link) {
            let input = layer::Input::Send { link, id, total: rope.len(), part: rope, reliable, leaving };
            return self.work.push_back(Work::Layer(layer_of(&self.link_layer, link), input));
        }
        let mut todo = Vec::new();
        self.outgoing.send(link, (id, rope), (reliable, leaving), &mut todo);
        departed(todo, &mut self.work, &self.link_layer);
    }
    /// Fails the bundles of a link that is down or removed, except those that its layer already has.
    pub(super) fn down(&mut self, link: LinkId) {
        let (mut loads, mut todo) = (Vec::new(), Vec::new());
        if let Some(reads) = self.reads.made() {
            let failed = reads.down(link, &mut loads).into_iter();
            self.work.extend(failed.map(|id| Work::Agent(farlink_bpa::Input::SendFailed { id, refused: None })));
        }
        if let Some(outgoing) = self.outgoing.made() {
            outgoing.down(link, &mut todo);
        }
        self.load(loads);
        departed(todo, &mut self.work, &self.link_layer);
    }
    /// Cancels a transmission.
    pub(super) fn cancel(&mut self, link: LinkId, id: layer::SendId, out: &mut dyn Sink<Output>) {
        // The layer must be asked only if it already has part of the bundle.
        let (mut loads, mut todo) = (Vec::new(), Vec::new());
        let here = self.reads.made().is_some_and(|reads| reads.cancel(id, &mut loads))
            || self.outgoing.made().is_some_and(|outgoing| outgoing.cancel(link, id, &mut todo));
        self.load(loads);
        departed(todo, &mut self.work, &self.link_layer);
        // A tunnel has no layer to ask: once the bundle is rendered, only the agent knows it.
        if link == LinkId::TUNNEL && !here {
            return;
        }
        let layer = layer_of(&self.link_layer, link);
        if here {
            return self.work.push_back(Work::Agent(farlink_bpa::Input::SendFailed { id, refused: None }));
        }
        if matches!(self.layers.get(usize::from(layer.0)), Some(Layer::Message)) {
            return out.push(Output::Message(MessageOutput::Cancel { link, id }));
        }
        // A layer that cannot stop goes on to the end, so its bytes are read before the store forgets them.
        self.work.push_front(Work::Rescue(id));
        self.work.push_front(Work::Layer(layer, layer::Input::CancelSend { link, id }));
    }

    /// Sends a bundle without encoding it; a piece, or a bundle with another CRC, becomes a bundle of its own.
    pub(super) fn send_message(&mut self, departure: Departure, payload: Payload, out: &mut dyn Sink<Output>) {
        let Departure { link, id, bundle, hop, cut, size, .. } = departure;
        let gets_crc = hop.crc.is_some_and(|crc| crc.all);
        let bundle = match cut {
            // Another node cannot read this one's disk.
            None if !gets_crc && bundle.payload.is_stored() => {
                Arc::new(BundleMeta { payload, ..BundleMeta::clone(&bundle) })
            }
            None if !gets_crc => bundle,
            _ => {
                let rope = self.edges.render(&bundle, payload, &hop, cut);
                let Ok((piece, _)) = self.edges.read(&rope) else {
                    // The piece is no valid bundle: nothing leaves, and the agent tries again later.
                    let what = Reading::Send(id);
                    let input = farlink_bpa::Input::Unreadable { what, for_good: false };
                    return self.work.push_back(Work::Agent(input));
                };
                Arc::new(piece)
            }
        };
        out.push(Output::Message(MessageOutput::Send { link, id, bundle, hop, size }));
    }
}
