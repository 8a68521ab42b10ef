//! Model test: the store and a plain map agree after any sequence of requests.

use crate::common::{StoreWorld, disk::SimDisk, points, small};
use farlink_base::store::BundleStore;

#[test]
fn holds_what_a_plain_map_holds() {
    for seed in 0..points(12) {
        let mut world = StoreWorld::open(small(600_000), SimDisk::default(), 100 + seed);
        world.settle();
        for round in 0..6 {
            for _ in 0..150 {
                world.act(9000);
                for _ in 0..world.rng.below(4) {
                    world.step();
                }
            }
            world.settle();
            let what = format!("seed {seed} round {round}");
            world.assert_all_answered(&what);
            let kept: Vec<u64> =
                world.known.iter().filter(|(_, k)| k.stored && !k.delete_asked).map(|(n, _)| *n).collect();
            let bytes = |n: &u64| {
                let k = &world.known[n];
                (k.head.len() + k.payload.len() + k.tail.len()) as u64
            };
            let usage = world.store.usage();
            assert_eq!(usage.bundles, kept.len() as u64, "{what}");
            assert_eq!(usage.bytes, kept.iter().map(bytes).sum::<u64>(), "{what}");
            assert_eq!(usage.file_bytes, world.disk.len(), "{what}");
            for number in &kept {
                world.load(*number);
            }
            world.settle();
            for number in &kept {
                let payload = world.loaded[number].as_ref().unwrap_or_else(|e| panic!("{what}: {number}: {e}"));
                assert!(payload.to_bytes().unwrap() == world.known[number].payload, "{what}: {number}");
            }
            world = world.reopen(world.disk.killed(), &what);
        }
    }
}
