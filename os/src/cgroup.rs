//! Control groups, versions 1 and 2: exact accounting of a host's processes, if the machine permits groups.

use crate::context;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Control group hierarchies mounted, with this process's group in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// Version 2: directory of this process's group, and the controllers available.
    pub unified: Option<(PathBuf, Vec<String>)>,
    /// Version 1: directory of the processor accounting controller.
    pub cpuacct: Option<PathBuf>,
    /// Version 1: directory of the memory controller.
    pub memory: Option<PathBuf>,
}

impl Hierarchies {
    /// Finds the mounted hierarchies.
    pub fn detect() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut found = Hierarchies::parse(&mounts, &own);
        if let Some((directory, controllers)) = &mut found.unified {
            let text = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
            *controllers = text.split_whitespace().map(str::to_string).collect();
        }
        found
    }

    /// Smallest memory limit, bytes, of this process's groups and their ancestors.
    pub fn memory_limit(&self) -> Option<u64> {
        let least = |directory: &Path, file: &str| {
            let up = directory.ancestors().filter_map(|place| fs::read_to_string(place.join(file)).ok());
            up.filter_map(|text| text.trim().parse::<u64>().ok()).min()
        };
        let unified = self.unified.as_ref().and_then(|(directory, _)| least(directory, "memory.max"));
        let first = self.memory.as_ref().and_then(|directory| least(directory, "memory.limit_in_bytes"));
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
        let version_1 = |controller: &str| Some(mounted("cgroup", controller)?.join(place(controller)?));
        Hierarchies {
            unified: mounted("cgroup2", "").and_then(|m| Some((m.join(place("")?), Vec::new()))),
            cpuacct: version_1("cpuacct"),
            memory: version_1("memory"),
        }
    }

    /// Creates a group below this process's own in every hierarchy that permits it. Fails if none accounts for
    /// processor
    /// time.
    pub fn create(&self, name: &str) -> io::Result<ControlGroup> {
        let make = |parent: &Path| -> io::Result<PathBuf> {
            let directory = parent.join(name);
            fs::create_dir(&directory).map_err(|e| context(e, &directory.display().to_string()))?;
            Ok(directory)
        };
        let mut group = ControlGroup::default();
        let mut refusal = None;
        // On hybrid systems version 2 is mounted without controllers: try all three.
        for (parent, slot) in [
            (self.unified.as_ref().map(|(d, _)| d), &mut group.unified),
            (self.cpuacct.as_ref(), &mut group.cpuacct),
            (self.memory.as_ref(), &mut group.memory),
        ] {
            match parent.map(|p| make(p)) {
                Some(Ok(directory)) => *slot = Some(directory),
                Some(Err(e)) => refusal = Some(e),
                None => {}
            }
        }
        if group.unified.is_none() && group.cpuacct.is_none() {
            return Err(refusal.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup is mounted")));
        }
        Ok(group)
    }
}

/// A group created by this process. Its directories are removed on drop, which succeeds once its processes have ended.
#[derive(Debug, Default)]
pub struct ControlGroup {
    unified: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
    memory: Option<PathBuf>,
}

/// Resource usage of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Processor time of its processes.
    pub cpu: Duration,
    /// Memory charged now, including the page cache, bytes.
    pub memory: Option<u64>,
    /// Peak memory charged, bytes.
    pub memory_peak: Option<u64>,
    /// Anonymous memory, bytes: heaps and stacks of the processes.
    pub anonymous: Option<u64>,
    /// Shared memory segments, bytes.
    pub shared: Option<u64>,
    /// Page cache, bytes.
    pub cache: Option<u64>,
}

impl ControlGroup {
    fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.unified, &self.cpuacct, &self.memory].into_iter().flatten()
    }

    /// Moves a process, with the children it starts from now on, into the group.
    pub fn add(&self, process: u32) -> io::Result<()> {
        for directory in self.directories() {
            let file = directory.join("cgroup.procs");
            fs::write(&file, process.to_string()).map_err(|e| context(e, &file.display().to_string()))?;
        }
        Ok(())
    }

    /// Reads the usage of the group.
    pub fn usage(&self) -> GroupUsage {
        let mut usage = GroupUsage::default();
        if let Some(directory) = &self.unified {
            let stat = fs::read_to_string(directory.join("cpu.stat")).unwrap_or_default();
            usage.cpu = Duration::from_micros(field(&stat, "usage_usec").unwrap_or(0));
            usage.memory = number(&directory.join("memory.current"));
            usage.memory_peak = number(&directory.join("memory.peak"));
            let stat = fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
            usage.anonymous = field(&stat, "anon");
            usage.shared = field(&stat, "shmem");
            usage.cache = field(&stat, "file");
        }
        if let Some(nanoseconds) = self.cpuacct.as_ref().and_then(|d| number(&d.join("cpuacct.usage"))) {
            usage.cpu = Duration::from_nanos(nanoseconds);
        }
        if let Some(directory) = &self.memory {
            usage.memory = number(&directory.join("memory.usage_in_bytes"));
            usage.memory_peak = number(&directory.join("memory.max_usage_in_bytes"));
            let stat = fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
            usage.anonymous = field(&stat, "total_rss");
            usage.shared = field(&stat, "total_shmem");
            usage.cache = field(&stat, "total_cache");
        }
        usage
    }

    /// Resets the memory peak (version 1 only).
    pub fn reset_peak(&self) -> io::Result<()> {
        if let Some(directory) = &self.memory {
            return fs::write(directory.join("memory.max_usage_in_bytes"), "0");
        }
        Err(io::Error::new(io::ErrorKind::Unsupported, "no memory controller"))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        for directory in self.directories() {
            let _ = fs::remove_dir(directory);
        }
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
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
        assert_eq!(found.cpuacct, Some(PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/")));
        assert_eq!(found.memory, Some(PathBuf::from("/sys/fs/cgroup/memory/box/1")));
        assert_eq!(found.unified.unwrap().0, PathBuf::from("/sys/fs/cgroup/unified/"));
        assert_eq!(Hierarchies::parse("", ""), Hierarchies::default());
    }

    #[test]
    fn unlimited_group_inherits_parent_limit() {
        let top = std::env::temp_dir().join(format!("farlink-limits-{}", std::process::id()));
        let own = top.join("a/b");
        fs::create_dir_all(&own).unwrap();
        let limits = || Hierarchies { unified: Some((own.clone(), Vec::new())), ..Default::default() }.memory_limit();
        assert_eq!(limits(), None);
        fs::write(top.join("memory.max"), "1000\n").unwrap();
        assert_eq!(limits(), Some(1000));
        fs::write(own.join("memory.max"), "max\n").unwrap();
        assert_eq!(limits(), Some(1000));
        fs::write(own.join("memory.max"), "900\n").unwrap();
        assert_eq!(limits(), Some(900));
        fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn group_accounts_then_is_removed() {
        let group = match Hierarchies::detect().create(&format!("farlink-test-{}", std::process::id())) {
            Ok(group) => group,
            Err(e) => return println!("skipped: no cgroup may be made: {e}"),
        };
        let directories: Vec<PathBuf> = group.directories().cloned().collect();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        if let Err(e) = group.add(child.id()) {
            child.kill().unwrap();
            child.wait().unwrap();
            return println!("skipped: no process may be put into a cgroup: {e}");
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(group.usage().cpu > Duration::ZERO);
        drop(group);
        assert!(directories.iter().all(|d| !d.exists()));
    }
}
