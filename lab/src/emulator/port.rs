//! Ports, the sources and sinks of frames: each is a packet socket on the emulator's end of a virtual Ethernet pair,
//! whose other end is the host's interface, or on an interface of this machine to which a machine outside is plugged.

use super::outside::OutsideMachine;
use farlink_os::netlink::Netlink;
use farlink_os::packet::{BATCH, FrameBatch, PacketRing, PacketSocket, VNET_HEADER};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// One end of an emulated link, on the emulator's side.
#[derive(Debug)]
pub struct Port {
    socket: PacketSocket,
    /// Receive ring of a fast link; the direction that starts at this port takes it.
    ring: Mutex<Option<PacketRing>>,
    /// Name of the interface in the emulator's namespace.
    name: String,
    index: u32,
    /// Machine behind the interface, if that is no host's.
    outside: Option<OutsideMachine>,
}

// Maximum bytes of frames that wait for the emulator at one port.
const BUFFER: usize = 64 << 20;

impl Port {
    /// Opens the port at an interface of the calling thread's network namespace, with a receive ring of `ring` bytes,
    /// or without one if `ring` is 0.
    pub fn open(name: &str, index: u32, ring: usize) -> io::Result<Port> {
        let (socket, ring) = match ring {
            0 => (PacketSocket::open(index, BUFFER)?, None),
            bytes => PacketSocket::open_with_ring(index, BUFFER, bytes).map(|(socket, ring)| (socket, Some(ring)))?,
        };
        Ok(Port { socket, ring: Mutex::new(ring), name: name.into(), index, outside: None })
    }

    /// Like [`Port::open`], at an interface of this machine to which a machine outside the testbed is plugged.
    pub fn open_outside(name: &str, index: u32, ring: usize, machine: OutsideMachine) -> io::Result<Port> {
        Ok(Port { outside: Some(machine), ..Port::open(name, index, ring)? })
    }

    /// Whether a received frame, with its virtio-net header, goes over the link. Answers the address resolution of a
    /// machine outside.
    fn carries(&self, frame: &[u8]) -> bool {
        let Some(machine) = &self.outside else { return true };
        let frame = frame.get(VNET_HEADER..).unwrap_or_default();
        if let Some(answer) = machine.answer(frame) {
            // A lost answer is like a lost frame: the machine asks again.
            let _ = self.socket.send(&[&[IoSlice::new(&answer)]]);
        }
        machine.sends_over_link(frame)
    }

    /// File descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the receiving side of the port.
    pub fn intake(&self) -> Intake {
        Intake { ring: self.ring.lock().ok().and_then(|mut ring| ring.take()) }
    }

    /// Hands frames, each a list of slices, to the host; returns the number of frames that the kernel accepted. An
    /// error refers to the first frame.
    pub fn send(&self, frames: &[&[IoSlice<'_>]]) -> io::Result<usize> {
        self.socket.send(frames)
    }

    /// Number of frames that the kernel dropped since the last call because the emulator had not read them.
    pub fn take_drops(&self) -> u64 {
        self.socket.take_drops().unwrap_or(0)
    }

    /// Number of frames since the start that were handed over but dropped by the kernel, since the host had no room.
    pub fn refused(&self, netlink: &mut Netlink) -> u64 {
        // The interface of a machine outside is in another namespace, and counts frames of its own.
        if self.outside.is_some() {
            return 0;
        }
        netlink.interface(&self.name).ok().flatten().map_or(0, |interface| interface.dropped)
    }

    /// Raises or lowers the carrier of the host's interface by setting this end of the pair up or down. A machine
    /// outside keeps its carrier, since real interfaces take seconds to come back; its frames are lost meanwhile.
    pub fn set_carrier(&self, on: bool, netlink: &mut Netlink) -> io::Result<()> {
        if self.outside.is_some() {
            return Ok(());
        }
        netlink.set_up(self.index, on)
    }
}

/// Receiving side of a port; it owns the receive ring, if the port has one.
#[derive(Debug, Default)]
pub struct Intake {
    ring: Option<PacketRing>,
}

/// Result of one [`Intake::receive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Number of frames received.
    pub frames: usize,
    /// Whether more frames may wait.
    pub more: bool,
    /// Frames that the kernel could not keep whole.
    pub lost: usize,
}

impl Intake {
    /// Whether frames come through a receive ring, in which they may wait for a moment.
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Receives some frames at `port`, which must be the port of this intake, and calls `each` with each frame and the
    /// monotonic time, in ns, at which the host sent it. `batch` is the buffer for ports without a ring.
    pub fn receive(
        &mut self,
        port: &Port,
        batch: &mut FrameBatch,
        mut each: impl FnMut(&[u8], u64),
    ) -> io::Result<Received> {
        if let Some(ring) = &mut self.ring {
            let each = |frame: &[u8], sent_ns| {
                if port.carries(frame) {
                    each(frame, sent_ns);
                }
            };
            return match ring.take(each) {
                Some((frames, lost)) => Ok(Received { frames, more: true, lost }),
                // An interface that went down leaves an error on the socket; reading it clears it.
                None => port.socket.take_error().map(|_| Received::default()),
            };
        }
        match port.socket.receive(batch) {
            Ok(frames) => {
                for (frame, sent_ns) in batch.frames() {
                    if port.carries(frame) {
                        each(frame, sent_ns);
                    }
                }
                Ok(Received { frames, more: frames == BATCH, lost: 0 })
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Received { more: e.kind() == io::ErrorKind::Interrupted, ..Received::default() })
            }
            Err(e) => Err(e),
        }
    }
}
