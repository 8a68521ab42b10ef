//! Connection of one application: socket, decoder, and answers in the order of requests.

use crate::buffers::Buffers;
use bytes::{Bytes, BytesMut};
use farlink_aap2::decoder::Decoder;
use farlink_aap2::proto::{self, AapBody, AapMessage, AapResponse, BundleHeaders, Keepalive};
use farlink_base::{Chunk, Duration, EndpointId, Instant, Payload, Refusal};
use farlink_bpa::app::{DeliveryId, RegistrationId, RequestId};
use farlink_os::poll::Readiness;
use farlink_os::stream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Most bytes read from one application in one turn.
const READ_TURN: usize = 256 << 10;
/// Requests of one application that may await the node's decision; at this number, the application is not read.
const REQUESTS_MAX: usize = 1024;
/// Payload bytes of requests that may await a decision; at this number, the application is not read.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Bytes of answers that a client may leave unread; at this number, the client is not read.
const UNREAD_MAX: usize = 256 << 10;
/// Time limit for a client's configuration, and for progress of an unfinished bundle.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Least bytes of an unfinished bundle that must arrive within [`PATIENCE`].
const PROGRESS_MIN: u64 = 16 << 10;

/// Socket of an application.
pub enum AppSocket {
    /// Unix socket, the usual case.
    Unix(UnixStream),
    /// TCP connection, if configured.
    Tcp(TcpStream),
}
impl AsFd for AppSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            AppSocket::Unix(socket) => socket.as_fd(),
            AppSocket::Tcp(socket) => socket.as_fd(),
        }
    }
}
impl AppSocket {
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            AppSocket::Unix(socket) => socket.write_vectored(slices),
            AppSocket::Tcp(socket) => socket.write_vectored(slices),
        }
    }
}

/// Bytes of one spooled payload that may be on their way to disk; at this number, its application is not read.
const SPOOL_WINDOW: u64 = 4 << 20;
/// Divisor: the window is at most the memory of all applications divided by this.
const SPOOL_PART: u64 = 4;
/// Least bytes of one write to disk, except the last.
const SPOOL_STEP: u64 = 256 << 10;
/// Most and least bytes of a delivery read from disk at once, when the application has taken all earlier output.
const READ_STEP: (u64, u64) = (2 << 20, 64 << 10);

/// Bounds of payloads that are spooled to disk as they arrive.
#[derive(Clone, Copy)]
pub struct Spooling {
    /// Length above which payloads are spooled.
    pub from: u64,
    /// Bytes on their way to disk at which reading stops.
    pub window: u64,
}
impl Spooling {
    /// Computes the bounds from the memory of all applications.
    pub fn new(from: u64, sending_max: u64) -> Spooling {
        Spooling { from, window: SPOOL_WINDOW.min(sending_max / SPOOL_PART) }
    }
    /// Most memory of one spooled payload: its window, a read beyond it, and a rest too short for a write.
    pub fn most(&self) -> u64 {
        self.window + READ_TURN as u64 + SPOOL_STEP
    }
}

/// Bundle whose payload is spooled as it arrives.
pub struct Spool {
    /// Number of the request that sends the bundle once it has arrived.
    pub request: RequestId,
    /// Bytes on their way to disk.
    pub flying: u64,
    /// Reason of refusal, once known.
    pub refused: Option<Refusal>,
}

/// Output that waits for a read from disk: a delivery on disk, or bytes to send after such a delivery.
enum Later {
    Bytes(Bytes),
    /// Delivery on disk: its head, which leaves with the first bytes read, and the payload still to be read.
    Stored(DeliveryId, Option<Bytes>, Payload),
}

/// Answer owed to a client, in order of requests.
pub enum Owed {
    /// Request that awaits the node's decision, with the memory it holds.
    Request(RequestId, u64, BundleHeaders),
    /// Answer that must wait until all earlier requests are answered.
    Answer(AapResponse),
}

/// Message to a subscriber that the subscriber has yet to answer; answers come in this order.
pub enum Pushed {
    /// Delivered bundle.
    Delivery(DeliveryId),
    /// Keepalive of this node.
    Keepalive,
}

/// One connected application.
pub struct Connection {
    socket: AppSocket,
    /// Decoder of the application's messages.
    pub decoder: Decoder,
    /// Endpoint of the application, once configured.
    pub endpoint: Option<String>,
    /// Canonical form of the endpoint, under which its secret is kept.
    pub canonical: EndpointId,
    /// Registration; `None` if the client is no subscriber.
    pub registration: Option<RegistrationId>,
    /// Whether the node confirmed the registration.
    pub registered: bool,
    /// Answers owed to the client.
    pub owed: VecDeque<Owed>,
    /// Payload bytes of requests that await a decision.
    owed_bytes: u64,
    /// Messages that the client has yet to answer, in order.
    pub pushed: VecDeque<Pushed>,
    /// Keepalive interval; zero disables it.
    pub keepalive: Duration,
    /// Time of the last bytes from the application.
    pub heard: Instant,
    /// Time of the last keepalive sent.
    pub asked: Instant,
    opened: Instant,
    /// Whether the application's configuration was accepted.
    pub introduced: bool,
    /// Whether the application's unfinished bundle has memory and may arrive.
    pub admitted: bool,
    /// Memory counted for this connection in the sum of all applications.
    pub counted: u64,
    spooling: Spooling,
    /// Payload being spooled to disk.
    pub spool: Option<Spool>,
    /// Time of the last progress of an arriving bundle, and its bytes by then.
    progress: (Instant, u64),
    /// Upper bound of the bytes of answers in `out`.
    unread: usize,
    out: VecDeque<Bytes>,
    /// Output that waits for reads from disk; `reading` is the delivery being read.
    later: VecDeque<Later>,
    reading: Option<DeliveryId>,
    readable: bool,
    writable: bool,
    /// Whether the kernel reports room to write.
    asks_for_room: bool,
    ended: bool,
    /// Whether the client takes no more output; messages that it sent earlier are still read.
    broken: bool,
}

impl Connection {
    /// Creates the connection and queues the welcome.
    pub fn new(socket: AppSocket, node_id: &str, (payload_max, spooling): (u64, Spooling), now: Instant) -> Self {
        Connection {
            socket,
            decoder: Decoder::new(payload_max),
            endpoint: None,
            canonical: EndpointId::Null,
            registration: None,
            registered: false,
            owed: VecDeque::new(),
            owed_bytes: 0,
            pushed: VecDeque::new(),
            keepalive: Duration::ZERO,
            heard: now,
            asked: now,
            opened: now,
            introduced: false,
            admitted: false,
            counted: 0,
            spooling,
            spool: None,
            progress: (now, 0),
            unread: 0,
            out: VecDeque::from([proto::greeting(node_id)]),
            later: VecDeque::new(),
            reading: None,
            readable: true,
            writable: true,
            asks_for_room: false,
            ended: false,
            broken: false,
        }
    }
    /// Stops output; earlier messages of the client still count.
    pub fn break_off(&mut self) {
        // Sets `readable`, so that the remaining input is read, and clears `unread`, whose limit would stop reading:
        // nobody reads answers any more.
        (self.broken, self.readable, self.unread) = (true, true, 0);
        self.out.clear();
        self.later.clear();
        self.reading = None;
    }
    /// Lets the client configure itself again, in as much time as after it connected.
    pub fn unconfigure(&mut self, now: Instant) {
        (self.introduced, self.opened, self.keepalive) = (false, now, Duration::ZERO);
        self.decoder.expect_requests();
    }
    /// Records readiness of the socket.
    pub fn on_ready(&mut self, ready: Readiness) {
        self.readable |= ready.readable;
        self.writable |= ready.writable;
        self.ended |= ready.ended;
    }
    /// Returns whether the kernel should report room to write, or `None` if that is unchanged since the last call.
    pub fn asks_for_room(&mut self) -> Option<bool> {
        // Room is watched from a write that falls short until all output has left.
        let asks = if self.writable { self.asks_for_room && !self.out.is_empty() } else { true };
        (asks != std::mem::replace(&mut self.asks_for_room, asks)).then_some(asks)
    }
    /// Socket, for the poller.
    pub fn socket(&self) -> &AppSocket {
        &self.socket
    }
    /// Returns whether there is input and room for it.
    pub fn wants_read(&self) -> bool {
        self.readable
            && self.owed.len() < REQUESTS_MAX
            && self.owed_bytes < REQUEST_BYTES_MAX
            && self.unread < UNREAD_MAX
            // An unfinished bundle that waits for memory is not read on: the socket buffers slow the client down.
            && (self.admitted || self.decoder.unfinished().is_none())
            && self.spool.as_ref().is_none_or(|spool| spool.flying < self.spooling.window)
    }
    /// Memory of a bundle of this length, until the node has decided.
    fn cost(&self, length: u64) -> u64 {
        // A spooled bundle never occupies more than its window and the reads around it.
        if length > self.spooling.from { length.min(self.spooling.most()) } else { length }
    }
    /// Payload bytes in memory: of the arriving bundle, and of those without a decision.
    pub fn held_bytes(&self) -> u64 {
        let coming = self.decoder.unfinished().filter(|_| self.admitted).map_or(0, |(total, _)| self.cost(total));
        coming + self.owed_bytes
    }
    /// Memory needed by the bundle that waits for admission; `None` if no bundle waits.
    pub fn asks_for(&self) -> Option<u64> {
        self.decoder.unfinished().filter(|_| !self.admitted).map(|(total, _)| self.cost(total))
    }
    /// Next part of a spooled payload; `None` if too little has arrived, or no payload is being spooled.
    pub fn spooled_part(&mut self) -> Option<Payload> {
        // Bundles that fit in memory are not spooled: the decoder collects them whole.
        let (total, _) = self.decoder.unfinished().filter(|(total, _)| self.admitted && *total > self.spooling.from)?;
        self.decoder.take_part(SPOOL_STEP.min(total))
    }
    /// Lets the waiting bundle arrive.
    pub fn admit(&mut self, now: Instant) {
        self.admitted = true;
        self.progress = (now, self.decoder.unfinished().map_or(0, |(_, come)| come));
    }
    /// Returns whether the client took too long to configure itself or to continue a bundle.
    pub fn is_overdue(&mut self, now: Instant) -> bool {
        // Bytes that this node has yet to read (`readable`) count as progress below: the client is not to blame.
        if !self.introduced {
            return now.since(self.opened) >= PATIENCE;
        }
        let Some((_, come)) = self.decoder.unfinished().filter(|_| self.admitted) else { return false };
        if come >= self.progress.1 + PROGRESS_MIN || self.readable {
            self.progress = (now, come);
        }
        now.since(self.progress.0) >= PATIENCE
    }
    /// Returns whether output is waiting and the socket takes it.
    pub fn wants_write(&self) -> bool {
        self.writable && !self.out.is_empty() && !self.broken
    }
    /// Reads a bounded amount into the decoder; true if the connection ended or broke the protocol.
    pub fn read(&mut self, buffers: &mut Buffers, now: Instant) -> bool {
        // At most this much, so that one client does not fill the turn.
        match stream::read_into(&self.socket, buffers.spare(READ_TURN), READ_TURN) {
            Ok(0) => true,
            Ok(n) => {
                // A short read emptied the socket, so the kernel reports further data. The end of the stream was
                // reported already and will not be again.
                self.readable = n == READ_TURN || self.ended || self.broken;
                self.heard = now;
                match self.decoder.feed(buffers.take()) {
                    Ok(()) => {
                        // The next bundle needs memory of its own.
                        self.admitted &= !self.decoder.has_request();
                        false
                    }
                    Err(why) => {
                        tracing::info!("application connection closed: {why}");
                        true
                    }
                }
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                // An interrupted call is repeated in the next turn.
                self.readable = why.kind() == ErrorKind::Interrupted;
                self.broken && !self.readable
            }
            Err(_) => true,
        }
    }
    /// Writes queued output; true if the connection is broken.
    pub fn write(&mut self) -> bool {
        while self.wants_write() {
            let mut slices = [IoSlice::new(&[]); 64];
            let mut count = 0;
            for (slice, bytes) in slices.iter_mut().zip(&self.out) {
                *slice = IoSlice::new(bytes);
                count += 1;
            }
            match self.socket.write_vectored(&slices[..count]) {
                Ok(mut n) => {
                    while let Some(front) = self.out.front_mut() {
                        let taken = n.min(front.len());
                        // Splitting advances the buffer without copying.
                        let _ = front.split_to(taken);
                        n -= taken;
                        if !front.is_empty() {
                            break;
                        }
                        self.out.pop_front();
                    }
                    // Answers and deliveries are mixed in the queue, so only an empty one proves that all answers have
                    // left.
                    if self.out.is_empty() {
                        self.unread = 0;
                    }
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        false
    }
    /// Answers the newest request, after all earlier answers.
    pub fn answer(&mut self, response: AapResponse) {
        self.owed.push_back(Owed::Answer(response));
        self.release();
    }
    /// Records a request that the node must decide.
    pub fn ask(&mut self, request: RequestId, length: u64, headers: BundleHeaders) {
        let cost = self.cost(length);
        self.owed.push_back(Owed::Request(request, cost, headers));
        self.owed_bytes += cost;
    }
    /// Records the node's decision on a request.
    pub fn decided(&mut self, request: RequestId, response: AapResponse) {
        for owed in &mut self.owed {
            if let Owed::Request(id, length, _) = owed
                && *id == request
            {
                self.owed_bytes -= *length;
                *owed = Owed::Answer(response);
                break;
            }
        }
        self.release();
    }
    /// Shrinks queues after a burst.
    pub fn give_back(&mut self) {
        self.owed.shrink_to_fit();
        self.pushed.shrink_to_fit();
        self.out.shrink_to_fit();
        self.later.shrink_to_fit();
    }
    /// Sends the answers at the front of the queue, up to the first request that awaits a decision.
    fn release(&mut self) {
        let mut out = BytesMut::new();
        while let Some(Owed::Answer(response)) = self.owed.front() {
            // AAP2 answers have no numbers: their order is the only link to the requests.
            proto::frame(response, &mut out);
            self.owed.pop_front();
        }
        if !out.is_empty() {
            self.unread += out.len();
            // Counted until written, to stop reading from clients that send without reading.
            self.say(out.freeze());
        }
    }
    /// Appends output.
    fn say(&mut self, bytes: Bytes) {
        match self.later.is_empty() {
            true => self.out.push_back(bytes),
            // Bytes behind a delivery from disk wait, or they would be sent within its message.
            false => self.later.push_back(Later::Bytes(bytes)),
        }
    }
    /// Pushes a bundle to a subscriber. A bundle on disk is read at the subscriber's pace, and its head is held back
    /// until the first part was read.
    pub fn deliver(&mut self, delivery: DeliveryId, adu: proto::BundleAdu, payload: &Payload) {
        let mut head = BytesMut::new();
        proto::frame(&AapMessage::new(AapBody::Adu(adu)), &mut head);
        if payload.is_stored() {
            self.later.push_back(Later::Stored(delivery, Some(head.freeze()), payload.clone()));
        } else {
            self.say(head.freeze());
            self.say_payload(payload);
        }
        self.pushed.push_back(Pushed::Delivery(delivery));
    }
    fn say_payload(&mut self, payload: &Payload) {
        for chunk in payload.chunks() {
            match chunk {
                Chunk::Bytes(bytes) => self.say(bytes.clone()),
                // Generated chunks get bytes only now.
                other => {
                    let mut rope = Payload::new();
                    rope.push(other.clone());
                    rope.to_bytes().into_iter().for_each(|bytes| self.say(bytes));
                }
            }
        }
    }
    /// Next part of a delivery to read from disk, of at most `most` bytes, though no less than the smallest read.
    /// `None` while a read is pending or output waits for the client.
    pub fn wants_stored(&mut self, most: u64) -> Option<(DeliveryId, Payload)> {
        // One read at a time, and only when the client has taken the previous one.
        if self.reading.is_some() || !self.out.is_empty() {
            return None;
        }
        let Some(Later::Stored(delivery, _, rope)) = self.later.front_mut() else { return None };
        self.reading = Some(*delivery);
        Some((*delivery, rope.split_to(most.clamp(READ_STEP.1, READ_STEP.0).min(rope.len()))))
    }
    /// Returns whether this delivery is being read for the client.
    pub fn reads(&self, delivery: DeliveryId) -> bool {
        self.reading == Some(delivery)
    }
    /// Queues for the client a part of a stored delivery that was read from disk.
    pub fn stored_came(&mut self, part: &Payload) {
        self.reading = None;
        let mut behind = std::mem::take(&mut self.later);
        let mut whole = false;
        if let Some(Later::Stored(_, head, rest)) = behind.front_mut() {
            whole = rest.is_empty();
            // The head leaves with the first part: until then, the delivery can be withdrawn.
            self.out.extend(head.take());
            // Copied, because the bytes share memory with other reads, and a slow client would keep it all.
            self.say_payload(&part.own());
        }
        self.later = behind;
        if whole {
            self.next_later();
        }
    }
    /// Handles a failed read. Returns true if nothing of the delivery was sent, so that it can be withdrawn.
    pub fn stored_failed(&mut self) -> bool {
        let failed = self.reading.take();
        // The head was sent, so the client expects the whole payload.
        if !matches!(self.later.front(), Some(Later::Stored(_, Some(_), _))) {
            return false;
        }
        self.pushed.retain(|pushed| !matches!(pushed, Pushed::Delivery(delivery) if Some(*delivery) == failed));
        self.next_later();
        true
    }
    /// Finishes the first pending item and releases the output up to the next delivery on disk.
    fn next_later(&mut self) {
        self.later.pop_front();
        while let Some(Later::Bytes(_)) = self.later.front()
            && let Some(Later::Bytes(bytes)) = self.later.pop_front()
        {
            self.out.push_back(bytes);
        }
    }
    /// Sends a keepalive to a subscriber if one is due. Returns true if the client is gone: no bytes came for two
    /// intervals and, from a subscriber, no answer to a keepalive.
    pub fn check_keepalive(&mut self, now: Instant) -> bool {
        if self.keepalive.is_zero() {
            return false;
        }
        let silent = now.since(self.heard);
        if self.registration.is_some() {
            // A keepalive before the answer to the configuration would be taken for it.
            if !self.registered {
                return false;
            }
            // The client had a whole interval to answer the keepalive.
            if silent >= self.keepalive * 2 && self.pushed.iter().any(|p| matches!(p, Pushed::Keepalive)) {
                return true;
            }
            // A client with an unanswered delivery is busy; its answer will count as a sign of life.
            if now.since(self.asked) >= self.keepalive && self.pushed.is_empty() {
                self.asked = now;
                let mut out = BytesMut::new();
                proto::frame(&AapMessage::new(AapBody::Keepalive(Keepalive {})), &mut out);
                self.say(out.freeze());
                self.pushed.push_back(Pushed::Keepalive);
            }
            return false;
        }
        silent >= self.keepalive * 2
    }
}
