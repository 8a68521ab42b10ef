//! The fields of BPv6 blocks: single bytes, SDNVs (RFC 5050 4.1) and runs of bytes.

use crate::cbor::Out;
use crate::head::Stop;
use farlink_base::{Malformed, sdnv};

/// Reads fields in order.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the first byte in the bundle.
    base: u64,
    /// What is wrong when the bytes end too early; `None`: more of them may come.
    closed: Option<&'static str>,
}

impl<'a> Reader<'a> {
    /// Of the first bytes of a bundle: more may follow.
    pub fn open(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0, base: 0, closed: None }
    }
    /// Of bytes that are all there are, from offset `base` on; `short` says what is wrong when they do not suffice.
    pub fn closed(bytes: &'a [u8], base: u64, short: &'static str) -> Self {
        Reader { bytes, at: 0, base, closed: Some(short) }
    }
    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }
    /// Offset of the next byte in the bundle.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }
    /// Whether everything is read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
    /// What is wrong at the next byte.
    pub fn bad<T>(&self, reason: &'static str) -> Result<T, Stop> {
        self.bad_at(self.at, reason)
    }
    /// What is wrong at a position.
    pub fn bad_at<T>(&self, position: usize, reason: &'static str) -> Result<T, Stop> {
        Err(Stop::Bad(Malformed { offset: self.base + position as u64, reason }))
    }
    /// The bytes ended too early.
    fn short<T>(&self) -> Result<T, Stop> {
        let offset = self.base + self.bytes.len() as u64;
        Err(match self.closed {
            Some(reason) => Stop::Bad(Malformed { offset, reason }),
            None => Stop::Short(Malformed { offset, reason: "the bundle ends too early" }),
        })
    }
    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Stop> {
        let Some(byte) = self.bytes.get(self.at) else { return self.short() };
        self.at += 1;
        Ok(*byte)
    }
    /// The next number. Padded ones are read as they are (RFC 5050 4.1 does not forbid them).
    pub fn sdnv(&mut self) -> Result<u64, Stop> {
        match sdnv::decode(&self.bytes[self.at..]) {
            Ok((value, used)) => {
                self.at += used;
                Ok(value)
            }
            Err(sdnv::Error::Truncated) => self.short(),
            Err(sdnv::Error::TooLarge) => self.bad("a number of more than 64 bits"),
        }
    }
    /// The next `len` bytes.
    pub fn take(&mut self, len: u64) -> Result<&'a [u8], Stop> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else { return self.short() };
        self.at += taken.len();
        Ok(taken)
    }
}

/// A number that fills all of these bytes.
pub(super) fn only_sdnv(bytes: &[u8]) -> Option<u64> {
    sdnv::decode(bytes).ok().filter(|(_, used)| *used == bytes.len()).map(|(value, _)| value)
}

/// Appends a number.
pub(super) fn put_sdnv(out: &mut impl Out, value: u64) {
    let mut bytes = [0; sdnv::LEN_MAX];
    let len = sdnv::encode(value, &mut bytes);
    out.put(&bytes[..len]);
}
