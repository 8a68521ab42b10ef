//! Marginal utility between real stacks, in virtual time: what arrived makes room for what has not, and the word of
//! it travels in hellos over a real layer.

mod line;

use farlink_base::{DataVolume, Duration};
use farlink_stack::{StoreConfig, StoreKind};
use line::{Layer, Line, content};

const BUNDLES: usize = 60;

/// Three nodes in a row with copies and room for some twenty bundles each: how many arrived, and what was refused.
fn sent_through(control: &'static str) -> (Line, usize) {
    let mut line = Line::new(Layer::TcpclV4, 3, move |_, config| {
        config.router = "epidemic".into();
        config.routes.clear();
        config.control = control.into();
        config.store = StoreConfig { kind: StoreKind::Memory, capacity: DataVolume(250_000) };
    });
    line.register(2);
    line.run(Duration::from_secs(5));
    for n in 0..BUNDLES {
        line.send(content(n as u64, 10_000));
        line.run(Duration::from_secs(3));
    }
    line.run(Duration::from_secs(10));
    let refused = line.refused.len();
    (line, refused)
}

#[test]
fn what_arrived_makes_room_where_without_a_control_the_source_is_full() {
    let (line, refused) = sent_through("marginal-utility");
    assert_eq!((line.delivered.len(), refused), (BUNDLES, 0));
    let held = |node: usize| line.node(node).status(line.now).bundles;
    assert!(held(0) > 0, "the source keeps what only others say arrived, while there is room");
    assert_eq!(held(1), 0, "the relay gave each to its destination itself");
    let (line, refused) = sent_through("none");
    assert!(line.delivered.len() < BUNDLES && refused > 0, "{} arrived, {refused} refused", line.delivered.len());
}
