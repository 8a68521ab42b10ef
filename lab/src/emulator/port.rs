//! Sources and sinks of frames: a TAP interface, or a packet socket on one end of a virtual Ethernet pair.

use farlink_os::packet::{BATCH, FRAME_MAX, FrameBatch, PacketSocket};
use farlink_os::tap::Tap;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

/// One end of an emulated link, on the emulator's side.
#[derive(Debug)]
pub enum Port {
    /// TAP device of the host's own interface.
    Tap(Tap),
    /// Packet socket on the peer of the host's interface.
    Packet(PacketSocket),
}

impl Port {
    /// File descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Port::Tap(tap) => tap.as_fd(),
            Port::Packet(socket) => socket.as_fd(),
        }
    }

    /// Hands frames to the host; returns the number accepted. An error refers to the first frame that was not accepted.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        match self {
            Port::Tap(tap) => {
                for (index, frame) in frames.iter().enumerate() {
                    match tap.send(&[IoSlice::new(frame)]) {
                        Ok(_) => {}
                        Err(_) if index > 0 => return Ok(index),
                        Err(e) => return Err(e),
                    }
                }
                Ok(frames.len())
            }
            Port::Packet(socket) => {
                let mut pieces = [(&[][..], &[][..]); BATCH];
                pieces.iter_mut().zip(frames).for_each(|(piece, frame)| piece.0 = frame);
                socket.send(&pieces[..frames.len().min(BATCH)])
            }
        }
    }

    /// Number of frames the kernel lost before they were read, since the last call.
    pub fn take_drops(&self) -> u64 {
        match self {
            Port::Tap(_) => 0,
            Port::Packet(socket) => socket.take_drops().unwrap_or(0),
        }
    }

    /// Sets the carrier of the host's interface, if the port supports it.
    pub fn set_carrier(&self, on: bool) -> io::Result<()> {
        match self {
            Port::Tap(tap) => tap.set_carrier(on),
            Port::Packet(_) => Ok(()),
        }
    }
}

/// Receive buffers, one set per thread.
#[derive(Debug)]
pub struct Intake {
    batch: FrameBatch,
    single: Vec<u8>,
}

impl Default for Intake {
    fn default() -> Self {
        Intake { batch: FrameBatch::new(), single: vec![0; FRAME_MAX] }
    }
}

impl Intake {
    /// Receives at most [`BATCH`] frames from `port` and calls `each` with the frame and the monotonic time at which
    /// the host sent it (for TAP: at which it was read). Returns the number of frames.
    pub fn receive(&mut self, port: &Port, mut each: impl FnMut(&[u8], u64)) -> io::Result<usize> {
        let nothing = |e: &io::Error| matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
        match port {
            Port::Tap(tap) => {
                for count in 0..BATCH {
                    match tap.receive(&mut self.single) {
                        Ok(length) => each(&self.single[..length], farlink_os::monotonic_ns()),
                        Err(e) if nothing(&e) => return Ok(count),
                        Err(e) => return Err(e),
                    }
                }
                Ok(BATCH)
            }
            Port::Packet(socket) => match socket.receive(&mut self.batch) {
                Ok(count) => {
                    self.batch.frames().for_each(|(frame, sent_ns)| each(frame, sent_ns));
                    Ok(count)
                }
                Err(e) if nothing(&e) => Ok(0),
                Err(e) => Err(e),
            },
        }
    }
}
