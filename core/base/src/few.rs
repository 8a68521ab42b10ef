//! A map for what is mostly few: a node of a library's tree has room for eleven pairs, of which two
//! neighbours use two.

use alloc::vec::Vec;

/// Pairs that are added one by one up to here take no room for more.
const EXACT: usize = 4;

/// A sorted list of pairs. Adding and removing moves those behind, so large values stand in boxes; keys
/// that count up are added at the end.
#[derive(Clone, Debug)]
pub struct Few<K, V> {
    pairs: Vec<(K, V)>,
}

impl<K: Ord, V> Few<K, V> {
    /// None.
    pub const fn new() -> Self {
        Few { pairs: Vec::new() }
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.pairs.binary_search_by(|(other, _)| other.cmp(key))
    }
    /// Whether there is a value of this key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }
    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let at = self.place(key).ok()?;
        self.pairs.get(at).map(|(_, value)| value)
    }
    /// The value of a key, to change.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.place(key).ok()?;
        self.pairs.get_mut(at).map(|(_, value)| value)
    }
    /// Sets the value of a key; gives the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => self.pairs.get_mut(at).map(|pair| core::mem::replace(&mut pair.1, value)),
            Err(at) => {
                if self.pairs.len() < EXACT {
                    self.pairs.reserve_exact(1);
                }
                self.pairs.insert(at, (key, value));
                None
            }
        }
    }
    /// Takes a key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.place(key).ok()?;
        let (_, value) = self.pairs.remove(at);
        if self.pairs.is_empty() {
            self.pairs = Vec::new();
        }
        Some(value)
    }
    /// All, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.pairs.iter().map(|(key, value)| (key, value))
    }
    /// All values, by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.pairs.iter().map(|(_, value)| value)
    }
    /// All values, to change, by key.
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
    fn it_does_what_a_tree_does() {
        let (mut few, mut tree, mut rng) = (Few::new(), BTreeMap::new(), Rng::new(1));
        for n in 0..2000u32 {
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
    fn few_take_no_room_for_more() {
        let few: Few<u32, u8> = [(2, 0), (1, 0)].into_iter().collect();
        assert_eq!(few.pairs.capacity(), 2);
    }
}
