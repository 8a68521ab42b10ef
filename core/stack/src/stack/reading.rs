//! Payloads read from the store, for transmissions, deliveries and applications.

use super::{FIRST_SEND_LOAD, Stack};
use crate::io::Output;
use crate::kinds::Layer;
use crate::outgoing::is_for_good;
use crate::outputs::departed;
use crate::reads::{Load, Waiting};
use crate::work::{Work, layer_of};
use alloc::vec::Vec;
use farlink_base::{BundleMeta, LinkId, Payload, Refusal, Sink, store};
use farlink_bpa::app::{AppOutput, RegistrationId};

/// A delivery with this payload.
fn with_payload(mut output: AppOutput, payload: Payload) -> AppOutput {
    if let AppOutput::Deliver { bundle, .. } = &mut output {
        bundle.payload = payload;
    }
    output
}

impl Stack {
    pub(super) fn read(&mut self, waiting: Waiting, payload: Payload) {
        let mut loads = Vec::new();
        self.reads.begin(waiting, payload, &mut loads);
        self.load(loads);
    }
    pub(super) fn load(&mut self, loads: Vec<Load>) {
        self.work.extend(loads.into_iter().map(|(load, payload)| Work::Store(store::Input::Load { load, payload })));
    }

    /// Takes the store's answer to a load.
    pub(super) fn loaded(&mut self, load: u64, result: Result<Payload, Refusal>, out: &mut dyn Sink<Output>) {
        if load >= FIRST_SEND_LOAD {
            let mut todo = Vec::new();
            // Numbers from `FIRST_SEND_LOAD` on belong to `Outgoing`, lower ones to `Reads`.
            self.outgoing.loaded(load, result, &mut todo);
            return departed(todo, &mut self.work, &self.link_layer);
        }
        let mut loads = Vec::new();
        let read = self.reads.loaded(load, result, &mut loads);
        self.load(loads);
        match read {
            None => {}
            Some((Waiting::Departure(departure), Ok(payload))) => {
                let layer = layer_of(&self.link_layer, departure.link);
                match self.layers.get(usize::from(layer.0)) {
                    Some(Layer::Message) if departure.link != LinkId::TUNNEL => {
                        self.send_message(departure, payload, out)
                    }
                    _ => self.render(departure, payload),
                }
            }
            Some((Waiting::Piece(departure, piece), Ok(payload))) => {
                self.leave(&departure, piece.finish(payload).into_payload());
            }
            Some((Waiting::Delivery(output, Some(bundle)), Ok(payload))) => self.open(output, &bundle, payload, out),
            Some((Waiting::Delivery(output, None), Ok(payload))) => {
                out.push(Output::App(with_payload(output, payload)))
            }
            Some((Waiting::Part(delivery), Ok(part))) => out.push(Output::Read { delivery, result: Ok(part) }),
            Some((waiting, Err(reason))) => {
                if let Waiting::Part(delivery) = &waiting {
                    out.push(Output::Read { delivery: *delivery, result: Err(reason) });
                }
                if let Some(what) = waiting.reading() {
                    let input = farlink_bpa::Input::Unreadable { what, for_good: is_for_good(reason) };
                    self.work.push_back(Work::Agent(input));
                }
            }
        }
    }

    /// Hands out a delivery if its security holds.
    pub(super) fn open(
        &mut self,
        output: AppOutput,
        bundle: &BundleMeta,
        payload: Payload,
        out: &mut dyn Sink<Output>,
    ) {
        let AppOutput::Deliver { registration, delivery, .. } = &output else { return };
        let opened = match farlink_bpa::Edge::guards(&self.edges, bundle) {
            true => self.edges.open(bundle, payload),
            false => Ok(payload),
        };
        match opened {
            Ok(payload) if *registration == RegistrationId::TUNNEL => {
                let input = farlink_bpa::Input::Outer { delivery: *delivery, payload };
                self.work.push_back(Work::Agent(input));
            }
            Ok(payload) => out.push(Output::App(with_payload(output, payload))),
            Err(reason) => {
                let input = farlink_bpa::Input::Insecure { delivery: *delivery, reason };
                self.work.push_back(Work::Agent(input));
            }
        }
    }
}
