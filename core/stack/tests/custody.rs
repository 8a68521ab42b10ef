//! Custody on the wire, in both versions of the bundle protocol (RFC 5050 5.10, CCSDS 734.2-B-1, CCSDS 734.6-O-1): over
//! two hops, with losses of whole nodes, and how many signals it takes.

#![allow(clippy::disallowed_types, reason = "the test and its codecs, all `Send`, look at the same bundles")]

use crate::line::{Layer, Line, content};
use crate::reads::Reads;
use farlink_base::{Bytes, Duration, EndpointId, Event, HopState, Payload};
use farlink_bundle::v7::CustodyCodes;
use farlink_bundle::{Profile, v6, v7};
use farlink_stack::{BpV6, BpV7, Codec, Config, CustodyConfig};
use std::sync::{Arc, Mutex};

const LAYERS: [Layer; 2] = [Layer::TcpclV4, Layer::Ltp];

/// All nodes take custody, and the first one requests it.
fn everybody(version: u8) -> impl Fn(usize, &mut Config) {
    move |node, config| {
        let mut custody = CustodyConfig::default();
        // The timeout exceeds the time in which signals return in these tests, so that bundles are repeated only after
        // a loss.
        custody.settings.timeout = Duration::from_secs(20);
        if node == 0 {
            custody.settings.request = vec!["*".into()];
        } else {
            config.routes.push(("ipn:1.*".into(), EndpointId::ipn(node as u64, 0)));
        }
        config.custody = Some(custody);
        config.node.bundle_version = version;
    }
}
fn count(line: &Line, of: usize, which: fn(&Event) -> bool) -> usize {
    line.events.iter().filter(|(node, event)| *node == of && which(event)).count()
}
const TAKEN: fn(&Event) -> bool = |event| matches!(event, Event::CustodyTaken { .. });
const RELEASED: fn(&Event) -> bool = |event| matches!(event, Event::CustodyReleased { .. });
const REPEATED: fn(&Event) -> bool = |event| matches!(event, Event::CustodyRepeated { .. });
const SIGNALLED: fn(&Event) -> bool = |event| matches!(event, Event::CustodySignalled { .. });
const IGNORED: fn(&Event) -> bool = |event| matches!(event, Event::CustodySignalIgnored { .. });

fn sorted(mut payloads: Vec<Bytes>) -> Vec<Bytes> {
    payloads.sort();
    payloads
}

/// Keeps 5050-5.10-2, 5050-5.10.1-2, 5050-5.10.2-1.
#[test]
fn custody_passes_node_by_node() {
    for (layer, version) in LAYERS.into_iter().flat_map(|layer| [(layer, 6), (layer, 7)]) {
        let mut line = Line::new(layer, 3, everybody(version));
        line.register(2);
        line.run(Duration::from_secs(5));
        // The longest goes to disk while it arrives.
        let sent: Vec<Bytes> =
            [3, 40_000, 3_000_000].iter().enumerate().map(|(n, len)| content(n as u64, *len)).collect();
        sent.iter().for_each(|payload| line.send(payload.clone()));
        line.run(Duration::from_secs(60));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?} {version}: {} came", line.delivered.len());
        let counts = |which| [0, 1, 2].map(|node| count(&line, node, which));
        assert_eq!((counts(TAKEN), counts(RELEASED)), ([3, 3, 0], [3, 3, 0]), "{layer:?} {version}");
        assert_eq!((counts(REPEATED), counts(IGNORED)), ([0; 3], [0; 3]), "{layer:?} {version}");
        assert!(counts(SIGNALLED)[0] == 0 && counts(SIGNALLED)[1] > 0 && counts(SIGNALLED)[2] > 0);
        line.assert_empty();
    }
}

#[test]
fn restarted_custodian_resumes_without_duplicates() {
    for (layer, version) in LAYERS.into_iter().flat_map(|layer| [(layer, 6), (layer, 7)]) {
        let mut line = Line::new(layer, 3, everybody(version));
        line.kill(2);
        line.run(Duration::from_secs(1));
        let sent: Vec<Bytes> = (0..10).map(|n| content(n, 500)).collect();
        sent.iter().for_each(|payload| line.send(payload.clone()));
        line.run(Duration::from_secs(10));
        assert_eq!([0, 1].map(|node| count(&line, node, TAKEN)), [10, 10]);
        assert_eq!((count(&line, 0, RELEASED), line.node(0).held()), (10, 0), "{layer:?} {version}: it is the relay's");
        line.kill(1);
        line.start(1);
        line.run(Duration::from_secs(5));
        assert_eq!(line.node(1).held(), 10);
        line.start(2);
        line.register(2);
        line.run(Duration::from_secs(90));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?} {version}: {}", line.delivered.len());
        assert_eq!(count(&line, 1, RELEASED), 10, "{layer:?} {version}: released by signals after the restart");
        line.assert_empty();
    }
}

#[test]
fn lost_bundle_is_resent_by_custodian() {
    // The second node confirms bundles and loses them when it is killed, because its store is in memory.
    for (layer, version) in LAYERS.into_iter().flat_map(|layer| [(layer, 6), (layer, 7)]) {
        let all = everybody(version);
        let mut line = Line::new(layer, 3, move |node, config| {
            all(node, config);
            if node == 1 {
                config.store.kind = farlink_stack::StoreKind::Memory;
            }
        });
        line.kill(2);
        line.run(Duration::from_secs(1));
        let sent: Vec<Bytes> = (0..5).map(|n| content(n, 500)).collect();
        sent.iter().for_each(|payload| line.send(payload.clone()));
        line.run(Duration::from_secs(5));
        assert_eq!((line.node(0).held(), line.node(1).held()), (5, 5), "both have them, the first custody");
        assert_eq!(count(&line, 1, TAKEN), 0, "what it keeps, it keeps in memory only");
        line.kill(1);
        line.start(1);
        line.start(2);
        line.register(2);
        line.run(Duration::from_secs(120));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?} {version}: {}", line.delivered.len());
        assert!(count(&line, 0, REPEATED) >= 5 && count(&line, 0, RELEASED) == 5, "{layer:?} {version}");
        line.assert_empty();
    }
}

/// Bundles as they arrived at a node.
type CustodyWire = Arc<Mutex<Vec<Bytes>>>;
fn heard<C: Codec + 'static>(codec: C, wire: &CustodyWire) -> Box<dyn Codec> {
    let wire = wire.clone();
    Box::new(Reads(codec, move |codec: &C, rope: &Payload| {
        if let Some(bytes) = rope.to_bytes() {
            wire.lock().expect("nobody panicked").push(bytes);
        }
        codec.read(rope)
    }))
}

#[test]
fn few_signals_cover_thousand_bundles() {
    for (version, aggregate) in [(6, true), (7, true), (6, false)] {
        let wires: [CustodyWire; 3] = Default::default();
        let ears = wires.clone();
        let speak = Box::new(move |node: usize, config: &Config| {
            let codes = Some(Box::new(CustodyCodes::default()));
            let v7 = BpV7 { profile: Profile::Strict, crc: config.node.agent.crc, accel: config.accel, custody: codes };
            let v6 = BpV6 { profile: Profile::Strict, numbers: aggregate };
            let mut codecs = vec![heard(v7, &ears[node]), heard(v6, &ears[node])];
            if version == 6 {
                codecs.reverse();
            }
            codecs
        });
        let mut line = Line::speaking(Layer::TcpclV4, 3, everybody(version), speak);
        line.register(2);
        line.run(Duration::from_secs(5));
        (0..1000).for_each(|n| line.send(content(n, 100)));
        line.run(Duration::from_secs(60));
        assert_eq!((line.delivered.len(), count(&line, 0, RELEASED), count(&line, 1, RELEASED)), (1000, 1000, 1000));
        let came = wires[0].lock().unwrap().clone();
        if version == 6 {
            let records = came.iter().map(|bytes| v6::read(&Payload::from(bytes.clone()), Profile::Strict).unwrap().0);
            let records: Vec<_> = records.map(|meta| v6::record(&meta.payload.to_bytes().unwrap()).unwrap()).collect();
            let many = records.iter().filter(|record| matches!(record, v6::ParsedRecord::Aggregate(_))).count();
            let single = records.iter().filter(|record| matches!(record, v6::ParsedRecord::Custody(_))).count();
            // Signals are collected for a while; without numbers each bundle needs its own.
            let expected = if aggregate { (1..20, 0..1) } else { (0..1, 1000..1001) };
            assert!(
                expected.0.contains(&many) && expected.1.contains(&single),
                "{many} about many, {single} about one"
            );
        } else {
            let accel = Default::default();
            let read = |bytes: &Bytes| v7::read(&Payload::from(bytes.clone()), Profile::Strict, &accel).unwrap().0;
            let signal = |bytes: &Bytes| {
                matches!(
                    v7::record(&read(bytes).payload.to_bytes().unwrap()),
                    Ok(v7::ParsedRecord::Other { kind: 13, .. })
                )
            };
            let signals = came.iter().filter(|bytes| signal(bytes)).count();
            assert!((1..20).contains(&signals) && signals == came.len(), "{signals} of {}", came.len());
        }
        line.assert_empty();
    }
}

#[test]
fn custody_skips_relay_without_custody() {
    // A node without custody between two that have it: the signals of the third reach the first.
    for version in [6, 7] {
        let all = everybody(version);
        let mut line = Line::new(Layer::Ltp, 3, move |node, config| {
            all(node, config);
            if node == 1 {
                config.custody = None;
            }
        });
        line.register(2);
        line.run(Duration::from_secs(5));
        line.send(content(1, 500));
        line.run(Duration::from_secs(60));
        assert_eq!([0, 1, 2].map(|node| count(&line, node, TAKEN)), [1, 0, 0]);
        assert_eq!((line.delivered.len(), count(&line, 0, RELEASED), count(&line, 0, REPEATED)), (1, 1, 0));
        line.assert_empty();
    }
}

#[test]
fn unavailable_custody_refused_at_start() {
    let with = |router: &str, durable: bool| {
        let mut config = Config::new(EndpointId::ipn(1, 0));
        config.router = router.into();
        if durable {
            config.store.kind = farlink_stack::StoreKind::Durable;
        }
        let mut custody = CustodyConfig::default();
        custody.settings.request = vec!["*".into()];
        config.custody = Some(custody);
        farlink_stack::Stack::new(config).err().map(|error| error.path)
    };
    assert_eq!(with("static", true), None);
    for router in ["epidemic", "spray-and-wait", "prophet", "maxprop"] {
        assert_eq!(with(router, true).as_deref(), Some("custody"), "{router}: of copies there is no single custodian");
    }
    assert_eq!(with("static", false).as_deref(), Some("custody.request"));
    let _ = HopState::default();
}
