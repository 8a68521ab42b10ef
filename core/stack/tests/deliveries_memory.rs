//! Memory for identities of delivered bundles: it stays within its limit on a durable node, agent and store
//! together. One test: the allocator counts for the whole process.

mod line;

use farlink_base::{DataVolume, Duration};
use line::{Layer, Line, content};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory for one remembered identity, as the node's memory budget reckons.
const REMEMBERED_BYTES: i64 = 432;

/// Bytes that the receiver holds after this many more deliveries.
fn held_after(line: &mut Line, bundles: usize) -> i64 {
    for _ in 0..bundles / 100 {
        let before = line.delivered.len();
        for _ in 0..100 {
            line.send(content(7, 100));
        }
        let all = |line: &Line| line.delivered.len() == before + 100;
        assert!(line.run_until(Duration::from_secs(60), all), "{} delivered", line.delivered.len());
    }
    // Deletions are written in batches and files released later, so give both the time.
    line.run(Duration::from_secs(2));
    line.held(1)
}

#[test]
fn deliveries_beyond_limit_use_no_memory() {
    let held_with = |remembered: usize| {
        let mut line = Line::metered(Some(|| MEMORY.current_usage()), Layer::TcpclV4, 2, move |_, config| {
            config.node.limits.remembered = remembered;
            config.node.store.capacity = DataVolume(32 << 20);
        });
        line.register(1);
        line.run(Duration::from_secs(2));
        let full = held_after(&mut line, 5_000);
        let more = held_after(&mut line, 5_000);
        assert!((more - full).abs() < 256 << 10, "with {remembered}: {full} B after 5,000, {more} B after 10,000");
        more
    };
    let (few, many) = (held_with(100), held_with(4_000));
    let each = (many - few) / 3_900;
    assert!((64..=REMEMBERED_BYTES).contains(&each), "{few} B with 100, {many} B with 4,000: {each} B each");
}
