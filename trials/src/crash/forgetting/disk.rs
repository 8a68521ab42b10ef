//! A tree of files that models what a disk may hold after a power cut: everything synced, and any part of the rest.
//!
//! Data, lengths and directory entries each need their own sync: `fsync` of a file for its bytes and length, `fsync` of
//! a folder for its names (POSIX promises no more, nor do some file systems). Between two syncs each sector may be
//! written or not, in any order.

use crate::random::Random;
use std::collections::BTreeMap;

/// Unit of an atomic write, bytes.
const SECTOR: usize = 512;
/// Inode of the root folder.
pub const ROOT: u64 = 1;

/// The whole tree, by inode number.
#[derive(Clone, Debug)]
pub struct Disk {
    nodes: BTreeMap<u64, Node>,
    /// Next inode number. Numbers are never reused, not even after a power cut, so that old and new files stay
    /// distinct.
    next: u64,
    /// Whether both names of a rename survive together, as on a disk with a journal.
    pub renames_whole: bool,
}

/// A file or folder: its visible content, its durable content, and the changes between them.
#[derive(Clone, Debug)]
pub enum Node {
    Folder(Twice<BTreeMap<String, u64>, Naming>),
    File(Twice<Vec<u8>, Change>),
}
/// Visible content, durable content, and the unsynced changes from the durable to the visible.
#[derive(Clone, Debug)]
pub struct Twice<T, C> {
    /// Content that reads see.
    pub now: T,
    durable: T,
    changes: Vec<C>,
}
impl<T: Clone + Default, C> Twice<T, C> {
    fn new() -> Self {
        Twice { now: T::default(), durable: T::default(), changes: Vec::new() }
    }
    fn found(content: T) -> Self {
        Twice { now: content.clone(), durable: content, changes: Vec::new() }
    }
}
/// Names added (`Some`) or removed that take effect together.
type Naming = Vec<(String, Option<u64>)>;
/// A change of a file's bytes.
#[derive(Clone, Debug)]
pub enum Change {
    /// Bytes written at an offset.
    Write(usize, Vec<u8>),
    Length(usize),
}

/// Amount of unsynced changes that survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Everything,
    Some,
}
impl Left {
    fn any(random: &mut Random) -> Left {
        // Two in five cuts lose everything unsynced, the state that must do no harm.
        [Left::Nothing, Left::Nothing, Left::Some, Left::Some, Left::Everything][random.below(5) as usize]
    }
    fn keeps(self, random: &mut Random) -> bool {
        self == Left::Everything || self == Left::Some && random.below(2) == 0
    }
}

impl Disk {
    /// A disk with an empty root folder.
    pub fn new() -> Disk {
        Disk { nodes: BTreeMap::from([(ROOT, Node::Folder(Twice::new()))]), next: ROOT + 1, renames_whole: false }
    }
    /// The file or folder with this inode number.
    pub fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }
    /// Inode number of a name in a folder.
    pub fn find(&self, folder: u64, name: &str) -> Option<u64> {
        match self.nodes.get(&folder)? {
            Node::Folder(names) => names.now.get(name).copied(),
            Node::File(_) => None,
        }
    }
    /// Creates a file or folder; `None` if the folder is absent or the name is taken.
    pub fn make(&mut self, folder: u64, name: &str, is_folder: bool) -> Option<u64> {
        let number = self.next;
        let Node::Folder(names) = self.nodes.get_mut(&folder)? else { return None };
        if names.now.contains_key(name) {
            return None;
        }
        names.now.insert(name.into(), number);
        names.changes.push(vec![(name.into(), Some(number))]);
        self.next += 1;
        let node = if is_folder { Node::Folder(Twice::new()) } else { Node::File(Twice::new()) };
        self.nodes.insert(number, node);
        Some(number)
    }
    /// Removes a name and returns whether it existed. Open files keep their bytes.
    pub fn unname(&mut self, folder: u64, name: &str) -> bool {
        let Some(Node::Folder(names)) = self.nodes.get_mut(&folder) else { return false };
        let there = names.now.remove(name).is_some();
        if there {
            names.changes.push(vec![(name.into(), None)]);
        }
        there
    }
    /// Renames a file or folder and returns whether it existed.
    pub fn rename(&mut self, (folder, name): (u64, &str), (to, new): (u64, &str)) -> bool {
        let Some(number) = self.find(folder, name) else { return false };
        self.unname(folder, name);
        let Some(Node::Folder(names)) = self.nodes.get_mut(&to) else { return false };
        names.now.insert(new.into(), number);
        let named = (new.into(), Some(number));
        // Changes are kept per folder here, so only a rename within one folder survives as a unit.
        match names.changes.last_mut().filter(|_| self.renames_whole && folder == to) {
            Some(unnamed) => unnamed.push(named),
            None => names.changes.push(vec![named]),
        }
        true
    }
    /// Number of names of an inode.
    pub fn links(&self, number: u64) -> u32 {
        let named = |node: &Node| match node {
            Node::Folder(names) => names.now.values().filter(|n| **n == number).count(),
            Node::File(_) => 0,
        };
        self.nodes.values().map(named).sum::<usize>() as u32
    }
    /// Writes to a file or sets its length; returns whether the file exists.
    pub fn change(&mut self, number: u64, change: Change) -> bool {
        let Some(Node::File(bytes)) = self.nodes.get_mut(&number) else { return false };
        apply(&mut bytes.now, &change);
        bytes.changes.push(change);
        true
    }
    /// Makes a file's bytes or a folder's names durable; returns whether the inode exists.
    pub fn sync(&mut self, number: u64) -> bool {
        match self.nodes.get_mut(&number) {
            Some(Node::Folder(names)) => {
                names.durable.clone_from(&names.now);
                names.changes.clear();
                // Nodes without any name, visible or durable, are unreachable now.
                self.sweep();
            }
            Some(Node::File(bytes)) => {
                for change in std::mem::take(&mut bytes.changes) {
                    apply(&mut bytes.durable, &change);
                }
            }
            None => return false,
        }
        true
    }
    fn sweep(&mut self) {
        let mut named: Vec<u64> = vec![ROOT];
        for node in self.nodes.values() {
            if let Node::Folder(names) = node {
                named.extend(names.now.values().chain(names.durable.values()));
                named.extend(names.changes.iter().flatten().filter_map(|(_, number)| *number));
            }
        }
        // The newest inodes stay: a process may have a file open that just lost its name.
        let recent = self.next.saturating_sub(100);
        self.nodes.retain(|number, _| *number >= recent || named.contains(number));
    }
    /// Unsynced bytes and unsynced name changes.
    pub fn unsynced(&self) -> (u64, u64) {
        let (mut bytes, mut names) = (0, 0);
        for node in self.nodes.values() {
            match node {
                Node::Folder(folder) => names += folder.changes.len() as u64,
                Node::File(file) => {
                    for change in &file.changes {
                        if let Change::Write(_, written) = change {
                            bytes += written.len() as u64;
                        }
                    }
                }
            }
        }
        (bytes, names)
    }

    /// A state in which the disk may be found after a power cut now.
    pub fn power_cut(&self, random: &mut Random) -> Disk {
        // Names and bytes are lost independently: many faults need one without the other.
        let (names, bytes) = (Left::any(random), Left::any(random));
        let mut after = Disk { nodes: BTreeMap::new(), ..*self };
        self.survive(ROOT, names, bytes, random, &mut after);
        after
    }
    fn survive(&self, number: u64, names: Left, bytes: Left, random: &mut Random, after: &mut Disk) {
        let node = match self.nodes.get(&number) {
            Some(Node::Folder(folder)) => {
                let mut kept = folder.durable.clone();
                for (name, number) in folder.changes.iter().filter(|_| names.keeps(random)).flatten() {
                    match number {
                        Some(number) => drop(kept.insert(name.clone(), *number)),
                        None => drop(kept.remove(name)),
                    }
                }
                kept.retain(|_, number| self.nodes.contains_key(number));
                for number in kept.values() {
                    self.survive(*number, names, bytes, random, after);
                }
                Node::Folder(Twice::found(kept))
            }
            Some(Node::File(file)) => {
                let mut kept = file.durable.clone();
                file.changes.iter().for_each(|change| tear(&mut kept, change, bytes, random));
                Node::File(Twice::found(kept))
            }
            None => return,
        };
        after.nodes.insert(number, node);
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, written) => {
            if bytes.len() < at + written.len() {
                bytes.resize(at + written.len(), 0);
            }
            bytes[*at..at + written.len()].copy_from_slice(written);
        }
        Change::Length(len) => bytes.resize(*len, 0),
    }
}
// Sectors not written read as before, or as zeros where only the length reached the disk.
fn tear(bytes: &mut Vec<u8>, change: &Change, left: Left, random: &mut Random) {
    match change {
        Change::Length(_) => {
            if left.keeps(random) {
                apply(bytes, change);
            }
        }
        Change::Write(at, written) => {
            let (mut from, end) = (*at, at + written.len());
            while from < end {
                let to = ((from / SECTOR + 1) * SECTOR).min(end);
                if left.keeps(random) {
                    apply(bytes, &Change::Write(from, written[from - at..to - at].to_vec()));
                }
                from = to;
            }
            if left.keeps(random) && bytes.len() < end {
                bytes.resize(end, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(disk: &Disk, folder: u64, name: &str) -> Option<Vec<u8>> {
        match disk.node(disk.find(folder, name)?)? {
            Node::File(bytes) => Some(bytes.now.clone()),
            Node::Folder(_) => None,
        }
    }
    fn cuts(disk: &Disk) -> impl Iterator<Item = Disk> + '_ {
        (0..200).map(|seed| disk.power_cut(&mut Random::new(seed)))
    }

    #[test]
    fn synced_file_survives_power_cut() {
        let mut disk = Disk::new();
        let folder = disk.make(ROOT, "store", true).unwrap();
        let file = disk.make(folder, "1", false).unwrap();
        disk.change(file, Change::Write(3, vec![7; 2000]));
        assert!(disk.sync(file) && disk.sync(folder));
        assert!(cuts(&disk).any(|after| after.find(ROOT, "store").is_none()), "the folder's own name is not durable");
        disk.sync(ROOT);
        disk.change(file, Change::Write(2003, vec![8; 2000]));
        for after in cuts(&disk) {
            let bytes = read(&after, after.find(ROOT, "store").unwrap(), "1").unwrap();
            assert_eq!(&bytes[..2003], &[vec![0; 3], vec![7; 2000]].concat());
            assert!(bytes.len() <= 4003 && bytes[2003..].iter().all(|b| [0, 8].contains(b)));
        }
        assert!(cuts(&disk).any(|after| read(&after, folder, "1").unwrap().len() == 2003));
        let torn = |bytes: Vec<u8>| bytes[2003..].contains(&8) && bytes[2003..].contains(&0);
        assert!(cuts(&disk).any(|after| torn(read(&after, folder, "1").unwrap())));
    }

    #[test]
    fn names_and_lengths_survive_separately() {
        let mut disk = Disk::new();
        let (kept, new) = (disk.make(ROOT, "kept", false).unwrap(), disk.make(ROOT, "old", false).unwrap());
        disk.change(kept, Change::Write(0, vec![1; 600]));
        disk.sync(kept);
        disk.sync(ROOT);
        disk.change(kept, Change::Length(10));
        disk.unname(ROOT, "kept");
        disk.rename((ROOT, "old"), (ROOT, "new"));
        assert!(disk.find(ROOT, "kept").is_none() && disk.find(ROOT, "new") == Some(new));
        assert_eq!((disk.links(kept), disk.links(new)), (0, 1));
        let found = |want: fn(&Disk) -> bool| cuts(&disk).any(|after| want(&after));
        assert!(found(|after| read(after, ROOT, "kept").is_some_and(|bytes| bytes.len() == 600)), "both come back");
        assert!(found(|after| read(after, ROOT, "kept").is_some_and(|bytes| bytes.len() == 10)));
        assert!(found(|after| after.find(ROOT, "kept").is_none()));
        assert!(found(|after| after.find(ROOT, "new").is_none() && after.find(ROOT, "old").is_some()));
        let names = |after: &Disk| [after.find(ROOT, "new"), after.find(ROOT, "old")].into_iter().flatten().count();
        assert!(cuts(&disk).any(|after| names(&after) != 1), "half of a renaming");
        let mut whole = Disk { renames_whole: true, ..Disk::new() };
        whole.make(ROOT, "old", false);
        whole.sync(ROOT);
        whole.rename((ROOT, "old"), (ROOT, "new"));
        assert!(
            cuts(&whole).all(|after| names(&after) == 1) && cuts(&whole).any(|after| after.find(ROOT, "new").is_none())
        );
        disk.sync(ROOT);
        for after in cuts(&disk) {
            assert!(after.find(ROOT, "kept").is_none() && after.find(ROOT, "new").is_some());
            assert_eq!(after.unsynced(), (0, 0));
        }
    }
}
