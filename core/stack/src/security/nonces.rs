//! IVs that are unique for each key of this node, and numbers for keys of single blocks: 4 bytes of a hash of the node
//! ID, 3 bytes that count its starts, 5 bytes that count within one start (the deterministic construction of NIST SP
//! 800-38D 8.2.1). The driver durably raises the number of starts before the first IV is used.

use alloc::string::ToString;
use farlink_base::{EndpointId, hash128};

/// Highest number of starts with distinct IVs.
const STARTS: u32 = 1 << 24;
/// Number of IVs within one start.
const COUNTS: u64 = 1 << 40;

/// IVs of one run of a node.
#[derive(Debug)]
pub(super) struct Nonces {
    node: [u8; 4],
    start: u32,
    next: u64,
}
impl Nonces {
    /// IVs of the node with this ID after so many earlier starts.
    pub fn new(node: &EndpointId, start: u32) -> Nonces {
        let hash = hash128(&[node.to_string().as_bytes()]).to_be_bytes();
        Nonces { node: [hash[0], hash[1], hash[2], hash[3]], start, next: 0 }
    }
    /// The next IV; `None` for ever once all were given.
    // 9173-4.3.1-3, 9173-4.6-1, 9173-4.6-2, 9173-4.6-3, 9173-4.8.1-5
    pub fn next(&mut self) -> Option<[u8; 12]> {
        // A counter that wrapped would repeat an IV, which breaks GCM: the key is worn out instead.
        if self.start >= STARTS || self.next >= COUNTS {
            return None;
        }
        let mut iv = [0; 12];
        iv[..4].copy_from_slice(&self.node);
        iv[4..7].copy_from_slice(&self.start.to_be_bytes()[1..]);
        iv[7..].copy_from_slice(&self.next.to_be_bytes()[3..]);
        self.next += 1;
        Some(iv)
    }
    #[cfg(test)]
    pub fn skip_to(&mut self, next: u64) {
        self.next = next;
    }
}

/// An IV as a number.
pub(super) fn number(iv: &[u8; 12]) -> u128 {
    iv.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    /// Keeps 9173-4.3.1-3, 9173-4.6-2, 9173-4.6-3.
    #[test]
    fn ivs_are_unique_across_starts() {
        let mut seen = BTreeSet::new();
        for node in 1..4 {
            for start in [0, 1, 2, 255, 256, STARTS - 1] {
                let mut nonces = Nonces::new(&EndpointId::ipn(node, 0), start);
                for at in [0, 250, COUNTS - 10] {
                    nonces.skip_to(at);
                    (0..10).for_each(|_| assert!(seen.insert(nonces.next().unwrap())));
                }
            }
        }
        assert_eq!(seen.len(), 3 * 6 * 30);
    }

    #[test]
    fn exhausted_nonces_yield_nothing() {
        let mut nonces = Nonces::new(&EndpointId::ipn(1, 0), 7);
        nonces.skip_to(COUNTS - 1);
        assert!(nonces.next().is_some());
        assert_eq!((nonces.next(), nonces.next()), (None, None));
        assert_eq!(Nonces::new(&EndpointId::ipn(1, 0), STARTS).next(), None);
    }
}
