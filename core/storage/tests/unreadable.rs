//! Starts that cannot read all of a store, or must not: nothing is written, and nothing is lost.

use crate::common;
use crate::common::disk::{SimDisk, Touch};
use crate::common::{StoreWorld, small};
use farlink_base::store::{BundleStore, DiskAction, DiskError};
use farlink_base::{Accel, Duration, Rng};
use farlink_storage::{FORMAT, format_of};

/// A store of several files, some of them recycled.
fn filled(seed: u64) -> StoreWorld {
    let mut world = StoreWorld::open(small(150_000), SimDisk::default(), seed);
    world.settle();
    for _ in 0..150 {
        world.act(4000);
        world.step();
    }
    world.finish_spills_surely();
    world.settle();
    assert!(world.disk.files.len() > 2, "{} files", world.disk.files.len());
    world
}
/// Lets a store open for a while.
fn wait(world: &mut StoreWorld) {
    let until = world.now + Duration::from_secs(30);
    for _ in 0..5000 {
        if world.now >= until || !world.step() {
            return;
        }
    }
}

#[test]
fn read_error_during_start_writes_nothing() {
    let before = filled(7);
    let mut whole = StoreWorld::open(before.config, before.disk.killed(), 1);
    whole.settle();
    let operations = whole.opened_at.expect("it opened");
    assert!(operations > 10, "{operations} operations");
    for at in 1..=operations {
        let what = format!("errors from operation {at} on");
        let mut disk = before.disk.killed();
        let found = disk.image();
        disk.fail = Some((at..u64::MAX, DiskError::Io));
        disk.touched = Some(Touch::default());
        let mut world = StoreWorld::open(before.config, disk, at);
        wait(&mut world);
        assert!(world.opened.is_none() && world.recovered.is_empty() && world.failures > 0, "{what}");
        let touched = world.disk.touched.take().expect("watched");
        if touched.writes > 0 {
            // All files were read, so the rewrite writes the same bytes.
            assert_eq!(touched.unread, 0, "{what}");
        }
        assert_eq!((touched.made, touched.removed), (0, 0), "{what}");
        assert!(world.disk.image() == found, "{what}: changed");
        // The disk is repaired while the node waits or before the next start.
        let repaired = world.disk.killed();
        world.disk.fail = None;
        world.settle();
        assert!(world.opened.is_some(), "{what}: still waits");
        let again = before.reopen(repaired, &what);
        assert_eq!(again.recovered.len(), world.recovered.len(), "{what}");
        let next = again.reopen(again.disk.power_cut(&[], &mut Rng::new(at)), &what);
        assert_eq!(next.damage, 0, "{what}");
    }
}

#[test]
fn failed_start_operation_is_retried() {
    // Each operation fails once: it is repeated after a pause, and only once.
    let before = filled(12);
    let mut whole = StoreWorld::open(before.config, before.disk.killed(), 1);
    whole.settle();
    let mut world = StoreWorld::open(before.config, before.disk.killed(), 1);
    let mut failed = Vec::new();
    while world.opened.is_none() {
        let [op] = &world.outstanding[..] else { panic!("{} operations", world.outstanding.len()) };
        let action = op.action.clone();
        if failed.contains(&action) {
            world.perform_first(|_| true, None);
            continue;
        }
        world.perform_first(|_| true, Some(DiskError::Io));
        world.wake_after_ms(500);
        assert!(world.outstanding.is_empty(), "{action:?}");
        world.wake_after_ms(600);
        world.wake_after_ms(0);
        let [again] = &world.outstanding[..] else { panic!("{} operations", world.outstanding.len()) };
        match action {
            // A rewrite starts at the beginning of its file.
            DiskAction::Write { file, .. } | DiskAction::Sync { file } => {
                assert!(matches!(again.action, DiskAction::Read { file: of, offset: 0, .. } if of == file));
            }
            _ => assert_eq!(again.action, action),
        }
        failed.push(action);
    }
    assert_eq!(world.recovered.len(), whole.recovered.len());
    world.settle();
    assert_eq!(world.store.usage().file_bytes, world.disk.len());
}

#[test]
fn unreadable_file_keeps_store_closed() {
    let before = filled(8);
    for file in before.disk.files.keys().copied().collect::<Vec<_>>() {
        for from in [0, 100, 5000] {
            let mut disk = before.disk.killed();
            if disk.files[&file].cache.len() as u64 <= from {
                continue;
            }
            let found = disk.image();
            disk.unreadable = Some((file, from));
            let mut world = StoreWorld::open(before.config, disk, 1);
            wait(&mut world);
            assert!(world.opened.is_none() && world.failures > 0, "file {file} from {from}");
            assert!(world.disk.image() == found, "file {file} from {from}");
            let mut repaired = world.disk.killed();
            repaired.unreadable = None;
            before.reopen(repaired, "repaired");
        }
    }
}

/// Changes the format number in both copies of a file's header.
fn mark(bytes: &mut [u8], format: u32) {
    for at in [0, 64, 4096] {
        let Some(copy) = bytes.get_mut(at..at + 64).filter(|copy| copy.starts_with(b"FarlinkS")) else { continue };
        copy[8..12].copy_from_slice(&format.to_le_bytes());
        let crc = (Accel::default().crc32c)(0, &copy[..60]);
        copy[60..].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn newer_format_keeps_store_closed() {
    let before = filled(9);
    for file in before.disk.files.keys().copied().collect::<Vec<_>>() {
        let mut disk = before.disk.killed();
        disk.files.get_mut(&file).expect("there").damage(|bytes| mark(bytes, FORMAT + 1));
        assert_eq!(format_of(&Accel::default(), &disk.files[&file].cache), Some(FORMAT + 1));
        let found = disk.image();
        disk.touched = Some(Touch::default());
        let mut world = StoreWorld::open(before.config, disk, 1);
        wait(&mut world);
        assert!(world.opened.is_none() && world.recovered.is_empty(), "file {file}");
        assert_eq!((world.damage, world.disk.image() == found), (0, true), "file {file}");
        assert_eq!(world.failures, 1, "file {file}");
        let touched = world.disk.touched.take().expect("watched");
        assert_eq!((touched.writes, touched.made, touched.removed), (0, 0, 0), "file {file}");
        // The newer program runs again.
        let mut disk = world.disk.killed();
        disk.files.get_mut(&file).expect("there").damage(|bytes| mark(bytes, FORMAT));
        before.reopen(disk, "as it was");
    }
}

#[test]
fn damaged_format_number_is_damage() {
    let before = filled(10);
    let file = *before.disk.files.keys().next().expect("a file");
    let mut disk = before.disk.killed();
    disk.files.get_mut(&file).expect("there").damage(|bytes| bytes[8] ^= 0x40);
    let again = before.reopen(disk, "a flipped byte");
    assert!(again.damage > 0);
}

/// Two stores in one folder, the second begun later with numbers above `number`: the first store, the disk, and the
/// bundles of each.
fn two_stores(seed: u64, number: u64) -> (StoreWorld, SimDisk, Vec<u64>, Vec<u64>) {
    let mut first = filled(seed);
    let kept: Vec<u64> = first.known.iter().filter(|(_, k)| k.stored && !k.delete_asked).map(|(n, _)| *n).collect();
    let config = farlink_storage::Config { seed: 999, ..first.config };
    let mut second = StoreWorld::open(config, SimDisk::default(), 5);
    second.settle();
    second.next_bundle = 1 << 33;
    let later: Vec<u64> = (0..10).map(|n| second.put(n * 100)).collect();
    second.settle();
    let numbers: Vec<u32> = second.disk.files.keys().copied().collect();
    let above = first.disk.files.keys().max().expect("files") + 1;
    let mut disk = first.disk.killed();
    for file in numbers {
        let mut moved = second.disk.files[&file].clone();
        moved.damage(|bytes| renumber(bytes, file, file + above, number));
        disk.files.insert(file + above, moved);
    }
    first.next_bundle = 1 << 34;
    (first, disk, kept, later)
}

#[test]
fn files_with_own_salts_are_read() {
    // Earlier versions continued with another salt when a file could not be read: each file is judged by its own
    // header.
    let (first, disk, kept, later) = two_stores(11, 1 << 32);
    let mut again = StoreWorld::open(first.config, disk, 1);
    again.settle();
    for number in kept.iter().chain(&later) {
        assert!(again.recovered.contains_key(number), "bundle {number}");
    }
    again.next_bundle = 1 << 35;
    // Compaction moves the records of both.
    again.known = first.known.clone();
    again.known.retain(|number, _| kept.contains(number));
    for round in 0..200 {
        let number = again.put(3000);
        again.settle();
        again.delete(number, round % 2 == 0);
        again.settle();
    }
    let mut last = StoreWorld::open(first.config, again.disk.killed(), 2);
    last.settle();
    for number in kept.iter().chain(&later) {
        let payload = last.recovered[number].2.clone();
        assert!(last.load_rope(payload).is_ok(), "bundle {number}");
    }
}
#[test]
fn headerless_file_read_by_salt() {
    let (first, disk, kept, later) = two_stores(11, 1 << 32);
    for file in first.disk.files.keys() {
        let mut disk = disk.killed();
        disk.files.get_mut(file).expect("there").damage(|bytes| (bytes[20], bytes[84]) = (!bytes[20], !bytes[84]));
        let mut again = StoreWorld::open(first.config, disk, 1);
        again.settle();
        assert!(again.damage > 0, "file {file}");
        for number in kept.iter().chain(&later) {
            let payload = again.recovered.get(number).unwrap_or_else(|| panic!("file {file}: {number} lost")).2.clone();
            assert!(again.load_rope(payload).is_ok(), "file {file}: {number}");
        }
    }
}
#[test]
fn bundle_of_reused_number_is_damage() {
    // The second store gave numbers of the first to other bundles: the records of the first stay where they are.
    let (first, disk, kept, later) = two_stores(11, 4);
    let found = disk.image();
    let mut again = StoreWorld::open(first.config, disk, 1);
    again.settle();
    for number in &kept {
        assert_eq!(again.recovered.contains_key(number), *number <= 4, "bundle {number}");
    }
    assert!(later.iter().all(|number| again.recovered.contains_key(number)));
    assert!(again.damage >= kept.iter().filter(|number| **number > 4).count());
    again.next_bundle = 1 << 35;
    for _ in 0..50 {
        let number = again.put(3000);
        again.settle();
        again.delete(number, false);
        again.settle();
    }
    let left = again.disk.image();
    let untouched = first.disk.files.keys().filter(|file| left.get(file) == found.get(file)).count();
    assert!(untouched > 1, "{untouched} files of {}", first.disk.files.len());
}
/// Changes the file number in all records and header copies of a file, and the headers' last bundle number to `above`.
fn renumber(bytes: &mut [u8], from: u32, to: u32, above: u64) {
    let crc32c = Accel::default().crc32c;
    for at in 0..bytes.len().saturating_sub(48) {
        if bytes[at..].starts_with(b"FLr1") && bytes[at + 40..at + 44] == from.to_le_bytes() {
            bytes[at + 40..at + 44].copy_from_slice(&to.to_le_bytes());
            let crc = crc32c(0, &bytes[at..at + 44]);
            bytes[at + 44..at + 48].copy_from_slice(&crc.to_le_bytes());
        }
    }
    for at in [0, 64, 4096] {
        let Some(copy) = bytes.get_mut(at..at + 64).filter(|copy| copy.starts_with(b"FarlinkS")) else { continue };
        copy[12..16].copy_from_slice(&to.to_le_bytes());
        // The last number that the second store knew of.
        copy[32..40].copy_from_slice(&above.to_le_bytes());
        let crc = crc32c(0, &copy[..60]);
        copy[60..].copy_from_slice(&crc.to_le_bytes());
    }
}

#[test]
fn unsynced_data_rewritten_before_use() {
    // A sync fails, the process is killed, and the system's cache still shows bytes that never reached the disk.
    let (mut shown, mut found) = (0, 0);
    for seed in 0..common::points(300) {
        let mut world = StoreWorld::open(small(150_000), SimDisk { remembers: true, ..SimDisk::default() }, seed);
        world.settle();
        for _ in 0..40 {
            world.act(3000);
            world.step();
        }
        world.settle();
        let from = world.put_while_failing(seed);
        let what = format!("seed {seed}, errors from {from} on");
        let killed = world.disk.killed();
        shown += killed.files.values().filter(|file| file.shows_what_is_lost()).count();
        let next = world.reopen(killed, &what);
        found += next.recovered.len();
        next.reopen(next.disk.power_cut(&[], &mut Rng::new(seed)), &what);
    }
    assert!(shown > 10 && found > 0, "{shown} files, {found} bundles");
}
