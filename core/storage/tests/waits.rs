//! Start of commits: which records wait for others, and which do not.

use crate::common::{StoreWorld, disk::SimDisk, is_create, is_read, is_reserve, is_write, small};
use farlink_base::store::{BundleStore, DiskAction, DiskError, Input};
use farlink_base::{Duration, Instant};
use farlink_storage::Config;

const WAIT: Duration = Duration::from_millis(10);

/// A store with a file, in which a lone bundle waits.
fn open(seed: u64) -> StoreWorld {
    let mut world = StoreWorld::open(Config { commit_wait: WAIT, ..small(400_000) }, SimDisk::default(), seed);
    world.settle();
    world.put(100);
    world.settle();
    world
}
fn after(world: &StoreWorld, wait: Duration) -> Option<Instant> {
    Some(world.now + wait)
}

#[test]
fn each_lone_bundle_waits_for_company() {
    let mut world = open(1);
    for _ in 0..3 {
        world.wake_after_ms(1000);
        let number = world.put(100);
        assert!(!world.is_asked(is_write));
        assert_eq!(world.store.next_timeout(), after(&world, WAIT));
        world.settle();
        assert!(world.known[&number].stored);
    }
}

#[test]
fn bundle_after_cancellation_waits() {
    let mut world = open(2);
    let cancelled = world.put(100);
    world.delete(cancelled, false);
    world.settle();
    world.wake_after_ms(1000);
    let number = world.put(100);
    assert!(!world.is_asked(is_write));
    assert_eq!(world.store.next_timeout(), after(&world, WAIT));
    world.settle();
    assert!(world.known[&number].stored);
}

#[test]
fn each_lone_deletion_waits_for_company() {
    let mut world = open(3);
    let numbers = [(); 3].map(|()| world.put(100));
    world.settle();
    for number in numbers {
        world.wake_after_ms(1000);
        world.delete(number, false);
        assert_eq!(world.store.next_timeout(), after(&world, world.config.delete_wait));
        world.settle();
    }
}

#[test]
fn delivery_is_written_at_once() {
    let mut world = StoreWorld::open(small(400_000), SimDisk::default(), 4);
    world.settle();
    let number = world.put(100);
    world.settle();
    world.delete(number, true);
    assert!(world.is_asked(is_write));
}

#[test]
fn lone_counter_is_written() {
    let mut world = open(5);
    world.input(Input::SetCounter { value: 7 });
    world.settle();
    assert_eq!(world.counter, 7);
}

#[test]
fn failed_creation_retried_with_pauses() {
    for error in [DiskError::Full, DiskError::Io] {
        let mut world = StoreWorld::open(small(400_000), SimDisk::default(), 6);
        world.perform_all();
        let number = world.put(100);
        assert!(world.is_asked(is_create));
        world.perform_first(is_create, Some(error));
        // Bundles do not wait for a file that may never be made.
        assert!(world.known[&number].answered && !world.known[&number].stored);
        let mut tries = 0;
        for _ in 0..300 {
            world.input(Input::SetCounter { value: 1 });
            while world.is_asked(is_create) {
                tries += 1;
                world.perform_first(is_create, Some(error));
            }
            world.perform_all();
            world.wake_after_ms(100);
        }
        assert!((15..40).contains(&tries), "{tries} times in half a minute");
        assert_eq!(world.counter, 0);
        world.settle();
        assert_eq!(world.counter, 1);
    }
}

#[test]
fn failed_loads_are_told() {
    let mut world = open(7);
    world.load(1);
    world.perform_first(is_read, Some(DiskError::Io));
    assert_eq!((world.loaded[&1].is_err(), world.failures), (true, 1));
}

#[test]
fn missing_reserve_is_told() {
    let mut world =
        StoreWorld::open(small(600_000), SimDisk { reserves_fail: Some(DiskError::Full), ..SimDisk::default() }, 8);
    while !world.is_asked(is_reserve) {
        world.step();
    }
    world.perform_first(is_reserve, None);
    assert_eq!(world.failures, 1);
}

#[test]
fn write_has_few_slices() {
    // Short payloads are copied beside their headers; long ones become slices of their own.
    let mut world = open(9);
    for (count, len, slices) in [(4, 100, 1), (1, 3000, 2)] {
        (0..count).for_each(|_| _ = world.put_bytes(vec![7; len]));
        world.wake_after_ms(20);
        let written = world.outstanding.iter().find_map(|op| match &op.action {
            DiskAction::Write { data, .. } => Some(data.chunks().len()),
            _ => None,
        });
        assert_eq!(written, Some(slices), "{count} of {len} B");
        world.settle();
    }
}

#[test]
fn deletion_and_bundle_share_a_commit() {
    let mut world = open(10);
    let before = world.syncs;
    world.delete(1, false);
    let number = world.put(100);
    world.settle();
    assert!(world.known[&number].stored);
    assert_eq!(world.syncs, before + 1);
}

#[test]
fn small_writes_wait_for_current_group() {
    let mut world = StoreWorld::open(small(400_000), SimDisk::default(), 11);
    world.settle();
    world.put(100);
    world.settle();
    let writes = |world: &StoreWorld| world.outstanding.iter().filter(|op| is_write(op)).count();
    world.put(3000);
    world.put(100);
    assert_eq!(writes(&world), 1, "it is not worth a sync of its own");
    world.put(3000);
    assert_eq!(writes(&world), 2);
}
