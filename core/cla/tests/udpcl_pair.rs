//! Tests of two UDPCL entities over impaired channels: bundles arrive intact, once per copy of their datagram;
//! everything handed over leaves; no transfer hangs, and all memory is released.

use crate::udpcl_common::{Channel, UdpclPair};
use farlink_base::layer::{Input, LinkState};
use farlink_base::{DataRate, Duration, Instant};
use farlink_cla::udpcl::LinkParams;

/// Sizes around the limits of segments, datagrams and batches.
const SIZES: [usize; 10] = [13, 100, 1370, 1384, 1400, 1401, 2760, 5000, 30_000, 65_507];

fn version(version: u8) -> LinkParams {
    LinkParams { version, pace_bytes: 12_500_000, ..LinkParams::default() }
}
fn filled(seed: u64, channel: Channel, span: LinkParams, count: u64) -> UdpclPair {
    let mut world = UdpclPair::new(seed, channel, span);
    for number in 0..count {
        world.give(0, number, SIZES[number as usize % SIZES.len()]);
        world.give(1, 1000 + number, SIZES[(number as usize + 3) % SIZES.len()] / 2);
    }
    world.run();
    for agent in &world.agents {
        assert_eq!((agent.sent.len() as u64, agent.failed), (count, 0), "all that was given has left");
        assert!(agent.malformed.is_empty(), "{:?}", agent.malformed);
    }
    world
}
/// Number of bundles that arrived at a side, and number of those that arrived more than once.
fn arrived(world: &UdpclPair, side: usize) -> (usize, usize) {
    let offers = &world.agents[side].offers;
    (offers.len(), offers.values().filter(|n| **n > 1).count())
}

#[test]
fn clean_channel_delivers_everything_once() {
    for v in [1, 2] {
        let world = filled(1, Channel { delay: Duration::from_millis(600), ..Channel::default() }, version(v), 40);
        assert_eq!([arrived(&world, 0), arrived(&world, 1)], [(40, 0); 2], "version {v}");
    }
}

#[test]
fn single_datagram_delivery_equals_channel_survival() {
    // Nothing is retransmitted, so as many bundles arrive as the channel lets pass.
    for seed in 0..5 {
        let channel = Channel { loss: 0.3, jitter: Duration::from_millis(50), ..Channel::default() };
        let world = filled(seed, channel, version(1), 300);
        for side in 0..2 {
            let (arrived, twice) = arrived(&world, side);
            assert!((180..=240).contains(&arrived) && twice == 0, "{arrived} of 300");
        }
    }
}

#[test]
fn segment_loss_drops_whole_bundle() {
    // UDPCL retransmits nothing.
    for seed in 0..5 {
        let channel = Channel { loss: 0.02, jitter: Duration::from_millis(50), ..Channel::default() };
        let world = filled(seed, channel, version(2), 300);
        for side in 0..2 {
            let (arrived, twice) = arrived(&world, side);
            assert!((200..300).contains(&arrived) && twice == 0, "{arrived} of 300");
        }
        assert!(world.now > Instant(60_000_000_000), "incomplete transfers were waited for");
    }
}

#[test]
fn reordered_copies_join_once() {
    // A bundle in a single datagram arrives as often as the datagram is copied.
    for seed in 0..5 {
        let channel = || Channel { duplicate: 0.3, jitter: Duration::from_millis(500), ..Channel::default() };
        let world = filled(seed, channel(), version(2), 100);
        for side in 0..2 {
            let (arrived, twice) = arrived(&world, side);
            // Short bundles leave without a transfer number, as in version 1.
            let short = world.agents[side].offers.iter().filter(|(_, n)| **n > 1).count();
            assert_eq!((arrived, twice), (100, short));
            let long = |number: u64, shift: usize, halves: usize| {
                SIZES[((number % 1000) as usize + shift) % SIZES.len()] / halves > 1400
            };
            let (shift, halves) = if side == 1 { (0, 1) } else { (3, 2) };
            let copied = world.agents[side].offers.iter().filter(|(n, _)| long(**n, shift, halves));
            assert!(copied.clone().count() >= 30 && copied.into_iter().all(|(_, times)| *times == 1));
        }
        let world = filled(seed, channel(), version(1), 100);
        assert!(arrived(&world, 1).1 > 10, "single datagrams are deduplicated by the agent");
        assert!(world.agents[1].offers.values().all(|n| *n <= 2));
    }
}

#[test]
fn long_bundles_are_segmented_while_read() {
    for v in [1, 2] {
        let mut world = UdpclPair::new(4, Channel::default(), LinkParams { pace_bytes: 50_000_000, ..version(v) });
        world.stream_from = 20_000;
        let sizes = if v == 1 { [65_507, 30_000, 65_000] } else { [5_000_000, 30_000, 2_100_000] };
        for (number, len) in (0..).zip(sizes) {
            world.give(0, number, len);
        }
        world.run();
        assert_eq!((world.agents[0].sent.len(), arrived(&world, 1)), (3, (3, 0)));
        let total: usize = sizes.iter().sum();
        assert!(world.agents[0].asked <= total as u64, "nothing is read twice");
    }
}

/// Keeps 9171-7.2-1.
#[test]
fn rate_limit_holds_at_any_time() {
    // The rate is that of the link, headers included; without it, the configured pace.
    let paced = |state: Option<LinkState>, span: LinkParams, bytes_per_second: f64, burst: f64| {
        let mut world = UdpclPair::new(7, Channel { state, ..Channel::default() }, span);
        let len = 1360;
        for number in 0..400 {
            world.give(0, number, len);
        }
        world.run();
        let wire = &world.agents[0].wire;
        let total: u64 = wire.iter().map(|(_, bytes)| bytes).sum();
        let last = wire.last().unwrap();
        let took = last.0.as_secs_f64() - wire[0].0.as_secs_f64();
        let datagram = (len + 28) as f64;
        let due = (total as f64 - datagram) / bytes_per_second;
        assert!(took <= due * 1.001 + 0.002, "not slower: {took} s, {due} s at the rate");
        // Every interval is checked, because a mean rate would hide bursts.
        for (first, (from, _)) in wire.iter().enumerate().step_by(7) {
            let mut sum = 0;
            for (at, bytes) in &wire[first..] {
                sum += bytes;
                let may = (*at - *from).as_secs_f64() * bytes_per_second + datagram + burst * bytes_per_second;
                assert!(sum as f64 <= may + 1.0, "{sum} B by {at:?}, {may} B at the rate");
            }
        }
    };
    // Exact at a low rate; at a high rate a burst of 2 ms may leave at once.
    for (rate, burst) in [(64_000, 0.0), (1_000_000, 0.0), (5_000_000, 0.0), (100_000_000, 0.002)] {
        let state = LinkState { rate: Some(DataRate(rate)), ..LinkState::UP };
        paced(Some(state), LinkParams::default(), rate as f64 / 8.0, burst);
        paced(Some(state), version(2), rate as f64 / 8.0, burst);
    }
    paced(None, LinkParams::default(), 125_000.0, 0.0);
}

#[test]
fn slow_link_keeps_short_backlog() {
    // Further bundles stay with the agent, which can still reorder them.
    let state = Some(LinkState { rate: Some(DataRate(1_000_000)), ..LinkState::UP });
    let mut world = UdpclPair::new(2, Channel { state, ..Channel::default() }, LinkParams::default());
    for number in 0..100 {
        world.give(0, number, 1000);
    }
    let mut most = 0;
    world.input(0, Input::Wake);
    while world.step() {
        most = most.max(world.layers[0].usage().queued_bytes);
    }
    assert!((3000..=6250 + 1000).contains(&most), "50 ms at the rate: {most} B");
}
