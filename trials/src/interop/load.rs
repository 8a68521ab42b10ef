//! Payloads to be sent, and the account of their arrival.

use anyhow::{Result, bail, ensure};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Payloads of a trial, by their sizes; the bytes follow from a payload's number and size.
pub struct Load {
    sizes: Vec<usize>,
}

impl Load {
    /// Creates `bundles` payloads of 1 to `largest` bytes, with sizes spread evenly over the orders of magnitude and
    /// shuffled.
    pub fn mixed(bundles: usize, largest: usize) -> Load {
        let largest = largest.max(1);
        let spread = |at: usize| {
            let share = at as f64 / bundles.saturating_sub(1).max(1) as f64;
            ((largest as f64).ln() * share).exp().round() as usize
        };
        // Steps of a prime visit every position once, unless the prime divides `bundles`.
        let sizes = (0..bundles).map(|at| spread(at.wrapping_mul(7_919) % bundles).clamp(1, largest)).collect();
        Load { sizes }
    }
    /// Creates `bundles` payloads of one size.
    pub fn equal(bundles: usize, size: usize) -> Load {
        Load { sizes: vec![size; bundles] }
    }
    pub fn len(&self) -> usize {
        self.sizes.len()
    }
    /// Smallest and largest size.
    pub fn range(&self) -> (usize, usize) {
        let smallest = self.sizes.iter().min().copied().unwrap_or(0);
        (smallest, self.sizes.iter().max().copied().unwrap_or(0))
    }
    /// Payload number `at`: it begins with its number as far as it fits, and is not text.
    pub fn payload(&self, at: usize) -> Vec<u8> {
        let size = self.sizes.get(at).copied().unwrap_or(0);
        let mut bytes: Vec<u8> = (0..size as u64)
            // Multiplication by the golden ratio: bytes without a short period.
            .map(|i| (i.wrapping_add(at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8 ^ size as u8)
            .collect();
        let number = (at as u32).to_le_bytes();
        let known = size.min(number.len());
        bytes[..known].copy_from_slice(&number[..known]);
        bytes
    }
}

/// Record of the payloads that have not arrived yet.
pub struct Ledger {
    /// Outstanding payloads, by length and digest.
    owed: HashMap<(usize, u64), usize>,
    missing: usize,
    /// Payloads that arrived more than once.
    pub again: usize,
}

fn key(payload: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    (payload.len(), hasher.finish())
}

impl Ledger {
    /// A ledger in which all payloads of a load are outstanding.
    pub fn of(load: &Load) -> Ledger {
        let mut owed = HashMap::new();
        for at in 0..load.len() {
            // Short payloads may be equal: each is counted.
            *owed.entry(key(&load.payload(at))).or_insert(0) += 1;
        }
        Ledger { owed, missing: load.len(), again: 0 }
    }
    pub fn missing(&self) -> usize {
        self.missing
    }
    /// Records an arrival; fails for a payload that was never sent.
    pub fn came(&mut self, payload: &[u8]) -> Result<()> {
        match self.owed.get_mut(&key(payload)) {
            Some(0) => self.again += 1,
            Some(left) => {
                *left -= 1;
                self.missing -= 1;
            }
            None => {
                bail!("{} bytes arrived that nobody sent: {:02x?}...", payload.len(), &payload[..payload.len().min(8)])
            }
        }
        Ok(())
    }
    /// Fails unless everything has arrived.
    pub fn settled(&self) -> Result<()> {
        ensure!(self.missing == 0, "{} bundles did not arrive", self.missing);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_span_the_whole_range() {
        let load = Load::mixed(1_000, 1_000_000);
        assert_eq!((load.len(), load.range()), (1_000, (1, 1_000_000)));
        let below = |size| load.sizes.iter().filter(|known| **known < size).count();
        assert!((450..550).contains(&below(1_000)), "{}", below(1_000));
        assert!(load.sizes[..50].iter().any(|size| *size > 10_000), "not in order of size");
        assert_eq!(Load::mixed(1, 10).len(), 1);
    }

    #[test]
    fn changed_payload_is_detected() {
        let load = Load::mixed(100, 1_000);
        let mut ledger = Ledger::of(&load);
        for at in 0..load.len() {
            ledger.came(&load.payload(at)).unwrap();
        }
        assert!(ledger.settled().is_ok() && ledger.again == 0);
        ledger.came(&load.payload(7)).unwrap();
        assert_eq!((ledger.missing(), ledger.again), (0, 1));
        let mut changed = Load::equal(1, 100).payload(0);
        *changed.last_mut().unwrap() ^= 1;
        assert!(ledger.came(&changed).unwrap_err().to_string().contains("nobody sent"));
        assert!(Ledger::of(&load).settled().unwrap_err().to_string().contains("100 bundles"));
    }
}
