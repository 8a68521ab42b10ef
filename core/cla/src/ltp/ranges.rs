//! Sets of byte positions, stored as sorted runs: for received, claimed or missing data.

use alloc::vec::Vec;

/// Set of numbers, stored as half-open runs `start..end`, which are sorted and not adjacent. Appending at the end costs
/// O(1); any other insertion takes O(log n) to find its place and O(n) to make room.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct RangeSet {
    runs: Vec<(u64, u64)>,
}

impl RangeSet {
    /// Creates an empty set.
    pub const fn new() -> Self {
        RangeSet { runs: Vec::new() }
    }
    /// Runs, in ascending order.
    pub fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
    /// One past the greatest number; 0 for an empty set.
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.1)
    }
    /// Length of the contiguous start: one past the last number of the run that begins at 0, or 0 without such a run.
    pub fn prefix(&self) -> u64 {
        self.runs.first().map_or(0, |run| if run.0 == 0 { run.1 } else { 0 })
    }
    /// Number of numbers in the set.
    #[cfg(test)]
    pub fn total(&self) -> u64 {
        self.runs.iter().map(|(start, end)| end - start).sum()
    }
    /// Index of the first run that ends at or after `position`.
    fn find(&self, position: u64) -> usize {
        self.runs.partition_point(|run| run.1 < position)
    }
    /// Whether all of `start..end` is in the set; true for an empty range.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        start >= end || self.runs.get(self.find(start + 1)).is_some_and(|run| run.0 <= start && end <= run.1)
    }
    /// Whether `position` is in the set. Never true for `u64::MAX`, because no range ends after it.
    pub fn contains(&self, position: u64) -> bool {
        position < u64::MAX && self.covers(position, position + 1)
    }
    /// Whether `start..end` overlaps a run or is adjacent to one, so that its insertion adds no run.
    pub fn touches(&self, start: u64, end: u64) -> bool {
        self.runs.get(self.find(start)).is_some_and(|run| run.0 <= end)
    }
    pub fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        match self.runs.last_mut() {
            Some(last) if start == last.1 => {
                last.1 = end;
                return;
            }
            Some(last) if start < last.1 => {}
            _ => {
                self.runs.push((start, end));
                return;
            }
        }
        let first = self.find(start);
        let mut joined = (start, end);
        let mut after = first;
        while let Some(run) = self.runs.get(after).filter(|run| run.0 <= end) {
            joined = (joined.0.min(run.0), joined.1.max(run.1));
            after += 1;
        }
        self.runs.splice(first..after, [joined]);
    }
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.find(start + 1);
        let mut after = first;
        let mut kept = Vec::new();
        while let Some(run) = self.runs.get(after).filter(|run| run.0 < end) {
            if run.0 < start {
                kept.push((run.0, start));
            }
            if run.1 > end {
                kept.push((end, run.1));
            }
            after += 1;
        }
        self.runs.splice(first..after, kept);
    }
    /// Parts of `start..end` that are in the set, in order.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs[self.find(start.saturating_add(1))..]
            .iter()
            .take_while(move |run| run.0 < end)
            .map(move |run| (run.0.max(start), run.1.min(end)))
    }
    /// Parts of `start..end` that are not in the set, in order.
    pub fn gaps(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = start;
        let mut runs = self.within(start, end);
        core::iter::from_fn(move || {
            while at < end {
                let (from, to) = runs.next().unwrap_or((end, end));
                let gap = (at, from);
                at = to;
                if gap.0 < gap.1 {
                    return Some(gap);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bitmap(set: &RangeSet) -> [bool; 64] {
        core::array::from_fn(|i| set.runs.iter().any(|r| (r.0..r.1).contains(&(i as u64))))
    }

    proptest! {
        #[test]
        fn agrees_with_a_bitmap(steps in proptest::collection::vec((0u8..3, 0u64..64, 0u64..64), 0..40), scope in (0u64..64, 0u64..64)) {
            let mut set = RangeSet::new();
            let mut oracle = [false; 64];
            for (what, a, b) in steps {
                let (start, end) = (a.min(b), a.max(b));
                if what == 0 { set.remove(start, end) } else { set.insert(start, end) }
                oracle[start as usize..end as usize].fill(what != 0);
                prop_assert_eq!(bitmap(&set), oracle);
                prop_assert!(set.runs.iter().all(|r| r.0 < r.1), "no empty run");
                prop_assert!(set.runs.windows(2).all(|w| w[0].1 < w[1].0), "runs are not adjacent");
            }
            let (start, end) = (scope.0.min(scope.1), scope.0.max(scope.1));
            let range = start as usize..end as usize;
            prop_assert_eq!(set.covers(start, end), oracle[range.clone()].iter().all(|b| *b));
            let around = range.start.saturating_sub(1)..(range.end + 1).min(64);
            prop_assert_eq!(set.touches(start, end), oracle[around].iter().any(|b| *b));
            let inside: Vec<_> = set.within(start, end).flat_map(|(a, b)| a..b).collect();
            let outside: Vec<_> = set.gaps(start, end).flat_map(|(a, b)| a..b).collect();
            prop_assert_eq!(inside, range.clone().filter(|i| oracle[*i]).map(|i| i as u64).collect::<Vec<_>>());
            prop_assert_eq!(outside, range.filter(|i| !oracle[*i]).map(|i| i as u64).collect::<Vec<_>>());
            prop_assert_eq!(set.total(), oracle.iter().filter(|b| **b).count() as u64);
        }
    }

    #[test]
    fn ranges_do_not_overflow() {
        let mut set = RangeSet::new();
        set.insert(u64::MAX - 1, u64::MAX);
        assert!(set.covers(u64::MAX - 1, u64::MAX));
        assert!(!set.contains(5));
        assert_eq!(set.gaps(0, u64::MAX).next(), Some((0, u64::MAX - 1)));
    }
}
