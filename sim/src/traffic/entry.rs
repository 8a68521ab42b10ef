//! One traffic entry: bundles sent by its source, and checks of bundles received.

use crate::sim_event::{Queue, SimEvent};
use farlink_base::{Chunk, ConfigError, DataVolume, Duration, Instant, Payload, Rng, TimerKey, fill_byte};
use farlink_bpa::app::{RequestId, SendRequest};
use farlink_bundle::EndpointId;
use farlink_scenario::{Pace, Scenario, Traffic, TrafficKind};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Window of unanswered bundles if the scenario sets none; equal to that of the testbed's sender.
const SEND_WINDOW: u32 = 64;
/// Interval after which a sender whose node is full tries again.
pub(super) const RETRY: Duration = Duration::from_millis(100);

/// Result of one traffic entry.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TrafficOutcome {
    /// Name of the entry in the scenario.
    pub name: String,
    /// Bundles that the sender's node accepted.
    pub created: u64,
    /// Bundles that the receiver took; for pings, returned answers.
    pub delivered: u64,
    /// Payload bytes that the receiver took.
    pub delivered_bytes: u64,
    /// Bundles whose content differed from the one sent.
    pub damaged: u64,
    /// Number of refusals by the sender's node.
    pub refused: u64,
    /// Name of the traffic flow: of an entry drawn among groups, the flow's.
    pub flow: String,
    /// Bundles that were due by the end of the run.
    pub offered: u64,
    /// Size of the file, for files.
    pub file_bytes: Option<u64>,
    /// Time at which everything had arrived, exactly once and undamaged.
    pub complete_at: Option<Instant>,
}

/// Sizes and due times of an entry's bundles.
#[derive(Clone)]
struct TrafficPlan {
    first: Rng,
    rng: Rng,
    /// Sum of the sizes of earlier bundles.
    offset: u64,
    next: u64,
}

impl TrafficPlan {
    fn new(rng: Rng) -> TrafficPlan {
        TrafficPlan { first: rng.clone(), rng, offset: 0, next: 0 }
    }
    fn begun_anew(&self) -> TrafficPlan {
        // A plan that starts again draws the same sizes, so that bundles already sent can be searched.
        TrafficPlan::new(self.first.clone())
    }
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

/// Traffic entry with its two applications.
pub(super) struct Entry {
    pub traffic: Traffic,
    pub source: EndpointId,
    destination: EndpointId,
    /// Seed of the payload pattern.
    fill: u64,
    total: u64,
    plan: TrafficPlan,
    /// Offsets and sizes of bundles handed to the node but not yet accepted, by request.
    open: BTreeMap<RequestId, (u64, u64)>,
    /// Refused bundles that will be offered again.
    again: VecDeque<(u64, u64)>,
    /// Number of refused bundles that are given up.
    lost: u64,
    /// Smallest free space that one of the refused bundles needs; 0 if space is not the criterion.
    needs: u64,
    /// Time from which the sender waits for space; its retries stay at this time plus multiples of [`RETRY`].
    asking_since: Option<Instant>,
    /// Offsets of bundles that arrived.
    arrived: BTreeSet<u64>,
    /// Next wake-up of the sender; at most one is set.
    alarm: Option<TimerKey>,
    pub outcome: TrafficOutcome,
}

impl Entry {
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
                // An empty file is one empty bundle.
                bytes.div_ceil(bundle_size.bytes().max(1)).max(1)
            }
            TrafficKind::Bundles { count, .. } | TrafficKind::Ping { count, .. } => *count,
        };
        let flow = traffic.drawn.and_then(|group| scenario.group_traffic.get(group)).map(|group| &group.name);
        let (name, flow) = (traffic.name.clone(), flow.unwrap_or(&traffic.name).clone());
        let outcome = TrafficOutcome { name, flow, file_bytes, ..TrafficOutcome::default() };
        Ok(Entry {
            traffic,
            source,
            destination,
            fill,
            total,
            plan: TrafficPlan::new(rng),
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

    /// Whether the window allows one more bundle, with `besides` others counted as unanswered.
    pub fn window_open(&self, besides: usize) -> bool {
        let window = if self.traffic.window > 0 { self.traffic.window } else { SEND_WINDOW };
        self.open.len() + besides < window as usize
    }
    /// Number of refused bundles that will be offered again.
    pub fn refused(&self) -> usize {
        self.again.len()
    }

    /// Sets the alarm, unless it is set to an earlier time.
    pub fn wake_at(&mut self, at: Instant, index: usize, queue: &mut Queue) {
        if self.alarm.is_some_and(|alarm| alarm.deadline() <= at) {
            return;
        }
        if let Some(later) = self.alarm.take() {
            queue.cancel(later);
        }
        self.alarm = Some(queue.arm(at, SimEvent::Traffic(index)));
    }
    pub fn woke(&mut self) {
        self.alarm = None;
    }

    /// Whether all refused bundles would be refused again with this free space.
    pub fn waits_for_room(&self, room: Option<u64>) -> bool {
        !self.again.is_empty() && room.is_some_and(|room| room < self.needs)
    }
    /// Waits for space instead of retrying in vain; returns whether the wait began now.
    pub fn wait(&mut self, now: Instant) -> bool {
        self.asking_since.replace(now).is_none()
    }
    /// Ends the wait: schedules the retry for the time at which it would have happened without waiting.
    pub fn ask_again(&mut self, now: Instant, index: usize, queue: &mut Queue) {
        let Some(since) = self.asking_since.take() else { return };
        // The retry keeps its rhythm, as if it had retried every interval since.
        let times = (now - since).as_nanos() / RETRY.as_nanos() + 1;
        self.wake_at(since + RETRY * u32::try_from(times).unwrap_or(u32::MAX), index, queue);
    }
    /// Resets the wait before refused bundles are offered.
    pub fn asks(&mut self) {
        (self.needs, self.asking_since) = (u64::MAX, None);
    }
    /// Takes a refused bundle to offer again: its offset and size.
    pub fn take_refused(&mut self) -> Option<(u64, u64)> {
        self.again.pop_front()
    }
    /// Results of the entry in a run that ended at this time.
    pub fn outcome(&self, ended: Instant) -> TrafficOutcome {
        TrafficOutcome { offered: self.offered(ended), ..self.outcome.clone() }
    }
    /// Number of bundles due by this time. Where the window is full of refused ones, later ones are not even drawn.
    fn offered(&self, ended: Instant) -> u64 {
        let start = Instant::ZERO + self.traffic.start;
        if ended < start {
            return self.plan.next;
        }
        match self.pace() {
            Pace::Flat => self.total,
            Pace::Interval(interval) if !interval.is_zero() => {
                let passed = (ended - start).as_nanos() / interval.as_nanos();
                u64::try_from(passed).map_or(self.total, |passed| self.total.min(passed.saturating_add(1)))
            }
            _ => {
                let mut plan = self.plan.clone();
                while self.due_in(&plan).is_some_and(|due| due <= ended) {
                    plan.draw(&self.traffic.kind, self.outcome.file_bytes);
                }
                plan.next
            }
        }
        .max(self.plan.next)
    }
    /// Records a bundle handed to the node.
    pub fn sent(&mut self, request: RequestId, offset: u64, size: u64) {
        self.open.insert(request, (offset, size));
    }
    /// Whether everything was sent and has arrived or been given up.
    pub fn is_complete(&self) -> bool {
        self.plan.next == self.total && self.outcome.delivered + self.lost >= self.total
    }

    /// Time at which the next bundle is due; `None` at the end.
    pub fn due(&self) -> Option<Instant> {
        self.due_in(&self.plan)
    }
    fn pace(&self) -> Pace {
        match self.traffic.kind {
            TrafficKind::File { pace, .. } | TrafficKind::Bundles { pace, .. } => pace,
            TrafficKind::Ping { interval, .. } => Pace::Interval(interval),
        }
    }
    fn due_in(&self, plan: &TrafficPlan) -> Option<Instant> {
        if plan.next >= self.total {
            return None;
        }
        let start = Instant::ZERO + self.traffic.start;
        Some(match self.pace() {
            Pace::Flat => start,
            Pace::Rate(rate) => start + rate.time_for(plan.offset),
            Pace::Interval(interval) => {
                let each = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
                start + Duration::from_nanos(each.saturating_mul(plan.next))
            }
        })
    }

    /// Draws offset and size of the next bundle.
    pub fn draw(&mut self) -> (u64, u64) {
        self.plan.draw(&self.traffic.kind, self.outcome.file_bytes)
    }

    /// Request for the bundle with this offset and size.
    pub fn request(&self, offset: u64, size: u64) -> SendRequest {
        let mut payload = Payload::new();
        payload.push(Chunk::Fill { seed: self.fill, offset, len: size });
        self.request_with(payload)
    }

    /// Request for a bundle with this payload.
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

    fn place_of(&self, payload: &Payload) -> Option<u64> {
        // A generated payload knows its offset, and its seed shows whether this entry sent it.
        if let [Chunk::Fill { seed, offset, .. }] = payload.chunks() {
            return Some(*offset).filter(|_| *seed == self.fill);
        }
        // A payload read from disk, in full or in part, has lost its pattern; several bundles may have its length.
        let mut plan = self.plan.begun_anew();
        let drawn = (0..self.plan.next).map(|_| plan.draw(&self.traffic.kind, self.outcome.file_bytes));
        drawn
            .filter(|(_, size)| *size == payload.len())
            .map(|(offset, _)| offset)
            .find(|offset| self.is_at(payload, *offset))
    }
    fn is_at(&self, payload: &Payload, start: u64) -> bool {
        // Returns whether the payload equals the content that the entry sends at that offset.
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

    /// Request that the node has not answered yet.
    pub fn unanswered(&self, request: RequestId) -> Option<SendRequest> {
        self.open.get(&request).map(|(offset, size)| self.request(*offset, *size))
    }
    /// Handles the node's answer; a refusal may carry the free space that the bundle needs.
    pub fn on_result(
        &mut self,
        now: Instant,
        index: usize,
        request: RequestId,
        result: Result<(), Option<u64>>,
        queue: &mut Queue,
    ) {
        // A sender that only waits until its next bundle is due already has its alarm set.
        let waits = !self.window_open(0) || !self.again.is_empty();
        let Some(bundle) = self.open.remove(&request) else { return };
        if let Err(needs) = result {
            // Push-back: the node is full, and the application waits, as a real program would.
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

    /// Handles the kill of the node: unanswered bundles are offered again.
    pub fn lose(&mut self) {
        self.again.extend(std::mem::take(&mut self.open).into_values());
    }

    /// Checks a delivered payload; `again` marks a delivery that may repeat one before a crash. Returns the number of
    /// new deliveries, 0 or 1.
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
        // Complete only if every offset arrived exactly once, undamaged.
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
