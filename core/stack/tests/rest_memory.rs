//! Memory that a node releases after a busy period. One test: the allocator counts for the whole process.

mod line;

use farlink_base::{DataVolume, Duration, LinkId};
use farlink_stack::Input;
use line::{Layer, Line, content};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const BUNDLES: usize = 5000;
/// Twice the bytes of a rested receiver: its store's index, its remembered identities, and tables of fixed size.
const RESTED_BYTES: i64 = 256 << 10;

#[test]
fn rested_node_holds_nothing_of_burst() {
    let mut line = Line::metered(Some(|| MEMORY.current_usage()), Layer::Ltp, 2, |_, config| {
        config.node.limits.remembered = 100;
        config.node.store.capacity = DataVolume(64 << 20);
    });
    line.register(1);
    line.run(Duration::from_secs(2));
    line.tell(0, Input::LinkDown { link: LinkId(0) });
    (0..BUNDLES).for_each(|n| line.send(content(n as u64, 100)));
    line.run(Duration::from_secs(5));
    line.tell(0, Input::LinkUp { link: LinkId(0) });
    assert!(line.run_until(Duration::from_secs(60), |line| line.delivered.len() == BUNDLES));
    // Deletions are written in batches, files released later, and ended sessions of LTP remembered for minutes.
    line.run(Duration::from_secs(600));
    for node in [0, 1] {
        let busy = line.held(node);
        line.rest(node);
        let rested = line.held(node);
        assert!(busy > 2 * RESTED_BYTES && rested < RESTED_BYTES, "node {node}: {busy} B before, {rested} B after");
    }
}
