//! Named keys, each in generations: the newest protects, older ones still verify until they are removed.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use farlink_bundle::bpsec::Secret;

/// Keys by name. Cheap to clone; its `Debug` shows names and numbers of generations only.
#[derive(Clone, Default)]
pub struct KeyRing(Arc<BTreeMap<String, Vec<Secret>>>);

impl KeyRing {
    /// Maximum number of generations of one key; a check may have to try each.
    pub const GENERATIONS_MAX: usize = 8;

    /// Keys with their names; among keys of one name, later ones are newer. Beyond [`KeyRing::GENERATIONS_MAX`] the
    /// oldest are left out.
    pub fn new(keys: impl IntoIterator<Item = (String, Secret)>) -> KeyRing {
        let mut ring: BTreeMap<String, Vec<Secret>> = BTreeMap::new();
        for (name, key) in keys {
            // Later keys of a name are newer, and the newest comes first.
            ring.entry(name).or_default().insert(0, key);
        }
        ring.values_mut().for_each(|generations| generations.truncate(Self::GENERATIONS_MAX));
        KeyRing(Arc::new(ring))
    }
    /// The generations of a key, newest first; empty if no key has this name.
    pub fn get(&self, name: &str) -> &[Secret] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
    /// The names of all keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, generations)| (name, generations.len()))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn newest_key_first_and_redacted() {
        let key = |byte: u8| (String::from("moon"), Secret::new(Vec::from([byte; 16])));
        let ring = KeyRing::new((0..10).map(key));
        assert_eq!(ring.get("moon").len(), KeyRing::GENERATIONS_MAX);
        assert_eq!(ring.get("moon")[0].bytes(), [9; 16]);
        assert!(ring.get("sun").is_empty());
        assert_eq!(format!("{ring:?}"), "{\"moon\": 8}");
        assert!(ring.names().eq(["moon"]));
    }
}
