//! Ropes of extents: they stay valid wherever compaction moves their records, ranges of them are read alone, and a
//! failed spill leaves nothing.

use crate::common::{PutBundle, StoreWorld, disk::SimDisk, is_read, is_sync, is_write, small};
use farlink_base::store::{BundleStore, DiskError, Input, Output};
use farlink_base::{Bytes, Chunk, Duration, Extent, Payload, Refusal};
use farlink_storage::Config;

fn world(config: Config, seed: u64) -> StoreWorld {
    let mut world = StoreWorld::open(config, SimDisk::default(), seed);
    world.settle();
    world
}
/// Puts a bundle that arrived in parts and settles it.
fn spilled(world: &mut StoreWorld) -> u64 {
    world.spill();
    world.settle();
    world.finish_spills_surely();
    world.settle();
    world.next_bundle - 1
}
fn known(world: &StoreWorld, number: u64) -> &PutBundle {
    &world.known[&number]
}

#[test]
fn ropes_outlive_moves_of_their_records() {
    let mut world = world(Config { segment_bytes: 16 * 1024, ..small(512 * 1024) }, 3);
    let (mut kept, mut passing) = (Vec::new(), Vec::new());
    for n in 0..6 {
        kept.push(if n % 2 == 0 { spilled(&mut world) } else { world.put(700 + 900 * n) });
        passing.extend((0..5).map(|_| world.put(5000)));
        world.settle();
    }
    let ropes: Vec<(Payload, Bytes)> =
        kept.iter().map(|n| (known(&world, *n).rope.clone(), known(&world, *n).payload.clone())).collect();
    assert!(ropes.iter().all(|(rope, _)| rope.is_stored()));
    let files: Vec<u32> = world.disk.files.keys().copied().collect();
    // The bundles between the kept ones are deleted, so that compaction moves the kept ones to other files.
    passing.into_iter().for_each(|number| world.delete(number, false));
    for _ in 0..300 {
        let number = world.put(3000);
        world.settle();
        world.delete(number, false);
    }
    world.settle();
    assert!(files.iter().any(|file| !world.disk.files.contains_key(file)), "nothing was compacted");
    for (rope, bytes) in &ropes {
        for _ in 0..20 {
            let start = world.rng.below(rope.len());
            let len = 1 + world.rng.below(rope.len() - start);
            let range = world.load_rope(rope.slice(start, len)).unwrap();
            assert_eq!(range, bytes[start as usize..(start + len) as usize]);
        }
    }
    // One load may mix extents of several records with bytes and patterns.
    let (mut rope, mut bytes) = (Payload::from(&b"begin"[..]), b"begin".to_vec());
    for (part, content) in &ropes {
        rope.append(part.slice(10, 300));
        bytes.extend_from_slice(&content[10..310]);
        rope.append(Payload::fill(4, 50));
        bytes.extend_from_slice(&Payload::fill(4, 50).to_bytes().unwrap());
    }
    assert_eq!(world.load_rope(rope).unwrap(), bytes);
}

#[test]
fn pending_read_survives_deletion() {
    let mut world = world(small(300_000), 5);
    let numbers: Vec<u64> = (0..40).map(|_| world.put(900)).collect();
    world.settle();
    // More than the limit of concurrent loads: the last ones wait.
    for number in &numbers {
        world.load(*number);
    }
    for number in &numbers {
        world.delete(*number, false);
    }
    world.settle();
    for number in &numbers {
        let loaded = world.loaded[number].as_ref().unwrap();
        assert_eq!(loaded.to_bytes().unwrap(), known(&world, *number).payload);
    }
    let rope = known(&world, numbers[0]).rope.clone();
    assert_eq!(world.load_rope(rope), Err(Refusal::Unknown), "asked for after it was deleted");
    let nowhere = |record| {
        let mut rope = Payload::new();
        rope.push(Chunk::Stored { extent: Extent { record, offset: 0 }, len: 5 });
        rope
    };
    assert_eq!(world.load_rope(nowhere(Extent::SPILL | 9)), Err(Refusal::Unknown));
    let number = world.put(4);
    world.settle();
    assert_eq!(world.load_rope(nowhere(number)), Err(Refusal::Unknown), "beyond its end");
}

#[test]
fn transient_error_is_not_damage() {
    let mut world = world(small(300_000), 6);
    let numbers = [world.put(900), spilled(&mut world)];
    world.settle();
    for number in numbers {
        let rope = known(&world, number).rope.clone();
        world.disk.fail = Some((0..u64::MAX, DiskError::Io));
        assert_eq!(world.load_rope(rope.clone()), Err(Refusal::StoreFailed));
        world.disk.fail = None;
        assert_eq!(world.load_rope(rope.clone()).unwrap(), known(&world, number).payload);
        let before = world.disk.clone();
        for file in world.disk.files.values_mut() {
            for byte in &mut file.cache[128..] {
                *byte ^= 1;
            }
        }
        assert_eq!(world.load_rope(rope.clone()), Err(Refusal::Damaged));
        world.disk = before;
        assert_eq!(world.load_rope(rope).unwrap(), known(&world, number).payload);
    }
}

#[test]
fn unwritable_spill_is_refused_once() {
    for error in [DiskError::Full, DiskError::Io] {
        let mut world = world(small(300_000), 7);
        world.put(100);
        world.settle();
        let usage = world.store.usage();
        let mut out = Vec::new();
        let tell = |world: &mut StoreWorld, part: u8, out: &mut Vec<Output>| {
            let data = Payload::from(vec![part; 1000]);
            world.store.handle(world.now, Input::Spill { spill: 1, quota: 0, data }, out);
        };
        tell(&mut world, 1, &mut out);
        tell(&mut world, 2, &mut out);
        world.disk.fail = Some((0..u64::MAX, error));
        let mut refusals = 0;
        for _ in 0..200 {
            for output in std::mem::take(&mut out) {
                match output {
                    Output::Disk(op) => world.outstanding.push(op),
                    Output::Spilled { result, .. } => {
                        assert!(result.is_err());
                        refusals += 1;
                        // Input after the refusal is ignored.
                        tell(&mut world, 3, &mut out);
                    }
                    _ => {}
                }
            }
            if let Some(op) = world.disk.choose(&mut world.outstanding, &mut world.rng) {
                let result = world.disk.perform(op.action, &mut world.rng);
                let done = farlink_base::store::DiskDone { id: op.id, result };
                world.store.handle(world.now, Input::DiskDone(done), &mut out);
            } else if let Some(at) = world.store.next_timeout() {
                world.now = world.now.max(at);
                world.store.handle(world.now, Input::Wake, &mut out);
            }
        }
        assert_eq!(refusals, 1);
        world.disk.fail = None;
        world.now += Duration::from_secs(10);
        world.input(Input::DropSpill { spill: 1 });
        world.settle();
        // The number may be used again, and all room is free.
        let number = spilled(&mut world);
        assert!(known(&world, number).stored);
        world.delete(number, false);
        world.settle();
        assert_eq!(world.store.usage().bytes, usage.bytes);
        world.reopen(world.disk.killed(), "after a failed spill");
    }
}

#[test]
fn spilled_bytes_count_to_the_quota() {
    let mut world = world(Config { quota_bytes: 3000, ..small(300_000) }, 8);
    let spill = |world: &mut StoreWorld, spill: u64, len: usize| {
        let data = Payload::from(vec![1; len]);
        let mut out = Vec::new();
        world.store.handle(world.now, Input::Spill { spill, quota: 1, data }, &mut out);
        let refused = out.iter().any(|o| matches!(o, Output::Spilled { result: Err(Refusal::NoResources), .. }));
        out.into_iter().for_each(|o| {
            if let Output::Disk(op) = o {
                world.outstanding.push(op)
            }
        });
        world.settle();
        !refused
    };
    assert!(spill(&mut world, 100, 2000) && spill(&mut world, 100, 900));
    assert!(!spill(&mut world, 101, 200), "2900 of 3000 are taken");
    world.input(Input::DropSpill { spill: 101 });
    world.input(Input::DropSpill { spill: 100 });
    assert!(spill(&mut world, 100, 2500), "given back");
    world.input(Input::DropSpill { spill: 100 });
}

#[test]
fn unclaimed_spill_garbage_after_restart() {
    let mut world = world(small(100_000), 9);
    for round in 0..30 {
        for _ in 0..6 {
            world.spill();
        }
        world.settle();
        assert!(world.arriving.values().all(|arriving| !arriving.failed()), "round {round}: no room");
        world = StoreWorld::open(world.config, world.disk.killed(), round);
        world.settle();
        assert_eq!(world.store.usage().bytes, 0);
    }
}

#[test]
fn long_bundle_read_in_windows() {
    const BLOCK: usize = 1 << 20;
    let mut world = StoreWorld::open(Config::new(1 << 30), SimDisk::default(), 10);
    world.settle();
    let bytes = world.bytes(5 * BLOCK as u64 + 99);
    world.spill_parts(bytes.chunks(BLOCK).map(<[u8]>::to_vec).collect());
    world.settle();
    world.finish_spills_surely();
    world.settle();
    let (rope, payload) = (known(&world, 1).rope.clone(), known(&world, 1).payload.clone());
    assert_eq!(rope.chunks().len(), 2, "one range of the spill and the bytes of the last piece: {rope:?}");
    let reads = |world: &StoreWorld| world.disk.count;
    for at in [0, BLOCK - 1, 3 * BLOCK - 1] {
        let before = reads(&world);
        let range = world.load_rope(rope.slice(at as u64, BLOCK as u64)).unwrap();
        assert_eq!(range, payload[at..at + BLOCK]);
        assert!(reads(&world) - before <= 2, "{} reads", reads(&world) - before);
    }
    assert_eq!(world.load_rope(rope).unwrap(), payload);
}

#[test]
fn long_record_read_in_windows() {
    let mut world = StoreWorld::open(Config::new(1 << 30), SimDisk::default(), 11);
    world.settle();
    let number = world.put(9_000_000);
    world.settle();
    let (rope, payload) = (known(&world, number).rope.clone(), known(&world, number).payload.clone());
    assert!(rope.is_stored());
    assert!(world.load_rope(rope.slice(100, 8_999_000)).unwrap() == payload[100..8_999_100]);
    assert!(world.load_rope(rope).unwrap() == payload);
}

#[test]
fn patterns_are_kept_as_patterns() {
    let mut world = world(small(300_000), 12);
    let mut rope = Payload::from(vec![1; 300]);
    rope.append(Payload::fill(4, 1 << 20));
    rope.append(Payload::from(vec![2; 300]));
    let bytes = rope.to_bytes().unwrap();
    let number = world.put_extents(rope, &bytes);
    world.settle();
    assert!(known(&world, number).stored && world.disk.len() < 10_000);
    world.reopen(world.disk.killed(), "with a pattern");
    // A spill that arrives now takes no room either.
    let mut out = Vec::new();
    let data = Payload::fill(5, 1 << 20);
    world.store.handle(world.now, Input::Spill { spill: 1, quota: 0, data: data.clone() }, &mut out);
    assert!(matches!(&out[..], [Output::Spilled { spill: 1, result: Ok(same) }] if *same == data), "{out:?}");
}

#[test]
fn bundle_of_foreign_extents_refused() {
    let mut world = world(small(300_000), 13);
    let number = world.put(500);
    world.settle();
    let (rope, payload) = (known(&world, number).rope.clone(), known(&world, number).payload.clone());
    let other = world.put_extents(rope, &payload);
    assert!(known(&world, other).answered && !known(&world, other).stored);
}

#[test]
fn spills_dropped_early_leave_their_room() {
    // With a `second_group` of 1 MiB, spills wait while a group is under way.
    let mut world = world(Config { second_group: 1 << 20, ..small(300_000) }, 14);
    for spill in 0..200 {
        world.put(100);
        let data = Payload::from(vec![1; 3000]);
        world.input(Input::Spill { spill, quota: 0, data });
        world.input(Input::DropSpill { spill });
        world.settle();
        let number = world.next_bundle - 1;
        assert!(known(&world, number).stored, "after {spill} spills");
        world.delete(number, false);
    }
    let number = world.put(100_000);
    world.settle();
    assert!(known(&world, number).stored);
}

#[test]
fn waiting_spills_count_to_the_room() {
    let mut world = world(small(200_000), 15);
    (0..100).for_each(|_| world.spill_parts(vec![vec![1; 3000]]));
    let refused = world.arriving.values().filter(|arriving| arriving.failed()).count();
    assert!((40..60).contains(&refused), "{refused} of 300 kB in seven eighths of 200 kB");
}

#[test]
fn failed_syncs_tried_three_times() {
    // A bundle and a part of another whose sync fails are written again, and refused at the third failure; after a
    // failed write they are refused at once.
    for (fails, is, taken) in
        [(1, is_sync as fn(&_) -> bool, true), (2, is_sync, true), (3, is_sync, false), (1, is_write, false)]
    {
        let mut world = world(small(300_000), 16);
        let number = world.put(100);
        world.spill_parts(vec![vec![1; 1000]]);
        for _ in 0..fails {
            while !world.is_asked(is) {
                assert!(world.step(), "it is not written again");
            }
            assert!(!known(&world, number).answered && world.finish_spills_due() == 1);
            world.perform_first(is, Some(DiskError::Io));
            world.perform_all();
        }
        assert_eq!(known(&world, number).answered, !taken);
        assert_eq!(world.finish_spills_due() == 0, !taken);
        world.settle();
        let stored = (known(&world, number).stored, world.arriving.values().all(|arriving| !arriving.failed()));
        assert_eq!(stored, (taken, taken), "after {fails} failures");
        assert_eq!(world.finish_spills_due(), 0);
    }
}

#[test]
fn very_long_rope_read_alone() {
    // The rope is longer than the bound on ropes in reading.
    let mut world = world(small(300_000), 17);
    let numbers = [world.put(500), world.put(500)];
    world.settle();
    let mut long = known(&world, numbers[0]).rope.clone();
    long.append(Payload::fill(4, 65 << 20));
    for load in 101..=102 {
        world.input(Input::Load { load, payload: long.clone() });
    }
    world.load(numbers[1]);
    for loaded in 1..=3 {
        assert_eq!(world.outstanding.len(), 1, "{loaded} of 3");
        world.perform_first(is_read, None);
        assert_eq!(world.loaded.len(), loaded);
    }
    assert!(world.loaded.values().all(|rope| rope.is_ok()));
    assert_eq!(world.loaded[&101].as_ref().unwrap().len(), long.len());
    // Shorter ropes are read at the same time.
    numbers.iter().for_each(|number| world.load(*number));
    assert_eq!(world.outstanding.len(), 2);
}

/// A start at whose `step`-th operation one bundle begins to arrive and is dropped, and another begins to arrive.
fn begun_while_read(step: usize) {
    let mut before = world(small(512 * 1024), 7);
    let kept: Vec<u64> = (0..3).map(|_| spilled(&mut before)).collect();
    let mut world = StoreWorld::open(before.config, before.disk.clone(), 8);
    let mut last = None;
    for at in 0.. {
        if at == step {
            world.spill_parts(vec![vec![1; 40]]);
            world.drop_spills();
            // A new spill may have the number of one that was dropped.
            world.next_spill -= 1;
            world.spill_parts(vec![vec![2; 600], vec![3; 700]]);
            last = Some(world.opened.is_none());
        }
        if !world.step() && last.is_some() {
            break;
        }
    }
    assert_eq!(world.finish_spills_due(), 0, "step {step}: parts that came before the end of the start are answered");
    world.check_contents(&before, "recovered");
    assert!(kept.iter().all(|number| world.recovered.contains_key(number)), "step {step}");
    world.next_bundle = before.next_bundle;
    world.known = before.known.clone();
    world.finish_spills_surely();
    world.settle();
    let sent = known(&world, before.next_bundle).clone();
    assert!(sent.stored, "step {step}");
    assert_eq!(world.load_rope(sent.rope).unwrap(), sent.payload, "step {step}");
    world.reopen(world.disk.clone(), "again");
}

#[test]
fn spills_during_start_are_kept() {
    for step in 0..40 {
        begun_while_read(step);
    }
}
