//! Whole nodes with a second version of the bundle protocol, whose wire format shares nothing with BPv7: only its
//! codecs know the encoding.

#![allow(clippy::disallowed_types, reason = "the test and its codec, both `Send`, look at the same bundles")]

use crate::line::{Layer, Line, content};
use crate::reads::Reads;
use crate::stub::{Seen, Stub};
use farlink_base::{Bytes, Duration, Event, Payload};
use farlink_stack::{BpV7, Codec, Config};
use std::sync::{Arc, Mutex};

const LAYERS: [Layer; 2] = [Layer::TcpclV4, Layer::Ltp];

/// Bundles as they arrived, byte for byte.
type StubWire = Arc<Mutex<Vec<Bytes>>>;

/// BPv7 that records the bundles it reads.
fn v7(config: &Config, wire: &StubWire) -> Box<dyn Codec> {
    let codec = BpV7 { profile: config.node.profile, crc: config.node.agent.crc, accel: config.accel, custody: None };
    let wire = wire.clone();
    Box::new(Reads(codec, move |codec: &BpV7, rope: &Payload| {
        wire.lock().expect("nobody panicked").extend(rope.to_bytes());
        codec.read(rope)
    }))
}
fn sorted(mut payloads: Vec<Bytes>) -> Vec<Bytes> {
    payloads.sort();
    payloads
}

#[test]
fn second_version_crosses_two_hops() {
    for layer in LAYERS {
        let seen: [Seen; 3] = Default::default();
        let hops = seen.clone();
        let speak = Box::new(move |node: usize, _: &Config| vec![Box::new(Stub(hops[node].clone())) as Box<dyn Codec>]);
        let mut line = Line::speaking(layer, 3, |_, _| {}, speak);
        line.kill(2);
        line.run(Duration::from_secs(1));
        // The longest goes to disk while it arrives.
        let sent: Vec<Bytes> = [0, 3, 40_000, 3_000_000].map(|len| content(len as u64, len)).into();
        sent.iter().for_each(|payload| line.send(payload.clone()));
        line.run(Duration::from_secs(9));
        assert_eq!((line.accepted, line.node(1).status(line.now).bundles), (4, 4), "{layer:?}: they wait half-way");
        line.kill(1);
        line.start(1);
        line.start(2);
        line.register(2);
        line.run(Duration::from_secs(60));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?}: {} delivered", line.delivered.len());
        line.assert_empty();
        let recovered = line.events.iter().filter(|(_, event)| matches!(event, Event::Recovered { .. })).count();
        assert_eq!(recovered, 4, "{layer:?}: read back from the store");
        let of = |node: usize| seen[node].lock().unwrap().clone();
        assert!(of(1).len() == 4 && of(1).iter().all(|hop| hop.hops == 1 && hop.age_ms < 2000), "{:?}", of(1));
        assert!(of(2).len() == 4, "{layer:?}: {:?}", of(2));
        for hop in of(2) {
            assert!(hop.hops == 2 && (8000..60_000).contains(&hop.age_ms), "{layer:?}: {hop:?}");
            assert_eq!(hop.previous.to_string(), "ipn:2.0", "said after a restart too (RFC 9171 5.4 step 4)");
        }
    }
}

#[test]
fn bilingual_node_preserves_versions() {
    for layer in LAYERS {
        let wires: [StubWire; 4] = Default::default();
        let seen = Seen::default();
        let (heard, hops) = (wires.clone(), seen.clone());
        // The first node speaks BPv7, the second makes bundles of the other version and forwards both.
        let speak = Box::new(move |node: usize, config: &Config| {
            let seen = if node == 3 { hops.clone() } else { Seen::default() };
            let mut codecs = vec![v7(config, &heard[node]), Box::new(Stub(seen)) as Box<dyn Codec>];
            match node {
                0 => drop(codecs.pop()),
                1 => codecs.reverse(),
                _ => {}
            }
            codecs
        });
        let plain = |_: usize, config: &mut Config| {
            (config.node.agent.previous_node_block, config.node.agent.hop_limit) = (false, 0);
        };
        let mut line = Line::speaking(layer, 4, plain, speak);
        line.register(3);
        line.run(Duration::from_secs(10));
        let mut sent = Vec::new();
        for n in 0..20 {
            let payload = content(n, 1 + 3000 * n as usize);
            line.send_from((n % 2) as usize, payload.clone());
            sent.push(payload);
        }
        line.run(Duration::from_secs(60));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?}: {} delivered", line.delivered.len());
        line.assert_empty();
        let of = |node: usize| sorted(wires[node].lock().unwrap().clone());
        assert_eq!((of(1).len(), seen.lock().unwrap().len()), (10, 10), "{layer:?}");
        assert!(of(1) == of(2) && of(2) == of(3), "{layer:?}: not a byte of BPv7 changed on the way");
        assert!(!line.events.iter().any(|(_, event)| matches!(event, Event::Malformed { .. })));
    }
}

#[test]
fn unknown_version_refused_alone() {
    for layer in LAYERS {
        let speak = Box::new(move |node: usize, config: &Config| {
            let mut codecs = vec![v7(config, &StubWire::default())];
            if node == 1 {
                codecs.insert(0, Box::new(Stub::default()));
            }
            codecs
        });
        let mut line = Line::speaking(layer, 3, |_, _| {}, speak);
        line.register(2);
        line.run(Duration::from_secs(10));
        let mut sent = Vec::new();
        for n in 0..12 {
            let payload = content(n, 1 + 3000 * n as usize);
            if n % 4 == 1 {
                line.send_from(1, payload);
            } else {
                line.send(payload.clone());
                sent.push(payload);
            }
        }
        line.run(Duration::from_secs(60));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?}: {} delivered", line.delivered.len());
        let said: Vec<_> = line.events.iter().filter(|(_, event)| matches!(event, Event::Malformed { .. })).collect();
        assert!(said.len() >= 3, "{layer:?}: {said:?}");
        for (node, event) in said {
            let Event::Malformed { link, offset, reason } = event else { continue };
            assert_eq!((*node, link.is_some(), *offset), (2, true, 0), "{layer:?}");
            assert_eq!(*reason, "a BPv7 bundle begins with the byte 9f");
        }
        let held = [0, 1, 2].map(|node| line.node(node).status(line.now).bundles);
        assert_eq!(held, [0, 3, 0], "{layer:?}: what was not taken stays where it was");
    }
}

#[test]
fn stored_unknown_version_is_deleted() {
    let both = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let speaks = both.clone();
    let speak = Box::new(move |_: usize, config: &Config| {
        let stub = Box::new(Stub::default()) as Box<dyn Codec>;
        let all = speaks.load(std::sync::atomic::Ordering::SeqCst).then_some(stub);
        all.into_iter().chain([v7(config, &StubWire::default())]).collect()
    });
    let mut line = Line::speaking(Layer::TcpclV4, 2, |_, _| {}, speak);
    line.kill(1);
    line.run(Duration::from_secs(1));
    line.send(content(1, 500));
    line.run(Duration::from_secs(1));
    both.store(false, std::sync::atomic::Ordering::SeqCst);
    line.kill(0);
    line.start(0);
    line.run(Duration::from_secs(1));
    let said = line.events.iter().filter(|(_, event)| matches!(event, Event::Malformed { link: None, .. })).count();
    assert_eq!((line.accepted, said), (1, 1), "nobody here can read it");
    line.run(Duration::from_secs(10));
    line.assert_empty();
    line.kill(0);
    line.start(0);
    line.run(Duration::from_secs(1));
    let said = line.events.iter().filter(|(_, event)| matches!(event, Event::Malformed { .. })).count();
    assert_eq!(said, 1, "nor is it found again");
}
