//! UDP sockets of the datagram layers.
//!
//! A malformed datagram never closes a socket. Datagrams that the kernel cannot take at once wait in a bounded queue.

use crate::buffers::Buffers;
use crate::resolve::Resolver;
use crate::streams::canonical;
use farlink_base::layer::{DatagramBatch, Destination};
use farlink_base::socket;
use farlink_base::{Bytes, BytesMut, Chunk, Duration, Instant, LayerId, LinkId, Payload};
use farlink_os::poll::{Poller, Readiness};
use farlink_os::udp::{DatagramSlots, DatagramSocket, MESSAGE_MAX};
use farlink_stack::Input;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};

/// Bytes requested for the kernel's buffers: one second at 500 Mbit/s.
const SOCKET_BUFFER: usize = 64 << 20;
/// Most bytes queued for the kernel at one socket; more is dropped, and the layer's timers recover it.
const QUEUE_BOUND: u64 = 64 << 20;
/// Most system calls of one socket in one turn; it also stops after `TURN_BYTES`.
const TURN: usize = 16;
const TURN_BYTES: u64 = 1 << 20;
/// Interval at which host names are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);
/// Length of a long message, bytes. After one, messages are read one per call, straight into the buffer pool.
const LARGE: usize = 16 << 10;
/// Number of shorter messages in a row after which messages are read in batches and copied together.
const SMALL_RUN: u32 = 32;

/// All datagram sockets of a node.
pub struct Datagrams {
    sockets: Vec<Socket>,
    links: HashMap<LinkId, SendTarget>,
    /// Number of lookups made.
    lookups: u64,
    /// Links with a new address, still to be reported to their layers.
    moved: Vec<(LayerId, LinkId, SocketAddr)>,
    readable: VecDeque<usize>,
    batch: DatagramSlots,
    resolve_at: Option<Instant>,
    /// Bytes received and sent since the start.
    pub bytes: (u64, u64),
    /// Datagrams not sent: without an address, beyond the bound of the queue, or refused by the kernel.
    pub dropped: u64,
}

struct Socket {
    layer: LayerId,
    socket: DatagramSocket,
    v6: bool,
    readable: bool,
    listed: bool,
    queue: VecDeque<(SocketAddr, DatagramBatch)>,
    queued: u64,
    retry: Option<Instant>,
    /// Small messages received in succession; from [`SMALL_RUN`] on, messages are read in batches.
    small: u32,
}

struct SendTarget {
    layer: LayerId,
    name: String,
    address: Option<SocketAddr>,
    /// Number of the latest lookup; answers to earlier ones are ignored.
    lookup: u64,
}

/// Request for the address of a link; a later request invalidates its answer.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// Link whose peer is looked up.
    pub link: LinkId,
    number: u64,
}

impl Datagrams {
    /// Binds the sockets of the layers. Links have no address until [`Datagrams::set_address`].
    ///
    /// # Errors
    /// If an address cannot be bound; the error names it.
    pub fn new(layers: &[(LayerId, Vec<SocketAddr>, bool)]) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for (layer, listen, offload) in layers {
            // Without an address, the layer can still send: it gets a free port on all IPv4 addresses.
            let anywhere = [SocketAddr::from(([0, 0, 0, 0], 0)), SocketAddr::from(([0u16; 8], 0))];
            let addresses = if listen.is_empty() { &anywhere[..1] } else { &listen[..] };
            for address in addresses {
                let socket = DatagramSocket::bind(address, *offload, SOCKET_BUFFER)
                    .map_err(|why| io::Error::new(why.kind(), format!("UDP {address}: {why}{}", crate::hint(&why))))?;
                sockets.push(Socket::new(*layer, socket, address.is_ipv6()));
            }
        }
        Ok(Datagrams {
            sockets,
            links: HashMap::new(),
            lookups: 0,
            moved: Vec::new(),
            readable: VecDeque::new(),
            batch: DatagramSlots::default(),
            resolve_at: None,
            bytes: (0, 0),
            dropped: 0,
        })
    }
    /// Watches the sockets under `tag` plus their index.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn watch(&self, poller: &Poller, tag: u64) -> io::Result<()> {
        self.sockets.iter().enumerate().try_for_each(|(i, socket)| poller.add(&socket.socket, tag | i as u64))
    }
    /// Bound address of each socket.
    pub fn local_addresses(&self) -> Vec<(LayerId, SocketAddr)> {
        self.sockets.iter().filter_map(|s| Some((s.layer, s.socket.local_addr().ok()?))).collect()
    }
    /// Shrinks queues after a burst.
    pub fn give_back(&mut self) {
        self.sockets.iter_mut().for_each(|socket| socket.queue.shrink_to_fit());
    }
    /// Returns whether the next turn has work without waiting for the kernel.
    pub fn busy(&self) -> bool {
        !self.readable.is_empty() || !self.moved.is_empty()
    }
    /// Deadline for [`Datagrams::expire`].
    pub fn next_timeout(&self) -> Option<Instant> {
        self.sockets.iter().filter_map(|socket| socket.retry).chain(self.resolve_at).min()
    }

    /// Handles readiness of a socket.
    pub fn on_ready(&mut self, place: usize, ready: Readiness) {
        if ready.writable {
            self.retry(place);
        }
        if ready.readable {
            self.mark_readable(place);
        }
    }
    fn mark_readable(&mut self, place: usize) {
        let Some(socket) = self.sockets.get_mut(place) else { return };
        socket.readable = true;
        if !socket.listed {
            socket.listed = true;
            self.readable.push_back(place);
        }
    }

    /// Reports new addresses of links, and reads a bounded amount from every readable socket.
    pub fn read(&mut self, buffers: &mut Buffers, inputs: &mut VecDeque<Input>) {
        let moved =
            |(layer, link, address)| Input::Socket(layer, socket::Input::Located { link, addresses: vec![address] });
        inputs.extend(self.moved.drain(..).map(moved));
        for _ in 0..self.readable.len() {
            // One pass over the list; sockets that are still readable are appended for the next turn.
            let Some(place) = self.readable.pop_front() else { return };
            let socket = &mut self.sockets[place];
            socket.listed = false;
            let mut read = 0;
            for _ in 0..TURN {
                // Bounded by bytes as well as calls: joined messages may be 64 KiB each.
                if read >= TURN_BYTES {
                    break;
                }
                // Large messages are read in place; for many small ones the saved system calls outweigh a copy.
                let result = if socket.small < SMALL_RUN {
                    socket.read_large(buffers, inputs)
                } else {
                    socket.read_batch(&mut self.batch, buffers, inputs)
                };
                match result {
                    Ok(n) => read += n,
                    Err(why) if why.kind() == ErrorKind::WouldBlock => {
                        socket.readable = false;
                        break;
                    }
                    // Errors of earlier sends (an unreachable peer) surface here; the socket is fine.
                    Err(why) => tracing::trace!("receiving a datagram: {why}"),
                }
            }
            self.bytes.0 += read;
            if self.sockets[place].readable {
                self.mark_readable(place);
            }
        }
    }

    /// Sends a batch; datagrams for which the kernel has no room are queued.
    pub fn send(&mut self, layer: LayerId, to: Destination, train: DatagramBatch, now: Instant) {
        let address = match to {
            Destination::Address(address) => Some(address),
            Destination::Link(link) => self.links.get(&link).and_then(|target| target.address),
        };
        let place = address.and_then(|address| self.socket_for(layer, address));
        let (Some(address), Some(place)) = (address, place) else {
            self.dropped += train.count();
            return;
        };
        let socket = &mut self.sockets[place];
        // Datagrams of one socket keep their order, so a new one waits behind those queued.
        if !socket.queue.is_empty() {
            self.enqueue(place, address, train);
            return;
        }
        let (sent, result) = socket.send(address, &train);
        // A batch may be sent in part; only the rest is handled below.
        self.bytes.1 += sent;
        if let Err(why) = result {
            let rest = DatagramBatch { stride: train.stride, data: train.data.slice(sent, u64::MAX) };
            self.not_taken(place, address, rest, &why, now);
        }
    }
    fn not_taken(&mut self, place: usize, address: SocketAddr, mut rest: DatagramBatch, why: &io::Error, now: Instant) {
        if lacks_room(why) {
            return self.wait_for_room(place, address, rest, why, now);
        }
        tracing::trace!("sending to {address}: {why}");
        // An error may belong to one datagram only (too long for the path): the others may pass.
        self.dropped += 1;
        rest.data = rest.data.slice(u64::from(rest.stride), u64::MAX);
        // With these errors the remaining datagrams, which are as long, would fail as well.
        if !rest.data.is_empty() && matches!(why.raw_os_error(), Some(EMSGSIZE | EINVAL)) {
            self.dropped += rest.count();
        } else if !rest.data.is_empty() {
            let (sent, result) = self.sockets[place].send(address, &rest);
            self.bytes.1 += sent;
            rest.data = rest.data.slice(sent, u64::MAX);
            match result {
                Ok(()) => {}
                Err(why) if lacks_room(&why) => self.wait_for_room(place, address, rest, &why, now),
                // The other datagrams are dropped untried, so that an unreachable peer costs few system calls.
                Err(_) => self.dropped += rest.count(),
            }
        }
    }
    /// Queues datagrams until the kernel has room for them.
    fn wait_for_room(&mut self, place: usize, address: SocketAddr, rest: DatagramBatch, why: &io::Error, now: Instant) {
        if why.kind() != ErrorKind::WouldBlock {
            // The device queue is full: no report comes when it drains.
            self.sockets[place].retry = Some(now + Duration::from_millis(1));
        }
        self.enqueue(place, address, rest);
    }
    fn enqueue(&mut self, place: usize, address: SocketAddr, train: DatagramBatch) {
        let socket = &mut self.sockets[place];
        // Dropped like in any full queue of a network; layers with acknowledgments send again.
        if socket.queued + train.data.len() > QUEUE_BOUND {
            self.dropped += train.count();
            return;
        }
        socket.queued += train.data.len();
        socket.queue.push_back((address, train));
    }
    fn retry(&mut self, place: usize) {
        let Some(socket) = self.sockets.get_mut(place) else { return };
        socket.retry = None;
        while let Some((address, train)) = socket.queue.pop_front() {
            socket.queued -= train.data.len();
            let (sent, result) = socket.send(address, &train);
            self.bytes.1 += sent;
            if let Err(why) = result {
                let rest = DatagramBatch { stride: train.stride, data: train.data.slice(sent, u64::MAX) };
                if lacks_room(&why) {
                    // EWOULDBLOCK is followed by a report; ENOBUFS is not, so a timer retries.
                    if why.kind() != ErrorKind::WouldBlock {
                        socket.retry = Some(crate::clock::now() + Duration::from_millis(1));
                    }
                    socket.queued += rest.data.len();
                    // Back to the front, to keep the order.
                    socket.queue.push_front((address, rest));
                    return;
                }
                self.dropped += rest.count();
            }
        }
    }
    /// First socket of the layer that reaches the address family.
    fn socket_for(&self, layer: LayerId, to: SocketAddr) -> Option<usize> {
        let of_family = |v6: bool| self.sockets.iter().position(|s| s.layer == layer && s.v6 == v6);
        // An IPv6 socket also reaches IPv4 peers, by mapped addresses.
        of_family(to.is_ipv6()).or_else(|| if to.is_ipv4() { of_family(true) } else { None })
    }

    /// Sets the address of a link's peer, after resolution if it is a host name; `None` forgets the link.
    pub fn set_address(
        &mut self,
        (layer, link): (LayerId, LinkId),
        name: Option<String>,
        now: Instant,
        resolver: &Resolver<Lookup>,
    ) {
        // A pending report of the old address would arrive after the change.
        self.moved.retain(|(_, other, _)| *other != link);
        let Some(name) = name else { return drop(self.links.remove(&link)) };
        self.links.insert(link, SendTarget { layer, name, address: None, lookup: 0 });
        if !self.look_up(link, resolver) {
            self.resolve_at.get_or_insert(now + RESOLVE_EVERY);
        }
    }
    /// Looks up a link's address; true if it is known immediately.
    fn look_up(&mut self, link: LinkId, resolver: &Resolver<Lookup>) -> bool {
        let Some(target) = self.links.get_mut(&link) else { return true };
        self.lookups += 1;
        target.lookup = self.lookups;
        let answer = resolver.ask(Lookup { link, number: self.lookups }, &target.name);
        let known = answer.is_some();
        if let Some((lookup, addresses)) = answer {
            self.resolved(lookup, &addresses);
        }
        known
    }

    /// Retries queued datagrams and resolves host names again.
    pub fn expire(&mut self, now: Instant, resolver: &Resolver<Lookup>) {
        for place in 0..self.sockets.len() {
            if self.sockets[place].retry.is_some_and(|at| at <= now) {
                self.retry(place);
            }
        }
        if self.resolve_at.is_some_and(|at| at <= now) {
            let links: Vec<LinkId> = self.links.keys().copied().collect();
            let names = links.into_iter().filter(|link| !self.look_up(*link, resolver)).count();
            // Only host names are resolved again; without any the timer stops.
            self.resolve_at = (names > 0).then(|| now + RESOLVE_EVERY);
        }
    }
    /// Handles the answer to a lookup unless a later one was made; without addresses, the link keeps its previous one.
    pub fn resolved(&mut self, lookup: Lookup, addresses: &[SocketAddr]) {
        let link = lookup.link;
        let Some(target) = self.links.get_mut(&link).filter(|target| target.lookup == lookup.number) else { return };
        // An address whose family no socket has is the last choice: sending will report the error.
        let reachable = addresses.iter().find(|a| self.sockets.iter().any(|s| s.v6 || a.is_ipv4()));
        if let Some(address) = reachable.or(addresses.first()) {
            if target.address != Some(*address) {
                tracing::debug!("link {}: peer at {address}", link.0);
                self.moved.push((target.layer, link, canonical(*address)));
            }
            target.address = Some(*address);
        }
    }
}

const EMSGSIZE: i32 = 90;
const EINVAL: i32 = 22;
/// Whether the kernel has no room at the moment: in the socket's buffer, or, for ENOBUFS, in the device queue.
fn lacks_room(why: &io::Error) -> bool {
    why.kind() == ErrorKind::WouldBlock || why.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

impl Socket {
    fn new(layer: LayerId, socket: DatagramSocket, v6: bool) -> Self {
        let queue = VecDeque::new();
        Socket { layer, socket, v6, readable: false, listed: false, queue, queued: 0, retry: None, small: SMALL_RUN }
    }
    fn send(&self, to: SocketAddr, train: &DatagramBatch) -> (u64, io::Result<()>) {
        // On a dual-stack socket, the kernel expects IPv4 addresses in mapped form.
        let to = match to.ip() {
            IpAddr::V4(ip) if self.v6 => SocketAddr::new(ip.to_ipv6_mapped().into(), to.port()),
            _ => to,
        };
        let made: Vec<Bytes>;
        let chunks = train.data.chunks();
        // Chunks are sent without a copy, unless one is generated and has no bytes yet.
        let slices: Vec<IoSlice<'_>> = if chunks.iter().all(|chunk| matches!(chunk, Chunk::Bytes(_))) {
            let bytes = chunks.iter().filter_map(|chunk| if let Chunk::Bytes(b) = chunk { Some(b) } else { None });
            bytes.map(|bytes| IoSlice::new(bytes)).collect()
        } else {
            made = vec![train.data.to_bytes().unwrap_or_default()];
            made.iter().map(|bytes| IoSlice::new(bytes)).collect()
        };
        let (sent, result) = self.socket.send_batch(&to, train.stride as usize, &slices);
        (sent as u64, result)
    }
    /// Reads one message straight into the buffer pool.
    fn read_large(&mut self, buffers: &mut Buffers, inputs: &mut VecDeque<Input>) -> io::Result<u64> {
        let got = self.socket.receive(buffers.spare(MESSAGE_MAX + 28))?;
        let data = Payload::from(buffers.take());
        self.small = if got.len >= LARGE { 0 } else { self.small + 1 };
        // An empty datagram carries nothing, but is not an error.
        if got.len > 0 {
            let train = DatagramBatch { stride: got.stride as u32, data };
            inputs.push_back(Input::Socket(self.layer, socket::Input::Datagrams { from: canonical(got.from), train }));
        }
        Ok(got.len as u64)
    }
    /// Reads up to 32 messages with one call, copied together; consecutive datagrams of one sender and length become
    /// one batch.
    fn read_batch(
        &mut self,
        batch: &mut DatagramSlots,
        buffers: &mut Buffers,
        inputs: &mut VecDeque<Input>,
    ) -> io::Result<u64> {
        let mut run = DatagramRun { layer: self.layer, from: None, stride: 0, closed: false };
        let (mut total, mut largest) = (0, 0);
        self.socket.receive_batch(batch, |got, data| {
            total += got.len as u64;
            largest = largest.max(got.len);
            if got.len > 0 {
                run.add(canonical(got.from), got.stride, data, buffers, inputs);
            }
        })?;
        run.end(buffers, inputs);
        // One large message suffices to change the mode: large ones come in sequences.
        self.small = if largest >= LARGE { 0 } else { SMALL_RUN };
        Ok(total)
    }
}

/// Datagrams being joined to one batch.
struct DatagramRun {
    layer: LayerId,
    from: Option<SocketAddr>,
    stride: usize,
    closed: bool,
}
impl DatagramRun {
    fn add(
        &mut self,
        from: SocketAddr,
        stride: usize,
        data: &[u8],
        buffers: &mut Buffers,
        inputs: &mut VecDeque<Input>,
    ) {
        // A shorter datagram ends a batch; one with another stride begins the next.
        let fits = stride == self.stride || (data.len() <= stride && stride < self.stride);
        if self.from != Some(from) || self.closed || !fits || room(buffers) < data.len() {
            self.end(buffers, inputs);
            self.from = Some(from);
            self.stride = stride;
            // Room for the longest message, so that later additions never move the buffer.
            buffers.spare(MESSAGE_MAX + 28);
        }
        // Only the last datagram of a batch may be shorter.
        self.closed = !data.len().is_multiple_of(self.stride);
        buffers.spare(0).extend_from_slice(data);
    }
    fn end(&mut self, buffers: &mut Buffers, inputs: &mut VecDeque<Input>) {
        if let Some(from) = self.from.take() {
            let train = DatagramBatch { stride: self.stride as u32, data: Payload::from(buffers.take()) };
            inputs.push_back(Input::Socket(self.layer, socket::Input::Datagrams { from, train }));
        }
        self.closed = false;
    }
}
fn room(buffers: &mut Buffers) -> usize {
    let buffer: &BytesMut = buffers.spare(0);
    buffer.capacity() - buffer.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn node(listen: &str) -> (Datagrams, SocketAddr) {
        let layers = [(LayerId(0), vec![listen.parse().unwrap()], true)];
        let datagrams = Datagrams::new(&layers).unwrap();
        let address = datagrams.local_addresses()[0].1;
        (datagrams, address)
    }
    fn receive(node: &mut Datagrams) -> Vec<(SocketAddr, u32, Bytes)> {
        let (mut buffers, mut inputs) = (Buffers::keeping(64), VecDeque::new());
        node.mark_readable(0);
        while node.busy() {
            node.read(&mut buffers, &mut inputs);
        }
        let read = |input| match input {
            Input::Socket(_, socket::Input::Datagrams { from, train, .. }) => {
                (from, train.stride, train.data.to_bytes().unwrap())
            }
            other => panic!("{other:?}"),
        };
        inputs.into_iter().map(read).collect()
    }

    #[test]
    fn datagrams_arrive_batched_in_order() {
        let (mut node, address) = node("127.0.0.1:0");
        let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        for (socket, len, byte) in [(&a, 100, 1), (&a, 100, 2), (&a, 40, 3), (&a, 100, 4), (&b, 100, 5), (&b, 200, 6)] {
            socket.send_to(&vec![byte; len], address).unwrap();
        }
        a.send_to(&[], address).unwrap();
        let got = receive(&mut node);
        let flat: Vec<_> =
            got.iter().flat_map(|(_, stride, data)| data.chunks(*stride as usize).map(|d| (d.len(), d[0]))).collect();
        assert_eq!(flat, [(100, 1), (100, 2), (40, 3), (100, 4), (100, 5), (200, 6)]);
        assert!(got.len() < 6, "the first three came as one train: {got:?}");
    }

    #[test]
    fn dual_stack_socket_unmaps_ipv4_peers() {
        let (mut node, address) = node("[::]:0");
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = SocketAddr::new("127.0.0.1".parse().unwrap(), address.port());
        peer.send_to(b"hello", to).unwrap();
        let got = receive(&mut node);
        assert_eq!(got[0].0, peer.local_addr().unwrap());
        node.send(
            LayerId(0),
            Destination::Address(got[0].0),
            DatagramBatch::single(Payload::from(&b"back"[..])),
            Instant::ZERO,
        );
        let mut buffer = [0; 9];
        assert_eq!(peer.recv_from(&mut buffer).unwrap(), (4, to));
        assert_eq!(node.dropped, 0);
        node.send(
            LayerId(0),
            Destination::Link(LinkId(9)),
            DatagramBatch::single(Payload::from(&b"?"[..])),
            Instant::ZERO,
        );
        assert_eq!(node.dropped, 1, "no address, no datagram");
    }

    #[test]
    fn layers_use_separate_sockets() {
        let listen = || vec!["127.0.0.1:0".parse().unwrap()];
        let mut node = Datagrams::new(&[(LayerId(0), listen(), true), (LayerId(1), listen(), true)]).unwrap();
        let addresses = node.local_addresses();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        for (layer, address) in &addresses {
            peer.send_to(&[layer.0 as u8; 5], address).unwrap();
        }
        let (mut buffers, mut inputs) = (Buffers::keeping(64), VecDeque::new());
        (0..2).for_each(|place| node.mark_readable(place));
        while node.busy() {
            node.read(&mut buffers, &mut inputs);
        }
        let mut seen = Vec::new();
        for input in inputs {
            let Input::Socket(layer, socket::Input::Datagrams { train, .. }) = input else { panic!("{input:?}") };
            seen.push((layer.0, train.data.to_bytes().unwrap()[0]));
        }
        seen.sort_unstable();
        assert_eq!(seen, [(0, 0), (1, 1)]);
        for (layer, address) in addresses.into_iter().rev() {
            let to = Destination::Address(peer.local_addr().unwrap());
            node.send(layer, to, DatagramBatch::single(Payload::from(&b"x"[..])), Instant::ZERO);
            assert_eq!(peer.recv_from(&mut [0; 9]).unwrap(), (1, address), "from the layer's own socket");
        }
    }

    #[test]
    fn datagrams_of_failed_batch_are_counted() {
        let (mut node, _) = node("127.0.0.1:0");
        // A socket without the permission to broadcast.
        let nowhere = Destination::Address("255.255.255.255:9".parse().unwrap());
        let train = DatagramBatch { stride: 10, data: Payload::from(vec![0; 45]) };
        node.send(LayerId(0), nowhere, train, Instant::ZERO);
        assert_eq!((node.dropped, node.bytes.1), (5, 0));
    }

    #[test]
    fn late_lookup_answers_are_ignored() {
        let (mut node, _) = node("127.0.0.1:0");
        let resolver = Resolver::start(Poller::new().unwrap().waker()).unwrap();
        let peers = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        let send = |node: &mut Datagrams| {
            let train = DatagramBatch::single(Payload::from(&b"x"[..]));
            node.send(LayerId(0), Destination::Link(LinkId(3)), train, Instant::ZERO);
        };
        for peer in &peers {
            let address = peer.local_addr().unwrap().to_string();
            node.set_address((LayerId(0), LinkId(3)), Some(address.clone()), Instant::ZERO, &resolver);
            let (mut buffers, mut inputs) = (Buffers::keeping(64), VecDeque::new());
            node.read(&mut buffers, &mut inputs);
            let told = matches!(inputs.make_contiguous(), [Input::Socket(LayerId(0), socket::Input::Located { link: LinkId(3), addresses })] if addresses[0].to_string() == address);
            assert!(told, "the layer knows where its peer is: {inputs:?}");
            send(&mut node);
            assert_eq!(peer.recv_from(&mut [0; 9]).unwrap().0, 1);
        }
        let old = Lookup { link: LinkId(3), number: node.links[&LinkId(3)].lookup - 1 };
        node.resolved(old, &[peers[0].local_addr().unwrap()]);
        send(&mut node);
        assert_eq!(peers[1].recv_from(&mut [0; 9]).unwrap().0, 1, "still where it was told last");
        for _ in 0..1000 {
            node.set_address((LayerId(0), LinkId(3)), None, Instant::ZERO, &resolver);
            assert!(node.links.is_empty() && node.next_timeout().is_none());
            node.set_address((LayerId(0), LinkId(3)), Some("127.0.0.1:9".into()), Instant::ZERO, &resolver);
        }
        node.set_address((LayerId(0), LinkId(3)), None, Instant::ZERO, &resolver);
        send(&mut node);
        assert_eq!(node.dropped, 1);
    }
}
