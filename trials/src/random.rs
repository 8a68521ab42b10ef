//! Random numbers that follow from a seed (SplitMix64), so that a failing run can be tried again.

/// A random number generator.
#[derive(Clone, Debug)]
pub struct Random(u64);
impl Random {
    /// A generator whose sequence follows from `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    /// Returns 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// Uniform in `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Multiplication instead of a remainder uses the high bits; its bias is negligible for small bounds.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
