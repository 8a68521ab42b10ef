//! Carriers of a bundle (nodes that are thought to hold a copy), encoded in the control's label as indices of nodes in
//! the contact plan. In a plan of up to 32 nodes each node has a bit; in one of up to 254 nodes the last four carriers
//! are listed, beyond that the last two. Nodes with different plans misread each other's labels and misjudge the worth
//! of copies, nothing more.

use alloc::vec::Vec;

const BITS: u32 = 32;
const NAMED: u32 = 254;
const LAST: u32 = 65_534;

/// Label of a bundle, in a plan of `nodes` nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Carriers {
    pub label: u32,
    pub nodes: u32,
}

impl Carriers {
    /// Bits per listed node; 1 for one bit per node.
    fn width(self) -> u32 {
        if self.nodes <= BITS {
            1
        } else if self.nodes <= NAMED {
            8
        } else {
            16
        }
    }
    /// Indices of the carriers.
    pub fn places(self) -> Vec<u32> {
        if self.width() == 1 {
            return (0..self.nodes).filter(|place| self.label >> place & 1 == 1).collect();
        }
        let names = (0..BITS / self.width()).map(|n| self.label >> (n * self.width()) & ((1 << self.width()) - 1));
        // 0 marks an unused field, so indices are stored plus one.
        names.filter(|name| *name > 0 && *name <= self.nodes).map(|name| name - 1).collect()
    }
    fn of(places: &[u32], nodes: u32) -> Carriers {
        let empty = Carriers { label: 0, nodes };
        let width = empty.width();
        let label = if width == 1 {
            places.iter().fold(0, |label, place| label | 1u32.checked_shl(*place).unwrap_or(0))
        } else {
            let names = places.iter().filter(|place| **place < LAST).take((BITS / width) as usize);
            names.zip(0..).fold(0, |label, (place, n)| label | (place + 1) << (n * width))
        };
        Carriers { label, nodes }
    }
    /// Adds a carrier, as the latest one.
    pub fn with(self, place: u32) -> Carriers {
        // A node outside the plan has no index.
        if place >= self.nodes {
            return self;
        }
        let mut places = self.without(place).places();
        places.insert(0, place);
        Carriers::of(&places, self.nodes)
    }
    /// Removes a carrier.
    pub fn without(self, place: u32) -> Carriers {
        let mut places = self.places();
        places.retain(|known| *known != place);
        Carriers::of(&places, self.nodes)
    }
    /// Whether the node is a carrier.
    pub fn has(self, place: u32) -> bool {
        self.places().contains(&place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_carriers_are_remembered() {
        let all = |nodes, places: &[u32]| {
            let none = Carriers { label: 0, nodes };
            places.iter().fold(none, |carriers, place| carriers.with(*place)).places()
        };
        assert_eq!(all(32, &[31, 0, 5, 7, 9, 0]), [0, 5, 7, 9, 31]);
        // Each carrier is listed once, the last one first.
        assert_eq!(all(200, &[199, 0, 5, 7, 9, 5]), [5, 9, 7, 0]);
        assert_eq!(all(1000, &[999, 0, 998]), [998, 0]);
        assert_eq!(all(5, &[5, 4_000_000]), [], "no nodes of the plan");
        let carriers = Carriers { label: 0, nodes: 200 }.with(3).with(4);
        assert_eq!((carriers.without(4).places(), carriers.has(4)), (alloc::vec![3], true));
    }

    #[test]
    fn forged_label_names_plan_nodes_only() {
        for nodes in [0, 1, 5, 32, 33, 254, 255, 100_000] {
            for label in [0, 1, u32::MAX, 0x8000_0001, 0x1234_5678] {
                let carriers = Carriers { label, nodes };
                assert!(carriers.places().iter().all(|place| *place < nodes));
                assert!(carriers.with(0).places().len() <= 32);
            }
        }
    }
}
