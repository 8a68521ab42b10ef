//! Removal of groups that their process left behind.

use super::{GroupName, Hierarchies};
use crate::process::{Signal, signal};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Environment variable of programs in a run's groups: the name of the groups. Only processes that carry it are ended.
pub const MARK: &str = "FARLINK_GROUP";

/// Most directories, and most levels, searched below a mount.
const DIRECTORIES: usize = 20_000;
const DEPTH: usize = 10;
/// Time for processes to end and for groups to become empty.
const GRACE: Duration = Duration::from_secs(2);

/// Result of [`sweep`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Names of groups whose process is gone, now removed.
    pub removed: Vec<GroupName>,
    /// Directories of such groups that could not be removed.
    pub left: Vec<PathBuf>,
}

/// Removes the groups whose process is gone, wherever in the hierarchies they are. Does nothing in a container, where
/// living processes may be out of sight.
pub fn sweep(hierarchies: &Hierarchies) -> Swept {
    if !sees_all_processes() {
        return Swept::default();
    }
    let mut names: Vec<GroupName> = all(hierarchies).into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let mut swept = Swept::default();
    // All groups share one deadline, so that groups that cannot be removed do not hold up the run that sweeps.
    let until = Instant::now() + GRACE;
    for name in names.into_iter().filter(|name| !name.lives()) {
        match remove_until(hierarchies, name, until) {
            left if left.is_empty() => swept.removed.push(name),
            left => swept.left.extend(left),
        }
    }
    swept
}

/// Kills the marked processes in the groups of this name, then removes the groups; returns the directories left.
pub fn remove(hierarchies: &Hierarchies, name: GroupName) -> Vec<PathBuf> {
    remove_until(hierarchies, name, Instant::now() + GRACE)
}

fn remove_until(hierarchies: &Hierarchies, name: GroupName, until: Instant) -> Vec<PathBuf> {
    loop {
        let left = remains(hierarchies, name);
        // A group is busy for a moment after its last process has ended; any other refusal stays.
        let mut busy = false;
        for top in &left {
            end_marked(top, name);
            let removed = remove_tree(top, 0);
            busy |= removed.is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy);
        }
        let left: Vec<PathBuf> = left.into_iter().filter(|top| top.exists()).collect();
        if left.is_empty() || !busy || Instant::now() > until {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Directories of the groups of that name.
pub fn remains(hierarchies: &Hierarchies, name: GroupName) -> Vec<PathBuf> {
    all(hierarchies).into_iter().filter(|(found, _)| *found == name).map(|(_, path)| path).collect()
}

/// Groups of any run, with their directories.
fn all(hierarchies: &Hierarchies) -> Vec<(GroupName, PathBuf)> {
    let mut found = Vec::new();
    for mount in hierarchies.mounts() {
        let (mut waiting, mut seen) = (vec![(mount.to_path_buf(), 0)], 0);
        while let Some((directory, depth)) = waiting.pop() {
            seen += 1;
            for child in folders(&directory) {
                let name = child.file_name().and_then(|name| name.to_str()).unwrap_or_default().parse();
                match name {
                    Ok(name) => found.push((name, child)),
                    Err(()) if depth < DEPTH && seen + waiting.len() < DIRECTORIES => waiting.push((child, depth + 1)),
                    Err(()) => {}
                }
            }
        }
    }
    found
}

fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn remove_tree(directory: &Path, depth: usize) -> io::Result<()> {
    if depth < DEPTH {
        folders(directory).iter().for_each(|child| drop(remove_tree(child, depth + 1)));
    }
    fs::remove_dir(directory)
}

/// Processes in a group and below it; the kernel lists those of other PID namespaces as 0.
fn processes(directory: &Path) -> Vec<u32> {
    let (mut found, mut waiting) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(group) = waiting.pop() {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        waiting.extend(folders(&group));
    }
    found
}

/// Whether this process sees all others: it is in the first PID namespace. In another, as in a container, the makers of
/// groups may live out of sight.
fn sees_all_processes() -> bool {
    // The number is part of the kernel's interface (PROC_PID_INIT_INO).
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// Kills the processes in a group and below it whose environment carries the name.
fn end_marked(directory: &Path, name: GroupName) {
    let mark = format!("{MARK}={name}");
    for process in processes(directory).into_iter().filter(|process| *process > 0) {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) {
            let _ = signal(process, Signal::Kill);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{ControlGroup, Needs, one_test_at_a_time};
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn stuck_group_is_left_at_the_deadline() {
        let _alone = one_test_at_a_time();
        let hierarchies = Hierarchies::detect();
        // Groups named after a living process are not swept.
        let own = GroupName::of_self().unwrap();
        let group = match ControlGroup::create(&hierarchies, own, Needs::default()) {
            Ok(group) => group,
            Err(e) => return println!("skipped: no cgroup may be made: {e}"),
        };
        let mut foreign = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        group.add(foreign.id()).unwrap();
        let begun = Instant::now();
        let left = remove_until(&hierarchies, own, begun);
        let took = begun.elapsed();
        foreign.kill().unwrap();
        foreign.wait().unwrap();
        assert!(!left.is_empty() && took < GRACE, "{took:?}, {left:?}");
        assert!(remove(&hierarchies, own).is_empty());
    }

    #[test]
    fn pid_namespace_hides_makers() {
        const INSIDE: &str = "FARLINK_TEST_INSIDE";
        if std::env::var_os(INSIDE).is_some() {
            assert!(!sees_all_processes());
            assert_eq!(sweep(&Hierarchies::detect()), Swept::default());
            return;
        }
        let unshare = |arguments: &[&str]| {
            let mut inside = std::process::Command::new("unshare");
            inside.args(["--pid", "--fork", "--mount-proc"]).args(arguments).env(INSIDE, "1");
            inside.output().is_ok_and(|output| output.status.success())
        };
        if !unshare(&["true"]) {
            return println!("skipped: no PID namespace may be made");
        }
        let program = std::env::current_exe().unwrap();
        assert!(unshare(&[program.to_str().unwrap(), "--exact", "cgroup::remove::tests::pid_namespace_hides_makers"]));
    }

    #[test]
    fn groups_of_gone_process_are_swept() {
        if !sees_all_processes() {
            return println!("skipped: in a container nothing is swept");
        }
        let _alone = one_test_at_a_time();
        let hierarchies = Hierarchies::detect();
        let own = GroupName::of_self().unwrap();
        // No process has this start time, so the groups count as left behind.
        let gone = GroupName { start: own.start + 1, ..own };
        let group = match ControlGroup::create(&hierarchies, gone, Needs::default()) {
            Ok(group) => group,
            Err(e) => return println!("skipped: no cgroup may be made: {e}"),
        };
        let spawn = |mark: &str| {
            let child = std::process::Command::new("sleep").arg("60").env(MARK, mark).spawn().unwrap();
            group.child("a", false).unwrap().add(child.id()).unwrap();
            child
        };
        let (mut ours, mut foreign) = (spawn(&gone.to_string()), spawn("farlink-7-7"));
        let left = sweep(&hierarchies).left;
        assert!(!left.is_empty(), "a process without the name is not ended");
        assert_eq!(ours.wait().unwrap().signal(), Some(9));
        foreign.kill().unwrap();
        foreign.wait().unwrap();
        assert_eq!(sweep(&hierarchies), Swept { removed: vec![gone], left: vec![] });
        assert!(remains(&hierarchies, gone).is_empty());
    }
}
