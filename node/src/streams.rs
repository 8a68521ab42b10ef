//! TCP connections of the stream layers: connect, accept, read, write, flow control, close.
//!
//! All writes of one turn leave together by `writev`; the queue of each stream is bounded by the room that its layer
//! has.

mod connection;
mod opening;
mod secure;
#[cfg(test)]
mod tests;

use crate::buffers::Buffers;
use crate::faults::LinkFaults;
use crate::log::Repeats;
use crate::tls::Credentials;
use connection::{Confirm, Phase, Stream};
use farlink_base::socket;
use farlink_base::{Chunk, Duration, Instant, LayerId, LinkId, Payload, StreamId};
use farlink_os::poll::{Poller, Readiness};
use farlink_os::stream;
use farlink_stack::Input;
pub use opening::Connector;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};

/// Most unsent bytes of one stream in the kernel, and most bytes that a layer may queue on it, if there is enough
/// memory.
///
/// The bound is short, because the age of a bundle in this queue is already encoded and grows no more (RFC 9171 section
/// 5.4 step 4).
pub const QUEUE_BOUND: u64 = 1 << 20;
/// Most bytes read in one turn from all streams of one address, so that many connections give no advantage.
const READ_TURN: usize = 256 << 10;
/// Least bytes that a stream may read in one turn, so that system calls do not dominate. Streams for which the turn's
/// total does not suffice go first in the next turn.
const READ_LEAST: usize = 4 << 10;
/// Time after which a connection attempt has failed.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the peer to close after this side did.
const LINGER: Duration = Duration::from_secs(2);
/// All streams of a node.
pub struct Streams {
    listeners: Vec<(LayerId, TcpListener)>,
    /// Peer address `host:port` of each link.
    addresses: HashMap<LinkId, (LayerId, String)>,
    /// The same by host, for links whose address has an IP address instead of a name: a stranger may ask often.
    hosts: BTreeSet<(LayerId, IpAddr, LinkId)>,
    /// Links whose unreachable peer was already logged.
    unreachable: HashSet<LinkId>,
    /// Links of any layer whose host name has no address, as already logged.
    unresolved: HashSet<LinkId>,
    streams: HashMap<StreamId, Stream>,
    tokens: HashMap<u64, StreamId>,
    serial: u64,
    readable: VecDeque<StreamId>,
    /// Bytes read in this turn, by peer address.
    taken: HashMap<IpAddr, usize>,
    dirty: Vec<StreamId>,
    accept_again: Option<Instant>,
    bounds: Bounds,
    /// Limits log lines about connections, by peer address.
    comings: Repeats<IpAddr>,
    /// Limits log lines about TLS failures, by peer address.
    insecurities: Repeats<IpAddr>,
    credentials: HashMap<LayerId, Credentials>,
    /// Last error of each link.
    pub faults: LinkFaults,
    /// Bytes read and written since the start.
    pub bytes: (u64, u64),
}

/// Bounds of streams, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most bytes that a layer may queue on one stream.
    pub queue: u64,
    /// Most bytes read in one turn from all streams; the stack handles them before more are read.
    pub read: usize,
}

/// Registers sockets with the poller; adds the kind to the token.
pub trait Register {
    /// Watches a socket under a serial number of the streams.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn stream(&self, socket: &TcpStream, serial: u64) -> io::Result<()>;
}
impl Register for (&Poller, u64) {
    fn stream(&self, socket: &TcpStream, serial: u64) -> io::Result<()> {
        self.0.add(socket, self.1 | serial)
    }
}

impl Streams {
    /// Serves the given listeners. Links have no address until one is set.
    pub fn new(listeners: Vec<(LayerId, TcpListener)>, bounds: Bounds) -> Self {
        Streams {
            listeners,
            addresses: HashMap::new(),
            hosts: BTreeSet::new(),
            unreachable: HashSet::new(),
            unresolved: HashSet::new(),
            streams: HashMap::new(),
            tokens: HashMap::new(),
            serial: 0,
            readable: VecDeque::new(),
            taken: HashMap::new(),
            dirty: Vec::new(),
            accept_again: None,
            bounds,
            comings: Repeats::default(),
            insecurities: Repeats::default(),
            credentials: HashMap::new(),
            faults: LinkFaults::default(),
            bytes: (0, 0),
        }
    }
    /// Returns whether no stream is open or closing; one that is closing may still have bytes for the peer.
    pub fn is_quiet(&self) -> bool {
        !self.streams.values().any(|stream| matches!(stream.phase, Phase::Open(_) | Phase::Closing { .. }))
    }
    /// Shrinks queues after a burst.
    pub fn give_back(&mut self) {
        // A burst may have grown these far beyond the usual use; the memory budget counts their capacity.
        self.streams.values_mut().for_each(|stream| stream.out.shrink_to_fit());
        self.readable.shrink_to_fit();
        self.taken = HashMap::new();
    }
    /// Returns whether the next turn has work without waiting for the kernel.
    pub fn busy(&self) -> bool {
        !self.readable.is_empty() || !self.dirty.is_empty()
    }
    /// Deadline for [`Streams::expire`].
    pub fn next_timeout(&self) -> Option<Instant> {
        let phases = self.streams.values().filter_map(|stream| match &stream.phase {
            Phase::Connecting { until, .. } | Phase::Closing { until, .. } => Some(*until),
            Phase::Open(_) => stream.confirm.as_ref()?.at,
            Phase::Resolving => None,
        });
        phases.chain(self.accept_again).min()
    }
    /// Handles readiness of a socket.
    pub fn on_ready(&mut self, serial: u64, ready: Readiness, now: Instant, io: &mut Connector<'_>) {
        let Some(id) = self.tokens.get(&serial).copied() else { return };
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // The end is reported once only, possibly together with data.
        stream.ended |= ready.ended;
        match &mut stream.phase {
            Phase::Connecting { socket, to, others, .. } => {
                // A connecting socket is writable once the attempt succeeded or failed.
                if !ready.writable {
                    return;
                }
                let to = *to;
                match socket.take_error() {
                    // Without an error the socket may still be connecting: only a connected one has a peer address.
                    Ok(None) if socket.peer_addr().is_ok() => {
                        let Phase::Connecting { socket, .. } = std::mem::replace(&mut stream.phase, Phase::Resolving)
                        else {
                            return;
                        };
                        stream.phase = Phase::Open(socket);
                        self.opened(id, to, io.inputs);
                        // The peer may have sent data along with the end of the handshake.
                        if ready.readable {
                            self.mark_readable(id);
                        }
                    }
                    Ok(None) => {}
                    Ok(Some(why)) | Err(why) => {
                        // The next address is tried at once; the layer learns of a failure only after the last.
                        let others = std::mem::take(others);
                        self.missed(id, to, &why);
                        self.try_next(id, others, now, io);
                    }
                }
            }
            _ => {
                if ready.writable {
                    stream.writable = true;
                    if stream.queued > 0 && !stream.dirty {
                        stream.dirty = true;
                        self.dirty.push(id);
                    }
                }
                if ready.readable {
                    self.mark_readable(id);
                }
            }
        }
    }
    fn mark_readable(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // After the peer's end there is nothing to read, whatever the kernel reports.
        stream.readable = !stream.peer_closed;
        if stream.readable && !stream.paused && !stream.listed {
            stream.listed = true;
            self.readable.push_back(id);
        }
    }

    /// Reads a bounded amount from each address with data, within the bound for the whole turn.
    pub fn read(&mut self, buffers: &mut Buffers, inputs: &mut VecDeque<Input>) {
        self.taken.clear();
        let mut wait = VecDeque::new();
        let mut left = self.bounds.read;
        // Equal parts for all, so that the first streams do not use up the turn; yet not so small that system calls
        // dominate.
        let each = (left / self.readable.len().max(1)).clamp(READ_LEAST, READ_TURN);
        for _ in 0..self.readable.len() {
            let Some(id) = self.readable.pop_front() else { break };
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let ready = !stream.paused && stream.readable;
            // Counted by address, not by stream: opening more connections gives no larger share.
            let taken = stream.peer.map_or(0, |peer| self.taken.get(&peer.ip()).copied().unwrap_or(0));
            if ready && (taken >= READ_TURN || left == 0) {
                // The stream stays in the list, so its mark `listed` remains.
                wait.push_back(id);
                continue;
            }
            stream.listed = false;
            if ready {
                let most = each.min(READ_TURN - taken).min(left);
                left -= self.read_one(id, most, buffers, inputs);
            }
        }
        // Streams that were not read go first in the next turn.
        wait.append(&mut self.readable);
        self.readable = wait;
    }
    /// Reads at most this many bytes; returns the number read.
    fn read_one(&mut self, id: StreamId, most: usize, buffers: &mut Buffers, inputs: &mut VecDeque<Input>) -> usize {
        let Some(stream) = self.streams.get_mut(&id) else { return 0 };
        let (Phase::Open(socket) | Phase::Closing { socket, .. }) = &stream.phase else { return 0 };
        let (closing, layer) = (matches!(stream.phase, Phase::Closing { .. }), stream.layer);
        match stream::read_into(socket, buffers.spare(most), most) {
            Ok(0) => {
                (stream.peer_closed, stream.readable) = (true, false);
                if !closing {
                    // Bytes that were acknowledged before the end still count as delivered.
                    stream.report_confirmed(id, inputs);
                    inputs.push_back(Input::Socket(layer, socket::Input::Closed { stream: id, error: false }));
                } else if stream.queued == 0 {
                    // After its own close and with nothing left to write, the stream is over.
                    self.remove(id);
                }
            }
            Ok(n) => {
                // A short read emptied the socket, so the next arrival is reported. The end was reported already and
                // will not be again.
                stream.readable = n == most || stream.ended;
                if let Some(peer) = stream.peer {
                    *self.taken.entry(peer.ip()).or_default() += n;
                }
                let again = stream.readable;
                let secured = stream.tls.is_some();
                let data = buffers.take();
                self.bytes.0 += n as u64;
                // Data after the layer's own close is read only to reach the peer's end, and dropped.
                if secured && !closing {
                    self.unseal(id, &data, inputs);
                } else if !closing {
                    let input = socket::Input::Data { stream: id, data: Payload::from(data) };
                    inputs.push_back(Input::Socket(layer, input));
                }
                if again {
                    self.mark_readable(id);
                }
                return n;
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => stream.readable = false,
            Err(why) if why.kind() == ErrorKind::Interrupted => self.mark_readable(id),
            Err(_) => self.end(id, closing, true, inputs),
        }
        0
    }

    fn mark_dirty(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if !stream.dirty && stream.writable {
            stream.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Queues bytes; they leave at the end of the turn.
    pub fn write(&mut self, id: StreamId, data: &Payload, inputs: &mut VecDeque<Input>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let mut sealed = Ok(());
        for chunk in data.chunks() {
            let bytes = match chunk {
                Chunk::Bytes(bytes) => bytes.clone(),
                // Chunks of other kinds, such as generated fill, have no bytes yet.
                other => {
                    let mut rope = Payload::new();
                    rope.push(other.clone());
                    rope.to_bytes().unwrap_or_default()
                }
            };
            debug_assert_eq!(bytes.len() as u64, chunk.len(), "stored chunks are loaded before they are sent");
            match &mut stream.tls {
                // With TLS, bytes become records first; these are queued by `seal`.
                Some(tls) => sealed = sealed.and_then(|()| tls.say(&bytes)),
                None => stream.push(bytes),
            }
        }
        match sealed {
            Ok(()) if stream.tls.is_some() => self.seal(id, inputs),
            Ok(()) => self.mark_dirty(id),
            Err(why) => self.insecure(id, &why, inputs),
        }
    }
    /// Writes queued bytes as far as the kernel takes them.
    pub fn flush(&mut self, now: Instant, inputs: &mut VecDeque<Input>) {
        for id in std::mem::take(&mut self.dirty) {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            stream.dirty = false;
            // Bytes are counted by the change of the queue, as `write_out` may call `writev` several times.
            let before = stream.queued;
            let result = stream.write_out();
            let written = before - stream.queued;
            self.bytes.1 += written;
            stream.sent += written;
            stream.look_soon(now);
            let closing = matches!(stream.phase, Phase::Closing { .. });
            if result.is_err() {
                self.end(id, closing, true, inputs);
            } else if closing {
                self.finish_closing(id, now);
            } else {
                stream.report_room(id, written, self.bounds.queue, inputs);
            }
        }
    }

    /// Starts reporting bytes that the peer's host acknowledged.
    pub fn confirm(&mut self, id: StreamId, now: Instant) {
        // Repeated requests change nothing.
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.confirm.is_none()) else { return };
        stream.confirm = Some(Confirm::new());
        stream.look_soon(now);
    }

    /// Ends a stream for its layer, which receives no more events of it; `abort` discards bytes still queued here.
    // 9174-4.1-8
    pub fn close(&mut self, id: StreamId, abort: bool, now: Instant) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match std::mem::replace(&mut stream.phase, Phase::Resolving) {
            Phase::Open(socket) if !abort => {
                // A close_notify proves to the peer that the data is complete (RFC 8446 section 6.1).
                if let Some(tls) = &mut stream.tls {
                    tls.say_end();
                    if let Ok(Some(records)) = tls.take() {
                        stream.push(records);
                    }
                    if !stream.dirty && stream.writable {
                        stream.dirty = true;
                        self.dirty.push(id);
                    }
                }
                // Reading goes on while closing, as only then the peer's end is seen.
                stream.phase = Phase::Closing { socket, until: now + LINGER, shut: false };
                stream.paused = false;
                self.finish_closing(id, now);
            }
            Phase::Open(socket) => {
                // With unread data the kernel sends a reset; otherwise the bytes it already has leave before the end.
                let _ = socket.shutdown(Shutdown::Both);
                self.remove(id);
            }
            // A stream that is not open yet has nothing to deliver.
            _ => drop(self.remove(id)),
        }
    }
    fn finish_closing(&mut self, id: StreamId, now: Instant) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Phase::Closing { socket, until, shut } = &mut stream.phase {
            // The write side is shut only after the queue is empty, so that the peer gets everything before the end.
            if stream.queued == 0 && !*shut {
                *shut = true;
                // The peer gets the full time from here, however long the queue took.
                *until = now + LINGER;
                let _ = socket.shutdown(Shutdown::Write);
            }
            // Both sides have ended: closing now causes no reset.
            if *shut && stream.peer_closed {
                self.remove(id);
                return;
            }
        }
        self.mark_readable(id);
    }

    /// Stops or resumes reading.
    pub fn pause(&mut self, id: StreamId, paused: bool) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.paused = paused;
        // Data that arrived while paused was reported once; it will not be again.
        if !paused && stream.readable {
            self.mark_readable(id);
        }
    }

    /// Ends attempts and closings that took too long, polls acknowledgments, and accepts again after a failure.
    pub fn expire(&mut self, now: Instant, register: &impl Register, inputs: &mut VecDeque<Input>) {
        if self.accept_again.is_some_and(|at| at <= now) {
            // Tried again after a failure such as too many open files.
            self.accept_again = None;
            for listener in 0..self.listeners.len() {
                self.accept(now, listener, register, inputs);
            }
        }
        // Polled here because the kernel gives no event for acknowledgments.
        for (id, stream) in &mut self.streams {
            if stream.confirm.as_ref().is_some_and(|confirm| confirm.at.is_some_and(|at| at <= now)) {
                stream.look(*id, now, inputs);
            }
        }
        let late: Vec<_> = self
            .streams
            .iter()
            .filter_map(|(id, stream)| match &stream.phase {
                Phase::Connecting { until, .. } if *until <= now => Some((*id, true)),
                Phase::Closing { until, .. } if *until <= now => Some((*id, false)),
                _ => None,
            })
            .collect();
        for (id, connecting) in late {
            // A layer learns of failed attempts; a closing stream is no longer its own.
            if connecting {
                self.fail(id, inputs);
            } else {
                self.remove(id);
            }
        }
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
    fn insert(&mut self, id: StreamId, serial: u64, layer: LayerId, phase: Phase) {
        self.tokens.insert(serial, id);
        let stream = Stream {
            layer,
            serials: vec![serial],
            link: None,
            peer: None,
            told: false,
            phase,
            out: VecDeque::new(),
            queued: 0,
            sent: 0,
            confirm: None,
            readable: false,
            takes: connection::ROOM_MIN,
            writable: true,
            ended: false,
            peer_closed: false,
            paused: false,
            listed: false,
            dirty: false,
            tls: None,
        };
        self.streams.insert(id, stream);
    }
    fn fail(&mut self, id: StreamId, inputs: &mut VecDeque<Input>) {
        self.end(id, false, true, inputs);
    }
    /// Ends a stream and informs its layer, unless the layer closed it.
    fn end(&mut self, id: StreamId, closing: bool, error: bool, inputs: &mut VecDeque<Input>) {
        // Acknowledgments up to the end are reported first, so that as few bundles as possible are sent again.
        if let Some(stream) = self.streams.get_mut(&id).filter(|_| !closing) {
            stream.report_confirmed(id, inputs);
        }
        if let Some(layer) = self.remove(id).filter(|_| !closing) {
            inputs.push_back(Input::Socket(layer, socket::Input::Closed { stream: id, error }));
        }
    }
    /// Removes a stream; returns its layer.
    fn remove(&mut self, id: StreamId) -> Option<LayerId> {
        let stream = self.streams.remove(&id)?;
        // The end is logged only if the opening was, so that crowds do not fill the log.
        if let Some(peer) = stream.peer.filter(|_| stream.told) {
            tracing::info!("disconnected from {peer}{}", self.faults.of(stream.link));
        }
        for serial in &stream.serials {
            self.tokens.remove(serial);
        }
        Some(stream.layer)
    }
}

/// Converts an IPv4-mapped address of a dual-stack socket to IPv4.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
