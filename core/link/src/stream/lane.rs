//! Map whose keys come and go almost in order: segments in flight, by sequence number or by number of the transmission.
//! Access at both ends takes constant time; only entries between them must be searched.

use alloc::collections::VecDeque;

/// Values by number, in ascending order of the numbers.
#[derive(Clone, Debug)]
pub(super) struct FlightMap<V> {
    entries: VecDeque<(u64, V)>,
}

impl<V> FlightMap<V> {
    pub fn new() -> FlightMap<V> {
        FlightMap { entries: VecDeque::new() }
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Inserts a value; replaces the value with the same key.
    pub fn insert(&mut self, key: u64, value: V) {
        // New data is appended; only retransmissions come between other keys.
        if self.entries.back().is_none_or(|(last, _)| *last < key) {
            return self.entries.push_back((key, value));
        }
        match self.place(key) {
            Ok(place) => self.entries[place].1 = value,
            Err(place) => self.entries.insert(place, (key, value)),
        }
    }
    pub fn get(&self, key: u64) -> Option<&V> {
        self.place(key).ok().map(|place| &self.entries[place].1)
    }
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let place = self.place(key).ok()?;
        self.entries.remove(place).map(|(_, value)| value)
    }
    /// First entry, which has the smallest key.
    pub fn first(&self) -> Option<(u64, &V)> {
        self.entries.front().map(|(key, value)| (*key, value))
    }
    pub fn pop_first(&mut self) -> Option<(u64, V)> {
        self.entries.pop_front()
    }
    /// First entry with this key or a larger one.
    pub fn from(&self, key: u64) -> Option<(u64, &V)> {
        let (Ok(place) | Err(place)) = self.place(key);
        self.entries.get(place).map(|(key, value)| (*key, value))
    }
    /// Removes all entries, in order.
    pub fn take_all(&mut self) -> impl Iterator<Item = (u64, V)> + '_ {
        self.entries.drain(..)
    }

    fn place(&self, key: u64) -> Result<usize, usize> {
        // Most lookups are for the oldest segment, which is the next to be acknowledged.
        match self.entries.front() {
            None => Err(0),
            Some((first, _)) if key <= *first => {
                if key == *first {
                    Ok(0)
                } else {
                    Err(0)
                }
            }
            Some(_) => self.entries.binary_search_by_key(&key, |(key, _)| *key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use farlink_base::Rng;

    #[test]
    fn lane_matches_sorted_map() {
        let (mut lane, mut model, mut rng) = (FlightMap::new(), BTreeMap::new(), Rng::new(3));
        for step in 0..20_000u64 {
            // Keys are mostly after the last key, sometimes between others.
            let key = if rng.below(4) > 0 { step } else { step.saturating_sub(rng.below(40)) };
            match rng.below(8) {
                0..=3 => {
                    lane.insert(key, step);
                    model.insert(key, step);
                }
                4 => assert_eq!(lane.remove(key), model.remove(&key)),
                5 | 6 => assert_eq!(lane.pop_first(), model.pop_first()),
                _ => assert_eq!(lane.from(key), model.range(key..).next().map(|(key, value)| (*key, value))),
            }
            assert_eq!(lane.get(key), model.get(&key));
            assert_eq!(lane.first(), model.first_key_value().map(|(key, value)| (*key, value)));
            assert_eq!(lane.is_empty(), model.is_empty());
        }
        assert_eq!(lane.take_all().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        assert!(lane.is_empty());
    }
}
