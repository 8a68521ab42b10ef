//! `manifest.json`: what was run, where, with which versions, and how far to trust it.

use crate::custody::CustodyUse;
use crate::format::Quantity;
use farlink_base::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the schema of run directories; raised when a reader of the old one would be wrong.
pub const SCHEMA_VERSION: u32 = 1;

/// Facts about one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the schema of the directory.
    pub schema: u32,
    /// Name of the scenario.
    pub scenario: String,
    /// What the scenario shows.
    #[serde(default)]
    pub description: String,
    /// Its text.
    pub scenario_text: String,
    /// Text of its contact plan file, where it has one.
    #[serde(default)]
    pub plan_text: Option<String>,
    /// FNV-1a of both texts, 64 bits as hex: equal for runs of the same scenario.
    pub scenario_hash: String,
    /// Where it ran.
    pub world: World,
    /// How much of a node a simulation played: full, message.
    #[serde(default)]
    pub fidelity: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// The run ends then at the latest, as the scenario says.
    pub duration_limit_s: f64,
    /// Wall time at the start of the run, such as `2026-11-20T09:00:00.000Z`; simulated in `sim`.
    pub start_utc: String,
    /// Length of the run, in its own time.
    #[serde(default)]
    pub duration_s: f64,
    /// Real time it took, set-up included.
    #[serde(default)]
    pub wall_s: f64,
    /// Whether it ended as meant: false while it runs, and when it was broken off.
    #[serde(default)]
    pub finished: bool,
    /// Versions of what took part, by name: farlink, and implementations under test.
    pub versions: BTreeMap<String, String>,
    /// The machine.
    pub host: Host,
    /// Nodes, links and contacts, for reports.
    pub topology: Topology,
    /// How far to trust it.
    #[serde(default)]
    pub validity: Validity,
    /// Files sent, and whether they arrived as they were.
    #[serde(default)]
    pub files: Vec<FileCheck>,
    /// What became of custody; absent where there was none.
    #[serde(default)]
    pub custody: Option<CustodyUse>,
    /// Copies of bundles that nodes gave up undelivered, by the reason they said.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub given_up: BTreeMap<String, u64>,
    /// What the scenario's author expected.
    #[serde(default)]
    pub expect: Expected,
    /// The command that repeats the run.
    #[serde(default)]
    pub command: String,
}

/// Where a run took place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// The simulator.
    Sim,
    /// The testbed on one machine.
    Lab,
    /// Machines over SSH.
    Hosts,
}
impl World {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Lab => "lab",
            World::Hosts => "hosts",
        }
    }
    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            World::Sim => "Simulation",
            World::Lab => "Testbed",
            World::Hosts => "Hosts",
        }
    }
}

/// The machine a run used.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Host {
    /// Operating system and kernel.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors it may use.
    pub cpus: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

/// What the scenario's author expected.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Expected {
    /// Delivered over created, at least.
    pub delivery_ratio: Option<f64>,
    /// All delivered by then.
    pub finished_within_s: Option<f64>,
    /// Real time in the testbed at most.
    pub wall_time_lab_s: Option<f64>,
}

/// Nodes, links and contacts of the scenario. `farlink_scenario` writes the same JSON.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Topology {
    /// Nodes.
    pub nodes: Vec<NodeFacts>,
    /// Links.
    pub links: Vec<LinkFacts>,
    /// Contacts, in order of start; links without any are always up.
    pub contacts: Vec<ContactFacts>,
    /// Who sends to whom, in the order of the scenario.
    #[serde(default)]
    pub traffic: Vec<TrafficFacts>,
}

/// One traffic of the scenario, and what tells its bundles from others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrafficFacts {
    /// Name.
    pub name: String,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Destination service number, or a hash of its demux.
    pub service: u64,
    /// Service number the sender has where it can choose one, or a hash of its demux.
    pub sender_service: u64,
    /// Of bundles drawn among groups: each is sent from a service of its own, `sender_service` and so many
    /// in all. The names of both ends are those of groups then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders: Option<u64>,
}

/// One node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Name.
    pub name: String,
    /// Node ID.
    pub id: String,
    /// Short form of the ID: [`NodeId`] as a number.
    pub number: u64,
    /// memory or durable.
    #[serde(default)]
    pub store: String,
    /// Most bytes it may keep.
    #[serde(default)]
    pub store_capacity_bytes: u64,
    /// Router.
    #[serde(default)]
    pub router: String,
    /// Where it is drawn, 0 to 1 from left and top.
    #[serde(default)]
    pub position: Option<(f64, f64)>,
}
impl NodeFacts {
    /// Its short form.
    pub fn node_id(&self) -> NodeId {
        NodeId(self.number)
    }
}

/// One link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LinkFacts {
    /// Name.
    pub name: String,
    /// First node; `forward` goes from it.
    pub from: String,
    /// Second node.
    pub to: String,
    /// Convergence layer: ltp, tcpclv4.
    pub layer: String,
    /// From the first node to the second.
    pub forward: DirectionFacts,
    /// From the second node to the first.
    pub reverse: DirectionFacts,
}

/// One direction of a link.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DirectionFacts {
    /// Rate in bit/s; absent when not limited.
    pub rate_bit_s: Option<f64>,
    /// One-way delay at the start.
    pub delay_s: f64,
    /// Mean share of packets lost.
    pub loss: f64,
    /// Other impairments, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A time in which one direction of a link is up.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ContactFacts {
    /// Link.
    pub link: String,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// First moment, from the start of the run.
    pub start_s: f64,
    /// Last moment.
    pub end_s: f64,
    /// Rate in bit/s.
    pub rate_bit_s: Option<f64>,
    /// One-way delay at the start.
    #[serde(default)]
    pub delay_s: Option<f64>,
}

impl Topology {
    /// Reads what `farlink_scenario::Scenario::topology_json` wrote.
    pub fn from_json(json: &str) -> anyhow::Result<Topology> {
        Ok(serde_json::from_str(json)?)
    }
    /// Whether contacts turn this link on and off within a run that ends then. A link without
    /// contacts, or with ones that last the whole run both ways, does not notice the plan.
    pub fn scheduled(&self, link: &LinkFacts, end_s: f64) -> bool {
        let whole = |c: &ContactFacts| c.start_s <= 0.0 && c.end_s >= end_s;
        let covered = |from: &str| self.contacts.iter().any(|c| c.link == link.name && c.from == from && whole(c));
        let any = self.contacts.iter().any(|c| c.link == link.name);
        any && !(covered(&link.from) && covered(&link.to))
    }
    /// How long each link is up until `end_s`, by the contact plan.
    pub fn up_times(&self, end_s: f64) -> UpTimes<'_> {
        let mut links: BTreeMap<&str, BTreeMap<&str, f64>> = BTreeMap::new();
        for contact in &self.contacts {
            let up_s = links.entry(&contact.link).or_default().entry(&contact.from).or_default();
            *up_s += (contact.end_s.min(end_s) - contact.start_s).max(0.0);
        }
        UpTimes { end_s, links }
    }
}

/// How long each link is up: all of them are added up in one walk over the contacts.
#[derive(Clone, Debug)]
pub struct UpTimes<'a> {
    end_s: f64,
    /// By link, then by the node that transmits.
    links: BTreeMap<&'a str, BTreeMap<&'a str, f64>>,
}
impl UpTimes<'_> {
    /// Seconds in which the link may transmit from this node.
    pub fn up_s(&self, link: &str, from: &str) -> f64 {
        // A link without any contact is always up.
        self.links.get(link).map_or(self.end_s, |nodes| nodes.get(from).copied().unwrap_or(0.0))
    }
}

/// How far to trust a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Validity {
    /// How late packets left the emulator; absent in simulation.
    pub emulator_lateness: Option<Lateness>,
    /// How long the nodes waited for a processor before they could act: those of the node that waited
    /// longest; absent in simulation and where the kernel does not count it.
    pub node_lateness: Option<Lateness>,
    /// What else the machine was busy with; absent in simulation.
    pub pressure: Option<Pressure>,
    /// Where CPU and memory numbers come from.
    pub accounting: Accounting,
    /// Anything that makes the run less trustworthy, each a sentence. A run with any is disturbed.
    pub disturbances: Vec<String>,
    /// Anything else worth knowing, each a sentence.
    pub notes: Vec<String>,
}

/// How late somebody acted, compared with when it was due.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Lateness {
    /// Packets, or turns of a node, counted.
    pub count: u64,
    /// Half were later than this.
    pub p50_us: f64,
    /// One in a hundred was later than this.
    pub p99_us: f64,
    /// The latest.
    pub max_us: f64,
    /// Whether they ran with real-time priority.
    pub real_time: bool,
}

/// Load on the machine during the run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Pressure {
    /// Share of time in which some task waited for a CPU (PSI `cpu some`), 0 to 1.
    pub cpu_waiting: Option<f64>,
    /// Share of time in which some task waited for memory (PSI `memory some`), 0 to 1.
    pub memory_waiting: Option<f64>,
    /// Share of time in which some task waited for disks (PSI `io some`), 0 to 1.
    pub io_waiting: Option<f64>,
    /// Share of CPU time taken by other virtual machines, 0 to 1.
    pub steal: Option<f64>,
}

/// Where CPU and memory numbers come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accounting {
    /// Nothing was measured.
    #[default]
    None,
    /// A control group for each node: exact.
    Cgroup,
    /// `/proc` over the process tree: short-lived processes are missed.
    Proc,
}

/// One file sent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileCheck {
    /// Name of the traffic.
    pub traffic: String,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Checksum as sent, with its kind: `sha256:...`. Absent in simulation, where payloads have only lengths.
    pub sent_checksum: Option<String>,
    /// Checksum as received.
    pub received_checksum: Option<String>,
    /// When the last byte was there, from the start of the run.
    pub complete_s: Option<f64>,
}
impl FileCheck {
    /// Whether the file arrived as it was; `None` where contents were not compared.
    pub fn equal(&self) -> Option<bool> {
        if self.sent_bytes != self.received_bytes {
            return Some(false);
        }
        Some(self.sent_checksum.as_ref()? == self.received_checksum.as_ref()?)
    }
}

impl Manifest {
    /// A manifest of a run that begins now; the world fills in what it knows.
    pub fn new(world: World, scenario: &str, text: &str, plan: Option<&str>) -> Manifest {
        Manifest {
            schema: SCHEMA_VERSION,
            scenario: scenario.to_string(),
            description: String::new(),
            scenario_text: text.to_string(),
            plan_text: plan.map(str::to_string),
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
            files: Vec::new(),
            custody: None,
            given_up: BTreeMap::new(),
            expect: Expected::default(),
            command: String::new(),
        }
    }
    /// `Simulation of iss, seed 42`.
    pub fn title(&self) -> String {
        let whole = if self.finished { "" } else { ", interrupted" };
        format!("{} of {}, seed {}{whole}", self.world_title(), self.scenario, self.seed)
    }
    /// Where it ran, as people call it, and with how much of a node where that is not all.
    pub fn world_title(&self) -> String {
        match self.fidelity.as_deref() {
            None | Some("full") => self.world.title().to_string(),
            Some(part) => format!("{} ({part})", self.world.title()),
        }
    }
    /// How far an interrupted run came: `interrupted after 12 s of 75 s`; `None` of a whole run.
    pub fn interruption(&self) -> Option<String> {
        let seconds = |s: f64| Quantity::Seconds.text(s);
        match (self.finished, self.duration_s) {
            (true, _) => None,
            (false, 0.0) => Some("interrupted before its tables were written".to_string()),
            (false, end) => Some(format!("interrupted after {} of {}", seconds(end), seconds(self.duration_limit_s))),
        }
    }
}

/// FNV-1a, 64 bits: tells scenarios apart; no defence against anybody.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv_1a() {
        assert_eq!(hash([].into_iter()), 0xcbf29ce484222325);
        assert_eq!(hash("foobar".bytes()), 0x85944171f73967e8);
    }

    #[test]
    fn a_file_is_equal_only_when_both_checksums_are_there_and_the_same() {
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
    fn up_time_stops_at_the_end_of_the_run() {
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
    fn a_manifest_reads_back_and_older_ones_lack_only_what_has_a_default() {
        let manifest = Manifest::new(World::Lab, "x", "name = \"x\"", None);
        let text = serde_json::to_string(&manifest).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&text).unwrap(), manifest);
        let mut value = serde_json::to_value(&manifest).unwrap();
        value.as_object_mut().unwrap().remove("files");
        assert_eq!(serde_json::from_value::<Manifest>(value).unwrap(), manifest);
    }
}
