//! What identifies a bundle.

use crate::{Bundle, BundleId};

impl Bundle {
    /// Its identity (RFC 9171 4.2.7).
    pub fn id(&self) -> BundleId {
        BundleId {
            source: self.primary.source.clone(),
            creation: self.primary.creation,
            fragment: self.primary.fragment.map(|f| (f.offset, self.payload.len())),
        }
    }
}
