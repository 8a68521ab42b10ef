//! Identity and time of sending in the first bytes of a payload, by which bundles are counted and timed whatever carries
//! them.

/// Bytes of a stamp.
pub const STAMP: usize = 24;
/// Bytes of a stamp with the offset of a piece of a file.
pub const PIECE_STAMP: usize = STAMP + 8;

/// Identity of a bundle: flow, number, monotonic time of sending. Big-endian, eight bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Flow that the bundle belongs to.
    pub flow: u64,
    /// Number in its flow, from 0.
    pub number: u64,
    /// `CLOCK_MONOTONIC` at the sender, ns.
    pub sent_ns: u64,
}

impl Stamp {
    /// Writes the stamp to the front of a payload; shorter payloads stay as they are.
    pub fn write(&self, payload: &mut [u8]) {
        let Some(front) = payload.first_chunk_mut::<STAMP>() else { return };
        let values = [self.flow, self.number, self.sent_ns].map(u64::to_be_bytes);
        front.copy_from_slice(values.as_flattened());
    }
    /// Reads the stamp of a payload; `None` if it is too short for one.
    pub fn read(payload: &[u8]) -> Option<Stamp> {
        Some(Stamp { flow: value(payload, 0)?, number: value(payload, 8)?, sent_ns: value(payload, 16)? })
    }
}

/// Eight bytes at a position, big-endian.
fn value(payload: &[u8], at: usize) -> Option<u64> {
    payload.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

/// Writes the offset of a piece of a file, after the stamp.
pub fn write_offset(payload: &mut [u8], offset: u64) {
    if let Some(place) = payload.get_mut(STAMP..PIECE_STAMP) {
        place.copy_from_slice(&offset.to_be_bytes());
    }
}

/// Offset and bytes of a piece of a file; `None` if the payload is too short for one.
pub fn read_piece(payload: &[u8]) -> Option<(u64, &[u8])> {
    Some((value(payload, STAMP)?, payload.get(PIECE_STAMP..)?))
}

/// Writes the endpoint ID that a ping is answered to, after the stamp, if it fits.
pub fn write_reply_to(payload: &mut [u8], endpoint: &str) {
    let (Some(rest), Ok(length)) = (payload.get_mut(STAMP..), u8::try_from(endpoint.len())) else { return };
    let text = [&[length], endpoint.as_bytes()].concat();
    if let Some(place) = rest.get_mut(..text.len()) {
        place.copy_from_slice(&text);
    }
}

/// Endpoint ID that a ping is answered to, if the payload names one.
pub fn read_reply_to(payload: &[u8]) -> Option<&str> {
    let (length, rest) = payload.get(STAMP..)?.split_first()?;
    let text = std::str::from_utf8(rest.get(..usize::from(*length))?).ok()?;
    // Any other payload may have text here by chance.
    (text.starts_with("ipn:") || text.starts_with("dtn:")).then_some(text)
}

/// Bytes that payloads are filled with: of no pattern that a link or a store could compress.
pub fn filler(length: usize) -> Vec<u8> {
    // Words of farlink_base::fill_byte, eight bytes at a time.
    let words = (0..length.div_ceil(8) as u64).flat_map(|word| {
        let mixed = (word + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).to_le_bytes()
    });
    words.take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_survive_the_round_trip() {
        let stamp = Stamp { flow: 7, number: u64::MAX, sent_ns: 1 << 40 };
        for length in [STAMP, PIECE_STAMP, 1000] {
            let mut payload = filler(length);
            stamp.write(&mut payload);
            assert_eq!(Stamp::read(&payload), Some(stamp));
        }
        let mut front = vec![0; STAMP];
        Stamp { flow: 1, number: 2, sent_ns: 3 }.write(&mut front);
        assert_eq!(
            front,
            [[0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 3]].as_flattened()
        );
    }

    #[test]
    fn short_payloads_have_no_stamp() {
        for length in 0..STAMP {
            let mut payload = filler(length);
            Stamp { flow: 1, number: 2, sent_ns: 3 }.write(&mut payload);
            assert_eq!((payload.as_slice(), Stamp::read(&payload)), (filler(length).as_slice(), None));
        }
    }

    #[test]
    fn pieces_carry_offset_and_bytes() {
        let mut payload = vec![9; PIECE_STAMP + 3];
        write_offset(&mut payload, 1 << 33);
        assert_eq!(read_piece(&payload), Some((1 << 33, &[9, 9, 9][..])));
        assert_eq!(read_piece(&payload[..PIECE_STAMP]), Some((1 << 33, &[][..])));
        assert_eq!(read_piece(&payload[..PIECE_STAMP - 1]), None);
    }

    #[test]
    fn reply_address_is_optional() {
        let mut payload = vec![0; 64];
        assert_eq!(read_reply_to(&payload), None);
        write_reply_to(&mut payload, "ipn:1.70000");
        assert_eq!(read_reply_to(&payload), Some("ipn:1.70000"));
        // One byte too short for the text.
        let mut short = vec![0; STAMP + 11];
        write_reply_to(&mut short, "ipn:1.70000");
        assert_eq!(read_reply_to(&short), None);
        assert_eq!(short, vec![0; STAMP + 11]);
        assert_eq!(read_reply_to(&[255; 40]), None);
    }

    #[test]
    fn filler_matches_the_workspace_pattern() {
        let bytes = filler(1003);
        assert!((0..1003).all(|at| bytes[at] == farlink_base::fill_byte(1, at as u64)));
    }
}
