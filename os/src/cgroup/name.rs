//! Names of groups: the process that made them, by number and start.

use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

/// Name of a run's groups, `farlink-PID-START`. Process IDs are reused; with the start time the name is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    /// Process that made the groups, as it sees itself.
    pub process: u32,
    /// Its start in kernel ticks since the machine's start.
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

/// Field 22 of proc_pid_stat(5), counted after the name, which may hold anything.
fn start_time(process: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.get(stat.rfind(')')? + 1..)?.split_whitespace().nth(19)?.parse().ok()
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
    fn other_names_are_foreign() {
        for text in ["farlink-1", "farlink-doctor-1", "farlink-1-2-3", "user-1-2", "farlink--2"] {
            assert_eq!(text.parse::<GroupName>(), Err(()), "{text}");
        }
    }
}
