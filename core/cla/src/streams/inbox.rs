//! What came over a stream and is not read yet.

use farlink_base::Payload;

/// Pieces in which unread bytes are kept; more are copied into one. What the driver read into a
/// large buffer for a single byte is then let go.
const PIECES: usize = 32;
/// What is left unread of so few bytes does not keep the read buffer it came in.
const LEFTOVER: u64 = 4096;

/// Unread bytes in order.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Payload);
impl Inbox {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// More came.
    pub fn add(&mut self, data: Payload) {
        if self.0.is_empty() {
            self.0 = data;
        } else {
            self.0.gather(data);
        }
        if self.0.chunks().len() > PIECES
            && self.0.resident_len() == self.0.len()
            && let Some(bytes) = self.0.to_bytes()
        {
            self.0 = Payload::from(bytes);
        }
    }
    /// Takes all out, to be read.
    pub fn take(&mut self) -> Payload {
        core::mem::take(&mut self.0)
    }
    /// Puts back what was taken and not read: what follows its first `read` bytes.
    pub fn put_back(&mut self, taken: Payload, read: u64) {
        let left = taken.len().saturating_sub(read);
        if left > 0 {
            self.0 = if read == 0 { taken } else { taken.slice(read, u64::MAX) };
            // The beginning of a message: it may wait for its end for long.
            if left < LEFTOVER {
                self.unshare();
            }
        }
    }
    /// Lets go of the read buffers it shares.
    pub fn unshare(&mut self) {
        self.0 = self.0.own();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::Bytes;

    #[test]
    fn trickle_is_kept_in_few_pieces() {
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
