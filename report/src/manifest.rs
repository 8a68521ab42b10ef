//! `manifest.json`: the scenario, world, versions and machine of a run, and the validity of its measurements.

use crate::custody::CustodyUse;
use crate::format::Quantity;
use crate::phase::{PhaseFacts, RoleUse};
use crate::plain_flow::PlainFlow;
use crate::schema::BundleRow;
use farlink_base::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema version of run directories; raised when an older reader would misread them.
pub const SCHEMA_VERSION: u32 = 1;

/// Facts about one run, stored as `manifest.json`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Schema version of the run directory.
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// Description from the scenario file.
    #[serde(default)]
    pub description: String,
    /// Text of the scenario file.
    pub scenario_text: String,
    /// Text of the contact plan file, if the scenario has one.
    #[serde(default)]
    pub plan_text: Option<String>,
    /// FNV-1a hash of the scenario and plan texts, 64 bits as hex; equal for runs of the same scenario.
    pub scenario_hash: String,
    /// World in which the run took place.
    pub world: RunWorld,
    /// Fidelity of a simulation: `full` or `message`.
    #[serde(default)]
    pub fidelity: Option<String>,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Time limit from the scenario, in seconds of run time.
    pub duration_limit_s: f64,
    /// Wall-clock time at the start of the run, such as `2026-11-20T09:00:00.000Z`; simulated in `sim`.
    pub start_utc: String,
    /// Length of the run in seconds; simulated time in `sim`.
    #[serde(default)]
    pub duration_s: f64,
    /// Real time the run took in seconds, set-up included.
    #[serde(default)]
    pub wall_s: f64,
    /// Whether the run ended as planned; false while it runs and after an interruption.
    #[serde(default)]
    pub finished: bool,
    /// Versions by component: farlink, and the implementations under test.
    pub versions: BTreeMap<String, String>,
    /// Machine on which the run took place.
    pub host: Host,
    /// Nodes, links, contacts and traffic of the scenario.
    pub topology: Topology,
    /// Measures of how far to trust the run.
    #[serde(default)]
    pub validity: Validity,
    /// Phases of the run with their results; empty if the scenario has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseFacts>,
    /// Use of processors and memory over the whole run, by node and role; empty in simulations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<RoleUse>,
    /// Files sent, with checksums before and after.
    #[serde(default)]
    pub files: Vec<FileCheck>,
    /// Plain TCP and UDP flows between hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<PlainFlow>,
    /// Custody counters; absent if the run had no custody.
    #[serde(default)]
    pub custody: Option<CustodyUse>,
    /// Number of copies deleted, by reason; copies that their node needed no longer (`done`) are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub given_up: BTreeMap<String, u64>,
    /// Expectations from the scenario's `[expect]`.
    #[serde(default)]
    pub expect: Expected,
    /// Command line that repeats the run.
    #[serde(default)]
    pub command: String,
}

/// Environment in which a run took place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunWorld {
    /// The discrete-event simulator.
    Sim,
    /// The testbed on one machine.
    Lab,
    /// Machines reached over SSH.
    Hosts,
}
impl RunWorld {
    /// Name on the command line: `sim`, `lab`, `hosts`.
    pub const fn name(self) -> &'static str {
        match self {
            RunWorld::Sim => "sim",
            RunWorld::Lab => "lab",
            RunWorld::Hosts => "hosts",
        }
    }
    /// Label shown to people.
    pub const fn title(self) -> &'static str {
        match self {
            RunWorld::Sim => "Simulation",
            RunWorld::Lab => "Testbed",
            RunWorld::Hosts => "Hosts",
        }
    }
}

/// Machine on which a run took place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// Operating system and kernel version.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Number of processors available to the run.
    pub cpus: u32,
    /// Memory size in bytes.
    pub memory_bytes: u64,
}

/// Expectations of the scenario's author; absent ones are not checked.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Expected {
    /// Least delivery ratio, 0 to 1.
    pub delivery_ratio: Option<f64>,
    /// Latest time of the last delivery, in seconds from the start.
    pub finished_within_s: Option<f64>,
    /// Longest real time that a run in the testbed may take, in seconds.
    pub wall_time_lab_s: Option<f64>,
}

/// Nodes, links and contacts of the scenario. `farlink_scenario` writes the same JSON.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Topology {
    /// Nodes in the order of the scenario.
    pub nodes: Vec<NodeFacts>,
    /// Links in the order of the scenario.
    pub links: Vec<LinkFacts>,
    /// Contacts of the plan in order of start, then one in each direction for each unplanned link that appears or
    /// disappears. A link without contacts is always up.
    pub contacts: Vec<ContactFacts>,
    /// Traffic flows in the order of the scenario.
    #[serde(default)]
    pub traffic: Vec<TrafficFacts>,
}

/// One traffic flow of the scenario, with the endpoints that identify its bundles.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrafficFacts {
    /// Name of the traffic flow.
    pub name: String,
    /// Name of the sending node, or of the sending group.
    pub from: String,
    /// Name of the receiving node, or of the receiving group.
    pub to: String,
    /// Destination service number, or a hash of its demux.
    pub service: u64,
    /// Service number from which the sender sends if it can choose one, or a hash of its demux.
    pub sender_service: u64,
    /// Number of sender services, one for each bundle, counted up from `sender_service`. Only present for traffic among
    /// groups, where `from` and `to` name groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders: Option<u64>,
    /// Number of bundles that the applications wanted to send by the end; absent where nobody knows, as in the testbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<u64>,
}
impl TrafficFacts {
    /// Whether a bundle of this flow answers a ping: it has the flow's name, too, and nobody offered it.
    pub fn is_answer(&self, bundle: &BundleRow) -> bool {
        self.senders.is_none() && *bundle.source == self.to && self.to != self.from
    }
}

/// One node of the scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Name of the node.
    pub name: String,
    /// Node ID, such as `ipn:1.0`.
    pub id: String,
    /// Short form of the node ID: [`NodeId`] as a number.
    pub number: u64,
    /// Kind of store: `memory` or `durable`.
    #[serde(default)]
    pub store: String,
    /// Store capacity in bytes.
    #[serde(default)]
    pub store_capacity_bytes: u64,
    /// Name of the routing algorithm.
    #[serde(default)]
    pub router: String,
    /// Position in the drawing, as fractions from the left and top edges; absent if the scenario gives none.
    #[serde(default)]
    pub position: Option<(f64, f64)>,
}
impl NodeFacts {
    /// Short form of the node ID.
    pub fn node_id(&self) -> NodeId {
        NodeId(self.number)
    }
}

/// One link of the scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkFacts {
    /// Name of the link.
    pub name: String,
    /// First node; `forward` leads from it to the second.
    pub from: String,
    /// Name of the second node.
    pub to: String,
    /// Convergence layer, such as `ltp` or `tcpclv4`.
    pub layer: String,
    /// Properties from the first node to the second.
    pub forward: DirectionFacts,
    /// Properties from the second node to the first.
    pub reverse: DirectionFacts,
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DirectionFacts {
    /// Rate in bit/s; absent when unlimited.
    pub rate_bit_s: Option<f64>,
    /// One-way light time or delay at the start of the run, in seconds.
    pub delay_s: f64,
    /// Mean fraction of packets lost, 0 to 1, without bit errors.
    pub loss: f64,
    /// Other impairments, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A contact: an interval during which one direction of a link is up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ContactFacts {
    /// Name of the link.
    pub link: String,
    /// Name of the sending node.
    pub from: String,
    /// Name of the receiving node.
    pub to: String,
    /// Start of the contact, in seconds from the start of the run.
    pub start_s: f64,
    /// End of the contact, in seconds from the start of the run.
    pub end_s: f64,
    /// Rate in bit/s; absent when unlimited.
    pub rate_bit_s: Option<f64>,
    /// One-way delay at the start of the contact, in seconds.
    #[serde(default)]
    pub delay_s: Option<f64>,
}

impl Topology {
    /// Reads the JSON written by `farlink_scenario::Scenario::topology_json`.
    pub fn from_json(json: &str) -> anyhow::Result<Topology> {
        Ok(serde_json::from_str(json)?)
    }
    /// Whether contacts turn this link on and off within a run that ends at `end_s`.
    pub fn scheduled(&self, link: &LinkFacts, end_s: f64) -> bool {
        // A link whose contacts cover the whole run in both directions behaves like one without
        // contacts.
        let whole = |c: &ContactFacts| c.start_s <= 0.0 && c.end_s >= end_s;
        let covered = |from: &str| self.contacts.iter().any(|c| c.link == link.name && c.from == from && whole(c));
        let any = self.contacts.iter().any(|c| c.link == link.name);
        any && !(covered(&link.from) && covered(&link.to))
    }
    /// Computes how long each link is up until `end_s`, by the contact plan.
    pub fn up_times(&self, end_s: f64) -> UpTimes<'_> {
        let mut links: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
        for contact in &self.contacts {
            let up_s = links.entry(&contact.link).or_default().entry(&contact.from).or_default();
            *up_s += (contact.end_s.min(end_s) - contact.start_s).max(0.0);
        }
        UpTimes { end_s, links }
    }
}

/// Time each link is up, summed in one pass over the contacts.
#[derive(Clone, Debug)]
pub struct UpTimes<'a> {
    end_s: f64,
    /// Seconds by link, then by transmitting node.
    links: BTreeMap<&'a str, BTreeMap<&'a str, f64>>,
}
impl UpTimes<'_> {
    /// Seconds during which the link may transmit from this node.
    pub fn up_s(&self, link: &str, from: &str) -> f64 {
        // Without any contact a link is always up; with contacts only in the other direction this
        // one is never up.
        self.links.get(link).map_or(self.end_s, |nodes| nodes.get(from).copied().unwrap_or(0.0))
    }
}

/// Measures of how far to trust a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Validity {
    /// Verdict on the whole run; absent while it runs, and in runs of older versions.
    pub verdict: Option<Verdict>,
    /// Delay of packets beyond their departure time in the emulator; absent in simulation.
    pub emulator_lateness: Option<Lateness>,
    /// Wait of nodes for a processor, taken from the node that waited longest. Absent in simulation, and where the
    /// kernel does not count it.
    pub node_lateness: Option<Lateness>,
    /// Load of the machine during the run; absent in simulation.
    pub pressure: Option<MachineLoad>,
    /// Source of the CPU and memory figures.
    pub accounting: Accounting,
    /// Disturbances that make the run less trustworthy, one sentence each; empty for an undisturbed run.
    pub disturbances: Vec<String>,
    /// What the scenario asks to be measured and leaves no time or quiet for, one sentence each. Running it again does
    /// not help, so these are no disturbances.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmeasured: Vec<String>,
    /// Other remarks, one sentence each.
    pub notes: Vec<String>,
}

/// Verdict on a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing disturbed the run.
    Clean,
    /// At least one of [`Validity::disturbances`] occurred.
    Disturbed,
}

impl Verdict {
    /// Word in the manifest.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Clean => "clean",
            Verdict::Disturbed => "disturbed",
        }
    }
}

impl Validity {
    /// Disturbed if there is any disturbance.
    pub fn judge(&self) -> Verdict {
        if self.disturbances.is_empty() { Verdict::Clean } else { Verdict::Disturbed }
    }
}

/// Distribution of delays between the time an action was due and the time it happened.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Number of packets, or of scheduler turns of a node.
    pub count: u64,
    /// Median delay in µs.
    pub p50_us: f64,
    /// 99th percentile of the delay in µs.
    pub p99_us: f64,
    /// Largest delay in µs.
    pub max_us: f64,
    /// Whether the threads ran with real-time priority.
    pub real_time: bool,
}

/// Load on the machine during the run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MachineLoad {
    /// Fraction of time in which some task waited for a CPU (PSI `cpu some`), 0 to 1.
    pub cpu_waiting: Option<f64>,
    /// Fraction of time in which some task waited for memory (PSI `memory some`), 0 to 1.
    pub memory_waiting: Option<f64>,
    /// Fraction of time in which some task waited for disks (PSI `io some`), 0 to 1.
    pub io_waiting: Option<f64>,
    /// Fraction of CPU time taken by other virtual machines, 0 to 1.
    pub steal: Option<f64>,
}

/// Source of the CPU and memory figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accounting {
    /// Neither CPU nor memory was measured.
    #[default]
    None,
    /// Control groups, one per node; exact.
    Cgroup,
    /// `/proc` over the process tree; short-lived processes are missed.
    Proc,
}

/// One file transfer, with checksums before and after.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileCheck {
    /// Name of the traffic flow.
    pub traffic: String,
    /// Size of the file as sent, in bytes.
    pub sent_bytes: u64,
    /// Number of bytes received.
    pub received_bytes: u64,
    /// Checksum of the file sent, with its algorithm: `sha256:...`. Absent in simulation, where payloads have only
    /// lengths.
    pub sent_checksum: Option<String>,
    /// Checksum of the file received.
    pub received_checksum: Option<String>,
    /// Arrival of the last byte, in seconds from the start of the run; absent if the file is incomplete.
    pub complete_s: Option<f64>,
}
impl FileCheck {
    /// Whether the file arrived with its size and checksum; `None` if the sizes are equal and a checksum is missing.
    pub fn equal(&self) -> Option<bool> {
        // Different lengths settle the comparison without checksums.
        if self.sent_bytes != self.received_bytes {
            return Some(false);
        }
        Some(self.sent_checksum.as_ref()? == self.received_checksum.as_ref()?)
    }
}

impl Manifest {
    /// Creates the manifest of a run; the world fills in seed, times, topology and the other facts.
    pub fn new(world: RunWorld, scenario: &str, text: &str, plan: Option<&str>) -> Manifest {
        Manifest {
            schema: SCHEMA_VERSION,
            scenario: scenario.to_string(),
            description: String::new(),
            scenario_text: text.to_string(),
            plan_text: plan.map(str::to_string),
            // Scenario and plan are hashed together, because a changed plan changes the run.
            scenario_hash: format!("{:016x}", hash(text.bytes().chain(plan.unwrap_or("").bytes()))),
            world,
            fidelity: None,
            seed: 0,
            duration_limit_s: 0.0,
            start_utc: String::new(),
            duration_s: 0.0,
            wall_s: 0.0,
            finished: false,
            versions: BTreeMap::from([("farlink".to_string(), env!("CARGO_PKG_VERSION").to_string())]),
            host: Host::default(),
            topology: Topology::default(),
            validity: Validity::default(),
            phases: Vec::new(),
            roles: Vec::new(),
            files: Vec::new(),
            flows: Vec::new(),
            custody: None,
            given_up: BTreeMap::new(),
            expect: Expected::default(),
            command: String::new(),
        }
    }
    /// Title of the run, such as `Simulation of iss, seed 42`.
    pub fn title(&self) -> String {
        let whole = if self.finished { "" } else { ", interrupted" };
        format!("{} of {}, seed {}{whole}", self.world_title(), self.scenario, self.seed)
    }
    /// Label of the world, with the fidelity where it is not full.
    pub fn world_title(&self) -> String {
        match self.fidelity.as_deref() {
            None | Some("full") => self.world.title().to_string(),
            Some(part) => format!("{} ({part})", self.world.title()),
        }
    }
    /// Extent of an interrupted run, such as `interrupted after 12 s of 75 s`; `None` for a finished one.
    pub fn interruption(&self) -> Option<String> {
        let seconds = |s: f64| Quantity::Seconds.text(s);
        match (self.finished, self.duration_s) {
            // A killed process leaves the first manifest, in which the duration is still 0.
            (true, _) => None,
            (false, 0.0) => Some("interrupted before its tables were written".to_string()),
            (false, end) => Some(format!("interrupted after {} of {}", seconds(end), seconds(self.duration_limit_s))),
        }
    }
}

/// FNV-1a, 64 bits: distinguishes scenarios, but resists no attacker.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv_1a() {
        // Test vectors of the FNV reference: the offset basis, and "foobar".
        assert_eq!(hash([].into_iter()), 0xcbf29ce484222325);
        assert_eq!(hash("foobar".bytes()), 0x85944171f73967e8);
    }

    #[test]
    fn file_equality_needs_both_checksums() {
        let check = |received: Option<&str>, bytes| FileCheck {
            traffic: "t".into(),
            sent_bytes: 5,
            received_bytes: bytes,
            sent_checksum: Some("sha256:00".into()),
            received_checksum: received.map(str::to_string),
            complete_s: None,
        };
        assert_eq!(check(Some("sha256:00"), 5).equal(), Some(true));
        assert_eq!(check(Some("sha256:01"), 5).equal(), Some(false));
        assert_eq!(check(None, 5).equal(), None);
        assert_eq!(check(None, 4).equal(), Some(false));
    }

    #[test]
    fn up_time_ends_with_run() {
        let contact = |start_s, end_s| ContactFacts {
            link: "l".into(),
            from: "a".into(),
            to: "b".into(),
            start_s,
            end_s,
            rate_bit_s: None,
            delay_s: None,
        };
        let topology = Topology { contacts: vec![contact(1.0, 3.0), contact(5.0, 9.0)], ..Topology::default() };
        let times = topology.up_times(6.0);
        assert_eq!(times.up_s("l", "a"), 3.0);
        assert_eq!(times.up_s("l", "b"), 0.0, "the other direction is never up");
        assert_eq!(times.up_s("m", "a"), 6.0, "no contact names it");
    }

    #[test]
    fn manifest_reads_back_with_defaults() {
        let manifest = Manifest::new(RunWorld::Lab, "x", "name = \"x\"", None);
        let text = serde_json::to_string(&manifest).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
        let mut value = serde_json::to_value(&manifest).unwrap();
        value.as_object_mut().unwrap().remove("files");
        assert_eq!(serde_json::from_value::<Manifest>(value).unwrap(), manifest);
    }
}
