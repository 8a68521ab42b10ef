//! AFNER: bundles forwarded more often than the average make room, the most forwarded first; if that is not enough,
//! the newcomer is refused.
//!
//! L. Yun, C. Xinjian, L. Qilie, Y. Xiaohu: "A Novel Congestion Control Strategy in Delay Tolerant Networks", ICFN
//! 2010. It needs the forwarding count of each bundle in the whole network, which only a simulator has.

use crate::control::Control;
use farlink_book::{Held, Node};

/// Control by average forwarding number.
#[derive(Clone, Copy, Default, Debug)]
pub struct Afner;

impl Control for Afner {
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        let oracle = node.oracle?;
        let forwards = oracle.forwards(held.bundle.id) as f64;
        // Bundles at or below the mean are never evicted.
        (forwards > oracle.mean_forwards()).then_some(-forwards)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::vec;
    use farlink_book::Oracle;

    /// Oracle under which bundle `n` was forwarded `n` times.
    struct Knows;
    impl Oracle for Knows {
        fn copies(&self, _id: u128) -> u64 {
            1
        }
        fn forwards(&self, id: u128) -> u64 {
            id as u64
        }
        fn mean_forwards(&self) -> f64 {
            2.5
        }
    }

    #[test]
    fn only_most_forwarded_make_room() {
        let mut site = ControlSite::new(400);
        let bundles = [(); 4].map(|()| site.keep(9, 100));
        let room = |size| site.room(&Afner, &site.node_with(Some(&Knows)), &site.newcomer(size));
        assert_eq!(room(100), Some(vec![bundles[3]]));
        assert_eq!(room(200), Some(vec![bundles[3], bundles[2]]));
        // Bundles 1 and 2 are below the mean.
        assert_eq!(room(201), None);
        assert_eq!(site.fits(&Afner, 100), None, "without an oracle it evicts nothing");
    }
}
