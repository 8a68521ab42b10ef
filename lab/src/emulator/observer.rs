//! Interface of observers, which see the frames of a link: captures and probes.

/// Observer of the frames of one direction of a link. The link's thread calls it, so it must neither block nor take
/// long: a slow call delays packets.
pub trait FrameObserver: Send {
    /// Called for each frame that the host at the beginning of the direction sends. `at_ns` is the monotonic time of
    /// sending in ns; the frame begins with its virtio-net header, and may be a super-packet.
    fn sent(&mut self, at_ns: u64, frame: &[u8]);

    /// Called for each frame handed over to the host at the end of the direction. The kernel took the frame at
    /// `begin_ns` or later, and had passed it to the host's sockets by `end_ns` (both monotonic).
    fn handed_over(&mut self, begin_ns: u64, end_ns: u64, frame: &[u8]);
}
