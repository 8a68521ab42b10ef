//! Contract for finding the end of a bundle in bytes that are not kept.

/// Finds the end of one bundle while its bytes pass. Convergence layers that put several bundles into one block need
/// this, but do not know how bundles are encoded; the codec implements it.
pub trait FindEnd: Default {
    /// Number of next bytes whose values do not matter, so that [`FindEnd::pass`] may skip them.
    fn opaque(&self) -> u64;
    /// Skips `count` bytes, at most [`FindEnd::opaque`], without their values.
    fn pass(&mut self, count: u64);
    /// Reads the next bytes, up to the end of the bundle. Returns the number of bytes read.
    ///
    /// # Errors
    ///
    /// The reason why the bytes are not a bundle; its end cannot be found then.
    fn read(&mut self, bytes: &[u8]) -> Result<usize, &'static str>;
    /// Whether the last byte of the bundle was read or skipped.
    fn is_over(&self) -> bool;
}
