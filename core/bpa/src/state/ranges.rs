//! Sets of numbers, such as positions of bytes, stored as ranges.

use alloc::collections::BTreeMap;
use core::ops::Range;

/// A set of numbers: disjoint ranges that do not touch.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ranges {
    /// End of each range, exclusive, by its start.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    pub fn of(range: Range<u64>) -> Self {
        let mut ranges = Ranges::default();
        ranges.insert(range);
        ranges
    }
    /// Count of the numbers in the set.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    pub fn first(&self) -> Option<Range<u64>> {
        self.ranges.first_key_value().map(|(start, end)| *start..*end)
    }
    /// Start and end (exclusive) of all ranges, in order.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(start, end)| (*start, *end))
    }
    pub fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        // Ranges must neither overlap nor touch, because `covers` examines only one.
        while let Some((s, e)) = self.ranges.range(..=end).next_back().map(|(s, e)| (*s, *e)) {
            if e < start {
                break;
            }
            (start, end) = (start.min(s), end.max(e));
            self.ranges.remove(&s);
        }
        self.ranges.insert(start, end);
    }
    /// Removes all numbers of a range.
    pub fn remove(&mut self, range: Range<u64>) {
        let Range { start, end } = range;
        if start >= end {
            return;
        }
        while let Some((s, e)) = self.ranges.range(..end).next_back().map(|(s, e)| (*s, *e)) {
            if e <= start {
                break;
            }
            self.ranges.remove(&s);
            if s < start {
                self.ranges.insert(s, start);
            }
            if e > end {
                self.ranges.insert(end, e);
            }
        }
    }
    /// Whether the set contains every number of a range.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.ranges.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_match_reference_set() {
        // A random sequence of changes must match a plain array of flags.
        let mut rng = farlink_base::Rng::new(5);
        let (mut ranges, mut model) = (Ranges::default(), [false; 40]);
        for _ in 0..20_000 {
            let start = rng.below(40);
            let range = start..start + rng.below(41 - start);
            let add = rng.chance(0.5);
            model[range.start as usize..range.end as usize].fill(add);
            if add {
                ranges.insert(range.clone());
            } else {
                ranges.remove(range.clone());
            }
            assert_eq!(ranges.len(), model.iter().filter(|p| **p).count() as u64);
            assert_eq!(ranges.first().map(|r| r.start), model.iter().position(|p| *p).map(|p| p as u64));
            assert!(!add || ranges.covers(&range));
            let gaps = ranges.ranges.iter().zip(ranges.ranges.keys().skip(1)).all(|((_, end), next)| end < next);
            assert!(gaps, "{ranges:?}");
        }
    }
}
