//! Epidemic routing (Vahdat and Becker, 2000): everything to everybody who lacks it.

use crate::world::{Link, World};

impl World<'_> {
    pub(super) fn epidemic(&mut self, host: u32, links: &[Link]) {
        self.offer_all(host, links, |_| true);
    }
}
