//! Bundles longer than the memory of the nodes they cross: they go to disk while they arrive and leave
//! from there.

use crate::line::{Layer, Line, SPOOLED, content};
use farlink_base::{BundleHandle, DataVolume, Duration, Event, LinkId, NodeId, Payload};
use farlink_bpa::app::AdminInput;
use farlink_routing::{PlanIndex, contact_plan};
use farlink_stack::Input;

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
    assert!(line.delivered == [content(7, 6 * MIB)], "{:?}", line.refused);
    line.assert_empty();
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
