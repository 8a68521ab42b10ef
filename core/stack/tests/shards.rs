//! A relay in two shards, in virtual time: each owns the layer to one neighbour, and each has a disk of its own.

use crate::aged;

use crate::line::{Layer, Line, content};
use farlink_base::{Clock, DataVolume, Duration, EndpointId, Instant, LinkId, Payload, Priority};
use farlink_bpa::SHARD_NUMBERS;
use farlink_bpa::app::{AppInput, RegistrationId, RequestId, SendRequest};
use farlink_routing::{PlanIndex, contact_plan};
use farlink_stack::{Config, HeadBudget, Input, LayerKind, LinkParams, ShardConfig};
use std::sync::Arc;

const MIB: usize = 1 << 20;
/// The nodes of the line: a neighbour, the shards of the relay `ipn:2.0`, the other neighbour.
const NEAR: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;
const FAR: usize = 3;
const BOTH: [usize; 2] = [FIRST, SECOND];

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
/// Node number by index in the line; both shards of the relay have number 2.
fn number(index: usize) -> u64 {
    [1, 2, 2, 4][index]
}
pub fn tune(index: usize, config: &mut Config) {
    config.node_ids = vec![EndpointId::ipn(number(index), 0)];
    for layer in &mut config.layers {
        match &mut layer.kind {
            LayerKind::Ltp(layer) => layer.engine = number(index),
            LayerKind::Tcpcl(layer) => layer.node_id = format!("ipn:{}.0", number(index)),
            _ => {}
        }
    }
    let to = |config: &mut Config, link: usize, peer: u64| {
        let link = &mut config.links[link];
        (link.peer, link.name) = (EndpointId::ipn(peer, 0), format!("to-{peer}"));
        match &mut link.params {
            LinkParams::Ltp(span) => (span.engine, span.node) = (peer, farlink_base::NodeId::ipn(peer)),
            LinkParams::Tcpcl(span) => span.node_id = format!("ipn:{peer}.0"),
            _ => {}
        }
    };
    let via = |config: &mut Config, node: u64, hop: u64| {
        config.routes.push((format!("ipn:{node}.*"), EndpointId::ipn(hop, 0)));
    };
    config.routes.clear();
    match index {
        NEAR => via(config, 4, 2),
        FAR => {
            to(config, 0, 2);
            via(config, 1, 2);
        }
        _ => {
            // A layer for each link, so that each shard can own one.
            to(config, 0, 1);
            to(config, 1, 4);
            config.links[1].layer = 1;
            config.layers.push(config.layers[0].clone());
            for (link, connects) in [(0, false), (1, true)] {
                if let LinkParams::Tcpcl(span) = &mut config.links[link].params {
                    span.connect = connects;
                }
            }
            let own = (index - FIRST) as u8;
            config.shards = Some(ShardConfig::new(own, 2, vec![0, 1]));
            // The numbers of a shard are limited (`SHARD_BUNDLES_MAX`).
            config.node.limits.bundles = 1 << 20;
            via(config, 1, 1);
            via(config, 4, 4);
        }
    }
}
fn relay(layer: Layer) -> Line {
    relay_with(layer, |_, _| {})
}
fn relay_with(layer: Layer, more: impl Fn(usize, &mut Config) + 'static) -> Line {
    let mut line = Line::new(layer, 4, move |index, config| {
        tune(index, config);
        more(index, config);
    });
    line.shards = FIRST;
    for node in [NEAR, FIRST, FAR] {
        register(&mut line, node);
    }
    line.run(seconds(2));
    line
}
pub fn register(line: &mut Line, node: usize) {
    let endpoint = EndpointId::ipn(number(node), 1);
    line.tell(node, Input::App(AppInput::Register { registration: RegistrationId(1), endpoint, window: 100 }));
}
pub fn send(line: &mut Line, from: usize, to: usize, payload: &[u8]) {
    let bundle = SendRequest {
        source: EndpointId::ipn(number(from), 1),
        destination: EndpointId::ipn(number(to), 1),
        report_to: EndpointId::Null,
        facts: farlink_base::Facts::default(),
        lifetime_ms: 24 * 3_600_000,
        priority: Priority::Normal,
        hop_limit: 0,
        reliable: true,
        payload: Payload::from(payload.to_vec()),
    };
    line.tell(from, Input::App(AppInput::Send { request: RequestId(0), bundle }));
}
/// Kills the relay and restarts it.
fn restart(line: &mut Line) {
    BOTH.into_iter().for_each(|node| line.kill(node));
    line.run(Duration::from_millis(10));
    BOTH.into_iter().for_each(|node| line.start(node));
    register(line, FIRST);
}
/// Checks that all wanted bundles are delivered, and that no node holds any.
fn assert_delivered(line: &mut Line, mut wanted: Vec<Vec<u8>>, at_least_once: bool) {
    let count = wanted.len();
    // Backoff after a crash may take long.
    line.run_until(seconds(200), |line| line.delivered.len() >= count);
    line.run(seconds(40));
    let mut came: Vec<Vec<u8>> = line.delivered.iter().map(|bytes| bytes.to_vec()).collect();
    came.sort();
    if at_least_once {
        came.dedup();
    }
    wanted.sort();
    assert!(came == wanted, "{} of {count} came", came.len());
    line.assert_empty();
}

#[test]
fn bundles_cross_shards_both_ways() {
    for layer in [Layer::TcpclV4, Layer::Ltp] {
        let mut line = relay(layer);
        let mut wanted = Vec::new();
        for n in 0..60u64 {
            let payload = content(n, 1 + n as usize * 3001).to_vec();
            let (from, to) = if n % 2 == 0 { (NEAR, FAR) } else { (FAR, NEAR) };
            send(&mut line, from, to, &payload);
            wanted.push(payload);
        }
        assert_delivered(&mut line, wanted, false);
        // For each of the 60 bundles at least the send and its answer cross.
        assert!(line.crossed > 120, "{layer:?}: {} crossings", line.crossed);
    }
}

#[test]
fn bundle_stays_in_arrival_shard() {
    let mut line = relay(Layer::TcpclV4);
    // Without its neighbour, the bundle waits.
    line.kill(FAR);
    line.kill(NEAR);
    line.start(NEAR);
    line.run(seconds(3));
    send(&mut line, NEAR, FAR, b"from the first shard");
    line.run(seconds(3));
    assert_eq!(BOTH.map(|node| line.node(node).held()), [1, 0]);
    line.start(FAR);
    register(&mut line, FAR);
    line.kill(NEAR);
    send(&mut line, FAR, NEAR, b"from the second");
    line.run(seconds(8));
    assert_eq!(BOTH.map(|node| line.node(node).held()), [0, 1]);
    let held = line.node(SECOND).bundles(line.now, farlink_base::BundleHandle(0), 9);
    assert_eq!(held[0].handle.0 / SHARD_NUMBERS, 1, "its number tells the shard");
    restart(&mut line);
    line.run(seconds(3));
    let held = line.node(SECOND).bundles(line.now, farlink_base::BundleHandle(0), 9);
    assert_eq!(held[0].handle.0 / SHARD_NUMBERS, 1, "after a restart, too");
    line.start(NEAR);
    register(&mut line, NEAR);
    assert_delivered(&mut line, vec![b"from the first shard".to_vec(), b"from the second".to_vec()], false);
}

#[test]
fn local_bundles_reach_first_shard() {
    for layer in [Layer::TcpclV4, Layer::Ltp] {
        let mut line = relay(layer);
        let mut wanted = Vec::new();
        // Bundles in one part, bundles in several parts, and bundles that go to disk while they arrive.
        for (n, len) in [1, 70_000, 900_000, 3 * MIB].into_iter().enumerate() {
            for from in [NEAR, FAR] {
                let payload = content(n as u64 * 2 + from as u64, len).to_vec();
                send(&mut line, from, FIRST, &payload);
                wanted.push(payload);
            }
        }
        let count = wanted.len();
        let offered = std::cell::Cell::new(0);
        let nothing = |line: &Line| {
            assert_eq!(line.node(SECOND).held(), 0, "the second shard holds nothing");
            offered.set(offered.get().max(line.node(SECOND).offered_to_shards()));
            line.delivered.len() >= count
        };
        assert!(line.run_until(seconds(60), nothing), "{layer:?}: {} delivered", line.delivered.len());
        let kept: usize = line.disks[SECOND].files.values().map(Vec::len).sum();
        assert!(kept < MIB, "{layer:?}: {kept} bytes on its disk");
        assert_delivered(&mut line, wanted, false);
        assert_eq!(line.node(SECOND).offered_to_shards(), 0, "{layer:?}: all have their verdict");
        assert!(offered.get() > 0, "{layer:?}: they waited for it");
    }
}

#[test]
fn local_bundles_leave_by_either_shard() {
    let mut line = relay(Layer::TcpclV4);
    let wanted = [content(1, 10).to_vec(), content(2, 2 * MIB).to_vec(), content(3, 99).to_vec()];
    for (payload, to) in wanted.iter().zip([FAR, FAR, NEAR]) {
        send(&mut line, FIRST, to, payload);
    }
    assert_delivered(&mut line, wanted.to_vec(), false);
}

#[test]
fn long_bundle_leaves_foreign_disk() {
    for layer in [Layer::TcpclV4, Layer::Ltp] {
        let mut line = relay(layer);
        let wanted = vec![content(1, 9 * MIB).to_vec(), content(2, 5 * MIB).to_vec()];
        send(&mut line, NEAR, FAR, &wanted[0]);
        send(&mut line, FAR, NEAR, &wanted[1]);
        assert_delivered(&mut line, wanted, false);
    }
}

#[test]
fn acknowledged_bundles_survive_shard_crash() {
    // The relay dies again and again, both its shards at once: acknowledged bundles arrive.
    for layer in [Layer::TcpclV4, Layer::Ltp] {
        for seed in 0..6u64 {
            let mut line = relay(layer);
            let mut wanted = Vec::new();
            for n in 0..40u64 {
                let payload = content(seed * 100 + n, 500 + (n as usize * 7919) % 150_000).to_vec();
                let (from, to) = [(NEAR, FAR), (FAR, NEAR), (FAR, FIRST), (NEAR, FIRST)][n as usize % 4];
                send(&mut line, from, to, &payload);
                wanted.push(payload);
                // Each seed crashes at other bundles, and after other times.
                if n % 8 == seed {
                    line.run(Duration::from_micros(700 * (n + 1)));
                    restart(&mut line);
                }
            }
            assert_delivered(&mut line, wanted, true);
        }
    }
}

#[test]
fn full_foreign_link_holds_bundles() {
    let mut line = relay_with(Layer::Ltp, |index, config| {
        if index == FIRST || index == SECOND {
            // 1 Mbit/s: slower than the bundles arrive.
            config.links[1].rate = Some(farlink_base::DataRate(1_000_000));
        }
    });
    for n in 0..200u64 {
        send(&mut line, NEAR, FAR, &content(n, 100_000));
    }
    line.run(seconds(5));
    assert!(line.delivered.len() < 20, "{} delivered", line.delivered.len());
    let status = line.node(FIRST).status(line.now);
    let link = status.links.iter().find(|link| link.name == "to-4").unwrap();
    // At most 4 MiB are handed over beyond those that the layer has taken (`OF_LINK` of a remote layer).
    assert!(link.in_flight <= 42 + 64 && link.queued > 50, "{} in flight, {} queued", link.in_flight, link.queued);
}

#[test]
fn removed_shared_link_returns_bundles() {
    let mut line = relay(Layer::TcpclV4);
    let payload = content(1, 3 * MIB).to_vec();
    send(&mut line, NEAR, FAR, &payload);
    line.run(Duration::from_millis(25));
    // The shards remove the link at different times.
    line.remove_link(SECOND, LinkId(1));
    line.run(Duration::from_micros(20));
    line.remove_link(FIRST, LinkId(1));
    line.run(seconds(10));
    assert_eq!(line.node(FIRST).held(), 1);
    assert!(line.delivered.is_empty());
    assert!(line.node(FIRST).status(line.now).links.iter().all(|link| link.name != "to-4" && link.in_flight == 0));
    for node in BOTH {
        line.add_link(node, LinkId(1));
    }
    assert_delivered(&mut line, vec![payload], true);
}

#[test]
fn long_bundle_survives_breaking_sessions() {
    // A bundle longer than any session, for another node and for this one: parts received before are not sent again.
    for to in [NEAR, FIRST] {
        let mut line = relay_with(Layer::TcpclV4, |_, config| {
            for layer in &mut config.layers {
                if let LayerKind::Tcpcl(layer) = &mut layer.kind {
                    // Parts of 256 KiB and more are kept when a session breaks.
                    layer.reactive = MIB as u64 / 4;
                }
            }
        });
        let payload = content(1, 40 * MIB).to_vec();
        let before = line.heard[SECOND];
        send(&mut line, FAR, to, &payload);
        for _ in 0..20 {
            let until = line.heard[SECOND] + (12 << 20);
            let came = move |line: &Line| line.heard[SECOND] >= until || !line.delivered.is_empty();
            if line.run_until(seconds(3), came) && !line.delivered.is_empty() {
                break;
            }
            line.break_streams();
        }
        line.run_until(seconds(30), |line| !line.delivered.is_empty());
        let heard = line.heard[SECOND] - before;
        // Breaks cost the data under way, at most 40 % here; without kept parts each session would start again.
        assert!(heard < 14 * payload.len() as u64 / 10, "{to}: {heard} bytes");
        assert_delivered(&mut line, vec![payload], false);
    }
}

#[test]
fn head_without_room_is_refused() {
    // Heads come in small segments, and no memory is left for them.
    let mut line = relay_with(Layer::TcpclV4, |_, config| {
        if let Some(shards) = &mut config.shards {
            // Less than any head needs.
            shards.heads = Arc::new(HeadBudget::new(10));
        }
        for layer in &mut config.layers {
            if let LayerKind::Tcpcl(layer) = &mut layer.kind {
                // Segments of 40 bytes split the head.
                layer.segment_mru = 40;
            }
        }
    });
    let before = line.heard[SECOND];
    send(&mut line, FAR, NEAR, &content(1, 12 * MIB));
    line.run(seconds(2));
    let heard = line.heard[SECOND] - before;
    assert!(heard > 100 && heard < 8 * MIB as u64, "{heard} bytes sent in vain");
    assert_eq!([FIRST, SECOND, FAR].map(|node| line.node(node).held()), [0, 0, 1]);
    // A short bundle comes in one part, and needs no room for its head.
    send(&mut line, NEAR, FIRST, b"short");
    line.run(seconds(2));
    assert!(line.delivered == [b"short".to_vec()]);
}

#[test]
fn bundle_for_lost_link_goes_later() {
    // The owner learns first that the neighbour is gone.
    let mut line = relay(Layer::TcpclV4);
    let is_up = |line: &Line, node| {
        let status = line.node(node).status(line.now);
        status.links.iter().any(|link| link.name == "to-4" && link.up)
    };
    assert!(BOTH.into_iter().all(|node| is_up(&line, node)));
    line.kill(FAR);
    assert!(line.run_until(seconds(1), |line| !is_up(line, SECOND)));
    assert!(is_up(&line, FIRST), "it has not heard of it");
    let payload = content(1, 500).to_vec();
    send(&mut line, FIRST, FAR, &payload);
    line.run(seconds(1));
    let status = line.node(FIRST).status(line.now);
    assert!(line.node(FIRST).held() == 1 && status.links.iter().all(|link| link.in_flight == 0), "it is kept here");
    line.start(FAR);
    register(&mut line, FAR);
    assert_delivered(&mut line, vec![payload], false);
}

#[test]
fn crossing_bundle_returns_from_downed_link() {
    let mut line = relay(Layer::Ltp);
    let in_flight = |line: &Line| line.node(FIRST).status(line.now).links.iter().map(|link| link.in_flight).sum();
    // The bundle and the news of the link cross.
    line.tell(SECOND, Input::LinkDown { link: LinkId(1) });
    send(&mut line, FIRST, FAR, b"too late");
    assert_eq!(in_flight(&line), 1u64);
    line.run(Duration::from_millis(10));
    assert_eq!((in_flight(&line), line.node(FIRST).held()), (0, 1), "it is free for another way");
}

#[test]
fn foreign_bundle_leaves_without_timer() {
    let mut line = relay(Layer::TcpclV4);
    // The timers of a busy process are late.
    line.lag = seconds(5);
    send(&mut line, FIRST, FAR, b"at once");
    line.run(Duration::from_millis(50));
    assert!(line.delivered == [b"at once".to_vec()]);
}

#[test]
fn waiting_bundles_leave_next_contact() {
    // The burst exceeds the window of the LTP link, so some of its bundles wait at the owner shard until the next
    // contact.
    let contacts = "contact 1 2 +0..+900 rate 1 Gbit/s\ncontact 2 1 +0..+900 rate 1 Gbit/s\n\
        contact 2 4 +4..+6 rate 1 Gbit/s\ncontact 4 2 +0..+900 rate 1 Gbit/s\n\
        contact 2 4 +20..+900 rate 1 Gbit/s";
    let mut line = relay_with(Layer::Ltp, move |_, config| {
        config.plan = Some(PlanIndex::new(contact_plan::parse(contacts).expect("a plan").plan).into());
        for link in &mut config.links {
            if let LinkParams::Ltp(span) = &mut link.params {
                span.window_bytes = 100_000;
            }
        }
    });
    let wanted: Vec<Vec<u8>> = (0..600).map(|n| content(n, 500).to_vec()).collect();
    wanted.iter().for_each(|payload| send(&mut line, NEAR, FAR, payload));
    line.run(seconds(1));
    assert_eq!((line.node(FIRST).held(), line.now), (600, Instant::ZERO + seconds(3)));
    line.deaf = Some(FAR);
    line.run(seconds(2));
    assert!(line.node(SECOND).serves_others(), "some wait there");
    line.run(seconds(10));
    line.resume_reads();
    assert_delivered(&mut line, wanted, false);
}

#[test]
fn full_first_shard_loses_nothing() {
    let mut line = relay_with(Layer::TcpclV4, |index, config| {
        if index == FIRST {
            config.node.store.capacity = DataVolume(6 << 20);
        }
    });
    // Deliveries would free the store at once, and it must fill up.
    line.tell(FIRST, Input::App(AppInput::Unregister { registration: RegistrationId(1) }));
    let wanted: Vec<Vec<u8>> = (0..30).map(|n| content(n, 400_000).to_vec()).collect();
    wanted.iter().for_each(|payload| send(&mut line, FAR, FIRST, payload));
    line.run(seconds(20));
    let held = line.node(FIRST).held();
    assert!(held > 3 && held < 20, "{held} fit");
    assert_eq!(line.node(SECOND).offered_to_shards(), 0, "all have a verdict");
    register(&mut line, FIRST);
    line.run_until(seconds(4000), |line| line.delivered.len() >= 30);
    assert_delivered(&mut line, wanted, true);
}

#[test]
fn broken_stream_resends_foreign_bundles() {
    let mut line = relay(Layer::TcpclV4);
    let mut wanted = Vec::new();
    for n in 0..30u64 {
        let payload = content(n, 300_000).to_vec();
        let (from, to) = [(NEAR, FAR), (FAR, NEAR), (FAR, FIRST)][n as usize % 3];
        send(&mut line, from, to, &payload);
        wanted.push(payload);
        if n % 5 == 4 {
            line.run(Duration::from_millis(7 + n));
            line.break_streams();
        }
    }
    assert_delivered(&mut line, wanted, true);
}

#[test]
fn foreign_link_quota_is_renewed() {
    let mut line = relay(Layer::TcpclV4);
    let wanted: Vec<Vec<u8>> = (0..1500u64).map(|n| content(n, 20).to_vec()).collect();
    wanted.iter().for_each(|payload| send(&mut line, NEAR, FAR, payload));
    assert_delivered(&mut line, wanted, false);
}

#[test]
fn late_added_link_serves_both_shards() {
    for layer in [Layer::TcpclV4, Layer::Ltp] {
        let mut line = relay(layer);
        for node in BOTH {
            line.remove_link(node, LinkId(1));
        }
        line.run(seconds(3));
        let payload = content(1, 50_000).to_vec();
        send(&mut line, NEAR, FAR, &payload);
        line.run(seconds(3));
        line.add_link(SECOND, LinkId(1));
        line.run(seconds(12));
        assert!(line.delivered.is_empty() && line.node(FIRST).held() == 1, "{layer:?}");
        line.add_link(FIRST, LinkId(1));
        line.run(seconds(3));
        assert_eq!(line.delivered.len(), 1, "{layer:?}: what was said of it came late, and is heard");
        assert_delivered(&mut line, vec![payload], false);
    }
}

#[test]
fn bundle_waiting_in_shard_ages() {
    // RFC 9171 5.4 step 4, with different shards for the receiving and the sending layer.
    for (layer, version, disk) in [Layer::TcpclV4, Layer::Ltp]
        .into_iter()
        .flat_map(|l| [(l, 7, false), (l, 6, false), (l, 7, true), (l, 6, true)])
    {
        let ages = aged::Ages::default();
        let old = move |index: usize, config: &mut Config| {
            tune(index, config);
            config.node.bundle_version = version;
            if !disk || index != FIRST {
                (config.node.limits.memory_bytes, config.node.store.spill_from) = (1 << 30, DataVolume(1 << 30));
            }
            for link in &mut config.links {
                if let LinkParams::Ltp(span) = &mut link.params {
                    span.window_bytes = 100_000;
                }
            }
        };
        let mut line = Line::speaking(layer, 4, old, aged::speak(version, FAR, &ages));
        line.shards = FIRST;
        line.tell(NEAR, Input::Clock(Clock::UNTRUSTED));
        [NEAR, FIRST, FAR].into_iter().for_each(|node| register(&mut line, node));
        line.run(seconds(2));
        (line.watched, line.left, line.deaf) = (SECOND, Some(Vec::new()), Some(FAR));
        let sent = line.now;
        (0..100).for_each(|n| send(&mut line, NEAR, FAR, &aged::payload(n, 50_000).to_bytes().unwrap()));
        line.run(seconds(20));
        line.resume_reads();
        line.run(seconds(120));
        let (left, ages) = (aged::left(&line), ages.lock().unwrap());
        assert_eq!(ages.len(), 100, "{layer:?} {version}");
        for (number, age) in ages.iter() {
            let (told, age) = (Duration::from_millis(*age), left[number][0].since(sent));
            let exact = told <= age + Duration::from_millis(1) && age <= told + Duration::from_millis(10);
            assert!(exact, "{layer:?} {version} {disk}: {number} left after {age:?} and says {told:?}");
        }
        let late = left.values().filter(|times| times[0].since(sent) >= seconds(20)).count();
        assert!(late >= 70 && line.crossed > 100, "{layer:?} {version}: {late} waited");
    }
}
