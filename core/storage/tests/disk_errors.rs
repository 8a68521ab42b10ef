//! Disk full and I/O errors at every operation: nothing acknowledged is lost, every question is
//! answered, and the store goes on.

mod common;
use common::{World, disk::Disk, points, small};
use farlink_base::Rng;
use farlink_base::store::DiskError;

fn work(seed: u64, fail: Option<(core::ops::Range<u64>, DiskError)>) -> World {
    let mut world = World::open(small(150_000), Disk { fail, ..Disk::default() }, seed);
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
fn an_error_at_any_operation_loses_nothing() {
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
                // The disk works again, and so does the store.
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
fn a_disk_that_stays_full_refuses_and_keeps_what_it_has() {
    let mut world = World::open(small(150_000), Disk::default(), 9);
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
fn a_full_disk_makes_room_from_inside_when_bundles_leave() {
    // Others fill the disk the store is on: its capacity is not the limit.
    let mut world = World::open(small(400_000), Disk { space: Some(100_000), ..Disk::default() }, 9);
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
    // No room for anything, not even for the records of deletions.
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
fn a_disk_that_was_full_is_used_again_within_five_seconds() {
    let mut world = World::open(small(400_000), Disk { space: Some(50_000), ..Disk::default() }, 9);
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
    let number = world.put(1000);
    world.settle();
    assert!(world.known[&number].stored);
}
