//! Reference implementation of fragmentation (RFC 9171 5.8) on decoded bundles, with which fragments of the codec are
//! compared.

use farlink_base::DtnTime;
use farlink_bundle::{BlockData, BlockFlags, Bundle, BundleFlags, ExtensionBlock, FragmentInfo};

/// Cuts a bundle so that the first piece holds `first_len` payload bytes; works on fragments too:
/// offsets and the total stay relative to the original payload. `None` when the bundle must not be
/// fragmented or either piece would be empty.
pub fn fragment(bundle: &Bundle, first_len: u64) -> Option<(Bundle, Bundle)> {
    let len = bundle.payload.len();
    if !bundle.may_fragment() || first_len == 0 || first_len >= len {
        return None;
    }
    let whole = bundle.primary.fragment.unwrap_or(FragmentInfo { offset: 0, total: len });
    // Blocks not marked for replication go with the fragment that begins where the bundle did.
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
    takes: impl Fn(&ExtensionBlock) -> bool,
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
