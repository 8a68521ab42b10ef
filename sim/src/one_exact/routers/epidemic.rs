//! Epidemic routing (Vahdat and Becker, 2000): everything to everybody who lacks it.

use crate::one_exact::buffer::Held;
use crate::one_exact::world::{Link, World};

impl World<'_> {
    pub(super) fn epidemic(&mut self, host: u32, links: &[Link]) {
        let mut list: Vec<Held> = self.buffers[host as usize].held().to_vec();
        self.queued(host, &mut list, |held| held);
        self.offer_all(host, &list, links);
    }
}
