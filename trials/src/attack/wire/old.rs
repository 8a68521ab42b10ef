//! Bundles of BPv6 (RFC 5050, RFC 6260), well-formed unless the attack is about the form.

use super::ltp::put_sdnv;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds from 1970 to 2000, where DTN time begins.
const DTN_EPOCH_S: u64 = 946_684_800;
/// Flag of a fragment.
const FRAGMENT: u64 = 1;
/// Flags: singleton destination, normal class of service.
const PLAIN: u64 = 0x10 | 1 << 7;
/// Block flag of the last block.
const LAST: u64 = 8;

/// A bundle of version 6 to be encoded.
pub struct Old {
    /// Node number and service number; with a dictionary they are written there as text.
    pub destination: (u64, u64),
    pub sequence: u64,
    pub lifetime: Duration,
    /// Offset and total length, if it is a fragment.
    pub fragment: Option<(u64, u64)>,
    /// Bytes of unused names in the dictionary; 0: compressed headers (RFC 6260) without a dictionary.
    pub dictionary: usize,
    /// Bytes of a block of unknown type after the payload.
    pub behind: usize,
}

impl Old {
    /// A bundle from the unknown endpoint `ipn:66.66`, with a lifetime of an hour.
    pub fn new(destination: (u64, u64), sequence: u64) -> Old {
        Old { destination, sequence, lifetime: Duration::from_secs(3600), fragment: None, dictionary: 0, behind: 0 }
    }
    /// Bytes up to the payload; `payload` bytes follow.
    pub fn head(&self, payload: u64) -> Vec<u8> {
        let mut dictionary = Vec::new();
        // Destination, source, report-to and custodian.
        let mut ends = [self.destination, (66, 66), (0, 0), (0, 0)];
        if self.dictionary > 0 {
            for (end, (node, service)) in ends.iter_mut().zip([self.destination, (66, 66), (66, 66), (66, 66)]) {
                let at = dictionary.len() as u64;
                // A reference is the offset of a scheme and of a name; both end with a zero byte.
                dictionary.extend(format!("ipn\0{node}.{service}\0").bytes());
                *end = (at, at + 4);
            }
            dictionary.resize(dictionary.len() + self.dictionary, b'x');
            dictionary.push(0);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut rest = Vec::new();
        ends.iter().for_each(|(first, second)| [first, second].iter().for_each(|value| put_sdnv(&mut rest, **value)));
        let created = now.as_secs().saturating_sub(DTN_EPOCH_S);
        for value in [created, self.sequence, self.lifetime.as_secs(), dictionary.len() as u64] {
            put_sdnv(&mut rest, value);
        }
        rest.extend(dictionary);
        if let Some((offset, whole)) = self.fragment {
            put_sdnv(&mut rest, offset);
            put_sdnv(&mut rest, whole);
        }
        let mut out = vec![6];
        put_sdnv(&mut out, PLAIN | if self.fragment.is_some() { FRAGMENT } else { 0 });
        put_sdnv(&mut out, rest.len() as u64);
        out.extend(rest);
        out.push(1);
        put_sdnv(&mut out, if self.behind > 0 { 0 } else { LAST });
        put_sdnv(&mut out, payload);
        out
    }
    /// The whole bundle with this payload.
    pub fn with(&self, payload: &[u8]) -> Vec<u8> {
        let mut out = self.head(payload.len() as u64);
        out.extend(payload);
        if self.behind > 0 {
            // Block type 200 is for private use (RFC 5050).
            out.push(200);
            put_sdnv(&mut out, LAST);
            put_sdnv(&mut out, self.behind as u64);
            out.resize(out.len() + self.behind, 0x55);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_follow_rfc_5050() {
        let out = Old::new((1, 24), 5).with(b"ab");
        assert_eq!(out[..3], [6, 0x81, 0x10], "version, then flags of two bytes");
        assert_eq!(out[4..12], [1, 24, 66, 66, 0, 0, 0, 0], "numbers for endpoints (RFC 6260)");
        assert!(out.ends_with(&[1, 8, 2, b'a', b'b']), "the payload is the last block");
        let named = Old { dictionary: 3, behind: 2, ..Old::new((1, 24), 5) }.with(b"");
        assert!(named.ends_with(&[1, 0, 0, 200, 8, 2, 0x55, 0x55]));
        assert!(named.windows(13).any(|bytes| bytes == b"ipn\x001.24\x00ipn\0"));
    }
}
