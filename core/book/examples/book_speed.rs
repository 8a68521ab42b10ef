//! Speed of a book with a million bundles, and its longest step: `cargo run --release -p farlink-book --example
//! book_speed`.

#[path = "../tests/parts/mod.rs"]
mod parts;

use farlink_base::{BundleMeta, Instant, Rng};
use farlink_book::{Book, Handle, New};
use std::sync::Arc;

const MILLION: usize = 1_000_000;
const RUNS: usize = 3;
const DAY_MS: u64 = 86_400_000;

fn new(bundle: Arc<BundleMeta>, expires_ms: u64) -> New {
    parts::new(bundle, None, Instant::from_nanos(expires_ms * 1_000_000))
}

#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Processor time of this thread, ns; 0 where the system does not report it.
#[allow(clippy::disallowed_methods)]
fn on_processor() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Row of the table: mean time of a step, and the time of each step timed on its own. Both are the best of all runs,
/// because other programs use the machine too.
struct SpeedRow {
    name: &'static str,
    mean_ns: f64,
    took_ns: Vec<u32>,
}

struct SpeedTable {
    rows: Vec<SpeedRow>,
    run: usize,
    at: usize,
}

impl SpeedTable {
    /// Runs the steps: the first half for the mean, each of the second half timed on its own.
    fn row(&mut self, name: &'static str, count: usize, mut step: impl FnMut(usize)) {
        let half = count / 2;
        let (clock, processor) = (now(), on_processor());
        (0..half).for_each(&mut step);
        let wall = clock.elapsed().as_nanos() as u64;
        // Time on the processor rather than elapsed time, because other programs run as well.
        let spent =
            on_processor().checked_sub(processor).filter(|spent| *spent > 0).map_or(wall, |spent| spent.min(wall));
        let mean_ns = spent as f64 / half as f64;
        if self.run == 0 {
            self.rows.push(SpeedRow { name, mean_ns, took_ns: vec![u32::MAX; count - half] });
        }
        let row = &mut self.rows[self.at];
        // The best of all runs is the one least disturbed.
        row.mean_ns = row.mean_ns.min(mean_ns);
        for i in half..count {
            let clock = now();
            step(i);
            let took = clock.elapsed().as_nanos() as u32;
            row.took_ns[i - half] = row.took_ns[i - half].min(took);
        }
        self.at += 1;
    }
    fn print(mut self, title: &str) {
        println!("\n{title}\nstep                   | mean ns | slowest three, us          | over 1 ms");
        for SpeedRow { name, mean_ns, took_ns } in &mut self.rows {
            took_ns.sort_unstable();
            let us = |from_last: usize| f64::from(took_ns[took_ns.len() - from_last]) / 1e3;
            let over = took_ns.iter().filter(|ns| **ns > 1_000_000).count();
            println!("{name:22} | {mean_ns:7.0} | {:8.1} {:8.1} {:8.1} | {over:4}", us(1), us(2), us(3));
        }
    }
}

fn measure(title: &str, destinations: u64, expires_ms: impl Fn(usize, &mut Rng) -> u64) {
    let mut table = SpeedTable { rows: Vec::new(), run: 0, at: 0 };
    for run in 0..RUNS {
        (table.run, table.at) = (run, 0);
        one_run(&mut table, destinations, &expires_ms);
    }
    table.print(title);
}

fn one_run(table: &mut SpeedTable, destinations: u64, expires_ms: impl Fn(usize, &mut Rng) -> u64) {
    let mut rng = Rng::new(11);
    let mut random_new = |i: usize| {
        let id = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
        let bundle = Arc::new(parts::bundle(id, 1 + rng.below(destinations)));
        new(bundle, expires_ms(i, &mut rng))
    };
    let mut news: Vec<New> = (0..MILLION).map(&mut random_new).collect();
    let ids: Vec<u128> = news.iter().map(|new| new.bundle.id).collect();
    let order: Vec<usize> = (0..MILLION).map(|_| rng.below(MILLION as u64) as usize).collect();
    let sought: Vec<u128> = order.iter().map(|i| ids[*i]).collect();
    let mut handles: Vec<Handle> = Vec::with_capacity(MILLION);
    let mut book = Book::new(1);
    // `pop` takes from the end, so the reversed vector is kept in the order of `ids`.
    news.reverse();
    table.row("keep, growing", MILLION, |_| handles.extend(news.pop().map(|new| book.keep(new))));
    drop(news);
    let drawn: Vec<Handle> = order.iter().map(|i| handles[*i]).collect();
    table.row("find, held", MILLION, |i| assert!(book.find(sought[i]).is_some()));
    table.row("find, not held", MILLION, |i| assert!(book.find(sought[i] ^ 1 << 90).is_none()));
    table.row("get", MILLION, |i| assert!(book.get(drawn[i]).is_some()));
    table.row("draw", MILLION, |_| assert!(book.draw(&mut rng).is_some()));
    let cursor = book.open_cursor();
    table.row("advance a cursor", MILLION, |_| assert!(book.advance(cursor).is_some()));
    let mut taken: Vec<New> = Vec::with_capacity(MILLION);
    table.row("remove at random", MILLION, |i| {
        let take = |held: farlink_book::Held| New { expires: held.expires, ..new(held.bundle, 0) };
        taken.extend(book.remove(drawn[i]).map(take));
    });
    let count = taken.len();
    table.row("keep again", count, |_| taken.pop().into_iter().for_each(|new| _ = book.keep(new)));
    table.row("pop and remove", MILLION, |_| {
        if let Some(handle) = book.pop_expired(Instant::MAX) {
            book.remove(handle);
        }
    });
    assert!(book.is_empty());
}

fn main() {
    measure("a million, 1000 destinations, one lifetime, 1 ms apart", 1000, |i, _| DAY_MS + i as u64);
    measure("a million, 5 destinations, all ends equal", 5, |_, _| DAY_MS);
    measure("a million, 1000 destinations, ends at random in a week", 1000, |_, rng| 1 + rng.below(7 * DAY_MS));
    measure("a million, a destination each, ends at random in a week", u64::MAX, |_, rng| 1 + rng.below(7 * DAY_MS));
}
