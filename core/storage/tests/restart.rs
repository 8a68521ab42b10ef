//! Restarts with lost headers, records or whole files: recovered content, counts and reports.

use crate::common::disk::SimDisk;
use crate::common::{StoreWorld, is_read, is_sync, is_write, small};
use farlink_base::DtnTime;
use farlink_base::store::{DiskAction, DiskError};
use farlink_base::{Chunk, Extent, Payload, Rng};
use farlink_storage::Config;

fn open(seed: u64, config: Config) -> StoreWorld {
    let mut world = StoreWorld::open(config, SimDisk::default(), seed);
    world.settle();
    world
}
/// Starts on this disk and continues with the numbers of `before`.
fn again(before: &StoreWorld, disk: SimDisk) -> StoreWorld {
    let mut world = StoreWorld::open(before.config, disk, 1);
    world.settle();
    assert!(world.opened.is_some());
    world.next_bundle = 1 << 40;
    world
}
fn newest(world: &StoreWorld) -> u32 {
    *world.disk.files.keys().next_back().expect("a file")
}
/// Flips a bit in each copy of a short header.
fn lose_header(bytes: &mut [u8]) {
    bytes[20] ^= 1;
    bytes[64 + 20] ^= 1;
}
/// Highest spill number in these extents.
fn spill_of(rope: &Payload) -> u64 {
    let number = |chunk: &Chunk| match chunk {
        Chunk::Stored { extent, .. } => extent.record.checked_sub(Extent::SPILL),
        _ => None,
    };
    rope.chunks().iter().filter_map(number).max().expect("it is on disk")
}
/// Number that the next spill gets.
fn next_spill(world: &mut StoreWorld) -> u64 {
    world.spill_parts(vec![vec![5; 50]]);
    world.settle();
    let (spill, arriving) = world.arriving.pop_last().expect("it arrives");
    world.input(farlink_base::store::Input::DropSpill { spill });
    spill_of(&arriving.rope())
}
/// Puts a bundle whose bytes are in one file and whose record is in the next; returns it and the file of its bytes.
fn spilled_apart(world: &mut StoreWorld) -> (u64, u32) {
    world.spill_parts(vec![vec![3; 500]]);
    world.settle();
    let file = newest(world);
    world.put(7500);
    world.settle();
    world.finish_spills_surely();
    world.settle();
    assert!(newest(world) > file);
    (world.next_bundle - 1, file)
}

#[test]
fn secret_is_the_same_after_restart() {
    let mut world = open(1, small(400_000));
    for seed in 2..5 {
        world.put(100);
        world.settle();
        let config = Config { seed, ..world.config };
        let mut next = StoreWorld::open(config, world.disk.killed(), 1);
        next.settle();
        assert_eq!(next.secret, world.secret);
        world.disk = next.disk;
    }
}

#[test]
fn file_without_header_is_read() {
    // Three bundles fit in one file, 40 take several.
    for count in [3, 40] {
        let mut world = open(2, small(400_000));
        (0..count).for_each(|_| _ = world.put(1000));
        world.settle();
        let files: Vec<u32> = world.disk.files.keys().copied().collect();
        for file in files {
            let mut disk = world.disk.killed();
            disk.files.get_mut(&file).expect("there").damage(lose_header);
            let next = world.reopen(disk, "without a header");
            assert!(next.damage > 0);
        }
    }
}

#[test]
fn headerless_file_read_behind_damage() {
    let mut world = open(3, small(400_000));
    let numbers: Vec<u64> = (0..12).map(|_| world.put(1000)).collect();
    world.settle();
    let first = *world.disk.files.keys().next().expect("a file");
    let mut disk = world.disk.killed();
    let file = disk.files.get_mut(&first).expect("there");
    file.damage(lose_header);
    file.damage(|bytes| bytes[130] ^= 1);
    let next = again(&world, disk);
    let lost: Vec<&u64> = numbers.iter().filter(|number| !next.recovered.contains_key(number)).collect();
    assert_eq!(lost, [&numbers[0]], "whose record begins behind the header");
}

#[test]
fn urgent_bundles_are_recovered_first() {
    let mut world = open(4, small(400_000));
    (0..50).for_each(|_| _ = world.put(100));
    world.settle();
    let next = world.reopen(world.disk.killed(), "ordered");
    let urgency = |number: &u64| {
        let index = world.known[number].index;
        (core::cmp::Reverse(index.priority), index.expires.unwrap_or(DtnTime(u64::MAX)), *number)
    };
    assert!(next.recovered_order.len() == 50 && next.recovered_order.is_sorted_by_key(urgency));
}

#[test]
fn recovered_bundles_count_to_their_quotas() {
    let config = Config { quota_bytes: 3000, ..small(400_000) };
    let mut world = open(5, config);
    let numbers: Vec<u64> = (0..3).map(|_| world.put(2500)).collect();
    world.settle();
    assert!(numbers.iter().all(|number| world.known[number].stored));
    let mut next = world.reopen(world.disk.killed(), "with quotas");
    let refused: Vec<u64> = (0..3).map(|_| next.put(900)).collect();
    next.settle();
    assert!(refused.iter().all(|number| next.known[number].answered && !next.known[number].stored));
}

#[test]
fn lost_spill_number_stays_used() {
    let mut world = open(6, small(400_000));
    let (number, file) = spilled_apart(&mut world);
    let used = spill_of(&world.known[&number].rope);
    // A record without its bytes is dropped, yet its spill number must not be given to other bytes.
    let mut disk = world.disk.killed();
    let lost = disk.files.remove(&file).expect("there");
    let mut next = again(&world, disk);
    assert!(!next.recovered.contains_key(&number));
    assert_eq!(next.damage, 1, "a bundle without its bytes is damage");
    assert!(next_spill(&mut next) > used);
    // The file returns with the bundle's bytes, but the bundle was deleted meanwhile and stays deleted.
    next.known.insert(number, world.known[&number].clone());
    next.delete(number, false);
    next.settle();
    let mut disk = next.disk.killed();
    disk.files.insert(file, lost);
    assert!(!again(&world, disk).recovered.contains_key(&number));
}

#[test]
fn damaged_spill_number_stays_used() {
    let mut world = open(7, small(400_000));
    world.spill_parts(vec![vec![3; 500]]);
    world.settle();
    let used = spill_of(&world.arriving[&1].rope());
    let mut disk = world.disk.killed();
    let file = disk.files.get_mut(&newest(&world)).expect("there");
    let at = file.cache.windows(400).position(|bytes| bytes == [3; 400]).expect("its bytes");
    file.damage(|bytes| bytes[at] ^= 1);
    assert!(next_spill(&mut again(&world, disk)) > used);
}

#[test]
fn unreadable_file_numbers_stay_used() {
    let mut world = open(8, small(400_000));
    let (number, file) = spilled_apart(&mut world);
    let mut disk = world.disk.killed();
    disk.files.get_mut(&file).expect("there").damage(|bytes| bytes.fill(0x55));
    let mut next = again(&world, disk);
    assert!(!next.recovered.contains_key(&number) && next.damage > 0);
    let (_, last_bundle) = next.opened.expect("open");
    assert!(last_bundle >= 1 << 32 && next_spill(&mut next) >= 1 << 32);
    assert!(next.disk.files.contains_key(&file), "its store is unknown");
}

#[test]
fn start_continues_after_shortened_file() {
    let mut world = open(9, small(400_000));
    let numbers: Vec<u64> = (0..3).map(|_| world.put(1000)).collect();
    world.settle();
    let file = newest(&world);
    let mut next = StoreWorld::open(world.config, world.disk.killed(), 1);
    while !next.is_asked(is_read) {
        next.step();
    }
    next.perform_first(is_read, None);
    // The file is read again before any of its bundles is reported.
    assert!(next.is_asked(|op| matches!(op.action, DiskAction::Read { offset: 0, .. })));
    next.disk.files.get_mut(&file).expect("there").cache.clear();
    next.settle();
    assert!(next.opened.is_some());
    assert!(numbers.iter().all(|number| next.recovered.contains_key(number)));
}

#[test]
fn start_on_full_disk_reports_failure() {
    for is in [is_write, is_sync] {
        let mut world = open(10, small(400_000));
        (0..3).for_each(|_| _ = world.put(1000));
        world.settle();
        let mut next = StoreWorld::open(world.config, world.disk.killed(), 1);
        while !next.is_asked(is) {
            assert!(next.step(), "recovered bundles are not written again");
        }
        next.perform_first(is, Some(DiskError::Full));
        assert_eq!(next.failures, 1);
        next.settle();
        assert_eq!(next.recovered.len(), 3);
        // A file that may be incomplete on disk is copied first.
        assert!(!next.disk.files.contains_key(&newest(&world)));
        world.reopen(next.disk.power_cut(&[], &mut Rng::new(10)), "after a start on a full disk");
    }
}

#[test]
fn doubtful_files_are_rewritten_whole() {
    // Two files have groups that were not synced before the kill: both are rewritten from their beginning.
    let mut world = open(11, small(400_000));
    world.put(100);
    world.settle();
    world.put(6000);
    world.put(7000);
    world.perform_all_but(is_sync);
    assert!(world.overlapped > 0);
    let mut next = StoreWorld::open(world.config, world.disk.killed(), 1);
    let mut written = std::collections::BTreeMap::<u32, Vec<u64>>::new();
    while next.opened.is_none() {
        for op in next.outstanding.clone() {
            if let DiskAction::Write { file, offset, .. } = op.action {
                written.entry(file).or_default().push(offset);
            }
        }
        assert!(next.step());
    }
    let offsets: Vec<&[u64]> = written.values().map(Vec::as_slice).collect();
    assert_eq!(offsets, [[0, 4096], [0, 4096]]);
    assert_eq!(next.recovered.len(), 3);
}

#[test]
fn whole_files_without_header_are_undamaged() {
    for segment_bytes in [8192, 1 << 20] {
        let mut world = open(12, Config { segment_bytes, ..small(64 << 20) });
        (0..20).for_each(|_| _ = world.put(1000));
        world.settle();
        assert_eq!(world.reopen(world.disk.killed(), "whole").damage, 0);
    }
}
