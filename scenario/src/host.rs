//! Hosts of nodes in the testbed, and phases of a run.

use crate::types::Scenario;
use farlink_base::{DataVolume, Duration};
use std::fmt;
use std::path::PathBuf;

/// Most phases of a scenario.
pub const PHASES_MAX: usize = 64;

/// The machine that a node has in the testbed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostSpec {
    /// Kind of isolation.
    pub kind: HostKind,
    /// Processors that its programs may use; `None` for all.
    pub cpus: Option<Processors>,
    /// Most processor time of its programs per unit of real time, in processors; `None`: unlimited.
    pub quota: Option<f64>,
    /// Most memory of all its programs together; `None`: unlimited.
    pub memory: Option<DataVolume>,
}

impl HostSpec {
    /// Whether the node runs on a machine outside the testbed, which neither starts nor ends anything there.
    pub fn is_outside(&self) -> bool {
        matches!(self.kind, HostKind::Interface(_))
    }

    /// The machine that is reached by SSH and runs the node; `None` for this machine.
    pub fn ssh(&self) -> Option<&SshMachine> {
        match &self.kind {
            HostKind::Ssh(machine) => Some(machine),
            HostKind::Namespace | HostKind::Container(_) | HostKind::Interface(_) => None,
        }
    }

    /// The limits in words, such as `0.5 of a processor`; empty without any.
    pub fn limits(&self) -> Vec<String> {
        let cpus = self.cpus.as_ref().map(|cpus| match cpus {
            Processors::Count(1) => "one processor".to_string(),
            Processors::Count(count) => format!("{count} processors"),
            Processors::These(list) => {
                format!("processors {}", list.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
            }
        });
        let quota = self.quota.map(|quota| format!("{quota} of a processor"));
        cpus.into_iter().chain(quota).chain(self.memory.map(|memory| format!("{memory} of memory"))).collect()
    }
}

/// Kind of a host's isolation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum HostKind {
    /// Programs of this machine in namespaces of their own.
    #[default]
    Namespace,
    /// Programs in a container of this image.
    Container(ContainerImage),
    /// A machine outside the testbed, behind the network interface of this name: a board, a virtual machine, a radio.
    /// The testbed starts nothing there.
    Interface(String),
    /// Programs of the testbed on a machine that is reached by SSH.
    Ssh(SshMachine),
}

/// A machine that is reached by SSH. Hosts with equal values share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SshMachine {
    /// Destination as `ssh` takes it: `user@machine`, a name of its configuration, or `ssh://user@machine:port`.
    pub at: String,
    /// Configuration file of `ssh`, relative to the scenario's folder; `None` for the user's.
    pub config: Option<PathBuf>,
    /// The `farlink` program for the machine, relative to the scenario's folder; `None` for the program that runs.
    pub program: Option<PathBuf>,
}

/// Image of a container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ContainerImage {
    /// A folder or an archive, relative to the scenario's folder.
    Path(PathBuf),
    /// A name by which Podman or Docker knows it.
    Name(String),
}

impl ContainerImage {
    /// Reads the key `image`: a path begins with `/`, `./` or `../`.
    pub fn parse(text: &str) -> ContainerImage {
        let path = ["/", "./", "../"].iter().any(|start| text.starts_with(start));
        if path { ContainerImage::Path(text.into()) } else { ContainerImage::Name(text.into()) }
    }
}

impl fmt::Display for ContainerImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContainerImage::Path(path) => write!(f, "{}", path.display()),
            ContainerImage::Name(name) => f.write_str(name),
        }
    }
}

/// Processors that a host may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Processors {
    /// This number of processors, chosen by the testbed.
    Count(usize),
    /// The processors with these numbers.
    These(Vec<usize>),
}

/// A named span of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// Name in tables and reports.
    pub name: String,
    /// Purpose of the phase.
    pub kind: PhaseKind,
    /// Earliest start, from the start of the run; `None`: the end of the previous phase.
    pub start: Option<Duration>,
    /// Longest duration; `None`: until the next phase begins, or the run ends.
    pub duration: Option<Duration>,
    /// Event that ends the phase early; `None` without one.
    pub until: Option<PhaseEnd>,
}

/// Purpose of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhaseKind {
    /// No particular purpose.
    Free,
    /// Plain TCP and UDP through the hosts and links.
    Baseline,
    /// Traffic that is not measured: caches fill, sessions come up.
    Warm,
    /// Sending of pings.
    Ping,
    /// High load.
    Load,
    /// No new traffic: bundles in transit arrive.
    Unload,
    /// Measurement of the times for which relays hold bundles.
    Retention,
}

impl PhaseKind {
    /// All kinds, in the order of the key's words.
    pub const ALL: [PhaseKind; 7] = [
        PhaseKind::Free,
        PhaseKind::Baseline,
        PhaseKind::Warm,
        PhaseKind::Ping,
        PhaseKind::Load,
        PhaseKind::Unload,
        PhaseKind::Retention,
    ];

    /// Word of the scenario file.
    pub fn word(self) -> &'static str {
        let place = PhaseKind::ALL.iter().position(|kind| *kind == self).unwrap_or(0);
        crate::keys_host::PHASE_KINDS[place]
    }
}

/// Event that ends a phase early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhaseEnd {
    /// Every sender that began has sent all its bundles.
    Sent,
    /// As `Sent`, and all bundles created so far are delivered.
    Delivered,
}

impl Scenario {
    /// Places the nodes that would be programs of this machine on these machines, in turn.
    pub fn place_on(&mut self, machines: &[SshMachine]) {
        let here = self.nodes.iter_mut().filter(|node| node.host.kind == HostKind::Namespace);
        here.zip(machines.iter().cycle()).for_each(|(node, machine)| node.host.kind = HostKind::Ssh(machine.clone()));
    }

    /// Latest start and end of a phase that the scenario allows. The end is `None` if neither a duration nor the next
    /// phase's start sets it; all later phases then give `None` instead of a span.
    pub fn latest_span(&self, phase: usize) -> Option<(Duration, Option<Duration>)> {
        let mut before = Some(Duration::ZERO);
        for (index, at) in self.phases.iter().enumerate() {
            let start = before?.max(at.start.unwrap_or_default());
            let next = self.phases.get(index + 1).and_then(|next| next.start);
            before = at.duration.map(|duration| start.saturating_add(duration)).or(next);
            if index == phase {
                return Some((start, before));
            }
        }
        None
    }

    /// Notes on features without effect in a simulation, such as limits and images of hosts, baselines and retention
    /// times.
    pub fn notes_of_simulation(&self) -> Vec<String> {
        let limited = |node: &&crate::Node| !node.host.limits().is_empty();
        let note = |node: &crate::Node| {
            let limits = node.host.limits().join(", ");
            format!("The limits of the host of {} ({limits}) have no effect in a simulation.", node.name)
        };
        let image = |node: &crate::Node| match &node.host.kind {
            HostKind::Namespace => None,
            HostKind::Container(image) => {
                Some(format!("The container image of {} ({image}) has no effect in a simulation.", node.name))
            }
            HostKind::Interface(name) => {
                Some(format!("Node {} is simulated by our node, not by the machine behind {name}.", node.name))
            }
            HostKind::Ssh(machine) => Some(format!("Node {} is simulated here, not on {}.", node.name, machine.at)),
        };
        let foreign = |node: &&crate::Node| !node.implementation.is_farlink();
        let replaced = |node: &crate::Node| {
            format!("Node {} is simulated by our node, not {}.", node.name, node.implementation.name)
        };
        let replaced = self.nodes.iter().filter(foreign).take(16).map(replaced);
        // At most 16 notes of a kind, because a group may have thousands of nodes with the same host.
        let hosts = self.nodes.iter().filter(limited).take(16).map(note);
        let hosts = hosts.chain(self.nodes.iter().filter_map(image).take(16));
        let machine = |node: &crate::Node| {
            let keys = node.machine.iter().map(|given| format!("{}.{}", given.table, given.key));
            let keys = keys.collect::<Vec<_>>().join(", ");
            format!("Settings of the machine of {} ({keys}) have no effect in a simulation.", node.name)
        };
        let machines = self.nodes.iter().filter(|node| !node.machine.is_empty()).take(16).map(machine);
        let baseline = self.phases.iter().any(|phase| phase.kind == PhaseKind::Baseline);
        let baseline = baseline.then(|| "A simulation has no baseline: its phase only passes.".to_string());
        let retention = self.phases.iter().any(|phase| phase.kind == PhaseKind::Retention);
        let retention =
            retention.then(|| "A simulation measures no retention times: their phase only passes.".to_string());
        let until = self.phases.iter().any(|phase| phase.until.is_some());
        let until = until.then(|| "In a simulation phases end at their latest: `until` has no effect.".to_string());
        let never = (0..self.phases.len()).filter(|phase| self.latest_span(*phase).is_none());
        let never = never.map(|phase| format!("Phase {} does not begin in a simulation.", self.phases[phase].name));
        hosts.chain(replaced).chain(machines).chain(baseline).chain(retention).chain(until).chain(never).collect()
    }
}
