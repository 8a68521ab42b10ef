//! Marginal utility between real stacks, in virtual time: delivered bundles make room for others, and hellos over a
//! real layer report the deliveries.

use crate::line::{Layer, Line, content};
use farlink_base::{DataVolume, Duration};
use farlink_stack::StoreKind;

const BUNDLES: usize = 60;

/// Three nodes in a row with copies and room for some twenty bundles each.
fn sent_through(hearsay: f64) -> Line {
    let mut line = Line::new(Layer::TcpclV4, 3, move |_, config| {
        config.router = "epidemic".into();
        config.routes.clear();
        config.control = "marginal-utility".into();
        config.control_params = vec![("hearsay".into(), hearsay)];
        config.keep_in(StoreKind::Memory, DataVolume(250_000));
    });
    line.register(2);
    line.run(Duration::from_secs(5));
    for n in 0..BUNDLES {
        line.send(content(n as u64, 10_000));
        line.run(Duration::from_secs(3));
    }
    line.run(Duration::from_secs(10));
    line
}

#[test]
fn delivered_bundles_make_room() {
    let held = |line: &Line| [0, 1].map(|node| line.node(node).status(line.now).bundles);
    let line = sent_through(1.0);
    assert_eq!(line.delivered.len(), BUNDLES, "each once, of three times what a store holds");
    let [source, relay] = held(&line);
    assert!(source > 0, "while there is room");
    assert_eq!(relay, 0, "it gave each to its destination itself");
    let line = sent_through(2.0);
    assert_eq!((line.delivered.len(), held(&line)), (BUNDLES, [0, 0]), "the word of each came back to its source");
}
