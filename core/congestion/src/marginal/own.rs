//! A node's own bundles, of which it keeps the newest whatever others bring: nobody else is as sure to have
//! them.

use alloc::collections::BTreeMap;

/// Bundles made here, by their numbers, with their sizes.
#[derive(Debug, Default)]
pub(super) struct Own {
    sizes: BTreeMap<u64, u64>,
    /// From this number on they are kept.
    floor: u64,
    /// Bytes from `floor` on.
    kept: u64,
    most: u64,
}

impl Own {
    /// Bytes that may be kept; the node's store may have changed.
    pub fn allow(&mut self, most: u64) {
        if self.most != most {
            self.most = most;
            self.fit();
        }
    }
    /// One was made here.
    pub fn add(&mut self, number: u64, size: u64) {
        if self.sizes.insert(number, size).is_none() && number >= self.floor {
            self.kept += size;
            self.fit();
        }
    }
    /// One is no longer here.
    pub fn remove(&mut self, number: u64) {
        let Some(size) = self.sizes.remove(&number) else { return };
        if number >= self.floor {
            self.kept -= size;
        }
        self.fit();
    }
    /// Whether it is one of the newest, which are kept.
    pub fn keeps(&self, number: u64) -> bool {
        number >= self.floor && self.sizes.contains_key(&number)
    }
    /// As many of the newest as have room, without a gap.
    fn fit(&mut self) {
        while self.kept > self.most {
            let Some((number, size)) = self.sizes.range(self.floor..).next().map(|(n, s)| (*n, *s)) else { return };
            self.floor = number + 1;
            self.kept -= size;
        }
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
        let mut own = Own::default();
        own.allow(250);
        for number in [1, 3, 5, 9] {
            own.add(number, 100);
        }
        let keeps = |own: &Own| [1, 3, 5, 9].map(|number| own.keeps(number));
        assert_eq!(keeps(&own), [false, false, true, true]);
        assert!(!own.keeps(7), "it is none of ours");
        own.remove(9);
        assert_eq!(keeps(&own), [false, true, true, false]);
        own.allow(100);
        assert_eq!(keeps(&own), [false, false, true, false]);
        own.allow(10_000);
        assert_eq!(keeps(&own), [true, true, true, false]);
        own.add(10, 20_000);
        assert_eq!((keeps(&own), own.keeps(10), own.kept), ([false; 4], false, 0), "longer than the share");
        own.remove(10);
        assert_eq!(keeps(&own), [true, true, true, false]);
    }
}
