//! Framing of bundles on a stream: the only difference between STCP and MTCP.

use super::{mtcp, stcp};
use alloc::vec::Vec;
use farlink_base::PayloadReader;

/// Protocol of a layer; determines how bundles are framed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// Each bundle follows its length in 32 bits (draft-burleigh-dtn-stcp).
    Stcp,
    /// Each bundle is a CBOR byte string (draft-ietf-dtn-mtcpcl-01).
    Mtcp,
}

/// Longest head of a frame, bytes.
pub(super) const HEAD_MAX: u64 = 9;

impl Framing {
    /// Longest bundle that a frame can carry, bytes.
    pub const fn longest(self) -> u64 {
        match self {
            Framing::Stcp => stcp::LONGEST,
            Framing::Mtcp => mtcp::LONGEST,
        }
    }
    /// Reads the head of a frame, and returns the length of its bundle, 0 for a keepalive. `None` if the head is
    /// truncated; the reader has not moved then.
    ///
    /// # Errors
    ///
    /// The reason why the head is malformed.
    pub fn read_head(self, reader: &mut PayloadReader<'_>) -> Result<Option<u64>, &'static str> {
        match self {
            Framing::Stcp => Ok(stcp::read_head(reader)),
            Framing::Mtcp => mtcp::read_head(reader),
        }
    }
    /// Appends the head of a frame for a bundle of `len` bytes, at most [`Framing::longest`]; length 0 is a keepalive.
    pub fn put_head(self, out: &mut Vec<u8>, len: u64) {
        match self {
            Framing::Stcp => stcp::put_head(out, len),
            Framing::Mtcp => mtcp::put_head(out, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Framing::{Mtcp, Stcp};
    use farlink_base::Payload;

    fn read(framing: Framing, bytes: &[u8]) -> (Result<Option<u64>, &'static str>, u64) {
        let rope = Payload::from(bytes.to_vec());
        let mut reader = rope.reader();
        (framing.read_head(&mut reader), reader.position())
    }

    #[test]
    fn frames_round_trip() {
        let lens = [0, 1, 23, 24, 255, 256, 65_535, 65_536, u32::MAX.into()];
        let long = [(1 << 32), u64::MAX].map(|len| (Mtcp, len));
        for (framing, len) in lens.iter().flat_map(|len| [(Stcp, *len), (Mtcp, *len)]).chain(long) {
            let mut head = Vec::new();
            framing.put_head(&mut head, len);
            assert!(head.len() as u64 <= HEAD_MAX);
            for cut in 0..head.len() {
                assert_eq!(read(framing, &head[..cut]), (Ok(None), 0), "{framing:?} {len}");
            }
            let end = head.len() as u64;
            head.extend_from_slice(&[0xff; 20]);
            assert_eq!(read(framing, &head), (Ok(Some(len)), end), "{framing:?} {len}");
        }
    }

    #[test]
    fn longer_definite_heads_are_accepted() {
        for head in [&[0x43][..], &[0x58, 3], &[0x59, 0, 3], &[0x5a, 0, 0, 0, 3], &[0x5b, 0, 0, 0, 0, 0, 0, 0, 3]] {
            assert_eq!(read(Mtcp, head), (Ok(Some(3)), head.len() as u64));
        }
        assert_eq!(read(Mtcp, &[0x5f, 0x41, 1, 0xff]), (Err("a byte string of indefinite length"), 0));
        for reserved in 0x5c..=0x5e {
            assert!(read(Mtcp, &[reserved, 0, 0]).0.is_err());
        }
        for other in (0..=255).filter(|first| first & 0xe0 != 0x40) {
            assert!(read(Mtcp, &[other, 0, 0, 0, 0, 0, 0, 0, 0]).0.is_err(), "{other:#x}");
        }
    }
}
