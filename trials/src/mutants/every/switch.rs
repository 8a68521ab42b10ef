//! Switch of the mutants in an instrumented copy of the tree; it selects one by its number.
//!
//! `FARLINK_MUTANT=NUMBER` plants one mutant. `FARLINK_MUTANT_TRACE=FILE` plants none, and appends to the file the
//! number of each mutant that is reached, once.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const UNREAD: u32 = u32::MAX;
const TRACE: u32 = u32::MAX - 1;
const NONE: u32 = u32::MAX - 2;
/// Number of the planted mutant, or one of [`UNREAD`], [`TRACE`] and [`NONE`].
static PLANTED: AtomicU32 = AtomicU32::new(UNREAD);

const SLOTS: usize = 1 << 17;
/// Numbers of the mutants reached, each plus one, in an open-addressing table.
static REACHED: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];

/// Returns whether the code of this number runs unchanged.
#[inline]
pub fn live(number: u32) -> bool {
    let planted = PLANTED.load(Relaxed);
    // The common case costs one load and two comparisons.
    if planted >= NONE && planted != NONE { slowly(number, planted) } else { planted != number }
}

#[cold]
fn slowly(number: u32, planted: u32) -> bool {
    // The environment is read once, by the first call of any thread.
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
        // Only the thread that claims the slot writes the number.
        match REACHED[slot].compare_exchange(0, number + 1, Relaxed, Relaxed) {
            Ok(_) => break,
            Err(there) if there == number + 1 => return true,
            Err(_) => slot = (slot + 1) % SLOTS,
        }
    }
    let file = std::env::var("FARLINK_MUTANT_TRACE").expect("read before");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    // One write per line: lines of several threads do not mix.
    file.expect("the trace can be written").write_all(format!("{number}\n").as_bytes()).expect("the trace is written");
    true
}
