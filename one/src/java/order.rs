//! Iteration orders of `java.util.HashMap` and `java.util.Hashtable`.

/// Entry of a [`Bucketed`] list, with a key and its hash.
pub trait Keyed {
    /// `String.hashCode` of the key, its high half folded into the low one as `HashMap` does.
    fn hash(&self) -> u32;
    /// Whether both have the same key.
    fn same(&self, other: &Self) -> bool;
}

/// Folds a hash as `HashMap` does.
pub fn spread(hash: i32) -> u32 {
    let hash = hash as u32;
    hash ^ (hash >> 16)
}

/// Entries in a `HashMap`'s iteration order: by bucket, then by insertion. The table doubles when it is more than three
/// quarters full, and never shrinks; a table of fewer than 64 buckets also doubles when a bucket gets its ninth entry.
/// From 64 buckets on, Java turns such a bucket into a tree; this is not modelled, so the order inside it may then
/// differ.
#[derive(Clone, Debug)]
pub struct Bucketed<T> {
    entries: Vec<T>,
    mask: u32,
}

impl<T: Keyed> Bucketed<T> {
    /// Makes an empty map of 16 buckets, Java's initial capacity.
    pub fn new() -> Bucketed<T> {
        Bucketed { entries: Vec::new(), mask: 15 }
    }
    /// Entries in iteration order.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }
    /// Entries in iteration order, mutable; keys must not change.
    pub fn entries_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }
    /// Removes the entry at `place`, as `HashMap.remove`.
    pub fn remove(&mut self, place: usize) -> T {
        self.entries.remove(place)
    }
    /// Inserts an entry as `HashMap.put`: one with the same key is replaced in place. Returns whether the key is new.
    pub fn put(&mut self, entry: T) -> bool {
        let mask = self.mask;
        let bucket = entry.hash() & mask;
        let first = self.entries.partition_point(|held| held.hash() & mask < bucket);
        let mut end = first;
        while let Some(held) = self.entries.get_mut(end).filter(|held| held.hash() & mask == bucket) {
            if held.same(&entry) {
                *held = entry;
                return false;
            }
            end += 1;
        }
        self.entries.insert(end, entry);
        // Beyond TREEIFY_THRESHOLD (8) entries in a bucket, Java doubles a table of fewer than 64 buckets instead of
        // building a tree.
        if end - first >= 8 && mask < 63 {
            self.double();
        }
        // Java's default load factor is 0.75.
        if self.entries.len() > (self.mask as usize + 1) / 4 * 3 {
            self.double();
        }
        true
    }
    fn double(&mut self) {
        let mask = self.mask << 1 | 1;
        self.mask = mask;
        // A stable sort keeps insertion order within a bucket, as Java's split of each chain does.
        self.entries.sort_by_key(|held| held.hash() & mask);
    }
}

/// Iteration order of a `Hashtable`, as indices of its keys: from the last bucket to the first, and within a bucket the
/// newest key first. `hashes` are those of the keys in order of insertion. Rehashing reverses the chains.
pub fn table_order(hashes: &[i32]) -> Vec<usize> {
    // 11 is the initial capacity of `Hashtable`.
    let mut table: Vec<Vec<usize>> = vec![Vec::new(); 11];
    let bucket = |hash: i32, buckets: usize| (hash & i32::MAX) as usize % buckets;
    for (key, &hash) in hashes.iter().enumerate() {
        if key >= table.len() / 4 * 3 + table.len() % 4 * 3 / 4 {
            let mut larger: Vec<Vec<usize>> = vec![Vec::new(); table.len() * 2 + 1];
            // A chain's newest entry is its head, which is the last element of the vector.
            for chain in table.iter().rev() {
                for &key in chain.iter().rev() {
                    let at = bucket(hashes[key], larger.len());
                    larger[at].push(key);
                }
            }
            table = larger;
        }
        let at = bucket(hash, table.len());
        table[at].push(key);
    }
    table.iter().rev().flat_map(|chain| chain.iter().rev().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::string_hash;
    use super::*;

    struct OrderEntry(String, u32);
    impl Keyed for OrderEntry {
        fn hash(&self) -> u32 {
            spread(string_hash(&self.0))
        }
        fn same(&self, other: &OrderEntry) -> bool {
            self.0 == other.0
        }
    }

    fn walked(map: &Bucketed<OrderEntry>) -> String {
        map.entries().iter().map(|entry| entry.0.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn hash_map_order_matches_java_after_growth() {
        // The expected order was printed by Java 17, before and after the table grew.
        let mut map = Bucketed::new();
        for number in (1..=9).rev() {
            map.put(OrderEntry(format!("A{number}"), 0));
        }
        assert_eq!(walked(&map), JAVA_NINE);
        for number in 95..=120 {
            map.put(OrderEntry(format!("A{number}"), 0));
        }
        assert_eq!(walked(&map), JAVA_GROWN);
        let place = map.entries().iter().position(|entry| entry.0 == "A100").expect("it was put");
        map.remove(place);
        assert!(map.put(OrderEntry("A100".into(), 0)));
        assert_eq!(walked(&map), JAVA_GROWN);
    }
    const JAVA_NINE: &str = "A1 A2 A3 A4 A5 A6 A7 A8 A9";
    const JAVA_GROWN: &str = "A108 A109 A106 A107 A104 A105 A102 A103 A100 A101 A1 A120 A2 A3 A4 A5 A6 A7 A8 A9 A95 \
        A96 A97 A98 A99 A119 A117 A118 A115 A116 A113 A114 A111 A112 A110";

    #[test]
    fn reinserted_key_keeps_its_place() {
        let mut map = Bucketed::new();
        assert!(map.put(OrderEntry("A1".into(), 1)) && map.put(OrderEntry("A2".into(), 1)));
        assert!(!map.put(OrderEntry("A1".into(), 2)));
        assert_eq!(map.entries().iter().find(|entry| entry.0 == "A1").map(|entry| entry.1), Some(2));
        assert_eq!(map.entries().len(), 2);
    }

    #[test]
    fn crowded_bucket_grows_small_table() {
        // All keys share one hash: only the table grows, and no entry moves.
        let mut map = Bucketed::new();
        let texts = ["AaAa", "AaBB", "BBAa", "BBBB"];
        for text in texts.iter().flat_map(|a| texts.iter().map(move |b| format!("{a}{b}"))).take(10) {
            map.put(OrderEntry(text, 0));
        }
        assert_eq!(map.mask, 63);
        assert_eq!(map.entries()[0].0, "AaAaAaAa");
    }

    #[test]
    fn hashtable_order_matches_java() {
        // Coordinates as in a map file, whose places The ONE keeps in a `Hashtable`.
        let keys: Vec<String> = (0..30).map(|number| format!("{}.5,{}.0", number * 7, number % 4)).collect();
        let hashes: Vec<i32> = keys.iter().map(|key| string_hash(key)).collect();
        let order: Vec<String> = table_order(&hashes).iter().map(|place| place.to_string()).collect();
        assert_eq!(order.join(" "), JAVA_TABLE);
        assert!(table_order(&[]).is_empty());
    }
    const JAVA_TABLE: &str = "9 13 0 19 17 7 3 27 8 23 21 11 28 12 2 15 29 22 16 4 6 26 24 20 14 10 1 5 18 25";
}
