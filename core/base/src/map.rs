//! Hash map of the engine. Its creator seeds it, so that a run can be replayed and a hostile peer cannot target its
//! buckets. Never iterate over it to decide something: the order is arbitrary.

use foldhash::quality::FixedState;

/// Hash map with a given seed, made by [`map`].
pub type Map<K, V> = hashbrown::HashMap<K, V, FixedState>;
/// Hash set with a given seed, made by [`set`].
pub type Set<K> = hashbrown::HashSet<K, FixedState>;

/// An empty map whose hashing depends on `seed`.
pub const fn map<K, V>(seed: u64) -> Map<K, V> {
    Map::with_hasher(FixedState::with_seed(seed))
}
/// An empty set whose hashing depends on `seed`.
pub const fn set<K>(seed: u64) -> Set<K> {
    Set::with_hasher(FixedState::with_seed(seed))
}
