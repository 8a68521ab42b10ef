//! Identity of a bundle: as fields, as text, and as one number.

use crate::eid::EndpointId;
use crate::hash::hash128;
use crate::time::DtnTime;
use core::fmt;

/// Creation timestamp (RFC 9171 4.2.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CreationTimestamp {
    /// Creation time; 0 if the source had no clock.
    pub time: DtnTime,
    /// Sequence number.
    pub sequence: u64,
}

/// Identity of a bundle, which all copies of it share (RFC 9171 4.2.7 and 5.8).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BundleId {
    /// Source endpoint.
    pub source: EndpointId,
    /// Creation timestamp.
    pub creation: CreationTimestamp,
    /// Offset and payload length of a fragment; `None` for a whole bundle.
    pub fragment: Option<(u64, u64)>,
}

impl BundleId {
    /// Identity as one number: the first 16 bytes of SHA-256 over scheme, source, time, sequence, offset and length
    /// (numbers big-endian). Policies send it and stores keep it, so the computation must never change.
    pub fn fingerprint(&self) -> u128 {
        let mut numbers = [0u8; 32];
        numbers[..8].copy_from_slice(&self.creation.time.0.to_be_bytes());
        numbers[8..16].copy_from_slice(&self.creation.sequence.to_be_bytes());
        let mut used = 16;
        if let Some((offset, length)) = self.fragment {
            numbers[16..24].copy_from_slice(&offset.to_be_bytes());
            numbers[24..].copy_from_slice(&length.to_be_bytes());
            used = 32;
        }
        let numbers = &numbers[..used];
        match &self.source {
            // Every scheme has a prefix of its own, so that no two schemes share an identity.
            EndpointId::Null => hash128(&[b"none ", numbers]),
            EndpointId::Ipn { node, service } => {
                let mut source = *b"ipn \0\0\0\0\0\0\0\0\0\0\0\0";
                source[4..12].copy_from_slice(&node.to_be_bytes());
                source[12..].copy_from_slice(&service.to_be_bytes());
                hash128(&[&source, numbers])
            }
            EndpointId::Dtn(name) => {
                // The length separates node from demux: `a/bc` and `ab/c` must differ.
                let length = (name.node().len() as u64).to_be_bytes();
                hash128(&[b"dtn ", &length, name.node().as_bytes(), name.demux().as_bytes(), b"/", numbers])
            }
            EndpointId::Other(name) => hash128(&[b"scheme ", &name.scheme.to_be_bytes(), &name.part, b"/", numbers]),
        }
    }
    /// [`BundleId::fingerprint`], made different for each version of the bundle protocol. Bundles of different versions
    /// are never the same bundle, whatever their identities: their timestamps count in different units, and neither can
    /// be encoded as the other.
    pub fn fingerprint_in(&self, version: u8) -> u128 {
        // Version 7 keeps the plain fingerprint, since most nodes and stores use that version.
        const APART: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        // The XOR keeps the distribution and needs no second hash.
        self.fingerprint() ^ APART.wrapping_mul(u128::from(version ^ 7))
    }
    /// Identity of the original bundle of a fragment; for a whole bundle its own identity.
    pub fn original(&self) -> BundleId {
        BundleId { fragment: None, ..self.clone() }
    }
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.source, self.creation.time.as_millis(), self.creation.sequence)?;
        match self.fragment {
            Some((offset, len)) => write!(f, "-{offset}-{len}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    fn id(source: EndpointId, sequence: u64, fragment: Option<(u64, u64)>) -> BundleId {
        let creation = CreationTimestamp { time: DtnTime(799_000_000_000), sequence };
        BundleId { source, creation, fragment }
    }

    #[test]
    fn fingerprints_differ_and_are_stable() {
        let mut seen = BTreeSet::new();
        let sources = [EndpointId::Null, EndpointId::dtn("a", "bc"), EndpointId::dtn("ab", "c")];
        for source in (1..40).map(|node| EndpointId::ipn(node, 1)).chain(sources) {
            for sequence in 0..40 {
                // Among the fragments are an empty one, and pairs that differ only in offset or length.
                for fragment in [None, Some((0, 5)), Some((5, 5)), Some((5, 0))] {
                    let print = id(source.clone(), sequence, fragment).fingerprint();
                    // Both halves differ on their own: no part of the fingerprint is constant.
                    assert!(seen.insert(print as u64) && seen.insert((print >> 64) as u64));
                }
            }
        }
        assert_eq!(
            id(EndpointId::ipn(1, 1), 0, None).fingerprint(),
            103_782_444_010_736_613_039_854_937_955_154_257_544,
            "stores on disk and neighbours depend on it"
        );
    }

    #[test]
    fn prints_like_other_implementations_do() {
        assert_eq!(id(EndpointId::ipn(1, 1), 2, Some((3, 4))).to_string(), "ipn:1.1-799000000000-2-3-4");
    }
}
