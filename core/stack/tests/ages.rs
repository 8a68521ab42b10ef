//! RFC 9171 5.4 step 4: a bundle is as old as its age says when its first byte leaves, however long it waited before, and
//! one that expired meanwhile does not leave. Over each layer, in both versions of the bundle protocol: behind a peer that
//! reads nothing, a closed contact, a rate limit, and memory that is full.

mod line;
mod reads;

use farlink_base::{
    BundleMeta, Clock, DataRate, DataVolume, Duration, EndpointId, Facts, Hop, Instant, LinkId, NodeId, Payload,
    Priority,
};
use farlink_bpa::app::{AppInput, RequestId, SendRequest};
use farlink_cla::oneway::{self, Framing};
use farlink_cla::{ltp, tcpcl_v4, udpcl};
use farlink_stack::{BpV6, BpV7, Codec, Config, Input, LayerKind, SpanConfig};
use line::{Layer, Line};
use reads::Reads;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const COUNT: u32 = 200;
/// For so long, nothing gets through.
const STALL: Duration = Duration::from_secs(20);
/// What an age may be too small by.
const EXACT: Duration = Duration::from_millis(10);

/// A layer as both nodes have it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Over {
    TcpclV4,
    TcpclV3,
    OneWay(Framing),
    Ltp { aggregate: u64, window: u64 },
    Udpcl(u8),
}
use Over::{OneWay, TcpclV3, TcpclV4, Udpcl};
const STREAMS: [Over; 4] = [TcpclV4, TcpclV3, OneWay(Framing::Stcp), OneWay(Framing::Mtcp)];
const DATAGRAMS: [Over; 4] =
    [Over::Ltp { aggregate: 0, window: 1 << 30 }, Over::Ltp { aggregate: 30_000, window: 1 << 30 }, Udpcl(1), Udpcl(2)];

impl Over {
    fn is_stream(self) -> bool {
        STREAMS.contains(&self)
    }
    /// Bytes of a payload.
    fn bytes(self) -> usize {
        match self {
            Udpcl(1) => 1_000,
            over => [2_000, 50_000][usize::from(over.is_stream())],
        }
    }
    fn tune(self, index: usize, config: &mut Config) {
        let (own, to) = (format!("ipn:{}.0", index + 1), 2 - index as u64);
        config.limits.memory_bytes = 1 << 30;
        config.spill_from = DataVolume(1 << 30);
        let link = &mut config.links[0];
        link.rate = (!self.is_stream()).then_some(DataRate(4_000_000));
        let (kind, span) = match self {
            TcpclV4 => return,
            TcpclV3 => {
                let versions = tcpcl_v4::Versions::Three;
                let kind = LayerKind::TcpclV3(tcpcl_v4::Config { node_id: own, versions, ..Default::default() });
                (kind, link.span.clone())
            }
            OneWay(framing) => (
                LayerKind::OneWay(framing, oneway::Config::of(framing)),
                SpanConfig::OneWay(oneway::SpanConfig { connect: index == 0, ..Default::default() }),
            ),
            Over::Ltp { aggregate, window } => (
                LayerKind::Ltp(ltp::Config { engine: index as u64 + 1, ..Default::default() }),
                SpanConfig::Ltp(ltp::SpanConfig {
                    engine: to,
                    node: NodeId::ipn(to),
                    aggregate_bytes: aggregate,
                    aggregate_wait: Duration::from_secs(1),
                    window_bytes: window,
                    ..Default::default()
                }),
            ),
            Udpcl(version) => (
                LayerKind::Udpcl(udpcl::Config { node_id: own, ..Default::default() }),
                SpanConfig::Udpcl(udpcl::SpanConfig { node_id: format!("ipn:{to}.0"), version, ..Default::default() }),
            ),
        };
        (config.layers[0].kind, link.span) = (kind, span);
    }
}

/// The payload of a bundle: its number, again and again.
fn payload(number: u32, len: usize) -> Payload {
    let mark = [*b"AGES", number.to_be_bytes()].concat();
    Payload::from(mark.iter().copied().cycle().take(len).collect::<Vec<u8>>())
}
/// The number that begins here.
fn number_at(bytes: &[u8]) -> Option<u32> {
    let mark = bytes.get(..8)?.strip_prefix(b"AGES")?;
    Some(u32::from_be_bytes(mark.try_into().ok()?)).filter(|number| *number < COUNT)
}

/// Two nodes, and the ages of what came, by number.
struct Bench {
    line: Line,
    over: Over,
    sent: Instant,
    ages: Arc<Mutex<BTreeMap<u32, u64>>>,
}
impl Bench {
    fn new(over: Over, version: u8, clock: bool) -> Bench {
        let ages = Arc::new(Mutex::new(BTreeMap::new()));
        let told = ages.clone();
        let note = move |read: &(BundleMeta, Hop)| {
            let bytes = read.0.payload.to_bytes().unwrap_or_default();
            if let Some(number) = number_at(&bytes) {
                told.lock().unwrap().entry(number).or_insert(read.1.age_ms);
            }
        };
        let speak = move |node: usize, config: &Config| -> Vec<Box<dyn Codec>> {
            let v7 = BpV7 { profile: config.profile, crc: config.crc, accel: config.accel, custody: None };
            let v6 = BpV6 { profile: config.profile, numbers: false };
            let (mut all, both) = (Vec::<Box<dyn Codec>>::new(), (note.clone(), note.clone()));
            if node == 0 {
                (all.push(Box::new(v7)), all.push(Box::new(v6)));
            } else {
                all.push(Box::new(Reads(v7, move |codec: &BpV7, rope: &Payload| codec.read(rope).inspect(&both.0))));
                all.push(Box::new(Reads(v6, move |codec: &BpV6, rope: &Payload| codec.read(rope).inspect(&both.1))));
            }
            all.sort_by_key(|codec| codec.version() != version);
            all
        };
        let tune = move |index: usize, config: &mut Config| {
            config.bundle_version = version;
            over.tune(index, config);
        };
        let layer = if over.is_stream() { Layer::TcpclV4 } else { Layer::Ltp };
        let mut line = Line::speaking(layer, 2, tune, Box::new(speak));
        if !clock {
            line.tell(0, Input::Clock(Clock::UNTRUSTED));
        }
        line.register(1);
        line.run(Duration::from_secs(2));
        line.left = Some(Vec::new());
        Bench { sent: line.now, line, over, ages }
    }
    fn send(&mut self, lifetime_ms: u64) {
        self.sent = self.line.now;
        for number in 0..COUNT {
            let bundle = SendRequest {
                source: EndpointId::ipn(1, 1),
                destination: EndpointId::ipn(2, 1),
                report_to: EndpointId::Null,
                facts: Facts::default(),
                lifetime_ms,
                priority: Priority::Normal,
                hop_limit: 0,
                reliable: true,
                payload: payload(number, self.over.bytes()),
            };
            self.line.tell(0, Input::App(AppInput::Send { request: RequestId(0), bundle }));
        }
    }
    /// When the first byte that tells which one it is left of each, for the first time.
    fn left(&self) -> BTreeMap<u32, Instant> {
        self.all_left().into_iter().map(|(number, times)| (number, times[0])).collect()
    }
    /// The same, each time.
    fn all_left(&self) -> BTreeMap<u32, Vec<Instant>> {
        let mut all = BTreeMap::<u32, Vec<Instant>>::new();
        for (at, data) in self.line.left.iter().flatten() {
            let bytes = data.to_bytes().unwrap();
            let mut place = 0;
            while let Some(found) = bytes[place..].windows(4).position(|four| four == b"AGES") {
                place += found;
                if let Some(number) = number_at(&bytes[place..]) {
                    all.entry(number).or_default().push(*at);
                }
                place += 4;
            }
        }
        all
    }
    /// Each bundle was as old as it said when it left; how many left after the stall.
    fn check(&self) -> usize {
        let (left, all, ages) = (self.left(), self.all_left(), self.ages.lock().unwrap());
        for (number, age) in ages.iter() {
            let told = Duration::from_millis(*age);
            let is_true = |at: &Instant| {
                let age = at.since(self.sent);
                told <= age + Duration::from_millis(1) && age <= told + EXACT
            };
            // What UDPCL gave back in the middle is sent anew; what LTP repeats is as old as when it left first.
            let times = if matches!(self.over, Udpcl(_)) { &all[number][..] } else { &all[number][..1] };
            assert!(times.iter().any(is_true), "{:?}: {number} left at {times:?} and says {told:?}", self.over);
        }
        left.values().filter(|at| at.since(self.sent) >= STALL).count()
    }
}

/// Keeps 9171-5.4-9.
#[test]
fn behind_a_peer_that_reads_nothing_bundles_age() {
    for over in STREAMS {
        for version in [7, 6] {
            let mut bench = Bench::new(over, version, false);
            bench.line.deaf = Some(1);
            bench.send(3_600_000);
            bench.line.run(STALL);
            bench.line.hears();
            bench.line.run(Duration::from_secs(60));
            assert_eq!(bench.ages.lock().unwrap().len(), COUNT as usize, "{over:?}");
            assert!(bench.check() >= 150, "{over:?}: most waited here");
        }
    }
}

/// Keeps 9171-5.4-9.
#[test]
fn behind_a_rate_and_a_closed_contact_bundles_age() {
    for over in DATAGRAMS {
        for version in [7, 6] {
            let mut bench = Bench::new(over, version, false);
            bench.send(3_600_000);
            bench.line.run(Duration::from_millis(150));
            bench.line.tell(0, Input::LinkDown { link: LinkId(0) });
            bench.line.run(STALL);
            bench.line.tell(0, Input::LinkUp { link: LinkId(0) });
            bench.line.run(Duration::from_secs(60));
            assert_eq!(bench.ages.lock().unwrap().len(), COUNT as usize, "{over:?}");
            assert!(bench.check() >= 100, "{over:?}: most waited here");
        }
    }
}

/// A retransmission keeps the bytes and so the age of its first sending.
#[test]
fn behind_memory_that_is_full_of_what_nobody_confirms_bundles_age() {
    for aggregate in [0, 10_000] {
        for version in [7, 6] {
            let mut bench = Bench::new(Over::Ltp { aggregate, window: 30_000 }, version, false);
            bench.line.deaf = Some(1);
            bench.send(3_600_000);
            bench.line.run(STALL);
            bench.line.hears();
            bench.line.run(Duration::from_secs(120));
            assert_eq!(bench.ages.lock().unwrap().len(), COUNT as usize, "{aggregate}");
            assert!(bench.check() >= 150, "{aggregate}: most waited here");
        }
    }
}

#[test]
fn what_expired_while_it_waited_does_not_leave() {
    let lifetime = Duration::from_secs(5);
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for (version, clock) in [(7, true), (7, false), (6, true), (6, false)] {
            let mut bench = Bench::new(over, version, clock);
            if over.is_stream() {
                bench.line.deaf = Some(1);
            }
            bench.send(lifetime.as_millis() as u64);
            bench.line.run(Duration::from_millis(150));
            if !over.is_stream() {
                bench.line.tell(0, Input::LinkDown { link: LinkId(0) });
            }
            bench.line.run(STALL);
            bench.line.hears();
            bench.line.tell(0, Input::LinkUp { link: LinkId(0) });
            bench.line.run(Duration::from_secs(60));
            let (left, late) = (bench.left(), |at: &Instant| at.since(bench.sent) > lifetime + EXACT);
            assert!(!left.is_empty() && left.len() < COUNT as usize / 2, "{over:?}: {} left", left.len());
            assert_eq!(left.values().filter(|at| late(at)).count(), 0, "{over:?} {version} {clock}");
            assert_eq!(bench.line.node(0).status(bench.line.now).bundles, 0, "{over:?}");
        }
    }
}
