//! One byte stream between the two sides.

use farlink_base::{Instant, Payload, StreamId};

pub struct StreamPipe {
    /// Side that opened the stream.
    pub active: usize,
    streams: [Option<StreamId>; 2],
    /// Whether each side knows that the stream is open.
    pub open: [bool; 2],
    /// Bytes that each side has written and that are not delivered.
    pub buffers: [Payload; 2],
    pub delivered: [u64; 2],
    /// Whether a delivery from this side is scheduled.
    pub booked: [bool; 2],
    /// Whether this side has paused reading.
    pub paused: [bool; 2],
    closed: [bool; 2],
    /// Whether this side knows that no more input follows; it may still write.
    ended: [bool; 2],
    /// Whether this side waits for the end of the TLS handshake.
    pub in_tls: [bool; 2],
    /// Whether this side asked for confirmations.
    pub confirms: [bool; 2],
    /// Bytes delivered from each side, with their times.
    pub wire: [Vec<(Instant, Payload)>; 2],
}
impl StreamPipe {
    pub fn new(active: usize, stream: StreamId, index: usize) -> Self {
        let passive = StreamId(StreamId::PASSIVE | index as u64);
        let streams = if active == 0 { [Some(stream), Some(passive)] } else { [Some(passive), Some(stream)] };
        StreamPipe {
            active,
            streams,
            open: [false; 2],
            buffers: [Payload::new(), Payload::new()],
            delivered: [0; 2],
            booked: [false; 2],
            paused: [false; 2],
            closed: [false; 2],
            ended: [false; 2],
            in_tls: [false; 2],
            confirms: [false; 2],
            wire: Default::default(),
        }
    }
    /// Number of the stream at this side; `None` if it is not open there.
    pub fn stream(&self, side: usize) -> Option<StreamId> {
        self.streams[side]
    }
    pub fn write(&mut self, side: usize, data: Payload, capacity: u64) {
        assert!(self.open[side] && !self.closed[side], "written before it was open or after it was closed");
        assert!(!data.is_empty(), "an empty write");
        assert!(!self.in_tls[side], "written during the handshake");
        if self.closed[1 - side] {
            return;
        }
        self.buffers[side].append(data);
        assert!(self.buffers[side].len() <= capacity, "more written than there was room");
    }
    pub fn may_deliver(&self, from: usize) -> bool {
        let something = !self.buffers[from].is_empty() || self.closed[from];
        something
            && !self.ended[1 - from]
            && !self.booked[from]
            && !self.paused[1 - from]
            && self.streams[1 - from].is_some()
    }
    pub fn take(&mut self, from: usize, n: u64) -> Payload {
        let data = self.buffers[from].split_to(n);
        self.delivered[from] += data.len();
        data
    }
    /// Closes the stream at this side; bytes written before still arrive.
    pub fn close(&mut self, side: usize) {
        self.closed[side] = true;
        self.streams[side] = None;
        self.buffers[1 - side] = Payload::new();
    }
    /// Stream of the other side, once everything from a closed side has arrived; returned only once.
    pub fn finished(&mut self, from: usize) -> Option<StreamId> {
        let over = self.closed[from] && self.buffers[from].is_empty();
        if over && !core::mem::replace(&mut self.ended[1 - from], over) { self.streams[1 - from] } else { None }
    }
    /// Drops the stream at this side, with everything in it; returns its number, if it was open there.
    pub fn drop_side(&mut self, side: usize) -> Option<StreamId> {
        self.buffers = [Payload::new(), Payload::new()];
        self.streams[side].take()
    }
}
