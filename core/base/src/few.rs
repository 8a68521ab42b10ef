//! Map for few entries. A node of a B-tree has room for eleven pairs, most of which would be wasted on a map of two
//! neighbours.

use alloc::vec::Vec;

/// Number of pairs up to which the capacity grows one by one.
const EXACT: usize = 4;

/// Map kept as a sorted list of pairs. Insertion and removal shift all pairs behind, so box large values; increasing
/// keys are appended without a shift.
#[derive(Clone, Debug)]
pub struct Few<K, V> {
    pairs: Vec<(K, V)>,
}

impl<K: Ord, V> Few<K, V> {
    /// Creates an empty map.
    pub const fn new() -> Self {
        Few { pairs: Vec::new() }
    }
    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }
    #[allow(missing_docs)]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.pairs.binary_search_by(|(other, _)| other.cmp(key))
    }
    /// Whether the key is present.
    pub fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }
    /// Value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let at = self.place(key).ok()?;
        self.pairs.get(at).map(|(_, value)| value)
    }
    /// Mutable value of a key.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.place(key).ok()?;
        self.pairs.get_mut(at).map(|(_, value)| value)
    }
    /// Sets the value of a key and returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => self.pairs.get_mut(at).map(|pair| core::mem::replace(&mut pair.1, value)),
            Err(at) => {
                // `Vec` itself would start with a capacity of four pairs.
                if self.pairs.len() < EXACT {
                    self.pairs.reserve_exact(1);
                }
                self.pairs.insert(at, (key, value));
                None
            }
        }
    }
    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.place(key).ok()?;
        let (_, value) = self.pairs.remove(at);
        // An empty map holds no allocation: most maps of a node stay empty for long.
        if self.pairs.is_empty() {
            self.pairs = Vec::new();
        }
        Some(value)
    }
    /// Pairs in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.pairs.iter().map(|(key, value)| (key, value))
    }
    /// Values in key order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.pairs.iter().map(|(_, value)| value)
    }
    /// Mutable values in key order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.pairs.iter_mut().map(|(_, value)| value)
    }
}
impl<K: Ord, V> Default for Few<K, V> {
    fn default() -> Self {
        Few::new()
    }
}
impl<K: Ord, V> FromIterator<(K, V)> for Few<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut few = Few::new();
        for (key, value) in pairs {
            few.insert(key, value);
        }
        few
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn few_matches_btree_map() {
        let (mut few, mut tree, mut rng) = (Few::new(), BTreeMap::new(), Rng::new(1));
        for n in 0..2000u32 {
            // Few keys, so that most operations hit one that exists.
            let key = rng.below(40) as u32;
            if rng.chance(0.5) {
                assert_eq!(few.insert(key, n), tree.insert(key, n));
            } else {
                assert_eq!(few.remove(&key), tree.remove(&key));
            }
            assert_eq!((few.get(&key), few.contains_key(&key)), (tree.get(&key), tree.contains_key(&key)));
            assert!(few.iter().eq(tree.iter()) && few.values().eq(tree.values()));
            assert_eq!((few.len(), few.is_empty()), (tree.len(), tree.is_empty()));
        }
    }

    #[test]
    fn few_allocates_exact_capacity() {
        let few: Few<u32, u8> = [(2, 0), (1, 0)].into_iter().collect();
        assert_eq!(few.pairs.capacity(), 2);
    }
}
