//! Whole nodes that speak versions 7 and 6 of the bundle protocol: a bundle leaves in the version it came in, over
//! every layer, in pieces, after a restart; and reports on it are of its version too.

#![allow(clippy::disallowed_types, reason = "the test and its codecs, all `Send`, look at the same bundles")]

use crate::line::{Layer, Line, content};
use crate::reads::Reads;
use farlink_base::{
    BundleMeta, Bytes, BytesMut, CreationTimestamp, DtnTime, Duration, EndpointId, Event, Facts, HopState, Malformed,
    Payload, Priority,
};
use farlink_bpa::app::{AppInput, RegistrationId, RequestId, SendRequest};
use farlink_bundle::{Profile, v6};
use farlink_routing::{PlanIndex, contact_plan};
use farlink_stack::{BpV6, BpV7, Codec, Config, Input};
use std::sync::{Arc, Mutex};

const LAYERS: [Layer; 2] = [Layer::TcpclV4, Layer::Ltp];

fn sorted(mut payloads: Vec<Bytes>) -> Vec<Bytes> {
    payloads.sort();
    payloads
}
/// The first node makes bundles of version 6, the others of version 7; all speak both.
fn first_is_old(node: usize, config: &mut Config) {
    config.node.bundle_version = if node == 0 { 6 } else { 7 };
}
fn malformed(line: &Line) -> usize {
    line.events.iter().filter(|(_, event)| matches!(event, Event::Malformed { .. })).count()
}

/// Keeps 5050-5.6-1.
#[test]
fn both_versions_cross_two_hops() {
    for layer in LAYERS {
        let mut line = Line::new(layer, 3, first_is_old);
        line.kill(2);
        line.run(Duration::from_secs(1));
        // The longest goes to disk while it arrives.
        let lengths = [0usize, 3, 40_000, 3_000_000];
        let sent: Vec<Bytes> = (0..8).map(|n| content(n, lengths[n as usize / 2] + n as usize)).collect();
        sent.iter().enumerate().for_each(|(n, payload)| line.send_from(n % 2, payload.clone()));
        line.run(Duration::from_secs(9));
        assert_eq!((line.accepted, line.node(1).status(line.now).bundles), (8, 8), "{layer:?}: they wait half-way");
        line.kill(1);
        line.start(1);
        line.start(2);
        line.register(2);
        line.run(Duration::from_secs(60));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?}: {} delivered", line.delivered.len());
        line.assert_empty();
        let recovered = line.events.iter().filter(|(_, event)| matches!(event, Event::Recovered { .. })).count();
        // All eight waited at the second node when it was killed.
        assert_eq!((recovered, malformed(&line)), (8, 0), "{layer:?}: read back from the store");
    }
}

/// Bundles as they arrived, byte for byte.
type WireV6 = Arc<Mutex<Vec<Bytes>>>;

/// Codec that records the bytes a node reads, and may change them.
fn heard<C: Codec + 'static>(codec: C, wire: &WireV6, change: fn(Bytes) -> Bytes) -> Box<dyn Codec> {
    let wire = wire.clone();
    let read = move |codec: &C, rope: &Payload| -> Result<(BundleMeta, HopState), Malformed> {
        let Some(bytes) = rope.to_bytes() else { return codec.read(rope) };
        wire.lock().expect("nobody panicked").push(bytes.clone());
        codec.read(&Payload::from(change(bytes)))
    };
    Box::new(Reads(codec, read))
}
/// Both versions; the first node makes bundles of version 6.
fn both(node: usize, config: &Config, wires: [&WireV6; 2], change: fn(Bytes) -> Bytes) -> Vec<Box<dyn Codec>> {
    let v7 = BpV7 { profile: config.node.profile, crc: config.node.agent.crc, accel: config.accel, custody: None };
    let v6 = BpV6 { profile: Profile::Strict, numbers: true };
    let mut codecs = vec![heard(v6, wires[0], change), heard(v7, wires[1], |bytes| bytes)];
    if node != 0 {
        codecs.reverse();
    }
    codecs
}

/// Keeps 5050-5.4-8, 5050-8-3.
#[test]
fn each_bundle_leaves_as_it_came() {
    for layer in LAYERS {
        let wires: [[WireV6; 2]; 4] = Default::default();
        let ears = wires.clone();
        let speak = Box::new(move |node: usize, config: &Config| {
            both(node, config, [&ears[node][0], &ears[node][1]], |bytes| bytes)
        });
        let plain = |_: usize, config: &mut Config| {
            // Without blocks that each hop rewrites, every byte must stay.
            (config.node.agent.previous_node_block, config.node.agent.hop_limit) = (false, 0)
        };
        let mut line = Line::speaking(layer, 4, plain, speak);
        line.register(3);
        line.run(Duration::from_secs(10));
        let sent: Vec<Bytes> = (0..20).map(|n| content(n, 1 + 3000 * n as usize)).collect();
        sent.iter().enumerate().for_each(|(n, payload)| line.send_from(n % 2, payload.clone()));
        line.run(Duration::from_secs(60));
        assert!(sorted(line.delivered.clone()) == sorted(sent), "{layer:?}: {} delivered", line.delivered.len());
        line.assert_empty();
        let of = |node: usize, version: usize| sorted(wires[node][version].lock().unwrap().clone());
        assert_eq!([of(1, 0).len(), of(2, 1).len()], [10, 10], "{layer:?}: ten of each version");
        assert!(of(1, 0) == of(2, 0) && of(2, 0) == of(3, 0), "{layer:?}: not a byte of version 6 changed");
        assert!(of(2, 1) == of(3, 1) && malformed(&line) == 0, "{layer:?}: nor of version 7");
    }
}

/// Adds a block of unknown type after the payload.
fn follow(bytes: Bytes) -> Bytes {
    let begun = v6::begin(&Payload::from(bytes.clone()), Profile::Strict).unwrap().unwrap();
    let mut bytes = bytes.to_vec();
    // The payload is of one to three bytes: its block's flags are two bytes before it.
    bytes[begun.payload_at as usize - 2] = 0;
    // No node here knows type 99; flag 8 marks the last block, which has 5 bytes.
    bytes.extend([99, 0x08, 5]);
    bytes.extend(b"after");
    Bytes::from(bytes)
}

#[test]
fn trailing_blocks_survive_restart() {
    for layer in LAYERS {
        let wires: [WireV6; 3] = Default::default();
        let ears = wires.clone();
        let speak = Box::new(move |node: usize, config: &Config| {
            let change = if node == 1 { follow } else { |bytes| bytes };
            both(node, config, [&ears[node], &WireV6::default()], change)
        });
        let mut line = Line::speaking(layer, 3, |_, _| {}, speak);
        line.kill(2);
        line.run(Duration::from_secs(1));
        line.send(content(5, 3));
        line.run(Duration::from_secs(5));
        line.kill(1);
        line.start(1);
        line.start(2);
        line.register(2);
        line.run(Duration::from_secs(30));
        assert_eq!(line.delivered, [content(5, 3)], "{layer:?}");
        line.assert_empty();
        let last = wires[2].lock().unwrap()[0].clone();
        let bundle = v6::decode(&Payload::from(last), Profile::Strict).unwrap();
        let [after] = &bundle.after[..] else { panic!("{:?}", bundle.after) };
        let marked = v6::block_flags::LAST | v6::block_flags::UNPROCESSED;
        assert_eq!((after.kind, after.flags, &after.data[..]), (99, marked, &b"after"[..]), "{layer:?}");
        let previous = v6::Meaning::PreviousHop(EndpointId::ipn(2, 0));
        assert!(bundle.before.iter().any(|block| block.meaning == previous), "said after a restart too");
    }
}

/// Contacts of the first link, each with room for about half a megabyte.
const PLAN: &str = "contact 1 2 +5..+9 rate 1 Mbit/s\ncontact 2 1 +5..+9 rate 1 Mbit/s\n\
    contact 1 2 +20..+24 rate 1 Mbit/s\ncontact 2 1 +20..+24 rate 1 Mbit/s\n\
    contact 1 2 +40..+60 rate 1 Mbit/s\ncontact 2 1 +40..+60 rate 1 Mbit/s\n\
    contact 2 3 +0..+100 rate 10 Mbit/s\ncontact 3 2 +0..+100 rate 10 Mbit/s";

/// Keeps 5050-5.7-1, 5050-5.8-2.
#[test]
fn v6_fragments_reassemble_across_contacts() {
    // The longer one is on disk: its pieces are rendered without their bytes in memory.
    for (layer, len) in [(Layer::Ltp, 900_000), (Layer::TcpclV4, 900_000), (Layer::Ltp, 1_500_000)] {
        let wire = WireV6::default();
        let ear = wire.clone();
        let tune = |_: usize, config: &mut Config| {
            config.plan = Some(PlanIndex::new(contact_plan::parse(PLAN).expect("a plan").plan).into());
        };
        let speak = Box::new(move |node: usize, config: &Config| {
            let other = WireV6::default();
            both(node, config, [if node == 2 { &ear } else { &other }, &other], |bytes| bytes)
        });
        let mut line = Line::speaking(layer, 3, tune, speak);
        line.register(2);
        line.run(Duration::from_secs(1));
        line.send(content(7, len));
        line.run(Duration::from_secs(99));
        assert!(line.delivered == [content(7, len)], "{layer:?} {len}: {} delivered", line.delivered.len());
        line.assert_empty();
        let pieces = line.events.iter().filter(|(_, event)| matches!(event, Event::Fragmented { .. })).count();
        assert!(pieces >= 2 && malformed(&line) == 0, "{layer:?} {len}: {pieces} pieces");
        let came = wire.lock().unwrap().clone();
        let piece = |bytes: &Bytes| v6::decode(&Payload::from(bytes.clone()), Profile::Strict).unwrap();
        assert!(came.iter().all(|bytes| piece(bytes).primary.fragment.is_some_and(|place| place.total == len as u64)));
    }
}

/// Keeps 5050-5.1-1, 5050-5.4-10, 5050-6.2-3.
#[test]
fn report_matches_bundle_version() {
    for layer in LAYERS {
        let mut line = Line::new(layer, 3, |node, config| {
            first_is_old(node, config);
            config.node.agent.status_reports = true;
            if node > 0 {
                config.routes.push(("ipn:1.*".into(), EndpointId::ipn(node as u64, 0)));
            }
        });
        line.register(2);
        let endpoint = EndpointId::ipn(1, 9);
        let register = AppInput::Register { registration: RegistrationId(9), endpoint: endpoint.clone(), window: 9 };
        line.tell(0, Input::App(register));
        line.run(Duration::from_secs(5));
        let bundle = SendRequest {
            source: EndpointId::ipn(1, 1),
            destination: EndpointId::ipn(3, 1),
            report_to: endpoint,
            facts: Facts(Facts::REPORT_DELIVERY | Facts::REPORT_FORWARDING),
            lifetime_ms: 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::from(&b"report"[..]),
        };
        line.tell(0, Input::App(AppInput::Send { request: RequestId(0), bundle }));
        line.run(Duration::from_secs(30));
        let (payload, reports): (Vec<Bytes>, Vec<Bytes>) = line.delivered.iter().cloned().partition(|p| p == "report");
        assert_eq!((payload.len(), reports.len()), (1, 3), "{layer:?}");
        let mut said = Vec::new();
        for report in &reports {
            let Ok(v6::ParsedRecord::Report(report)) = v6::record(report) else { panic!("{report:x?}") };
            assert_eq!(report.subject.source, EndpointId::ipn(1, 1));
            let now =
                |item: &(_, farlink_bundle::StatusItem)| item.1.time.is_some_and(|at| at > DtnTime(800_000_000_000));
            said.extend(report.items().iter().filter(|item| now(item)).map(|(name, _)| *name));
        }
        said.sort_unstable();
        // Two hops forward the bundle, one node delivers it.
        assert_eq!(said, ["delivered", "forwarded", "forwarded"], "{layer:?}");
        line.assert_empty();
    }
}

#[test]
fn v6_hellos_share_copies() {
    // Hellos of policies are in the version that the node makes.
    for router in ["epidemic", "spray-and-wait"] {
        let wire = WireV6::default();
        let ear = wire.clone();
        let speak = Box::new(move |node: usize, config: &Config| {
            let other = WireV6::default();
            both(0, config, [if node == 2 { &ear } else { &other }, &other], |bytes| bytes)
        });
        let tune = move |_: usize, config: &mut Config| {
            config.router = router.into();
            config.routes.clear();
        };
        let mut line = Line::speaking(Layer::Ltp, 3, tune, speak);
        line.register(2);
        line.run(Duration::from_secs(5));
        line.send(content(1, 100));
        line.run(Duration::from_secs(60));
        assert!(line.delivered.contains(&content(1, 100)) && malformed(&line) == 0, "{router}");
        let came = wire.lock().unwrap().clone();
        let greets = |bytes: &Bytes| {
            let (bundle, _) = v6::read(&Payload::from(bytes.clone()), Profile::Strict).unwrap();
            matches!(v6::record(&bundle.payload.to_bytes().unwrap()), Ok(v6::ParsedRecord::Signal(_)))
        };
        assert!(came.iter().any(greets), "{router}: {} bundles came", came.len());
    }
}

/// A bundle with the source and timestamp of one that the second node is about to make.
fn spoofed(_: Bytes) -> Bytes {
    let draft = v6::BundleDraft {
        source: EndpointId::ipn(2, 1),
        destination: EndpointId::ipn(3, 1),
        lifetime_ms: 3_600_000,
        ..v6::BundleDraft::default()
    };
    // 20.005 s after the start, when the second node makes its own bundles below.
    let creation = CreationTimestamp { time: DtnTime(800_000_020_005), sequence: 0 };
    let meta = v6::make(&draft, creation, Payload::from(&b"spoofed"[..])).unwrap();
    v6::render(&meta, &HopState::default(), None, &mut BytesMut::new()).into_payload().to_bytes().unwrap()
}

/// Keeps 5050-4.5.1-1.
#[test]
fn forged_sequence_number_is_skipped() {
    let speak = Box::new(move |node: usize, config: &Config| {
        let other = WireV6::default();
        both(0, config, [&other, &other], if node == 1 { spoofed } else { |bytes| bytes })
    });
    let mut line = Line::speaking(Layer::Ltp, 3, |_, _| {}, speak);
    line.kill(2);
    line.run(Duration::from_secs(1));
    line.send(content(1, 10));
    // With the second before, 20.005 s: the forged timestamp.
    line.run(Duration::from_millis(19_005));
    // All are made at one moment. If no sequence number were skipped, the first would have the identity of the forged
    // bundle.
    let own: Vec<Bytes> = (2..5).map(|n| content(n, 10)).collect();
    own.iter().for_each(|payload| line.send_from(1, payload.clone()));
    assert_eq!(line.node(1).status(line.now).bundles, 4);
    line.start(2);
    line.register(2);
    line.run(Duration::from_secs(60));
    let sent = [&own[..], &[Bytes::from_static(b"spoofed")]].concat();
    assert_eq!(sorted(line.delivered.clone()), sorted(sent));
    line.assert_empty();
}

#[test]
fn routing_loop_slows_v6_bundles() {
    // Each of two nodes takes the other for the way to a third. Version 6 has no hop count, so only backoff slows
    // the loop.
    for layer in LAYERS {
        for (numbers, clock) in [(true, true), (true, false), (false, true), (false, false)] {
            let speak = Box::new(move |_: usize, config: &Config| -> Vec<Box<dyn Codec>> {
                let v7 = BpV7 {
                    profile: config.node.profile,
                    crc: config.node.agent.crc,
                    accel: config.accel,
                    custody: None,
                };
                vec![Box::new(BpV6 { profile: Profile::Strict, numbers }), Box::new(v7)]
            });
            let mirrors = |node: usize, config: &mut Config| {
                config.routes = vec![("ipn:9.*".into(), EndpointId::ipn(2 - node as u64, 0))];
            };
            let mut line = Line::speaking(layer, 2, mirrors, speak);
            if !clock {
                (0..2).for_each(|node| line.tell(node, Input::Clock(farlink_base::Clock::UNTRUSTED)));
            }
            line.run(Duration::from_secs(2));
            line.left = Some(Vec::new());
            let payload = content(6, 2_000);
            let bundle = SendRequest {
                source: EndpointId::ipn(1, 1),
                destination: EndpointId::ipn(9, 1),
                report_to: EndpointId::Null,
                facts: Facts::default(),
                lifetime_ms: 2 * 3_600_000,
                priority: Priority::Normal,
                hop_limit: 30,
                reliable: true,
                payload: Payload::from(payload.clone()),
            };
            line.tell(0, Input::App(AppInput::Send { request: RequestId(0), bundle }));
            line.run(Duration::from_secs(3600));
            let what = format!("{layer:?}, numbers {numbers}, clock {clock}");
            let begins = |rope: &Payload| {
                let bytes = rope.to_bytes().unwrap();
                bytes.windows(16).any(|part| part == &payload[..16])
            };
            let left: Vec<_> = line.left.iter().flatten().filter(|(_, data)| begins(data)).map(|(at, _)| *at).collect();
            assert!((20..60).contains(&left.len()), "{what}: the first node forwarded it {} times", left.len());
            let gaps: Vec<_> = left.windows(2).map(|pair| pair[1].since(pair[0])).collect();
            let grows = |pair: &[Duration]| pair[1] * 5 >= pair[0] * 8 || pair[1] >= Duration::from_secs(90);
            assert!(gaps.windows(2).all(grows), "{what}: {gaps:?}");
            for node in 0..2 {
                let returns =
                    line.events.iter().filter(|e| e.0 == node && matches!(e.1, Event::Returned { .. })).count();
                assert!(returns >= 19, "{what}: node {node} tells of {returns} returns");
            }
            line.run(Duration::from_secs(3700));
            line.assert_empty();
        }
    }
}
