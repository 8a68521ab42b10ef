//! `java.util.Random`, `Collections.shuffle`, `String.hashCode`, `Math.round`.

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

/// Java's generator: a linear congruence modulo 2^48 (documentation of `java.util.Random`).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Makes the generator for a seed, scrambled as Java does.
    pub fn new(seed: i64) -> Random {
        Random { state: (seed as u64 ^ MULTIPLIER) & MASK }
    }
    /// Draws up to 32 bits.
    fn next(&mut self, bits: u32) -> i32 {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        (self.state >> (48 - bits)) as i32
    }
    /// Draws an integer from 0 up to but not including `bound`. If `bound` is not positive it returns 0 and draws
    /// nothing.
    pub fn below(&mut self, bound: i32) -> i32 {
        if bound <= 0 {
            return 0;
        }
        let mut bits = self.next(31);
        // A power of two uses the high bits, which are more random than the low ones.
        if bound & (bound - 1) == 0 {
            return ((i64::from(bound) * i64::from(bits)) >> 31) as i32;
        }
        loop {
            let value = bits % bound;
            // Java relies on this overflow to reject values of the last, incomplete interval.
            if bits.wrapping_sub(value).wrapping_add(bound - 1) >= 0 {
                return value;
            }
            bits = self.next(31);
        }
    }
    /// Draws a number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        let high = i64::from(self.next(26)) << 27;
        (high + i64::from(self.next(27))) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Draws a number between two bounds with The ONE's formula.
    pub fn between(&mut self, [low, high]: [f64; 2]) -> f64 {
        (high - low) * self.unit() + low
    }
}

/// Longest list whose shuffle is cached for the rest of the second.
const KEPT: usize = 128;

/// Shuffles seeded with the current second: within a second all lists of one length are shuffled alike, so each order
/// is computed once.
pub struct Draws {
    second: i64,
    kept: Vec<Vec<u32>>,
    long: Vec<u32>,
    /// Swaps that shuffle the list of all hosts in this second.
    swaps: Vec<u32>,
}

impl Draws {
    /// Makes an empty cache.
    pub fn new() -> Draws {
        Draws { second: i64::MIN, kept: vec![Vec::new(); KEPT + 1], long: Vec::new(), swaps: Vec::new() }
    }
    /// Order of a list of `length` shuffled in the given second: for each place, the index that its element had before.
    pub fn shuffle(&mut self, second: i64, length: usize) -> &[u32] {
        self.begin(second);
        if length > KEPT {
            fill(&mut self.long, second, length);
            return &self.long;
        }
        let kept = &mut self.kept[length];
        if kept.len() != length {
            fill(kept, second, length);
        }
        kept
    }
    /// Swaps that shuffle a list of `length`, applied from the last: place `n + 1` with place `swaps[n]`.
    pub fn swaps(&mut self, second: i64, length: usize) -> &[u32] {
        self.begin(second);
        // The world shuffles one list this way, that of all hosts: one cached length is enough.
        if self.swaps.len() + 1 != length {
            let mut random = Random::new(second);
            self.swaps = (1..length).rev().map(|place| random.below(place as i32 + 1) as u32).collect();
            self.swaps.reverse();
        }
        &self.swaps
    }
    fn begin(&mut self, second: i64) {
        if second != self.second {
            self.second = second;
            self.kept.iter_mut().for_each(Vec::clear);
            self.swaps.clear();
        }
    }
}

fn fill(list: &mut Vec<u32>, second: i64, length: usize) {
    list.clear();
    list.extend(0..length as u32);
    let mut random = Random::new(second);
    for place in (1..length).rev() {
        list.swap(place, random.below(place as i32 + 1) as usize);
    }
}

/// Hash of a string as `String.hashCode`, over UTF-16 units.
pub fn string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Rounds as `Math.round`: halves go up. The sum with a half would be rounded: 0.49999999999999994 would give 1.
pub fn round(value: f64) -> i64 {
    let below = value.floor();
    (if value - below >= 0.5 { below + 1.0 } else { below }) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_matches_java() {
        // Values printed by Java 17: `new Random(42)`, `nextInt(10)` three times, then `nextDouble`.
        let mut random = Random::new(42);
        assert_eq!([random.below(10), random.below(10), random.below(10)], [0, 3, 8]);
        assert_eq!(Random::new(42).unit(), 0.7275636800328681);
        // A power of two takes the high bits; a bound of 2^30 + 1 rejects almost half of the draws.
        let mut random = Random::new(-7);
        let drawn: Vec<i32> = (0..4).map(|_| random.below((1 << 30) + 1)).collect();
        assert_eq!(drawn, [577934662, 314447087, 677675436, 184135245]);
        assert_eq!(Random::new(5).below(16), 11);
    }

    #[test]
    fn nonpositive_bound_draws_nothing() {
        let mut random = Random::new(1);
        // The state must not advance, or all later draws would differ from Java's.
        assert_eq!((random.below(0), random.below(-5)), (0, 0));
        assert_eq!(random.unit(), Random::new(1).unit());
    }

    #[test]
    fn shuffle_depends_on_length_and_second() {
        let mut draws = Draws::new();
        let first = draws.shuffle(3, 9).to_vec();
        assert_eq!(draws.shuffle(3, 9), first);
        assert_ne!(draws.shuffle(4, 9), first);
        assert_eq!(draws.shuffle(3, 9), first);
        assert_eq!(draws.shuffle(3, 500).len(), 500);
        assert_eq!(draws.shuffle(17, 8), [2, 7, 3, 0, 1, 4, 6, 5]);
        assert!(draws.shuffle(17, 0).is_empty());
    }

    #[test]
    fn string_hashes_and_halves_match_java() {
        assert_eq!(string_hash("A1"), 65 * 31 + 49);
        assert_eq!(string_hash("0.0,228.9"), -1335664247);
        assert_eq!([round(0.5), round(-0.5), round(2.4999), round(-1.5)], [1, 0, 2, -1]);
        assert_eq!([round(0.499_999_999_999_999_94), round(-1e-20), round(-0.500_000_000_000_000_1)], [0, 0, -1]);
    }
}
