//! One application's connection: its socket, its decoder, and answers in the order of requests.

use crate::buffers::Buffers;
use bytes::{Bytes, BytesMut};
use farlink_aap2::decoder::Decoder;
use farlink_aap2::proto::{self, AapBody, AapMessage, AapResponse, AapStatus, BundleHeaders, Keepalive};
use farlink_base::{Chunk, Duration, EndpointId, Instant, Payload, Refusal};
use farlink_bpa::app::{DeliveryId, RegistrationId, RequestId};
use farlink_os::poll::Readiness;
use farlink_os::stream;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes read from one application in one turn.
const READ_TURN: usize = 256 << 10;
/// Requests of one application waiting for the node; beyond, it is not read from.
const REQUESTS_MAX: usize = 1024;
/// Payload bytes of such requests.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Bytes of answers a client has not read; beyond, it is not read from.
const UNREAD_MAX: usize = 256 << 10;
/// A client that has not said what it wants by then is gone, as is one that does not go on with a bundle.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// So much of a bundle comes in that time at least.
const PROGRESS_MIN: u64 = 16 << 10;

/// The socket of an application.
pub enum AppSocket {
    /// Unix.
    Unix(UnixStream),
    /// TCP.
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

/// Bytes of a payload that goes to disk as it comes which may be on their way there, at most; beyond, it is not read
/// from.
const SPOOL_WINDOW: u64 = 4 << 20;
/// It is no more than this part, as a divisor, of what all applications may make this node keep.
const SPOOL_PART: u64 = 4;
/// Least bytes that are sent there at once, but for the last.
const SPOOL_STEP: u64 = 256 << 10;
/// Most and least bytes of a delivery that are read from disk at once, when there is nothing else for its application
/// to read.
const READ_STEP: (u64, u64) = (2 << 20, 64 << 10);

/// How payloads that go to disk as they come are bounded.
#[derive(Clone, Copy)]
pub struct Spooling {
    /// Payloads longer than this do.
    pub from: u64,
    /// Bytes of one on their way there from which on it is not read from.
    pub window: u64,
}
impl Spooling {
    /// Where all applications may make this node keep so many bytes.
    pub fn new(from: u64, sending_max: u64) -> Spooling {
        Spooling { from, window: SPOOL_WINDOW.min(sending_max / SPOOL_PART) }
    }
    /// What one takes of memory at most: its window, the read that goes beyond it, and what is too little for a step.
    pub fn most(&self) -> u64 {
        self.window + READ_TURN as u64 + SPOOL_STEP
    }
}

/// A bundle whose payload goes to disk as it comes.
pub struct Spool {
    /// The number its request will have.
    pub request: RequestId,
    /// Bytes on their way to disk.
    pub flying: u64,
    /// Why it is not taken, once that is known.
    pub refused: Option<Refusal>,
}

/// What is to be written behind the rest of a delivery that lies on disk.
enum Later {
    Bytes(Bytes),
    /// Such a delivery: its head, until the first of its bytes are here, and those still to be read.
    Stored(DeliveryId, Option<Bytes>, Payload),
}

/// Something a client is owed an answer for, in order.
pub enum Owed {
    /// The node decides.
    Request(RequestId, u64, BundleHeaders),
    /// Decided, and waiting for its turn.
    Answer(AapResponse),
}

/// Something a subscriber owes an answer for, in order.
pub enum Pushed {
    /// A bundle.
    Delivery(DeliveryId),
    /// A keepalive.
    Keepalive,
}

/// One connected application.
pub struct Connection {
    socket: AppSocket,
    /// What it says.
    pub decoder: Decoder,
    /// Its endpoint, once configured.
    pub endpoint: Option<String>,
    /// That endpoint's one name, which its secret is kept under.
    pub canonical: EndpointId,
    /// Its registration, for a subscriber.
    pub registration: Option<RegistrationId>,
    /// Answers owed to it.
    pub owed: VecDeque<Owed>,
    /// Payload bytes of the requests among them.
    owed_bytes: u64,
    /// Answers it owes.
    pub pushed: VecDeque<Pushed>,
    /// Keepalive interval; zero for none.
    pub keepalive: Duration,
    /// When it last said something.
    pub heard: Instant,
    /// When the last keepalive left.
    pub asked: Instant,
    opened: Instant,
    /// It said what it wants: its configuration was taken.
    pub introduced: bool,
    /// The bundle that is half here may come on; it counts until it is whole.
    pub admitted: bool,
    /// What it has of the bytes of all, as last reckoned.
    pub counted: u64,
    spooling: Spooling,
    /// The payload that goes to disk as it comes.
    pub spool: Option<Spool>,
    /// When how much of a bundle had come.
    progress: (Instant, u64),
    /// Bytes in `out` that are answers rather than deliveries, at most.
    unread: usize,
    out: VecDeque<Bytes>,
    /// What follows, once there is something of a delivery on disk; and the delivery that is being read.
    later: VecDeque<Later>,
    reading: Option<DeliveryId>,
    readable: bool,
    writable: bool,
    /// Whether the kernel says when there is room to write.
    asks_for_room: bool,
    ended: bool,
    /// It takes nothing more: what it said before is read, and that is all.
    broken: bool,
}

impl Connection {
    /// Greets a new client.
    pub fn new(socket: AppSocket, node_id: &str, (payload_max, spooling): (u64, Spooling), now: Instant) -> Self {
        Connection {
            socket,
            decoder: Decoder::new(payload_max),
            endpoint: None,
            canonical: EndpointId::Null,
            registration: None,
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
    /// It takes nothing more; what it said before counts.
    pub fn break_off(&mut self) {
        (self.broken, self.readable, self.unread) = (true, true, 0);
        self.out.clear();
        self.later.clear();
        self.reading = None;
    }
    /// The kernel reports on the socket.
    pub fn on_ready(&mut self, ready: Readiness) {
        self.readable |= ready.readable;
        self.writable |= ready.writable;
        self.ended |= ready.ended;
    }
    /// Whether the kernel shall say from now on when there is room to write, or no longer; `None`: as it does.
    pub fn asks_for_room(&mut self) -> Option<bool> {
        let asks = if self.writable { self.asks_for_room && !self.out.is_empty() } else { true };
        (asks != std::mem::replace(&mut self.asks_for_room, asks)).then_some(asks)
    }
    /// Its socket, to be watched.
    pub fn socket(&self) -> &AppSocket {
        &self.socket
    }
    /// Whether there is something to read and room to take it.
    pub fn wants_read(&self) -> bool {
        self.readable
            && self.owed.len() < REQUESTS_MAX
            && self.owed_bytes < REQUEST_BYTES_MAX
            && self.unread < UNREAD_MAX
            && (self.admitted || self.decoder.unfinished().is_none())
            && self.spool.as_ref().is_none_or(|spool| spool.flying < self.spooling.window)
    }
    /// What a bundle of this length takes of memory while it comes, and until it is decided about.
    fn cost(&self, length: u64) -> u64 {
        if length > self.spooling.from { length.min(self.spooling.most()) } else { length }
    }
    /// Payload bytes it makes this node keep: of the bundle that comes, and of those not decided about.
    pub fn held_bytes(&self) -> u64 {
        let coming = self.decoder.unfinished().filter(|_| self.admitted).map_or(0, |(total, _)| self.cost(total));
        coming + self.owed_bytes
    }
    /// What a bundle that waits to be let on will take.
    pub fn asks_for(&self) -> Option<u64> {
        self.decoder.unfinished().filter(|_| !self.admitted).map(|(total, _)| self.cost(total))
    }
    /// What has come of a bundle that goes to disk meanwhile; `None`: not enough for a step.
    pub fn spooled_part(&mut self) -> Option<Payload> {
        let (total, _) = self.decoder.unfinished().filter(|(total, _)| self.admitted && *total > self.spooling.from)?;
        self.decoder.take_part(SPOOL_STEP.min(total))
    }
    /// Lets its bundle come on.
    pub fn admit(&mut self, now: Instant) {
        self.admitted = true;
        self.progress = (now, self.decoder.unfinished().map_or(0, |(_, come)| come));
    }
    /// Whether it says nothing of what it wants for too long, or stopped in the middle of a bundle. One this node
    /// does not read from is not blamed.
    pub fn is_overdue(&mut self, now: Instant) -> bool {
        if !self.introduced {
            return now.since(self.opened) >= PATIENCE;
        }
        let Some((_, come)) = self.decoder.unfinished().filter(|_| self.admitted) else { return false };
        if come >= self.progress.1 + PROGRESS_MIN || self.readable {
            self.progress = (now, come);
        }
        now.since(self.progress.0) >= PATIENCE
    }
    /// Whether bytes wait to be written and can be.
    pub fn wants_write(&self) -> bool {
        self.writable && !self.out.is_empty() && !self.broken
    }
    /// Reads a bounded amount into the decoder; true at the end of the connection.
    pub fn read(&mut self, buffers: &mut Buffers, now: Instant) -> bool {
        match stream::read_into(&self.socket, buffers.spare(READ_TURN), READ_TURN) {
            Ok(0) => true,
            Ok(n) => {
                // A short read emptied the socket, but the end was reported only once.
                self.readable = n == READ_TURN || self.ended || self.broken;
                self.heard = now;
                match self.decoder.feed(buffers.take()) {
                    Ok(()) => {
                        // Behind one that is whole the next asks anew.
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
                self.readable = why.kind() == ErrorKind::Interrupted;
                self.broken && !self.readable
            }
            Err(_) => true,
        }
    }
    /// Writes what waits; true when the connection is gone.
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
                        let _ = front.split_to(taken);
                        n -= taken;
                        if !front.is_empty() {
                            break;
                        }
                        self.out.pop_front();
                    }
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
    /// Answers the newest request; it leaves after those before it.
    pub fn answer(&mut self, status: AapStatus) {
        self.owed.push_back(Owed::Answer(AapResponse::new(status)));
        self.release();
    }
    /// The node is to decide about a bundle of this length.
    pub fn ask(&mut self, request: RequestId, length: u64, headers: BundleHeaders) {
        let cost = self.cost(length);
        self.owed.push_back(Owed::Request(request, cost, headers));
        self.owed_bytes += cost;
    }
    /// The node decided about a request.
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
    /// Room that a busy time needed is given back.
    pub fn give_back(&mut self) {
        self.owed.shrink_to_fit();
        self.pushed.shrink_to_fit();
        self.out.shrink_to_fit();
        self.later.shrink_to_fit();
    }
    /// Sends the answers whose turn it is.
    fn release(&mut self) {
        let mut out = BytesMut::new();
        while let Some(Owed::Answer(response)) = self.owed.front() {
            proto::frame(response, &mut out);
            self.owed.pop_front();
        }
        if !out.is_empty() {
            self.unread += out.len();
            self.say(out.freeze());
        }
    }
    /// Writes this behind all else.
    fn say(&mut self, bytes: Bytes) {
        match self.later.is_empty() {
            true => self.out.push_back(bytes),
            false => self.later.push_back(Later::Bytes(bytes)),
        }
    }
    /// Pushes a bundle to a subscriber; one on disk is read as the subscriber reads, and not begun before.
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
                other => {
                    let mut rope = Payload::new();
                    rope.push(other.clone());
                    rope.to_bytes().into_iter().for_each(|bytes| self.say(bytes));
                }
            }
        }
    }
    /// What to read from disk for it now, where each may have so many bytes of memory.
    pub fn wants_stored(&mut self, most: u64) -> Option<(DeliveryId, Payload)> {
        if self.reading.is_some() || !self.out.is_empty() {
            return None;
        }
        let Some(Later::Stored(delivery, _, rope)) = self.later.front_mut() else { return None };
        self.reading = Some(*delivery);
        Some((*delivery, rope.split_to(most.clamp(READ_STEP.1, READ_STEP.0).min(rope.len()))))
    }
    /// Whether this delivery is being read for it.
    pub fn reads(&self, delivery: DeliveryId) -> bool {
        self.reading == Some(delivery)
    }
    /// What it reads came.
    pub fn stored_came(&mut self, part: &Payload) {
        self.reading = None;
        let mut behind = std::mem::take(&mut self.later);
        let mut whole = false;
        if let Some(Later::Stored(_, head, rest)) = behind.front_mut() {
            whole = rest.is_empty();
            self.out.extend(head.take());
            // Memory of its own: what was read with it goes, however long this application takes.
            self.say_payload(&part.own());
        }
        self.later = behind;
        if whole {
            self.next_later();
        }
    }
    /// What it reads cannot be read. Whether nothing of it was said: then it is as if it had never been pushed.
    pub fn stored_failed(&mut self) -> bool {
        let failed = self.reading.take();
        if !matches!(self.later.front(), Some(Later::Stored(_, Some(_), _))) {
            return false;
        }
        self.pushed.retain(|pushed| !matches!(pushed, Pushed::Delivery(delivery) if Some(*delivery) == failed));
        self.next_later();
        true
    }
    /// The first of what follows is over: what comes behind it may leave, up to the next that is on disk.
    fn next_later(&mut self) {
        self.later.pop_front();
        while let Some(Later::Bytes(_)) = self.later.front()
            && let Some(Later::Bytes(bytes)) = self.later.pop_front()
        {
            self.out.push_back(bytes);
        }
    }
    /// Asks a subscriber whether it is still there, or finds it gone (true). An active client is
    /// gone when it was silent for two intervals.
    pub fn check_keepalive(&mut self, now: Instant) -> bool {
        if self.keepalive.is_zero() {
            return false;
        }
        let silent = now.since(self.heard);
        if self.registration.is_some() {
            if silent >= self.keepalive * 2 && self.pushed.iter().any(|p| matches!(p, Pushed::Keepalive)) {
                return true;
            }
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
