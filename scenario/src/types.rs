//! A checked scenario as plain data. Every quantity has its unit in its type or its name.

pub use crate::flow::Flow;
use crate::host::{HostSpec, Phase};
use crate::implementation::Implementation;
use crate::motion::{Group, GroupTraffic, Mobility, Radio};
pub use crate::shared::{ConnectSide, Layer, Settings, SizeRange};
use farlink_base::node::Given;
use farlink_base::security::Rule;
use farlink_base::{
    DataRate, DataVolume, DtnTime, Duration, Facts, LinkTerms, NodeId, Priority, TunnelTerms, apply_settings,
};
use farlink_cla::registry::LayerInfo;
use farlink_cla::tcpcl_v4::{self, Tls};
use farlink_config::custody::CustodyRules;
use farlink_config::machine::MachineKey;
use farlink_config::quota::Quota;
use farlink_config::reports::ReportRules;
use farlink_link::DirectionSpec;
use farlink_link::stream::Congestion;
use std::path::PathBuf;

/// One scenario, checked: every name in it refers to something, every index is in range.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Short name: letters, digits and `-`; run directories are named after it.
    pub name: String,
    /// Purpose of the scenario, for people.
    pub description: String,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Latest end of the run, from its start.
    pub duration: Duration,
    /// Whether the run ends as soon as all traffic was sent and delivered.
    pub stop_when_delivered: bool,
    /// Whether nodes that route by the plan adopt each other's routes; simulations only.
    pub shared_routes: bool,
    /// Level of detail of a simulation.
    pub fidelity: Fidelity,
    /// Wall time at the start of the run; `None`: chosen by the world at the start.
    pub epoch: Option<DtnTime>,
    /// Nodes in the order of the file.
    pub nodes: Vec<Node>,
    /// Links in the order of the file; their index determines their addresses.
    pub links: Vec<Link>,
    /// Contacts, inline ones and those of the plan file, in order of time. A link without any is up as long as it
    /// exists.
    pub contacts: Vec<Contact>,
    /// Flows of bundles between nodes; those drawn among groups come last, see [`Scenario::set_seed`].
    pub traffic: Vec<Traffic>,
    /// Plain TCP and UDP flows between hosts.
    pub flows: Vec<Flow>,
    /// Files of streets, positions, recorded contacts and forecasts that were read, as the scenario names them.
    pub files: Vec<std::path::PathBuf>,
    /// Traffic among groups, from which bundles are drawn.
    pub group_traffic: Vec<GroupTraffic>,
    /// Groups of like nodes, in the order of the file.
    pub groups: Vec<Group>,
    /// Movement models and the nodes that follow them.
    pub mobilities: Vec<Mobility>,
    /// Radios, which give links to nodes in contact.
    pub radios: Vec<Radio>,
    /// Faults injected in the run.
    pub faults: Vec<Fault>,
    /// Named spans of the run, in order of time.
    pub phases: Vec<Phase>,
    /// Tables that a run records, and how often it samples.
    pub measure: Measure,
    /// Results that the author expects of a run.
    pub expect: Expect,
    /// Text of the file, for manifests.
    pub text: String,
    /// Path and text of the contact plan file; `None` if the scenario names none.
    pub plan_file: Option<(PathBuf, String)>,
    /// Contacts in the nodes' contact plan that no link of the scenario follows.
    pub forecast: Vec<farlink_routing::Contact>,
    /// Folder of the scenario file, to which paths in it are relative.
    pub folder: PathBuf,
}

/// Level of detail of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fidelity {
    /// Whole bundles over links of a rate and a delay, without convergence layers.
    Message,
    /// Everything a node does, to the packet.
    Full,
}

/// A node of the scenario, with everything that the file gives for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Name in the scenario file, in host names and in reports.
    pub name: String,
    /// Node IDs as endpoint ID text, e.g. `ipn:1.0`; the first is its own, the others are aliases.
    pub ids: Vec<String>,
    /// The first ID in short form: the node number of an ipn ID; dtn nodes are numbered in the
    /// order of the file from [`NodeId::INTERNED`].
    pub number: NodeId,
    /// Kind of the bundle store.
    pub store: StoreKind,
    /// Router and its parameters.
    pub router: Policy,
    /// Congestion control and its parameters.
    pub control: Policy,
    /// Static routes, tried if the router has no route.
    pub routes: Vec<Route>,
    /// Custody transfer: not supported, accepted, or also requested for own bundles.
    pub custody: Custody,
    /// Tunnels that begin or end here.
    pub tunnels: Vec<Tunnel>,
    /// Rules of custody: bundles of which custody is accepted, and the signals that answer.
    pub custody_rules: CustodyRules,
    /// Destination patterns for which bundles created here request custody; empty unless `custody` is `Ask`.
    pub custody_request: Vec<String>,
    /// Plain settings that the scenario gives, by paths such as `store.capacity`; see [`Node::settings`].
    pub given: Given,
    /// Compressed reporting (CCSDS 734.6-O-1); `None` without it.
    pub compressed_reports: Option<ReportRules>,
    /// Quotas of sources and neighbours in the node's store.
    pub quotas: Vec<Quota>,
    /// Lifetime of bundles created here whose traffic entry names none.
    pub lifetime: Duration,
    /// Priority of bundles created here whose traffic entry names none.
    pub priority: Priority,
    /// Implementation that the testbed runs.
    pub implementation: Implementation,
    /// Host of the node in the testbed.
    pub host: HostSpec,
    /// TCP settings of the node's host.
    pub tcp: Tcp,
    /// Parameters of convergence layers at this node, by the layer's name.
    pub layers: Vec<(&'static str, Settings)>,
    /// Keys about the node's machine that the scenario gives; simulations ignore them.
    pub machine: Vec<MachineKey>,
    /// BPSec rules, in the order in which they are tried.
    pub security: Vec<Rule>,
    /// Position in the drawn topology, 0 to 1 from left and top; `None`: laid out automatically.
    pub position: Option<(f64, f64)>,
}

/// TCP settings of a node's host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tcp {
    /// Congestion control, which limits the data in flight beside the receiver's window.
    pub congestion: Congestion,
    /// Most bytes written and not yet acknowledged.
    pub send_buffer: DataVolume,
    /// Most bytes received and not yet read.
    pub receive_buffer: DataVolume,
    /// Whether the testbed's hosts use selective acknowledgments.
    pub sack: bool,
    /// Whether the testbed's hosts scale windows beyond 64 kB.
    pub window_scaling: bool,
    /// Frames that the testbed's machine must be able to queue for a processor; `None`: not checked.
    pub rx_queue: Option<u32>,
}

/// Congestion controls of TCP with their names in Linux, in the order of the values of the scenario's key `congestion`.
pub const TCP_CONTROLS: [(Congestion, &str); 3] =
    [(Congestion::NewReno, "reno"), (Congestion::Cubic, "cubic"), (Congestion::Hybla, "hybla")];

impl Tcp {
    /// Name of the congestion control in Linux.
    pub fn control_in_linux(&self) -> &'static str {
        let known = TCP_CONTROLS.iter().find(|(congestion, _)| *congestion == self.congestion);
        known.map_or("reno", |(_, name)| name)
    }
}

impl Node {
    /// Parameters that the scenario gives for a layer at this node.
    pub fn layer_settings(&self, layer: &LayerInfo) -> &[(&'static str, u64)] {
        self.layers.iter().find(|(name, _)| *name == layer.name).map_or(&[], |(_, settings)| settings)
    }
    /// Use of TLS in sessions of this layer at this node: forbidden, possible or required.
    pub fn tls(&self, layer: &LayerInfo) -> Tls {
        let mut config = tcpcl_v4::Config::default();
        // Layers without TLS have no such parameter, and their default is the answer.
        if layer.knows_tls() {
            apply_settings(tcpcl_v4::PARAMS, &mut config, self.layer_settings(layer));
        }
        config.tls
    }
}

impl Scenario {
    /// Name of the key by which both ends of a link authenticate LTP segments (RFC 5327); `None` without
    /// authentication.
    pub fn link_key(&self, link: usize) -> Option<String> {
        let link = self.links.get(link)?;
        // The value of a choice is the place of its word in the layer's list.
        let words = farlink_cla::ltp::Authentication::WORDS;
        let asked = link.layer.value("authentication").and_then(|place| words.get(place as usize));
        // Of the supported cipher suites (RFC 5327) only this one has a secret key; the key of NULL is public.
        (asked == Some(&"hmac-sha1-80")).then(|| format!("link {}", link.name))
    }
    /// Key that security rules refer to by this name, made from the seed; the same in every world and at every node.
    pub fn security_key(&self, name: &str) -> [u8; 32] {
        let mut key = [0; 32];
        // Two hashes of 128 bits make a key of 256: half 0 and half 1. The prefix separates keys from every other use
        // of the seed.
        for (half, out) in key.chunks_mut(16).enumerate() {
            let parts = [&b"farlink scenario key"[..], &self.seed.to_be_bytes(), &[half as u8], name.as_bytes()];
            out.copy_from_slice(&farlink_base::hash128(&parts).to_be_bytes());
        }
        key
    }
}

/// A router or a control by name, with its parameters.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Policy {
    /// Name in the registry, e.g. `sabr`.
    pub name: String,
    /// Parameters by name, in the units the policy declares.
    pub params: Vec<(String, f64)>,
}

/// A static route, tried if the router has no route.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// Endpoint ID pattern, e.g. `ipn:4.*`.
    pub to: String,
    /// Index of the next node in [`Scenario::nodes`].
    pub via: usize,
}

/// One end of a tunnel, in which bundles travel inside other bundles.
#[derive(Clone, PartialEq, Debug)]
pub struct Tunnel {
    /// Index of the other end in [`Scenario::nodes`].
    pub end: usize,
    /// Destination patterns of the bundles that enter the tunnel here; if empty, bundles only leave it here.
    pub to: Vec<String>,
    /// Custody, lifetime and other terms of the outer bundles.
    pub terms: TunnelTerms,
}

/// Kind of a bundle store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// In memory: bundles are acknowledged at once, and lost when the node ends.
    Memory,
    /// On disk: bundles are acknowledged after the group commit.
    Durable,
}

/// Custody transfer at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Custody {
    /// Custody is neither accepted nor requested.
    #[default]
    None,
    /// The node accepts custody of bundles that request it, and sends custody signals.
    Take,
    /// As `Take`; the node also requests custody for bundles created here.
    Ask,
}

/// Most links with a capture: all captures share one memory for frames that wait to be written.
pub const CAPTURES_MAX: usize = 256;

/// One link between two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Link {
    /// Name of the link in contacts, logs and reports.
    pub name: String,
    /// Indices of its two ends in [`Scenario::nodes`]; `forward` goes from the first to the second.
    pub between: [usize; 2],
    /// Convergence layer and its parameters on this link.
    pub layer: Layer,
    /// Port both ends listen on; see [`Scenario::layers_of`].
    pub port: u16,
    /// Settings that do not depend on its layer.
    pub terms: LinkTerms,
    /// Largest IP packet that the link carries.
    pub mtu_bytes: u32,
    /// Whether the testbed hands over each packet separately, at the time when it is due.
    pub exact: bool,
    /// Name of the testbed's capture of the link, without extension; `None` without one.
    pub capture: Option<String>,
    /// Name of the bottleneck whose two transmitters, one in each direction, the link shares with others; `None`
    /// without one.
    pub shares: Option<String>,
    /// Model of the direction from the first node to the second. Its contact windows are left out;
    /// [`Scenario::link_spec`] adds them.
    pub forward: DirectionSpec,
    /// Model of the direction from the second node to the first, without contact windows.
    pub reverse: DirectionSpec,
    /// Time when its two nodes get the link; zero: they have it from the start.
    pub appears: Duration,
    /// Time when its two nodes lose the link; `None`: never.
    pub disappears: Option<Duration>,
    /// Whether real nodes discover the link by announcements.
    pub found: bool,
}
impl Link {
    /// Whether the link exists during the whole run.
    pub fn lasts(&self) -> bool {
        self.appears.is_zero() && self.disappears.is_none()
    }
}

/// Appearance or disappearance of a link at its two nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkChange {
    /// Time of the change, from the start of the run.
    pub at: Duration,
    /// Index of the link in [`Scenario::links`].
    pub link: usize,
    /// Whether the link appears.
    pub appears: bool,
}

/// An interval during which one direction of a link is up.
#[derive(Clone, PartialEq, Debug)]
pub struct Contact {
    /// Index of the link in [`Scenario::links`].
    pub link: usize,
    /// Whether the link's forward direction is up.
    pub forward: bool,
    /// Start of the contact at the sender, from the start of the run.
    pub start: Duration,
    /// End of the contact at the sender, from the start of the run.
    pub end: Duration,
    /// Rate in this contact; `None`: the link's.
    pub rate: Option<DataRate>,
    /// One-way delay in this contact; `None`: the link's.
    pub delay: Option<Duration>,
    /// Confidence that the contact plan states, 0 to 1; the link is up in any case.
    pub confidence: f64,
}

/// Service number of the sender of a scenario's first traffic entry. Each further entry has the next number, in every
/// world, so that a bundle's source identifies its traffic.
pub const SENDER_SERVICE: u32 = 10_000;

/// Bundles from one node to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Traffic {
    /// Name of the traffic in reports.
    pub name: String,
    /// Index of the sending node.
    pub from: usize,
    /// Index of the receiving node.
    pub to: usize,
    /// Service number (ipn) the receiver registers.
    pub service: u32,
    /// Kind of traffic: a file, bundles or pings.
    pub kind: TrafficKind,
    /// Start, from the start of the run.
    pub start: Duration,
    /// Lifetime of its bundles.
    pub lifetime: Duration,
    /// Class of service of its bundles.
    pub priority: Priority,
    /// Most bundles sent and not yet accepted by the sender's own node; 0 stands for 64.
    pub window: u32,
    /// Status reports requested by its bundles, to the sending node.
    pub reports: Facts,
    /// Whether bundles that the sender's node refuses are lost instead of offered again.
    pub lost: bool,
    /// Index in [`Scenario::group_traffic`] of the entry from which it was drawn; `None` for an entry of the file.
    pub drawn: Option<usize>,
}

/// Words for the status reports that bundles may request.
pub const REPORT_WORDS: &[&str] = &["reception", "forwarding", "delivery", "deletion"];
/// Facts of the words of [`REPORT_WORDS`], in the same order.
const REPORT_FACTS: [u32; 4] =
    [Facts::REPORT_RECEPTION, Facts::REPORT_FORWARDING, Facts::REPORT_DELIVERY, Facts::REPORT_DELETION];

impl Traffic {
    /// Combines the report requests whose words have these indices in [`REPORT_WORDS`].
    pub(crate) fn reports_of(words: &[usize]) -> Facts {
        Facts(words.iter().filter_map(|word| REPORT_FACTS.get(*word)).fold(0, |all, fact| all | fact))
    }
    /// Words for the reports that its bundles request.
    pub fn report_words(&self) -> Vec<&'static str> {
        let asked = REPORT_WORDS.iter().zip(REPORT_FACTS).filter(|(_, fact)| self.reports.has(*fact));
        asked.map(|(word, _)| *word).collect()
    }
}

/// Content of a traffic: a file, bundles or pings.
#[derive(Clone, PartialEq, Debug)]
pub enum TrafficKind {
    /// A file cut into bundles; its checksum is compared at the end.
    File {
        /// Path relative to the scenario's folder; `None`: content of the given size is made from the seed.
        path: Option<PathBuf>,
        /// Size of the whole file.
        size: DataVolume,
        /// Payload of each bundle (the last may be shorter).
        bundle_size: DataVolume,
        /// Pace at which bundles are created.
        pace: Pace,
    },
    /// Bundles with content from the seed.
    Bundles {
        /// Number of bundles created.
        count: u64,
        /// Payload of each bundle.
        size: SizeRange,
        /// Pace at which bundles are created.
        pace: Pace,
    },
    /// Echo requests; each request and each answer has a latency of its own.
    Ping {
        /// Number of echo requests.
        count: u64,
        /// Time from one request to the next.
        interval: Duration,
        /// Payload of each request.
        size: DataVolume,
    },
}

/// Pace of creating bundles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As fast as the window allows.
    Flat,
    /// Payload bytes at this rate.
    Rate(DataRate),
    /// One bundle at a time, at intervals of this length.
    Interval(Duration),
}

/// Recording of a run: tables and times of samples.
#[derive(Clone, PartialEq, Debug)]
pub struct Measure {
    /// Time between two samples of stores, links and processes.
    pub interval: Duration,
    /// Tables that the run writes.
    pub tables: Vec<Table>,
    /// Whether each LTP segment is recorded as an event, which makes many rows.
    pub segments: bool,
}

/// Tables of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Table {
    /// Events of each node.
    Events,
    /// One row for each bundle, end to end.
    Bundles,
    /// Gauges of nodes and links over time.
    Samples,
    /// Totals of each direction of each link.
    Links,
    /// CPU and memory of each process.
    Processes,
    /// Straight legs of the nodes' paths, where nodes have positions.
    Legs,
    /// Intervals in which two nodes were in radio contact.
    Meetings,
}

/// Results that the author expects of a run; `None`: no expectation. A run that misses them is complete, and its report
/// states the miss.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// Least ratio of delivered bundles to created ones.
    pub delivery_ratio: Option<f64>,
    /// Latest time by which everything is delivered, from the start of the run.
    pub finished_within: Option<Duration>,
    /// Longest real time of a run in the testbed, set-up included.
    pub wall_time_lab: Option<Duration>,
}

/// An injected fault, once or repeated.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// Kind of the fault and its subject.
    pub kind: FaultKind,
    /// First beginning, from the start of the run.
    pub at: Duration,
    /// Duration of each occurrence; zero for clocks and lies, which have no end.
    pub lasts: Duration,
    /// Time from one beginning to the next; `None`: it occurs once.
    pub every: Option<Duration>,
}

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FaultKind {
    /// A node is killed, and started again from the content of its disk.
    Restart {
        /// Index of the node in [`Scenario::nodes`].
        node: usize,
    },
    /// A link transmits nothing, either way.
    LinkDown {
        /// Index of the link in [`Scenario::links`].
        link: usize,
    },
    /// Two nodes cannot communicate by radio.
    Unheard {
        /// Indices of the nodes, the smaller first.
        between: [usize; 2],
    },
    /// A node's clock is set wrong.
    ClockJump {
        /// Change in nanoseconds; negative: back.
        by_ns: i64,
        /// Index of the node.
        node: usize,
    },
    /// A node's clock runs wrong from then on.
    ClockDrift {
        /// Rate error in parts per million; negative: too slow.
        ppm: f64,
        /// Index of the node.
        node: usize,
    },
    /// A Byzantine node: from then on it lies to its neighbours.
    Lie {
        /// Claim that the node makes.
        says: Lie,
        /// Index of the node.
        node: usize,
    },
}

/// False statements of a Byzantine node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// The node claims to meet every node, at once and always.
    Met,
    /// The node claims that every bundle arrived.
    Arrived,
    /// The node claims to hold every bundle.
    Has,
}

impl Fault {
    /// Times at which the fault begins, in a run of this length.
    pub fn beginnings(&self, duration: Duration) -> impl Iterator<Item = Duration> + use<> {
        let every = self.every;
        let next = move |at: &Duration| at.checked_add(every?).filter(|at| *at < duration);
        // An addition that overflows ends the series, like the end of the run.
        std::iter::successors(Some(self.at).filter(|at| *at < duration), next)
    }
}
