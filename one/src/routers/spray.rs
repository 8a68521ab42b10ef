//! Spray and wait (Spyropoulos, Psounis and Raghavendra, 2005): copies are handed on while a host holds
//! more than one.

use crate::world::{Link, World};

impl World<'_> {
    pub(super) fn spray(&mut self, host: u32, links: &[Link]) {
        self.offer_all(host, links, |held| held.copies > 1);
    }
}
