//! Requests of attached applications: configuration, bundles to send, links, answers to deliveries.

use super::connection::{Pushed, Spool};
use super::echo::Echo;
use super::messages::{lifetime, refused, send_request};
use super::{Apps, Owner};
use farlink_aap2::decoder::Request;
use farlink_aap2::proto::{AapResponse, AapStatus, BundleAdu, BundleHeaders, ConnectionConfig, adu_flag};
use farlink_base::{Duration, EndpointId, Instant, Payload};
use farlink_bpa::app::{AdminInput, AppInput};
use farlink_stack::Input;
use std::collections::VecDeque;

impl Apps {
    /// Handles one request of a client; false ends the connection.
    pub(super) fn request(
        &mut self,
        serial: u64,
        request: Request,
        now: Instant,
        inputs: &mut VecDeque<Input>,
    ) -> bool {
        match request {
            Request::Configure(config) => {
                let goes_on = self.configure(serial, config, now, inputs);
                let refused = self.connections.get_mut(&serial).filter(|connection| connection.registration.is_none());
                if let Some(connection) = refused {
                    connection.decoder.expect_requests();
                }
                goes_on
            }
            Request::Send(adu, payload) => self.send_adu(serial, adu, payload, inputs),
            Request::Link(_) if !self.may_link => self.answer(serial, AapStatus::Unauthorized),
            Request::Link(link) => {
                let mut found = false;
                for (name, _) in self.links.iter().filter(|(_, peer)| *peer == link.peer_node_id) {
                    found = true;
                    let enabled = link.status == 3;
                    inputs.push_back(Input::Admin(AdminInput::SetLink { link: name.clone(), enabled }));
                }
                self.answer(serial, if found { AapStatus::Success } else { AapStatus::NotFound })
            }
            Request::Keepalive => self.answer(serial, AapStatus::Ack),
            Request::Response(status) => self.response(serial, status, inputs),
        }
    }
    pub(super) fn answer(&mut self, serial: u64, status: AapStatus) -> bool {
        self.answer_with(serial, AapResponse::new(status))
    }
    fn answer_with(&mut self, serial: u64, response: AapResponse) -> bool {
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.answer(response);
        }
        true
    }
    fn configure(&mut self, serial: u64, config: ConnectionConfig, now: Instant, inputs: &mut VecDeque<Input>) -> bool {
        let Some(connection) = self.connections.get_mut(&serial) else { return false };
        if connection.introduced {
            return self.answer(serial, AapStatus::InvalidRequest);
        }
        connection.keepalive = Duration::from_secs(config.keepalive_seconds.into());
        if !connection.keepalive.is_zero() {
            self.arm_keepalive(now);
        }
        if config.endpoint_id.is_empty() && config.auth_type != 0 && !config.is_subscriber {
            // Clients that only manage the forwarding table register no endpoint.
            if let Some(connection) = self.connections.get_mut(&serial) {
                connection.introduced = self.may_link;
            }
            return self.answer(serial, if self.may_link { AapStatus::Success } else { AapStatus::Unauthorized });
        }
        let Ok(endpoint) = config.endpoint_id.parse::<EndpointId>() else {
            return self.answer(serial, AapStatus::InvalidRequest);
        };
        let canonical = endpoint.canonical(&self.node_ids).unwrap_or_else(|| endpoint.clone());
        // 9758-5.7-1
        if endpoint.is_node_id() {
            // The administrative endpoint: status reports are the node's own to read (RFC 9171 4.2.5.2).
            return self.answer(serial, AapStatus::InvalidRequest);
        }
        if self.is_served(&canonical) {
            // An application there would answer in the node's place.
            return self.answer(serial, AapStatus::Unauthorized);
        }
        let shared = self.secrets.entry(canonical.clone()).or_insert_with(|| (config.secret.clone(), 0));
        if shared.0 != config.secret {
            return self.answer(serial, AapStatus::Unauthorized);
        }
        shared.1 += 1;
        let registration = config.is_subscriber.then(|| {
            let window = config.window.clamp(1, self.window_max.max(1));
            self.register(Owner::Connection(serial), endpoint, window, inputs)
        });
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.endpoint = Some(config.endpoint_id);
            connection.canonical = canonical;
            connection.introduced = true;
            connection.registration = registration;
        }
        // A subscriber is answered once it is registered.
        if registration.is_some() { true } else { self.answer(serial, AapStatus::Success) }
    }
    /// Returns whether an internal application serves this endpoint.
    pub(super) fn is_served(&self, canonical: &EndpointId) -> bool {
        let mut served = self.echo.iter().flat_map(Echo::endpoints);
        served.any(|endpoint| endpoint.canonical(&self.node_ids).as_ref() == Some(canonical))
    }
    fn send_adu(&mut self, serial: u64, adu: BundleAdu, payload: Payload, inputs: &mut VecDeque<Input>) -> bool {
        let spool = self.connections.get_mut(&serial).and_then(|connection| connection.spool.take());
        let response = match self.begin_send(serial, adu, payload, spool.as_ref(), inputs) {
            Ok(()) => return true,
            Err(response) => response,
        };
        if let Some(Spool { request, .. }) = spool {
            self.requests.remove(&request);
            inputs.push_back(Input::Unspool { request });
        }
        self.answer_with(serial, response)
    }
    /// Passes a request to the stack; an error is the status to answer.
    fn begin_send(
        &mut self,
        serial: u64,
        adu: BundleAdu,
        payload: Payload,
        spool: Option<&Spool>,
        inputs: &mut VecDeque<Input>,
    ) -> Result<(), AapResponse> {
        let refuse = |status| Err(AapResponse::new(status));
        let Some(endpoint) = self.connections.get(&serial).and_then(|c| c.endpoint.clone()) else {
            return refuse(AapStatus::InvalidRequest);
        };
        if !adu.src_eid.is_empty() && adu.src_eid != endpoint {
            return refuse(AapStatus::Unauthorized);
        }
        // Unsupported flags are refused rather than ignored: there are no dispatch rights, and no encapsulation.
        if adu.adu_flags.contains(&adu_flag::WITH_BDM_AUTH) {
            return refuse(AapStatus::Unauthorized);
        }
        if adu.adu_flags.contains(&adu_flag::BPDU) {
            return refuse(AapStatus::InvalidRequest);
        }
        let report_to = if adu.report_to_eid.is_empty() { Ok(EndpointId::Null) } else { adu.report_to_eid.parse() };
        let (Ok(source), Ok(destination), Ok(report_to)) = (endpoint.parse(), adu.dst_eid.parse(), report_to) else {
            return refuse(AapStatus::InvalidRequest);
        };
        let headers = BundleHeaders {
            src_eid: endpoint,
            dst_eid: adu.dst_eid.clone(),
            payload_length: adu.payload_length,
            lifetime_ms: lifetime(&adu),
            ..Default::default()
        };
        if let Some(reason) = spool.and_then(|spool| spool.refused) {
            return Err(refused(reason, self.disk.as_deref()));
        }
        let length = adu.payload_length;
        let bundle = send_request(&adu, (source, destination, report_to), payload);
        let owner = Owner::Connection(serial);
        let request = match spool {
            Some(spool) => self.send_as(spool.request, owner, bundle, inputs),
            None => self.send(owner, bundle, inputs),
        };
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.ask(request, length, headers);
        }
        Ok(())
    }
    fn response(&mut self, serial: u64, status: AapStatus, inputs: &mut VecDeque<Input>) -> bool {
        let Some(connection) = self.connections.get_mut(&serial) else { return false };
        match (connection.pushed.pop_front(), connection.registration) {
            (Some(Pushed::Delivery(delivery)), Some(registration)) => {
                let taken = status == AapStatus::Success;
                inputs.push_back(Input::App(AppInput::DeliveryDone { registration, delivery, taken }));
                true
            }
            (Some(Pushed::Keepalive), _) => true,
            _ => false,
        }
    }
}
