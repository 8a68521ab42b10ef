//! Observers of the frames of a link: captures, and readers that measure what passes.

/// Sees the frames of one direction of a link. It is called by the thread of the link, so it must neither wait nor take
/// long: a late call delays packets.
pub trait FrameObserver: Send {
    /// Called for each frame that the host at the beginning of the direction sends, with its monotonic nanosecond. The
    /// frame begins with its virtio-net header, and may be a super-packet.
    fn sent(&mut self, at_ns: u64, frame: &[u8]);

    /// Called for each frame handed over to the host at the end of the direction: the kernel took it at the first of these
    /// monotonic nanoseconds or later, and had passed it to the host's sockets by the second.
    fn handed_over(&mut self, begin_ns: u64, end_ns: u64, frame: &[u8]);
}
