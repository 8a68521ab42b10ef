//! Fragmentation of bundles (RFC 9171 5.8).

use crate::{BlockData, BlockFlags, Bundle, BundleFlags, FragmentInfo};
use alloc::vec::Vec;
use farlink_base::DtnTime;

/// Splits a bundle so that the first fragment holds `first_len` payload bytes. Fragments can be split again: offsets
/// and the total stay relative to the original payload. `None` if the bundle must not be fragmented or a fragment would
/// be empty.
pub fn fragment(bundle: &Bundle, first_len: u64) -> Option<(Bundle, Bundle)> {
    let len = bundle.payload.len();
    if !bundle.may_fragment() || first_len == 0 || first_len >= len {
        return None;
    }
    let whole = bundle.primary.fragment.unwrap_or(FragmentInfo { offset: 0, total: len });
    // Blocks not marked for replication go with the fragment at the bundle's beginning (RFC 9171 5.8).
    let first = piece(bundle, 0, first_len, whole, |_| true);
    let second = piece(bundle, first_len, len - first_len, whole, |block| {
        // Without creation time a fragment needs an age to expire by (RFC 9171 4.4.2).
        block.flags.has(BlockFlags::REPLICATE)
            || (bundle.primary.creation.time == DtnTime::UNKNOWN && matches!(block.data, BlockData::Age(_)))
    });
    Some((first, second))
}

fn piece(
    bundle: &Bundle,
    start: u64,
    len: u64,
    whole: FragmentInfo,
    takes: impl Fn(&crate::ExtensionBlock) -> bool,
) -> Bundle {
    let mut primary = bundle.primary.clone();
    primary.flags.0 |= BundleFlags::FRAGMENT;
    primary.fragment = Some(FragmentInfo { offset: whole.offset.saturating_add(start), total: whole.total });
    Bundle {
        primary,
        primary_raw: None,
        extensions: bundle.extensions.iter().filter(|block| takes(block)).cloned().collect::<Vec<_>>(),
        payload_flags: bundle.payload_flags,
        payload_crc: bundle.payload_crc,
        payload_crc_value: None,
        payload: bundle.payload.slice(start, len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreationTimestamp, EndpointId, Profile, decode};
    use farlink_base::{Accel, Payload};

    fn sample(time: u64, flags: u64) -> Bundle {
        Bundle::new(
            EndpointId::ipn(1, 1),
            EndpointId::ipn(2, 1),
            CreationTimestamp { time: DtnTime(time), sequence: 3 },
        )
        .flags(flags)
        .hop_limit(9)
        .block(BlockData::PreviousNode(EndpointId::ipn(1, 0)))
        .payload(Payload::from(&b"0123456789"[..]))
        .build()
    }

    /// Keeps 9171-4.3.1-10, 9171-4.3.1-12, 9171-5.8-1, 9171-5.8-4, 9171-5.8-5, 9171-5.8-7.
    #[test]
    fn fragments_are_valid_with_original_offsets() {
        let (first, rest) = fragment(&sample(7, 0), 4).unwrap();
        let (second, third) = fragment(&rest, 1).unwrap();
        for (piece, offset, data) in [(first, 0, &b"0123"[..]), (second, 4, b"4"), (third, 5, b"56789")] {
            let info = piece.primary.fragment.unwrap();
            assert_eq!((info.offset, info.total), (offset, 10));
            let wire = piece.encode(&Accel::default()).into_payload();
            let back = decode(&wire, Profile::Strict, &Accel::default()).unwrap();
            assert_eq!(back.payload.to_bytes().unwrap(), data);
            assert_eq!(back.previous_node().is_some(), offset == 0, "not marked for replication");
            assert!(back.hop_count().is_some(), "marked for replication");
        }
    }

    #[test]
    fn clockless_fragments_keep_age_block() {
        let mut bundle = sample(0, 0);
        bundle.extensions.iter_mut().for_each(|block| block.flags = BlockFlags(0));
        let (_, rest) = fragment(&bundle, 4).unwrap();
        assert_eq!(rest.age_ms(), Some(0));
        assert_eq!(rest.hop_count(), None);
    }

    /// Keeps 9171-5.8-1.
    #[test]
    fn unfragmentable_bundle_is_not_cut() {
        assert!(fragment(&sample(7, BundleFlags::NO_FRAGMENT), 4).is_none());
        assert!(fragment(&sample(7, 0), 0).is_none());
        assert!(fragment(&sample(7, 0), 10).is_none());
    }
}
