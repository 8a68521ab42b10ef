//! Bundles longer than the memory of the nodes they cross: they go to disk while they arrive and leave
//! from there.

use crate::line::{Layer, Line, SPOOLED, content};
use crate::odd::{Site, old};
use farlink_base::{
    Accel, BundleHandle, BytesMut, CreationTimestamp, DataVolume, Duration, EndpointId, Event, HopState, LinkId,
    NodeId, Payload, Refusal,
};
use farlink_bpa::app::{AdminInput, AppInput, RequestId, SendRequest};
use farlink_bundle::{CrcType, v7};
use farlink_routing::{PlanIndex, contact_plan};
use farlink_stack::{Input, StoreKind};

const MIB: usize = 1 << 20;
const LAYERS: [Layer; 2] = [Layer::TcpclV4, Layer::Ltp];

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn unplaceable_bundle_refused_at_head() {
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |node, config| {
            if node == 1 {
                config.node.store.capacity = DataVolume(16 << 20);
            }
        });
        line.register(1);
        line.run(seconds(2));
        line.send(content(1, 30 * MIB));
        line.send(content(2, 100_000));
        line.run(seconds(5));
        // A third of the bundle at most: the refusal must come from the head, not from full memory.
        assert!(line.heard[1] < 10 * MIB as u64, "{layer:?}: {} bytes sent in vain", line.heard[1]);
        assert!(line.delivered == [content(2, 100_000)], "{layer:?}");
        assert_eq!(line.node(0).status(line.now).bundles, 1, "{layer:?}");
        assert_eq!(line.node(1).status(line.now).bundles, 0, "{layer:?}");
        line.tell(0, Input::LinkDown { link: LinkId(0) });
        // Long enough for the store of the receiver to clean up.
        line.run(seconds(7200));
        assert_eq!(line.node(1).store_usage().bytes, 0, "{layer:?}");
    }
}

#[test]
fn abandoned_payloads_free_room() {
    let mut line = Line::new(Layer::TcpclV4, 2, |_, config| config.node.store.capacity = DataVolume(16 << 20));
    line.register(1);
    line.run(seconds(2));
    for round in 0..6 {
        for part in 0..6 {
            line.spooled += MIB as u64;
            let part = Payload::from(content(10 * round + part, MIB));
            line.tell(0, Input::Spool { request: SPOOLED, source: NodeId::ipn(1), part });
            line.run(seconds(1));
        }
        line.tell(0, Input::Unspool { request: SPOOLED });
        line.spooled = 0;
    }
    line.spool(&content(7, 6 * MIB), MIB, 2 * MIB as u64);
    line.run(seconds(10));
    assert_eq!(line.refused, []);
    assert!(line.delivered == [content(7, 6 * MIB)]);
    line.assert_empty();
}

#[test]
fn refused_spooled_requests_free_room() {
    let mut line = Line::new(Layer::TcpclV4, 2, |_, config| config.node.store.capacity = DataVolume(16 << 20));
    line.run(seconds(2));
    let rounds = 6;
    for round in 0..rounds {
        line.spooled = 6 * MIB as u64;
        for part in 0..6 {
            let part = Payload::from(content(10 * round + part, MIB));
            line.tell(0, Input::Spool { request: SPOOLED, source: NodeId::ipn(1), part });
            line.run(seconds(1));
        }
        // All of the payload is on disk, and the agent refuses the request: no node may send for another.
        let bundle = SendRequest { source: EndpointId::ipn(7, 1), ..line.wanted(0, content(round, 9)) };
        line.tell(0, Input::App(AppInput::Send { request: SPOOLED, bundle }));
    }
    assert_eq!(line.refused, vec![Refusal::Unknown; rounds as usize]);
}

#[test]
fn spooled_request_needs_no_further_input() {
    let mut line = Line::new(Layer::TcpclV4, 2, |_, _| {});
    line.register(1);
    line.run(seconds(2));
    let payload = content(1, 2 * MIB);
    line.spooled = payload.len() as u64;
    line.tell(0, Input::Spool { request: SPOOLED, source: NodeId::ipn(1), part: Payload::from(payload.clone()) });
    line.run(seconds(1));
    assert_eq!((line.spooled, line.accepted), (0, 0), "all of it is on disk");
    let bundle = line.wanted(0, content(1, 0));
    line.tell(0, Input::App(AppInput::Send { request: SPOOLED, bundle }));
    line.run(seconds(2));
    assert!(line.delivered == [payload]);
}

#[test]
fn repeated_long_bundles_free_their_room() {
    // Each copy goes to disk while it arrives, and is known only when its payload can be compared.
    let mut site = Site::tuned(|config| {
        config.keep_in(StoreKind::Durable, DataVolume(16 << 20));
        config.node.store.spill_from = DataVolume(1 << 20);
    });
    let bundle = |sequence| old(sequence).with(|b| (b.ends[0], b.payload) = ((1, 9), vec![1; 3 << 20])).wire();
    for _ in 0..10 {
        assert_eq!(site.fate(&bundle(1)), "waits");
    }
    assert_eq!(site.fate(&bundle(2)), "waits");
    assert_eq!(site.held(), 2);
}

#[test]
fn long_bundles_are_told_apart_by_payload() {
    let mut site = Site::tuned(|config| config.node.store.spill_from = DataVolume(1 << 20));
    let bundle = |byte| {
        let mut payload = vec![1; 3 << 20];
        payload[2 << 20] = byte;
        old(1).with(|b| b.payload = payload).wire()
    };
    let fates = [1, 1, 2].map(|byte| site.fate(&bundle(byte)));
    // The third has another payload under the same name, and no link vouches for it.
    assert_eq!(fates, ["delivered", "nothing", "refused: not acceptable: malformed, or a rule is violated"]);
}

#[test]
fn damaged_long_bundle_is_malformed() {
    let mut site = Site::tuned(|config| config.node.store.spill_from = DataVolume(1 << 20));
    let draft = v7::BundleDraft {
        source: EndpointId::ipn(9, 1),
        destination: EndpointId::ipn(1, 1),
        lifetime_ms: 3_600_000,
        ..v7::BundleDraft::default()
    };
    let (accel, payload) = (Accel::default(), Payload::from(content(1, 3 * MIB)));
    let meta = v7::make(&draft, CreationTimestamp::default(), payload, CrcType::Crc32c, &accel);
    let encoded = v7::render(&meta, &HopState::default(), None, &accel, &mut BytesMut::new());
    let mut bytes = encoded.into_payload().to_bytes().expect("in memory").to_vec();
    bytes[2 * MIB] ^= 1;
    let fate = site.fate(&bytes);
    assert!(fate.starts_with("malformed") && site.delivered.is_empty(), "{fate}");
    bytes[2 * MIB] ^= 1;
    assert_eq!(site.fate(&bytes), "delivered");
}

#[test]
fn bundle_exceeding_memory_refused_early() {
    // The node has no disk for arriving bundles.
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |node, config| {
            if node == 1 {
                (config.node.store.spill_from, config.node.limits.arriving_bytes) = (DataVolume(0), 2 << 20);
            }
        });
        line.register(1);
        line.run(seconds(2));
        line.send(content(1, 30 * MIB));
        line.send(content(2, 100_000));
        line.run(seconds(5));
        // A third of the bundle at most: the refusal must come from the head, not from full memory.
        assert!(line.heard[1] < 10 * MIB as u64, "{layer:?}: {} bytes sent in vain", line.heard[1]);
        assert!(line.delivered == [content(2, 100_000)], "{layer:?}");
        assert_eq!([0, 1].map(|node| line.node(node).status(line.now).bundles), [1, 0], "{layer:?}");
    }
}

#[test]
fn fragments_from_disk_have_valid_crcs() {
    // The second of two contacts takes the rest. Long pieces are read twice, short ones once.
    const PLAN: &str = "contact 1 2 +5..+9 rate 50 Mbit/s\ncontact 2 1 +5..+9 rate 50 Mbit/s\n\
        contact 1 2 +20..+40 rate 50 Mbit/s\ncontact 2 1 +20..+40 rate 50 Mbit/s";
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |_, config| {
            let plan = contact_plan::parse(PLAN).expect("a plan").plan;
            config.plan = Some(PlanIndex::new(plan).into());
        });
        line.register(1);
        let payload = content(1, 36 * MIB);
        line.send(payload.clone());
        line.run(seconds(60));
        assert!(line.delivered == [payload], "{layer:?}: {} delivered", line.delivered.len());
        let piece = |(_, event): &(usize, Event)| match event {
            Event::Fragmented { length, .. } => Some(*length),
            _ => None,
        };
        let pieces: Vec<u64> = line.events.iter().filter_map(piece).collect();
        // 16 MiB is `PIECE_BYTES`: one piece on each side of it.
        assert!(matches!(pieces[..], [first, rest] if first > 17 << 20 && rest < 16 << 20), "{layer:?}: {pieces:?}");
        line.assert_empty();
    }
}

#[test]
fn late_deletion_keeps_session() {
    // TCPCLv4 cannot stop a transfer: the rest is short, so the session finishes it. LTP stops.
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |_, _| {});
        line.register(1);
        line.run(seconds(2));
        line.tell(0, Input::LinkDown { link: LinkId(0) });
        // Once more than 5 of the 18 MiB were sent, the rest is shorter than `RESCUE_MAX` (16 MiB).
        line.send(content(1, 18 * MIB));
        line.run(seconds(2));
        line.tell(0, Input::LinkUp { link: LinkId(0) });
        let sessions = line.connects;
        assert!(line.run_until(seconds(10), |line| line.heard[1] > 5 * MIB as u64), "{layer:?}");
        let bundle = line.node(0).bundles(line.now, BundleHandle(0), 1)[0].handle;
        line.tell(0, Input::Admin(AdminInput::Cancel { bundle }));
        assert_eq!(line.node(0).status(line.now).bundles, 0, "{layer:?}: it is gone here");
        line.send(content(2, 100_000));
        line.run(seconds(100));
        let whole = layer == Layer::TcpclV4;
        assert_eq!(line.delivered.contains(&content(1, 18 * MIB)), whole, "{layer:?}");
        assert!(line.delivered.contains(&content(2, 100_000)), "{layer:?}");
        assert_eq!(line.connects, sessions, "{layer:?}: no session was ended");
        line.assert_empty();
    }
}

#[test]
fn bundle_deleted_while_sending_disappears() {
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |_, _| {});
        line.register(1);
        line.run(seconds(2));
        line.tell(0, Input::LinkDown { link: LinkId(0) });
        line.send(content(1, 30 * MIB));
        line.run(seconds(2));
        line.tell(0, Input::LinkUp { link: LinkId(0) });
        assert!(line.run_until(seconds(10), |line| line.heard[1] > 5 * MIB as u64), "{layer:?}");
        let bundle = line.node(0).bundles(line.now, BundleHandle(0), 1)[0].handle;
        line.tell(0, Input::Admin(AdminInput::Cancel { bundle }));
        line.send(content(2, 100_000));
        line.run(seconds(100));
        assert!(line.delivered == [content(2, 100_000)], "{layer:?}: {} delivered", line.delivered.len());
        assert!(line.heard[1] < 12 * MIB as u64, "{layer:?}: {} bytes sent", line.heard[1]);
        line.assert_empty();
    }
}

#[test]
fn disk_read_on_removed_link_waits() {
    // The first bytes of each bundle are being read when the link goes: its layer has none of them, and never will.
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |_, _| {});
        line.register(1);
        line.run(seconds(2));
        line.tell(0, Input::LinkDown { link: LinkId(0) });
        let sent: Vec<_> = (1..=4).map(|n| content(n, 3 * MIB)).collect();
        sent.iter().for_each(|payload| line.send(payload.clone()));
        line.run(seconds(5));
        let failed = |line: &Line| {
            line.events.iter().filter(|(node, e)| *node == 0 && matches!(e, Event::ForwardFailed { .. })).count()
        };
        let leaving = |line: &Line| {
            line.events.iter().filter(|(node, e)| *node == 0 && matches!(e, Event::Transmitting { .. })).count()
        };
        assert_eq!((line.accepted, leaving(&line)), (4, 0), "{layer:?}");
        line.tell(0, Input::LinkUp { link: LinkId(0) });
        assert!(line.run_until(seconds(10), |line| leaving(line) > 0), "{layer:?}");
        let begun = leaving(&line);
        assert_eq!(failed(&line), 0, "{layer:?}");
        line.remove_link(0, LinkId(0));
        assert_eq!((failed(&line), leaving(&line)), (begun, begun), "{layer:?}: each fails, none is tried again");
        assert_eq!(line.node(0).status(line.now).bundles, 4, "{layer:?}");
        line.run(seconds(5));
        line.add_link(0, LinkId(0));
        line.run(seconds(100));
        let arrived = sent.iter().filter(|payload| line.delivered.contains(payload)).count();
        assert_eq!((arrived, line.delivered.len()), (4, 4), "{layer:?}");
        line.assert_empty();
    }
}

#[test]
fn fragment_read_on_removed_link_waits() {
    // A piece on disk is read before its layer has any of it: for its CRC, or to be kept in memory.
    const PLAN: &str = "contact 1 2 +5..+7 rate 50 Mbit/s\ncontact 2 1 +5..+7 rate 50 Mbit/s\n\
        contact 1 2 +20..+40 rate 50 Mbit/s\ncontact 2 1 +20..+40 rate 50 Mbit/s";
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |_, config| {
            let plan = contact_plan::parse(PLAN).expect("a plan").plan;
            config.plan = Some(PlanIndex::new(plan).into());
        });
        line.register(1);
        let payload = content(1, 18 * MIB);
        line.send(payload.clone());
        let cut = |(_, event): &(usize, Event)| matches!(event, Event::Fragmented { .. });
        assert!(line.run_until(seconds(6), |line| line.events.iter().any(cut)), "{layer:?}");
        line.remove_link(0, LinkId(0));
        let failed = |(_, event): &(usize, Event)| matches!(event, Event::ForwardFailed { .. });
        assert_eq!(line.events.iter().filter(|event| failed(event)).count(), 1, "{layer:?}");
        line.run(seconds(3));
        line.add_link(0, LinkId(0));
        line.run(seconds(60));
        assert!(line.delivered == [payload], "{layer:?}: {} delivered", line.delivered.len());
        line.assert_empty();
    }
}

/// Node 0 with `count` bundles of 3 MB on disk whose first bytes are being read: their layer has none of them yet.
fn reading(layer: Layer, count: u64) -> Line {
    let mut line = Line::new(layer, 2, |_, _| {});
    line.register(1);
    line.run(seconds(2));
    line.tell(0, Input::LinkDown { link: LinkId(0) });
    (1..=count).for_each(|n| line.send(content(n, 3 * MIB)));
    line.run(seconds(5));
    line.tell(0, Input::LinkUp { link: LinkId(0) });
    let leaving = |(node, event): &(usize, Event)| *node == 0 && matches!(event, Event::Transmitting { .. });
    assert!(line.run_until(seconds(10), |line| line.events.iter().any(leaving)), "{layer:?}");
    line
}
fn in_flight(line: &Line) -> u64 {
    line.node(0).status(line.now).links[0].in_flight
}

#[test]
fn disk_reads_end_with_contact() {
    for layer in LAYERS {
        let mut line = reading(layer, 4);
        assert!(in_flight(&line) > 0, "{layer:?}");
        line.tell(0, Input::LinkDown { link: LinkId(0) });
        assert_eq!(in_flight(&line), 0, "{layer:?}");
        line.tell(0, Input::LinkUp { link: LinkId(0) });
        line.run(seconds(100));
        assert_eq!(line.delivered.len(), 4, "{layer:?}");
    }
}

#[test]
fn disk_reads_end_with_session() {
    let mut line = reading(Layer::TcpclV4, 4);
    assert!(in_flight(&line) > 1);
    line.break_streams();
    line.run(Duration::ZERO);
    assert_eq!(in_flight(&line), 0);
}

#[test]
fn cancelled_waiting_bundle_reads_next() {
    for layer in LAYERS {
        let mut line = reading(layer, 4);
        let bundle = line.node(0).bundles(line.now, BundleHandle(0), 1)[0].handle;
        line.tell(0, Input::Admin(AdminInput::Cancel { bundle }));
        line.run(seconds(100));
        assert_eq!(line.delivered.len(), 3, "{layer:?}");
        line.assert_empty();
    }
}

#[test]
fn ended_fragment_read_lets_delivery_go() {
    // Memory for one read at a time: a delivery waits until the fragment was read, or needs no reading any more.
    const PLAN: &str = "contact 1 2 +5..+7 rate 50 Mbit/s\ncontact 2 1 +5..+7 rate 50 Mbit/s";
    for cancelled in [false, true] {
        let mut line = Line::new(Layer::Ltp, 2, |_, config| {
            config.plan = Some(PlanIndex::new(contact_plan::parse(PLAN).expect("a plan").plan).into());
        });
        line.send(content(1, 18 * MIB));
        let bundle = SendRequest { destination: EndpointId::ipn(1, 1), ..line.wanted(0, content(2, 3 * MIB)) };
        line.tell(0, Input::App(AppInput::Send { request: RequestId(0), bundle }));
        let cut = |(_, event): &(usize, Event)| matches!(event, Event::Fragmented { .. });
        assert!(line.run_until(seconds(6), |line| line.events.iter().any(cut)));
        line.register(0);
        assert!(line.delivered.is_empty());
        let bundle = line.node(0).bundles(line.now, BundleHandle(0), 1)[0].handle;
        match cancelled {
            true => line.tell(0, Input::Admin(AdminInput::Cancel { bundle })),
            false => line.tell(0, Input::LinkDown { link: LinkId(0) }),
        }
        line.run(seconds(1));
        assert!(line.delivered == [content(2, 3 * MIB)], "cancelled: {cancelled}");
    }
}

#[test]
fn removed_link_gets_no_further_bundles() {
    for layer in LAYERS {
        let mut line = Line::new(layer, 2, |_, _| {});
        line.run(seconds(2));
        line.deaf = Some(1);
        (0..5).for_each(|n| line.send(content(n, 10_000)));
        line.run(Duration::from_millis(300));
        let count =
            |line: &Line, wanted: fn(&Event) -> bool| line.events.iter().filter(|(_, event)| wanted(event)).count();
        let begun = |line: &Line| count(line, |event| matches!(event, Event::Transmitting { .. }));
        assert_eq!(begun(&line), 5, "{layer:?}");
        line.remove_link(0, LinkId(0));
        let failed = count(&line, |event| matches!(event, Event::ForwardFailed { .. }));
        assert_eq!((begun(&line), failed), (5, 5), "{layer:?}: each fails once");
    }
}
