//! Control groups: creation, limits, entry of processes, and usage.

use super::{Controller, GroupName, Hierarchies, Needs, field, number, write};
use crate::context;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Period in which a quota is granted, µs: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// Least quota that the kernel accepts, µs.
const QUOTA_LEAST_US: u64 = 1000;

/// Hierarchy that a directory of the group belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Version 2.
    Unified,
    /// Version 1.
    First(Controller),
}

/// A group, with a directory in each hierarchy that it needs. Dropping this value keeps the group; [`super::remove`]
/// removes it.
#[derive(Debug)]
pub struct ControlGroup {
    parts: Vec<(Part, PathBuf)>,
    needs: Needs,
    /// Whether `cpuacct` and `cpu` are one hierarchy on a kernel with CONFIG_RT_GROUP_SCHED, where new groups get no
    /// real-time budget.
    one_for_both: bool,
    /// Open `memory.peak` of version 2: a reset holds only for the open file that requested it.
    peak: Option<File>,
}

/// Resource usage of a group; `None` for what the kernel does not report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Processor time of the group's processes in user mode.
    pub cpu_user: Duration,
    /// Processor time of the group's processes in the kernel.
    pub cpu_system: Duration,
    /// Memory charged now, including the page cache, bytes.
    pub memory: Option<u64>,
    /// Peak memory charged since the last reset, bytes.
    pub memory_peak: Option<u64>,
    /// Anonymous memory, bytes: heaps and stacks of the processes.
    pub anonymous: Option<u64>,
    /// Shared memory segments, bytes.
    pub shared: Option<u64>,
    /// Page cache without shared memory, bytes.
    pub cache: Option<u64>,
}

impl ControlGroup {
    /// Makes the top group of a run, which holds no process itself.
    ///
    /// # Errors
    /// When the machine permits no group that accounts for processor time and memory and sets the limits needed.
    pub fn create(hierarchies: &Hierarchies, name: GroupName, needs: Needs) -> io::Result<ControlGroup> {
        let mut group = ControlGroup { parts: Vec::new(), needs, one_for_both: false, peak: None };
        let made = group.make_top(hierarchies, &name.to_string());
        if made.is_err() {
            let _ = group.parts.iter().try_for_each(|(_, directory)| fs::remove_dir(directory));
        }
        made.map(|()| group)
    }

    fn make_top(&mut self, hierarchies: &Hierarchies, name: &str) -> io::Result<()> {
        let needs = self.needs;
        let wanted = [
            (Controller::CpuAccount, true),
            (Controller::Memory, true),
            (Controller::Cpu, needs.quota),
            (Controller::CpuSet, needs.cpus),
        ];
        let mount = |controller| hierarchies.first(controller).map(|hierarchy| &hierarchy.mount);
        let one = mount(Controller::Cpu).filter(|cpu| mount(Controller::CpuAccount) == Some(cpu));
        self.one_for_both = one.is_some_and(|mount| mount.join("cpu.rt_runtime_us").exists());
        let mut lacking = Vec::new();
        for controller in wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(controller, _)| controller) {
            // Version 2 can account for processor time, too, and does not restrict real-time threads.
            if controller == Controller::CpuAccount && self.one_for_both && !needs.quota {
                lacking.push(controller);
                continue;
            }
            match hierarchies.first(controller).map(|hierarchy| make(&hierarchy.own, name)) {
                // Controllers mounted together share the directory.
                Some(Ok(directory)) => self.adopt(Part::First(controller), directory)?,
                Some(Err(e)) => return Err(e),
                None => lacking.push(controller),
            }
        }
        if lacking.is_empty() {
            return Ok(());
        }
        let Some((hierarchy, _)) = &hierarchies.unified else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no cgroup is mounted"));
        };
        // In version 2 a group with processes cannot enable controllers for its children. The group of a login has such
        // processes, e.g. the shell, so the groups above it are tried, too.
        let mut refusal = None;
        for parent in hierarchy.own.ancestors().take_while(|parent| parent.starts_with(&hierarchy.mount)) {
            match self.make_unified(parent, name, &lacking) {
                Ok(()) => return Ok(()),
                Err(e) => refusal = refusal.or(Some(e)),
            }
        }
        Err(refusal.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup is mounted")))
    }

    fn make_unified(&mut self, parent: &Path, name: &str, wanted: &[Controller]) -> io::Result<()> {
        let directory = make(parent, name)?;
        enable(parent, self.needs);
        let there = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
        let has = |controller: &Controller| {
            // Every group of version 2 accounts for processor time.
            *controller == Controller::CpuAccount || there.split_whitespace().any(|name| name == controller.name())
        };
        if let Some(lacks) = wanted.iter().find(|controller| !has(controller)) {
            let _ = fs::remove_dir(&directory);
            let text = format!("{} has no controller `{}`", parent.display(), lacks.name());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        self.parts.push((Part::Unified, directory));
        Ok(())
    }

    fn adopt(&mut self, part: Part, directory: PathBuf) -> io::Result<()> {
        if part == Part::First(Controller::CpuSet) {
            // A new group of version 1 has neither processors nor memory nodes.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let parent = directory.parent().unwrap_or(&directory);
                write(&directory.join(file), fs::read_to_string(parent.join(file))?.trim())?;
            }
        }
        self.parts.push((part, directory));
        Ok(())
    }

    /// Whether programs with real-time threads may not enter this group and its children.
    pub fn forbids_real_time(&self) -> bool {
        let shared = self.part(Part::First(Controller::Cpu)).is_some_and(|cpu| cpu.join("cpu.rt_runtime_us").exists());
        self.needs.quota && (shared || self.one_for_both)
    }

    /// Makes a group below this one, or opens the one that is there. Without `quota` it shares processors with the
    /// parent's other programs.
    ///
    /// # Errors
    /// When the group cannot be made.
    pub fn child(&self, name: &str, quota: bool) -> io::Result<ControlGroup> {
        let (needs, one_for_both) = (self.needs, self.one_for_both);
        let mut group = ControlGroup { parts: Vec::new(), needs, one_for_both, peak: None };
        let shares = |part: &Part| *part == Part::First(Controller::Cpu);
        for (part, parent) in self.parts.iter().filter(|(part, _)| quota || !shares(part)) {
            if *part == Part::Unified {
                enable(parent, self.needs);
            }
            group.adopt(*part, make(parent, name)?)?;
        }
        if let Some(directory) = group.part(Part::Unified) {
            let file = OpenOptions::new().read(true).write(true).open(directory.join("memory.peak"));
            group.peak = file.ok().filter(|mut file| file.write_all(b"1").is_ok());
        }
        Ok(group)
    }

    fn part(&self, wanted: Part) -> Option<&PathBuf> {
        self.parts.iter().find(|(part, _)| *part == wanted).map(|(_, directory)| directory)
    }

    /// Directory with a controller's files, and whether they are those of version 2.
    fn controlled(&self, controller: Controller) -> io::Result<(&PathBuf, bool)> {
        let first = self.part(Part::First(controller)).map(|directory| (directory, false));
        first.or_else(|| Some((self.part(Part::Unified)?, true))).ok_or_else(|| {
            let text = format!("no group with the controller `{}`", controller.name());
            io::Error::new(io::ErrorKind::Unsupported, text)
        })
    }

    /// Limits the processor time of the group and its children together to this number of processors, such as 0.5.
    ///
    /// # Errors
    /// When the kernel refuses, or [`Needs::quota`] was not asked for.
    pub fn set_quota(&self, processors: f64) -> io::Result<()> {
        let quota = ((processors * PERIOD_US as f64) as u64).max(QUOTA_LEAST_US);
        match self.controlled(Controller::Cpu)? {
            (directory, true) => write(&directory.join("cpu.max"), &format!("{quota} {PERIOD_US}")),
            (directory, false) => {
                write(&directory.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
                write(&directory.join("cpu.cfs_quota_us"), &quota.to_string())
            }
        }
    }

    /// Limits the memory of the group and its children together to `bytes`, swap included.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_memory(&self, bytes: u64) -> io::Result<()> {
        let (directory, unified) = self.controlled(Controller::Memory)?;
        let bytes = bytes.to_string();
        let (limit, swap, most) = match unified {
            true => ("memory.max", "memory.swap.max", "0"),
            false => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes.as_str()),
        };
        write(&directory.join(limit), &bytes)?;
        // Kernels without accounting of swap lack the file.
        let _ = write(&directory.join(swap), most);
        Ok(())
    }

    /// Restricts the group to processors, by their numbers.
    ///
    /// # Errors
    /// When the kernel refuses, or [`Needs::cpus`] was not asked for.
    pub fn set_cpus(&self, processors: &[usize]) -> io::Result<()> {
        let list: Vec<String> = processors.iter().map(usize::to_string).collect();
        write(&self.controlled(Controller::CpuSet)?.0.join("cpuset.cpus"), &list.join(","))
    }

    /// Moves a process, with the children it starts from now on, into the group.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn add(&self, process: u32) -> io::Result<()> {
        let file = |directory: &PathBuf| write(&directory.join("cgroup.procs"), &process.to_string());
        self.parts.iter().try_for_each(|(_, directory)| file(directory))
    }

    /// Files through which a process enters the group by writing `0`; used between fork and exec.
    ///
    /// # Errors
    /// When a file cannot be opened.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |(_, directory): &(Part, PathBuf)| {
            let file = directory.join("cgroup.procs");
            let opened =
                OpenOptions::new().write(true).open(&file).map_err(|e| context(e, &file.display().to_string()));
            opened.map(OwnedFd::from)
        };
        self.parts.iter().map(open).collect()
    }

    /// Reads the usage of the group and its children.
    pub fn usage(&mut self) -> GroupUsage {
        let mut usage = GroupUsage::default();
        let time = |directory: &Path, file: &str| number(&directory.join(file)).map(Duration::from_nanos);
        if let Some(directory) = self.part(Part::First(Controller::CpuAccount)) {
            usage.cpu_user = time(directory, "cpuacct.usage_user").unwrap_or_default();
            usage.cpu_system = time(directory, "cpuacct.usage_sys").unwrap_or_default();
        } else if let Some(directory) = self.part(Part::Unified) {
            let stat = fs::read_to_string(directory.join("cpu.stat")).unwrap_or_default();
            usage.cpu_user = Duration::from_micros(field(&stat, "user_usec").unwrap_or(0));
            usage.cpu_system = Duration::from_micros(field(&stat, "system_usec").unwrap_or(0));
        }
        let stat = |directory: &Path| fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
        if let Some(directory) = self.part(Part::First(Controller::Memory)) {
            usage.memory = number(&directory.join("memory.usage_in_bytes"));
            usage.memory_peak = number(&directory.join("memory.max_usage_in_bytes"));
            let stat = stat(directory);
            usage.anonymous = field(&stat, "total_rss");
            usage.shared = field(&stat, "total_shmem");
            usage.cache = field(&stat, "total_cache");
        } else if let Some(directory) = self.part(Part::Unified) {
            usage.memory = number(&directory.join("memory.current"));
            let stat = stat(directory);
            usage.anonymous = field(&stat, "anon");
            usage.shared = field(&stat, "shmem");
            usage.cache = field(&stat, "file");
        }
        if let Some(peak) = self.peak.as_mut().and_then(|file| read_again(file).ok()) {
            usage.memory_peak = peak.trim().parse().ok();
        }
        // Both versions count shared memory as page cache, too.
        usage.cache = usage.cache.map(|cache| cache.saturating_sub(usage.shared.unwrap_or(0)));
        usage
    }

    /// Resets the memory peak.
    ///
    /// # Errors
    /// When the kernel cannot, as version 2 before Linux 6.12.
    pub fn reset_peak(&mut self) -> io::Result<()> {
        if let Some(directory) = self.part(Part::First(Controller::Memory)) {
            return write(&directory.join("memory.max_usage_in_bytes"), "0");
        }
        match &mut self.peak {
            Some(file) => file.write_all(b"1"),
            None => Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel's memory peak cannot be reset")),
        }
    }

    /// Number of processes that the kernel killed because the group had reached its memory limit.
    pub fn killed_for_memory(&self) -> u64 {
        let Ok((directory, unified)) = self.controlled(Controller::Memory) else { return 0 };
        let file = if unified { "memory.events" } else { "memory.oom_control" };
        field(&fs::read_to_string(directory.join(file)).unwrap_or_default(), "oom_kill").unwrap_or(0)
    }
}

/// Makes a directory unless it is there.
fn make(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let directory = parent.join(name);
    match fs::create_dir(&directory) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(context(e, &directory.display().to_string())),
        _ => Ok(directory),
    }
}

/// Enables controllers for the children of a version 2 group; callers check later whether the kernel refused one.
fn enable(parent: &Path, needs: Needs) {
    let wanted = [("+memory", true), ("+cpu", needs.quota), ("+cpuset", needs.cpus)];
    for (word, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
        let _ = fs::write(parent.join("cgroup.subtree_control"), word);
    }
}

fn read_again(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::one_test_at_a_time;
    use std::process::{Command, Stdio};

    /// A group of this test, or the reason why none can be made.
    fn group(needs: Needs) -> Result<(ControlGroup, GroupName), String> {
        let name = GroupName::of_self().unwrap();
        ControlGroup::create(&Hierarchies::detect(), name, needs).map(|top| (top, name)).map_err(|e| e.to_string())
    }

    #[test]
    fn child_accounts_and_is_removed() {
        let _alone = one_test_at_a_time();
        let (top, name) = match group(Needs::default()) {
            Ok(made) => made,
            Err(e) => return println!("skipped: no cgroup may be made: {e}"),
        };
        let mut child = top.child("node", false).unwrap().child("implementation", false).unwrap();
        let script = "read x; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let mut program = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let added = child.add(program.id());
        drop(program.stdin.take());
        program.wait().unwrap();
        if let Err(e) = added {
            return println!("skipped: no process may be put into a cgroup: {e}");
        }
        let usage = child.usage();
        assert!(usage.cpu_user + usage.cpu_system > Duration::ZERO, "{usage:?}");
        assert!(super::super::remove(&Hierarchies::detect(), name).is_empty());
    }

    #[test]
    fn limits_are_written_to_the_kernel() {
        let _alone = one_test_at_a_time();
        let needs = Needs { quota: true, cpus: true, memory: true };
        let (top, name) = match group(needs) {
            Ok(made) => made,
            Err(e) => return println!("skipped: no cgroup with limits may be made: {e}"),
        };
        let mut node = top.child("node", true).unwrap();
        node.set_quota(0.5).unwrap();
        node.set_memory(64_000_000).unwrap();
        node.set_cpus(&[0]).unwrap();
        let role = node.child("application", true).unwrap();
        assert_eq!((node.killed_for_memory(), role.killed_for_memory()), (0, 0));
        assert!(node.reset_peak().is_ok() || node.part(Part::Unified).is_some());
        assert!(node.usage().memory_peak.is_none_or(|peak| peak < 64_000_000));
        assert!(super::super::remove(&Hierarchies::detect(), name).is_empty());
    }
}
