//! Resource usage of a process and all its descendants, read from `/proc`, for machines without a usable control group.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::Duration;

/// Kernel ticks per second in `/proc/<pid>/stat`: `USER_HZ`, 100 on every Linux port we build for.
const TICKS_PER_SECOND: u64 = 100;

/// Resource usage of a process tree.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TreeUsage {
    /// Processor time, including children that ended and were awaited.
    pub cpu: Duration,
    /// Resident memory, bytes; pages shared by processes count for each.
    pub resident: u64,
    /// Sum of the resident peaks of living processes, bytes.
    pub resident_peak: u64,
    /// Number of living processes.
    pub processes: u32,
    /// Number of living threads.
    pub threads: u32,
}

/// Usage of `root` and its living descendants. Reads the whole process table: call it a few times per second at most.
pub fn tree_usage(root: u32) -> io::Result<TreeUsage> {
    let parents = parents()?;
    if !parents.contains_key(&root) {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("no process {root}")));
    }
    let mut usage = TreeUsage::default();
    for process in parents.keys().copied().filter(|p| descends(*p, root, &parents)) {
        // A process may end between the listing and the reading.
        if let Ok(one) = process_usage(process) {
            usage.cpu += one.cpu;
            usage.resident += one.resident;
            usage.resident_peak += one.resident_peak;
            usage.processes += 1;
            usage.threads += one.threads;
        }
    }
    Ok(usage)
}

/// Usage of one process.
pub fn process_usage(process: u32) -> io::Result<TreeUsage> {
    let stat = Stat::read(process)?;
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Ok(TreeUsage {
        cpu: Duration::from_millis(stat.ticks * 1000 / TICKS_PER_SECOND),
        resident: kilobytes("VmRSS:").unwrap_or(0) * 1024,
        resident_peak: kilobytes("VmHWM:").unwrap_or(0) * 1024,
        processes: 1,
        threads: stat.threads,
    })
}

/// Time that a thread waited for a processor while ready to run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Total waiting time.
    pub total: Duration,
    /// Number of times the thread was scheduled.
    pub turns: u64,
}

impl Waits {
    /// Difference since `before`.
    pub fn since(self, before: Waits) -> Waits {
        Waits { total: self.total.saturating_sub(before.total), turns: self.turns.saturating_sub(before.turns) }
    }

    /// Parses `/proc/<pid>/schedstat`: the second and third number are nanoseconds waited and times run.
    fn parse(text: &str) -> Option<Waits> {
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let _running = numbers.next()?.ok()?;
        Some(Waits { total: Duration::from_nanos(numbers.next()?.ok()?), turns: numbers.next()?.ok()? })
    }
}

/// Waits of each thread of a process so far, by thread ID; empty if the kernel does not count them.
pub fn thread_waits(process: u32) -> io::Result<BTreeMap<u32, Waits>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        let entry = entry?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread may end between the listing and the reading.
        let text = fs::read_to_string(entry.path().join("schedstat")).unwrap_or_default();
        found.extend(Waits::parse(&text).map(|waits| (thread, waits)));
    }
    Ok(found)
}

/// Resets the memory peak of a process to its current usage; needs `/proc/<pid>/clear_refs`.
pub fn reset_peak(process: u32) -> io::Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), "5")
}

/// Living descendants of `root`, without `root`.
pub fn descendants(root: u32) -> io::Result<Vec<u32>> {
    let parents = parents()?;
    Ok(parents.keys().copied().filter(|p| *p != root && descends(*p, root, &parents)).collect())
}

fn parents() -> io::Result<BTreeMap<u32, u32>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|n| n.parse().ok()) else { continue };
        if let Ok(stat) = Stat::read(process) {
            found.insert(process, stat.parent);
        }
    }
    Ok(found)
}

fn descends(mut process: u32, root: u32, parents: &BTreeMap<u32, u32>) -> bool {
    // At most 64 generations: as processes start and end while the table is read, their parents may form a loop.
    for _ in 0..64 {
        if process == root {
            return true;
        }
        match parents.get(&process) {
            Some(&parent) if parent != 0 => process = parent,
            _ => return false,
        }
    }
    false
}

struct Stat {
    parent: u32,
    ticks: u64,
    threads: u32,
}

impl Stat {
    fn read(process: u32) -> io::Result<Stat> {
        let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
        Stat::parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc stat"))
    }

    /// Fields are counted after the last `)`: the name before it may hold anything.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
        let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
        // utime, stime, cutime, cstime are fields 14 to 17 of proc_pid_stat(5), 11 to 14 here.
        let ticks = (11..15).map(number).sum::<Option<u64>>()?;
        Some(Stat { parent: number(1)? as u32, ticks, threads: number(17)? as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_brackets_parses() {
        let text = "7 (a) b) (c) S 3 7 7 0 -1 4194304 9 0 0 0 10 20 30 40 20 0 5 0 100 1 2";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.parent, stat.ticks, stat.threads), (3, 100, 5));
        assert!(Stat::parse("7 (x) S 3").is_none());
    }

    #[test]
    fn run_queue_wait_is_per_thread() {
        let before = Waits::parse("77 1000 3").unwrap();
        let after = Waits::parse("99 5000 5").unwrap();
        assert_eq!(after.since(before), Waits { total: Duration::from_nanos(4000), turns: 2 });
        assert_eq!(Waits::parse("1 2"), None);
        let mine = thread_waits(std::process::id()).unwrap();
        assert!(mine.is_empty() || mine.values().any(|waits| waits.turns > 0), "{mine:?}");
    }

    #[test]
    fn tree_usage_includes_children() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let me = std::process::id();
        let usage = tree_usage(me).unwrap();
        assert!(usage.processes >= 2, "{usage:?}");
        assert!(usage.resident > 100_000 && usage.resident_peak >= usage.resident / 2, "{usage:?}");
        assert!(descendants(me).unwrap().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(tree_usage(u32::MAX - 1).is_err());
    }
}
