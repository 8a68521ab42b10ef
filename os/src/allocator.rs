//! Counting allocator: reports the memory in use, for comparison with a memory budget.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicU32, Ordering::Relaxed};

/// Bytes a thread may allocate or free before it updates the shared count.
const UNTOLD: usize = 64 << 10;

static IN_USE: AtomicIsize = AtomicIsize::new(0);
/// Number of calls of [`give_back`] so far; each asks all threads to return their free pages.
static ASKED: AtomicU32 = AtomicU32::new(0);
thread_local! {
    static OWN: Cell<isize> = const { Cell::new(0) };
    /// Value of [`ASKED`] when this thread last returned its free pages.
    static GIVEN: Cell<u32> = const { Cell::new(0) };
}

/// Bytes allocated and not freed, with an error of up to 64 KiB per thread; `None` in a process whose allocator is not
/// [`Counting`].
pub fn in_use() -> Option<u64> {
    let bytes = IN_USE.load(Relaxed);
    (bytes != 0).then_some(bytes.max(0) as u64)
}

/// Returns the free pages of this thread to the kernel at once, rather than after a second; other threads follow at
/// [`give_back_if_asked`]. Takes some hundred microseconds. No effect unless the allocator is mimalloc, as in the
/// `farlink` command.
pub fn give_back() {
    ASKED.fetch_add(1, Relaxed);
    collect();
}

/// Returns the free pages of this thread if another thread called [`give_back`] since the last time. The allocator
/// keeps pages with the thread that allocated them, even if another thread freed their contents.
pub fn give_back_if_asked() {
    let asked = ASKED.load(Relaxed);
    if GIVEN.replace(asked) != asked {
        collect();
    }
}

fn collect() {
    // SAFETY: mi_collect may be called at any time from any thread; it touches only free memory, to which nobody
    // refers.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

fn count(bytes: isize) {
    // At the end of a thread its count may be gone already; then the shared count is updated directly.
    let told = OWN.try_with(|own| {
        let sum = own.get() + bytes;
        let tell = sum.unsigned_abs() >= UNTOLD;
        own.set(if tell { 0 } else { sum });
        if tell { sum } else { 0 }
    });
    match told {
        Ok(0) => {}
        Ok(sum) => drop(IN_USE.fetch_add(sum, Relaxed)),
        Err(_) => drop(IN_USE.fetch_add(bytes, Relaxed)),
    }
}

/// Allocator that counts bytes and passes each call to another allocator.
#[derive(Debug)]
pub struct Counting<A>(pub A);

// SAFETY: every call is passed on unchanged to an allocator that keeps the contract; counting neither allocates (the
// thread's cell is const-initialised and has no destructor) nor touches the memory.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        let pointer = unsafe { self.0.alloc(layout) };
        if !pointer.is_null() {
            count(layout.size() as isize);
        }
        pointer
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        let pointer = unsafe { self.0.alloc_zeroed(layout) };
        if !pointer.is_null() {
            count(layout.size() as isize);
        }
        pointer
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { self.0.dealloc(pointer, layout) };
        count(-(layout.size() as isize));
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `realloc`.
        let moved = unsafe { self.0.realloc(pointer, layout, size) };
        if !moved.is_null() {
            count(size as isize - layout.size() as isize);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    #[test]
    fn allocations_count_across_threads() {
        assert_eq!(in_use(), None, "this process counts nothing yet");
        let allocator = Counting(System);
        let layout = |bytes| Layout::from_size_align(bytes, 8).unwrap();
        // SAFETY: each pointer is freed once, with the layout it has.
        unsafe {
            let one = allocator.alloc(layout(10 << 20));
            let two = allocator.alloc_zeroed(layout(1 << 20));
            let one = allocator.realloc(one, layout(10 << 20), 20 << 20);
            assert_eq!(in_use(), Some(21 << 20));
            let (one, two) = (one as usize, two as usize);
            std::thread::spawn(move || {
                Counting(System).dealloc(one as *mut u8, layout(20 << 20));
                Counting(System).dealloc(two as *mut u8, layout(1 << 20));
            })
            .join()
            .unwrap();
        }
        assert_eq!(in_use(), None);
    }
}
