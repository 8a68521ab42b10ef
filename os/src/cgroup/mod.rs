//! Control groups, versions 1 and 2: exact accounting and limits of a host's processes, if the machine permits groups.
//!
//! Groups outlive the process that made them, so they carry its name ([`GroupName`]), and a later run removes those
//! whose process is gone ([`sweep`]).

mod group;
mod name;
mod remove;

pub use group::{ControlGroup, GroupUsage};
pub use name::GroupName;
pub use remove::{MARK, Swept, remains, remove, sweep};

use crate::context;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Controller of a version 1 hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Processor time used.
    CpuAccount,
    /// Memory used, and its limit.
    Memory,
    /// Share of processor time.
    Cpu,
    /// Processors allowed.
    CpuSet,
}

impl Controller {
    const ALL: [Controller; 4] = [Controller::CpuAccount, Controller::Memory, Controller::Cpu, Controller::CpuSet];

    /// Name of the controller in mount options, and in files of version 2, which has no `cpuacct`.
    pub const fn name(self) -> &'static str {
        match self {
            Controller::CpuAccount => "cpuacct",
            Controller::Memory => "memory",
            Controller::Cpu => "cpu",
            Controller::CpuSet => "cpuset",
        }
    }
}

/// A mounted hierarchy: its root, and this process's group in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Path at which the hierarchy is mounted.
    pub mount: PathBuf,
    /// Directory of this process's group.
    pub own: PathBuf,
}

/// Control group hierarchies mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// Version 2, and the controllers available to this process's group.
    pub unified: Option<(Hierarchy, Vec<String>)>,
    /// Version 1, by controller.
    pub version_1: Vec<(Controller, Hierarchy)>,
}

/// Limits that a run's groups must be able to set, beside the accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Whether a share of processor time is limited. Real-time threads may not enter such a group.
    pub quota: bool,
    /// Whether processors are chosen.
    pub cpus: bool,
    /// Whether memory is limited.
    pub memory: bool,
}

impl Hierarchies {
    /// Finds the mounted hierarchies.
    pub fn detect() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut found = Hierarchies::parse(&mounts, &own);
        if let Some((hierarchy, controllers)) = &mut found.unified {
            let text = fs::read_to_string(hierarchy.own.join("cgroup.controllers")).unwrap_or_default();
            *controllers = text.split_whitespace().map(str::to_string).collect();
        }
        found
    }

    /// Version 1 hierarchy of a controller.
    pub fn first(&self, controller: Controller) -> Option<&Hierarchy> {
        self.version_1.iter().find(|(known, _)| *known == controller).map(|(_, hierarchy)| hierarchy)
    }

    /// Smallest memory limit, bytes, of this process's groups and their ancestors.
    pub fn memory_limit(&self) -> Option<u64> {
        let least = |hierarchy: &Hierarchy, file: &str| {
            let up = hierarchy.own.ancestors().filter_map(|place| fs::read_to_string(place.join(file)).ok());
            up.filter_map(|text| text.trim().parse::<u64>().ok()).min()
        };
        let unified = self.unified.as_ref().and_then(|(hierarchy, _)| least(hierarchy, "memory.max"));
        let first = self.first(Controller::Memory).and_then(|hierarchy| least(hierarchy, "memory.limit_in_bytes"));
        unified.into_iter().chain(first).min()
    }

    fn parse(mounts: &str, own: &str) -> Self {
        let place = |controller: &str| {
            own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
                names.split(',').any(|n| n == controller).then(|| path.trim_start_matches('/').to_string())
            })
        };
        let mounted = |kind: &str, controller: &str| {
            mounts.lines().find_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let right = fields.get(2) == Some(&kind)
                    && (controller.is_empty() || fields.get(3)?.split(',').any(|o| o == controller));
                right.then(|| PathBuf::from(fields[1]))
            })
        };
        let found = |kind: &str, controller: &str| {
            let mount = mounted(kind, controller)?;
            let own = mount.join(place(controller)?);
            Some(Hierarchy { mount, own })
        };
        let version_1 = |controller: Controller| Some((controller, found("cgroup", controller.name())?));
        Hierarchies {
            unified: found("cgroup2", "").map(|hierarchy| (hierarchy, Vec::new())),
            version_1: Controller::ALL.into_iter().filter_map(version_1).collect(),
        }
    }

    /// Directories of all mounted hierarchies; controllers mounted together share one.
    fn mounts(&self) -> Vec<&Path> {
        let first = self.version_1.iter().map(|(_, hierarchy)| hierarchy.mount.as_path());
        let mut mounts: Vec<&Path> =
            self.unified.iter().map(|(hierarchy, _)| hierarchy.mount.as_path()).chain(first).collect();
        mounts.sort_unstable();
        mounts.dedup();
        mounts
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn write(file: &Path, value: &str) -> io::Result<()> {
    fs::write(file, value).map_err(|e| context(e, &format!("writing `{value}` to {}", file.display())))
}

/// Lock of tests that make groups: groups of one process share a name, and a sweep would remove groups that another
/// test made under a foreign name.
#[cfg(test)]
fn one_test_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_mounts_are_distinguished() {
        let mounts = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let own = "4:memory:/box/1\n2:cpu,cpuacct:/\n0::/\n";
        let found = Hierarchies::parse(mounts, own);
        let first = |controller| found.first(controller).map(|hierarchy| hierarchy.own.display().to_string());
        assert_eq!(first(Controller::CpuAccount).as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct/"));
        assert_eq!(first(Controller::Memory).as_deref(), Some("/sys/fs/cgroup/memory/box/1"));
        assert_eq!(first(Controller::CpuSet), None);
        assert_eq!(found.unified.as_ref().unwrap().0.own, PathBuf::from("/sys/fs/cgroup/unified/"));
        assert_eq!(found.mounts().len(), 3, "cpu and cpuacct are one");
        assert_eq!(Hierarchies::parse("", ""), Hierarchies::default());
    }

    #[test]
    fn unlimited_group_inherits_parent_limit() {
        let top = std::env::temp_dir().join(format!("farlink-limits-{}", std::process::id()));
        let own = top.join("a/b");
        fs::create_dir_all(&own).unwrap();
        let unified = Some((Hierarchy { mount: top.clone(), own: own.clone() }, Vec::new()));
        let limits = || Hierarchies { unified: unified.clone(), ..Default::default() }.memory_limit();
        assert_eq!(limits(), None);
        fs::write(top.join("memory.max"), "1000\n").unwrap();
        assert_eq!(limits(), Some(1000));
        fs::write(own.join("memory.max"), "max\n").unwrap();
        assert_eq!(limits(), Some(1000));
        fs::write(own.join("memory.max"), "900\n").unwrap();
        assert_eq!(limits(), Some(900));
        fs::remove_dir_all(top).unwrap();
    }
}
