//! One TCP connection: its queue, output and acknowledgments.

use crate::tls;
use farlink_base::{Bytes, Duration, Instant, LayerId, LinkId, StreamId, socket};
use farlink_os::stream;
use farlink_stack::Input;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::{SocketAddr, TcpStream};

/// First interval between polls of the bytes that the peer's host acknowledged; `CONFIRM_MAX` is the longest.
const CONFIRM_MIN: Duration = Duration::from_millis(1);
const CONFIRM_MAX: Duration = Duration::from_millis(64);
/// Least room, in bytes, that is reported to a layer for one stream, unless the bound of the stream's queue is lower.
pub(super) const ROOM_MIN: u64 = 64 << 10;
/// Most pieces of one `writev`.
const PIECES: usize = 256;

/// Connection, or the attempt at one.
pub(super) struct Stream {
    pub layer: LayerId,
    /// Serial numbers of the connection's sockets: one for each address tried.
    pub serials: Vec<u64>,
    /// Link for which the connection was opened; `None` if the peer opened it.
    pub link: Option<LinkId>,
    /// Whether the opening was logged; the end is logged only then.
    pub told: bool,
    /// Address of the peer, once open.
    pub peer: Option<SocketAddr>,
    pub phase: Phase,
    pub out: VecDeque<Bytes>,
    pub queued: u64,
    /// Estimate of the bytes that the kernel takes at once: the last amount if that was less than offered; doubled, up
    /// to a bound, whenever as much was taken.
    pub takes: u64,
    /// Bytes passed to the kernel.
    pub sent: u64,
    /// Polling of acknowledgments, if the layer wants it.
    pub confirm: Option<Confirm>,
    pub readable: bool,
    pub writable: bool,
    pub ended: bool,
    /// The peer closed its half: it sends no more, but may still read.
    pub peer_closed: bool,
    pub paused: bool,
    pub listed: bool,
    pub dirty: bool,
    /// TLS session, once begun.
    pub tls: Option<Box<tls::Session>>,
}

/// Acknowledged bytes already reported, and the next poll.
pub(super) struct Confirm {
    pub told: u64,
    pub at: Option<Instant>,
    pub wait: Duration,
}

impl Confirm {
    /// Starts with nothing reported.
    pub fn new() -> Confirm {
        Confirm { told: 0, at: None, wait: CONFIRM_MIN }
    }
}

/// State of a connection.
pub(super) enum Phase {
    Resolving,
    Connecting {
        socket: TcpStream,
        to: SocketAddr,
        others: VecDeque<SocketAddr>,
        until: Instant,
    },
    Open(TcpStream),
    /// Closed by the layer; queued bytes still leave.
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
        // Writes until the kernel refuses, as it reports room again only after it has refused.
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
                    // The kernel took less than was offered: this amount is the estimate for the next time.
                    self.takes = (before - self.queued).max(ROOM_MIN);
                }
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
    /// Starts polling acknowledgments for new bytes.
    pub fn look_soon(&mut self, now: Instant) {
        let sent = self.sent;
        // Polling stops while all bytes are acknowledged, so that an idle stream wakes nobody.
        if let Some(confirm) = self.confirm.as_mut().filter(|confirm| confirm.at.is_none() && confirm.told < sent) {
            (confirm.at, confirm.wait) = (Some(now + CONFIRM_MIN), CONFIRM_MIN);
        }
    }
    /// Polls acknowledgments; the interval is short after progress, and doubles without.
    pub fn look(&mut self, id: StreamId, now: Instant, inputs: &mut VecDeque<Input>) {
        let more = self.report_confirmed(id, inputs);
        let sent = self.sent;
        if let Some(confirm) = &mut self.confirm {
            // The interval grows for peers that sleep or are unreachable.
            confirm.wait = if more { CONFIRM_MIN } else { (confirm.wait * 2).min(CONFIRM_MAX) };
            confirm.at = (confirm.told < sent).then_some(now + confirm.wait);
        }
    }
    /// Reports newly acknowledged bytes to the layer; returns whether there were any.
    pub fn report_confirmed(&mut self, id: StreamId, inputs: &mut VecDeque<Input>) -> bool {
        let (Phase::Open(socket), Some(confirm)) = (&self.phase, &mut self.confirm) else { return false };
        // If the kernel cannot be asked, nothing more counts as acknowledged.
        let Ok(unacknowledged) = stream::unacknowledged(socket) else { return false };
        let bytes = self.sent.saturating_sub(unacknowledged);
        let more = bytes > confirm.told;
        if more {
            confirm.told = bytes;
            inputs.push_back(Input::Socket(self.layer, socket::Input::Confirmed { stream: id, bytes }));
        }
        more
    }
    /// Reports room to the layer once the queue here is empty.
    pub fn report_room(&mut self, id: StreamId, written: u64, bound: u64, inputs: &mut VecDeque<Input>) {
        // Bundles age correctly only while they wait in the layer. So the layer gets no more room than the kernel takes
        // at once, and the kernel has at most `bound` unsent bytes.
        let Phase::Open(socket) = &self.phase else { return };
        // Room is reported after progress only; a full kernel reports writability first.
        if written == 0 || self.queued > 0 {
            return;
        }
        if written >= self.takes {
            // The kernel took as much as estimated, so there may be more room: the estimate doubles, up to the bound.
            self.takes = (2 * self.takes).min(bound);
        }
        // If the kernel does not report its unsent bytes, it counts as empty.
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
