//! Echo replies to bundles too long for memory: read from disk and written back part by part, one bundle at a time.

use super::{Apps, Owner};
use farlink_base::{Payload, Refusal};
use farlink_bpa::app::{AppInput, DeliveryId, RegistrationId, RequestId, SendRequest};
use farlink_stack::Input;
use std::collections::VecDeque;

/// Bytes of one read.
const STEP: u64 = 1 << 20;

/// Reply being copied from disk to disk.
pub struct Copy {
    registration: RegistrationId,
    delivery: DeliveryId,
    request: RequestId,
    /// Reply without its payload.
    reply: SendRequest,
    /// Payload still to be read.
    rest: Payload,
    reading: bool,
    /// Bytes on their way to disk.
    flying: u64,
}

impl Apps {
    /// Starts a reply, or queues it behind others.
    pub(super) fn copy(
        &mut self,
        (registration, delivery): (RegistrationId, DeliveryId),
        mut reply: SendRequest,
        inputs: &mut VecDeque<Input>,
    ) {
        self.next += 1;
        let (request, rest) = (RequestId(self.next), std::mem::take(&mut reply.payload));
        self.requests.insert(request, Owner::Echo);
        self.copies.push_back(Copy { registration, delivery, request, reply, rest, reading: false, flying: 0 });
        self.copy_on(inputs);
    }
    /// Continues the first reply.
    fn copy_on(&mut self, inputs: &mut VecDeque<Input>) {
        let window = self.spooling.window;
        while let Some(copy) = self.copies.front_mut().filter(|copy| !copy.reading && copy.flying < window) {
            if !copy.rest.is_empty() {
                copy.reading = true;
                let part = copy.rest.split_to(STEP.min(copy.rest.len()));
                return inputs.push_back(Input::Read { delivery: copy.delivery, part });
            }
            let Some(Copy { registration, delivery, request, reply, .. }) = self.copies.pop_front() else { return };
            self.send_as(request, Owner::Echo, reply, inputs);
            inputs.push_back(Input::App(AppInput::DeliveryDone { registration, delivery, taken: true }));
        }
    }
    /// Handles a read from disk; returns whether it was for the current reply.
    pub(super) fn copy_read(
        &mut self,
        delivery: DeliveryId,
        result: &Result<Payload, Refusal>,
        inputs: &mut VecDeque<Input>,
    ) -> bool {
        let Some(copy) = self.copies.front_mut().filter(|copy| copy.delivery == delivery) else { return false };
        copy.reading = false;
        match result {
            Ok(part) => {
                copy.flying += part.len();
                let (request, source) = (copy.request, copy.reply.source.node());
                inputs.push_back(Input::Spool { request, source, part: part.clone() });
                self.copy_on(inputs);
            }
            Err(_) => {
                let request = copy.request;
                self.copy_ends(request, inputs);
            }
        }
        true
    }
    /// Records bytes of a reply that are on disk.
    pub(super) fn copy_spooled(&mut self, request: RequestId, bytes: u64, inputs: &mut VecDeque<Input>) {
        if let Some(copy) = self.copies.front_mut().filter(|copy| copy.request == request) {
            copy.flying = copy.flying.saturating_sub(bytes);
            self.copy_on(inputs);
        }
    }
    /// Drops an incomplete reply; the bundle that it answers counts as delivered.
    pub(super) fn copy_ends(&mut self, request: RequestId, inputs: &mut VecDeque<Input>) {
        let Some(at) = self.copies.iter().position(|copy| copy.request == request) else { return };
        let Some(Copy { registration, delivery, .. }) = self.copies.remove(at) else { return };
        self.requests.remove(&request);
        inputs.push_back(Input::Unspool { request });
        inputs.push_back(Input::App(AppInput::DeliveryDone { registration, delivery, taken: true }));
        self.copy_on(inputs);
    }
}
