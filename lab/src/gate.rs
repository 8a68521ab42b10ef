//! Validity gate: compares the measurements that a run took of itself and of its machine with bounds. A run within all
//! bounds is clean; any other is disturbed, with the reasons.

use std::time::Duration;

// Bound of the 99th percentile of lateness (with 95 % confidence, as few packets prove little), or a tenth of the link's delay if that is longer.
const LATE: Duration = Duration::from_millis(5);
// Bound of the fraction of time in which a task waited for a processor. On one machine processes
// always wait a little; beyond this they measure each other.
const CPU_WAIT: f64 = 0.60;
// Bound of the fraction of processor time that the hypervisor gave to other machines.
const STOLEN: f64 = 0.05;
// Bound of the fraction of time in which processors were busy; beyond it the results show the
// limits of this machine.
const BUSY: f64 = 0.90;
// Bound of the fraction of time in which a task waited for memory: a task that swaps or reclaims stands still for
// milliseconds.
const MEMORY_WAIT: f64 = 0.10;
// Bound of the fraction of time in which a task waited for a disk, if nodes have durable stores.
// A simulated disk takes 20 µs, and 200 µs for a sync.
const DISK_WAIT: f64 = 0.10;
// Bound of the fraction of samples that the probes left out, since peaks between samples go unseen.
const SAMPLES_LOST: f64 = 0.05;
// Bound of the difference between the two TCP baselines of a link, as a fraction of the larger. The range of 581 to 708
// Mbit/s that DTN-COMET measured is 0.18.
const BASELINE_SPREAD: f64 = 0.20;

/// Component whose lateness is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Late {
    /// Emulator: packets leave late.
    #[default]
    Packets,
    /// Node that waited for a processor: its hand-over is late.
    HandOver,
}

/// Measurements from which a run is judged; those that are `None` are not judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signs {
    /// Component to which `late_p99` refers.
    pub late: Late,
    /// 99th percentile of the lateness of that component, with 95 % confidence.
    pub late_p99: Duration,
    /// One-way delay of the link or links judged; lateness up to a tenth of it is allowed.
    pub delay: Duration,
    /// Packets lost by the emulator, for lack of memory or in the kernel's queue, plus link changes for which the
    /// emulator was late.
    pub own_losses: u64,
    /// Fraction of time in which some task waited for a processor, if the kernel reports it.
    pub cpu_wait: Option<f64>,
    /// Fraction of processor time spent busy, if the kernel reports it.
    pub busy: Option<f64>,
    /// Fraction of processor time stolen by the hypervisor, if the kernel reports it.
    pub stolen: Option<f64>,
    /// Fraction of time in which some task waited for memory, if the kernel reports it.
    pub memory_wait: Option<f64>,
    /// Fraction of time in which some task waited for a disk, if nodes use one.
    pub disk_wait: Option<f64>,
    /// Fraction of the samples that the probes left out.
    pub samples_lost: Option<f64>,
    /// Difference between the two TCP baselines of a link, as a fraction of the larger.
    pub baseline_spread: Option<f64>,
}

impl Signs {
    /// Reasons to doubt the run; empty if it is trustworthy.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        // Lateness up to a tenth of the link's own delay hardly changes results.
        let allowed = LATE.max(self.delay / 10);
        if self.late_p99 > allowed {
            let what = match self.late {
                Late::Packets => "packets",
                Late::HandOver => "it waited for a processor and handed over",
            };
            doubts.push(format!("{what} up to {:.1} ms late (99 %), {:.1} allowed", ms(self.late_p99), ms(allowed)));
        }
        if self.own_losses > 0 {
            doubts.push(format!("{} packets or link changes missed by the emulator itself", self.own_losses));
        }
        let time = "of the time";
        for (share, most, what, of) in [
            (self.cpu_wait, CPU_WAIT, "tasks waited for a processor", time),
            (self.busy, BUSY, "the processors were at work", time),
            (self.stolen, STOLEN, "time was stolen", time),
            (self.memory_wait, MEMORY_WAIT, "tasks waited for memory", time),
            (self.disk_wait, DISK_WAIT, "tasks waited for a disk", time),
            (self.samples_lost, SAMPLES_LOST, "probes left out", "of the samples"),
            (self.baseline_spread, BASELINE_SPREAD, "two baselines differed by", "of the larger"),
        ] {
            if let Some(share) = share.filter(|s| *s > most) {
                doubts.push(format!("{what} {:.0} % {of}, {:.0} % allowed", share * 100.0, most * 100.0));
            }
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Lateness;

    #[test]
    fn doubts_name_value_and_bound() {
        let usual = Signs {
            cpu_wait: Some(0.2),
            stolen: Some(0.01),
            disk_wait: Some(0.02),
            baseline_spread: Some(0.1),
            ..Signs::default()
        };
        assert!(usual.doubts().is_empty());
        let filled = Signs { busy: Some(0.97), ..usual }.doubts();
        assert_eq!(filled, ["the processors were at work 97 % of the time, 90 % allowed"]);
        let stalled = Signs { disk_wait: Some(0.13), ..usual }.doubts();
        assert_eq!(stalled, ["tasks waited for a disk 13 % of the time, 10 % allowed"]);
        let blind = Signs { samples_lost: Some(0.5), baseline_spread: Some(0.3), ..usual }.doubts();
        assert_eq!(blind[0], "probes left out 50 % of the samples, 5 % allowed");
        assert_eq!(blind[1], "two baselines differed by 30 % of the larger, 20 % allowed");
    }

    #[test]
    fn long_delay_hides_lateness() {
        let bad = Signs { late_p99: Duration::from_millis(30), own_losses: 3, stolen: Some(0.2), ..Signs::default() };
        let doubts = bad.doubts();
        assert_eq!(doubts.len(), 3, "{doubts:?}");
        assert!(doubts[0].contains("30.0 ms"));
        let mars = Signs { late_p99: Duration::from_millis(30), delay: Duration::from_secs(600), ..Signs::default() };
        assert!(mars.doubts().is_empty());
    }

    #[test]
    fn node_waiting_for_processor_is_doubted() {
        let mut waits = Lateness::default();
        waits.add_many(100_000, 950);
        let signs =
            |waits: &Lateness| Signs { late: Late::HandOver, late_p99: waits.evident_p99(), ..Signs::default() };
        assert!(signs(&waits).doubts().is_empty());
        waits.add_many(80_000_000, 50);
        let doubts = signs(&waits).doubts();
        assert!(doubts[0].contains("waited for a processor and handed over up to 80.0 ms late"), "{doubts:?}");
    }
}
