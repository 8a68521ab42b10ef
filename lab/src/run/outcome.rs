//! Result of the live part of a run, before it is written.

use super::LabProgress;
use crate::driver::Driver;
use crate::emulator::capture::CaptureSummary;
use crate::emulator::{Lateness, MachineWatch};
use crate::supervisor::{LinkReport, ProcessUsage, Role};
use farlink_base::DtnTime;
use farlink_report::{PhaseFacts, RoleUse, SampleRow};
use std::path::PathBuf;

/// Result of the live part of a run: everything that the run directory is written from.
pub struct SessionOutcome {
    /// Start of the run, in monotonic nanoseconds of each node's machine.
    pub starts_ns: Vec<u64>,
    /// Wall-clock time of the start.
    pub epoch: DtnTime,
    /// Progress at the end of the run.
    pub progress: LabProgress,
    /// Whether everything was sent and delivered.
    pub complete: bool,
    /// Whether the run was stopped early.
    pub stopped: bool,
    /// Indexes of the nodes that were killed at least once, and of those that were not ready again at the end.
    pub restarted: Vec<usize>,
    pub unready: Vec<usize>,
    /// Drivers of the nodes, which hold the event records.
    pub drivers: Vec<Box<dyn Driver>>,
    /// Final counters of each link, forward and reverse.
    pub links: Vec<[LinkReport; 2]>,
    /// Results of the captures.
    pub captures: Vec<CaptureSummary>,
    /// TCP congestion control of each host, by its name in the kernel.
    pub congestion: Vec<String>,
    /// Samples of links and processes.
    pub samples: Vec<SampleRow>,
    /// Resource use of each process.
    pub processes: Vec<ProcessRecord>,
    /// Facts about the phases that took place, and names of those that did not.
    pub phases: (Vec<PhaseFacts>, Vec<String>),
    /// Resource use by role over the whole run.
    pub roles: Vec<RoleUse>,
    /// Whether resource use comes from control groups; otherwise it comes from `/proc`.
    pub groups: bool,
    /// Doubts and remarks that do not come from measurements.
    pub remarks: Remarks,
    /// Number of samples that the probes left out.
    pub samples_dropped: u64,
    /// Distribution of the times that each node waited for a processor.
    pub waits: Vec<Lateness>,
    /// Whether nodes and applications had real-time scheduling.
    pub real_time: bool,
    /// Load of the machine during the run.
    pub watch: MachineWatch,
    /// Whether the run needed a user namespace, for lack of privileges.
    pub user_namespace: bool,
    /// Path of the `farlink` program.
    pub program: PathBuf,
}

/// Resource use of one process over its life.
#[derive(Clone, Debug)]
pub struct ProcessRecord {
    /// Node of the process; `None` for the emulator.
    pub node: Option<usize>,
    pub name: String,
    pub role: Role,
    pub usage: ProcessUsage,
}

/// Sentences about a run: reasons to doubt it, measurements that the scenario left no room for, and notes for the reader.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    pub disturbances: Vec<String>,
    pub unmeasured: Vec<String>,
    pub notes: Vec<String>,
}
