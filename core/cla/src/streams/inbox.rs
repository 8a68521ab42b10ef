//! Bytes received over a stream and not parsed yet.

use farlink_base::Payload;

/// Most chunks of unread bytes; more are joined into one, so that large read buffers with a byte each are released.
const PIECES: usize = 32;
/// Length below which an unread remainder is copied out of its read buffer.
const LEFTOVER: u64 = 4096;

/// Unparsed bytes, in order.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Payload);
impl Inbox {
    /// Whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn add(&mut self, data: Payload) {
        if self.0.is_empty() {
            self.0 = data;
        } else {
            self.0.gather(data);
        }
        // Only bytes in memory can be joined, not fills or stored extents.
        if self.0.chunks().len() > PIECES
            && self.0.resident_len() == self.0.len()
            && let Some(bytes) = self.0.to_bytes()
        {
            self.0 = Payload::from(bytes);
        }
    }
    /// Takes all bytes, to be parsed.
    pub fn take(&mut self) -> Payload {
        core::mem::take(&mut self.0)
    }
    /// Puts back bytes that [`Self::take`] returned, except for the first `read`, which were parsed.
    pub fn put_back(&mut self, taken: Payload, read: u64) {
        let left = taken.len().saturating_sub(read);
        if left > 0 {
            self.0 = if read == 0 { taken } else { taken.slice(read, u64::MAX) };
            // A short remainder is probably the start of a message, whose end may be long in coming.
            if left < LEFTOVER {
                self.unshare();
            }
        }
    }
    /// Copies the bytes out of read buffers that the driver shares.
    pub fn unshare(&mut self) {
        self.0 = self.0.own();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Bytes;

    #[test]
    fn trickle_is_merged() {
        // Each byte would otherwise pin a read buffer.
        let mut inbox = Inbox::default();
        for n in 0..200u8 {
            inbox.add(Payload::from(Bytes::from(alloc::vec![n; 2]).slice(..1)));
            assert!(inbox.0.chunks().len() <= PIECES + 1);
        }
        let taken = inbox.take();
        assert!(inbox.is_empty());
        inbox.put_back(taken, 198);
        inbox.add(Payload::from(&[7][..]));
        assert_eq!(inbox.take().to_bytes().unwrap(), &[198, 199, 7][..]);
        inbox.put_back(Payload::from(&b"all read"[..]), 8);
        assert!(inbox.is_empty());
    }
}
