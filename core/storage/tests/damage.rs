//! Damage tests: each byte of a store file is flipped in turn, and at most its record is lost.

use crate::common;
use crate::common::{StoreWorld, disk::SimDisk, small};
use farlink_base::Refusal;
use farlink_base::store::Input;

fn world() -> StoreWorld {
    let mut world = StoreWorld::open(small(200_000), SimDisk::default(), 3);
    world.settle();
    for n in 0..14 {
        world.put(n * 20);
        if n == 3 {
            world.spill();
        }
        world.settle();
        world.finish_spills_surely();
    }
    world.settle();
    for number in [1, 4, 7] {
        world.delete(number, number != 4);
    }
    world.input(Input::SetCounter { value: 9 });
    world.settle();
    world.assert_all_answered("before");
    world
}

#[test]
fn flipped_byte_costs_only_its_record() {
    let world = world();
    let expected: Vec<u64> = world.known.iter().filter(|(_, k)| k.stored && !k.delete_asked).map(|(n, _)| *n).collect();
    let total = world.disk.len();
    assert!((3_000..8_000).contains(&total), "{total} bytes");
    let files: Vec<u32> = world.disk.files.keys().copied().collect();
    for file in files {
        for at in 0..world.disk.files[&file].cache.len() {
            let mut disk = world.disk.killed();
            disk.files.get_mut(&file).unwrap().damage(|bytes| bytes[at] ^= 1 << (at % 8));
            let what = format!("file {file} byte {at}");
            let mut again = StoreWorld::open(world.config, disk, 1);
            again.settle();
            let (counter, _) = again.opened.expect("opens");
            for number in &expected {
                let Some((_, _, payload, _)) = again.recovered.get(number).cloned() else { continue };
                again.input(Input::Load { load: *number, payload });
            }
            again.settle();
            let lost = expected
                .iter()
                .filter(|n| match &again.loaded.get(n) {
                    Some(Ok(payload)) => {
                        assert!(payload.to_bytes().unwrap() == world.known[n].payload, "{what}: wrong bytes");
                        let (index, head, _, tail) = &again.recovered[n];
                        let known = &world.known[n];
                        assert_eq!((index, head, tail), (&known.index, &known.head, &known.tail), "{what}");
                        false
                    }
                    Some(Err(reason)) => {
                        assert_eq!(*reason, Refusal::Damaged, "{what}");
                        true
                    }
                    None => true,
                })
                .count();
            let forgotten = usize::from(again.deliveries.len() < 2) + usize::from(counter < 9);
            let back = again.recovered.keys().filter(|n| !expected.contains(n)).count();
            assert!(lost + forgotten.max(back) <= 1, "{what}: {lost} lost, {forgotten} forgotten, {back} back");
            // Data of deleted bundles are not checked.
            assert!(again.damage > 0 || lost + forgotten + back == 0, "{what}: damage not reported");
        }
    }
}

#[test]
fn any_flipped_payload_byte_found() {
    let config = farlink_storage::Config { segment_bytes: 4 << 20, ..small(80_000_000) };
    let mut world = StoreWorld::open(config, SimDisk::default(), 3);
    world.settle();
    let len = 1_500_000;
    let number = world.put(len);
    world.settle();
    let rope = world.known[&number].rope.clone();
    assert!(rope.is_stored() && world.load_rope(rope.clone()).is_ok_and(|bytes| bytes.len() as u64 == len));
    let (file, size) = world.disk.files.iter().map(|(file, f)| (*file, f.cache.len())).max_by_key(|f| f.1).unwrap();
    for from_end in [5_000, 300_000, 700_000, 1_200_000] {
        let at = size - from_end;
        world.disk.files.get_mut(&file).unwrap().cache[at] ^= 16;
        assert_eq!(world.load_rope(rope.clone()), Err(Refusal::Damaged), "{from_end} from the end");
        world.disk.files.get_mut(&file).unwrap().cache[at] ^= 16;
    }
    assert!(world.load_rope(rope).is_ok(), "as it was");
}

#[test]
fn payload_like_records_is_no_record() {
    let mut world = world();
    // A sender uses the store's own bytes as payload.
    let image: Vec<u8> = world.disk.files.values().flat_map(|f| f.cache.clone()).collect();
    let mut other = StoreWorld::open(farlink_storage::Config { seed: 43, ..world.config }, SimDisk::default(), 8);
    other.settle();
    other.next_bundle = 1000;
    other.put_bytes(image);
    other.settle();
    for at in [130, 150, 170] {
        let mut disk = other.disk.killed();
        disk.files.get_mut(&1).unwrap().damage(|bytes| bytes[at] ^= 4);
        let mut again = StoreWorld::open(other.config, disk, 1);
        again.settle();
        assert!(again.recovered.is_empty() && again.damage > 0, "byte {at}");
    }
    world.settle();
}

#[test]
fn lost_page_costs_only_its_records() {
    const PAGE: usize = 4096;
    let mut world = StoreWorld::open(
        farlink_storage::Config { segment_bytes: 1 << 20, ..small(40_000_000) },
        SimDisk::default(),
        3,
    );
    world.settle();
    let numbers: Vec<u64> = (0..300).map(|_| world.put(100)).collect();
    world.settle();
    assert_eq!(world.disk.files.len(), 1, "one file, and nothing else tells the salt");
    let (file, len) = world.disk.files.iter().map(|(file, f)| (*file, f.cache.len())).next().unwrap();
    let record = (len - PAGE) / numbers.len();
    for page in 0..len.div_ceil(PAGE) {
        let mut disk = world.disk.killed();
        let end = len.min((page + 1) * PAGE);
        disk.files.get_mut(&file).unwrap().damage(|bytes| bytes[page * PAGE..end].fill(0));
        let mut again = StoreWorld::open(world.config, disk, 1);
        again.settle();
        assert!(again.opened.is_some() && again.damage > 0, "page {page}");
        let kept = numbers.iter().filter(|n| again.recovered.contains_key(n)).count();
        let most = PAGE / record + 2;
        assert!(numbers.len() - kept <= most, "page {page}: {} of {} lost, {most} on it", 300 - kept, numbers.len());
        again.next_bundle = 1000;
        let new = again.put(50);
        again.settle();
        assert!(again.known[&new].stored, "page {page}");
    }
}

#[test]
fn damage_to_recycled_content_ignored() {
    // Behind its last record a recycled file has old content in any state.
    let config = farlink_storage::Config { segment_bytes: 4096, ..small(500_000) };
    let mut world = StoreWorld::open(config, SimDisk::default(), 11);
    world.settle();
    let (mut tried, mut left, mut rng) = (0, 0, farlink_base::Rng::new(11));
    for round in 0..40 {
        for _ in 0..20 {
            world.act(2500);
            world.step();
        }
        world.settle();
        let what = format!("round {round}");
        assert_eq!(world.reopen(world.disk.killed(), &what).damage, 0, "{what}: all of it is whole");
        for _ in 0..5 {
            let mut disk = world.disk.killed();
            for file in disk.files.values_mut().filter(|file| file.end < file.cache.len() as u64) {
                let old = file.end as usize..file.cache.len();
                left += old.len();
                for _ in 0..20 {
                    let (at, bit) = (old.start + rng.below(old.len() as u64) as usize, rng.below(8));
                    file.damage(|bytes| bytes[at] ^= 1 << bit);
                }
            }
            let again = world.reopen(disk, &what);
            assert_eq!(again.damage, 0, "{what}: nothing of ours");
            tried += 1;
        }
    }
    assert!(world.remade > 10 && left / tried > 500, "{} written over, {left} bytes of former lives", world.remade);
}

#[test]
fn damaged_tail_of_recycled_file_reported() {
    // A flipped bit in one of the last records of a recycled file must not pass for the end of its records.
    let config = farlink_storage::Config { segment_bytes: 4096, ..small(400_000) };
    let mut world = StoreWorld::open(config, SimDisk::default(), 12);
    world.settle();
    let (mut tried, mut told) = (0, 0);
    for round in 0..22 {
        for _ in 0..20 {
            world.act(900);
            world.step();
        }
        world.settle();
        let kept: Vec<u64> = world.known.iter().filter(|(_, k)| k.stored && !k.delete_asked).map(|(n, _)| *n).collect();
        let whole = world.reopen(world.disk.killed(), "whole");
        let recycled = |f: &common::disk::SimFile| f.end > 128 && f.end < f.cache.len() as u64;
        let files: Vec<(u32, u64)> =
            world.disk.files.iter().filter(|(_, f)| recycled(f)).map(|(file, f)| (*file, f.end)).collect();
        for (file, end) in files {
            for at in (end.saturating_sub(400).max(128)..end).step_by(7) {
                let what = format!("round {round}, file {file}, byte {at} of {end}");
                let mut disk = world.disk.killed();
                disk.files.get_mut(&file).unwrap().damage(|bytes| bytes[at as usize] ^= 1 << (at % 8));
                let mut again = StoreWorld::open(world.config, disk, 1);
                again.settle();
                for number in &kept {
                    let Some((_, _, payload, _)) = again.recovered.get(number).cloned() else { continue };
                    again.input(Input::Load { load: *number, payload });
                }
                again.settle();
                let lost = kept.iter().filter(|n| !again.loaded.get(n).is_some_and(|loaded| loaded.is_ok())).count();
                let back = again.recovered.keys().filter(|n| !whole.recovered.contains_key(n)).count();
                let forgotten = whole.deliveries.difference(&again.deliveries).count();
                assert!(lost + forgotten.max(back) <= 1, "{what}: {lost} lost, {back} back, {forgotten} forgotten");
                assert!(again.damage > 0 || lost + back + forgotten == 0, "{what}: damage not reported");
                tried += 1;
                told += usize::from(again.damage > 0);
            }
        }
    }
    assert!(tried > 300 && told > 200, "{told} of {tried} reported");
}
