//! Sets of numbers that arrive mostly in order: of bundles, or of the bytes of a file.

use std::collections::BTreeMap;
use std::ops::Range;

/// Most separate ranges tracked; further ones are refused.
const RANGES_MAX: usize = 1 << 18;

/// Set of numbers as separate ranges, by their starts.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds a range and returns how many of its numbers are new. Returns 0, and adds nothing, if `RANGES_MAX` ranges
    /// exist and the new one does not begin in or just after one of them.
    pub fn add(&mut self, range: Range<u64>) -> u64 {
        let Range { mut start, mut end } = range;
        if start >= end {
            return 0;
        }
        let before = self.ends.range(..=start).next_back().filter(|(_, last)| **last >= start);
        let (before, length) = (before.map(|(first, last)| (*first, *last)), end - start);
        if before.is_none() && self.ends.len() >= RANGES_MAX {
            return 0;
        }
        let mut known = 0;
        if let Some((first, last)) = before {
            known += last.min(end) - start;
            (start, end) = (first, end.max(last));
        }
        // Ranges that begin inside the new one, or just after it, become part of it.
        while let Some((first, last)) = self.ends.range(start + 1..=end).next().map(|(first, last)| (*first, *last)) {
            self.ends.remove(&first);
            // The range that precedes the new one may end beyond this one.
            known += last.min(end) - first.min(end);
            end = end.max(last);
        }
        self.ends.insert(start, end);
        length - known.min(length)
    }
    /// Whether the set contains all numbers below `end`.
    pub fn covers(&self, end: u64) -> bool {
        end == 0 || self.ends.get(&0).is_some_and(|last| *last >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_once() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.add(10..20), 10);
        assert_eq!(ranges.add(10..20), 0);
        assert_eq!(ranges.add(15..25), 5);
        assert_eq!(ranges.add(30..40), 10);
        // Covers a gap, and parts of both neighbours.
        assert_eq!(ranges.add(18..35), 5);
        assert_eq!(ranges.add(0..100), 70);
        assert!(ranges.covers(100) && !ranges.covers(101) && ranges.ends.len() == 1);
        assert_eq!((ranges.add(7..7), ranges.covers(0)), (0, true));
    }

    #[test]
    fn random_ranges_match_a_bitmap() {
        let mut random = farlink_base::Rng::new(3);
        for _ in 0..200 {
            let (mut ranges, mut bitmap) = (Ranges::default(), [false; 64]);
            for _ in 0..40 {
                let start = random.next_u64() % 60;
                let end = (start + random.next_u64() % 12).min(64);
                let new = (start..end).filter(|at| !std::mem::replace(&mut bitmap[*at as usize], true)).count();
                assert_eq!(ranges.add(start..end), new as u64, "{start}..{end}");
                let whole = bitmap.iter().take_while(|taken| **taken).count() as u64;
                assert!(ranges.covers(whole) && !ranges.covers(whole + 1));
            }
        }
    }

    #[test]
    fn scattered_numbers_stay_bounded() {
        let mut ranges = Ranges::default();
        for at in 0..RANGES_MAX as u64 + 5 {
            ranges.add(2 * at..2 * at + 1);
        }
        assert_eq!(ranges.ends.len(), RANGES_MAX);
        assert_eq!(ranges.add(u64::MAX - 1..u64::MAX), 0);
        // Numbers that extend a known range still count.
        assert_eq!((ranges.add(1..2), ranges.ends.len()), (1, RANGES_MAX - 1));
    }
}
