//! Compaction: damaged and unreadable records, overtaken copies, and the amount read.

use crate::common::{StoreWorld, disk::SimDisk, is_create, is_read, is_remove, is_write, small};
use farlink_base::store::{BundleStore, DiskError};
use farlink_base::{DtnTime, Refusal};
use farlink_storage::Config;

fn open(seed: u64, config: Config) -> StoreWorld {
    let mut world = StoreWorld::open(config, SimDisk::default(), seed);
    world.settle();
    world
}
fn files(world: &StoreWorld) -> Vec<u32> {
    world.disk.files.keys().copied().collect()
}
fn newest(world: &StoreWorld) -> u32 {
    *world.disk.files.keys().next_back().expect("a file")
}
/// Flips a bit at the only place of a file that holds these bytes.
fn damage(world: &mut StoreWorld, file: u32, needle: &[u8]) {
    let file = world.disk.files.get_mut(&file).expect("there");
    let at = file.cache.windows(needle.len()).position(|bytes| bytes == needle).expect("they are in it");
    file.damage(|bytes| bytes[at] ^= 1);
}
/// Fills the newest file with bundles and begins another; both are settled.
fn fill(world: &mut StoreWorld) -> Vec<u64> {
    let (before, mut numbers) = (newest(world), Vec::new());
    while newest(world) == before {
        numbers.push(world.put(1500));
        world.settle();
    }
    numbers
}
fn delete_all(world: &mut StoreWorld, numbers: &[u64]) {
    numbers.iter().for_each(|number| world.delete(*number, false));
}

#[test]
fn damaged_bundle_is_reported_and_forgotten() {
    let mut world = open(1, small(400_000));
    let (damaged, whole) = (world.put(300), world.put(50));
    world.settle();
    let file = newest(&world);
    let passing = fill(&mut world);
    let rope = world.known[&damaged].rope.clone();
    let needle = world.known[&damaged].payload.slice(100..200);
    damage(&mut world, file, &needle);
    let before = world.store.usage();
    delete_all(&mut world, &passing[..passing.len() - 1]);
    world.settle();
    assert_eq!(world.damage, 1);
    assert!(!files(&world).contains(&file), "nothing lives in it");
    assert!(!world.disk.kept.contains_key(&file), "a file with damaged records is not recycled");
    assert_eq!(world.store.usage().bundles, before.bundles - passing.len() as u64);
    assert_eq!(world.load_rope(rope), Err(Refusal::Unknown));
    let rope = world.known[&whole].rope.clone();
    assert_eq!(world.load_rope(rope).expect("it is whole"), world.known[&whole].payload);
    world.known.remove(&damaged);
    world.reopen(world.disk.killed(), "after damage");
}

#[test]
fn damaged_delivery_is_written_again() {
    // Two cases: the file with the bundle's own record still exists, or was removed.
    for stays in [true, false] {
        let mut world = open(2, small(400_000));
        let (delivered, beside) = (world.put(100), world.put(4000));
        world.settle();
        let its = newest(&world);
        let passing = fill(&mut world);
        let file = newest(&world);
        world.delete(delivered, true);
        world.settle();
        if !stays {
            world.delete(beside, false);
            delete_all(&mut world, &passing[..passing.len() - 1]);
            world.settle();
        }
        assert_eq!(files(&world).contains(&its), stays);
        let mut passing = fill(&mut world);
        // All bundles of the file are deleted: also the one before `passing`, which begins the file, but not the last
        // one, which begins the next file.
        passing.insert(0, passing[0] - 1);
        passing.pop();
        let fingerprint = world.known[&delivered].index.fingerprint.to_le_bytes();
        damage(&mut world, file, &fingerprint);
        delete_all(&mut world, &passing);
        world.settle();
        assert_eq!(world.damage, 1);
        assert!(!files(&world).contains(&file));
        world.reopen(world.disk.killed(), "after a delivery was written again");
    }
}

#[test]
fn damaged_spill_is_reported_without_search() {
    let mut world = open(3, small(400_000));
    world.spill_parts(vec![vec![7; 200], vec![8; 200]]);
    world.settle();
    world.finish_spills_surely();
    world.settle();
    let (number, file) = (world.next_bundle - 1, newest(&world));
    let passing = fill(&mut world);
    let rope = world.known[&number].rope.clone();
    damage(&mut world, file, &[8; 100]);
    delete_all(&mut world, &passing[..passing.len() - 1]);
    world.settle();
    assert_eq!(world.damage, 1);
    assert!(!files(&world).contains(&file));
    assert_eq!(world.load_rope(rope.clone()), Err(Refusal::Damaged));
    assert_eq!(world.load_rope(rope.slice(0, 199)).expect("the first part is whole"), vec![7; 199]);
}

#[test]
fn unreadable_file_is_left_alone() {
    let config = Config { segment_bytes: 32_768, ..small(1_200_000) };
    let mut world = open(4, config);
    world.put(100);
    world.settle();
    let file = newest(&world);
    let mut passing = fill(&mut world);
    // One bundle at each end of the file stays: too far apart for one read.
    passing.pop();
    passing.pop();
    delete_all(&mut world, &passing);
    world.wake_after_ms(100);
    let mut reads = 0;
    for _ in 0..20 {
        world.perform_all_but(is_read);
        while world.is_asked(is_read) {
            world.perform_first(is_read, Some(DiskError::Io));
            reads += 1;
        }
        world.wake_after_ms(100);
    }
    assert_eq!((reads, world.failures), (1, 1));
    assert!(files(&world).contains(&file));
    world.reopen(world.disk.killed(), "after a file could not be read");
}

#[test]
fn short_records_read_at_once() {
    let config = Config { segment_bytes: 16_384, ..small(600_000) };
    let mut world = open(5, config);
    for _ in 0..6 {
        world.put(20);
    }
    world.settle();
    let file = newest(&world);
    let passing = fill(&mut world);
    delete_all(&mut world, &passing[..passing.len() - 1]);
    let mut reads = 0;
    while files(&world).contains(&file) {
        world.perform_all_but(is_read);
        while world.is_asked(is_read) {
            world.perform_first(is_read, None);
            reads += 1;
        }
        world.wake_after_ms(100);
    }
    assert_eq!(reads, 1);
}

#[test]
fn delivery_past_its_time_forgotten() {
    let mut world = open(6, small(400_000));
    let (past, lasting) = (world.put(100), world.put(100));
    world.settle();
    world.delete_until(past, Some(DtnTime(5)));
    world.delete_until(lasting, Some(DtnTime(u64::MAX)));
    world.settle();
    let file = newest(&world);
    let passing = fill(&mut world);
    delete_all(&mut world, &passing[..passing.len() - 1]);
    world.settle();
    assert!(!files(&world).contains(&file), "nothing was compacted");
    let mut again = StoreWorld::open(world.config, world.disk.killed(), 1);
    again.settle();
    let known = |number: &u64| again.deliveries.contains(&world.known[number].index.fingerprint);
    assert!(!known(&past) && known(&lasting));
}

#[test]
fn deletion_outlasts_file_that_was_copied() {
    // The original file and the copy's file each have a record of the bundle: the deletion must outlast both.
    let mut world = open(7, Config { segment_bytes: 4096, ..small(400_000) });
    let copied = world.put(1);
    let passing = [(); 3].map(|()| world.put(1000));
    world.settle();
    let first = newest(&world);
    world.put(3000);
    world.settle();
    let second = newest(&world);
    delete_all(&mut world, &passing);
    for _ in 0..10 {
        world.perform_all_but(is_remove);
        world.wake_after_ms(100);
    }
    assert!(world.is_asked(is_remove), "all that lived in the first file is copied");
    let long = world.put(3000);
    world.perform_all_but(is_remove);
    assert!(newest(&world) > second && files(&world).contains(&first));
    world.delete(copied, false);
    world.wake_after_ms(100);
    world.perform_all_but(is_remove);
    world.rest();
    assert!(!files(&world).contains(&first) && files(&world).contains(&second));
    // The deletion is now alone in its file.
    world.delete(long, false);
    for _ in 0..4 {
        let number = world.put(3000);
        world.settle();
        world.delete(number, false);
        world.rest();
    }
    assert!(files(&world).contains(&second));
    world.reopen(world.disk.killed(), "after both files went");
}

#[test]
fn overtaken_copies_take_no_room() {
    // Bundles deleted while they are copied, and failed copies, must not leave delete records behind.
    let config = Config { segment_bytes: 16_384, ..small(600_000) };
    for fails in [None, Some(DiskError::Io)] {
        let (mut world, mut copied) = (open(8, config), 0);
        world.put(1);
        world.settle();
        for _ in 0..300 {
            let few = [(); 9].map(|()| world.put(1));
            world.settle();
            let passing = fill(&mut world);
            delete_all(&mut world, &passing[..passing.len() - 1]);
            world.perform_all_but(is_read);
            world.wake_after_ms(60);
            world.perform_all_but(is_read);
            if world.is_asked(is_read) {
                world.perform_first(is_read, None);
                assert!(world.is_asked(is_write), "they are copied");
                copied += 1;
                if fails.is_some() {
                    world.perform_first(is_write, fails);
                    world.settle();
                }
            }
            delete_all(&mut world, &few);
            delete_all(&mut world, &passing[passing.len() - 1..]);
            world.settle();
        }
        let left = world.store.usage();
        assert_eq!(left.bundles, 1);
        assert!(copied > 100, "{copied} times");
        assert!(left.file_bytes < 80_000, "{left:?}");
    }
}

#[test]
fn full_store_reclaims_its_last_garbage() {
    // Each file has little garbage: it is reclaimed only when bundles wait for it.
    let mut world = open(9, small(256 * 1024));
    let mut alive = Vec::new();
    while world.refused == 0 {
        alive.push(world.put(700));
        world.settle();
    }
    alive.pop();
    for round in 0..6 {
        let gone: Vec<u64> = alive.iter().copied().filter(|number| number % 11 == round).collect();
        alive.retain(|number| !gone.contains(number));
        delete_all(&mut world, &gone);
        world.settle();
        // Delete records take some room as well.
        for _ in 0..gone.len() * 3 / 4 {
            alive.push(world.put(700));
            world.settle();
        }
        assert_eq!(world.refused, 1, "round {round}: {:?}", world.store.usage());
    }
}

#[test]
fn second_deletion_replaces_the_first() {
    let mut world = open(10, small(400_000));
    let (deleted, beside) = (world.put(100), world.put(4000));
    world.settle();
    let first = fill(&mut world);
    world.delete(deleted, false);
    world.settle();
    let file = newest(&world);
    let passing = fill(&mut world);
    // A second deletion, now as delivered, must replace the first one's record.
    world.known.get_mut(&deleted).expect("known").delete_answered = false;
    world.delete(deleted, true);
    world.settle();
    delete_all(&mut world, &first[first.len() - 1..]);
    delete_all(&mut world, &passing[..passing.len() - 1]);
    world.settle();
    assert!(!files(&world).contains(&file), "nothing lives in it");
    assert!(world.known[&beside].stored);
    world.reopen(world.disk.killed(), "after two deletions");
}

#[test]
fn failed_removal_retried_with_pauses() {
    // Two cases: a file without live records, and one that was kept to be recycled.
    for spare in [false, true] {
        let mut world = open(11, small(400_000));
        let numbers: Vec<u64> = (0..20).map(|_| world.put(1000)).collect();
        world.settle();
        delete_all(&mut world, &numbers);
        if spare {
            world.settle();
            assert!(!world.disk.kept.is_empty());
            // A new file that does not fit on the disk makes the store remove the kept ones.
            while !world.is_asked(is_create) {
                world.perform_all();
                world.put(3000);
            }
            world.perform_first(is_create, Some(DiskError::Full));
        }
        let (mut tries, before) = (0, world.failures);
        for _ in 0..300 {
            world.perform_all_but(is_remove);
            while world.is_asked(is_remove) && tries < 1000 {
                world.perform_first(is_remove, Some(DiskError::Io));
                tries += 1;
            }
            world.wake_after_ms(100);
        }
        assert!((25..100).contains(&tries), "{tries} times in half a minute");
        assert_eq!(world.failures - before, tries);
        world.settle();
        assert!(files(&world).len() <= 2, "{} files", files(&world).len());
    }
}

#[test]
fn one_removal_prompts_the_others() {
    let mut world = open(12, small(400_000));
    let numbers: Vec<u64> = (0..30).map(|_| world.put(1000)).collect();
    world.settle();
    delete_all(&mut world, &numbers);
    assert!(world.outstanding.iter().filter(|op| is_remove(op)).count() > 2);
    world.perform_first(is_remove, Some(DiskError::Io));
    let failed = newest(&world);
    while world.is_asked(is_remove) && world.disk.count < 1000 {
        world.perform_first(is_remove, None);
    }
    assert_eq!(files(&world), [failed], "the newest stays");
}
