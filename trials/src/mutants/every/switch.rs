//! The switch of the mutants in an instrumented copy of the tree: which one is planted, by its number.
//!
//! `FARLINK_MUTANT=NUMBER` plants one. `FARLINK_MUTANT_TRACE=FILE` plants none, and appends to the file
//! the number of each that is reached, once.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const UNREAD: u32 = u32::MAX;
const TRACE: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX - 2;
/// What is planted, or one of the above.
static PLANTED: AtomicU32 = AtomicU32::new(UNREAD);

const SLOTS: usize = 1 << 17;
/// Numbers reached, plus one; open addressing.
static REACHED: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];

/// Whether the code of this number runs as it was written.
#[inline]
pub fn live(number: u32) -> bool {
    let planted = PLANTED.load(Relaxed);
    if planted >= NONE && planted != NONE { slowly(number, planted) } else { planted != number }
}

#[cold]
fn slowly(number: u32, planted: u32) -> bool {
    if planted == UNREAD {
        let word = |name| std::env::var(name).ok();
        let read = match (word("FARLINK_MUTANT"), word("FARLINK_MUTANT_TRACE")) {
            (Some(planted), _) => planted.parse().expect("FARLINK_MUTANT is a number"),
            (None, Some(_)) => TRACE,
            (None, None) => NONE,
        };
        PLANTED.store(read, Relaxed);
        return live(number);
    }
    let mut slot = number as usize % SLOTS;
    loop {
        match REACHED[slot].compare_exchange(0, number + 1, Relaxed, Relaxed) {
            Ok(_) => break,
            Err(there) if there == number + 1 => return true,
            Err(_) => slot = (slot + 1) % SLOTS,
        }
    }
    let file = std::env::var("FARLINK_MUTANT_TRACE").expect("read before");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    file.expect("the trace can be written").write_all(format!("{number}\n").as_bytes()).expect("the trace is written");
    true
}
