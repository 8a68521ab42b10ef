//! One traffic entry: what its sender sends when, and what its receiver makes of what arrives.

use crate::sim_event::{Queue, SimEvent};
use farlink_base::{Chunk, ConfigError, DataVolume, Duration, Instant, Payload, Rng, TimerKey, fill_byte};
use farlink_bpa::app::{RequestId, SendRequest};
use farlink_bundle::EndpointId;
use farlink_scenario::{Pace, Scenario, Traffic, TrafficKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bundles a sender keeps unanswered where the scenario does not limit them: as many as the
/// testbed's sender does.
const SEND_WINDOW: u32 = 64;
/// A sender whose node is full tries again after this.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// What became of one traffic entry.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TrafficOutcome {
    /// Its name.
    pub name: String,
    /// Bundles its sender's node accepted.
    pub created: u64,
    /// Bundles its receiver took (pings: answers that came back).
    pub delivered: u64,
    /// Payload bytes its receiver took.
    pub delivered_bytes: u64,
    /// Bundles that arrived with another content than was sent.
    pub damaged: u64,
    /// Times the sender's node refused.
    pub refused: u64,
    /// Files: their size.
    pub file_bytes: Option<u64>,
    /// When everything had arrived, once and right.
    pub complete_at: Option<Instant>,
}

/// The size of each bundle of an entry in turn, and when it is due.
struct Plan {
    first: Rng,
    rng: Rng,
    /// Bytes before this bundle.
    offset: u64,
    next: u64,
}

impl Plan {
    fn new(rng: Rng) -> Plan {
        Plan { first: rng.clone(), rng, offset: 0, next: 0 }
    }
    /// The same again.
    fn begun_anew(&self) -> Plan {
        Plan::new(self.first.clone())
    }
    /// Offset and size of the next bundle.
    fn draw(&mut self, kind: &TrafficKind, file_bytes: Option<u64>) -> (u64, u64) {
        let offset = self.offset;
        let size = match kind {
            TrafficKind::File { bundle_size, .. } => {
                bundle_size.bytes().max(1).min(file_bytes.unwrap_or(0).saturating_sub(offset))
            }
            TrafficKind::Bundles { size, .. } => {
                let DataVolume(least) = size.min;
                least + self.rng.below(size.max.bytes().saturating_sub(least) + 1)
            }
            TrafficKind::Ping { size, .. } => size.bytes(),
        };
        self.offset += size;
        self.next += 1;
        (offset, size)
    }
}

/// One traffic entry and its two applications.
pub(super) struct Entry {
    pub traffic: Traffic,
    pub source: EndpointId,
    destination: EndpointId,
    /// Pattern of the content.
    fill: u64,
    total: u64,
    plan: Plan,
    /// Sizes and offsets of bundles drawn but not accepted yet, by request.
    open: BTreeMap<RequestId, (u64, u64)>,
    /// Refused and to be offered again.
    again: VecDeque<(u64, u64)>,
    /// Refused, and not offered again.
    lost: u64,
    /// The least room that one of them needs: none where it is not room that decides.
    needs: u64,
    /// Waits for room, and would have asked then, and every [`RETRY`] since.
    asking_since: Option<Instant>,
    /// Offsets of bundles that arrived.
    arrived: BTreeSet<u64>,
    /// When the sender looks again whether it may send; there is never more than one.
    alarm: Option<TimerKey>,
    pub outcome: TrafficOutcome,
}

impl Entry {
    /// At rest.
    pub fn new(
        scenario: &Scenario,
        index: usize,
        traffic: Traffic,
        source: EndpointId,
        destination: EndpointId,
    ) -> Result<Entry, ConfigError> {
        let mut rng = Rng::stream(scenario.seed, 1 << 32 | index as u64);
        let fill = rng.next_u64();
        let mut file_bytes = None;
        let total = match &traffic.kind {
            TrafficKind::File { path, size, bundle_size, .. } => {
                let bytes = match path {
                    Some(path) => file_size(scenario, &traffic.name, path)?,
                    None => size.bytes(),
                };
                file_bytes = Some(bytes);
                bytes.div_ceil(bundle_size.bytes().max(1)).max(1)
            }
            TrafficKind::Bundles { count, .. } | TrafficKind::Ping { count, .. } => *count,
        };
        let outcome = TrafficOutcome { name: traffic.name.clone(), file_bytes, ..TrafficOutcome::default() };
        Ok(Entry {
            traffic,
            source,
            destination,
            fill,
            total,
            plan: Plan::new(rng),
            open: BTreeMap::new(),
            again: VecDeque::new(),
            lost: 0,
            needs: u64::MAX,
            asking_since: None,
            arrived: BTreeSet::new(),
            alarm: None,
            outcome,
        })
    }

    /// Whether it may send another bundle, besides so many.
    pub fn window_open(&self, besides: usize) -> bool {
        let window = if self.traffic.window > 0 { self.traffic.window } else { SEND_WINDOW };
        self.open.len() + besides < window as usize
    }
    /// Bundles that were refused and are to be offered again.
    pub fn refused(&self) -> usize {
        self.again.len()
    }

    /// Sets the alarm, where it is not set to an earlier time.
    pub fn wake_at(&mut self, at: Instant, index: usize, queue: &mut Queue) {
        if self.alarm.is_some_and(|alarm| alarm.deadline() <= at) {
            return;
        }
        if let Some(later) = self.alarm.take() {
            queue.cancel(later);
        }
        self.alarm = Some(queue.arm(at, SimEvent::Traffic(index)));
    }
    /// The alarm rang.
    pub fn woke(&mut self) {
        self.alarm = None;
    }

    /// Whether all that was refused would be refused again with this room.
    pub fn waits_for_room(&self, room: Option<u64>) -> bool {
        !self.again.is_empty() && room.is_some_and(|room| room < self.needs)
    }
    /// It would ask now, and in vain; whether it began to wait with that.
    pub fn wait(&mut self, now: Instant) -> bool {
        self.asking_since.replace(now).is_none()
    }
    /// There is room: it asks when it would have asked next.
    pub fn ask_again(&mut self, now: Instant, index: usize, queue: &mut Queue) {
        let Some(since) = self.asking_since.take() else { return };
        let times = (now - since).as_nanos() / RETRY.as_nanos() + 1;
        self.wake_at(since + RETRY * u32::try_from(times).unwrap_or(u32::MAX), index, queue);
    }
    /// It offers what was refused.
    pub fn asks(&mut self) {
        (self.needs, self.asking_since) = (u64::MAX, None);
    }
    /// Takes a bundle that was refused and is to be offered again: its offset and size.
    pub fn take_refused(&mut self) -> Option<(u64, u64)> {
        self.again.pop_front()
    }
    /// A bundle was handed to the node.
    pub fn sent(&mut self, request: RequestId, offset: u64, size: u64) {
        self.open.insert(request, (offset, size));
    }
    /// Whether everything was sent and arrived.
    pub fn is_complete(&self) -> bool {
        self.plan.next == self.total && self.outcome.delivered + self.lost >= self.total
    }

    /// When the next bundle is due; `None` when there is none.
    pub fn due(&self) -> Option<Instant> {
        if self.plan.next >= self.total {
            return None;
        }
        let start = Instant::ZERO + self.traffic.start;
        let pace = match self.traffic.kind {
            TrafficKind::File { pace, .. } | TrafficKind::Bundles { pace, .. } => pace,
            TrafficKind::Ping { interval, .. } => Pace::Interval(interval),
        };
        Some(match pace {
            Pace::Flat => start,
            Pace::Rate(rate) => start + rate.time_for(self.plan.offset),
            Pace::Interval(interval) => {
                let each = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
                start + Duration::from_nanos(each.saturating_mul(self.plan.next))
            }
        })
    }

    /// Offset and size of the next bundle.
    pub fn draw(&mut self) -> (u64, u64) {
        self.plan.draw(&self.traffic.kind, self.outcome.file_bytes)
    }

    /// What is asked of the node for the bundle with this offset and size.
    pub fn request(&self, offset: u64, size: u64) -> SendRequest {
        let mut payload = Payload::new();
        payload.push(Chunk::Fill { seed: self.fill, offset, len: size });
        self.request_with(payload)
    }

    /// What is asked of the node for a bundle with this payload.
    pub fn request_with(&self, payload: Payload) -> SendRequest {
        SendRequest {
            source: self.source.clone(),
            destination: self.destination.clone(),
            report_to: if self.traffic.reports.0 == 0 { EndpointId::Null } else { self.source.node_id() },
            facts: self.traffic.reports,
            lifetime_ms: u64::try_from(self.traffic.lifetime.as_millis()).unwrap_or(u64::MAX),
            priority: self.traffic.priority,
            hop_limit: 0,
            reliable: true,
            payload,
        }
    }

    /// Where in all that it sends this is: none, it is something else.
    fn place_of(&self, payload: &Payload) -> Option<u64> {
        if let [Chunk::Fill { seed, offset, .. }] = payload.chunks() {
            return Some(*offset).filter(|_| *seed == self.fill);
        }
        // It was read from a disk, as a whole or in part: of the same length may be many.
        let mut plan = self.plan.begun_anew();
        let drawn = (0..self.plan.next).map(|_| plan.draw(&self.traffic.kind, self.outcome.file_bytes));
        drawn
            .filter(|(_, size)| *size == payload.len())
            .map(|(offset, _)| offset)
            .find(|offset| self.is_at(payload, *offset))
    }
    /// Whether this is what lies there in all that it sends.
    fn is_at(&self, payload: &Payload, start: u64) -> bool {
        let mut at = start;
        payload.chunks().iter().all(|chunk| {
            let (here, len) = (at, chunk.len());
            at += len;
            match chunk {
                Chunk::Fill { seed, offset, .. } => *seed == self.fill && *offset == here,
                Chunk::Bytes(bytes) => (here..).zip(bytes.iter()).all(|(at, byte)| fill_byte(self.fill, at) == *byte),
                Chunk::Stored { .. } => false,
            }
        })
    }

    /// A request the node did not answer yet.
    pub fn unanswered(&self, request: RequestId) -> Option<SendRequest> {
        self.open.get(&request).map(|(offset, size)| self.request(*offset, *size))
    }
    /// What the node made of a bundle handed to it: if it refused, how much room that needs, where it
    /// is room that decides.
    pub fn on_result(
        &mut self,
        now: Instant,
        index: usize,
        request: RequestId,
        result: Result<(), Option<u64>>,
        queue: &mut Queue,
    ) {
        // A sender that waits for nothing but the time has its alarm set.
        let waits = !self.window_open(0) || !self.again.is_empty();
        let Some(bundle) = self.open.remove(&request) else { return };
        if let Err(needs) = result {
            // Push-back: the node is full. The application waits, as a person's program would.
            self.outcome.refused += 1;
            if self.traffic.lost {
                self.lost += 1;
                if waits {
                    self.wake_at(now, index, queue);
                }
                return;
            }
            self.needs = self.needs.min(needs.unwrap_or(0));
            self.again.push_back(bundle);
            self.wake_at(now + RETRY, index, queue);
            return;
        }
        self.outcome.created += 1;
        if waits {
            self.wake_at(now, index, queue);
        }
    }

    /// Its node is killed: what it had not answered for is offered again.
    pub fn lose(&mut self) {
        self.again.extend(std::mem::take(&mut self.open).into_values());
    }

    /// Compares what arrived with what was sent; `again`: it may have been delivered before a crash. How many bundles
    /// more are delivered: one, or none where it was.
    pub fn arrive(&mut self, now: Instant, payload: &Payload, again: bool) -> u64 {
        let found = if payload.is_empty() { Some(None) } else { self.place_of(payload).map(Some) };
        if again && found.flatten().is_some_and(|offset| self.arrived.contains(&offset)) {
            return 0;
        }
        self.outcome.delivered += 1;
        self.outcome.delivered_bytes += payload.len();
        match found {
            Some(offset) => self.arrived.extend(offset),
            None => self.outcome.damaged += 1,
        }
        let each_once = self.outcome.delivered == self.total && self.outcome.damaged == 0;
        let whole = self.outcome.file_bytes.is_none_or(|bytes| bytes == self.outcome.delivered_bytes);
        let distinct =
            self.arrived.len() as u64 == self.total || self.outcome.file_bytes.is_none_or(|bytes| bytes == 0);
        self.outcome.complete_at = (each_once && whole && distinct).then_some(now);
        1
    }
}

fn file_size(scenario: &Scenario, traffic: &str, path: &std::path::Path) -> Result<u64, ConfigError> {
    let whole = scenario.folder.join(path);
    let size = std::fs::metadata(&whole).map(|facts| facts.len());
    size.map_err(|error| ConfigError {
        path: format!("traffic.{traffic}.file.path"),
        expected: format!("a file that can be read, not {}: {error}", whole.display()),
        hint: "paths are relative to the scenario; or give `size` instead".into(),
    })
}
