//! The engine's only source of randomness: xoshiro256++ (Blackman and Vigna, 2019), seeded by the driver. Never use it
//! for keys of cryptography.

/// Deterministic random number generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Creates a generator whose sequence follows from `seed` (expanded by SplitMix64).
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        // The state is never all zeros, which xoshiro could not leave: SplitMix64 gives zero for one input only.
        let state = core::array::from_fn(|_| {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        });
        Rng { state }
    }
    /// Creates an independent generator for one part of a run: the same `seed` and `stream` always give the same
    /// sequence, whatever other parts draw.
    pub fn stream(seed: u64, stream: u64) -> Self {
        // Stream numbers are small: they are spread over all bits, away from the states of nearby seeds.
        Rng::new(seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93).rotate_left(29))
    }
    /// Draws 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
    /// Draws uniformly from `0..bound` (0 if `bound` is 0), with a bias below 2^-64.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiplication takes the place of a division (Lemire 2019).
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
    /// Draws uniformly from [0, 1).
    pub fn unit(&mut self) -> f64 {
        // A double has 53 bits of mantissa.
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
    /// Draws true with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_sequence_streams_differ() {
        let mut a = Rng::new(7);
        let mut b = Rng::new(7);
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Rng::stream(7, 0).next_u64(), Rng::stream(7, 1).next_u64());
    }

    #[test]
    fn draws_are_uniform_enough() {
        let mut rng = Rng::new(1);
        // The standard error of this mean is 0.0009.
        let mean = (0..100_000).map(|_| rng.unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        assert!((0..10_000).all(|_| rng.below(6) < 6));
        assert_eq!(rng.below(0), 0);
    }
}
