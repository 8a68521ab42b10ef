//! Applications of a node: those attached over AAP2, and those inside it (echo, load).
//!
//! They run in the thread that owns the stack; nothing here decides about bundles.

mod connection;
mod echo;
mod echo_long;
pub mod load;
mod messages;
mod outputs;
mod passage;
mod requests;

use crate::buffers::Buffers;
use crate::config::AppSettings;
use crate::disk::DiskState;
use connection::{AppSocket, Connection, Owed, Spool, Spooling};
use echo::Echo;
use farlink_base::{Duration, EndpointId, Instant};
use farlink_bpa::app::{AppInput, RegistrationId, RequestId, SendRequest};
use farlink_os::poll::{Poller, Readiness};
use farlink_os::stream::SocketFile;
use farlink_stack::Input;
use load::Load;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

/// Most applications attached. A further one replaces the oldest unconfigured one; if there is none, it is closed.
const CONNECTIONS_MAX: usize = 1024;
/// Interval of checks for connections without progress.
const SWEEP: Duration = Duration::from_secs(5);

/// All applications of a node.
pub struct Apps {
    node_ids: Vec<EndpointId>,
    may_link: bool,
    payload_max: u64,
    /// Most unanswered deliveries of a subscriber, whatever it asks for.
    window_max: u32,
    /// Most payload bytes in memory for all connections.
    sending_max: u64,
    spooling: Spooling,
    /// Disk of a durable store.
    disk: Option<Arc<DiskState>>,
    links: Vec<(String, String)>,
    listeners: Vec<Listener>,
    _socket_file: Option<SocketFile>,
    connections: HashMap<u64, Connection>,
    serial: u64,
    secrets: HashMap<EndpointId, (String, u32)>,
    owners: HashMap<RegistrationId, Owner>,
    requests: HashMap<RequestId, Owner>,
    next: u64,
    active: Vec<u64>,
    echo: Option<Echo>,
    /// Echo replies to bundles too long for memory.
    copies: VecDeque<echo_long::Copy>,
    load: Option<Load>,
    keepalive_at: Option<Instant>,
    sweep_at: Option<Instant>,
    /// Payload bytes in memory for all connections.
    sending: u64,
    /// Connections whose bundle waits for memory, in order.
    waiting: VecDeque<u64>,
    /// Whether this turn delivered a bundle to an application.
    delivers: bool,
}

/// Owner of a registration or request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Connection(u64),
    /// Application that left before the node's decision; its request still holds this much memory.
    Gone(u64),
    Echo,
    Load,
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Divisor: reads from disk for all connections take at most the applications' memory divided by this.
const READ_PART: u64 = 2;

/// Bit that is set in the serial numbers of listening sockets, and clear in those of connections.
const LISTENER: u64 = 1 << 40;

impl Apps {
    /// Opens the application sockets and creates the echo service, if configured; [`Apps::start`] registers it.
    ///
    /// The bounds are the longest payload, the memory of arriving bundles, and the length above which payloads are
    /// spooled to disk; `None` spools nothing.
    ///
    /// # Errors
    /// If a socket cannot be opened; the error names it.
    pub fn new(
        settings: &AppSettings,
        told: &farlink_base::node::AppSettings,
        node_ids: &[EndpointId],
        (payload_max, memory, spool_from): (u64, u64, Option<u64>),
    ) -> io::Result<Apps> {
        let (mut listeners, mut socket_file) = (Vec::new(), None);
        if let Some(path) = &settings.socket {
            let (listener, file) = farlink_os::stream::listen_unix(path, settings.socket_mode).map_err(|why| {
                io::Error::new(why.kind(), format!("application socket {}: {why}{}", path.display(), crate::hint(&why)))
            })?;
            listeners.push(Listener::Unix(listener));
            socket_file = Some(file);
        }
        if let Some(at) = &settings.listen {
            let listener = farlink_os::stream::listen(at).map_err(|why| {
                io::Error::new(why.kind(), format!("application socket {at}: {why}{}", crate::hint(&why)))
            })?;
            listeners.push(Listener::Tcp(listener));
        }
        Ok(Apps {
            node_ids: node_ids.to_vec(),
            may_link: told.links,
            window_max: told.window,
            // Without spooling a payload must fit in memory.
            payload_max: if spool_from.is_some() { payload_max } else { payload_max.min(memory) },
            spooling: Spooling::new(spool_from.unwrap_or(u64::MAX), memory),
            sending_max: memory,
            disk: None,
            links: Vec::new(),
            listeners,
            _socket_file: socket_file,
            connections: HashMap::new(),
            serial: 0,
            secrets: HashMap::new(),
            owners: HashMap::new(),
            requests: HashMap::new(),
            next: 0,
            active: Vec::new(),
            echo: told.echo.then(|| Echo::new(node_ids, told.echo_rate)),
            copies: VecDeque::new(),
            load: None,
            keepalive_at: None,
            sweep_at: None,
            sending: 0,
            waiting: VecDeque::new(),
            delivers: false,
        })
    }
    /// Sets the disk whose state explains refusals.
    pub fn set_disk(&mut self, disk: Arc<DiskState>) {
        self.disk = Some(disk);
    }
    /// Sets the load generator and sink.
    pub fn set_load(&mut self, load: Load) {
        self.load = Some(load);
    }
    /// Load generator and sink, if any.
    pub fn load(&self) -> Option<&Load> {
        self.load.as_ref()
    }
    /// Watches the listening sockets.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn watch(&self, poller: &Poller, tag: u64) -> io::Result<()> {
        self.listeners.iter().enumerate().try_for_each(|(i, listener)| match listener {
            Listener::Unix(socket) => poller.add(socket, tag | LISTENER | i as u64),
            Listener::Tcp(socket) => poller.add(socket, tag | LISTENER | i as u64),
        })
    }
    /// Registers the internal applications.
    pub fn start(&mut self, now: Instant, inputs: &mut VecDeque<Input>) {
        if let Some(mut echo) = self.echo.take() {
            for endpoint in echo.endpoints() {
                let registration = self.register(Owner::Echo, endpoint.clone(), echo::WINDOW, inputs);
                echo.registered(registration, endpoint);
            }
            self.echo = Some(echo);
        }
        if let Some(mut load) = self.load.take() {
            if let Some(endpoint) = load.sink_endpoint(&self.node_id()) {
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
        // One sequence of numbers for registrations and requests, unique for the life of the process.
        self.next += 1;
        let registration = RegistrationId(self.next);
        self.owners.insert(registration, owner);
        inputs.push_back(Input::App(AppInput::Register { registration, endpoint, window }));
        registration
    }
    fn send(&mut self, owner: Owner, bundle: SendRequest, inputs: &mut VecDeque<Input>) -> RequestId {
        self.next += 1;
        self.send_as(RequestId(self.next), owner, bundle, inputs)
    }
    fn send_as(
        &mut self,
        request: RequestId,
        owner: Owner,
        bundle: SendRequest,
        inputs: &mut VecDeque<Input>,
    ) -> RequestId {
        self.requests.insert(request, owner);
        inputs.push_back(Input::App(AppInput::Send { request, bundle }));
        request
    }

    /// Returns whether the next turn has work without waiting for the kernel.
    pub fn busy(&self) -> bool {
        !self.active.is_empty() || self.may_go_on().is_some()
    }
    /// Deadline for [`Apps::expire`].
    pub fn next_timeout(&self) -> Option<Instant> {
        let load = self.load.as_ref().and_then(Load::next_timeout);
        [self.keepalive_at, self.sweep_at, load].into_iter().flatten().min()
    }
    /// Handles readiness of a socket.
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
            // All pending connections at once: readiness is reported on change only.
            let Ok(socket) = socket else { return };
            let ready = match &socket {
                AppSocket::Unix(socket) => socket.set_nonblocking(true),
                // Small messages such as acknowledgments must not wait for more data.
                AppSocket::Tcp(socket) => socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)),
            };
            // All applications are configured, so none gives way: the new connection is dropped, which closes it.
            if !self.make_room() {
                return;
            }
            self.serial += 1;
            if ready.and_then(|()| poller.add_reader(&socket, tag | self.serial)).is_ok() {
                // The connection is read in this turn: its first message may have arrived before the socket was
                // watched.
                let bounds = (self.payload_max, self.spooling);
                let greeted = Connection::new(socket, &self.node_id().to_string(), bounds, now);
                self.connections.insert(self.serial, greeted);
                self.active.push(self.serial);
                // The timer runs only while there are connections.
                self.sweep_at.get_or_insert(now + SWEEP);
            }
        }
    }
    fn node_id(&self) -> EndpointId {
        self.node_ids.first().cloned().unwrap_or_default()
    }
    /// Makes room for one more connection, closing the oldest unconfigured one if necessary; false if all are
    /// configured.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < CONNECTIONS_MAX {
            return true;
        }
        let idle = self.connections.iter().filter(|(_, connection)| !connection.introduced);
        let oldest = idle.map(|(serial, _)| *serial).min();
        // An unconfigured connection has no registration or secret to release.
        oldest.is_some_and(|serial| self.remove(serial).is_some())
    }

    /// Reads from and answers applications with pending input.
    pub fn turn(&mut self, now: Instant, buffers: &mut Buffers, inputs: &mut VecDeque<Input>) {
        // Connections that wait for memory go first, in order of their requests, so that later ones do not overtake
        // them.
        while let Some(serial) = self.may_go_on() {
            self.waiting.pop_front();
            self.admit(serial, now);
            self.active.push(serial);
        }
        for serial in std::mem::take(&mut self.active) {
            let Some(connection) = self.connections.get_mut(&serial) else { continue };
            let mut gone = connection.wants_read() && connection.read(buffers, now);
            // A connection that has ended may have sent whole requests before.
            while let Some(request) = self.connections.get_mut(&serial).and_then(|c| c.decoder.request()) {
                gone |= !self.request(serial, request, now, inputs);
            }
            if gone {
                self.close(serial, inputs);
                continue;
            }
            self.let_on(serial, now);
            self.spool(serial, inputs);
            // Still readable: continue in the next turn, after the others.
            if self.connections.get(&serial).is_some_and(Connection::wants_read) {
                self.active.push(serial);
            }
        }
    }
    /// Shrinks queues after a burst.
    pub fn give_back(&mut self) {
        self.requests.shrink_to_fit();
        self.active.shrink_to_fit();
        self.connections.values_mut().for_each(Connection::give_back);
    }
    /// Returns whether this turn delivered a bundle, which must leave before acknowledgments to the previous node.
    pub fn delivers(&self) -> bool {
        self.delivers
    }
    /// Writes pending output, at the end of a turn.
    pub fn flush(&mut self, inputs: &mut VecDeque<Input>) {
        self.delivers = false;
        // All connections are visited, as output may have been queued for any of them.
        let gone: Vec<_> = self
            .connections
            .iter_mut()
            .filter_map(|(serial, connection)| (connection.wants_write() && connection.write()).then_some(*serial))
            .collect();
        for serial in gone {
            match self.connections.get_mut(&serial) {
                // A subscriber may have answered before it left, so its input is read first.
                Some(connection) if connection.registration.is_some() => {
                    connection.break_off();
                    self.active.push(serial);
                }
                _ => self.close(serial, inputs),
            }
        }
        // Each connection gets an equal part of the memory for reads from disk.
        let part = self.sending_max / READ_PART / (self.connections.len() as u64).max(1);
        for connection in self.connections.values_mut() {
            let wanted = connection.wants_stored(part);
            inputs.extend(wanted.map(|(delivery, part)| Input::Read { delivery, part }));
        }
    }
    /// Asks the kernel to report room only for sockets whose writes fell short.
    pub fn watch_room(&mut self, poller: &Poller, tag: u64) {
        // Every read of an application makes room in its socket, so permanent watching would wake this thread at each
        // of them.
        for (serial, connection) in &mut self.connections {
            if let Some(room) = connection.asks_for_room() {
                // A socket that cannot be watched is about to end.
                let _ = poller.watch_room(connection.socket(), tag | serial, room);
            }
        }
    }
    /// Handles keepalives, connections without progress, and the load's schedule; `in_node` is the number of bundles in
    /// the node.
    pub fn expire(&mut self, now: Instant, in_node: u64, inputs: &mut VecDeque<Input>) {
        if self.keepalive_at.is_some_and(|at| at <= now) {
            self.keepalive_at = None;
            let gone: Vec<_> =
                self.connections.iter_mut().filter_map(|(s, c)| c.check_keepalive(now).then_some(*s)).collect();
            gone.into_iter().for_each(|serial| self.close(serial, inputs));
            // The shortest interval may have changed with the closed connections.
            self.arm_keepalive(now);
        }
        if self.sweep_at.is_some_and(|at| at <= now) {
            let late: Vec<_> =
                self.connections.iter_mut().filter_map(|(s, c)| c.is_overdue(now).then_some(*s)).collect();
            for serial in late {
                tracing::info!("application connection closed: it does not go on");
                self.close(serial, inputs);
            }
            self.sweep_at = (!self.connections.is_empty()).then(|| now + SWEEP);
        }
        if let Some(mut load) = self.load.take() {
            while let Some(bundle) = load.next(now, in_node, &self.node_id()) {
                self.send(Owner::Load, bundle, inputs);
            }
            self.load = Some(load);
        }
    }
    /// Sets the links that clients may list, as (name, peer).
    pub fn set_links(&mut self, links: Vec<(String, String)>) {
        self.links = links;
    }
    fn arm_keepalive(&mut self, now: Instant) {
        let shortest = self.connections.values().map(|c| c.keepalive).filter(|k| !k.is_zero()).min();
        // Half the interval, so that silence is found at most half an interval late.
        self.keepalive_at = shortest.map(|interval| now + interval / 2);
    }
    fn close(&mut self, serial: u64, inputs: &mut VecDeque<Input>) {
        let Some(connection) = self.remove(serial) else { return };
        // Bundles without a decision are still in the node's memory.
        for owed in connection.owed {
            if let Owed::Request(request, bytes, _) = owed {
                self.requests.insert(request, Owner::Gone(bytes));
                self.sending += bytes;
            }
        }
        // Parts on disk without a request would never be freed.
        if let Some(Spool { request, .. }) = connection.spool {
            self.requests.remove(&request);
            inputs.push_back(Input::Unspool { request });
        }
        if let Some(registration) = connection.registration {
            self.owners.remove(&registration);
            inputs.push_back(Input::App(AppInput::Unregister { registration }));
        }
        if connection.endpoint.is_some() {
            self.release(&connection.canonical);
        }
    }
    /// Ends one connection's use of an endpoint. The secret protects the endpoint while any connection uses it.
    fn release(&mut self, canonical: &EndpointId) {
        if let Some(shared) = self.secrets.get_mut(canonical) {
            shared.1 -= 1;
            if shared.1 == 0 {
                self.secrets.remove(canonical);
            }
        }
    }
    fn remove(&mut self, serial: u64) -> Option<Connection> {
        let connection = self.connections.remove(&serial)?;
        self.sending -= connection.counted;
        self.waiting.retain(|waiting| *waiting != serial);
        Some(connection)
    }
}

#[cfg(test)]
mod tests;
