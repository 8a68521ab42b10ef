//! Long bundles over links that break in the middle of each transfer, in virtual time, from disk to disk.

use crate::line::{Layer, Line, content};
use farlink_base::{Bytes, Duration, Event};
use farlink_cla::tcpcl_v4::Versions;
use farlink_stack::{Config, LayerKind};

const MIB: usize = 1 << 20;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
fn reactive(config: &mut Config, versions: Versions, least: u64) {
    for layer in &mut config.layers {
        if let LayerKind::Tcpcl(layer) = &mut layer.kind {
            (layer.reactive, layer.versions) = (least, versions);
        }
    }
}
fn line(count: usize, versions: Versions, least: u64) -> Line {
    let mut line = Line::new(Layer::TcpclV4, count, move |_, config| reactive(config, versions, least));
    line.register(count - 1);
    line.run(seconds(2));
    line
}
/// Sends a payload and breaks all streams after each `every` bytes at the last node; returns the bytes it took.
fn carry(line: &mut Line, payload: &Bytes, every: u64, breaks: usize) -> u64 {
    let last = line.heard.len() - 1;
    let before = line.heard[last];
    line.send(payload.clone());
    for _ in 0..breaks {
        let until = line.heard[last] + every;
        if line.run_until(seconds(3), move |line| line.heard[last] >= until || !line.delivered.is_empty())
            && !line.delivered.is_empty()
        {
            break;
        }
        line.break_streams();
    }
    line.run_until(seconds(5), |line| !line.delivered.is_empty());
    line.heard[last] - before
}

#[test]
fn bundle_longer_than_contacts_arrives() {
    for versions in [Versions::Four, Versions::Three] {
        let mut line = line(2, versions, MIB as u64 / 4);
        let payload = content(1, 50 * MIB);
        // At each break, a megabyte is on its way to the receiver, and acknowledgments of another on their way back.
        let heard = carry(&mut line, &payload, 16 << 20, 20);
        assert!(line.delivered == [payload.clone()], "{versions:?}: {} delivered", line.delivered.len());
        // At most 30 % of the payload is sent twice: the data under way at each break.
        assert!(heard < 13 * payload.len() as u64 / 10, "{versions:?}: {heard} bytes");
        line.run(seconds(5));
        line.assert_empty();
    }
}

#[test]
fn without_kept_parts_nothing_arrives() {
    // 0 turns reactive fragmentation off.
    let mut line = line(2, Versions::Four, 0);
    let heard = carry(&mut line, &content(1, 50 * MIB), 10 << 20, 10);
    assert!(line.delivered.is_empty() && heard > 50 << 20, "{heard} bytes");
}

#[test]
fn unbroken_link_carries_whole_bundles() {
    let mut line = line(3, Versions::Four, MIB as u64);
    let payload = content(1, 30 * MIB);
    line.send(payload.clone());
    assert!(line.run_until(seconds(60), |line| !line.delivered.is_empty()));
    assert!(line.delivered == [payload]);
    assert!(!line.events.iter().any(|(_, event)| matches!(event, Event::Fragmented { .. })));
    line.run(seconds(5));
    line.assert_empty();
}

#[test]
fn acknowledged_parts_survive_relay_crash() {
    // The relay dies, again and again, in the middle of a reception and of a transmission.
    let mut line = line(3, Versions::Four, MIB as u64);
    let payload = content(1, 40 * MIB);
    line.send(payload.clone());
    for round in 0..40u64 {
        let until = line.heard[1] + line.heard[2] + (7 << 20) + (round * 300_007) % (3 << 20);
        line.run_until(seconds(3), move |line| line.heard[1] + line.heard[2] >= until);
        if !line.delivered.is_empty() {
            break;
        }
        line.kill(1);
        line.run(Duration::from_millis(50));
        line.start(1);
    }
    assert!(line.run_until(seconds(200), |line| !line.delivered.is_empty()), "it arrives");
    assert!(line.delivered == [payload]);
    line.run(seconds(200));
    assert_eq!(line.delivered.len(), 1, "once");
}

#[test]
fn restarted_sender_repeats_without_duplicates() {
    // The sender dies: it does not know how much was kept, and sends all of it; nothing is delivered twice or mixed
    // up.
    let mut line = line(2, Versions::Four, MIB as u64);
    let payload = content(1, 20 * MIB);
    line.send(payload.clone());
    line.run_until(seconds(5), |line| line.heard[1] > 12 << 20);
    line.kill(0);
    line.run(seconds(1));
    line.start(0);
    assert!(line.run_until(seconds(100), |line| !line.delivered.is_empty()));
    line.run(seconds(100));
    assert!(line.delivered == [payload]);
}
