//! Disturbances by the machine itself: pressure stall information and stolen time.

use std::fs;
use std::time::Duration;

/// Resource that tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Processor time.
    Cpu,
    /// Main memory.
    Memory,
    /// Disk input and output.
    Io,
}

/// Time lost to waiting (Documentation/accounting/psi.rst of the kernel).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct StallTime {
    /// Time during which at least one task waited.
    pub some: Duration,
    /// Time during which all tasks waited.
    pub full: Duration,
}

/// Stall time of the machine; `None` on kernels that do not count it.
pub fn pressure(resource: Resource) -> Option<StallTime> {
    let name = match resource {
        Resource::Cpu => "cpu",
        Resource::Memory => "memory",
        Resource::Io => "io",
    };
    parse_pressure(&fs::read_to_string(format!("/proc/pressure/{name}")).ok()?)
}

fn parse_pressure(text: &str) -> Option<StallTime> {
    let total = |kind: &str| {
        let line = text.lines().find(|l| l.starts_with(kind))?;
        line.split_whitespace().find_map(|f| f.strip_prefix("total="))?.parse().ok().map(Duration::from_micros)
    };
    Some(StallTime { some: total("some")?, full: total("full").unwrap_or_default() })
}

/// Processor time of the whole machine since its start.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct MachineTime {
    /// Time spent working.
    pub busy: Duration,
    /// Time spent idle.
    pub idle: Duration,
    /// Time that the hypervisor gave to other virtual machines.
    pub stolen: Duration,
}

/// Reads the machine's processor time; `None` where `/proc/stat` is hidden.
pub fn machine_time() -> Option<MachineTime> {
    parse_machine_time(&fs::read_to_string("/proc/stat").ok()?)
}

fn parse_machine_time(text: &str) -> Option<MachineTime> {
    let fields: Vec<u64> =
        text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map_while(|f| f.parse().ok()).collect();
    let ticks = |i: usize| Duration::from_millis(fields.get(i).copied().unwrap_or(0).saturating_mul(10));
    // user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5)), hundredths of a second.
    (fields.len() >= 4).then(|| MachineTime {
        busy: ticks(0) + ticks(1) + ticks(2) + ticks(5) + ticks(6),
        idle: ticks(3) + ticks(4),
        stolen: ticks(7),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_text_is_read() {
        let text = "some avg10=3.99 avg60=1.68 avg300=0.52 total=5325750\nfull avg10=0.00 total=7\n";
        let expected = StallTime { some: Duration::from_micros(5_325_750), full: Duration::from_micros(7) };
        assert_eq!(parse_pressure(text), Some(expected));
        assert_eq!(parse_pressure("nothing"), None);
    }

    #[test]
    fn machine_time_is_read() {
        let time = parse_machine_time("cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 ...").unwrap();
        assert_eq!(time.busy, Duration::from_millis(190));
        assert_eq!(time.idle, Duration::from_millis(90));
        assert_eq!(time.stolen, Duration::from_millis(80));
        assert!(parse_machine_time("").is_none());
    }
}
