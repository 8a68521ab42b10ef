//! Power cuts at every disk operation of a run, with torn and reordered writes: nothing acknowledged is lost, nothing
//! delivered comes back.

use crate::common::{StoreWorld, disk::SimDisk, points, small};
use farlink_base::Rng;
use farlink_base::store::{DiskAction, DiskOp};
use farlink_storage::Config;

/// Coverage of the runs: power cuts, recycled files, and overlapping groups.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    cuts: u64,
    remade: usize,
    overlapped: usize,
}

/// Runs a store and tries a power cut after every disk operation.
fn run(seed: u64, limit: u64) -> Tried {
    // Short files are recycled often; long ones take two groups.
    let config = Config { segment_bytes: if seed.is_multiple_of(2) { 4096 } else { 12_000 }, ..small(400_000) };
    let mut world = StoreWorld::open(config, SimDisk::default(), seed);
    world.settle();
    let (mut tried, mut cuts) = (0, Rng::stream(seed, 1));
    while tried < limit {
        if world.rng.chance(0.4) {
            world.act(6000);
            continue;
        }
        if world.rng.chance(0.01) {
            world.rest();
        }
        if let Some(op) = world.disk.choose(&mut world.outstanding, &mut world.rng) {
            // Any state between the moment before and the moment after is possible.
            let mut under_way = world.outstanding.clone();
            under_way.insert(0, op.clone());
            let disk = world.disk.power_cut(&under_way, &mut cuts);
            let what = format!("seed {seed}, cut before operation {} ({:?})", world.disk.count, op.action);
            let mut again = world.reopen(disk, &what);
            tried += 1;
            if tried % 7 == 0 {
                // The next run works a little, then the power fails again.
                for _ in 0..20 {
                    again.act(3000);
                    again.step();
                }
                let disk = again.disk.power_cut(&again.outstanding, &mut cuts);
                again.reopen(disk, &format!("{what}, then again"));
                tried += 1;
            }
            world.perform(op);
        } else {
            world.step();
        }
    }
    world.settle();
    world.assert_all_answered(&format!("seed {seed}"));
    Tried { cuts: tried, remade: world.remade, overlapped: world.overlapped }
}

#[test]
fn power_cut_loses_nothing_acknowledged() {
    let wanted = points(1000);
    let (mut all, mut seed) = (Tried::default(), 0);
    while all.cuts < wanted {
        seed += 1;
        let one = run(seed, 350.min(wanted - all.cuts));
        all.cuts += one.cuts;
        all.remade += one.remade;
        all.overlapped += one.overlapped;
    }
    println!("{all:?} over {seed} runs: 0 acknowledged bundles lost, 0 deliveries forgotten");
    assert!(all.remade as u64 > wanted / 100, "hardly a file is written over: {all:?}");
    assert!(all.overlapped as u64 > wanted / 50, "groups hardly overlap: {all:?}");
}

#[test]
fn file_in_doubt_until_committed() {
    // The next file is durable, but a group of the file before it is not: its records must be checked byte by byte.
    let is = |op: &DiskOp, file: u32| match op.action {
        DiskAction::Write { file: of, .. } | DiskAction::Sync { file: of } => of == file,
        _ => false,
    };
    let mut world = StoreWorld::open(Config { segment_bytes: 8192, ..small(400_000) }, SimDisk::default(), 8);
    world.settle();
    world.put(100);
    world.settle();
    let first = *world.disk.files.keys().next_back().unwrap();
    let torn = world.put(6000);
    world.put(7000);
    while !world.outstanding.iter().any(|op| is(op, first + 1)) {
        // The sync of the first file waits while the next file is made.
        let at = world.outstanding.iter().position(|op| !matches!(op.action, DiskAction::Sync { .. })).unwrap();
        let op = world.outstanding.remove(at);
        world.perform(op);
    }
    while let Some(at) = world.outstanding.iter().position(|op| is(op, first + 1)) {
        let op = world.outstanding.remove(at);
        world.perform(op);
    }
    assert!(world.overlapped > 0 && !world.known[&torn].answered, "the first is not synced");
    assert!(!world.known[&(torn + 1)].answered, "nor may the second be answered before it");
    let mut cuts = Rng::stream(8, 1);
    for cut in 0..200 {
        let disk = world.disk.power_cut(&[], &mut cuts);
        world.reopen(disk, &format!("cut {cut}"));
        // Bundles found after a kill survive an immediate power cut.
        let killed = world.reopen(world.disk.killed(), "killed");
        let disk = killed.disk.power_cut(&killed.outstanding, &mut cuts);
        killed.reopen(disk, "killed, then a power cut");
    }
}

#[test]
fn repeated_kills_lose_nothing() {
    let mut world = StoreWorld::open(small(400_000), SimDisk::default(), 5);
    world.settle();
    for kill in 0..150 {
        for _ in 0..world.rng.below(12) {
            world.act(2000);
            world.step();
        }
        world = world.reopen(world.disk.killed(), &format!("kill {kill}"));
    }
    world.settle();
    assert!(world.disk.files.len() < 100, "{} files", world.disk.files.len());
}

#[test]
fn recovered_bundles_survive_instant_power_cut() {
    let mut world = StoreWorld::open(small(400_000), SimDisk::default(), 6);
    let mut cuts = Rng::stream(6, 1);
    world.settle();
    for kill in 0..100 {
        for _ in 0..world.rng.below(12) {
            world.act(2000);
            world.step();
        }
        // Data may be written but not synced; the next run reports them as kept.
        world = world.reopen(world.disk.killed(), &format!("kill {kill}"));
        let disk = world.disk.power_cut(&world.outstanding, &mut cuts);
        world = world.reopen(disk, &format!("power cut after kill {kill}"));
    }
}

#[test]
fn deletion_outlives_the_deleted_file() {
    // A file is gone once its removal is durable; until then its deleted bundles need their delete records.
    let mut world = StoreWorld::open(Config { segment_bytes: 4096, ..small(400_000) }, SimDisk::default(), 3);
    world.settle();
    let (deleted, beside) = (world.put(1000), world.put(1500));
    world.settle();
    let first = *world.disk.files.keys().next_back().unwrap();
    let is_removal = |op: &DiskOp| matches!(op.action, DiskAction::Remove { file, .. } if file == first);
    let go_on = |world: &mut StoreWorld| {
        for _ in 0..40 {
            match world.outstanding.iter().position(|op| !is_removal(op)) {
                Some(at) => {
                    let op = world.outstanding.remove(at);
                    world.perform(op);
                }
                None => {
                    world.now += farlink_base::Duration::from_millis(60);
                    world.input(farlink_base::store::Input::Wake);
                }
            }
        }
    };
    let in_the_next = world.put(3000);
    world.settle();
    world.delete(deleted, false);
    world.rest();
    assert!(world.gone.contains(&deleted) && world.disk.files.contains_key(&first));
    // `beside` shares the file of the deleted bundle's record, `in_the_next` that of its delete record: once both are
    // deleted, too, both files may be removed.
    [beside, in_the_next].into_iter().for_each(|number| world.delete(number, false));
    for round in 0..12 {
        let number = world.put(3000);
        go_on(&mut world);
        world.delete(number, false);
        go_on(&mut world);
        assert!(world.outstanding.iter().any(is_removal), "it is under way");
        world.reopen(world.disk.power_cut(&[], &mut Rng::new(round)), &format!("round {round}"));
    }
}
