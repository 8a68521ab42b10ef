//! Outputs of the stack for applications: registrations, results of sending, deliveries.

use super::messages::{head_of, send_response};
use super::{Apps, Owner};
use farlink_aap2::proto::AapStatus;
use farlink_base::{EndpointId, Instant, Refusal};
use farlink_bpa::app::{AppInput, AppOutput, Delivery, DeliveryId, RegistrationId};
use farlink_stack::Input;
use std::collections::VecDeque;

impl Apps {
    /// Handles an output of the stack.
    pub fn on_output(&mut self, output: AppOutput, now: Instant, inputs: &mut VecDeque<Input>) {
        match output {
            AppOutput::Registered { registration, result } => self.registered(registration, result, now, inputs),
            AppOutput::SendResult { request, result } => match self.requests.remove(&request) {
                Some(Owner::Connection(serial)) => {
                    if let Some(connection) = self.connections.get_mut(&serial) {
                        match connection.spool.as_mut().filter(|spool| spool.request == request) {
                            // The rest is read and discarded: AAP2 has no way to refuse a bundle before its end.
                            Some(spool) => (spool.refused, spool.flying) = (result.err(), 0),
                            None => {
                                let response = send_response(connection, request, result, self.disk.as_deref());
                                connection.decided(request, response);
                            }
                        }
                        self.reckon(serial);
                        self.active.push(serial);
                    }
                }
                Some(Owner::Load) => {
                    if let Some(load) = &mut self.load {
                        load.on_result(result.is_ok(), now);
                    }
                }
                Some(Owner::Gone(bytes)) => self.sending -= bytes,
                Some(Owner::Echo) => self.copy_ends(request, inputs),
                None => {}
            },
            AppOutput::Deliver { registration, delivery, bundle } => {
                self.deliver(registration, delivery, bundle, now, inputs);
            }
        }
    }
    fn registered(
        &mut self,
        registration: RegistrationId,
        result: Result<EndpointId, Refusal>,
        now: Instant,
        inputs: &mut VecDeque<Input>,
    ) {
        match self.owners.get(&registration) {
            Some(Owner::Connection(serial)) => {
                let serial = *serial;
                let status = match result {
                    Ok(_) => AapStatus::Success,
                    Err(Refusal::Unknown) => AapStatus::NotFound,
                    Err(_) => AapStatus::Error,
                };
                self.answer(serial, status);
                if result.is_ok() {
                    if let Some(connection) = self.connections.get_mut(&serial) {
                        (connection.registered, connection.heard) = (true, now);
                    }
                } else {
                    self.owners.remove(&registration);
                    if let Some(connection) = self.connections.get_mut(&serial) {
                        // The client may configure the connection again.
                        connection.registration = None;
                        connection.unconfigure(now);
                        if connection.endpoint.take().is_some() {
                            let canonical = std::mem::take(&mut connection.canonical);
                            self.release(&canonical);
                        }
                    }
                }
            }
            Some(_) => {
                if let Err(why) = result {
                    tracing::warn!("an application inside the node could not register: {why}");
                }
            }
            None => inputs.push_back(Input::App(AppInput::Unregister { registration })),
        }
    }
    fn deliver(
        &mut self,
        registration: RegistrationId,
        delivery: DeliveryId,
        bundle: Delivery,
        now: Instant,
        inputs: &mut VecDeque<Input>,
    ) {
        let done = |taken| Input::App(AppInput::DeliveryDone { registration, delivery, taken });
        match self.owners.get(&registration) {
            Some(Owner::Connection(serial)) => {
                if let Some(connection) = self.connections.get_mut(serial) {
                    connection.deliver(delivery, head_of(&bundle), &bundle.payload);
                    self.delivers = true;
                }
            }
            Some(Owner::Echo) => {
                let reply = self.echo.as_mut().and_then(|echo| echo.reply(registration, bundle, now));
                // A stored payload is copied before the delivery is reported as done: the store then deletes the
                // bundle, to whose payload the reply refers.
                if let Some(reply) = reply.as_ref().filter(|reply| reply.payload.is_stored()) {
                    return self.copy((registration, delivery), reply.clone(), inputs);
                }
                inputs.push_back(done(true));
                if let Some(reply) = reply {
                    self.send(Owner::Echo, reply, inputs);
                }
            }
            Some(Owner::Load) => {
                if let Some(load) = &mut self.load {
                    load.on_delivery(bundle.payload.len(), now);
                }
                inputs.push_back(done(true));
            }
            Some(Owner::Gone(_)) | None => inputs.push_back(done(false)),
        }
    }
}
