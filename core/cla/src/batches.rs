//! Builder of batches: datagrams of equal length that the driver sends by one call (GSO).

use bytes::BytesMut;
use farlink_base::layer::{DatagramBatch, Destination, Output};
use farlink_base::{Payload, Sink, socket};

/// Largest batch, in bytes and in datagrams: limits of UDP segmentation offload (GSO) for one call.
pub(crate) const BATCH_BYTES: u64 = 65_000;
const BATCH_DATAGRAMS: u64 = 64;

/// Collects datagrams into batches of equal length; the last may be shorter.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    to: Destination,
    pub(crate) rope: Payload,
    stride: u64,
    count: u64,
    closed: bool,
    pub(crate) flushed: u32,
    heads: BytesMut,
}
impl BatchBuilder {
    pub(crate) fn new(to: Destination) -> BatchBuilder {
        BatchBuilder {
            to,
            rope: Payload::new(),
            stride: 0,
            count: 0,
            closed: false,
            flushed: 0,
            heads: BytesMut::new(),
        }
    }
    /// Starts a datagram of `len` bytes; the caller appends its bytes to the rope next.
    pub(crate) fn begin(&mut self, len: u64, out: &mut impl Sink<Output>) {
        // A shorter datagram ends its batch, because in a call with segmentation offload only the last may be shorter.
        let full = self.closed || self.count == BATCH_DATAGRAMS || self.rope.len() + len > BATCH_BYTES;
        if full || len > self.stride {
            self.flush(out);
            self.stride = len;
        }
        self.closed = len < self.stride;
        self.count += 1;
    }
    /// Appends a header; the headers of a batch share one buffer.
    pub(crate) fn head(&mut self, bytes: &[u8]) {
        if self.heads.capacity() < bytes.len() {
            // Allocate for the headers of many datagrams at once.
            self.heads = BytesMut::with_capacity(2048);
        }
        self.heads.extend_from_slice(bytes);
        self.rope.push_bytes(self.heads.split().freeze());
    }
    pub(crate) fn flush(&mut self, out: &mut impl Sink<Output>) {
        if self.count > 0 {
            let train = DatagramBatch { stride: self.stride as u32, data: core::mem::take(&mut self.rope) };
            out.push(Output::Socket(socket::Output::Datagrams { to: self.to, train }));
            self.flushed += 1;
        }
        (self.count, self.closed) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use bytes::Bytes;
    use farlink_base::LinkId;

    #[test]
    fn batches_hold_equal_lengths() {
        let mut out = Vec::new();
        let mut batches = BatchBuilder::new(Destination::Link(LinkId(1)));
        for len in [12usize, 12, 1360, 1360, 500, 1360, 7] {
            batches.begin(len as u64, &mut out);
            batches.head(&alloc::vec![1; len.min(40)]);
            batches.rope.push_bytes(Bytes::from(alloc::vec![2; len - len.min(40)]));
        }
        batches.flush(&mut out);
        batches.flush(&mut out);
        let shapes: Vec<_> = out
            .iter()
            .map(|o| match o {
                Output::Socket(socket::Output::Datagrams { train, .. }) => {
                    (train.stride, train.data.len(), train.count())
                }
                _ => panic!("only datagrams"),
            })
            .collect();
        assert_eq!(shapes, [(12, 24, 2), (1360, 3220, 3), (1360, 1367, 2)]);
    }

    #[test]
    fn batches_respect_kernel_limits() {
        for len in [10u64, 1360, 9000] {
            let mut out = Vec::new();
            let mut batches = BatchBuilder::new(Destination::Link(LinkId(1)));
            for _ in 0..300 {
                batches.begin(len, &mut out);
                batches.rope.push_bytes(Bytes::from(alloc::vec![0; len as usize]));
            }
            batches.flush(&mut out);
            for o in &out {
                let Output::Socket(socket::Output::Datagrams { train, .. }) = o else { panic!() };
                assert!(train.data.len() <= BATCH_BYTES && train.count() <= BATCH_DATAGRAMS);
            }
        }
    }
}
