//! Accounting of processes by an environment variable, for machines where no control group may be made.
//!
//! A process that clears its environment stays in the account of its parent. A process that ends between two scans is
//! counted through the parent that waited for it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

/// Environment variable of programs: the number of their account.
pub const MARK: &str = "FARLINK_ACCOUNT";

/// Kernel ticks per second in `/proc/<pid>/stat`: `USER_HZ`, 100 on every Linux port we build for.
const TICKS_PER_SECOND: u64 = 100;
/// Most processes that are followed.
const PROCESSES: usize = 1 << 16;

/// Usage of one account.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct MemberUsage {
    /// Processor time in user mode, of ended processes too.
    pub cpu_user: Duration,
    /// Processor time in the kernel, of ended processes too.
    pub cpu_system: Duration,
    /// Anonymous memory now, bytes.
    pub anonymous: u64,
    /// Shared memory now, bytes.
    pub shared: u64,
    /// Mapped files now, bytes.
    pub files: u64,
    /// Peak resident memory since the last reset, bytes; of several processes, the largest sum seen.
    pub peak: u64,
    /// Living processes.
    pub processes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    account: Option<u32>,
}

/// Accounts of processes.
#[derive(Debug, Default)]
pub struct Members {
    known: BTreeMap<u32, Member>,
    /// By account: processor time of processes that ended (user mode, kernel), and the largest sum of resident memory
    /// since the last reset.
    ended: BTreeMap<u32, (Duration, Duration)>,
    sums: BTreeMap<u32, u64>,
}

impl Members {
    /// Reads all processes; returns the usage of each account. It reads the whole process table, so call it a few times
    /// per second at most.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn scan(&mut self) -> io::Result<BTreeMap<u32, MemberUsage>> {
        let mut stats = BTreeMap::new();
        for entry in fs::read_dir("/proc")?.take(PROCESSES) {
            let name = entry?.file_name();
            let Some(process) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            // A process may end between the listing and the reading.
            if let Some(stat) = fs::read_to_string(format!("/proc/{process}/stat")).ok().and_then(|t| Stat::parse(&t)) {
                stats.insert(process, stat);
            }
        }
        self.assign(&stats);
        let mut usages: BTreeMap<u32, MemberUsage> = BTreeMap::new();
        for (account, (user, system)) in &self.ended {
            let usage = usages.entry(*account).or_default();
            (usage.cpu_user, usage.cpu_system) = (*user, *system);
        }
        let mut processes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (process, member) in &self.known {
            let (Some(account), Some(stat)) = (member.account, stats.get(process)) else { continue };
            let usage = usages.entry(account).or_default();
            usage.cpu_user += stat.user;
            usage.cpu_system += stat.system;
            usage.processes += 1;
            processes.entry(account).or_default().push(*process);
        }
        for (account, processes) in processes {
            let usage = usages.entry(account).or_default();
            let alone = processes.len() == 1;
            let memory: Vec<ProcessMemory> = processes.iter().filter_map(|p| ProcessMemory::read(*p, alone)).collect();
            usage.anonymous = memory.iter().map(|m| m.anonymous).sum();
            usage.shared = memory.iter().map(|m| m.shared).sum();
            usage.files = memory.iter().map(|m| m.files).sum();
            let sum = self.sums.entry(account).or_default();
            *sum = (*sum).max(usage.anonymous + usage.shared + usage.files);
            // The kernel's peak of one process is exact; peaks of several are not of one moment.
            usage.peak = if alone { memory.iter().map(|m| m.peak).sum::<u64>().max(*sum) } else { *sum };
        }
        Ok(usages)
    }

    /// Finds the accounts of new processes, and forgets ended ones.
    fn assign(&mut self, stats: &BTreeMap<u32, Stat>) {
        self.known.retain(|process, member| stats.get(process).is_some_and(|stat| stat.start == member.start));
        // Parents come before children, so that these can inherit.
        let mut new: Vec<(u32, &Stat)> =
            stats.iter().filter(|(process, _)| !self.known.contains_key(process)).map(|(p, stat)| (*p, stat)).collect();
        new.sort_by_key(|(process, stat)| (stat.start, *process));
        for (process, stat) in new {
            let of_parent = || self.known.get(&stat.parent).and_then(|parent| parent.account);
            let account = marked(process).or_else(of_parent);
            self.known.insert(process, Member { start: stat.start, account });
        }
    }

    /// Counts a process that has ended and was waited for by this process, with its processor time.
    pub fn ended(&mut self, process: u32, cpu_user: Duration, cpu_system: Duration) {
        let Some(account) = self.known.remove(&process).and_then(|member| member.account) else { return };
        let total = self.ended.entry(account).or_default();
        *total = (total.0 + cpu_user, total.1 + cpu_system);
    }

    /// Registers a process started for an account, before a scan can find it.
    pub fn started(&mut self, process: u32, account: u32) {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok().and_then(|text| Stat::parse(&text));
        if let Some(stat) = stat {
            self.known.insert(process, Member { start: stat.start, account: Some(account) });
        }
    }

    /// Resets the memory peaks of all living members.
    pub fn reset_peaks(&mut self) {
        self.sums.clear();
        for (process, _) in self.known.iter().filter(|(_, member)| member.account.is_some()) {
            let _ = crate::account::reset_peak(*process);
        }
    }
}

fn marked(process: u32) -> Option<u32> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    entries.find_map(|entry| entry.strip_prefix(MARK)?.strip_prefix('=')?.parse().ok())
}

/// Memory of one process.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct ProcessMemory {
    anonymous: u64,
    shared: u64,
    files: u64,
    peak: u64,
}

impl ProcessMemory {
    /// Reads the memory of a process. Shared memory is divided among its processes, at the cost of a walk over the
    /// pages, unless the process is alone.
    fn read(process: u32, alone: bool) -> Option<ProcessMemory> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let whole = ProcessMemory::parse(&status, ["RssAnon:", "RssShmem:", "RssFile:"]);
        let rollup = || fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok();
        let divided = if alone { None } else { rollup() };
        let divided = divided.map(|text| ProcessMemory::parse(&text, ["Pss_Anon:", "Pss_Shmem:", "Pss_File:"]));
        Some(ProcessMemory { peak: whole.peak, ..divided.unwrap_or(whole) })
    }

    fn parse(text: &str, [anonymous, shared, files]: [&str; 3]) -> ProcessMemory {
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib.saturating_mul(1024))
        };
        let bytes = |name| bytes(name).unwrap_or(0);
        ProcessMemory { anonymous: bytes(anonymous), shared: bytes(shared), files: bytes(files), peak: bytes("VmHWM:") }
    }
}

/// Fields of proc_pid_stat(5).
#[derive(Clone, Copy, Debug)]
struct Stat {
    parent: u32,
    /// Time in user mode, including children that ended and were waited for.
    user: Duration,
    system: Duration,
    start: u64,
}

impl Stat {
    /// Fields are counted after the last `)`: the name before it may hold anything.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
        let time = |own: usize| {
            let ticks = number(own)?.saturating_add(number(own + 2)?);
            Some(Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)))
        };
        Some(Stat { parent: number(1)? as u32, user: time(11)?, system: time(12)?, start: number(19)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn marked_program_and_children_are_one_account() {
        // The inner program has no mark of its own: it inherits by its parent.
        let script = "env -i sleep 5 & wait";
        let mut child = Command::new("sh").args(["-c", script]).env(MARK, "71").spawn().unwrap();
        let mut members = Members::default();
        let begun = std::time::Instant::now();
        let usage = loop {
            let usage = members.scan().unwrap().get(&71).copied().unwrap_or_default();
            if usage.processes >= 2 || begun.elapsed() > Duration::from_secs(10) {
                break usage;
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(usage.processes >= 2 && usage.anonymous > 0 && usage.peak >= usage.anonymous, "{usage:?}");
        members.ended(child.id(), Duration::from_secs(3), Duration::from_secs(1));
        let after = members.scan().unwrap()[&71];
        assert!(after.cpu_user >= Duration::from_secs(3) && after.cpu_system >= Duration::from_secs(1), "{after:?}");
        assert_eq!(members.scan().unwrap().get(&72), None);
    }

    #[test]
    fn name_with_brackets_parses() {
        let text = "7 (a) b) (c) S 3 7 7 0 -1 4194304 9 0 0 0 10 20 30 40 20 0 5 0 100 1 2";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.parent, stat.start), (3, 100));
        assert_eq!((stat.user, stat.system), (Duration::from_millis(400), Duration::from_millis(600)));
        assert!(Stat::parse("7 (x) S 3").is_none());
    }

    #[test]
    fn memory_is_read_by_kind() {
        let text = "VmHWM:\t 90 kB\nRssAnon:\t 3 kB\nRssFile:\t 4 kB\nRssShmem:\t 5 kB\n";
        let memory = ProcessMemory::parse(text, ["RssAnon:", "RssShmem:", "RssFile:"]);
        let kib = |n: u64| n << 10;
        assert_eq!(memory, ProcessMemory { anonymous: kib(3), shared: kib(5), files: kib(4), peak: kib(90) });
        assert_eq!(ProcessMemory::parse("", ["a", "b", "c"]), ProcessMemory::default());
    }
}
