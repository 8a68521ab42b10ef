//! Long churn of bundles: files stay within the capacity, and nothing that fits is refused.

use crate::common::{StoreWorld, disk::SimDisk, is_create, is_write, small};
use farlink_base::store::{BundleStore, DiskError, Input};
use farlink_storage::Config;
use std::collections::VecDeque;

#[test]
fn churn_stays_within_capacity() {
    let capacity = 512 * 1024;
    let mut world = StoreWorld::open(Config { segment_bytes: 16 * 1024, ..small(capacity) }, SimDisk::default(), 1);
    world.settle();
    let (mut alive, mut live, mut written) = (VecDeque::new(), 0, 0);
    while written < 12 * capacity {
        let len = 200 + world.rng.below(2000);
        alive.push_back((world.put(len), len));
        live += len;
        written += len;
        world.step();
        while live > capacity * 6 / 10 {
            // Mostly the oldest, sometimes any: garbage is spread over all files.
            let at = if world.rng.chance(0.5) { 0 } else { world.rng.below(alive.len() as u64) as usize };
            let (number, len) = alive.remove(at).unwrap();
            world.delete(number, number % 10 == 0);
            live -= len;
        }
        let usage = world.store.usage();
        assert!(usage.file_bytes <= capacity + 2 * 16 * 1024, "{usage:?}");
    }
    world.settle();
    assert_eq!(world.refused, 0, "refused although it fits");
    world.assert_all_answered("churn");
    world.reopen(world.disk.killed(), "after churn");
}

#[test]
fn numbers_stay_used_after_all_left() {
    let mut world = StoreWorld::open(small(512 * 1024), SimDisk::default(), 5);
    world.settle();
    for _ in 0..200 {
        let number = world.put(1000);
        world.settle();
        world.delete(number, false);
        world.settle();
    }
    let last = *world.known.keys().last().unwrap();
    // The following records name no bundle, so only file headers keep the last number.
    for value in 0..2000 {
        world.input(Input::SetCounter { value });
        world.settle();
    }
    let mut again = StoreWorld::open(world.config, world.disk.killed(), 1);
    again.settle();
    let (_, last_bundle) = again.opened.expect("opens");
    let left = again.disk.files.len();
    assert!(last_bundle >= last, "{last_bundle} after {last}, with {left} files");
}

#[test]
fn full_store_takes_again_after_deletions() {
    let mut world = StoreWorld::open(small(256 * 1024), SimDisk::default(), 2);
    world.settle();
    let mut alive = Vec::new();
    while world.refused == 0 {
        alive.push(world.put(1000));
        world.settle();
    }
    assert!(world.store.usage().bytes > 180_000, "{:?}", world.store.usage());
    let refused = alive.pop().unwrap();
    assert!(!world.known[&refused].stored);
    for number in alive.iter().step_by(3) {
        world.delete(*number, false);
        world.settle();
    }
    for _ in 0..alive.len() / 4 {
        world.put(1000);
        world.settle();
    }
    assert_eq!(world.refused, 1);
    world.reopen(world.disk.killed(), "after being full");
}

#[test]
fn a_burst_shares_its_syncs() {
    let mut world = StoreWorld::open(Config::new(1 << 30), SimDisk::default(), 3);
    world.settle();
    let before = world.syncs;
    for _ in 0..1000 {
        world.put(100);
    }
    world.settle();
    assert_eq!(world.refused, 0);
    assert!(world.syncs - before <= 3, "{} syncs", world.syncs - before);
}

#[test]
fn delivery_memory_forgets_the_oldest() {
    let config = Config { remembered: 10, ..small(300_000) };
    let mut world = StoreWorld::open(config, SimDisk::default(), 4);
    world.settle();
    for _ in 0..50 {
        let number = world.put(100);
        world.settle();
        world.delete(number, true);
        world.settle();
    }
    let mut again = StoreWorld::open(config, world.disk.killed(), 1);
    again.settle();
    let newest: Vec<u64> = again.deliveries.iter().map(|f| (f >> 64) as u64).collect();
    assert_eq!(newest, (41..=50).collect::<Vec<_>>());
}

#[test]
fn refused_bundle_numbers_stay_used() {
    // The bundle is refused, or deleted before it is written. The records that follow name no bundle, so only the file
    // headers keep its number from being used again.
    for refused in [true, false] {
        let mut world = StoreWorld::open(small(512 * 1024), SimDisk::default(), 8);
        world.settle();
        let number = world.put(if refused { 600_000 } else { 100 });
        if !refused {
            // This bundle never reached the disk.
            world.settle();
            world.next_bundle = 500;
            world.known.insert(500, world.known[&number].clone());
            world.delete(500, false);
        }
        for value in 0..300 {
            world.input(Input::SetCounter { value });
            world.settle();
        }
        let mut again = StoreWorld::open(world.config, world.disk.killed(), 1);
        again.settle();
        assert!(again.opened.expect("opens").1 >= if refused { number } else { 500 });
    }
}

#[test]
fn forgotten_deliveries_are_given_back() {
    // Forgotten deliveries must free their records and memory.
    let mut world = StoreWorld::open(Config { remembered: 10, ..small(300_000) }, SimDisk::default(), 6);
    world.settle();
    for _ in 0..4000 {
        let number = world.put(10);
        world.settle();
        world.delete(number, true);
        world.settle();
    }
    let usage = world.store.usage();
    assert!(usage.file_bytes < 80_000, "{usage:?}");
}

#[test]
fn forgotten_delivery_is_still_answered() {
    // The bundle was never written, and its delivery is forgotten while it waits or is written: `Deleted` still
    // follows.
    for written in [false, true] {
        let mut world = StoreWorld::open(Config { remembered: 1, ..small(300_000) }, SimDisk::default(), 7);
        world.settle();
        let numbers = [world.put(100), world.put(100)];
        world.delete(numbers[0], true);
        if written {
            world.perform_first(is_create, None);
            assert!(world.is_asked(is_write), "the first delivery is being written");
        }
        world.delete(numbers[1], true);
        if written {
            world.perform_first(is_write, Some(DiskError::Io));
        }
        world.settle();
        assert!(numbers.iter().all(|number| world.known[number].delete_answered));
    }
}

#[test]
fn files_of_deleted_bundles_removed() {
    let (capacity, segment) = (1 << 20, 16 * 1024);
    let mut world = StoreWorld::open(Config { segment_bytes: segment, ..small(capacity) }, SimDisk::default(), 5);
    world.settle();
    for round in 0..4 {
        let mut alive = VecDeque::new();
        while world.store.usage().bytes < capacity * 6 / 10 {
            let len = 200 + world.rng.below(2000);
            alive.push_back(world.put(len));
            world.step();
        }
        world.settle();
        // Bundles leave while others arrive, so every file is partly empty for a while.
        while let Some(number) = alive.pop_front() {
            world.delete(number, number % 50 == 0);
            world.step();
        }
        world.settle();
        let usage = world.store.usage();
        assert_eq!(usage.bundles, 0);
        // Half a segment is reserved for a full disk.
        let most = (3 + world.config.spares as u64) * segment + segment / 2;
        assert!(usage.file_bytes <= most, "round {round}: {} KiB, {usage:?}", usage.file_bytes / 1024);
        assert!(world.disk.kept.len() <= world.config.spares + 1 && usage.file_bytes == world.disk.len());
        assert_eq!(usage.written_over, world.remade as u64);
    }
    assert_eq!(world.refused, 0);
    world.reopen(world.disk.killed(), "after all went");
}

#[test]
fn emptied_file_removed_at_once() {
    let segment = 8192;
    let mut world = StoreWorld::open(Config { segment_bytes: segment, ..small(4 << 20) }, SimDisk::default(), 6);
    world.settle();
    for _ in 0..2000 {
        let number = world.put(100);
        world.settle();
        world.delete(number, false);
        world.settle();
        let files = world.store.usage().file_bytes;
        // Half a segment is reserved for a full disk.
        assert!(files <= 2 * segment + segment / 2, "{files} B of files for one bundle");
    }
    assert_eq!(world.store.usage().bundles, 0);
    world.reopen(world.disk.killed(), "after all went");
}

#[test]
fn joint_reads_isolate_a_bad_record() {
    let mut world = StoreWorld::open(Config { seed: 7, ..Config::new(1 << 30) }, SimDisk::default(), 4);
    world.settle();
    let numbers: Vec<u64> = (0..300).map(|n| world.put(if n % 50 == 49 { 100_000 } else { 5000 })).collect();
    world.settle();
    // Deletions leave gaps between the records.
    let gone: Vec<u64> = numbers.iter().copied().filter(|number| number % 10 == 3).collect();
    gone.iter().for_each(|number| world.delete(*number, false));
    let left: Vec<u64> = numbers.iter().copied().filter(|number| !gone.contains(number)).collect();
    let load_all = |world: &mut StoreWorld| {
        world.loaded.clear();
        let before = world.disk.count;
        left.iter().for_each(|number| world.load(*number));
        let mut most = 0;
        while world.loaded.len() < left.len() {
            most = most.max(world.outstanding.len());
            assert!(world.step(), "a load is not answered");
        }
        (world.disk.count - before, most)
    };
    let (reads, most) = load_all(&mut world);
    assert!(reads < 60 && most <= 12, "{reads} reads of {} records, {most} at once", left.len());
    for number in &left {
        let payload = world.loaded[number].clone().expect("it can be read").to_bytes().unwrap();
        assert_eq!(payload, world.known[number].payload, "{number}");
    }
    // One damaged record must not fail the others of its shared read.
    let bad = left[20];
    let needle = world.known[&bad].payload.slice(1000..1064);
    for file in world.disk.files.values_mut() {
        let at = file.cache.windows(64).position(|bytes| bytes == &needle[..]);
        at.into_iter().for_each(|at| file.cache[at] ^= 1);
    }
    load_all(&mut world);
    let failed: Vec<u64> = left.iter().copied().filter(|number| world.loaded[number].is_err()).collect();
    assert_eq!((failed, world.damage), (vec![bad], 1));
    // Reads fail for a while: each record of a shared read is then read on its own.
    world.disk.fail = Some((world.disk.count + 9..world.disk.count + 12, farlink_base::store::DiskError::Io));
    load_all(&mut world);
    world.disk.fail = None;
    let failed = left.iter().filter(|number| world.loaded[number].is_err()).count();
    assert!((1..=4).contains(&failed), "{failed}: the damaged record, and reads that failed again");
}
