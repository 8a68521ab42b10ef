//! Toy bundles for tests of readers: their length in four bytes, then anything.

use alloc::vec::Vec;
use farlink_base::FindEnd;

/// Finds the end of a toy bundle.
#[derive(Default, Debug)]
pub(crate) struct ToyEnd {
    length: [u8; 4],
    read: u64,
}
impl ToyEnd {
    fn total(&self) -> u64 {
        u32::from_be_bytes(self.length).into()
    }
}
impl FindEnd for ToyEnd {
    fn opaque(&self) -> u64 {
        if self.read < 4 { 0 } else { self.total() - self.read }
    }
    fn pass(&mut self, count: u64) {
        assert!(count <= self.opaque());
        self.read += count;
    }
    fn read(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut at = 0;
        while self.read < 4 && at < bytes.len() {
            self.length[self.read as usize] = bytes[at];
            (self.read, at) = (self.read + 1, at + 1);
            if self.read == 4 && self.total() < 4 {
                return Err("no toy bundle");
            }
        }
        let data = self.opaque().min((bytes.len() - at) as u64);
        self.pass(data);
        Ok(at + data as usize)
    }
    fn is_over(&self) -> bool {
        self.read >= 4 && self.opaque() == 0
    }
}

/// A toy bundle with a number in its first bytes.
pub(crate) fn toy(number: u8, len: usize) -> Vec<u8> {
    let len = len.max(5);
    let mut bytes = (len as u32).to_be_bytes().to_vec();
    bytes.resize(len, number);
    bytes
}
