//! RFC 9171 5.4 step 4: the age of a bundle is right when its first byte leaves, however long it waited before, and
//! a bundle that expired meanwhile does not leave. Over each layer, in both versions of the bundle protocol: behind
//! a stalled peer, a closed contact, a rate limit, and full memory; with each kind of CRC, from memory and from
//! disk, made here and relayed.

use crate::aged;

use crate::aged::Ages;
use crate::line::{Layer, Line};
use farlink_base::{
    Clock, DataRate, DataVolume, Duration, EndpointId, Event, Facts, Instant, LinkId, NodeId, Payload, Priority,
};
use farlink_bpa::app::{AppInput, RequestId, SendRequest};
use farlink_bundle::CrcType;
use farlink_cla::oneway::{self, Framing};
use farlink_cla::{ltp, tcpcl_v4, udpcl};
use farlink_routing::{PlanIndex, contact_plan};
use farlink_stack::{Config, Input, LayerKind, LinkParams};
use std::collections::BTreeMap;

const COUNT: u32 = 200;
/// Time during which nothing gets through.
const STALL: Duration = Duration::from_secs(20);
/// Lifetime that ends during the stall.
const SHORT: Duration = Duration::from_secs(5);
/// Largest error of an age that is too small, unless a setup allows more.
const EXACT: Duration = Duration::from_millis(10);

/// Convergence layer of all nodes, with its settings.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Carrier {
    TcpclV4,
    TcpclV3,
    OneWay(Framing),
    Ltp { aggregate: u64, window: u64 },
    Udpcl(u8),
}
use Carrier::{OneWay, TcpclV3, TcpclV4, Udpcl};
const STREAMS: [Carrier; 4] = [TcpclV4, TcpclV3, OneWay(Framing::Stcp), OneWay(Framing::Mtcp)];
const DATAGRAMS: [Carrier; 4] = [
    Carrier::Ltp { aggregate: 0, window: 1 << 30 },
    Carrier::Ltp { aggregate: 30_000, window: 1 << 30 },
    Udpcl(1),
    Udpcl(2),
];

impl Carrier {
    fn is_stream(self) -> bool {
        STREAMS.contains(&self)
    }
    /// Whether the layer waits until many bundles can leave in one block.
    fn in_blocks(self) -> bool {
        matches!(self, Carrier::Ltp { aggregate: 1.., .. })
    }
    /// Bytes of a payload.
    fn bytes(self) -> usize {
        match self {
            Udpcl(1) => 1_000,
            over => [2_000, 50_000][usize::from(over.is_stream())],
        }
    }
    fn tune(self, index: usize, config: &mut Config) {
        let own = index as u64 + 1;
        let node_id = format!("ipn:{own}.0");
        let versions = tcpcl_v4::Versions::Three;
        config.layers[0].kind = match self {
            TcpclV4 => return,
            TcpclV3 => LayerKind::Tcpcl(tcpcl_v4::Config { node_id, versions, ..Default::default() }),
            OneWay(framing) => LayerKind::OneWay(oneway::Config::of(framing)),
            Carrier::Ltp { .. } => LayerKind::Ltp(ltp::Config { engine: own, ..Default::default() }),
            Udpcl(_) => LayerKind::Udpcl(udpcl::Config { node_id, ..Default::default() }),
        };
        for link in &mut config.links {
            let to: u64 = link.name["to-".len()..].parse().unwrap();
            match self {
                TcpclV4 | TcpclV3 => {}
                OneWay(_) => {
                    link.params = LinkParams::OneWay(oneway::LinkParams { connect: own < to, ..Default::default() });
                }
                Carrier::Ltp { aggregate, window } => {
                    link.params = LinkParams::Ltp(ltp::SpanConfig {
                        engine: to,
                        node: NodeId::ipn(to),
                        aggregate_bytes: aggregate,
                        aggregate_wait: Duration::from_secs(1),
                        window_bytes: window,
                        ..Default::default()
                    });
                }
                Udpcl(version) => {
                    let node_id = format!("ipn:{to}.0");
                    link.params = LinkParams::Udpcl(udpcl::LinkParams { node_id, version, ..Default::default() });
                }
            }
        }
    }
}

/// One trial: nodes, layer and obstacle.
#[derive(Clone, Copy, Debug)]
struct AgeSetup {
    over: Carrier,
    version: u8,
    /// Whether the node that the bundles leave has a clock.
    clock: bool,
    /// Whether the bundles leave from a node that got them from a source without a clock.
    relay: bool,
    crc: CrcType,
    /// Whether the bundles leave from disk.
    disk: bool,
    count: u32,
    bytes: usize,
    /// Rate of a link whose bundles are datagrams, bit/s.
    rate: u64,
    /// Time by which a layer gets bundles before they can leave.
    ahead: Duration,
    plan: Option<&'static str>,
    /// Whether a bundle, given by its number, lives no longer than [`SHORT`].
    short: fn(u32) -> bool,
}
impl AgeSetup {
    fn new(over: Carrier, version: u8, clock: bool) -> AgeSetup {
        AgeSetup {
            over,
            version,
            clock,
            relay: false,
            crc: CrcType::Crc32c,
            disk: false,
            count: COUNT,
            bytes: over.bytes(),
            rate: 4_000_000,
            ahead: Duration::from_millis(20),
            plan: None,
            short: |_| false,
        }
    }
    /// Like `new`, with fewer bundles.
    fn few(over: Carrier, version: u8, clock: bool) -> AgeSetup {
        AgeSetup { count: 60, rate: 1_000_000, ..AgeSetup::new(over, version, clock) }
    }
    /// Largest error of an age that is too small: in a block of many bundles, a bundle's first bytes may leave one
    /// datagram before its number does.
    fn exact(self) -> Duration {
        EXACT + Duration::from_micros(if self.over.in_blocks() { 1_500 * 8 * 1_000_000 / self.rate } else { 0 })
    }
    /// The node whose bundles leave; the next one reads them.
    fn sender(self) -> usize {
        usize::from(self.relay)
    }
    fn tune(self, index: usize, config: &mut Config) {
        config.node.bundle_version = self.version;
        config.node.agent.crc = self.crc;
        // Bundles handed over early wait in the layer, which must then correct their age.
        config.node.agent.hand_over_ahead = self.ahead;
        config.node.limits.arriving_bytes = 1 << 30;
        let from_disk = self.disk && index == self.sender();
        if !from_disk {
            config.node.limits.memory_bytes = 1 << 30;
            config.node.store.spill_from = DataVolume(1 << 30);
        }
        for link in &mut config.links {
            // A bundle that is long under way to the relay would be younger there than the test computes, so earlier
            // hops are fast.
            let rate = if index < self.sender() { 1_000_000_000 } else { self.rate };
            link.rate = (!self.over.is_stream()).then_some(DataRate(rate));
        }
        config.plan = self.plan.map(|plan| PlanIndex::new(contact_plan::parse(plan).expect("a plan").plan).into());
        self.over.tune(index, config);
    }
}

/// The nodes, and the ages of arrived bundles by number.
struct AgeBench {
    line: Line,
    setup: AgeSetup,
    sent: Instant,
    ages: Ages,
}
impl AgeBench {
    fn new(over: Carrier, version: u8, clock: bool) -> AgeBench {
        AgeBench::of(AgeSetup::new(over, version, clock))
    }
    fn of(setup: AgeSetup) -> AgeBench {
        let (ages, reader) = (Ages::default(), setup.sender() + 1);
        let layer = if setup.over.is_stream() { Layer::TcpclV4 } else { Layer::Ltp };
        let tune = move |index: usize, config: &mut Config| setup.tune(index, config);
        let mut line = Line::speaking(layer, reader + 1, tune, aged::speak(setup.version, reader, &ages));
        if !setup.clock {
            line.tell(setup.sender(), Input::Clock(Clock::UNTRUSTED));
        }
        if setup.relay {
            line.tell(0, Input::Clock(Clock::UNTRUSTED));
        }
        line.register(reader);
        line.run(Duration::from_secs(2));
        (line.watched, line.left) = (setup.sender(), Some(Vec::new()));
        AgeBench { sent: line.now, line, setup, ages }
    }
    fn send(&mut self, lifetime_ms: u64) {
        self.sent = self.line.now;
        for number in 0..self.setup.count {
            let bundle = SendRequest {
                source: EndpointId::ipn(1, 1),
                destination: EndpointId::ipn(self.setup.sender() as u64 + 2, 1),
                report_to: EndpointId::Null,
                facts: Facts::default(),
                lifetime_ms: if (self.setup.short)(number) { SHORT.as_millis() as u64 } else { lifetime_ms },
                priority: Priority::Normal,
                hop_limit: 0,
                reliable: true,
                payload: aged::payload(number, self.setup.bytes),
            };
            self.line.tell(0, Input::App(AppInput::Send { request: RequestId(0), bundle }));
        }
    }
    /// The link over which the bundles leave.
    fn link(&self) -> LinkId {
        LinkId(self.setup.sender() as u32)
    }
    /// Sends all bundles, some of which leave, and then lets nothing through for a while.
    fn stall(&mut self, lifetime_ms: u64) {
        self.stall_busy(lifetime_ms, Duration::ZERO);
    }
    /// Like `stall`, with nodes that notice their timers late by `lag` until the stall is over.
    fn stall_busy(&mut self, lifetime_ms: u64, lag: Duration) {
        // A peer that reads nothing stalls a stream; datagrams have no back pressure, so their link goes down.
        let (stream, link, sender) = (self.setup.over.is_stream(), self.link(), self.setup.sender());
        self.line.deaf = stream.then_some(sender + 1);
        self.send(lifetime_ms);
        // Some bundles leave before the stall, as long as buffers take them.
        self.line.run(Duration::from_millis(150));
        self.line.lag = lag;
        if !stream {
            self.line.tell(sender, Input::LinkDown { link });
        }
        self.line.run(STALL);
        self.line.resume_reads();
        if !stream {
            self.line.tell(sender, Input::LinkUp { link });
        }
        self.line.run(Duration::from_millis(500));
        self.line.lag = Duration::ZERO;
        self.line.run(Duration::from_secs(60));
    }
    /// Time at which each bundle left first.
    fn left(&self) -> BTreeMap<u32, Instant> {
        aged::left(&self.line).into_iter().map(|(number, times)| (number, times[0])).collect()
    }
    /// Checks that all long-lived bundles came, each with the age at its departure; returns how many left after the
    /// stall.
    fn check(&self) -> usize {
        let (all, ages, setup) = (aged::left(&self.line), self.ages.lock().unwrap(), self.setup);
        let lives_long = |number: &u32| !(setup.short)(*number);
        let came = ages.keys().filter(|number| lives_long(number)).count();
        assert_eq!(came, (0..setup.count).filter(lives_long).count(), "{setup:?}");
        for (number, age) in ages.iter() {
            let told = Duration::from_millis(*age);
            let is_true = |at: &Instant| {
                let age = at.since(self.sent);
                // Ages are in whole ms; an age that is too small only delays expiry, so that side has more
                // tolerance.
                told <= age + Duration::from_millis(1) && age <= told + setup.exact()
            };
            // UDPCL sends a returned bundle again, with a new age; LTP repeats the bytes of the first sending.
            let times = if matches!(setup.over, Udpcl(_)) { &all[number][..] } else { &all[number][..1] };
            assert!(times.iter().any(is_true), "{setup:?}: {number} left at {times:?} and says {told:?}");
        }
        let malformed = self.line.events.iter().filter(|(_, event)| matches!(event, Event::Malformed { .. })).count();
        assert_eq!(malformed, 0, "{setup:?}");
        all.values().filter(|times| times[0].since(self.sent) >= STALL).count()
    }
}

/// Keeps 9171-5.4-9.
#[test]
fn bundles_age_behind_stalled_peer() {
    for over in STREAMS {
        for version in [7, 6] {
            let mut bench = AgeBench::new(over, version, false);
            bench.stall(3_600_000);
            // Socket buffers take fewer than 50 of the 200 bundles.
            assert!(bench.check() >= 150, "{over:?}: most waited here");
        }
    }
}

/// Keeps 9171-5.4-9.
#[test]
fn bundles_age_before_contact() {
    for over in DATAGRAMS {
        for version in [7, 6] {
            let mut bench = AgeBench::new(over, version, false);
            bench.stall(3_600_000);
            assert!(bench.check() >= 100, "{over:?}: most waited here");
        }
    }
}

#[test]
fn bundles_age_behind_rate_limit() {
    // A layer that gets its bundles two seconds ahead of a slow link stamps them as they leave.
    for over in DATAGRAMS {
        for version in [7, 6] {
            // At this rate, sending all bundles takes `STALL`.
            let rate = over.bytes() as u64 * 8 * u64::from(COUNT) / STALL.as_secs();
            let ahead = Duration::from_secs(2);
            let mut bench = AgeBench::of(AgeSetup { rate, ahead, ..AgeSetup::new(over, version, false) });
            bench.send(3_600_000);
            bench.line.run(STALL * 3);
            bench.check();
            let late = bench.ages.lock().unwrap().values().filter(|age| **age > 10_000).count();
            assert!(late >= 90, "{over:?}: {late} of them waited for more than half of the time");
        }
    }
}

#[test]
fn relayed_clockless_bundles_age() {
    // The source has no clock, the relay has one or has none: the relayed age is the sum of both stays.
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for (version, clock) in [(7, true), (7, false), (6, true), (6, false)] {
            let mut bench = AgeBench::of(AgeSetup { relay: true, ..AgeSetup::few(over, version, clock) });
            bench.stall(3_600_000);
            assert!(bench.check() >= 30, "{over:?} {version} {clock}: most waited here");
        }
    }
}

/// The second node has no contact with the third for most of the time.
const CONTACTS: &str = "contact 1 2 +0..+200 rate 1 Gbit/s\ncontact 2 1 +0..+200 rate 1 Gbit/s\n\
    contact 2 3 +0..+2.2 rate 1 Mbit/s\ncontact 3 2 +0..+2.2 rate 1 Mbit/s\n\
    contact 2 3 +22..+200 rate 40 Mbit/s\ncontact 3 2 +22..+200 rate 40 Mbit/s";

#[test]
fn relayed_bundles_age_before_contact() {
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for version in [7, 6] {
            let plan = Some(CONTACTS);
            let mut bench = AgeBench::of(AgeSetup { relay: true, plan, ..AgeSetup::few(over, version, true) });
            bench.send(3_600_000);
            bench.line.run(Duration::from_secs(90));
            assert!(bench.check() >= 30, "{over:?} {version}: most waited here");
        }
    }
}

#[test]
fn restamped_block_has_valid_crc() {
    // An age block keeps its own type of CRC when it is stamped again.
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for crc in [CrcType::None, CrcType::Crc16] {
            let mut bench = AgeBench::of(AgeSetup { crc, ..AgeSetup::few(over, 7, false) });
            bench.stall(3_600_000);
            assert!(bench.check() >= 30, "{over:?} {crc:?}: most waited here");
        }
    }
}

#[test]
fn bundles_on_disk_age() {
    // Long bundles are read piece by piece as they leave.
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for version in [7, 6] {
            let short = AgeSetup { disk: true, ..AgeSetup::few(over, version, false) };
            let long = AgeSetup { count: 6, bytes: 3_000_000, rate: 40_000_000, ..short };
            // A bundle too long for a datagram leaves in fragments, each with a head of its own.
            let setups = [short, long].into_iter().take(if over == Udpcl(1) { 1 } else { 2 });
            for setup in setups {
                let mut bench = AgeBench::of(setup);
                bench.stall(3_600_000);
                let late = bench.check();
                assert!(late >= setup.count as usize / 2, "{setup:?}: {late} waited here");
            }
        }
    }
}

#[test]
fn bundles_age_behind_full_retransmission_memory() {
    // A retransmission keeps the bytes, and so the age, of its first sending.
    for aggregate in [0, 10_000] {
        for version in [7, 6] {
            let mut bench = AgeBench::new(Carrier::Ltp { aggregate, window: 30_000 }, version, false);
            bench.line.deaf = Some(1);
            bench.send(3_600_000);
            bench.line.run(STALL);
            bench.line.resume_reads();
            bench.line.run(Duration::from_secs(120));
            assert!(bench.check() >= 150, "{aggregate}: most waited here");
        }
    }
}

/// Whether a datagram is an LTP cancel segment of a block's sender (type 12, RFC 5326 3.1).
fn is_cancel(datagram: &Payload) -> bool {
    datagram.to_bytes().is_some_and(|bytes| bytes[0] & 0x0f == 12)
}

#[test]
fn expired_ltp_block_is_cancelled() {
    // A block without a report is not repeated once all its bundles have expired.
    for (aggregate, window) in [(0, 1 << 30), (30_000, 1 << 30), (0, 30_000), (10_000, 30_000)] {
        for (version, clock) in [(7, true), (7, false), (6, true), (6, false)] {
            let mut bench = AgeBench::new(Carrier::Ltp { aggregate, window }, version, clock);
            bench.line.deaf = Some(1);
            bench.send(SHORT.as_millis() as u64);
            bench.line.run(STALL);
            let what = format!("{:?} {version} {clock}", bench.setup.over);
            let after: Vec<_> =
                bench.line.left.iter().flatten().filter(|(at, _)| at.since(bench.sent) > SHORT).collect();
            assert!(!after.is_empty() && after.iter().all(|(_, datagram)| is_cancel(datagram)), "{what}");
            let cancelled = |event: &Event| matches!(event, Event::LtpSessionEnd { cancelled: true, .. });
            assert!(bench.line.events.iter().any(|(node, event)| *node == 0 && cancelled(event)), "{what}");
            assert_eq!(bench.line.node(0).status(bench.line.now).bundles, 0, "{what}");
            bench.line.resume_reads();
            bench.line.run(STALL);
            assert!(bench.ages.lock().unwrap().is_empty() && bench.line.delivered.is_empty(), "{what}");
        }
    }
}

#[test]
fn queued_expired_bundle_never_leaves() {
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for (version, clock) in [(7, true), (7, false), (6, true), (6, false)] {
            let setup = AgeSetup::few(over, version, clock);
            for setup in [
                AgeSetup::new(over, version, clock),
                AgeSetup { relay: true, ..setup },
                AgeSetup { disk: true, ..setup },
            ] {
                let mut bench = AgeBench::of(setup);
                bench.stall(SHORT.as_millis() as u64);
                let (left, late) = (bench.left(), |at: &Instant| at.since(bench.sent) > SHORT + EXACT);
                let what = format!("{:?}", bench.setup);
                // The first block of a slow link is not full yet when it goes down.
                let some = !left.is_empty() || (over.in_blocks() && setup.count < COUNT);
                assert!(some && left.len() < setup.count as usize / 2, "{what}: {} left", left.len());
                assert_eq!(left.values().filter(|at| late(at)).count(), 0, "{what}");
                assert_eq!(bench.line.node(bench.setup.sender()).status(bench.line.now).bundles, 0, "{what}");
            }
        }
    }
}

#[test]
fn expired_bundle_stays_in_busy_node() {
    // A layer checks lifetimes itself: the agent, which is busy, would cancel too late.
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for (version, clock) in [(7, true), (7, false), (6, true), (6, false)] {
            let mut bench = AgeBench::new(over, version, clock);
            bench.stall_busy(SHORT.as_millis() as u64, STALL * 2);
            let what = format!("{:?}", bench.setup);
            let left = bench.left();
            let late = left.iter().filter(|(_, at)| at.since(bench.sent) > SHORT).collect::<Vec<_>>();
            assert!(late.is_empty(), "{what}: {late:?}");
            assert!(!left.is_empty() && left.len() < COUNT as usize / 2, "{what}: {} left", left.len());
            assert_eq!(bench.line.node(0).status(bench.line.now).bundles, 0, "{what}");
        }
    }
}

#[test]
fn expired_bundle_stays_in_busy_layer() {
    // Bundles for a slow link wait in the layer's own queue, and expire there.
    for over in DATAGRAMS {
        for version in [7, 6] {
            // At this rate, sending all bundles takes `STALL`.
            let rate = over.bytes() as u64 * 8 * u64::from(COUNT) / STALL.as_secs();
            let ahead = Duration::from_secs(10);
            let mut bench = AgeBench::of(AgeSetup { rate, ahead, ..AgeSetup::new(over, version, false) });
            bench.send(SHORT.as_millis() as u64);
            bench.line.run(Duration::from_secs(3));
            // The agent is late by the whole lifetime, so only the layer can drop expired bundles in time.
            bench.line.lag = SHORT;
            bench.line.run(STALL);
            bench.line.lag = Duration::ZERO;
            bench.line.run(STALL);
            let late = bench.left().values().filter(|at| at.since(bench.sent) > SHORT).count();
            assert_eq!((late, bench.line.node(0).status(bench.line.now).bundles), (0, 0), "{:?}", bench.setup);
        }
    }
}

#[test]
fn live_bundles_leave_without_expired() {
    // Bundles with long and with short lifetimes wait in one queue or block. The short-lived ones are every second
    // bundle, all from number 33 on, or the last five of every 15.
    let among: [(fn(u32) -> bool, u8); 3] = [(|n| n % 2 == 1, 7), (|n| n >= 33, 6), (|n| n % 15 >= 10, 7)];
    for over in STREAMS.into_iter().chain(DATAGRAMS) {
        for (short, version) in among {
            let mut bench = AgeBench::of(AgeSetup { short, rate: 4_000_000, ..AgeSetup::few(over, version, false) });
            bench.stall(3_600_000);
            bench.check();
            let late = |(number, at): (&u32, &Instant)| short(*number) && at.since(bench.sent) > SHORT;
            assert_eq!(bench.left().iter().filter(|left| late(*left)).count(), 0, "{:?}", bench.setup);
            assert_eq!(bench.line.node(0).status(bench.line.now).bundles, 0, "{:?}", bench.setup);
        }
    }
}
