//! Model of ION's LTP receiver, with the rules in which it differs from this engine. Each checkpoint received, copies
//! included, gets a new report; beyond a number of reports the session is cancelled (RFC 5326 6.11, RLEXC); a report
//! has at most 20 claims; secondary reports have trailing zeros; its socket is small and drained at a fixed rate.
#![allow(dead_code, reason = "each test uses another part")]

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Bytes, DataRate, Duration, Event, Instant, LinkId, NodeId, Payload, Rng};
use farlink_cla::ltp::segment::{Data, Segment, SegmentBody, SessionId, kind, reason};
use farlink_cla::ltp::{Config, Ltp, SpanConfig, whole_block};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

const LINK: LinkId = LinkId(0);
/// Most claims in a report segment.
const CLAIMS: usize = 20;

/// Channel, and configuration of ION.
#[derive(Clone)]
pub struct IonSetup {
    pub seed: u64,
    pub loss: f64,
    pub delay: Duration,
    /// Rate configured for this side's link.
    pub rate: Option<DataRate>,
    /// Number of reports after which a session is cancelled.
    pub reports: u32,
    /// Capacity of ION's socket, bytes, and its drain rate, bytes per second.
    pub socket: u64,
    pub drain: u64,
    pub span: SpanConfig,
    pub bundles: u64,
    pub bytes: u64,
}
impl Default for IonSetup {
    fn default() -> Self {
        IonSetup {
            seed: 1,
            loss: 0.0,
            delay: Duration::ZERO,
            rate: None,
            reports: 10,
            socket: 4 << 20,
            drain: 200_000_000,
            span: SpanConfig::default(),
            bundles: 60,
            bytes: 100_000,
        }
    }
}

struct OpenReport {
    segment: Segment,
    zeros: usize,
    due: Instant,
    attempts: u32,
}

#[derive(Default)]
struct IonSession {
    /// Runs of received bytes: end, by start.
    runs: BTreeMap<u64, u64>,
    end: Option<u64>,
    reports: u32,
    next_serial: u64,
    lower: BTreeMap<u64, u64>,
}
impl IonSession {
    fn insert(&mut self, mut start: u64, mut end: u64) {
        let touching = |(s, e): (&u64, &u64)| (*s <= end && *e >= start).then_some((*s, *e));
        let joined: Vec<_> = self.runs.iter().filter_map(touching).collect();
        for (s, e) in joined {
            self.runs.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        self.runs.insert(start, end);
    }
    fn is_complete(&self) -> bool {
        self.end.is_some_and(|end| self.runs.get(&0) == Some(&end))
    }
}

#[derive(Default)]
pub struct IonReceiver {
    sessions: BTreeMap<u64, IonSession>,
    closed: BTreeSet<u64>,
    open: BTreeMap<(u64, u64), OpenReport>,
    pub delivered: u32,
    pub cancelled: u32,
}
impl IonReceiver {
    fn take(&mut self, now: Instant, setting: &IonSetup, segment: &Segment) -> Vec<Bytes> {
        let SessionId { number, .. } = segment.session;
        match &segment.body {
            SegmentBody::Data(data, bytes) => self.data(now, setting, segment.session, data, bytes),
            SegmentBody::ReportAck { serial } => {
                self.open.remove(&(number, *serial));
                Vec::new()
            }
            SegmentBody::Cancel { by_sender: true, .. } => {
                self.sessions.remove(&number);
                self.closed.insert(number);
                vec![Segment { session: segment.session, body: SegmentBody::CancelAck { by_sender: true } }.emit()]
            }
            _ => Vec::new(),
        }
    }
    fn data(&mut self, now: Instant, setting: &IonSetup, id: SessionId, data: &Data, bytes: &Bytes) -> Vec<Bytes> {
        if self.closed.contains(&id.number) {
            return Vec::new();
        }
        let session = self.sessions.entry(id.number).or_default();
        session.insert(data.offset, data.offset + bytes.len() as u64);
        if data.kind == kind::BLOCK_END {
            session.end = Some(data.end());
        }
        if !data.is_checkpoint() {
            return Vec::new();
        }
        session.reports += 1;
        if session.reports > setting.reports {
            self.sessions.remove(&id.number);
            self.closed.insert(id.number);
            self.open.retain(|(number, _), _| *number != id.number);
            self.cancelled += 1;
            return vec![
                Segment { session: id, body: SegmentBody::Cancel { by_sender: false, reason: reason::LIMIT } }.emit(),
            ];
        }
        let lower = session.lower.get(&data.report).copied().unwrap_or(0);
        let claims: Vec<_> = session
            .runs
            .iter()
            .filter(|(start, end)| **start < data.end() && **end > lower)
            .map(|(start, end)| ((*start).max(lower), (*end).min(data.end())))
            .collect();
        let mut out = Vec::new();
        let mut from = lower;
        let parts: Vec<_> = claims.chunks(CLAIMS).collect();
        for (at, part) in parts.iter().enumerate() {
            let upper = if at + 1 == parts.len() { data.end() } else { part[part.len() - 1].1 };
            session.next_serial += 1;
            let serial = session.next_serial;
            session.lower.insert(serial, lower);
            let body =
                SegmentBody::Report { serial, checkpoint: data.checkpoint, lower: from, upper, claims: part.to_vec() };
            let zeros = if data.report != 0 { 4 } else { 0 };
            let segment = Segment { session: id, body };
            out.push(padded(&segment, zeros));
            let due = now + setting.delay * 2 + Duration::from_secs(1);
            self.open.insert((id.number, serial), OpenReport { segment, zeros, due, attempts: 1 });
            from = upper;
        }
        if session.is_complete() {
            self.sessions.remove(&id.number);
            self.closed.insert(id.number);
            self.delivered += 1;
        }
        out
    }
    fn timers(&mut self, now: Instant, setting: &IonSetup) -> Vec<Bytes> {
        let mut out = Vec::new();
        self.open.retain(|_, report| {
            if report.due > now {
                return true;
            }
            report.attempts += 1;
            report.due = now + setting.delay * 2 + Duration::from_secs(1);
            out.push(padded(&report.segment, report.zeros));
            report.attempts <= 20
        });
        out
    }
}
fn padded(segment: &Segment, zeros: usize) -> Bytes {
    let mut bytes = segment.emit().to_vec();
    bytes.resize(bytes.len() + zeros, 0);
    bytes.into()
}

/// Result of a run.
#[derive(Debug)]
pub struct IonOutcome {
    /// Number of blocks that ION delivered, and number of bundles confirmed to this side.
    pub delivered: u32,
    pub sent: u64,
    pub seconds: f64,
    pub cancelled: u32,
    pub datagrams: u64,
    /// Number of datagrams dropped at ION's socket.
    pub overrun: u64,
    /// Number of datagrams that this side reported as malformed.
    pub malformed: u64,
    pub reasons: BTreeSet<&'static str>,
}

/// Sends bundles to the model until all have arrived, or for an hour.
pub fn run(setting: &IonSetup) -> IonOutcome {
    let config = Config { engine: 1, seed: setting.seed, split: whole_block, ..Config::default() };
    let span = SpanConfig { link: LINK, engine: 2, node: NodeId(2), ..setting.span.clone() };
    let mut ltp = Ltp::new(config, vec![span]);
    let mut ion = IonReceiver::default();
    let mut rng = Rng::new(setting.seed);
    let mut now = Instant(1_000_000_000);
    let start = now;
    // Datagrams under way, by arrival time and order: whether to ION, and bytes.
    let mut queue: BTreeMap<(Instant, u64), (bool, Bytes)> = BTreeMap::new();
    let mut order = 0;
    let mut free_at = now;
    let mut waiting: VecDeque<u64> = (0..setting.bundles).collect();
    let mut ready = false;
    let mut outcome = IonOutcome {
        delivered: 0,
        sent: 0,
        seconds: 0.0,
        cancelled: 0,
        datagrams: 0,
        overrun: 0,
        malformed: 0,
        reasons: BTreeSet::new(),
    };
    let state = LinkState { rate: setting.rate, delay_out: setting.delay, delay_in: setting.delay, ..LinkState::UP };
    let mut inputs = VecDeque::from([Input::Link { link: LINK, state }]);
    let from = SocketAddr::from(([10, 0, 0, 2], 1113));
    while outcome.sent < setting.bundles && now - start < Duration::from_secs(3600) {
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            ltp.handle(now, input, &mut out);
            for output in out {
                match output {
                    Output::Ready { ready: is, .. } => ready = is,
                    Output::Sent { .. } => outcome.sent += 1,
                    Output::SendFailed { id, .. } => waiting.push_back(id.0 % setting.bundles),
                    Output::Event(Event::Malformed { .. }) => outcome.malformed += 1,
                    Output::Event(Event::LtpSessionEnd { why, .. }) => {
                        outcome.reasons.insert(why);
                    }
                    Output::Socket(socket::Output::Datagrams { train, .. }) => {
                        for datagram in train.datagrams() {
                            outcome.datagrams += 1;
                            if !rng.chance(setting.loss) {
                                order += 1;
                                let bytes = datagram.to_bytes().expect("in memory");
                                queue.insert((now + setting.delay, order), (true, bytes));
                            }
                        }
                    }
                    _ => {}
                }
            }
            if ready && let Some(bundle) = waiting.pop_front() {
                order += 1;
                let id = SendId(order * setting.bundles + bundle);
                let payload = Payload::from(vec![bundle as u8; setting.bytes as usize]);
                inputs.push_back(Input::send(LINK, id, payload, true));
            }
        }
        let due = ion.open.values().map(|report| report.due).min();
        let next = [queue.first_key_value().map(|(key, _)| key.0), ltp.next_timeout(), due];
        let Some(next) = next.into_iter().flatten().min() else { panic!("stuck: {outcome:?}") };
        now = now.max(next);
        let mut answers = ion.timers(now, setting);
        while queue.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let (_, (to_ion, bytes)) = queue.pop_first().unwrap();
            if !to_ion {
                let train = DatagramBatch::single(Payload::from(bytes));
                inputs.push_back(Input::Socket(socket::Input::Datagrams { from, train }));
                continue;
            }
            let waits = (free_at - now).as_secs_f64() * setting.drain as f64;
            if waits as u64 + bytes.len() as u64 > setting.socket {
                outcome.overrun += 1;
                continue;
            }
            let takes = Duration::from_nanos(bytes.len() as u64 * 1_000_000_000 / setting.drain);
            free_at = free_at.max(now) + takes;
            answers.extend(ion.take(now, setting, &Segment::parse(&bytes).expect("what we send is read")));
        }
        for bytes in answers {
            if !rng.chance(setting.loss) {
                order += 1;
                queue.insert((now.max(free_at) + setting.delay, order), (false, bytes));
            }
        }
        inputs.push_back(Input::Wake);
    }
    (outcome.delivered, outcome.cancelled) = (ion.delivered, ion.cancelled);
    outcome.seconds = (now - start).as_secs_f64();
    outcome
}
