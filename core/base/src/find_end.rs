//! Contract for finding the end of a bundle in bytes that are not kept.

/// Finds the end of one bundle while its bytes pass. Convergence layers that put several bundles into one block need
/// it, but know no encoding of bundles; the codec implements it.
pub trait FindEnd: Default {
    /// Number of bytes ahead whose values do not matter; [`FindEnd::pass`] takes up to that many.
    fn opaque(&self) -> u64;
    /// Passes over `count` bytes, at most [`FindEnd::opaque`], without looking at them.
    fn pass(&mut self, count: u64);
    /// Reads the next bytes, but none behind the end. Returns the number of bytes read.
    ///
    /// # Errors
    ///
    /// The reason why the bytes are no bundle; its end cannot be found then.
    fn read(&mut self, bytes: &[u8]) -> Result<usize, &'static str>;
    /// Whether the last byte of the bundle has been taken.
    fn is_over(&self) -> bool;
}
