//! A bundle of many times their memory crosses nodes, and one of them is killed on the way.
//! One test: the allocator counts for the whole process.

mod line;

use farlink_base::{Duration, Event};
use line::{Layer, Line, content};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// 64 MiB over a node with 4 MiB for arrivals, which is killed while the bundle leaves it.
fn relayed(layer: Layer) {
    let mut line = Line::metered(Some(|| MEMORY.current_usage()), layer, 3, |_, _| {});
    line.register(2);
    line.run(seconds(2));
    let payload = content(1, 64 * MIB);
    line.send(payload.clone());
    let half = |line: &Line| line.heard[2] > 32 * MIB as u64;
    assert!(line.run_until(seconds(100), half), "{} bytes", line.heard[2]);
    assert!(line.delivered.is_empty() && line.accepted == 1);
    assert!(line.most_held(1) < 8 * MIB as u64, "the relay held {} bytes", line.most_held(1));
    assert!(line.most_held(2) < 8 * MIB as u64, "the receiver held {} bytes", line.most_held(2));
    line.kill(1);
    line.run(seconds(5));
    line.start(1);
    assert!(line.run_until(seconds(100), |line| !line.delivered.is_empty()));
    assert!(line.delivered == [payload], "every byte arrives as it was sent");
    assert!(line.most_held(1) < 8 * MIB as u64, "the relay held {} bytes", line.most_held(1));
    assert!(line.events.iter().any(|(node, e)| *node == 1 && matches!(e, Event::Recovered { .. })));
    // A session of the killed node is given up in the end, and its bytes on disk with it.
    line.run(seconds(3 * 3600));
    line.assert_empty();
}
/// 64 MiB between applications, spooled at one end and read in parts at the other; the sender is killed half-way.
fn sent_and_delivered(layer: Layer) {
    let mut line = Line::metered(Some(|| MEMORY.current_usage()), layer, 2, |_, _| {});
    line.register(1);
    line.run(seconds(2));
    let payload = content(2, 64 * MIB + 12_345);
    line.spool(&payload, 200_000, 2 * MIB as u64);
    assert!(line.run_until(seconds(100), |line| line.heard[1] > 32 * MIB as u64), "{} bytes", line.heard[1]);
    assert_eq!(line.accepted, 1);
    assert!(line.most_held(0) < 8 * MIB as u64, "the sender held {} bytes", line.most_held(0));
    line.kill(0);
    line.run(seconds(5));
    line.start(0);
    assert!(line.run_until(seconds(100), |line| !line.delivered.is_empty()));
    assert!(line.delivered == [payload], "every byte arrives as it was sent");
    for node in 0..2 {
        assert!(line.most_held(node) < 8 * MIB as u64, "node {node} held {} bytes", line.most_held(node));
    }
    line.run(seconds(3 * 3600));
    line.assert_empty();
}

/// A request too long for the store is refused once, and leaves nothing there.
fn refused(layer: Layer) {
    let mut line = Line::metered(Some(|| MEMORY.current_usage()), layer, 2, |_, config| {
        config.node.store.capacity = farlink_base::DataVolume(8 << 20);
    });
    line.run(seconds(2));
    line.spool(&content(3, 20 * MIB), 200_000, 2 * MIB as u64);
    line.run(seconds(10));
    assert_eq!((line.accepted, line.refused.len()), (0, 1), "{:?}", line.refused);
    line.assert_empty();
}

#[test]
fn bundle_of_64_mib_crosses_4_mib_node() {
    for layer in [Layer::TcpclV4, Layer::Ltp] {
        relayed(layer);
        sent_and_delivered(layer);
        refused(layer);
    }
}
