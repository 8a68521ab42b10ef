//! Tests of the retention probe on frames made by hand.

use super::*;
use crate::probes::packet::tests::{frame, segment};
use farlink_base::{Accel, CreationTimestamp, EndpointId, Payload};
use farlink_bundle::Bundle;
use farlink_cla::oneway::Framing;

/// Encodes a bundle with this sequence number.
fn bundle(sequence: u64, payload: u64) -> Vec<u8> {
    let creation = CreationTimestamp { sequence, ..CreationTimestamp::default() };
    let made = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(3, 1), creation);
    let wire = made.payload(Payload::fill(7, payload)).build().encode(&Accel::default()).into_payload();
    let mut bytes = vec![0; wire.len() as usize];
    wire.copy_to(0, &mut bytes);
    bytes
}
/// Puts the STCP frame around a bundle.
fn stcp(bundle: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    Framing::Stcp.put_head(&mut framed, bundle.len() as u64);
    [framed.as_slice(), bundle].concat()
}

/// Setup of a relay at the far end of link 0 and the near end of link 1.
fn setup(layer: WatchedLayer) -> RetentionSetup {
    let relays = vec![WatchedRelay { name: "relay".into(), links: vec![(0, true), (1, false)] }];
    RetentionSetup { layers: [0, 1].map(|link| (link, (layer, 4556))).into(), relays, zero_work: Some(9) }
}

/// Probe with its watchers.
struct ProbeBench {
    probe: RetentionProbe,
    watchers: BTreeMap<(usize, bool), Watcher>,
}
impl ProbeBench {
    fn new(layer: WatchedLayer) -> ProbeBench {
        let (probe, watchers) = RetentionProbe::start(setup(layer)).unwrap();
        ProbeBench { probe, watchers }
    }
    fn arrives(&self, at_ns: u64, frame: &[u8]) {
        self.watchers[&(0, true)].see(FramePoint::Leaving, at_ns - 1, frame);
        self.watchers[&(0, true)].see(FramePoint::HandedOver, at_ns, frame);
    }
    fn leaves(&self, at_ns: u64, frame: &[u8]) {
        self.watchers[&(1, true)].see(FramePoint::Leaving, at_ns, frame);
        self.watchers[&(1, true)].see(FramePoint::HandedOver, at_ns + 1, frame);
    }
    fn finish(self) -> RelayRetention {
        drop(self.watchers);
        let mut report = self.probe.finish().unwrap();
        assert_eq!((report.missed, report.relays.len()), (0, 1));
        report.relays.remove(0)
    }
}

#[test]
fn retention_is_from_last_byte_to_first() {
    let bench = ProbeBench::new(WatchedLayer::Stcp);
    let (first, second) = (stcp(&bundle(1, 2000)), stcp(&bundle(2, 10)));
    let syn = segment([40_000, 4556], 99, 2, b"");
    bench.arrives(100, &syn);
    bench.leaves(101, &syn);
    // The first bundle arrives in pieces, reordered and repeated; the second one waits for the last piece of it.
    bench.arrives(200, &segment([40_000, 4556], 100, 0, &first[..1000]));
    bench.arrives(300, &segment([40_000, 4556], 100 + first.len() as u32, 0, &second));
    bench.arrives(400, &segment([40_000, 4556], 1100, 0, &first[1000..]));
    bench.arrives(500, &segment([40_000, 4556], 1100, 0, &first[1000..]));
    // Relays may reorder: bundles must be matched by identity, not by order.
    bench.leaves(600, &segment([40_000, 4556], 100, 0, &second));
    bench.leaves(700, &segment([40_000, 4556], 100 + second.len() as u32, 0, &first[..50]));
    bench.leaves(800, &segment([40_000, 4556], 150 + second.len() as u32, 1, &first[50..]));
    let found = bench.finish();
    let times = |index: usize| {
        let bundle: &BundleRetention = &found.bundles[index];
        (bundle.bundle.creation.sequence, bundle.first_ns(), bundle.last_ns())
    };
    assert_eq!(
        (found.bundles.len(), found.lost, found.cut, found.only_arrived_ns.len(), found.only_left),
        (2, 0, 0, 0, 0)
    );
    let mut all = [times(0), times(1)];
    all.sort_unstable();
    assert_eq!(all, [(1, 300, 400), (2, 200, 200)]);
    assert_eq!(found.sorted_first_ns(50), [150, 250]);
    assert_eq!(found.not_available(), None);
}

#[test]
fn datagrams_and_own_bundles_are_told_apart() {
    let bench = ProbeBench::new(WatchedLayer::Udpcl);
    let udp = |number| frame(17, [4556, 4556], &[0; 4], &bundle(number, 100));
    for number in 0..10 {
        bench.arrives(100 * number + 10, &udp(number));
    }
    for number in 2..12 {
        bench.leaves(100 * number + 30, &udp(number));
    }
    // A bundle that the other node sends on the same link is not part of the relay's traffic.
    bench.watchers[&(0, true)].see(FramePoint::Leaving, 5, &udp(50));
    // Not read: a datagram at another port, and a frame too short for any header.
    bench.arrives(7, &frame(17, [53, 53], &[0; 4], b"a question"));
    bench.arrives(8, &[0; 30]);
    let found = bench.finish();
    assert_eq!((found.bundles.len(), &found.only_arrived_ns[..], found.only_left), (8, &[10, 110][..], 2));
    assert!(found.bundles.iter().all(|bundle| bundle.first_ns() == 20 && bundle.last_ns() == 20));
}

#[test]
fn ended_connections_make_room() {
    let bench = ProbeBench::new(WatchedLayer::Stcp);
    for number in 0..5000u16 {
        let bundle = stcp(&bundle(number.into(), 5));
        for (sees, at_ns) in [(ProbeBench::arrives as fn(&ProbeBench, u64, &[u8]), 100), (ProbeBench::leaves, 200)] {
            sees(&bench, at_ns, &segment([10_000 + number, 4556], 9, 2, b""));
            sees(&bench, at_ns, &segment([10_000 + number, 4556], 10, 1, &bundle));
        }
    }
    assert_eq!(bench.finish().bundles.len(), 5000);
}

#[test]
fn connections_from_before_stay_unread() {
    let bench = ProbeBench::new(WatchedLayer::Stcp);
    bench.arrives(100, &segment([40_000, 4556], 100, 0, &stcp(&bundle(1, 5))));
    drop(bench.watchers);
    let report = bench.probe.finish().unwrap();
    assert_eq!(report.unread, stcp(&bundle(1, 5)).len() as u64);
    assert_eq!(report.relays[0].unread, report.unread);
    assert_eq!(report.relays[0].not_available(), Some("no bundle was seen to arrive and leave"));
}

#[test]
fn nodes_with_several_links_are_relays() {
    let node = |name: &str, number| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{number}.0\"\n");
    let link = |name: &str, a: &str, b: &str, layer: &str| {
        format!("[[link]]\nname = \"{name}\"\nbetween = [\"{a}\", \"{b}\"]\nlayer = \"{layer}\"\n")
    };
    let text = [
        "name = \"s\"\nduration = \"9 s\"\n".into(),
        node("a", 1),
        node("b", 2),
        node("c", 3),
        link("l", "a", "b", "ltp"),
        link("m", "c", "b", "stcp"),
    ]
    .concat();
    let setup = RetentionSetup::of(&Scenario::parse(&text).unwrap());
    assert_eq!(setup.relays.len(), 1);
    assert_eq!((&setup.relays[0].name[..], &setup.relays[0].links[..]), ("b", &[(0, true), (1, true)][..]));
    assert_eq!(
        setup.layers.values().map(|(layer, _)| *layer).collect::<Vec<_>>(),
        [WatchedLayer::Ltp, WatchedLayer::Stcp]
    );
    for kind in farlink_cla::registry::LAYERS {
        assert!(WatchedLayer::named(kind.name).is_some(), "{}", kind.name);
    }
}

#[test]
fn returning_own_bundle_is_no_retention() {
    let bench = ProbeBench::new(WatchedLayer::Stcp);
    let [own, other] = [1, 2].map(|number| stcp(&bundle(number, 10)));
    let syn = segment([40_000, 4556], 99, 2, b"");
    bench.arrives(100, &syn);
    bench.leaves(101, &syn);
    bench.leaves(200, &segment([40_000, 4556], 100, 0, &own));
    bench.arrives(5_000_000, &segment([40_000, 4556], 100, 0, &own));
    bench.arrives(6_000_000, &segment([40_000, 4556], 100 + own.len() as u32, 0, &other));
    bench.leaves(6_000_300, &segment([40_000, 4556], 100 + own.len() as u32, 0, &other));
    let relay = bench.finish();
    let times: Vec<i64> = relay.bundles.iter().map(BundleRetention::first_ns).collect();
    assert_eq!((times, relay.only_left, relay.only_arrived_ns.len()), (vec![300], 1, 0));
}
