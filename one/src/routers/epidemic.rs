//! Epidemic routing (Vahdat and Becker, 2000): every message is offered to every neighbour that lacks it.

use crate::world::{Link, World};

impl World<'_> {
    pub(super) fn epidemic(&mut self, host: u32, links: &[Link]) {
        self.offer_all(host, links, |_| true);
    }
}
