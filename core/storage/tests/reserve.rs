//! Disk space reserved for deletions: when it is used, which bundles are refused meanwhile, and how soon the store
//! takes bundles again.

use crate::common::{StoreWorld, disk::SimDisk, is_create, is_read, is_remove, is_reserve, is_sync, is_write, small};
use farlink_base::Duration;
use farlink_base::store::{BundleStore, DiskAction, DiskError, DiskOp, Input};
use farlink_storage::Config;

/// A store with files of 1 MiB that reserves 64 KiB.
fn open(seed: u64, disk: SimDisk) -> StoreWorld {
    let config = Config { segment_bytes: 1 << 20, reserve_bytes: 64 << 10, ..Config::new(32 << 20) };
    let mut world = StoreWorld::open(config, disk, seed);
    while world.opened.is_none() {
        world.step();
    }
    world
}
/// Puts a bundle too long for the newest file, so that the next one is created.
fn ask_for_file(world: &mut StoreWorld) -> u64 {
    let number = world.put(900_000);
    assert!(world.is_asked(is_create), "a file is asked for");
    number
}
/// Leaves no free byte to anyone.
fn fill_disk(world: &mut StoreWorld) {
    world.disk.space = Some(world.disk.len());
}
/// Fills the disk; deletions are in the file made of the reserve. Returns the bundles left in the first file, and a
/// long bundle of the second file, which also has a short one.
fn full(world: &mut StoreWorld) -> (Vec<u64>, u64) {
    world.pass_tenths(1);
    let numbers: Vec<u64> = (0..9).map(|_| world.put(100_000)).collect();
    world.pass_tenths(2);
    let next = world.put(200_000);
    let middle = world.put(50_000);
    world.put(1000);
    world.pass_tenths(2);
    fill_disk(world);
    ask_for_file(world);
    world.delete(next, true);
    world.perform_first(is_create, Some(DiskError::Full));
    world.pass_tenths(2);
    assert!(world.known[&next].delete_answered && world.disk.reserves_used == 1);
    (numbers, middle)
}
/// Lets time pass until the pauses between retries are long and one has just begun.
fn long_pause(world: &mut StoreWorld) {
    world.pass_tenths(100);
    while !world.is_asked(is_reserve) {
        world.now = world.store.next_timeout().expect("it is tried again").max(world.now);
        world.input(Input::Wake);
    }
    world.perform_first(is_reserve, None);
    assert!(world.store.next_timeout() > Some(world.now + Duration::from_secs(1)));
}

#[test]
fn delivery_answered_without_new_file() {
    let mut world = open(1, SimDisk::default());
    world.pass_tenths(1);
    let number = world.put(500_000);
    world.pass_tenths(2);
    ask_for_file(&mut world);
    world.delete(number, true);
    for _ in 0..20 {
        while let Some(op) = world.outstanding.first() {
            // The reserve is on disk already, so it can be used even if no file can be made.
            let fails = matches!(op.action, DiskAction::Create { of: None, .. });
            let kind = if fails { is_create } else { |_: &DiskOp| true };
            world.perform_first(kind, fails.then_some(DiskError::Full));
        }
        world.now += Duration::from_millis(100);
        world.input(Input::Wake);
    }
    assert!(world.known[&number].delete_answered);
}

#[test]
fn freed_disk_costs_no_reserve() {
    let mut world = open(8, SimDisk::default());
    world.pass_tenths(1);
    world.put(500_000);
    world.pass_tenths(2);
    ask_for_file(&mut world);
    world.perform_first(is_create, Some(DiskError::Full));
    world.pass_tenths(2);
    let passing = world.put(300_000);
    world.pass_tenths(2);
    world.delete(passing, false);
    world.pass_tenths(2);
    // The newest file is empty: on a full disk another one would be made of the reserve.
    let next = ask_for_file(&mut world);
    world.pass_tenths(2);
    assert!(world.known[&passing].stored && world.known[&next].stored);
    assert_eq!(world.disk.reserves_used, 0);
}

#[test]
fn file_takes_only_deletable_bundles() {
    // Three quarters of 8 KiB hold a header and 67 delete records.
    let mut world = StoreWorld::open(Config { segment_bytes: 16_384, ..small(600_000) }, SimDisk::default(), 11);
    world.settle();
    (0..150).for_each(|_| _ = world.put(1));
    world.settle();
    (0..150).for_each(|_| {
        world.put(1);
        world.settle();
    });
    let records = |bytes: &[u8]| bytes.windows(5).filter(|bytes| bytes == b"FLr1\x01").count();
    let counts: Vec<usize> = world.disk.files.values().map(|file| records(&file.cache)).collect();
    assert!(counts.iter().sum::<usize>() == 300 && counts.iter().max() == Some(&67), "{counts:?}");
}

#[test]
fn deletion_after_failure_is_written_alone() {
    let mut world = open(10, SimDisk::default());
    world.pass_tenths(1);
    let delivered = world.put(900_000);
    world.pass_tenths(2);
    world.disk.space = Some(world.disk.len() + 500_000);
    ask_for_file(&mut world);
    world.perform_all_but(is_sync);
    world.delete(delivered, true);
    world.perform_all();
    world.now = world.store.next_timeout().expect("it is tried again");
    let long = world.put(900_000);
    world.perform_all();
    assert!(world.known[&delivered].delete_answered && !world.known[&long].stored);
    assert_eq!(world.disk.reserves_used, 0);
}

#[test]
fn refused_bundles_leave_their_room() {
    // Bundles and spills refused for want of a file give back the store's room they waited for.
    for spills in [false, true] {
        let mut world = open(9, SimDisk::default());
        world.pass_tenths(1);
        world.put(500_000);
        world.pass_tenths(2);
        for round in 0..60 {
            if spills {
                let data = vec![7; 900_000];
                world.spill_parts(vec![data]);
            } else {
                world.put(900_000);
            }
            world.perform_first(is_create, Some(DiskError::Io));
            world.drop_spills();
            assert_eq!(world.store.usage().bundles, 1, "round {round}");
            world.pass_tenths(20);
        }
        let number = world.put(900_000);
        world.pass_tenths(2);
        assert!(world.known[&number].stored);
    }
}

#[test]
fn waiting_copies_give_way_to_deliveries() {
    let mut world = open(2, SimDisk::default());
    world.pass_tenths(1);
    let numbers: Vec<u64> = (0..13).map(|_| world.put(75_000)).collect();
    world.pass_tenths(2);
    let next = world.put(200_000);
    world.pass_tenths(2);
    numbers[1..].iter().for_each(|number| world.delete(*number, false));
    world.now += Duration::from_millis(60);
    world.input(Input::Wake);
    world.perform_all_but(is_read);
    ask_for_file(&mut world);
    // The remaining bundle is longer than the reserve.
    world.perform_first(is_read, None);
    world.delete(next, true);
    fill_disk(&mut world);
    world.perform_first(is_create, Some(DiskError::Full));
    world.pass_tenths(10);
    assert_eq!(world.disk.reserves_used, 1);
    assert!(world.known[&next].delete_answered);
    world.reopen(world.disk.killed(), "after copies were dropped");
}

#[test]
fn copy_without_room_stalls_no_compaction() {
    // The reserve is hardly longer than a file header.
    let mut world = open(3, SimDisk { reserves: Some(5000), ..SimDisk::default() });
    world.pass_tenths(1);
    let short = world.put(1000);
    let long: Vec<u64> = (0..8).map(|_| world.put(100_000)).collect();
    let middle = world.put(150_000);
    world.pass_tenths(2);
    let first = *world.disk.files.keys().next().expect("a file");
    world.put(100_000);
    world.pass_tenths(2);
    long.iter().for_each(|number| world.delete(*number, false));
    world.pass_tenths(2);
    world.put(260_000);
    world.perform_first(is_write, None);
    fill_disk(&mut world);
    ask_for_file(&mut world);
    world.perform_first(is_create, Some(DiskError::Full));
    world.perform_first(is_sync, Some(DiskError::Io));
    world.delete(middle, true);
    world.pass_tenths(30);
    assert_eq!(world.disk.reserves_used, 1);
    assert!(world.disk.files.contains_key(&first), "there is no room for the bundle in it");
    (world.disk.space, world.disk.reserves) = (None, None);
    world.pass_tenths(30);
    world.put(100);
    world.pass_tenths(30);
    assert!(!world.disk.files.contains_key(&first) && world.known[&short].stored, "it is moved once there is room");
    world.reopen(world.disk.killed(), "after a copy had no room");
}

#[test]
fn overlong_bundle_costs_no_waiting_bundle() {
    let mut world = open(4, SimDisk { space: Some(5 << 20), ..SimDisk::default() });
    world.pass_tenths(1);
    let delivered = world.put(1000);
    world.pass_tenths(2);
    let long = world.put(6 << 20);
    world.perform_first(is_create, None);
    assert!(world.is_asked(is_write), "it is being written");
    let short = world.put(1000);
    world.delete(delivered, true);
    world.pass_tenths(10);
    let known = &world.known;
    assert!(known[&long].answered && !known[&long].stored);
    assert!(known[&short].stored && known[&delivered].delete_answered);
    assert_eq!(world.disk.reserves_used, 0, "the disk is not full");
}

#[test]
fn failed_bundle_refused_when_nothing_keeps() {
    let mut world = open(5, SimDisk { reserves_fail: Some(DiskError::Full), ..SimDisk::default() });
    let number = world.put(1000);
    world.perform_first(is_create, None);
    world.perform_first(is_write, None);
    world.perform_first(is_reserve, None);
    assert!(!world.known[&number].answered, "it is being written");
    world.perform_first(is_sync, Some(DiskError::Io));
    assert!(world.known[&number].answered && !world.known[&number].stored);
    // The failed bundle is refused at once, not only when the reserve can be made, and leaves nothing in the store.
    world.pass_tenths(50);
    assert_eq!(world.store.usage().bundles, 0);
}

#[test]
fn removed_file_reopens_store_at_once() {
    let mut world = open(6, SimDisk::default());
    let (numbers, _) = full(&mut world);
    long_pause(&mut world);
    numbers.iter().for_each(|number| world.delete(*number, false));
    assert!(!world.is_asked(is_reserve));
    world.perform_first(is_remove, None);
    world.perform_first(is_reserve, None);
    let number = world.put(1000);
    world.perform_all();
    assert!(world.known[&number].stored);
    assert_eq!(world.store.usage().file_bytes, world.disk.len(), "the reserve counts once");
}

#[test]
fn nearly_empty_file_is_emptied() {
    let mut world = open(12, SimDisk::default());
    let (_, middle) = full(&mut world);
    long_pause(&mut world);
    world.delete(middle, true);
    world.perform_first(is_write, None);
    world.perform_first(is_sync, None);
    assert!(world.is_asked(is_read), "the rest of its file is moved");
}

#[test]
fn file_empties_without_room_for_deletions() {
    // The file made of the reserve has no room for the deletion either, so no commit follows.
    let mut world = open(13, SimDisk::default());
    world.pass_tenths(1);
    let mut short: Vec<u64> = (0..480).map(|_| world.put(10)).collect();
    let long = world.put(100_000);
    let stays = world.put(1000);
    world.pass_tenths(2);
    world.put(900_000);
    short.extend((0..60).map(|_| world.put(10)));
    world.pass_tenths(2);
    fill_disk(&mut world);
    ask_for_file(&mut world);
    short.iter().for_each(|number| world.delete(*number, true));
    world.perform_first(is_create, Some(DiskError::Full));
    world.pass_tenths(50);
    let owed = |world: &StoreWorld| short.iter().filter(|number| !world.known[number].delete_answered).count();
    assert!((1..100).contains(&owed(&world)), "{} deletions found no room", owed(&world));
    world.delete(long, true);
    world.pass_tenths(50);
    assert!(owed(&world) == 0 && world.known[&long].delete_answered);
    assert!(world.known[&stays].stored);
    world.reopen(world.disk.killed(), "after a file was emptied");
}

#[test]
fn removed_spare_reopens_store_at_once() {
    let config = Config { segment_bytes: 16_384, ..small(600_000) };
    let mut world = StoreWorld::open(config, SimDisk { reserves_fail: Some(DiskError::Io), ..SimDisk::default() }, 7);
    world.pass_tenths(1);
    let numbers: Vec<u64> = (0..60).map(|_| world.put(1000)).collect();
    world.pass_tenths(5);
    numbers.iter().for_each(|number| world.delete(*number, false));
    world.pass_tenths(50);
    assert!(!world.disk.kept.is_empty(), "no file is kept to be written over");
    while !world.is_asked(is_reserve) {
        world.now = world.store.next_timeout().expect("it is tried again").max(world.now);
        world.input(Input::Wake);
    }
    world.disk.reserves_fail = Some(DiskError::Full);
    world.perform_first(is_reserve, None);
    world.disk.reserves_fail = None;
    assert!(world.store.next_timeout() > Some(world.now + Duration::from_secs(1)));
    world.perform_first(is_remove, None);
    world.perform_first(is_reserve, None);
    let number = world.put(1000);
    world.perform_all();
    assert!(world.known[&number].stored);
}
