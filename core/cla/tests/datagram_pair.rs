//! Tests of two LTP engines over impaired channels: every bundle reported as sent was accepted exactly once and intact;
//! no session hangs; all memory is released.

use crate::datagram_common::{Channel, EnginePair, bundle};
use farlink_base::{DataRate, Duration, Rng};
use farlink_cla::ltp::SpanConfig;

fn both(loss: f64) -> [f64; 2] {
    [loss; 2]
}
fn delays(delay: Duration) -> [Duration; 2] {
    [delay; 2]
}
/// Sizes around the limits of segments and batches.
const SIZES: [usize; 10] = [12, 100, 1330, 1338, 1340, 1345, 5000, 30_000, 70_000, 130_000];

fn fill(world: &mut EnginePair, count: u64) {
    for number in 0..count {
        let size = SIZES[number as usize % SIZES.len()];
        world.offer(0, number, bundle(number, size), true);
        world.offer(1, 1000 + number, bundle(1000 + number, size / 2), true);
    }
}
fn run(mut world: EnginePair, count: u64) -> EnginePair {
    fill(&mut world, count);
    world.run(3_000_000);
    for side in 0..2 {
        let done = &world.sides[side].done;
        assert_eq!(done.len() as u64, count);
        assert_eq!(&world.sides[1 - side].accepted, done);
    }
    world.settle();
    world
}

#[test]
fn loss_up_to_half_both_ways() {
    for loss in [0.0, 0.01, 0.1, 0.3, 0.5] {
        for delay in [Duration::ZERO, Duration::from_millis(600), Duration::from_secs(1200)] {
            let channel = Channel { loss: both(loss), delay: delays(delay), ..Channel::default() };
            let span = SpanConfig { attempts: 60, ..SpanConfig::default() };
            let world = run(EnginePair::new(7, channel, span), 20);
            for side in &world.sides {
                assert_eq!(side.failed, 0, "no session given up at loss {loss}");
                assert!(side.offers.values().all(|n| *n == 1), "no bundle came twice");
            }
        }
    }
}

#[test]
fn any_single_loss_hangs_no_session() {
    // Data, checkpoint, report and acknowledgment are each lost once; the loss is repaired at once, and no session
    // remains.
    let with = |lose: Option<(usize, u64)>| {
        let mut world = EnginePair::new(5, Channel::default(), SpanConfig::default());
        world.lose = lose;
        fill(&mut world, 8);
        world.run(100_000);
        let (sent, done) = (world.datagrams, world.now);
        world.settle();
        for side in &world.sides {
            assert!(side.ends.keys().all(|why| *why == "completed"), "without {lose:?}: {:?}", side.ends);
            assert!(side.failed == 0 && side.offers.values().all(|n| *n == 1), "without {lose:?}");
        }
        (sent, done)
    };
    let (sent, whole) = with(None);
    assert!(sent.iter().all(|sent| *sent > 20), "data, reports and acknowledgments: {sent:?}");
    for (side, sent) in sent.into_iter().enumerate() {
        for lost in 0..sent {
            let late = with(Some((side, lost))).1.since(whole);
            assert!(late < Duration::from_secs(2), "without datagram {lost} of {side}: {late:?} later");
        }
    }
}

#[test]
fn reordering_and_duplication() {
    for seed in 0..10 {
        let channel = Channel {
            loss: [0.05 * (seed % 3) as f64; 2],
            jitter: Duration::from_millis(30),
            duplicate: 0.2,
            ..Channel::default()
        };
        let span = SpanConfig { checkpoint_every: 10_000, report_every: 20_000, attempts: 60, ..SpanConfig::default() };
        let world = run(EnginePair::new(seed, channel, span), 20);
        assert!(world.sides.iter().all(|s| s.failed == 0 && s.offers.values().all(|n| *n == 1)));
    }
}

/// Keeps 5326-5-4, 5326-6.1-1, 5326-6.2-1, 5326-6.2-2, 5326-6.5-1.
#[test]
fn known_gaps_spare_retry_budget() {
    // Contacts of 3 s every 100 s, with the peer 30 s away: a timer running through the gap would expire again and
    // again.
    let down = (0..400).map(|i| (f64::from(i) * 100.0 + 3.0, f64::from(i) * 100.0 + 100.0)).collect();
    let channel = Channel { loss: both(0.1), delay: delays(Duration::from_secs(30)), down, ..Channel::default() };
    let span = SpanConfig { attempts: 10, ..SpanConfig::default() };
    let world = run(EnginePair::new(3, channel, span), 20);
    assert!(world.sides.iter().all(|s| s.failed == 0));
}

#[test]
fn unknown_gaps_are_outlived() {
    // If the driver does not report outages to the engines, their retry limits must outlast them.
    for told in [false, true] {
        let down = (0..50).map(|i| (f64::from(i) * 5.0 + 0.001, f64::from(i) * 5.0 + 4.0)).collect();
        let channel = Channel { loss: both(0.2), down, told, ..Channel::default() };
        run(EnginePair::new(5, channel, SpanConfig::default()), 20);
    }
}

#[test]
fn restarts_of_either_side_lose_nothing() {
    // A restarted engine has lost its sessions; the agents keep their bundles.
    for seed in 0..12 {
        let channel = Channel { loss: both(0.1), rate: Some(DataRate(10_000_000)), ..Channel::default() };
        let span = SpanConfig { attempts: 6, idle: Duration::from_secs(100), ..SpanConfig::default() };
        let mut world = EnginePair::new(seed, channel, span);
        for i in 0..4 {
            world.keep = Duration::from_millis(seed * 3);
            world.restart_at(0.05 + 0.11 * f64::from(i) + 0.013 * seed as f64, (i as usize + seed as usize) % 2);
        }
        run(world, 20);
    }
}

#[test]
fn batch_size_changes_nothing() {
    // The driver may coalesce received datagrams in any way.
    for join in [1, 3, 64] {
        let mut world = EnginePair::new(9, Channel { loss: both(0.02), ..Channel::default() }, SpanConfig::default());
        world.join = join;
        run(world, 20);
    }
}

#[test]
fn unrated_fast_link_is_filled() {
    let channel = Channel { rate: None, delay: delays(Duration::ZERO), ..Channel::default() };
    run(EnginePair::new(1, channel, SpanConfig::default()), 60);
}

#[test]
fn small_limits_still_deliver_everything() {
    // Small windows and few sessions cost time, not bundles.
    let span = SpanConfig { sessions: 2, window_bytes: 10_000, ..SpanConfig::default() };
    run(EnginePair::new(1, Channel { loss: both(0.1), ..Channel::default() }, span), 20);
}

#[test]
fn little_memory_delays_but_loses_nothing() {
    // Data beyond the memory limit is dropped unclaimed, and retransmitted.
    let channel = Channel { loss: both(0.1), ..Channel::default() };
    let world = EnginePair::with(1, channel, SpanConfig { attempts: 200, ..SpanConfig::default() }, |_, config| {
        config.memory_bytes = 200_000;
    });
    run(world, 20);
}

#[test]
fn bundles_aggregate_without_delaying_lone_ones() {
    // A lone bundle leaves after the aggregation time.
    let span =
        SpanConfig { aggregate_bytes: 50_000, aggregate_wait: Duration::from_millis(3), ..SpanConfig::default() };
    let mut world = EnginePair::new(4, Channel { loss: both(0.1), ..Channel::default() }, span);
    world.record = true;
    for number in 0..200 {
        world.offer(0, number, bundle(number, 1000), true);
    }
    world.run(1_000_000);
    let sessions: std::collections::BTreeSet<u64> =
        world.sides[1].events.iter().filter(|e| !e.sent && e.kind <= 4).map(|e| e.session).collect();
    assert!(sessions.len() <= 8, "{} sessions for 200 bundles", sessions.len());
    assert_eq!(world.sides[1].accepted.len(), 200);
    world.settle();

    let quiet = Channel { delay: delays(Duration::ZERO), rate: None, ..Channel::default() };
    let span =
        SpanConfig { aggregate_bytes: 50_000, aggregate_wait: Duration::from_millis(3), ..SpanConfig::default() };
    let mut world = EnginePair::new(4, quiet, span);
    world.offer(0, 1, bundle(1, 100), true);
    world.run(1000);
    assert_eq!(world.now.as_nanos(), 3_000_000);
}

#[test]
fn green_blocks_arrive_whole_or_never() {
    // Green bundles count as sent when they have left.
    let mut world = EnginePair::new(8, Channel { loss: both(0.05), ..Channel::default() }, SpanConfig::default());
    for number in 0..100 {
        world.offer(0, number, bundle(number, 20_000), false);
    }
    world.run(1_000_000);
    assert_eq!(world.sides[0].done.len(), 100, "sent as soon as it left");
    world.settle();
    let arrived = world.sides[1].accepted.len();
    assert!((10..90).contains(&arrived), "{arrived} of 100 survive 15 datagrams at 5 % loss");
}

#[test]
fn a_random_mix_of_everything() {
    // Loss, delay, reordering, duplication, windows, restarts, rates and parameters are all drawn from a seed.
    for seed in 0..16 {
        println!("seed {seed}");
        let mut r = Rng::new(seed);
        let millis = |r: &mut Rng, below| Duration::from_millis(r.below(below));
        let windows =
            |r: &mut Rng| (0..30).map(|i| 3.0 * f64::from(i)).map(|s| (s + 0.5, s + 1.0 + r.unit())).collect();
        let channel = Channel {
            loss: [r.unit() * 0.4, r.unit() * 0.4],
            rate: [None, Some(DataRate(10_000_000)), Some(DataRate(1_000_000))][r.below(3) as usize],
            delay: [millis(&mut r, 300), millis(&mut r, 300)],
            jitter: Duration::from_millis(r.below(3) * 50),
            duplicate: r.unit() * 0.2,
            down: if r.chance(0.5) { windows(&mut r) } else { Vec::new() },
            told: r.chance(0.5),
        };
        let span = SpanConfig {
            attempts: 6,
            idle: Duration::from_secs(100),
            checkpoint_every: r.below(3) * 7000,
            report_every: r.below(3) * 9000,
            aggregate_bytes: r.below(2) * 8000,
            copies: 1 + r.below(2) as u32,
            ..SpanConfig::default()
        };
        let mut world = EnginePair::new(seed * 10_000, channel, span);
        world.join = 1 + r.below(20) as usize;
        world.keep = millis(&mut r, 100);
        for i in 0..r.below(8) {
            world.restart_at(r.unit() * 3.0, (i % 2) as usize);
        }
        run(world, 12);
    }
}
