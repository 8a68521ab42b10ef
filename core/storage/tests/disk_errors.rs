//! Full disk and I/O errors at every operation: nothing acknowledged is lost, every request is answered, and the
//! store continues.

use crate::common::{StoreWorld, disk::SimDisk, points, small};
use farlink_base::Rng;
use farlink_base::store::{BundleStore, DiskAction, DiskError};
use farlink_storage::Config;

fn work(seed: u64, fail: Option<(core::ops::Range<u64>, DiskError)>) -> StoreWorld {
    let mut world = StoreWorld::open(small(150_000), SimDisk { fail, ..SimDisk::default() }, seed);
    world.settle();
    for _ in 0..120 {
        world.act(5000);
        if world.rng.chance(0.6) {
            world.step();
        }
    }
    world.settle();
    world
}

#[test]
fn error_at_any_operation_loses_nothing() {
    let operations = work(1, None).disk.count;
    assert!(operations > 60, "{operations}");
    let wanted = points(2 * operations);
    let mut tried = 0;
    'all: for seed in 1.. {
        for at in 1..=operations {
            let length = if at % 3 == 0 { 8 } else { 1 };
            for error in [DiskError::Full, DiskError::Io] {
                let mut world = work(seed, Some((at..at + length, error)));
                let what = format!("seed {seed}, {error:?} at operations {at}..{}", at + length);
                world.assert_all_answered(&what);
                // The disk recovers, and so must the store.
                world.disk.fail = None;
                world.now += farlink_base::Duration::from_secs(10);
                let number = world.put(100);
                world.settle();
                assert!(world.known[&number].stored, "{what}: still refuses");
                let disk = world.disk.power_cut(&[], &mut Rng::new(at));
                world.reopen(disk, &what);
                tried += 1;
                if tried >= wanted {
                    break 'all;
                }
            }
        }
    }
    println!("{tried} injected errors: 0 acknowledged bundles lost");
}

#[test]
fn failed_sync_keeps_nothing_from_cache() {
    // The kernel marks pages clean that it could not write and still shows them: a run that trusted them would lose
    // them in a power cut.
    let (mut in_memory_only, mut found) = (0, 0);
    for seed in 0..points(400) {
        let mut world = work(seed, None);
        let from = world.put_while_failing(seed);
        let what = format!("seed {seed}, errors from {from} on");
        let killed = world.disk.killed();
        in_memory_only += killed.files.values().filter(|file| file.shows_what_is_lost()).count();
        let next = world.reopen(killed, &what);
        found += next.recovered.len();
        next.reopen(next.disk.power_cut(&[], &mut Rng::new(seed)), &what);
    }
    assert!(in_memory_only > 0 && found > 0, "{in_memory_only} files, {found} bundles");
}

#[test]
fn full_disk_refuses_and_keeps() {
    let mut world = StoreWorld::open(small(150_000), SimDisk::default(), 9);
    world.settle();
    let kept = world.put(500);
    world.settle();
    world.disk.fail = Some((0..u64::MAX, DiskError::Full));
    for _ in 0..5 {
        let refused = world.put(500);
        for _ in 0..20 {
            world.step();
        }
        assert!(world.known[&refused].answered && !world.known[&refused].stored);
    }
    assert!(world.failures > 0);
    world.disk.fail = None;
    world.now += farlink_base::Duration::from_secs(5);
    let accepted = world.put(500);
    world.settle();
    assert!(world.known[&accepted].stored && world.known[&kept].stored);
    world.reopen(world.disk.killed(), "after the disk was full");
}

#[test]
fn deletions_make_room_on_full_disk() {
    // Others fill the disk; the store's capacity is not the limit.
    let mut world = StoreWorld::open(small(400_000), SimDisk { space: Some(100_000), ..SimDisk::default() }, 9);
    world.settle();
    let mut kept = Vec::new();
    loop {
        let number = world.put(1000);
        for _ in 0..50 {
            world.step();
        }
        if world.known[&number].answered && !world.known[&number].stored {
            break;
        }
        kept.push(number);
    }
    assert!(kept.len() > 60, "{} bundles fit", kept.len());
    let files = world.disk.files.len();
    // No room at all, not even for delete records.
    world.disk.space = Some(world.disk.len());
    for number in &kept {
        world.delete(*number, false);
    }
    for _ in 0..20 {
        world.now += farlink_base::Duration::from_millis(250);
        for _ in 0..50 {
            world.step();
        }
    }
    let number = world.put(1000);
    for _ in 0..200 {
        world.step();
    }
    assert!(world.known[&number].stored, "refused 5 s after all bundles left: {:?}", world.disk.len());
    assert!(world.disk.files.len() <= files + 1, "{} files, {files} before", world.disk.files.len());
    world.reopen(world.disk.killed(), "after it was full");
}

#[test]
fn freed_disk_used_within_seconds() {
    let mut world = StoreWorld::open(small(400_000), SimDisk { space: Some(50_000), ..SimDisk::default() }, 9);
    world.settle();
    for _ in 0..60 {
        world.put(1000);
        world.now += farlink_base::Duration::from_secs(1);
        for _ in 0..50 {
            world.step();
        }
    }
    let files = world.disk.files.len();
    assert!(files <= 50_000 / 12_288 + 3, "{files} files");
    world.disk.space = None;
    world.now += farlink_base::Duration::from_secs(5);
    world.input(farlink_base::store::Input::Wake);
    world.settle();
    let number = world.put(1000);
    world.settle();
    assert!(world.known[&number].stored);
}

/// Fills a store of one file on a disk that others have filled; returns the kept bundles.
fn filled(seed: u64, space: u64) -> (StoreWorld, Vec<u64>) {
    let config = Config { segment_bytes: 1 << 20, reserve_bytes: 64 << 10, ..Config::new(32 << 20) };
    let mut world = StoreWorld::open(config, SimDisk { space: Some(space), ..SimDisk::default() }, seed);
    world.settle();
    let mut kept = Vec::new();
    loop {
        let len = 500 + world.rng.below(1500);
        let number = world.put(len);
        pass(&mut world, 10);
        if !world.known[&number].stored {
            break;
        }
        kept.push(number);
    }
    let free = world.disk.len();
    assert!(
        world.disk.files.len() <= 2 && kept.len() > 50,
        "{} bundles in {} files",
        kept.len(),
        world.disk.files.len()
    );
    // Not a byte more, not even for a delete record.
    world.disk.space = Some(free);
    (world, kept)
}
/// Lets tenths of a second pass.
fn pass(world: &mut StoreWorld, tenths: u64) {
    for _ in 0..tenths {
        world.now += farlink_base::Duration::from_millis(100);
        world.input(farlink_base::store::Input::Wake);
        for _ in 0..30 {
            world.step();
        }
    }
}

#[test]
fn one_file_delivers_on_full_disk() {
    for seed in 1..20 {
        let (mut world, kept) = filled(seed, 900_000);
        // Some were delivered, which must be remembered, others forwarded, which need not; the last one stays.
        let (last, gone) = kept.split_last().unwrap();
        for (n, number) in gone.iter().enumerate() {
            world.delete(*number, n % 3 == 0);
        }
        pass(&mut world, 50);
        let owed = gone.iter().filter(|number| !world.known[number].delete_answered).count();
        assert_eq!(owed, 0, "seed {seed}: of {} deletions", gone.len());
        let number = world.put(100_000);
        pass(&mut world, 20);
        assert!(world.known[&number].stored && world.known[last].stored, "seed {seed}: {:?}", world.store.usage());
        world.settle();
        let what = format!("seed {seed}, after the disk was full");
        let disk = world.disk.power_cut(&[], &mut Rng::new(seed));
        world.reopen(disk, &what);
    }
}

#[test]
fn full_disk_at_start_takes_nothing() {
    let (world, kept) = filled(3, 700_000);
    let mut disk = world.disk.killed();
    // The other user of the disk removed the reserve of the earlier run.
    disk.left = 0;
    disk.space = Some(disk.len() + 10_000);
    let mut again = StoreWorld::open(world.config, disk, 4);
    again.known = world.known.clone();
    again.next_bundle = world.next_bundle;
    pass(&mut again, 3);
    assert_eq!(again.recovered.len(), kept.len());
    let refused = again.put(100);
    assert!(again.known[&refused].answered && !again.known[&refused].stored);
    again.disk.space = None;
    pass(&mut again, 50);
    let taken = again.put(100);
    pass(&mut again, 5);
    assert!(again.known[&taken].stored);
    assert_eq!(again.disk.kept.len(), 1, "and can delete whatever fills the disk");
}

#[test]
fn killed_one_file_store_delivers() {
    for seed in 1..10 {
        let (world, kept) = filled(seed, 700_000);
        let cut = world.disk.power_cut(&world.outstanding, &mut Rng::new(seed));
        let disk = if seed % 2 == 0 { cut } else { world.disk.killed() };
        let mut again = StoreWorld::open(world.config, disk, seed);
        again.known = world.known.clone();
        again.next_bundle = world.next_bundle;
        pass(&mut again, 3);
        for number in &kept {
            again.delete(*number, number % 2 == 0);
        }
        pass(&mut again, 20);
        assert!(kept.iter().all(|number| again.known[number].delete_answered), "seed {seed}");
        let taken = again.put(100_000);
        pass(&mut again, 20);
        assert!(again.known[&taken].stored, "seed {seed}: {:?}", again.store.usage());
    }
}

#[test]
fn oversized_bundle_costs_no_other() {
    let config = Config { segment_bytes: 1 << 20, ..Config::new(32 << 20) };
    let mut world = StoreWorld::open(config, SimDisk { space: Some(5 << 20), ..SimDisk::default() }, 5);
    world.settle();
    for round in 0..20 {
        let long = world.put(6 << 20);
        pass(&mut world, 20);
        let short = world.put(1000);
        pass(&mut world, 20);
        assert!(!world.known[&long].stored && world.known[&short].stored, "round {round}");
        if round % 2 == 0 {
            world.delete(short, true);
            pass(&mut world, 5);
            assert!(world.known[&short].delete_answered, "round {round}");
        }
    }
}

#[test]
fn power_cut_after_error_loses_nothing() {
    // The power fails before or after the failed records are rewritten. Promises made before, between and after must
    // hold, whichever of the two groups failed.
    let wanted = points(600);
    let (mut tried, mut remade, mut overlapped, mut failures, mut seed) = (0, 0, 0, 0, 0);
    while tried < wanted {
        seed += 1;
        let segment_bytes = if seed % 2 == 0 { 4096 } else { 12_000 };
        let config = Config { segment_bytes, ..small(400_000) };
        let mut world = StoreWorld::open(config, SimDisk::default(), seed);
        world.settle();
        let mut cuts = Rng::stream(seed, 2);
        for _ in 0..150 {
            world.act(6000);
            if world.rng.chance(0.6) {
                world.step();
            }
        }
        for _ in 0..12 {
            let at = world.disk.count + 1 + world.rng.below(12);
            let error = if world.rng.chance(0.5) { DiskError::Io } else { DiskError::Full };
            let length = 1 + world.rng.below(4);
            world.disk.fail = Some((at..at + length, error));
            for step in 0..40 {
                if world.rng.chance(0.4) {
                    world.act(6000);
                } else {
                    world.step();
                }
                if world.rng.chance(0.15) {
                    let disk = world.disk.power_cut(&world.outstanding, &mut cuts);
                    world.reopen(disk, &format!("seed {seed}, {error:?} at {at}..{}, step {step}", at + length));
                    tried += 1;
                }
            }
            world.now += farlink_base::Duration::from_millis(world.rng.below(1000));
            if world.rng.chance(0.3) {
                world.disk.fail = None;
                world.rest();
            }
        }
        world.disk.fail = None;
        world.rest();
        let what = format!("seed {seed}, at rest");
        world.assert_all_answered(&what);
        world.reopen(world.disk.power_cut(&[], &mut cuts), &what);
        (remade, overlapped) = (remade + world.remade, overlapped + world.overlapped);
        failures += world.failures;
    }
    println!("{tried} power cuts, {failures} errors, {remade} files written over, {overlapped} groups overlapped");
    assert!(remade > 20 && overlapped > 20 && failures > 50, "{remade} {overlapped} {failures}");
}

/// Starts two groups; returns the bundle of the first and those of the second, which also has a deletion.
fn two_groups(world: &mut StoreWorld) -> (u64, [u64; 2]) {
    let old = world.put(100);
    world.settle();
    world.stored.clear();
    let first = world.put(2000);
    world.delete(old, true);
    let second = [world.put(2000), world.put(2000)];
    let kinds: Vec<bool> = world.outstanding.iter().map(|op| matches!(op.action, DiskAction::Sync { .. })).collect();
    assert_eq!(kinds, [false, true, false, true], "two groups are under way");
    (first, second)
}
/// Performs the oldest operation under way.
fn perform_next(world: &mut StoreWorld, error: Option<DiskError>) {
    let next = world.disk.count + 1;
    world.disk.fail = error.map(|error| (next..next + 1, error));
    let op = world.outstanding.remove(0);
    world.perform(op);
}

#[test]
fn rewritten_groups_keep_their_order() {
    let mut world = StoreWorld::open(Config { segment_bytes: 12_000, ..small(400_000) }, SimDisk::default(), 4);
    world.settle();
    let (first, [second, third]) = two_groups(&mut world);
    for error in [None, Some(DiskError::Io), None, None] {
        perform_next(&mut world, error);
    }
    assert!(world.stored.is_empty() && !world.known[&1].delete_answered, "the first group is not on disk");
    world.settle();
    assert_eq!(world.stored, [first, second, third]);
    assert!(world.known[&1].delete_answered);
    world.reopen(world.disk.power_cut(&[], &mut Rng::new(4)), "after the first of two groups failed");
}

#[test]
fn full_disk_releases_kept_files() {
    for (creating, stays) in [(false, false), (true, false), (false, true)] {
        let mut world = StoreWorld::open(Config { segment_bytes: 4096, ..small(400_000) }, SimDisk::default(), 4);
        world.settle();
        let numbers = [(); 16].map(|()| world.put(1000));
        world.settle();
        numbers.iter().for_each(|number| world.delete(*number, false));
        world.settle();
        assert!(world.disk.kept.len() > 1, "{} files are kept", world.disk.kept.len());
        // A new file or a write that does not fit on the disk makes the store remove the kept files.
        world.put(3000);
        while world.failures == 0
            && let Some(op) = world.outstanding.first()
        {
            let fails = match op.action {
                DiskAction::Create { .. } => creating,
                DiskAction::Write { .. } => !creating,
                _ => false,
            };
            perform_next(&mut world, fails.then_some(DiskError::Full));
        }
        assert!(world.failures > 0, "creating {creating}");
        world.disk.fail = None;
        while let Some(at) = world.outstanding.iter().position(|op| matches!(op.action, DiskAction::Remove { .. })) {
            let op = world.outstanding.remove(at);
            let next = world.disk.count + 1;
            world.disk.fail = stays.then_some((next..next + 1, DiskError::Io));
            world.perform(op);
        }
        // A failed removal is retried.
        assert_eq!(!world.disk.kept.is_empty(), stays);
        world.settle();
        assert!(world.disk.kept.is_empty(), "creating {creating}: {} files are kept", world.disk.kept.len());
        assert_eq!(world.store.usage().file_bytes, world.disk.len(), "creating {creating}, {stays}");
    }
}

#[test]
fn errors_leave_nothing_after_all_deletions() {
    // Records of failed groups may be on disk: they and their delete records must be kept until the files are removed.
    let mut world = StoreWorld::open(Config { segment_bytes: 4096, ..small(400_000) }, SimDisk::default(), 12);
    world.settle();
    let mut alive = Vec::new();
    for round in 0..400 {
        alive.extend([(); 4].map(|()| world.put(600)));
        // Few bundles are left in each file: they are copied while others wait.
        for _ in 0..3 {
            let at = world.rng.below(alive.len() as u64) as usize;
            world.delete(alive.swap_remove(at), false);
        }
        let at = world.disk.count + 1 + world.rng.below(12);
        world.disk.fail = (round % 2 == 0).then_some((at..at + 1, DiskError::Io));
        world.settle();
        if alive.len() > 60 {
            let number = alive.remove(0);
            world.delete(number, false);
        }
        world.now += farlink_base::Duration::from_secs(2);
        alive.retain(|number| world.known[number].stored);
    }
    world.disk.fail = None;
    assert!(world.failures > 50, "{}", world.failures);
    alive.iter().for_each(|number| world.delete(*number, false));
    world.rest();
    // Leftovers of the last errors lie in files that are not full yet.
    for _ in 0..30 {
        let number = world.put(600);
        world.settle();
        world.delete(number, false);
        world.rest();
    }
    assert!(world.disk.files.len() <= 3, "{} files for no bundle", world.disk.files.len());
    world.reopen(world.disk.killed(), "after all went");
}

#[test]
fn abandoned_compaction_reads_reach_nobody() {
    // A group fails while compaction reads: the bytes read must not be taken for those of the next compaction.
    let mut world = StoreWorld::open(small(400_000), SimDisk::default(), 21);
    world.settle();
    let few = [world.put(100), world.put(100)];
    let many = [(); 6].map(|()| world.put(1000));
    world.settle();
    world.put(7000);
    world.settle();
    many.iter().for_each(|number| world.delete(*number, false));
    let is_read = |op: &farlink_base::store::DiskOp| matches!(op.action, DiskAction::Read { .. });
    while !world.outstanding.iter().any(is_read) {
        assert!(world.step(), "nothing is compacted");
    }
    // The read stays under way while everything else continues.
    let read = world.outstanding.iter().position(is_read).map(|at| world.outstanding.remove(at)).unwrap();
    while !world.outstanding.is_empty() {
        perform_next(&mut world, None);
    }
    world.put(100);
    perform_next(&mut world, Some(DiskError::Io));
    perform_next(&mut world, None);
    world.delete(few[0], false);
    world.now += farlink_base::Duration::from_millis(150);
    world.input(farlink_base::store::Input::Wake);
    let others = world.outstanding.iter().filter(|op| is_read(op)).count();
    assert!(others > 0, "another compaction reads");
    world.perform(read);
    world.settle();
    assert_eq!(world.damage, 0, "the data read are whole");
    world.reopen(world.disk.killed(), "after a compaction was given up");
}
