//! The program's allocator returns free pages to the kernel, whichever thread allocated or freed them.

use farlink_os::{allocator, memory};
use std::sync::mpsc::channel;

#[global_allocator]
static ALLOCATOR: allocator::Counting<mimalloc::MiMalloc> = allocator::Counting(mimalloc::MiMalloc);

const PIECE: usize = 5000;
const PIECES: usize = (64 << 20) / PIECE;

fn anonymous() -> u64 {
    memory::resident_and_anonymous().1 >> 20
}

#[test]
fn allocating_thread_returns_pages() {
    let ((pieces, taken), (ask, asked), (done, given)) = (channel(), channel::<()>(), channel());
    std::thread::spawn(move || {
        // mimalloc keeps partly filled pages with the allocating thread; a full page moves to the thread that frees
        // from it.
        let all = (0..PIECES).map(|n| vec![n as u8; PIECE]);
        let (sent, kept): (Vec<_>, Vec<_>) = all.enumerate().partition(|(n, _)| n % 2 == 0);
        drop(kept);
        pieces.send(sent).unwrap();
        while asked.recv().is_ok() {
            allocator::give_back_if_asked();
            done.send(anonymous()).unwrap();
        }
    });
    let ask = || {
        ask.send(()).unwrap();
        given.recv().unwrap()
    };
    let held = taken.recv().unwrap();
    let full = anonymous();
    drop(held);
    allocator::give_back();
    let left = ask();
    assert!(full >= 64 && left < 16, "of {full} MiB {left} are left after both threads gave back");
}
