//! Bytes received over a stream and not parsed yet.

use farlink_base::Payload;

/// Most chunks of unread bytes; more are copied into one, which releases large read buffers that hold a byte each.
const PIECES: usize = 32;
/// Unread remainders shorter than this are copied out of the read buffer they came in.
const LEFTOVER: u64 = 4096;

/// Unparsed bytes, in order.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Payload);
impl Inbox {
    /// Whether it is empty.
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
    /// Puts the bytes taken back, except for the first `read`.
    pub fn put_back(&mut self, taken: Payload, read: u64) {
        let left = taken.len().saturating_sub(read);
        if left > 0 {
            self.0 = if read == 0 { taken } else { taken.slice(read, u64::MAX) };
            // Probably the start of a message, whose end may be long in coming.
            if left < LEFTOVER {
                self.unshare();
            }
        }
    }
    /// Copies the bytes out of buffers shared with the driver.
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
