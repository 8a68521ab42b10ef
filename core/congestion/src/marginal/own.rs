//! Bundles created by this node: the latest of them are kept at the expense of other nodes' bundles, because no other
//! node is as certain to have a copy.

use alloc::collections::BTreeMap;

/// Bundles created here, by number, with their sizes.
#[derive(Debug, Default)]
pub(super) struct OwnBundles {
    sizes: BTreeMap<u64, u64>,
    /// Lowest number that is kept.
    floor: u64,
    /// Bytes from `floor` on.
    kept: u64,
    most: u64,
}

impl OwnBundles {
    /// Sets the bytes that may be kept; the node's store may have changed.
    pub fn allow(&mut self, most: u64) {
        if self.most != most {
            self.most = most;
            self.fit();
        }
    }
    /// Enters a bundle created here.
    pub fn add(&mut self, number: u64, size: u64) {
        if self.sizes.insert(number, size).is_none() && number >= self.floor {
            self.kept += size;
            self.fit();
        }
    }
    /// Removes a bundle.
    pub fn remove(&mut self, number: u64) {
        let Some(size) = self.sizes.remove(&number) else { return };
        if number >= self.floor {
            self.kept -= size;
        }
        self.fit();
    }
    /// Whether the bundle is among the latest, which are kept.
    pub fn keeps(&self, number: u64) -> bool {
        number >= self.floor && self.sizes.contains_key(&number)
    }
    /// Moves the floor so that as many of the latest bundles fit as possible, without a gap.
    fn fit(&mut self) {
        while self.kept > self.most {
            let Some((number, size)) = self.sizes.range(self.floor..).next().map(|(n, s)| (*n, *s)) else { return };
            self.floor = number + 1;
            self.kept -= size;
        }
        // Space may have returned: older ones are kept again.
        while let Some((number, size)) = self.sizes.range(..self.floor).next_back().map(|(n, s)| (*n, *s)) {
            if self.kept + size > self.most {
                return;
            }
            (self.floor, self.kept) = (number, self.kept + size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_own_kept_within_share() {
        let mut own = OwnBundles::default();
        own.allow(250);
        for number in [1, 3, 5, 9] {
            own.add(number, 100);
        }
        let keeps = |own: &OwnBundles| [1, 3, 5, 9].map(|number| own.keeps(number));
        assert_eq!(keeps(&own), [false, false, true, true]);
        assert!(!own.keeps(7), "not created here");
        own.remove(9);
        assert_eq!(keeps(&own), [false, true, true, false]);
        own.allow(100);
        assert_eq!(keeps(&own), [false, false, true, false]);
        own.allow(10_000);
        assert_eq!(keeps(&own), [true, true, true, false]);
        // A long bundle pushes the floor beyond all others.
        own.add(10, 20_000);
        assert_eq!((keeps(&own), own.keeps(10), own.kept), ([false; 4], false, 0), "longer than the share");
        own.remove(10);
        assert_eq!(keeps(&own), [true, true, true, false]);
    }
}
