//! Tests of long bundles over LTP: ranges of them are requested as they leave, and again if lost, and they are offered
//! while they arrive. Neither engine holds more than a few megabytes.

use crate::datagram_common::{Channel, EnginePair, bundle};
use farlink_base::{DataRate, Duration, Refusal};
use farlink_cla::ltp::SpanConfig;

const MIB: usize = 1 << 20;

/// Two engines with little memory.
fn world(seed: u64, channel: Channel, memory: u64) -> EnginePair {
    let span = SpanConfig { attempts: 60, checkpoint_every: 500_000, ..SpanConfig::default() };
    let mut world = EnginePair::with(seed, channel, span, |_, config| config.memory_bytes = memory);
    world.stream_from = 100_000;
    world.keep = Duration::from_millis(20);
    world
}
fn channel(loss: f64) -> Channel {
    Channel { loss: [loss; 2], rate: Some(DataRate(1_000_000_000)), ..Channel::default() }
}
fn run(world: &mut EnginePair, sizes: &[usize]) {
    for (number, size) in sizes.iter().enumerate() {
        world.offer(0, number as u64, bundle(number as u64, *size), true);
    }
    world.run(1_000_000);
    assert!(world.sides[0].done.len() == sizes.len() && world.sides[1].accepted == world.sides[0].done);
    world.settle();
}

#[test]
fn long_bundle_streams_with_little_memory() {
    for (seed, loss) in [0.0, 0.01, 0.2].into_iter().enumerate() {
        let mut world = world(seed as u64, channel(loss), 4 << 20);
        run(&mut world, &[5 * MIB + 5, 200, 3 * MIB, 130_000]);
        let [from, to] = &world.sides;
        assert!(to.most_arriving <= 6 << 20, "{} bytes held", to.most_arriving);
        assert!(loss > 0.0 || to.most_arriving <= 2 << 20, "{} bytes held without loss", to.most_arriving);
        assert!((from.failed, to.aborted) == (0, 0) && to.offers.values().all(|n| *n == 1));
        // Without loss every byte is requested at most once.
        assert!(loss > 0.0 || from.asked <= 8 * MIB as u64 + 200_000, "{} asked for", from.asked);
    }
}

#[test]
fn streaming_survives_reordering_and_repeated_loss() {
    // Datagrams are lost, reordered and duplicated at random.
    for seed in 0..2 {
        let jitter = Duration::from_millis(30);
        let channel = Channel { jitter, duplicate: 0.1, ..channel(0.05) };
        let mut world = world(seed, channel, 3 << 20);
        world.join = 20;
        run(&mut world, &[4 * MIB, 3 * MIB + 1]);
        assert!(world.sides[1].most_arriving <= 5 << 20, "{} bytes held", world.sides[1].most_arriving);
    }
}

#[test]
fn read_failure_cancels_then_retries_whole() {
    // After the failure the whole bundle is sent again.
    let mut world = world(1, channel(0.0), 4 << 20);
    world.broken.insert(0);
    run(&mut world, &[6 * MIB, 5 * MIB]);
    assert_eq!((world.sides[0].failed, world.sides[1].aborted), (1, 1));
}

#[test]
fn slow_agent_holds_and_resumes() {
    let mut world = world(2, channel(0.01), 4 << 20);
    world.hold = (0.5, Duration::from_millis(700));
    run(&mut world, &[9 * MIB, 2 * MIB]);
    assert!(world.sides[1].most_arriving <= 6 << 20, "{} bytes held", world.sides[1].most_arriving);
    assert_eq!(world.sides[0].failed, 0);
}

#[test]
fn refusal_of_first_part_stops_sending() {
    // If the first part is refused, sending the rest is useless.
    for (reason, failed) in [(Refusal::NoResources, 1), (Refusal::TooLarge, 1), (Refusal::Duplicate, 0)] {
        let mut world = world(3, channel(0.0), 4 << 20);
        world.refuse.insert(0, reason);
        if reason == Refusal::Duplicate {
            world.sides[1].accepted.insert(0);
        }
        world.offer(0, 0, bundle(0, 20 * MIB), true);
        world.input(0, farlink_base::layer::Input::Wake);
        while world.sides[0].failed == 0 && !world.is_done() {
            assert!(world.step());
        }
        assert_eq!(world.sides[0].failed, failed, "{reason:?}");
        let whole = world.sides[0].sent_bytes > 20 * MIB as u64;
        assert_eq!(whole, failed == 0, "{reason:?}: {} bytes sent", world.sides[0].sent_bytes);
    }
}

#[test]
fn either_side_may_restart_mid_bundle() {
    // The session is lost, and the bundle is sent from its beginning again.
    for side in 0..2 {
        let mut world = world(4, channel(0.02), 4 << 20);
        world.restart_at(0.05, side);
        run(&mut world, &[5 * MIB, 2 * MIB]);
    }
}
