//! Tunnels to hosts of other machines: each frame of a link's end is one UDP datagram between the emulator and the
//! relay that runs on that machine.

use super::port::Received;
use farlink_os::{monotonic_ns, udp};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// Bytes of a datagram before its frame.
pub const HEADER: usize = 16;
/// Bytes around a frame's IP packet in a datagram: outer IPv4 and UDP header, this header, virtio-net and Ethernet
/// header.
pub const AROUND: usize = 20 + 8 + HEADER + super::FRAME_OVERHEAD;
/// Size wanted for the buffers of both ends, in bytes.
const BUFFER: usize = 16 << 20;
/// Most datagrams of one receive.
const BATCH: usize = 64;
const DATAGRAM_MAX: usize = 65_536;

/// Kind of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TunnelKind {
    /// A frame with its virtio-net header.
    Frame,
    /// A question for the clocks, from here; its content comes back.
    Probe,
    /// The answer: the content of the probe, then monotonic time and Unix time, in nanoseconds.
    Answer,
}

/// Head of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunnelHead {
    /// Secret of the run, so that stray datagrams change nothing.
    pub token: u64,
    /// Number of the tunnel: twice that of its link, plus 1 at the second end.
    pub tunnel: u16,
    /// What the datagram holds.
    pub kind: TunnelKind,
    /// Number of the frame in its direction, so that losses are counted.
    pub number: u32,
}

impl TunnelHead {
    /// The head as it is sent.
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.token.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.tunnel.to_be_bytes());
        bytes[10] = self.kind as u8;
        bytes[12..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// Head and content of a datagram; `None` if it belongs to another run, or is malformed.
    pub fn read(datagram: &[u8], token: u64) -> Option<(TunnelHead, &[u8])> {
        let (head, content) = datagram.split_at_checked(HEADER)?;
        let kind = match head[10] {
            0 => TunnelKind::Frame,
            1 => TunnelKind::Probe,
            2 => TunnelKind::Answer,
            _ => return None,
        };
        let tunnel = u16::from_be_bytes(head[8..10].try_into().ok()?);
        let number = u32::from_be_bytes(head[12..].try_into().ok()?);
        let own = u64::from_be_bytes(head[..8].try_into().ok()?) == token;
        own.then_some((TunnelHead { token, tunnel, kind, number }, content))
    }
}

/// Numbers before the next one of which it is known whether their frames came.
const WINDOW: u32 = 4096;

/// Counter of the frames that a direction of a tunnel lost, from their numbers.
#[derive(Clone, Debug)]
pub struct LossCounter {
    next: u32,
    lost: u64,
    /// Whether the frame of a number came, by the number's remainder.
    came: Vec<bool>,
}

impl Default for LossCounter {
    fn default() -> Self {
        LossCounter { next: 0, lost: 0, came: vec![true; WINDOW as usize] }
    }
}

impl LossCounter {
    /// Notes the arrival of a frame; returns whether it is new, not a copy that the network made. A frame that was
    /// overtaken counts as lost until it arrives; one that comes after [`WINDOW`] others is taken for a copy.
    pub fn note(&mut self, number: u32) -> bool {
        let ahead = number.wrapping_sub(self.next);
        if ahead < u32::MAX / 2 {
            for step in 0..ahead.min(WINDOW) {
                self.came[(self.next.wrapping_add(step) % WINDOW) as usize] = false;
            }
            self.came[(number % WINDOW) as usize] = true;
            self.lost += u64::from(ahead);
            self.next = number.wrapping_add(1);
            return true;
        }
        let known = self.next.wrapping_sub(number) <= WINDOW;
        let is_new = known && !std::mem::replace(&mut self.came[(number % WINDOW) as usize], true);
        self.lost -= u64::from(is_new);
        is_new
    }

    /// Number of frames lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// What the emulator needs to know of a tunnel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TunnelSetup {
    /// Number of the connected socket, which the testbed left open.
    pub socket: i32,
    /// Secret of the run.
    pub token: u64,
    /// Number of the tunnel.
    pub tunnel: u16,
    /// Delay of the real network in one direction.
    pub delay_ns: u64,
}

/// The emulator's end of a tunnel.
#[derive(Debug)]
pub struct Tunnel {
    socket: UdpSocket,
    token: u64,
    tunnel: u16,
    delay_ns: u64,
    state: Mutex<TunnelState>,
}

#[derive(Debug)]
struct TunnelState {
    sent: u32,
    losses: LossCounter,
    /// Losses that were taken.
    taken: u64,
    out: Vec<u8>,
    datagram: Vec<u8>,
}

impl Tunnel {
    /// Takes the socket of a tunnel over.
    ///
    /// # Errors
    /// If it is not open.
    pub fn open(setup: &TunnelSetup) -> io::Result<Tunnel> {
        let socket = UdpSocket::from(farlink_os::process::inherited(setup.socket)?);
        let (out, datagram) = (Vec::new(), vec![0; DATAGRAM_MAX]);
        let state = TunnelState { sent: 0, losses: LossCounter::default(), taken: 0, out, datagram };
        let (token, tunnel, delay_ns) = (setup.token, setup.tunnel, setup.delay_ns);
        Ok(Tunnel { socket: prepared(socket)?, token, tunnel, delay_ns, state: Mutex::new(state) })
    }

    /// Delay of the real network in one direction.
    pub fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// Sends frames; returns the number of those that the kernel took.
    pub fn send(&self, frames: &[&[IoSlice<'_>]]) -> io::Result<usize> {
        let mut state = self.state.lock().map_err(|_| io::Error::other("a thread of the links panicked"))?;
        let state = &mut *state;
        for (place, frame) in frames.iter().enumerate() {
            let head =
                TunnelHead { token: self.token, tunnel: self.tunnel, kind: TunnelKind::Frame, number: state.sent };
            state.out.clear();
            state.out.extend_from_slice(&head.bytes());
            frame.iter().for_each(|piece| state.out.extend_from_slice(piece));
            match self.socket.send(&state.out) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && place > 0 => return Ok(place),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // A network that is down is a loss, which the far end counts; the connection tells if it stays down.
                Err(_) => {}
            }
            state.sent = state.sent.wrapping_add(1);
        }
        Ok(frames.len())
    }

    /// Receives some frames, and calls `each` with each frame and the time at which its host sent it.
    pub fn receive(&self, mut each: impl FnMut(&[u8], u64)) -> io::Result<Received> {
        let mut state = self.state.lock().map_err(|_| io::Error::other("a thread of the links panicked"))?;
        let state = &mut *state;
        let mut received = Received::default();
        for _ in 0..BATCH {
            let length = match self.socket.recv(&mut state.datagram) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(received),
                // A message of a router, or a signal.
                Err(_) => continue,
            };
            if let Some((head, frame)) = TunnelHead::read(&state.datagram[..length], self.token)
                && (head.kind, head.tunnel) == (TunnelKind::Frame, self.tunnel)
            {
                received.frames += 1;
                if state.losses.note(head.number) {
                    each(frame, monotonic_ns().saturating_sub(self.delay_ns));
                }
            }
        }
        Ok(Received { more: true, ..received })
    }

    /// Number of frames that were lost since the last call on their way here.
    pub fn take_lost(&self) -> u64 {
        let Ok(mut state) = self.state.lock() else { return 0 };
        let lost = state.losses.lost();
        let fresh = lost.saturating_sub(state.taken);
        state.taken = state.taken.max(lost);
        fresh
    }
}

impl AsFd for Tunnel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket as both ends of a tunnel need it.
///
/// # Errors
/// System call errors.
pub fn prepared(socket: UdpSocket) -> io::Result<UdpSocket> {
    udp::grow_buffers(&socket, BUFFER);
    // The path may take less than a link's packets with all that is around them.
    udp::allow_fragments(&socket)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_and_strangers_are_ignored() {
        let head = TunnelHead { token: 7, tunnel: 513, kind: TunnelKind::Answer, number: u32::MAX };
        let datagram = [&head.bytes()[..], b"content"].concat();
        assert_eq!(TunnelHead::read(&datagram, 7), Some((head, &b"content"[..])));
        assert_eq!(TunnelHead::read(&datagram, 8), None);
        assert_eq!(TunnelHead::read(&datagram[..HEADER - 1], 7), None);
        let mut wrong = datagram;
        wrong[10] = 3;
        assert_eq!(TunnelHead::read(&wrong, 7), None);
    }

    #[test]
    fn losses_are_gaps_of_numbers() {
        let lost = |numbers: &[u32]| {
            let mut counter = LossCounter::default();
            let fresh = numbers.iter().filter(|number| counter.note(**number)).count();
            (counter.lost(), fresh)
        };
        assert_eq!((lost(&[0, 1, 2]), lost(&[0, 3]), lost(&[2])), ((0, 3), (2, 2), (2, 1)));
        assert_eq!(lost(&[0, 2, 1, 3]), (0, 4), "overtaken");
        assert_eq!(lost(&[0, 0, 2, 2, 2, 0, 3]), (1, 3), "copies make up for no loss");
        assert_eq!(lost(&[0, 2, 1, 1, 0]), (0, 3));
        assert_eq!(lost(&[0, 2, WINDOW + 2, 1, 3]), (u64::from(WINDOW) - 1, 4), "1 is too late, 3 is not");
        assert_eq!(lost(&[3 * WINDOW, 3 * WINDOW - 1]), (u64::from(3 * WINDOW - 1), 2));
        let mut wraps = LossCounter { next: u32::MAX, ..LossCounter::default() };
        let fresh: Vec<bool> = [u32::MAX, 0, 2, u32::MAX, 1].into_iter().map(|number| wraps.note(number)).collect();
        assert_eq!((fresh, wraps.lost()), (vec![true, true, true, false, true], 0));
    }
}
