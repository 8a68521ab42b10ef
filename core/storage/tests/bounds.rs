//! Bounds of a store: capacity, quotas and the extents it accepts.

use crate::common::{StoreWorld, disk::SimDisk, small};
use farlink_base::Payload;
use farlink_base::store::{BundleStore, Input};
use farlink_storage::{Config, LogStore};

fn world(config: Config) -> StoreWorld {
    let mut world = StoreWorld::open(config, SimDisk::default(), 3);
    world.settle();
    world
}
fn stored(world: &StoreWorld, number: u64) -> bool {
    world.known[&number].stored
}

#[test]
fn full_store_refuses_until_room_returns() {
    let mut world = world(small(100_000));
    let mut kept = Vec::new();
    for _ in 0..300 {
        let number = world.put(1000);
        world.settle();
        kept.extend(stored(&world, number).then_some(number));
    }
    // A bundle takes some 1,170 bytes with its record. Without the limit of seven eighths, 78 bundles would be kept.
    assert!((70..=76).contains(&kept.len()), "{} of 1 kB in seven eighths of 100 kB", kept.len());
    assert!(world.disk.files.values().map(|file| file.cache.len()).sum::<usize>() <= 110_000, "nor on disk");
    kept.drain(..40).for_each(|number| world.delete(number, false));
    world.settle();
    let number = world.put(20_000);
    world.settle();
    assert!(stored(&world, number), "deletions made room");
}

#[test]
fn joint_deletions_take_few_commits() {
    let mut world = world(Config { seed: 42, ..Config::new(100 << 20) });
    let numbers: Vec<u64> = (0..256).map(|_| world.put(5000)).collect();
    world.settle();
    assert!(numbers.iter().all(|number| stored(&world, *number)));
    let before = world.syncs;
    numbers.iter().for_each(|number| world.delete(*number, true));
    while !numbers.iter().all(|number| world.known[number].delete_answered) {
        assert!(world.step(), "an answer is missing");
    }
    let syncs = world.syncs - before;
    assert!((1..=2).contains(&syncs), "{syncs} syncs for 256 deliveries: the first, and all that came meanwhile");
}

#[test]
fn reported_room_is_there() {
    // Bundles counted with their records up to `LogStore::room_in` are never refused.
    for payload in [1, 300, 5000, 100_000] {
        let capacity = 3_000_000;
        let mut world = world(small(capacity));
        let size = |world: &StoreWorld, number: u64| {
            let known = &world.known[&number];
            (known.head.len() + known.payload.len() + known.tail.len()) as u64 + LogStore::RECORD_BYTES
        };
        let (mut there, mut taken) = (Vec::new(), 0);
        for round in 0..3 {
            // The room of deleted bundles must count again, or the store would shrink with each round.
            for number in there.drain(..there.len() / 3) {
                taken -= size(&world, number);
                world.delete(number, round == 1);
            }
            while taken + payload + 50 + LogStore::RECORD_BYTES <= LogStore::room_in(capacity) {
                let number = world.put(payload);
                taken += size(&world, number);
                there.push(number);
            }
            world.settle();
            let refused = there.iter().filter(|number| !stored(&world, **number)).count();
            assert_eq!(refused, 0, "of {} with {payload} B, round {round}", there.len());
        }
    }
}

#[test]
fn quota_bounds_only_its_own_bundles() {
    let mut world = world(Config { quota_bytes: 3000, ..small(300_000) });
    // `put` charges bundles to three quotas in turn; three of 900 bytes and their heads fit each.
    let numbers: Vec<u64> = (0..30).map(|_| world.put(900)).collect();
    world.settle();
    for quota in 0..3 {
        let of_it = |number: &&u64| *number % 3 == quota && stored(&world, **number);
        assert_eq!(numbers.iter().filter(of_it).count(), 3, "quota {quota}");
    }
    let first = *numbers.iter().find(|number| *number % 3 == 1).unwrap();
    world.delete(first, false);
    world.settle();
    let again: Vec<u64> = (0..3).map(|_| world.put(900)).collect();
    world.settle();
    assert_eq!(again.iter().filter(|number| stored(&world, **number)).count(), 1, "only where one left");
}

#[test]
fn bundle_of_unwritten_spill_refused() {
    let mut world = world(small(300_000));
    world.spill_parts(vec![vec![7; 2000], vec![8; 2000]]);
    world.settle();
    let (spill, arriving) = world.arriving.pop_first().unwrap();
    let rope = arriving.rope();
    let whole = world.put_extents(rope.clone(), &[[7; 2000], [8; 2000]].concat());
    world.settle();
    assert!(stored(&world, whole));
    // Bytes of another spill, of an unknown spill, and beyond a spill's end.
    for extents in [shifted(rope.clone(), 1, 0), shifted(rope.clone(), 0, 4000), shifted(rope, 1 << 20, 0)] {
        let number = world.put_extents(extents, &[0; 4000]);
        world.settle();
        assert!(!stored(&world, number) && world.known[&number].answered, "beside spill {spill}");
    }
}

/// The extents moved to another spill, or to another offset of it.
fn shifted(rope: Payload, spill: u64, offset: u64) -> Payload {
    use farlink_base::{Chunk, Extent};
    let mut other = Payload::new();
    for chunk in rope.chunks() {
        let Chunk::Stored { extent, len } = chunk else { panic!("on disk") };
        let extent = Extent { record: extent.record + spill, offset: extent.offset + offset };
        other.push(Chunk::Stored { extent, len: *len });
    }
    other
}

#[test]
fn waiting_bundle_answered_despite_newest_file() {
    // The store is nearly full, and its newest file holds only a counter, which the header of the next file has too.
    for first in (100..1000).step_by(50) {
        let mut world = world(small(20_000));
        world.put(first);
        for _ in 0..14 {
            world.settle();
            world.put(900);
        }
        world.settle();
        world.input(Input::SetCounter { value: 5 });
        world.settle();
        let number = world.put(900);
        world.settle();
        assert!(world.known[&number].answered, "after one of {first} B: {:?}", world.store.usage());
    }
}
