//! Hash map of the engine, seeded by its creator, so that a run replays and a hostile peer cannot target its buckets.
//! Never iterate one to decide something: the order is arbitrary.

use foldhash::quality::FixedState;

/// A hash map with a given seed; make it with [`map`].
pub type Map<K, V> = hashbrown::HashMap<K, V, FixedState>;
/// A hash set with a given seed; make it with [`set`].
pub type Set<K> = hashbrown::HashSet<K, FixedState>;

/// An empty map whose hashing depends on `seed`.
pub const fn map<K, V>(seed: u64) -> Map<K, V> {
    Map::with_hasher(FixedState::with_seed(seed))
}
/// An empty set whose hashing depends on `seed`.
pub const fn set<K>(seed: u64) -> Set<K> {
    Set::with_hasher(FixedState::with_seed(seed))
}
