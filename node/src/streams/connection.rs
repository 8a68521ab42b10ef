//! One TCP connection: what is queued on it, written, and acknowledged.

use crate::tls;
use farlink_base::{Bytes, Duration, Instant, LayerId, LinkId, StreamId, socket};
use farlink_os::stream;
use farlink_stack::Input;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};

/// How often the kernel is asked what a peer's host acknowledged: at first, and at most while it acknowledges nothing.
const CONFIRM_MIN: Duration = Duration::from_millis(1);
const CONFIRM_MAX: Duration = Duration::from_millis(64);
/// The least that a layer may queue on one stream.
pub(super) const ROOM_MIN: u64 = 64 << 10;
/// Pieces of one `writev`.
const PIECES: usize = 256;

/// One connection, or the attempt at one.
pub(super) struct Stream {
    pub layer: LayerId,
    /// The serial numbers of its sockets: one for each address that was tried.
    pub serials: Vec<u64>,
    /// The link it was opened for; none, if the peer opened it.
    pub link: Option<LinkId>,
    /// The log said that it opened; then it says when it ends.
    pub told: bool,
    /// Where it goes, once open.
    pub peer: Option<SocketAddr>,
    pub phase: Phase,
    pub out: VecDeque<Bytes>,
    pub queued: u64,
    /// Bytes that the kernel is believed to take at one go: what it took of more, or twice what it took whole.
    pub takes: u64,
    /// Bytes given to the kernel.
    pub sent: u64,
    /// The layer wants to know what the peer's host acknowledged.
    pub confirm: Option<Confirm>,
    pub readable: bool,
    pub writable: bool,
    pub ended: bool,
    /// The peer closed its half: nothing more comes, and it may still read.
    pub peer_closed: bool,
    pub paused: bool,
    pub listed: bool,
    pub dirty: bool,
    /// Its records, once secured.
    pub tls: Option<Box<tls::Session>>,
}

/// What the layer was told of the bytes the peer's host acknowledged, and when to look for more.
pub(super) struct Confirm {
    pub told: u64,
    pub at: Option<Instant>,
    pub wait: Duration,
}

impl Confirm {
    /// Nothing was told.
    pub fn new() -> Confirm {
        Confirm { told: 0, at: None, wait: CONFIRM_MIN }
    }
}

/// How far a connection has come.
pub(super) enum Phase {
    Resolving,
    Connecting {
        socket: TcpStream,
        to: SocketAddr,
        others: VecDeque<SocketAddr>,
        until: Instant,
    },
    Open(TcpStream),
    /// The layer is done with it; what is queued still leaves.
    Closing {
        socket: TcpStream,
        until: Instant,
        shut: bool,
    },
}

impl Stream {
    pub fn push(&mut self, bytes: Bytes) {
        self.queued += bytes.len() as u64;
        self.out.push_back(bytes);
    }
    pub fn write_out(&mut self) -> io::Result<()> {
        let (Phase::Open(socket) | Phase::Closing { socket, .. }) = &mut self.phase else { return Ok(()) };
        let before = self.queued;
        while self.writable && self.queued > 0 {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (slice, bytes) in slices.iter_mut().zip(&self.out) {
                *slice = IoSlice::new(bytes);
                count += 1;
            }
            match socket.write_vectored(&slices[..count]) {
                Ok(n) => {
                    self.queued -= n as u64;
                    consume(&mut self.out, n);
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    self.writable = false;
                    self.takes = (before - self.queued).max(ROOM_MIN);
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
    /// Bytes were given to the kernel: they will be acknowledged soon.
    pub fn look_soon(&mut self, now: Instant) {
        let sent = self.sent;
        if let Some(confirm) = self.confirm.as_mut().filter(|confirm| confirm.at.is_none() && confirm.told < sent) {
            (confirm.at, confirm.wait) = (Some(now + CONFIRM_MIN), CONFIRM_MIN);
        }
    }
    /// Looks what was acknowledged, again soon where that was something, and ever more rarely where it was nothing.
    pub fn look(&mut self, id: StreamId, now: Instant, inputs: &mut VecDeque<Input>) {
        let more = self.tell_confirmed(id, inputs);
        let sent = self.sent;
        if let Some(confirm) = &mut self.confirm {
            confirm.wait = if more { CONFIRM_MIN } else { (confirm.wait * 2).min(CONFIRM_MAX) };
            confirm.at = (confirm.told < sent).then_some(now + confirm.wait);
        }
    }
    /// Tells the layer what the peer's host acknowledged; whether that is more than it was told before.
    pub fn tell_confirmed(&mut self, id: StreamId, inputs: &mut VecDeque<Input>) -> bool {
        let (Phase::Open(socket), Some(confirm)) = (&self.phase, &mut self.confirm) else { return false };
        // What cannot be asked any more counts as not acknowledged.
        let Ok(unacknowledged) = stream::unacknowledged(socket) else { return false };
        let bytes = self.sent.saturating_sub(unacknowledged);
        let more = bytes > confirm.told;
        if more {
            confirm.told = bytes;
            inputs.push_back(Input::Socket(self.layer, socket::Input::Confirmed { stream: id, bytes }));
        }
        more
    }
    /// Tells the layer about room once the kernel has all there was: what it does not take yet ages in the layer. It is as
    /// much as the kernel is believed to take at once, while `bound` bytes at most wait in it to be sent.
    pub fn tell_room(&mut self, id: StreamId, written: u64, bound: u64, inputs: &mut VecDeque<Input>) {
        let Phase::Open(socket) = &self.phase else { return };
        if written == 0 || self.queued > 0 {
            return;
        }
        if written >= self.takes {
            self.takes = (2 * self.takes).min(bound);
        }
        // A kernel that does not say takes what it took before.
        let unsent = stream::unsent(socket).unwrap_or(0);
        let room = bound.saturating_sub(unsent).min(self.takes).max(ROOM_MIN.min(bound));
        inputs.push_back(Input::Socket(self.layer, socket::Input::Writable { stream: id, room }));
    }
}

fn consume(out: &mut VecDeque<Bytes>, mut n: usize) {
    while n > 0 {
        let Some(front) = out.front_mut() else { return };
        if front.len() <= n {
            n -= front.len();
            out.pop_front();
        } else {
            let _ = front.split_to(n);
            return;
        }
    }
}
