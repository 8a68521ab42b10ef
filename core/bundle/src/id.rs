//! Identity of a [`Bundle`].

use crate::{Bundle, BundleId};

impl Bundle {
    /// Identity of the bundle (RFC 9171 4.2.7).
    pub fn id(&self) -> BundleId {
        BundleId {
            source: self.primary.source.clone(),
            creation: self.primary.creation,
            fragment: self.primary.fragment.map(|f| (f.offset, self.payload.len())),
        }
    }
}
