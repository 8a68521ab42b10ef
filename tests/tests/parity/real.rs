//! The real side: a `farlink node` process for each node, with sockets on this machine's loopback network, and
//! applications that follow the scenario's traffic.

use crate::node_support::{Node, port};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::client::Client;
use farlink_base::{DtnTime, Priority};
use farlink_lab::driver::{Driver, NodeContext};
use farlink_lab::drivers::farlink::{CONFIGURATION, CONTROL, EVENTS, Farlink, SOCKET};
use farlink_scenario::{Pace, Scenario, Traffic, TrafficKind};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Service from which the first traffic entry is sent, as in the simulator; each further entry uses the next number.
const FIRST_SERVICE: usize = 10_000;
/// Greatest number of deliveries that a receiver may leave unanswered, as in the simulator.
const WINDOW: u32 = 64;

/// Result of a run of real nodes.
pub struct Real {
    /// Event lines of each node.
    pub lines: Vec<Vec<String>>,
    /// Longest time for which this process did not run, or by which an application was late.
    pub stall: Duration,
}

/// Epoch of a run that starts `lead` from now.
pub fn epoch_after(lead: Duration) -> DtnTime {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock after 1970");
    DtnTime::from_unix_ms((now + lead).as_millis() as u64)
}

/// Runs a scenario whose epoch is soon.
pub fn run(scenario: &Scenario) -> Real {
    let epoch = scenario.epoch.expect("an epoch");
    let start = instant_of(epoch);
    let folder = tempfile::tempdir().expect("a folder");
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| longest_stall(&stopped));
        let late = serve(scenario, epoch, start, folder.path());
        stopped.store(true, Relaxed);
        let stall = watch.join().expect("the watch ends").max(late);
        let lines = |index: usize| read_lines(&folder.path().join(&scenario.nodes[index].name).join(EVENTS));
        Real { lines: (0..scenario.nodes.len()).map(lines).collect(), stall }
    })
}

/// Starts nodes, sends, waits for the end and stops the nodes; returns the greatest lateness.
fn serve(scenario: &Scenario, epoch: DtnTime, start: Instant, folder: &Path) -> Duration {
    let machine = Machine::new();
    let files = machine.prepare(scenario, epoch, folder);
    let nodes: Vec<Node> = std::thread::scope(|scope| {
        let start = |file: &PathBuf| {
            let file = file.clone();
            scope.spawn(move || Node::start(&file, file.with_file_name(SOCKET)))
        };
        let starting: Vec<_> = files.iter().map(start).collect();
        starting.into_iter().map(|node| node.join().expect("the node starts")).collect()
    });
    let senders: Vec<Client> = applications(scenario, &nodes);
    let mut late = Instant::now().saturating_duration_since(start);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| machine.change_links(scenario, epoch, start, folder));
        late = late.max(send(scenario, start, senders));
        late = late.max(changes.join().expect("links change"));
    });
    // Events at the very end must reach the files.
    sleep_until(start + scenario.duration + Duration::from_millis(50));
    std::thread::scope(|scope| {
        for node in nodes {
            scope.spawn(move || assert_eq!(node.terminate(), Some(0)));
        }
    });
    late
}

/// Loopback addresses and ports used by one run only.
struct Machine {
    network: u32,
    /// For each layer, its assigned port and the port used instead.
    ports: Vec<(u16, u16)>,
}
impl Machine {
    fn new() -> Machine {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        // Runs of this process and of others go on at the same time: each has a loopback network of its own.
        let network = (std::process::id() << 4 | RUNS.fetch_add(1, Relaxed) & 15) & 0xffff;
        let ports = farlink_scenario::LAYERS.iter().map(|layer| (layer.port, port())).collect();
        Machine { network, ports }
    }
    fn host(&self, index: usize) -> Ipv4Addr {
        let network = u32::from(Ipv4Addr::new(127, 0, 0, 0)) | (0x10_0000 + (self.network << 4));
        Ipv4Addr::from(network | (index as u32 + 1))
    }
    /// Text of a node file written by the testbed's driver, with the sockets moved to this machine's addresses and
    /// ports.
    fn moved(&self, scenario: &Scenario, index: usize, file: &Path) -> String {
        let mut text = std::fs::read_to_string(file).expect("the driver's file");
        // The driver gives each host the same ports, in namespaces of their own; here all share one machine.
        for (usual, port) in &self.ports {
            text = text.replace(&format!("\"0.0.0.0:{usual}\""), &format!("\"{}:{port}\"", self.host(index)));
            for end in scenario.ends_of(index) {
                let here = format!("\"{}:{port}\"", self.host(end.peer));
                text = text.replace(&format!("\"{}:{usual}\"", end.peer_address), &here);
            }
        }
        text
    }
    /// Writes each node's files with the testbed's driver.
    fn prepare(&self, scenario: &Scenario, epoch: DtnTime, folder: &Path) -> Vec<PathBuf> {
        let write = |index: usize| {
            let place = folder.join(&scenario.nodes[index].name);
            std::fs::create_dir(&place).expect("a folder for the node");
            let context =
                NodeContext { scenario, index, folder: &place, epoch, program: Path::new("farlink"), real_time: true };
            Farlink::default().prepare(&context).expect("the node's files are written");
            let file = place.join(CONFIGURATION);
            std::fs::write(&file, self.moved(scenario, index, &file)).expect("the configuration");
            file
        };
        (0..scenario.nodes.len()).map(write).collect()
    }
    /// Adds and removes links of nodes at their times; returns the greatest lateness.
    fn change_links(&self, scenario: &Scenario, epoch: DtnTime, start: Instant, folder: &Path) -> Duration {
        let mut late = Duration::ZERO;
        for change in scenario.link_changes() {
            sleep_until(start + change.at);
            for index in scenario.links[change.link].between {
                let place = folder.join(&scenario.nodes[index].name);
                let context = NodeContext {
                    scenario,
                    index,
                    folder: &place,
                    epoch,
                    program: Path::new("farlink"),
                    real_time: true,
                };
                let mut command = Farlink::default().change_link(&context, change).expect("a command").command;
                if change.appears {
                    let given = command.iter_mut().find(|word| word.ends_with(".toml")).expect("a file with the link");
                    let file = place.join(&*given);
                    std::fs::write(&file, self.moved(scenario, index, &file)).expect("the link");
                    *given = file.display().to_string();
                }
                let control = place.join(CONTROL).display().to_string();
                let words: Vec<String> = command[1..].iter().map(|word| word.replace(CONTROL, &control)).collect();
                let ran = crate::node_support::run(&words.iter().map(String::as_str).collect::<Vec<_>>());
                assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            }
            late = late.max(Instant::now().saturating_duration_since(start + change.at));
        }
        late
    }
}

/// Attaches receivers, which answer from threads of their own until their node ends, and senders.
fn applications(scenario: &Scenario, nodes: &[Node]) -> Vec<Client> {
    let attach = |(index, entry): (usize, &Traffic)| {
        let mut receiver = nodes[entry.to].client(&entry.service.to_string(), WINDOW);
        // Receivers wait as long as their node runs.
        receiver.set_read_timeout(None).expect("no timeout");
        std::thread::spawn(move || while receiver.delivery().is_ok() && receiver.taken(true).is_ok() {});
        nodes[entry.from].client(&(FIRST_SERVICE + index).to_string(), 0)
    };
    scenario.traffic.iter().enumerate().map(attach).collect()
}

/// Sends every bundle when it is due; returns the greatest lateness of an acceptance.
fn send(scenario: &Scenario, start: Instant, mut senders: Vec<Client>) -> Duration {
    let mut due: Vec<(Duration, usize, u64)> = Vec::new();
    for (index, entry) in scenario.traffic.iter().enumerate() {
        let TrafficKind::Bundles { count, size, pace } = &entry.kind else {
            panic!("{}: parity scenarios send `bundles`", entry.name)
        };
        assert_eq!(size.min, size.max, "{}: parity scenarios fix sizes", entry.name);
        let interval = match pace {
            Pace::Flat => Duration::ZERO,
            Pace::Interval(interval) => *interval,
            Pace::Rate(_) => panic!("{}: parity scenarios give an `interval`", entry.name),
        };
        due.extend((0..*count).map(|n| (entry.start + interval * n as u32, index, size.min.bytes())));
    }
    due.sort();
    let mut late = Duration::ZERO;
    for (at, index, size) in due {
        let entry = &scenario.traffic[index];
        let service = entry.service;
        let node = &scenario.nodes[entry.to].number.0;
        let adu = BundleAdu {
            dst_eid: format!("ipn:{node}.{service}"),
            lifetime_ms: entry.lifetime.as_millis() as u64,
            priority: match entry.priority {
                Priority::Bulk => 1,
                Priority::Normal => 2,
                Priority::Expedited => 3,
            },
            ..Default::default()
        };
        sleep_until(start + at);
        senders[index].send(adu, &vec![index as u8; size as usize]).expect("the node takes requests");
        let answer = senders[index].response().expect("the node answers");
        assert_eq!(answer.response_status(), AapStatus::Success, "{}", entry.name);
        late = late.max(Instant::now().saturating_duration_since(start + at));
    }
    late
}

fn instant_of(epoch: DtnTime) -> Instant {
    let wall = std::time::UNIX_EPOCH + Duration::from_millis(epoch.as_unix_ms());
    Instant::now() + wall.duration_since(std::time::SystemTime::now()).expect("the epoch is ahead")
}
fn sleep_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// Longest time by which a sleep exceeded its request.
fn longest_stall(stopped: &AtomicBool) -> Duration {
    const NAP: Duration = Duration::from_millis(5);
    let mut longest = Duration::ZERO;
    while !stopped.load(Relaxed) {
        let began = Instant::now();
        std::thread::sleep(NAP);
        longest = longest.max(began.elapsed().saturating_sub(NAP));
    }
    longest
}

fn read_lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    text.lines().map(str::to_string).collect()
}
