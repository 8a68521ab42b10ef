//! Deletions: deleted bundles stay deleted, and their records do not take room for good.

use crate::common;
use crate::common::{StoreWorld, disk::SimDisk, small};
use farlink_base::store::{BundleStore, DiskAction, DiskError};

const CAPACITY: u64 = 256 * 1024;
/// Garbage that compaction leaves alone: four files' worth does not pay for moving live records.
const SLACK: u64 = 4 * 8192;

fn open(seed: u64) -> StoreWorld {
    let mut world = StoreWorld::open(small(CAPACITY), SimDisk::default(), seed);
    world.settle();
    world
}
/// Lets time pass until the disk is asked to write.
fn until_written(world: &mut StoreWorld) {
    while !world.outstanding.iter().any(|op| matches!(op.action, DiskAction::Write { .. })) {
        assert!(world.step(), "nothing is written");
    }
}
/// Puts and deletes until every earlier file is emptied; returns the bytes of the files then.
fn moved_on(world: &mut StoreWorld) -> u64 {
    for _ in 0..300 {
        let number = world.put(1000);
        world.settle();
        world.delete(number, false);
        world.settle();
    }
    world.store.usage().file_bytes
}
fn delete_all(world: &mut StoreWorld) {
    let alive = |known: &common::PutBundle| known.stored && !known.delete_asked;
    let left: Vec<u64> = world.known.iter().filter(|(_, known)| alive(known)).map(|(number, _)| *number).collect();
    left.into_iter().for_each(|number| world.delete(number, false));
    world.settle();
}

#[test]
fn deleted_bundle_stays_gone_after_restart() {
    let mut world = open(1);
    let (kept, gone) = (world.put(500), world.put(500));
    world.settle();
    world.delete(gone, false);
    world.rest();
    let again = world.reopen(world.disk.killed(), "after a delete");
    assert_eq!(again.recovered.keys().collect::<Vec<_>>(), [&kept]);
}

#[test]
fn deleted_during_write_takes_no_room() {
    let mut world = open(2);
    let beside = moved_on(&mut open(2));
    for _ in 0..500 {
        let number = world.put(100);
        until_written(&mut world);
        world.delete(number, false);
        world.settle();
    }
    let left = moved_on(&mut world);
    assert!(left <= beside + SLACK, "{left} B of files, {beside} B where nothing was deleted early");
    assert_eq!(world.refused, 0);
}

#[test]
fn moved_bundle_deleted_takes_no_room() {
    for restart in [false, true] {
        let mut world = open(3);
        let beside = moved_on(&mut open(3));
        // Any bundle may go, so that compaction moves the ones beside it.
        let mut alive = Vec::new();
        for _ in 0..6000 {
            alive.push(world.put(400));
            world.settle();
            if alive.len() > 200 {
                let at = world.rng.below(200) as usize;
                world.delete(alive.swap_remove(at), false);
            }
        }
        world.settle();
        if restart {
            world.rest();
            world = world.reopen(world.disk.killed(), "after compaction");
        }
        delete_all(&mut world);
        let left = moved_on(&mut world);
        assert!(left <= beside + SLACK, "restart: {restart}; {left} B of files, {beside} B where none was moved");
    }
}

#[test]
fn deleted_after_failure_takes_no_room() {
    let mut world = open(4);
    let beside = moved_on(&mut open(4));
    for round in 0..600 {
        world.put(100);
        until_written(&mut world);
        if round % 3 == 0 {
            // The sync fails, so that the bundle is written again.
            let next = world.disk.count + 2;
            world.disk.fail = Some((next..next + 1, DiskError::Io));
        }
        world.settle();
        world.disk.fail = None;
        delete_all(&mut world);
    }
    let left = moved_on(&mut world);
    assert!(left <= beside + SLACK, "{left} B of files, {beside} B where nothing failed");
}
