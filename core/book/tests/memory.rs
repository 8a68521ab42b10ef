//! Memory of the book: bytes allocated per bundle and per book. One test, because the allocator counts for the whole
//! process.

mod parts;

use farlink_base::{BundleMeta, Instant, Rng};
use farlink_book::{Book, Held};
use peak_alloc::PeakAlloc;
use std::sync::Arc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const MILLION: u64 = 1_000_000;

/// A bundle for one of `destinations` random destinations.
fn bundle(rng: &mut Rng, destinations: u64) -> Arc<BundleMeta> {
    let id = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    Arc::new(parts::bundle(id, 1 + rng.below(destinations)))
}

fn keep(book: &mut Book, bundle: Arc<BundleMeta>, expires_ms: u64) {
    book.keep(parts::new(bundle, None, Instant::from_nanos(expires_ms * 1_000_000)));
}

/// Bytes in use beyond `before`, per bundle.
fn each(before: usize, count: u64) -> f64 {
    (MEMORY.current_usage() - before) as f64 / count as f64
}

/// Bytes per bundle of a book with a million bundles for random destinations that expire within `spread_ms`: without
/// and with the bundles themselves.
fn million(destinations: u64, spread_ms: u64) -> (f64, f64) {
    let mut rng = Rng::new(7);
    let before = MEMORY.current_usage();
    let mut bundles: Vec<_> = (0..MILLION).map(|_| bundle(&mut rng, destinations)).collect();
    bundles.shrink_to_fit();
    // The vector's own pointers are not part of a bundle.
    let metas = each(before, MILLION) - size_of::<Arc<BundleMeta>>() as f64;
    let before = MEMORY.current_usage();
    let mut book = Book::new(1);
    for bundle in &bundles {
        keep(&mut book, bundle.clone(), 1 + rng.below(spread_ms));
    }
    // The million bundles share one `Book` value, whose size is not on the heap.
    let own = each(before, MILLION) + size_of::<Book>() as f64 / MILLION as f64;
    (own, own + metas)
}

/// Bytes per entry, the books' fixed parts included, in a thousand books of `count` bundles each that share bundles.
fn further(count: u64) -> f64 {
    const BOOKS: u64 = 1000;
    let mut rng = Rng::new(9);
    let pool: Vec<_> = (0..5_000).map(|_| bundle(&mut rng, BOOKS)).collect();
    let mut books = Vec::with_capacity(BOOKS as usize);
    let before = MEMORY.current_usage();
    for seed in 0..BOOKS {
        let mut book = Book::new(seed);
        while book.len() < count as usize {
            let bundle = &pool[rng.below(5_000) as usize];
            // Drawn at random, so the same bundle may come twice.
            if book.find(bundle.id).is_none() {
                keep(&mut book, bundle.clone(), 1 + rng.below(86_400_000));
            }
        }
        books.push(book);
    }
    each(before, BOOKS * count) + size_of::<Book>() as f64 / count as f64
}

/// Uses a million destinations one after another, and as many cursors.
fn leaves_nothing() {
    let mut book = Book::new(1);
    // One entry at a time: whatever stays behind would add up.
    let turn = |book: &mut Book, to: u64| {
        keep(book, Arc::new(parts::bundle(u128::from(to), to)), 1 + to);
        let cursor = book.open_cursor();
        let handle = book.advance(cursor).unwrap();
        book.remove(handle).unwrap();
        book.close_cursor(cursor);
    };
    turn(&mut book, 1);
    let before = MEMORY.current_usage();
    (2..MILLION).for_each(|to| turn(&mut book, to));
    book.audit();
    // The thread of the test harness may allocate a little meanwhile. A byte for each destination would be a million.
    let left = MEMORY.current_usage().saturating_sub(before);
    assert!(left < 4096, "a million destinations, one after another, leave {left} B");
    let cursors: Vec<_> = (0..10_000).map(|_| book.open_cursor()).collect();
    let peak = MEMORY.current_usage();
    cursors.iter().for_each(|cursor| book.close_cursor(*cursor));
    (0..10_000).for_each(|_| _ = book.open_cursor());
    assert!(MEMORY.current_usage() <= peak, "numbers of cursors are used again");
}

/// Checks that the memory of twenty thousand entries is released at rest, once none is left.
fn rests() {
    let mut book = Book::new(1);
    keep(&mut book, Arc::new(parts::bundle(1, 1)), 1);
    let first = book.all().next().unwrap().handle();
    book.remove(first).unwrap();
    let before = MEMORY.current_usage();
    (2..20_000).for_each(|n| keep(&mut book, Arc::new(parts::bundle(n, n as u64 % 100)), n as u64));
    book.rest();
    assert_eq!(book.len(), 19_998, "nothing is let go that is held");
    let all: Vec<_> = book.all().map(Held::handle).collect();
    for handle in all {
        book.remove(handle).unwrap();
    }
    book.rest();
    book.audit();
    let left = MEMORY.current_usage().saturating_sub(before);
    assert!(left <= 4096, "{left} B of an empty book");
    assert!(book.get(first).is_none());
    keep(&mut book, Arc::new(parts::bundle(1, 1)), 1);
    book.audit();
    assert_eq!(book.all().next().map(|held| held.number), Some(20_000), "numbers go on");
}

#[test]
fn a_held_bundle_is_small() {
    let before = MEMORY.current_usage();
    let book = Book::new(1);
    let empty = MEMORY.current_usage() - before;
    drop(book);
    println!("an entry {} B; an empty book {} B and {empty} B on the heap", size_of::<Held>(), size_of::<Book>());
    assert!(empty <= 300 && size_of::<Book>() <= 300);
    leaves_nothing();
    rests();
    println!("a million bundles            | in the book | with bundle");
    let mut worst: (f64, f64) = (0.0, 0.0);
    for (name, destinations, spread_ms) in
        [("1000 destinations, an hour", 1000, 3_600_000), ("one each, a week", u64::MAX, 604_800_000)]
    {
        let (own, all) = million(destinations, spread_ms);
        println!("{name:28} | {own:9.1} B | {all:9.1} B");
        worst = (worst.0.max(own), worst.1.max(all));
    }
    // The bounds of the design: 120 B per entry, 400 B with its bundle.
    assert!(worst.0 <= 120.0 && worst.1 <= 400.0, "{worst:?}");
    for count in [20, 50, 100, 1000] {
        let further = further(count);
        println!("a further holder, {count:4} a book: {further:.1} B");
        assert!(count < 100 || further <= 120.0, "{further}");
    }
}
