//! Sources and sinks of frames: a packet socket on the emulator's end of a virtual Ethernet pair, whose other end is
//! the host's interface.

use farlink_os::netlink::Netlink;
use farlink_os::packet::{BATCH, FrameBatch, PacketRing, PacketSocket};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// One end of an emulated link, on the emulator's side.
#[derive(Debug)]
pub struct Port {
    socket: PacketSocket,
    /// Where the kernel puts frames of fast links; taken by the direction that starts here.
    ring: Mutex<Option<PacketRing>>,
    /// Name of the interface in the emulator's namespace.
    name: String,
    index: u32,
}

// Bytes of frames that may wait for the emulator, per port.
const BUFFER: usize = 64 << 20;

impl Port {
    /// Opens the port at an interface of the calling thread's network namespace, with a receive ring of `ring` bytes; 0
    /// for none.
    pub fn open(name: &str, index: u32, ring: usize) -> io::Result<Port> {
        let (socket, ring) = match ring {
            0 => (PacketSocket::open(index, BUFFER)?, None),
            bytes => PacketSocket::open_with_ring(index, BUFFER, bytes).map(|(socket, ring)| (socket, Some(ring)))?,
        };
        Ok(Port { socket, ring: Mutex::new(ring), name: name.into(), index })
    }

    /// File descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the receiving side of the port.
    pub fn intake(&self) -> Intake {
        Intake { ring: self.ring.lock().ok().and_then(|mut ring| ring.take()) }
    }

    /// Hands frames, each in pieces, to the host; returns the number accepted. An error refers to the first frame that
    /// was not accepted.
    pub fn send(&self, frames: &[&[IoSlice<'_>]]) -> io::Result<usize> {
        self.socket.send(frames)
    }

    /// Number of frames the kernel lost before they were read, since the last call.
    pub fn take_drops(&self) -> u64 {
        self.socket.take_drops().unwrap_or(0)
    }

    /// Number of frames that were handed over and for which the kernel had no room in the host, since the start.
    pub fn refused(&self, netlink: &mut Netlink) -> u64 {
        netlink.interface(&self.name).ok().flatten().map_or(0, |interface| interface.dropped)
    }

    /// Raises or lowers the carrier of the host's interface: it is that of this end, which goes up or down.
    pub fn set_carrier(&self, on: bool, netlink: &mut Netlink) -> io::Result<()> {
        netlink.set_up(self.index, on)
    }
}

/// Receiving side of a port.
#[derive(Debug, Default)]
pub struct Intake {
    ring: Option<PacketRing>,
}

/// Frames of one [`Intake::receive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Received {
    /// Number of frames.
    pub frames: usize,
    /// Whether there may be more.
    pub more: bool,
    /// Frames that the kernel could not keep whole.
    pub lost: usize,
}

impl Intake {
    /// Whether frames come in a ring, in which they may wait for a moment.
    pub fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Receives some frames of `port` and calls `each` with the frame and the monotonic time at which the host sent it.
    /// `batch` is room for them.
    pub fn receive(
        &mut self,
        port: &Port,
        batch: &mut FrameBatch,
        mut each: impl FnMut(&[u8], u64),
    ) -> io::Result<Received> {
        if let Some(ring) = &mut self.ring {
            return match ring.take(each) {
                Some((frames, lost)) => Ok(Received { frames, more: true, lost }),
                // An interface that went down leaves an error, until somebody asks for it.
                None => port.socket.take_error().map(|_| Received::default()),
            };
        }
        match port.socket.receive(batch) {
            Ok(frames) => {
                batch.frames().for_each(|(frame, sent_ns)| each(frame, sent_ns));
                Ok(Received { frames, more: frames == BATCH, lost: 0 })
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Received { more: e.kind() == io::ErrorKind::Interrupted, ..Received::default() })
            }
            Err(e) => Err(e),
        }
    }
}
