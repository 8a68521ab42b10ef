//! Opening of streams: addresses of peers, connecting, accepting.

use super::connection::{Phase, ROOM_MIN};
use super::secure::host_of;
use super::{CONNECT_TIMEOUT, Register, Streams, canonical};
use crate::log::more;
use crate::resolve::{FoundAddresses, Resolver, Wanted};
use farlink_base::{Duration, Instant, LayerId, LinkId, StreamId, socket};
use farlink_os::poll::Poller;
use farlink_os::stream;
use farlink_stack::Input;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};

/// Parts of the node that connecting needs.
pub struct Connector<'a> {
    /// Poller and tag of sockets.
    pub register: (&'a Poller, u64),
    /// Resolver of host names.
    pub resolver: &'a Resolver<Wanted>,
    /// Queue of inputs for the stack.
    pub inputs: &'a mut VecDeque<Input>,
}

impl Streams {
    /// Sets the address of a link's peer for the next attempt; `None` forgets the link.
    pub fn set_address(&mut self, layer: LayerId, link: LinkId, address: Option<String>) {
        if let Some((layer, known)) = self.addresses.remove(&link)
            && let Some(host) = ip_of(&known)
        {
            self.hosts.remove(&(layer, host, link));
        }
        match address {
            Some(address) => {
                self.hosts.extend(ip_of(&address).map(|host| (layer, host, link)));
                self.addresses.insert(link, (layer, address));
            }
            None => {
                // A later link of this number gets its own warning.
                self.unreachable.remove(&link);
                self.unresolved.remove(&link);
            }
        }
    }
    /// Looks up the address of a link's peer, so that the layer recognizes it when it connects.
    pub fn locate(&self, link: LinkId, resolver: &Resolver<Wanted>, inputs: &mut VecDeque<Input>) {
        let Some((_, name)) = self.addresses.get(&link) else { return };
        match resolver.ask(Wanted::Peer(link), name) {
            Some((_, addresses)) => self.located(link, &addresses, inputs),
            // The layer knows no address until the answer.
            None => self.located(link, &[], inputs),
        }
    }
    /// Reports the addresses of a link's peer.
    pub fn located(&self, link: LinkId, addresses: &[SocketAddr], inputs: &mut VecDeque<Input>) {
        let Some((layer, _)) = self.addresses.get(&link) else { return };
        let addresses = addresses.iter().map(|address| canonical(*address)).collect();
        inputs.push_back(Input::Socket(*layer, socket::Input::Located { link, addresses }));
    }

    /// Accepts pending connections of a listener.
    pub fn accept(&mut self, now: Instant, listener: usize, register: &impl Register, inputs: &mut VecDeque<Input>) {
        loop {
            let Some((layer, socket)) = self.listeners.get(listener) else { return };
            let layer = *layer;
            match socket.accept() {
                Ok((socket, from)) => {
                    // Small segments such as acknowledgments must not wait for more data.
                    let ready = socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true));
                    let serial = self.next_serial();
                    if ready.and_then(|()| register.stream(&socket, serial)).is_ok() {
                        let stream = StreamId(StreamId::PASSIVE | serial);
                        self.insert(stream, serial, layer, Phase::Open(socket));
                        self.opened(stream, from, inputs);
                    }
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                // The peer gave up before it was accepted; others may wait behind it.
                Err(why) if matches!(why.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // Usually the process has no descriptors left, and no event reports that there are some again.
                Err(why) => {
                    tracing::warn!("cannot accept a connection: {why}; trying again in a second");
                    self.accept_again = Some(now + Duration::from_secs(1));
                    return;
                }
            }
        }
    }

    /// Opens a stream to a link's peer.
    pub fn connect(&mut self, layer: LayerId, stream: StreamId, link: LinkId, now: Instant, io: &mut Connector<'_>) {
        let serial = self.next_serial();
        self.insert(stream, serial, layer, Phase::Resolving);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.link = Some(link);
        }
        match self.addresses.get(&link).cloned() {
            Some((_, name)) => {
                if let Some((_, addresses)) = io.resolver.ask(Wanted::Stream(stream), &name) {
                    self.resolved(stream, addresses, now, io);
                }
            }
            None => self.fail(stream, io.inputs),
        }
    }
    /// Tries the resolved addresses of a peer, in order.
    pub fn resolved(&mut self, stream: StreamId, addresses: Vec<SocketAddr>, now: Instant, io: &mut Connector<'_>) {
        let link = self.streams.get(&stream).and_then(|stream| stream.link);
        if let Some(link) = link.filter(|_| !addresses.is_empty()) {
            self.located(link, &addresses, io.inputs);
        }
        // The layer may have closed the stream meanwhile.
        if self.streams.get(&stream).is_some_and(|s| matches!(s.phase, Phase::Resolving)) {
            self.try_next(stream, addresses.into(), now, io);
        }
    }
    pub(super) fn try_next(
        &mut self,
        id: StreamId,
        mut addresses: VecDeque<SocketAddr>,
        now: Instant,
        io: &mut Connector<'_>,
    ) {
        while let Some(to) = addresses.pop_front() {
            let serial = self.next_serial();
            // Peers recognize a node by its listening address, so connections come from there.
            let from = self.streams.get(&id).and_then(|stream| self.home(stream.layer, &to));
            let attempt = stream::connect(&to, from.as_ref());
            let attempt = attempt.and_then(|socket| io.register.stream(&socket, serial).map(|()| socket));
            match (attempt, self.streams.get_mut(&id)) {
                (Ok(socket), Some(stream)) => {
                    let until = now + CONNECT_TIMEOUT;
                    stream.phase = Phase::Connecting { socket, to, others: addresses, until };
                    stream.ended = false;
                    stream.serials.push(serial);
                    self.tokens.insert(serial, id);
                    return;
                }
                (Err(why), _) => self.missed(id, to, &why),
                (_, None) => return,
            }
        }
        self.fail(id, io.inputs);
    }

    /// Local address for connections to `to`: the only listening address of the layer that fits, by which peers know
    /// the node. `None` lets the kernel choose, if no address fits or several do.
    pub(super) fn home(&self, layer: LayerId, to: &SocketAddr) -> Option<SocketAddr> {
        let local = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let reach = |ip: IpAddr| (ip.is_ipv4(), ip.is_loopback(), local(ip));
        let own = self.listeners.iter().filter(|(of, _)| *of == layer);
        let places = own.filter_map(|(_, listener)| listener.local_addr().ok());
        // Only an address of the same reach can be the source: loopback, link-local or global.
        let mut homes = places.filter(|at| !at.ip().is_unspecified() && reach(at.ip()) == reach(to.ip()));
        // With several candidates, choosing one would be a guess.
        let mut home = homes.next().filter(|_| homes.next().is_none())?;
        // The listener occupies its port, so the kernel chooses one.
        home.set_port(0);
        Some(home)
    }

    /// Logs a failed attempt to connect; only the first one until a success is a warning.
    pub(super) fn missed(&mut self, id: StreamId, to: SocketAddr, why: &io::Error) {
        let link = self.streams.get(&id).and_then(|stream| stream.link);
        self.faults.note(link, crate::clock::now(), &format!("cannot connect to {to}: {why}"));
        if link.is_some_and(|link| self.unreachable.insert(link)) {
            let on = self.faults.of(link);
            tracing::warn!("cannot connect to {to}{on}: {why}; trying again until it answers");
        } else {
            tracing::debug!("cannot connect to {to}: {why}");
        }
    }
    /// Logs and notes a host name that does not resolve, once until it does; returns the addresses found.
    pub(crate) fn looked_up(&mut self, link: Option<LinkId>, found: FoundAddresses) -> Vec<SocketAddr> {
        match found {
            Ok(addresses) => {
                if let Some(link) = link.filter(|link| self.unresolved.remove(link)) {
                    self.faults.recovered(link);
                }
                addresses
            }
            Err(why) => {
                let what = format!("no address of {why}");
                self.faults.note(link, crate::clock::now(), &what);
                let on = self.faults.of(link);
                if link.is_some_and(|link| self.unresolved.insert(link)) {
                    let hint = "correct `address` of the link, or the name service of this machine";
                    tracing::warn!("{what}{on}; trying again until there is one\nhint: {hint}");
                } else {
                    tracing::debug!("{what}{on}");
                }
                Vec::new()
            }
        }
    }
    pub(super) fn opened(&mut self, id: StreamId, from: SocketAddr, inputs: &mut VecDeque<Input>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (from, layer) = (canonical(from), stream.layer);
        stream.peer = Some(from);
        if let Phase::Open(socket) = &stream.phase {
            // A kernel without this option queues more unsent bytes, which makes bundle ages less exact.
            let _ = stream::bound_unsent(socket, u32::try_from(self.bounds.queue).unwrap_or(u32::MAX));
        }
        if let Some(link) = stream.link {
            self.unreachable.remove(&link);
        }
        // Frequent connections from one address are logged once a minute.
        if let Some(times) = self.comings.say(from.ip(), std::time::Instant::now()) {
            let how = if id.is_passive() { "connected from" } else { "connected to" };
            stream.told = true;
            // Who connects here may be anybody of that host: only its session says who it is.
            tracing::info!("{how} {from}{}{}", self.faults.of(stream.link), more(times));
        }
        inputs.push_back(Input::Socket(layer, socket::Input::Opened { stream: id, from }));
        // The layer begins with little room; it gets more once the kernel has taken that.
        inputs.push_back(Input::Socket(
            layer,
            socket::Input::Writable { stream: id, room: self.bounds.queue.min(ROOM_MIN) },
        ));
    }
}

/// IP address in an address `host:port`; `None` for a name.
fn ip_of(address: &str) -> Option<IpAddr> {
    host_of(address).parse().ok()
}
