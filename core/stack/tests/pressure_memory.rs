//! Arriving bundles under memory pressure: they are copied out of the read buffers, once. One test: the allocator
//! counts for the whole process.

mod line;

use farlink_base::{DataVolume, Duration};
use farlink_bpa::Pressure;
use farlink_stack::Input;
use line::{Layer, Line, content};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const MIB: usize = 1 << 20;

/// Largest number of bytes allocated while a node learns of memory pressure, beyond those before.
fn copied(line: &mut Line, pressure: Pressure) -> usize {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    line.tell(1, Input::Pressure(pressure));
    MEMORY.peak_usage() - before
}

#[test]
fn pressure_copies_arrivals_once() {
    let mut line = Line::new(Layer::TcpclV4, 2, |_, config| config.node.store.spill_from = DataVolume(0));
    line.register(1);
    line.run(Duration::from_secs(2));
    line.send(content(1, 3 * MIB));
    let most = |line: &Line| line.heard[1] > 2 * MIB as u64;
    assert!(line.run_until(Duration::from_secs(10), most) && line.delivered.is_empty());
    for (pressure, copies) in [
        (Pressure::High, true),
        (Pressure::High, false),
        (Pressure::High, false),
        (Pressure::Full, true),
        (Pressure::Full, false),
        (Pressure::High, false),
        (Pressure::None, false),
        (Pressure::High, true),
    ] {
        let bytes = copied(&mut line, pressure);
        assert_eq!(bytes > MIB / 2, copies, "{bytes} B at {pressure:?}");
    }
    line.tell(1, Input::Pressure(Pressure::None));
    assert!(line.run_until(Duration::from_secs(10), |line| !line.delivered.is_empty()));
}
