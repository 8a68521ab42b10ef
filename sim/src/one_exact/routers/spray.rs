//! Spray and wait (Spyropoulos, Psounis and Raghavendra, 2005): copies are handed on while there is
//! more than one.

use crate::one_exact::buffer::Held;
use crate::one_exact::world::{Link, World};

impl World<'_> {
    pub(super) fn spray(&mut self, host: u32, links: &[Link]) {
        let copies = self.buffers[host as usize].held().iter().filter(|held| held.copies > 1);
        let mut list: Vec<Held> = copies.copied().collect();
        self.queued(host, &mut list, |held| held);
        self.offer_all(host, &list, links);
    }
}
