//! Ports, the sources and sinks of frames: each is a packet socket on the emulator's end of a virtual Ethernet pair,
//! whose other end is the host's interface, or on an interface of this machine to which a machine outside is plugged. A
//! host of another machine is behind a tunnel.

use super::outside::OutsidePort;
use super::tunnel::Tunnel;
use farlink_os::netlink::Netlink;
use farlink_os::packet::{BATCH, FrameBatch, PacketRing, PacketSocket, VNET_HEADER};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// One end of an emulated link, on the emulator's side.
#[derive(Debug)]
pub struct Port {
    far: FarSide,
    /// Receive ring of a fast link; the direction that starts at this port takes it.
    ring: Mutex<Option<PacketRing>>,
}

/// What is behind a port.
#[derive(Debug)]
enum FarSide {
    /// An interface of the emulator's namespace, or of this machine if another machine is plugged to it.
    Interface { socket: PacketSocket, name: String, index: u32, outside: Option<OutsidePort> },
    /// A host of another machine.
    Tunnel(Tunnel),
}

// Maximum bytes of frames that wait for the emulator at one port.
const BUFFER: usize = 64 << 20;

impl Port {
    /// Opens the port at an interface of the calling thread's network namespace, with a receive ring of `ring` bytes,
    /// or without one if `ring` is 0.
    pub fn open(name: &str, index: u32, ring: usize) -> io::Result<Port> {
        Port::at_interface(name, index, ring, None)
    }

    /// Like [`Port::open`], at an interface of this machine to which a machine outside the testbed is plugged.
    pub fn open_outside(name: &str, index: u32, ring: usize, machine: OutsidePort) -> io::Result<Port> {
        Port::at_interface(name, index, ring, Some(machine))
    }

    fn at_interface(name: &str, index: u32, ring: usize, outside: Option<OutsidePort>) -> io::Result<Port> {
        let (socket, ring) = match ring {
            0 => (PacketSocket::open(index, BUFFER)?, None),
            bytes => PacketSocket::open_with_ring(index, BUFFER, bytes).map(|(socket, ring)| (socket, Some(ring)))?,
        };
        if outside.is_some() {
            socket.refuse_vlan_tags()?;
        }
        let far = FarSide::Interface { socket, name: name.into(), index, outside };
        Ok(Port { far, ring: Mutex::new(ring) })
    }

    /// A port before a host of another machine.
    pub fn tunnel(tunnel: Tunnel) -> Port {
        Port { far: FarSide::Tunnel(tunnel), ring: Mutex::new(None) }
    }

    /// Time for which a frame is under way behind the port, and before which it must be handed over.
    pub fn ahead_ns(&self) -> u64 {
        match &self.far {
            FarSide::Interface { .. } => 0,
            FarSide::Tunnel(tunnel) => tunnel.delay_ns(),
        }
    }

    /// Whether wire packets must come one by one: a datagram of the tunnel holds one.
    pub fn takes_single_packets(&self) -> bool {
        matches!(self.far, FarSide::Tunnel(_))
    }

    /// Whether a received frame, with its virtio-net header, goes over the link. Answers the address resolution of a
    /// machine outside.
    fn carries(&self, frame: &[u8]) -> bool {
        let FarSide::Interface { socket, outside: Some(machine), .. } = &self.far else { return true };
        let frame = frame.get(VNET_HEADER..).unwrap_or_default();
        machine.note_sender(frame);
        if let Some(answer) = machine.answer(frame) {
            // A lost answer is like a lost frame: the machine asks again.
            let _ = socket.send(&[&[IoSlice::new(&answer)]]);
        }
        machine.sends_over_link(frame)
    }

    /// Whether a machine outside the testbed is behind the port.
    pub fn is_outside(&self) -> bool {
        matches!(self.far, FarSide::Interface { outside: Some(_), .. })
    }

    /// Whether a machine outside is behind the port whose interface has no carrier; frames for it are lost.
    pub fn is_unplugged(&self) -> bool {
        match &self.far {
            FarSide::Interface { name, outside: Some(machine), .. } => machine.is_unplugged(name),
            FarSide::Interface { .. } | FarSide::Tunnel(_) => false,
        }
    }

    /// Whether a machine outside is behind the port that sent with another hardware address than at first.
    pub fn has_other_hardware(&self) -> bool {
        match &self.far {
            FarSide::Interface { outside: Some(machine), .. } => machine.has_other_hardware(),
            FarSide::Interface { .. } | FarSide::Tunnel(_) => false,
        }
    }

    /// Clears the error that an interface which went down leaves on its socket.
    fn take_error(&self) -> io::Result<()> {
        match &self.far {
            FarSide::Interface { socket, .. } => socket.take_error().map(drop),
            FarSide::Tunnel(_) => Ok(()),
        }
    }

    /// File descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.far {
            FarSide::Interface { socket, .. } => socket.as_fd(),
            FarSide::Tunnel(tunnel) => tunnel.as_fd(),
        }
    }

    /// Takes the receiving side of the port.
    pub fn intake(&self) -> Intake {
        Intake { ring: self.ring.lock().ok().and_then(|mut ring| ring.take()) }
    }

    /// Hands frames, each a list of slices, to the host; returns the number of frames that the kernel accepted. An
    /// error refers to the first frame.
    pub fn send(&self, frames: &[&[IoSlice<'_>]]) -> io::Result<usize> {
        match &self.far {
            FarSide::Interface { socket, .. } => socket.send(frames),
            FarSide::Tunnel(tunnel) => tunnel.send(frames),
        }
    }

    /// Number of frames that were lost since the last call before the emulator read them.
    pub fn take_drops(&self) -> u64 {
        match &self.far {
            FarSide::Interface { socket, .. } => socket.take_drops().unwrap_or(0),
            FarSide::Tunnel(tunnel) => tunnel.take_lost(),
        }
    }

    /// Number of frames since the start that were handed over but dropped by the kernel, since the host had no room.
    pub fn refused(&self, netlink: &mut Netlink) -> u64 {
        match &self.far {
            FarSide::Interface { name, outside: None, .. } => {
                netlink.interface(name).ok().flatten().map_or(0, |interface| interface.dropped)
            }
            // The interface of a machine outside is in another namespace, and counts frames of its own. A tunnel's far
            // end counts what did not arrive.
            FarSide::Interface { .. } | FarSide::Tunnel(_) => 0,
        }
    }

    /// Raises or lowers the carrier of the host's interface by setting this end of the pair up or down. Other machines
    /// keep their carriers, since real interfaces take seconds to come back; their frames are lost meanwhile.
    pub fn set_carrier(&self, on: bool, netlink: &mut Netlink) -> io::Result<()> {
        match &self.far {
            FarSide::Interface { index, outside: None, .. } => netlink.set_up(*index, on),
            FarSide::Interface { .. } | FarSide::Tunnel(_) => Ok(()),
        }
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
                None => port.take_error().map(|()| Received::default()),
            };
        }
        let socket = match &port.far {
            FarSide::Interface { socket, .. } => socket,
            FarSide::Tunnel(tunnel) => return tunnel.receive(each),
        };
        match socket.receive(batch) {
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
