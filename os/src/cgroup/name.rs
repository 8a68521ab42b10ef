//! Names of control groups, formed from the process ID and the start time of the process that made them.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

/// Name of a run's groups, `farlink-PID-START`. Process IDs are reused; with the start time the name is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    /// Process that made the groups, by its ID in its own PID namespace.
    pub process: u32,
    /// Start of that process, in kernel ticks since the machine's start.
    pub start: u64,
}

impl GroupName {
    /// Name for groups made by this process.
    ///
    /// # Errors
    /// When `/proc` is not readable.
    pub fn of_self() -> io::Result<Self> {
        let start = start_time("self").ok_or_else(|| io::Error::other("/proc/self/stat gives no start time"))?;
        Ok(GroupName { process: std::process::id(), start })
    }

    /// Whether the process that made the groups lives.
    pub fn lives(self) -> bool {
        if start_time(&self.process.to_string()) == Some(self.start) {
            return true;
        }
        // The ID may be of another PID namespace, as in a container: compare with the IDs in each namespace (NSpid).
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        numbers.filter(|other| start_time(other) == Some(self.start)).any(|other| {
            let status = fs::read_to_string(format!("/proc/{other}/status")).unwrap_or_default();
            let known = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            known.split_whitespace().any(|number| number == self.process.to_string())
        })
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "farlink-{}-{}", self.process, self.start)
    }
}

impl FromStr for GroupName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (process, start) = text.strip_prefix("farlink-").and_then(|rest| rest.split_once('-')).ok_or(())?;
        Ok(GroupName { process: process.parse().map_err(drop)?, start: start.parse().map_err(drop)? })
    }
}

/// Start of a process in kernel ticks since the machine's start (field 22 of proc_pid_stat(5)); `None` if it has ended,
/// waited for or not. The fields are split only behind the last `)`, since the name may hold anything.
fn start_time(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    (!["Z", "X"].contains(&state)).then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_ends_with_its_process() {
        let own = GroupName::of_self().unwrap();
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!(own.lives());
        assert!(!GroupName { start: own.start + 1, ..own }.lives(), "the number belongs to another process");
    }

    #[test]
    fn ended_process_does_not_live() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = child.id();
        let stat = || fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        while !stat().contains(") Z ") {
            std::thread::yield_now();
        }
        let start = stat().rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
        assert!(!GroupName { process, start }.lives(), "nobody waited for it yet");
        child.wait().unwrap();
    }

    #[test]
    fn other_names_are_foreign() {
        for text in ["farlink-1", "farlink-doctor-1", "farlink-1-2-3", "user-1-2", "farlink--2"] {
            assert_eq!(text.parse::<GroupName>(), Err(()), "{text}");
        }
    }
}
