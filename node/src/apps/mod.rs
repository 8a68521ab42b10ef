//! Applications of a node: those attached over AAP2, and those inside the node (echo, load).
//!
//! They live in the thread that owns the stack; nothing here decides about bundles.

mod connection;
mod echo;
pub mod load;

use crate::buffers::Buffers;
use crate::config::AppSettings;
use connection::{AppSocket, Connection, Owed, Pushed};
use echo::Echo;
use farlink_aap2::decoder::Request;
use farlink_aap2::proto::{AapResponse, BundleAdu, BundleHeaders, ConnectionConfig, Status, adu_flag};
use farlink_base::{BundleId, EndpointId, Facts};
use farlink_base::{Duration, Instant, Payload, Priority, Refusal};
use farlink_bpa::app::{AdminInput, AppInput, AppOutput, Delivery, DeliveryId, RegistrationId, RequestId, SendRequest};
use farlink_os::poll::{Poller, Readiness};
use farlink_stack::Input;
use load::Load;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

/// Lifetime of bundles whose application names none: a day, as µD3TN does.
pub const DEFAULT_LIFETIME_MS: u64 = 86_400_000;
/// Deliveries a subscriber may have unanswered, however many it asks for.
const WINDOW_MAX: u32 = 4096;

/// All applications.
pub struct Apps {
    node_id: EndpointId,
    payload_max: u64,
    links: Vec<(String, String)>,
    listeners: Vec<Listener>,
    socket_file: Option<PathBuf>,
    connections: HashMap<u64, Connection>,
    serial: u64,
    secrets: HashMap<String, (String, u32)>,
    owners: HashMap<RegistrationId, Owner>,
    requests: HashMap<RequestId, Owner>,
    next: u64,
    active: Vec<u64>,
    echo: Option<Echo>,
    load: Option<Load>,
    keepalive_at: Option<Instant>,
}

/// Who a registration or request belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Connection(u64),
    Echo,
    Load,
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Low bit patterns of the serials of listeners.
const LISTENER: u64 = 1 << 40;

impl Apps {
    /// Opens the application sockets and starts the applications inside the node.
    ///
    /// # Errors
    /// Which socket cannot be opened.
    pub fn new(settings: &AppSettings, node_ids: &[EndpointId], payload_max: u64) -> io::Result<Apps> {
        let mut listeners = Vec::new();
        if let Some(path) = &settings.socket {
            let listener = farlink_os::stream::listen_unix(path, settings.socket_mode).map_err(|why| {
                io::Error::new(why.kind(), format!("application socket {}: {why}{}", path.display(), crate::hint(&why)))
            })?;
            listeners.push(Listener::Unix(listener));
        }
        if let Some(at) = &settings.listen {
            let listener = farlink_os::stream::listen(at).map_err(|why| {
                io::Error::new(why.kind(), format!("application socket {at}: {why}{}", crate::hint(&why)))
            })?;
            listeners.push(Listener::Tcp(listener));
        }
        Ok(Apps {
            node_id: node_ids.first().cloned().unwrap_or(EndpointId::Null),
            payload_max,
            links: Vec::new(),
            listeners,
            socket_file: settings.socket.clone(),
            connections: HashMap::new(),
            serial: 0,
            secrets: HashMap::new(),
            owners: HashMap::new(),
            requests: HashMap::new(),
            next: 0,
            active: Vec::new(),
            echo: settings.echo.then(|| Echo::new(node_ids, settings.echo_rate)),
            load: None,
            keepalive_at: None,
        })
    }
    /// Adds the load generator or sink.
    pub fn set_load(&mut self, load: Load) {
        self.load = Some(load);
    }
    /// What the load did.
    pub fn load(&self) -> Option<&Load> {
        self.load.as_ref()
    }
    /// Watches the listening sockets.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn watch(&self, poller: &Poller, tag: u64) -> io::Result<()> {
        self.listeners.iter().enumerate().try_for_each(|(i, listener)| match listener {
            Listener::Unix(socket) => poller.add(socket, tag | LISTENER | i as u64),
            Listener::Tcp(socket) => poller.add(socket, tag | LISTENER | i as u64),
        })
    }
    /// Registers the applications inside the node.
    pub fn start(&mut self, now: Instant, inputs: &mut VecDeque<Input>) {
        if let Some(mut echo) = self.echo.take() {
            for endpoint in echo.endpoints() {
                let registration = self.register(Owner::Echo, endpoint.clone(), echo::WINDOW, inputs);
                echo.registered(registration, endpoint);
            }
            self.echo = Some(echo);
        }
        if let Some(mut load) = self.load.take() {
            if let Some(endpoint) = load.sink_endpoint(&self.node_id) {
                self.register(Owner::Load, endpoint, load::WINDOW, inputs);
            }
            load.start(now);
            self.load = Some(load);
        }
    }
    fn register(
        &mut self,
        owner: Owner,
        endpoint: EndpointId,
        window: u32,
        inputs: &mut VecDeque<Input>,
    ) -> RegistrationId {
        self.next += 1;
        let registration = RegistrationId(self.next);
        self.owners.insert(registration, owner);
        inputs.push_back(Input::App(AppInput::Register { registration, endpoint, window }));
        registration
    }
    fn send(&mut self, owner: Owner, bundle: SendRequest, inputs: &mut VecDeque<Input>) -> RequestId {
        self.next += 1;
        let request = RequestId(self.next);
        self.requests.insert(request, owner);
        inputs.push_back(Input::App(AppInput::Send { request, bundle }));
        request
    }

    /// Whether the next turn has work without waiting for the kernel.
    pub fn busy(&self) -> bool {
        !self.active.is_empty()
    }
    /// When [`Apps::expire`] must be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        let load = self.load.as_ref().and_then(Load::next_timeout);
        [self.keepalive_at, load].into_iter().flatten().min()
    }
    /// The kernel reports on a socket.
    pub fn on_ready(&mut self, serial: u64, ready: Readiness, now: Instant, watch: (&Poller, u64)) {
        if serial & LISTENER != 0 {
            self.accept((serial & !LISTENER) as usize, now, watch);
        } else if let Some(connection) = self.connections.get_mut(&serial) {
            connection.on_ready(ready);
            self.active.push(serial);
        }
    }
    fn accept(&mut self, listener: usize, now: Instant, (poller, tag): (&Poller, u64)) {
        loop {
            let socket = match self.listeners.get(listener) {
                Some(Listener::Unix(listener)) => listener.accept().map(|(socket, _)| AppSocket::Unix(socket)),
                Some(Listener::Tcp(listener)) => listener.accept().map(|(socket, _)| AppSocket::Tcp(socket)),
                None => return,
            };
            let Ok(socket) = socket else { return };
            let ready = match &socket {
                AppSocket::Unix(socket) => socket.set_nonblocking(true),
                AppSocket::Tcp(socket) => socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)),
            };
            self.serial += 1;
            if ready.and_then(|()| poller.add(&socket, tag | self.serial)).is_ok() {
                let greeted = Connection::new(socket, &self.node_id.to_string(), self.payload_max, now);
                self.connections.insert(self.serial, greeted);
                self.active.push(self.serial);
            }
        }
    }

    /// Reads from and answers the applications that have something.
    pub fn turn(&mut self, now: Instant, buffers: &mut Buffers, inputs: &mut VecDeque<Input>) {
        for serial in std::mem::take(&mut self.active) {
            let Some(connection) = self.connections.get_mut(&serial) else { continue };
            let mut gone = connection.wants_read() && connection.read(buffers, now);
            while let Some(request) = self.connections.get_mut(&serial).and_then(|c| c.decoder.request()) {
                gone |= !self.request(serial, request, now, inputs);
            }
            if gone {
                self.close(serial, inputs);
            } else if self.connections.get(&serial).is_some_and(Connection::wants_read) {
                self.active.push(serial);
            }
        }
    }
    /// Writes what waits for applications, at the end of a turn.
    pub fn flush(&mut self, inputs: &mut VecDeque<Input>) {
        let gone: Vec<_> = self
            .connections
            .iter_mut()
            .filter_map(|(serial, connection)| (connection.wants_write() && connection.write()).then_some(*serial))
            .collect();
        for serial in gone {
            self.close(serial, inputs);
        }
    }
    /// Keepalives and the load's schedule. `in_node` is how many bundles the node holds.
    pub fn expire(&mut self, now: Instant, in_node: u64, inputs: &mut VecDeque<Input>) {
        if self.keepalive_at.is_some_and(|at| at <= now) {
            self.keepalive_at = None;
            let gone: Vec<_> =
                self.connections.iter_mut().filter_map(|(s, c)| c.check_keepalive(now).then_some(*s)).collect();
            gone.into_iter().for_each(|serial| self.close(serial, inputs));
            self.arm_keepalive(now);
        }
        if let Some(mut load) = self.load.take() {
            while let Some(bundle) = load.next(now, in_node, &self.node_id) {
                self.send(Owner::Load, bundle, inputs);
            }
            self.load = Some(load);
        }
    }
    /// The links there are: (name, peer) of each.
    pub fn set_links(&mut self, links: Vec<(String, String)>) {
        self.links = links;
    }
    fn arm_keepalive(&mut self, now: Instant) {
        let shortest = self.connections.values().map(|c| c.keepalive).filter(|k| !k.is_zero()).min();
        self.keepalive_at = shortest.map(|interval| now + interval / 2);
    }

    /// One request of a client; false ends the connection.
    fn request(&mut self, serial: u64, request: Request, now: Instant, inputs: &mut VecDeque<Input>) -> bool {
        match request {
            Request::Configure(config) => self.configure(serial, config, now, inputs),
            Request::Send(adu, payload) => self.send_adu(serial, adu, payload, inputs),
            Request::Link(link) => {
                let mut found = false;
                for (name, _) in self.links.iter().filter(|(_, peer)| *peer == link.peer_node_id) {
                    found = true;
                    let enabled = link.status == 3;
                    inputs.push_back(Input::Admin(AdminInput::SetLink { link: name.clone(), enabled }));
                }
                self.answer(serial, if found { Status::Success } else { Status::NotFound })
            }
            Request::Keepalive => self.answer(serial, Status::Ack),
            Request::Response(status) => self.response(serial, status, inputs),
        }
    }
    fn answer(&mut self, serial: u64, status: Status) -> bool {
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.answer(status);
        }
        true
    }
    fn configure(&mut self, serial: u64, config: ConnectionConfig, now: Instant, inputs: &mut VecDeque<Input>) -> bool {
        let Some(connection) = self.connections.get_mut(&serial) else { return false };
        if connection.endpoint.is_some() {
            return self.answer(serial, Status::InvalidRequest);
        }
        connection.keepalive = Duration::from_secs(config.keepalive_seconds.into());
        if !connection.keepalive.is_zero() {
            self.arm_keepalive(now);
        }
        if config.endpoint_id.is_empty() && config.auth_type != 0 && !config.is_subscriber {
            // A client of the forwarding table needs no endpoint.
            return self.answer(serial, Status::Success);
        }
        let Ok(endpoint) = config.endpoint_id.parse::<EndpointId>() else {
            return self.answer(serial, Status::InvalidRequest);
        };
        if endpoint.is_node_id() {
            // The administrative endpoint: status reports are the node's own to read (RFC 9171 4.2.5.2).
            return self.answer(serial, Status::InvalidRequest);
        }
        let shared = self.secrets.entry(config.endpoint_id.clone()).or_insert_with(|| (config.secret.clone(), 0));
        if shared.0 != config.secret {
            return self.answer(serial, Status::Unauthorized);
        }
        shared.1 += 1;
        let registration = config.is_subscriber.then(|| {
            let window = config.window.clamp(1, WINDOW_MAX);
            self.register(Owner::Connection(serial), endpoint, window, inputs)
        });
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.endpoint = Some(config.endpoint_id);
            connection.registration = registration;
        }
        // A subscriber hears when its registration stands.
        if registration.is_some() { true } else { self.answer(serial, Status::Success) }
    }
    fn send_adu(&mut self, serial: u64, adu: BundleAdu, payload: Payload, inputs: &mut VecDeque<Input>) -> bool {
        let Some(endpoint) = self.connections.get(&serial).and_then(|c| c.endpoint.clone()) else {
            return self.answer(serial, Status::InvalidRequest);
        };
        if !adu.src_eid.is_empty() && adu.src_eid != endpoint {
            return self.answer(serial, Status::Unauthorized);
        }
        let report_to = if adu.report_to_eid.is_empty() { Ok(EndpointId::Null) } else { adu.report_to_eid.parse() };
        let (Ok(source), Ok(destination), Ok(report_to)) = (endpoint.parse(), adu.dst_eid.parse(), report_to) else {
            return self.answer(serial, Status::InvalidRequest);
        };
        let headers = BundleHeaders {
            src_eid: endpoint,
            dst_eid: adu.dst_eid.clone(),
            payload_length: payload.len(),
            lifetime_ms: lifetime(&adu),
            ..Default::default()
        };
        let length = payload.len();
        let bundle = send_request(&adu, (source, destination, report_to), payload);
        let request = self.send(Owner::Connection(serial), bundle, inputs);
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.owed.push_back(Owed::Request(request, length, headers));
        }
        true
    }
    fn response(&mut self, serial: u64, status: Status, inputs: &mut VecDeque<Input>) -> bool {
        let Some(connection) = self.connections.get_mut(&serial) else { return false };
        match (connection.pushed.pop_front(), connection.registration) {
            (Some(Pushed::Delivery(delivery)), Some(registration)) => {
                let taken = status == Status::Success;
                inputs.push_back(Input::App(AppInput::DeliveryDone { registration, delivery, taken }));
                true
            }
            (Some(Pushed::Keepalive), _) => true,
            _ => false,
        }
    }

    /// What the stack tells applications.
    pub fn on_output(&mut self, output: AppOutput, now: Instant, inputs: &mut VecDeque<Input>) {
        match output {
            AppOutput::Registered { registration, result } => self.registered(registration, result, inputs),
            AppOutput::SendResult { request, result } => match self.requests.remove(&request) {
                Some(Owner::Connection(serial)) => {
                    if let Some(connection) = self.connections.get_mut(&serial) {
                        let response = send_response(connection, request, result);
                        connection.decided(request, response);
                        self.active.push(serial);
                    }
                }
                Some(Owner::Load) => {
                    if let Some(load) = &mut self.load {
                        load.on_result(result.is_ok(), now);
                    }
                }
                Some(Owner::Echo) | None => {}
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
        inputs: &mut VecDeque<Input>,
    ) {
        match self.owners.get(&registration) {
            Some(Owner::Connection(serial)) => {
                let serial = *serial;
                let status = if result.is_ok() { Status::Success } else { Status::Error };
                self.answer(serial, status);
                if result.is_err() {
                    self.owners.remove(&registration);
                    if let Some(connection) = self.connections.get_mut(&serial) {
                        connection.registration = None;
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
                }
            }
            Some(Owner::Echo) => {
                let reply = self.echo.as_mut().and_then(|echo| echo.reply(registration, bundle, now));
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
            None => inputs.push_back(done(false)),
        }
    }
    fn close(&mut self, serial: u64, inputs: &mut VecDeque<Input>) {
        let Some(connection) = self.connections.remove(&serial) else { return };
        if let Some(registration) = connection.registration {
            self.owners.remove(&registration);
            inputs.push_back(Input::App(AppInput::Unregister { registration }));
        }
        if let Some(endpoint) = connection.endpoint {
            if let Some(shared) = self.secrets.get_mut(&endpoint) {
                shared.1 -= 1;
                if shared.1 == 0 {
                    self.secrets.remove(&endpoint);
                }
            }
        }
    }
}

impl Drop for Apps {
    fn drop(&mut self) {
        if let Some(path) = &self.socket_file {
            farlink_os::stream::remove_socket(path);
        }
    }
}

fn lifetime(adu: &BundleAdu) -> u64 {
    if adu.lifetime_ms == 0 { DEFAULT_LIFETIME_MS } else { adu.lifetime_ms }
}

fn send_request(
    adu: &BundleAdu,
    (source, destination, report_to): (EndpointId, EndpointId, EndpointId),
    payload: Payload,
) -> SendRequest {
    let mut facts = farlink_bundle::v7::facts_of(adu.bundle_flags);
    if report_to != EndpointId::Null {
        facts.0 |= Facts::REPORTS | Facts::STATUS_TIME;
    }
    SendRequest {
        source,
        destination,
        report_to,
        facts,
        lifetime_ms: lifetime(adu),
        priority: match adu.priority {
            1 => Priority::Bulk,
            3 => Priority::Expedited,
            _ => Priority::Normal,
        },
        hop_limit: 0,
        reliable: !adu.unreliable,
        payload,
    }
}

fn send_response(connection: &mut Connection, request: RequestId, result: Result<BundleId, Refusal>) -> AapResponse {
    let headers = connection.owed.iter().find_map(|owed| match owed {
        Owed::Request(id, _, headers) if *id == request => Some(headers.clone()),
        _ => None,
    });
    match result {
        Ok(id) => AapResponse {
            response_status: Status::Success.into(),
            bundle_headers: headers.map(|headers| BundleHeaders {
                src_eid: id.source.to_string(),
                creation_timestamp_ms: id.creation.time.as_millis(),
                sequence_number: id.creation.sequence,
                ..headers
            }),
        },
        Err(Refusal::NotAcceptable) => AapResponse::new(Status::InvalidRequest),
        Err(Refusal::Unknown) => AapResponse::new(Status::NotFound),
        Err(_) => AapResponse::new(Status::Error),
    }
}

fn head_of(bundle: &Delivery) -> BundleAdu {
    let mut adu_flags = Vec::new();
    if bundle.facts.has(Facts::ADMIN) {
        adu_flags.push(adu_flag::STATUS_REPORT);
    }
    if bundle.redelivered {
        adu_flags.push(adu_flag::REDELIVERED);
    }
    BundleAdu {
        src_eid: bundle.source.to_string(),
        dst_eid: bundle.destination.to_string(),
        creation_timestamp_ms: bundle.creation.time.as_millis(),
        sequence_number: bundle.creation.sequence,
        payload_length: bundle.payload.len(),
        adu_flags,
        lifetime_ms: bundle.lifetime_ms,
        ..Default::default()
    }
}
