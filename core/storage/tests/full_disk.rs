//! A disk whose space others take and give back at random: nothing acknowledged is lost, every request is answered
//! once there is space, the store takes bundles again, and the space of deleted bundles is freed.

use crate::common::{StoreWorld, disk::SimDisk, points, small};
use farlink_base::store::{BundleStore, DiskAction, DiskError, DiskOp, Input};
use farlink_base::{Duration, Rng};
use farlink_storage::Config;

/// A store and the disk it is on.
struct Trial {
    world: StoreWorld,
    /// Drives the disk's other users.
    others: Rng,
    what: String,
}

impl Trial {
    fn new(seed: u64) -> Trial {
        let mut others = Rng::stream(seed, 7);
        let pick = |rng: &mut Rng, from: &[u64]| from[rng.below(from.len() as u64) as usize];
        let config = Config {
            segment_bytes: pick(&mut others, &[1024, 8192, 16_384, 16_384, 65_536]),
            reserve_bytes: pick(&mut others, &[0, 4096, 8192, 1 << 20]),
            spares: others.below(5) as usize,
            group_bytes: pick(&mut others, &[4096, 20_000, 16 << 20]),
            read_bytes: pick(&mut others, &[4096, 1 << 20]),
            ..small(pick(&mut others, &[20_000, 150_000, 600_000, 600_000, 4 << 20]))
        };
        let disk = SimDisk {
            space: others.chance(0.8).then(|| 10_000 + others.below(150_000)),
            tells_late: others.chance(0.25),
            reserves: others.chance(0.1).then(|| pick(&mut Rng::new(seed), &[0, 1, 100, 5000, 100_000])),
            ..SimDisk::default()
        };
        let what = format!("seed {seed}, {config:?}");
        Trial { world: StoreWorld::open(config, disk, seed), others, what }
    }
    /// Performs `count` disk operations or waits; a timeout that is due at once must not recur without end.
    fn steps(&mut self, count: u64) {
        let mut idle = 0;
        for _ in 0..count {
            let (at_once, before) = (self.world.store.next_timeout() <= Some(self.world.now), self.world.disk.count);
            if !self.world.step() {
                return;
            }
            let busy = at_once && self.world.disk.count == before && self.world.outstanding.is_empty();
            idle = if busy { idle + 1 } else { 0 };
            assert!(idle < 20, "{}: due at once for ever", self.what);
        }
    }
    /// Lets seconds pass, however busy the disk is.
    fn pass(&mut self, seconds: u64) {
        let end = self.world.now + Duration::from_secs(seconds);
        let mut steps = 0;
        while self.world.now < end {
            let next = self.world.store.next_timeout();
            if self.world.outstanding.is_empty() && next.is_none_or(|at| at > end) {
                self.world.now = end;
                self.world.input(Input::Wake);
            } else {
                self.steps(1);
            }
            steps += 1;
            assert!(steps < 100_000, "{}: never comes to rest", self.what);
        }
    }
    /// Lets others take or free space, or the disk fail for a moment.
    fn meddle(&mut self) {
        let (disk, rng) = (&mut self.world.disk, &mut self.others);
        match rng.below(12) {
            0..=3 => disk.space = Some(disk.len()),
            4..=5 => disk.space = Some(disk.len() + rng.below(20_000)),
            6 => disk.space = Some(disk.len() / 2),
            7 => disk.space = None,
            8 => disk.reserves_fail = rng.chance(0.5).then_some(DiskError::Full),
            9 => disk.reserves_fail = rng.chance(0.5).then_some(DiskError::Io),
            _ => {
                let at = disk.count + 1 + rng.below(8);
                let error = if rng.chance(0.5) { DiskError::Io } else { DiskError::Full };
                disk.fail = Some((at..at + 1 + rng.below(3), error));
            }
        }
    }
    /// Frees all space and ends the failures.
    fn give_back(&mut self) {
        let disk = &mut self.world.disk;
        (disk.space, disk.fail, disk.reserves_fail) = (None, None, None);
    }
    /// Opens the store again after a power cut or a kill.
    fn reopen(&mut self, killed: bool) -> StoreWorld {
        let mut disk = match killed {
            true => self.world.disk.killed(),
            false => self.world.disk.power_cut(&self.world.outstanding, &mut self.others),
        };
        (disk.space, disk.fail, disk.reserves_fail) = (None, None, None);
        self.world.reopen(disk, &self.what)
    }
    fn work(&mut self) {
        for _ in 0..400 {
            if self.others.chance(0.08) {
                self.meddle();
            }
            self.world.act(9000);
            let steps = self.others.below(5);
            self.steps(steps);
            if self.others.chance(0.05) {
                self.world.now += Duration::from_millis(self.others.below(2000));
                self.world.input(Input::Wake);
            }
            if self.others.chance(0.02) {
                let killed = self.others.chance(0.5);
                let again = self.reopen(killed);
                if self.others.chance(0.5) {
                    self.world = again;
                    // Requests to the ended run are not answered.
                    self.world
                        .known
                        .retain(|_, known| known.answered && (!known.delete_asked || known.delete_answered));
                }
            }
        }
    }
    fn is_stored(&self, number: u64) -> bool {
        self.world.known[&number].stored
    }
    fn assert_answered(&mut self) {
        let what = self.what.clone();
        self.world.assert_all_answered(&what);
        let due = self.world.finish_spills_due();
        assert_eq!(due, 0, "{what}: spills unanswered");
        assert_eq!(self.world.counter, self.world.counter_asked, "{what}: counters unanswered");
    }
    /// Deletes all bundles and checks that little is left on the disk.
    fn empty(&mut self) {
        self.world.drop_spills();
        let left: Vec<u64> =
            self.world.known.iter().filter(|(_, k)| k.stored && !k.delete_asked).map(|(n, _)| *n).collect();
        left.iter().for_each(|number| self.world.delete(*number, false));
        self.pass(5);
        let usage = self.world.store.usage();
        assert_eq!(usage.bundles, 0, "{}", self.what);
        // Bytes of a failed write count as long as their file is there.
        let there = self.world.disk.len();
        assert!(usage.file_bytes >= there, "{}: {there} B there, {usage:?}", self.what);
    }
}

#[test]
fn foreign_use_of_disk_loses_nothing() {
    let (mut refused, mut remade, mut failures, mut used) = (0, 0, 0, 0);
    for seed in 1..=points(60) {
        let mut trial = Trial::new(seed);
        trial.pass(1);
        trial.work();
        trial.give_back();
        trial.pass(5);
        trial.assert_answered();
        trial.empty();
        let number = trial.world.put(100);
        trial.pass(1);
        assert!(trial.is_stored(number), "{}: refused although there is room", trial.what);
        trial.reopen(false);
        trial.reopen(true);
        (refused, remade) = (refused + trial.world.refused, remade + trial.world.remade);
        (failures, used) = (failures + trial.world.failures, used + trial.world.disk.reserves_used);
    }
    println!("{refused} refused, {remade} files recycled, {failures} failures, reserve used {used} times");
    assert!(used > 5 && failures > 100, "{used} {failures}");
}

#[test]
fn completely_full_disk_delivers_all() {
    // Others take every byte, and nothing else fails: deletions are answered, whatever files their bundles are in,
    // and then there is space for others.
    let (mut used, mut most) = (0, 0);
    for seed in 1..=points(40) {
        let mut trial = Trial::new(seed);
        let disk = &mut trial.world.disk;
        (disk.tells_late, disk.space, disk.reserves) = (false, None, None);
        trial.pass(1);
        if trial.world.store.usage().file_bytes < 4096 {
            continue;
        }
        let mut left = Vec::new();
        for _ in 0..trial.others.below(300) {
            let len = 1 + trial.others.below(3000);
            left.push(trial.world.put(len));
            trial.steps(3);
        }
        trial.pass(2);
        let remembered = trial.others.below(101) as f64 / 100.0;
        let disk = &mut trial.world.disk;
        disk.space = Some(disk.len() - trial.others.below(2) * disk.len() / 3);
        left.retain(|number| trial.world.known[number].stored);
        while !left.is_empty() {
            let at = trial.others.below(left.len() as u64) as usize;
            let remember = trial.others.chance(remembered);
            trial.world.delete(left.swap_remove(at), remember);
            let steps = trial.others.below(6);
            trial.steps(steps);
        }
        trial.pass(10);
        trial.assert_answered();
        if trial.world.disk.space < Some(20_000 + 2 * trial.world.config.reserve_bytes.min(32 << 10)) {
            continue;
        }
        let number = trial.world.put(500);
        trial.pass(5);
        assert!(trial.is_stored(number), "{}: {:?}", trial.what, trial.world.store.usage());
        (used, most) = (used + trial.world.disk.reserves_used, most.max(trial.world.disk.files.len()));
    }
    println!("reserve used {used} times, {most} files left at most");
}

/// A store with files of 1 MiB on a disk of `space` bytes.
fn large(seed: u64, space: Option<u64>) -> StoreWorld {
    let config = Config { segment_bytes: 1 << 20, reserve_bytes: 64 << 10, ..Config::new(32 << 20) };
    StoreWorld::open(config, SimDisk { space, ..SimDisk::default() }, seed)
}

#[test]
fn waiting_bundles_refused_when_nothing_keeps() {
    let mut world = large(1, Some(1000));
    while world.opened.is_none() {
        world.step();
    }
    let number = world.put(10);
    let is_reserve = |op: &DiskOp| matches!(op.action, DiskAction::Reserve { .. });
    let reserve = world.outstanding.iter().position(is_reserve).map(|at| world.outstanding.remove(at)).unwrap();
    assert!(!world.known[&number].answered);
    world.perform(reserve);
    assert!(world.known[&number].answered && !world.known[&number].stored);
    let before = world.disk.count;
    world.pass_tenths(600);
    let tried = world.disk.count - before;
    assert!((30..60).contains(&tried), "{tried} times in a minute");
}

#[test]
fn earlier_emptied_file_makes_room() {
    // Nothing waits for the disk and no bundle is left: the newest file must still be removed once a newer one is
    // durable.
    let mut world = large(2, None);
    world.pass_tenths(1);
    let numbers = [(); 40].map(|()| world.put(20_000));
    world.pass_tenths(2);
    numbers.iter().for_each(|number| world.delete(*number, false));
    world.pass_tenths(2);
    world.disk.space = Some(world.disk.len());
    world.stored.clear();
    for _ in 0..30 {
        world.put(300_000);
        world.pass_tenths(2);
    }
    assert!(!world.stored.is_empty(), "{:?}", world.store.usage());
}

#[test]
fn scattered_rest_moves_for_deliveries() {
    // More deliveries than the reserve can record, from several files that each keep a few bundles: those bundles move
    // into the last quarter of the reserve, and the files are removed. The disk may be full again afterwards.
    let mut world = large(3, None);
    world.pass_tenths(1);
    for round in 0..4 {
        let numbers: Vec<u64> = (0..1700).map(|_| world.put(1400)).collect();
        world.pass_tenths(5);
        assert!(world.disk.files.len() > 2);
        world.disk.space = Some(world.disk.len());
        // A record that does not fit ends each file, and the next is made of the reserve.
        for number in numbers.iter().filter(|number| *number % 500 != 7) {
            world.delete(*number, true);
        }
        world.pass_tenths(50);
        let owed = numbers.iter().filter(|number| {
            let known = &world.known[number];
            known.delete_asked && !known.delete_answered
        });
        assert_eq!(owed.count(), 0, "round {round}: {:?}", world.store.usage());
        let number = world.put(100_000);
        world.pass_tenths(20);
        assert!(world.known[&number].stored, "round {round}");
        world.disk.space = None;
        world.pass_tenths(20);
    }
    assert!(world.disk.reserves_used >= 3, "{}", world.disk.reserves_used);
    world.reopen(world.disk.killed(), "after the disk was full");
}

#[test]
fn arrivals_wait_for_recycled_file() {
    // A bundle that arrives while the next file is made of the reserve is answered then, not once there is space.
    let mut world = large(4, None);
    world.pass_tenths(1);
    let numbers = [(); 40].map(|()| world.put(1000));
    world.pass_tenths(2);
    world.disk.space = Some(0);
    world.delete(numbers[0], true);
    for _ in 0..100 {
        while !world.outstanding.is_empty() {
            world.step();
        }
        world.now = world.store.next_timeout().map_or(world.now, |at| world.now.max(at));
        let number = world.put(100);
        if world.outstanding.iter().any(|op| matches!(op.action, DiskAction::Create { of: Some(_), .. })) {
            assert!(world.known[&number].answered && !world.known[&number].stored);
            return;
        }
    }
    panic!("the reserve is not used");
}

#[test]
fn shortest_groups_come_to_an_end() {
    // The shortest possible groups, a file header with one record: compaction and deliveries continue.
    let mut world = large(5, None);
    world.config.group_bytes = 4096;
    world = StoreWorld::open(world.config, SimDisk::default(), 5);
    world.pass_tenths(1);
    let numbers: Vec<u64> = (0..120).map(|_| world.put(14_000)).collect();
    world.pass_tenths(5);
    let gone = numbers.iter().take(99).filter(|number| *number % 10 != 0);
    gone.for_each(|number| world.delete(*number, false));
    world.now += Duration::from_millis(60);
    world.input(Input::Wake);
    let is_read = |op: &DiskOp| matches!(op.action, DiskAction::Read { .. });
    while let Some(at) = world.outstanding.iter().position(|op| !is_read(op)) {
        let op = world.outstanding.remove(at);
        world.perform(op);
    }
    let read = world.outstanding.pop().expect("a file is nearly empty");
    world.perform(read);
    world.disk.space = Some(0);
    numbers[100..].iter().for_each(|number| world.delete(*number, true));
    world.pass_tenths(50);
    assert!(numbers[100..].iter().all(|number| world.known[number].delete_answered));
    world.disk.space = None;
    world.reopen(world.disk.killed(), "after copies were not made");
}
