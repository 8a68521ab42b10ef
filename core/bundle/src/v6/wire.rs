//! Fields of BPv6 blocks: single bytes, SDNVs (RFC 5050 4.1) and byte strings.

use crate::cbor::ByteSink;
use crate::head::HeadError;
use farlink_base::{Malformed, sdnv};

/// Cursor over the fields of blocks.
#[derive(Clone)]
pub(super) struct FieldReader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the first byte in the bundle.
    base: u64,
    /// Error when the bytes end too early; `None`: more may arrive.
    closed: Option<&'static str>,
}

impl<'a> FieldReader<'a> {
    /// Reader of a prefix of a bundle: more bytes may follow.
    pub fn open(bytes: &'a [u8]) -> Self {
        FieldReader { bytes, at: 0, base: 0, closed: None }
    }
    /// Reader of complete bytes from offset `base` on; `short` is the error when they do not suffice.
    pub fn closed(bytes: &'a [u8], base: u64, short: &'static str) -> Self {
        FieldReader { bytes, at: 0, base, closed: Some(short) }
    }
    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }
    /// Offset of the next byte in the bundle.
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }
    /// Whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
    /// Error at the next byte.
    pub fn bad<T>(&self, reason: &'static str) -> Result<T, HeadError> {
        self.bad_at(self.at, reason)
    }
    /// Error at a position.
    pub fn bad_at<T>(&self, position: usize, reason: &'static str) -> Result<T, HeadError> {
        Err(HeadError::Bad(Malformed { offset: self.base + position as u64, reason }))
    }
    /// Error of bytes that end too early.
    fn short<T>(&self) -> Result<T, HeadError> {
        let offset = self.base + self.bytes.len() as u64;
        Err(match self.closed {
            Some(reason) => HeadError::Bad(Malformed { offset, reason }),
            None => HeadError::Short(Malformed { offset, reason: "the bundle ends too early" }),
        })
    }
    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, HeadError> {
        let Some(byte) = self.bytes.get(self.at) else { return self.short() };
        self.at += 1;
        Ok(*byte)
    }
    /// Reads an SDNV. Padded ones are accepted (RFC 5050 4.1 does not forbid them).
    pub fn sdnv(&mut self) -> Result<u64, HeadError> {
        match sdnv::decode(&self.bytes[self.at..]) {
            Ok((value, used)) => {
                self.at += used;
                Ok(value)
            }
            Err(sdnv::Error::Truncated) => self.short(),
            Err(sdnv::Error::TooLarge) => self.bad("a number of more than 64 bits"),
        }
    }
    /// Reads `len` bytes.
    pub fn take(&mut self, len: u64) -> Result<&'a [u8], HeadError> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else { return self.short() };
        self.at += taken.len();
        Ok(taken)
    }
}

/// Decodes an SDNV that fills all of these bytes.
pub(super) fn only_sdnv(bytes: &[u8]) -> Option<u64> {
    sdnv::decode(bytes).ok().filter(|(_, used)| *used == bytes.len()).map(|(value, _)| value)
}

/// Appends a number as an SDNV.
pub(super) fn put_sdnv(out: &mut impl ByteSink, value: u64) {
    let mut bytes = [0; sdnv::LEN_MAX];
    let len = sdnv::encode(value, &mut bytes);
    out.put(&bytes[..len]);
}
