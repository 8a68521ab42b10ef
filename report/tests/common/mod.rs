//! A synthetic run: the space station scenario with computed times and every table filled, so that reports can be
//! tested and viewed without a simulator or a testbed.

use farlink_base::Rng;
use farlink_report::{
    Accounting, ContactFacts, DirectionFacts, EventRow, FileCheck, Host, Lateness, LinkFacts, LinkRow, MachineLoad,
    Manifest, NodeFacts, ProcessRow, RunReader, RunWorld, RunWriter, SampleRow, Topology, TrafficFacts, schema,
};
use std::path::Path;

const MBIT: f64 = 1e6;
const BUNDLE: u64 = 250_000;
// Passes of the station, as start and end in seconds.
const PASSES: [(f64, f64); 3] = [(2.0, 11.0), (16.0, 23.0), (30.0, 75.0)];
const NODES: [&str; 4] = ["payload", "onboard", "ground", "center"];

pub fn topology() -> Topology {
    let node = |(i, name): (usize, &&str)| NodeFacts {
        name: name.to_string(),
        id: format!("ipn:{}.0", i + 1),
        number: i as u64 + 1,
        store: "durable".into(),
        store_capacity_bytes: 1_000_000_000,
        router: "sabr".into(),
        position: None,
    };
    let direction = |rate: f64, delay_s: f64, loss: f64| DirectionFacts {
        rate_bit_s: Some(rate * MBIT),
        delay_s,
        loss,
        notes: Vec::new(),
    };
    let link = |name: &str, i: usize, layer: &str, forward, reverse| LinkFacts {
        name: name.into(),
        from: NODES[i].into(),
        to: NODES[i + 1].into(),
        layer: layer.into(),
        forward,
        reverse,
    };
    let lan = || direction(1000.0, 0.001, 0.0);
    let contact = |from: usize, to: usize, rate: f64, (start_s, end_s): (f64, f64)| ContactFacts {
        link: "space".into(),
        from: NODES[from].into(),
        to: NODES[to].into(),
        start_s,
        end_s,
        rate_bit_s: Some(rate * MBIT),
        delay_s: Some(0.6),
    };
    Topology {
        nodes: NODES.iter().enumerate().map(node).collect(),
        links: vec![
            link("station-lan", 0, "tcpclv4", lan(), lan()),
            link("space", 1, "ltp", direction(100.0, 0.6, 0.001), direction(3.0, 0.6, 0.0001)),
            link("ground-lan", 2, "tcpclv4", lan(), lan()),
        ],
        contacts: PASSES
            .iter()
            .flat_map(|p| [contact(1, 2, 100.0, *p), contact(2, 1, 3.0, *p)])
            // A contact plan may name a link that is always up.
            .chain([(0, 1), (1, 0)].map(|(from, to)| ContactFacts {
                link: "station-lan".into(),
                ..contact(from, to, 1000.0, (0.0, 3600.0))
            }))
            .collect(),
        traffic: [("observation", 1000), ("housekeeping", 1001)]
            .map(|(name, service)| TrafficFacts {
                name: name.into(),
                from: NODES[0].into(),
                to: NODES[3].into(),
                service,
                sender_service: 9000 + service,
                senders: None,
                offered: None,
            })
            .into(),
    }
}

/// Differences between the synthetic runs of the two worlds.
pub struct Flavour {
    pub world: RunWorld,
    pub seed: u64,
    pub bundles: u64,
    /// Largest random delay added to each step, in seconds.
    pub noise: f64,
    /// Text appended to the name of the scenario and of its first node.
    pub suffix: &'static str,
}

impl Flavour {
    pub fn new(world: RunWorld) -> Flavour {
        let noise = if world == RunWorld::Sim { 0.0 } else { 0.04 };
        Flavour { world, seed: 42, bundles: 800, noise, suffix: "" }
    }
}

/// Times of one bundle at each step, in seconds.
struct Steps {
    created: f64,
    onboard: f64,
    sent: f64,
    ground: f64,
    delivered: f64,
}

fn steps(flavour: &Flavour) -> Vec<Steps> {
    let mut rng = Rng::new(flavour.seed);
    let on_air = BUNDLE as f64 * 8.0 / (94.0 * MBIT);
    let (mut free, mut all) = (0.0f64, Vec::new());
    for i in 0..flavour.bundles {
        let mut noise = || rng.unit() * flavour.noise;
        let created = 1.0 + i as f64 * 0.02;
        let onboard = created + 0.004 + noise();
        let mut sent = free.max(onboard) + noise() * 0.01;
        // A pass must hold the whole bundle.
        let pass = PASSES.iter().find(|(start, end)| sent.max(*start) + on_air < *end).unwrap_or(&PASSES[2]);
        sent = sent.max(pass.0);
        free = sent + on_air;
        let extra = noise();
        // One bundle in six needs a retransmission, which costs a round trip of 1.2 s.
        let repaired = if rng.chance(0.17) { 1.2 } else { 0.0 };
        let ground = free + 0.6 + repaired + extra;
        all.push(Steps { created, onboard, sent, ground, delivered: ground + 0.005 });
    }
    all
}

/// Writes the run directory and opens it.
pub fn write(folder: &Path, flavour: &Flavour) -> RunReader {
    let steps = steps(flavour);
    let end = steps.iter().map(|s| s.delivered).fold(0.0, f64::max) + 0.5;
    let mut writer = RunWriter::create(folder, manifest(flavour, end)).unwrap();
    for (time, mut row) in events(&steps) {
        row.time_ns = (time * 1e9) as u64;
        writer.event(&row).unwrap();
    }
    for row in samples(&steps, end) {
        writer.sample(&row).unwrap();
    }
    for row in links(&steps, flavour) {
        writer.link(row);
    }
    if flavour.world == RunWorld::Lab {
        for (i, node) in NODES.iter().enumerate() {
            writer.process(process(Some(node), "node", 1.2 + i as f64 * 0.4));
        }
        writer.process(process(None, "emulator", 3.3));
    }
    writer.finish().unwrap();
    RunReader::open(folder).unwrap()
}

fn process(node: Option<&str>, name: &str, cpu: f64) -> ProcessRow {
    ProcessRow {
        node: node.map(Into::into),
        process: name.into(),
        cpu_user_s: cpu,
        cpu_system_s: cpu * 0.6,
        rss_peak_bytes: (cpu * 40e6) as u64,
        source: "proc".into(),
        role: None,
        phase: None,
    }
}

fn manifest(flavour: &Flavour, end: f64) -> Manifest {
    let name = format!("iss{}", flavour.suffix);
    let text = "# A 200 MB file from a payload on a space station to the ground.\nname = \"iss\"\nseed = 42\n";
    let mut m = Manifest::new(flavour.world, &name, text, None);
    m.description =
        "A payload on a space station sends a 200 MB file to the ground over a long, lossy, asymmetric and interrupted link."
            .into();
    m.seed = flavour.seed;
    m.duration_limit_s = 75.0;
    m.duration_s = end;
    m.start_utc = "2026-11-20T09:00:00.000Z".into();
    m.host = Host { kernel: "Linux 6.18".into(), cpu: "AMD EPYC".into(), cpus: 2, memory_bytes: 24_000_000_000 };
    m.topology = topology();
    m.topology.nodes[0].name.push_str(flavour.suffix);
    m.expect.delivery_ratio = Some(1.0);
    m.expect.finished_within_s = Some(60.0);
    m.command = format!("farlink run campaigns/iss/scenario.toml --in {} --seed 42", flavour.world.name());
    let checksum = (flavour.world == RunWorld::Lab).then(|| "sha256:9f86d081884c7d65".to_string());
    m.files.push(FileCheck {
        traffic: "observation".into(),
        sent_bytes: flavour.bundles * BUNDLE,
        received_bytes: flavour.bundles * BUNDLE,
        sent_checksum: checksum.clone(),
        received_checksum: checksum,
        complete_s: Some(end - 0.5),
    });
    if flavour.world == RunWorld::Sim {
        m.wall_s = 1.9;
    } else {
        m.wall_s = end + 4.0;
        m.validity.emulator_lateness =
            Some(Lateness { count: 180_000, p50_us: 31.0, p99_us: 240.0, max_us: 5100.0, real_time: true });
        m.validity.pressure = Some(MachineLoad {
            cpu_waiting: Some(0.31),
            memory_waiting: Some(0.0),
            io_waiting: Some(0.04),
            steal: Some(0.012),
        });
        m.validity.accounting = Accounting::Proc;
        m.validity
            .notes
            .push("No control group could be made: CPU and memory are those of the process tree in /proc.".into());
    }
    m
}

fn events(steps: &[Steps]) -> Vec<(f64, EventRow)> {
    let mut events = Vec::new();
    for (sequence, s) in steps.iter().enumerate() {
        let mut put = |time: f64, node: &str, event: &str, link: Option<&str>| {
            let mut row = EventRow::new(0, node.into(), event);
            row.source = Some("payload".into());
            row.service = Some(1);
            row.creation_ms = Some(800_000_000_000 + (s.created * 1000.0) as u64);
            row.sequence = Some(sequence as u64);
            row.destination = Some("center".into());
            // Every tenth bundle belongs to the smaller traffic flow.
            row.destination_service = Some(if sequence % 10 == 9 { 1001 } else { 1000 });
            row.size = Some(BUNDLE);
            row.bundle_bytes = Some(BUNDLE + 80);
            row.priority = Some("bulk".into());
            row.link = link.map(Into::into);
            events.push((time, row));
        };
        put(s.created, "payload", "created", None);
        put(s.created + 0.001, "payload", "transmitting", Some("station-lan"));
        put(s.onboard, "onboard", "received", Some("station-lan"));
        put(s.onboard, "onboard", "routed", Some("space"));
        put(s.sent, "onboard", "transmitting", Some("space"));
        put(s.ground, "ground", "received", Some("space"));
        put(s.ground + 0.002, "ground", "transmitting", Some("ground-lan"));
        put(s.delivered - 0.001, "center", "received", Some("ground-lan"));
        put(s.delivered, "center", "delivered", None);
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    events
}

fn samples(steps: &[Steps], end: f64) -> Vec<SampleRow> {
    let mut rows = Vec::new();
    for tick in 0..(end * 10.0) as u64 {
        let t = tick as f64 / 10.0;
        let mut put = |node: &str, link: Option<&str>, metric: &str, value: f64| {
            let (node, link) = (Some(node.into()), link.map(Into::into));
            rows.push(SampleRow { time_ns: tick * 100_000_000, node, link, metric: metric.into(), value, phase: None });
        };
        let held = |from: fn(&Steps) -> f64, to: fn(&Steps) -> f64| {
            steps.iter().filter(|s| from(s) <= t && t < to(s)).count() as f64 * BUNDLE as f64
        };
        put("payload", None, schema::STORED_BYTES, held(|s| s.created, |s| s.onboard));
        put("onboard", None, schema::STORED_BYTES, held(|s| s.onboard, |s| s.ground + 0.6));
        put("ground", None, schema::STORED_BYTES, held(|s| s.ground, |s| s.delivered));
        put("center", None, schema::STORED_BYTES, 0.0);
        let sent = steps.iter().filter(|s| s.sent <= t).count() as f64 * BUNDLE as f64 * 1.05;
        put("onboard", Some("space"), schema::LINK_SENT_BYTES, sent);
    }
    rows
}

fn links(steps: &[Steps], flavour: &Flavour) -> Vec<LinkRow> {
    let volume = steps.len() as u64 * BUNDLE;
    let nothing = farlink_link::Statistics::default();
    let row = |link: &str, from: &str, to: &str, bytes: u64, lost: f64, rate: f64| LinkRow {
        sent_packets: bytes / 1400,
        sent_bytes: bytes,
        delivered_packets: (bytes as f64 / 1400.0 * (1.0 - lost)) as u64,
        dropped_loss: (bytes as f64 / 1400.0 * lost) as u64,
        busy_ns: (bytes as f64 * 8.0 / rate * 1000.0) as u64,
        ..LinkRow::new(link, from, to, &nothing)
    };
    // The testbed sends slightly more than the simulation.
    let more = if flavour.world == RunWorld::Sim { 1.0 } else { 1.012 };
    let bytes = |factor: f64| (volume as f64 * factor * more) as u64;
    vec![
        row("station-lan", "payload", "onboard", bytes(1.03), 0.0, 1000.0),
        row("station-lan", "onboard", "payload", bytes(0.01), 0.0, 1000.0),
        row("space", "onboard", "ground", bytes(1.055), 0.00102, 100.0),
        row("space", "ground", "onboard", bytes(0.002), 0.0001, 3.0),
        row("ground-lan", "ground", "center", bytes(1.03), 0.0, 1000.0),
        row("ground-lan", "center", "ground", bytes(0.01), 0.0, 1000.0),
    ]
}
