//! Available memory, and regions populated in advance: a page fault while a packet is handled costs more than the
//! packet.

use crate::{check, context};
use std::io;
use std::ops::{Deref, DerefMut, Range};

/// `MADV_POPULATE_WRITE` of linux/mman.h, since Linux 5.14.
const MADV_POPULATE_WRITE: libc::c_int = 23;

/// Length from which a region is backed by huge pages, bytes.
const HUGE: usize = 64 << 20;

/// Bytes of memory this process may use: the machine's, or the limit of its control group.
pub fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    let machine = kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    crate::cgroup::Hierarchies::detect().memory_limit().map_or(machine, |limit| limit.min(machine))
}

/// Resident memory of this process, bytes.
pub fn resident() -> u64 {
    resident_and_anonymous().0
}

/// Resident memory, and the part of it not backed by files, i.e. without program and libraries; bytes.
pub fn resident_and_anonymous() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let mut pages = text.split_whitespace().skip(1).map(|n| n.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    let bytes = |pages: u64| pages.saturating_mul(rustix::param::page_size() as u64);
    (bytes(resident), bytes(resident.saturating_sub(shared)))
}

/// A private region of zeroed memory, not inherited by child processes.
#[derive(Debug)]
pub struct Region {
    start: std::ptr::NonNull<u8>,
    length: usize,
}

// SAFETY: a Region owns its mapping alone, as a Box<[u8]> owns its bytes.
unsafe impl Send for Region {}
// SAFETY: shared references only read.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `length` bytes, at least one; pages are allocated on first access.
    pub fn reserve(length: usize) -> io::Result<Self> {
        let length = length.max(1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(context(io::Error::last_os_error(), &format!("reserving {length} bytes")));
        }
        let start = std::ptr::NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let region = Region { start, length };
        // A fork would make every page copy-on-write.
        region.advise(libc::MADV_DONTFORK, 0..length).ok();
        // Huge pages would make a small region of a quiet link resident as a whole.
        if length >= HUGE {
            region.advise(libc::MADV_HUGEPAGE, 0..length).ok();
        }
        Ok(region)
    }

    /// Allocates the pages of these bytes now; the range starts at a page.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        self.advise(MADV_POPULATE_WRITE, range)
    }

    fn advise(&self, advice: libc::c_int, range: Range<usize>) -> io::Result<()> {
        let range = range.start.min(self.length)..range.end.min(self.length);
        // SAFETY: the range is inside this mapping; none of the advices used changes its contents.
        check(unsafe { libc::madvise(self.start.as_ptr().add(range.start).cast(), range.len(), advice) }).map(drop)
    }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `length` readable, initialised (zeroed) bytes that live as long as
        // self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_is_zeroed_and_writable() {
        let mut region = Region::reserve(3 << 20).unwrap();
        region.populate(0..1 << 20).unwrap();
        assert_eq!(region.len(), 3 << 20);
        assert!(region.iter().step_by(4096).all(|b| *b == 0));
        region[(3 << 20) - 1] = 7;
        assert_eq!(region[(3 << 20) - 1], 7);
    }

    #[test]
    fn anonymous_memory_excludes_program_pages() {
        let region = Region::reserve(64 << 20).unwrap();
        region.populate(0..64 << 20).unwrap();
        let (resident, anonymous) = resident_and_anonymous();
        assert!((64 << 20..resident).contains(&anonymous), "{anonymous} of {resident}");
    }
}
