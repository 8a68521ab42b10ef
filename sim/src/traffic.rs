//! The applications: they send what the scenario's traffic says, take what arrives, answer pings.
//!
//! Traffic entry `n` sends from service [`FIRST_SERVICE`]` + n` of its node, so that a bundle tells
//! which entry it belongs to.

use crate::world::{Happening, Queue};
use farlink_base::{Chunk, ConfigError, DataVolume, Duration, Instant, Payload, Rng};
use farlink_bpa::app::{AppInput, AppOutput, Delivery, RegistrationId, RequestId, SendRequest};
use farlink_bundle::EndpointId;
use farlink_scenario::{Pace, Scenario, Traffic, TrafficKind};
use farlink_stack::Input;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Service number that traffic entry 0 sends from.
pub(crate) const FIRST_SERVICE: u32 = 10_000;
/// Low bits of a request's number that tell the traffic entry.
const ENTRY_BITS: u32 = 24;
/// Deliveries a receiver takes at once.
const WINDOW: u32 = 64;
/// Bundles a sender keeps unanswered where the scenario does not limit them: as many as the
/// testbed's sender does.
const SEND_WINDOW: u32 = 64;
/// A sender whose node is full tries again after this.
const RETRY: Duration = Duration::from_millis(100);

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
    rng: Rng,
    /// Bytes before this bundle.
    offset: u64,
    next: u64,
}

struct Entry {
    traffic: Traffic,
    source: EndpointId,
    destination: EndpointId,
    /// Pattern of the content.
    fill: u64,
    total: u64,
    plan: Plan,
    /// Sizes and offsets of bundles drawn but not accepted yet, by request.
    open: BTreeMap<RequestId, (u64, u64)>,
    /// Refused and to be offered again.
    again: VecDeque<(u64, u64)>,
    /// Offsets of bundles that arrived.
    arrived: BTreeSet<u64>,
    outcome: TrafficOutcome,
}

/// All applications of all nodes.
pub(crate) struct Applications {
    entries: Vec<Entry>,
    /// Registered endpoints: node, endpoint; the place is the registration.
    registered: Vec<(usize, EndpointId)>,
    requests: u64,
}

impl Applications {
    pub fn new(scenario: &Scenario) -> Result<Applications, ConfigError> {
        let mut entries = Vec::new();
        let mut registered = Vec::new();
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let service = FIRST_SERVICE + index as u32;
            let endpoint = |node: usize, service: u32| crate::build::endpoint(&scenario.nodes[node], service);
            let (source, destination) = (endpoint(traffic.from, service)?, endpoint(traffic.to, traffic.service)?);
            if !registered.contains(&(traffic.to, destination.clone())) {
                registered.push((traffic.to, destination.clone()));
            }
            if matches!(traffic.kind, TrafficKind::Ping { .. }) {
                registered.push((traffic.from, source.clone()));
            }
            entries.push(Entry::new(scenario, index, traffic.clone(), source, destination)?);
        }
        Ok(Applications { entries, registered, requests: 0 })
    }

    /// What the nodes are told before anything else.
    pub fn registrations(&self) -> Vec<(usize, Input)> {
        let register = |(index, (node, endpoint)): (usize, &(usize, EndpointId))| {
            let registration = RegistrationId(index as u64);
            let input = AppInput::Register { registration, endpoint: endpoint.clone(), window: WINDOW };
            (*node, Input::App(input))
        };
        self.registered.iter().enumerate().map(register).collect()
    }

    /// When each entry begins.
    pub fn starts(&self) -> Vec<(usize, Instant)> {
        self.entries.iter().enumerate().map(|(index, e)| (index, Instant::ZERO + e.traffic.start)).collect()
    }

    /// Sends what an entry may send now, and sets the time for the next.
    pub fn tick(&mut self, now: Instant, index: usize, queue: &mut Queue, todo: &mut VecDeque<(usize, Input)>) {
        let entry = &mut self.entries[index];
        while entry.window_open() {
            let Some((offset, size)) = entry.again.pop_front().or_else(|| {
                let due = entry.due()?;
                if due > now {
                    queue.arm(due, Happening::Traffic(index));
                    return None;
                }
                Some(entry.draw())
            }) else {
                return;
            };
            let request = RequestId(self.requests << ENTRY_BITS | index as u64);
            self.requests += 1;
            entry.open.insert(request, (offset, size));
            let bundle = entry.request(offset, size);
            todo.push_back((entry.traffic.from, Input::App(AppInput::Send { request, bundle })));
        }
    }

    /// What applications of a node do about what it says.
    pub fn on_output(&mut self, now: Instant, node: usize, output: AppOutput, queue: &mut Queue) -> Vec<AppInput> {
        match output {
            AppOutput::Registered { .. } => Vec::new(),
            AppOutput::SendResult { request, result } => {
                let index = (request.0 & ((1 << ENTRY_BITS) - 1)) as usize;
                // The answer to a ping has a number without an entry: nobody waits for it.
                if let Some(entry) = self.entries.get_mut(index) {
                    entry.on_result(now, index, request, result.is_ok(), queue);
                }
                Vec::new()
            }
            AppOutput::Deliver { registration, delivery, bundle } => {
                let mut answers = vec![AppInput::DeliveryDone { registration, delivery, taken: true }];
                answers.extend(self.deliver(now, node, &bundle));
                answers
            }
        }
    }

    /// Takes a delivery; a ping is answered.
    fn deliver(&mut self, now: Instant, node: usize, bundle: &Delivery) -> Option<AppInput> {
        let request = self.entries.iter_mut().find(|e| e.source == bundle.source && e.traffic.to == node);
        if let Some(entry) = request {
            if !matches!(entry.traffic.kind, TrafficKind::Ping { .. }) {
                entry.arrive(now, &bundle.payload);
                return None;
            }
            let reply = SendRequest {
                source: bundle.destination.clone(),
                destination: bundle.source.clone(),
                ..entry.request_with(bundle.payload.clone())
            };
            return Some(AppInput::Send { request: RequestId(u64::MAX), bundle: reply });
        }
        if let Some(entry) = self.entries.iter_mut().find(|e| e.source == bundle.destination) {
            entry.arrive(now, &bundle.payload);
        }
        None
    }

    /// Whether everything was sent and arrived; never without traffic.
    pub fn all_delivered(&self) -> bool {
        !self.entries.is_empty()
            && self.entries.iter().all(|e| e.plan.next == e.total && e.outcome.delivered >= e.total)
    }
    /// Bundles delivered so far.
    pub fn delivered(&self) -> u64 {
        self.entries.iter().map(|e| e.outcome.delivered).sum()
    }
    /// What became of each entry.
    pub fn outcomes(&self) -> Vec<TrafficOutcome> {
        self.entries.iter().map(|entry| entry.outcome.clone()).collect()
    }
}

impl Entry {
    fn new(
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
            plan: Plan { rng, offset: 0, next: 0 },
            open: BTreeMap::new(),
            again: VecDeque::new(),
            arrived: BTreeSet::new(),
            outcome,
        })
    }

    fn window_open(&self) -> bool {
        let window = if self.traffic.window > 0 { self.traffic.window } else { SEND_WINDOW };
        self.open.len() < window as usize
    }

    /// When the next bundle is due; `None` when there is none.
    fn due(&self) -> Option<Instant> {
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
    fn draw(&mut self) -> (u64, u64) {
        let offset = self.plan.offset;
        let size = match &self.traffic.kind {
            TrafficKind::File { bundle_size, .. } => {
                bundle_size.bytes().max(1).min(self.outcome.file_bytes.unwrap_or(0).saturating_sub(offset))
            }
            TrafficKind::Bundles { size, .. } => {
                let DataVolume(least) = size.min;
                least + self.plan.rng.below(size.max.bytes().saturating_sub(least) + 1)
            }
            TrafficKind::Ping { size, .. } => size.bytes(),
        };
        self.plan.offset += size;
        self.plan.next += 1;
        (offset, size)
    }

    fn request(&self, offset: u64, size: u64) -> SendRequest {
        let mut payload = Payload::new();
        payload.push(Chunk::Fill { seed: self.fill, offset, len: size });
        self.request_with(payload)
    }

    fn request_with(&self, payload: Payload) -> SendRequest {
        SendRequest {
            source: self.source.clone(),
            destination: self.destination.clone(),
            report_to: EndpointId::Null,
            flags: 0,
            lifetime_ms: u64::try_from(self.traffic.lifetime.as_millis()).unwrap_or(u64::MAX),
            priority: self.traffic.priority,
            hop_limit: 0,
            reliable: true,
            payload,
        }
    }

    fn on_result(&mut self, now: Instant, index: usize, request: RequestId, accepted: bool, queue: &mut Queue) {
        let Some(bundle) = self.open.remove(&request) else { return };
        if accepted {
            self.outcome.created += 1;
            queue.arm(now, Happening::Traffic(index));
        } else {
            // Push-back: the node is full. The application waits, as a person's program would.
            self.outcome.refused += 1;
            self.again.push_back(bundle);
            queue.arm(now + RETRY, Happening::Traffic(index));
        }
    }

    /// Compares what arrived with what was sent.
    fn arrive(&mut self, now: Instant, payload: &Payload) {
        self.outcome.delivered += 1;
        self.outcome.delivered_bytes += payload.len();
        match payload.chunks() {
            [] => {}
            [Chunk::Fill { seed, offset, .. }] if *seed == self.fill => {
                self.arrived.insert(*offset);
            }
            _ => self.outcome.damaged += 1,
        }
        let each_once = self.outcome.delivered == self.total && self.outcome.damaged == 0;
        let whole = self.outcome.file_bytes.is_none_or(|bytes| bytes == self.outcome.delivered_bytes);
        let distinct =
            self.arrived.len() as u64 == self.total || self.outcome.file_bytes.is_none_or(|bytes| bytes == 0);
        self.outcome.complete_at = (each_once && whole && distinct).then_some(now);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn applications(traffic: &str) -> Applications {
        let text = format!(
            r#"
            name = "x"
            duration = "1 min"
            [[node]]
            name = "a"
            id = "ipn:1.0"
            [[node]]
            name = "b"
            id = "dtn://b/"
            [[link]]
            name = "ab"
            between = ["a", "b"]
            layer = "ltp"
            rate = "1 Mbit/s"
            [[traffic]]
            name = "t"
            from = "a"
            to = "b"
            service = 7
            {traffic}
            "#
        );
        Applications::new(&Scenario::parse(&text).unwrap_or_else(|e| panic!("{e:#?}"))).unwrap()
    }

    /// Ticks whenever the queue says so until `until`; every send is accepted at once. Gives the
    /// time and size of each.
    fn sends(applications: &mut Applications, until: u64) -> Vec<(u64, u64)> {
        let (mut queue, mut sent) = (Queue::new(), Vec::new());
        for (index, at) in applications.starts() {
            queue.arm(at, Happening::Traffic(index));
        }
        while let Some((at, happening)) = queue.pop_due(Instant(until)) {
            let Happening::Traffic(index) = happening else { continue };
            let mut todo = VecDeque::new();
            applications.tick(at, index, &mut queue, &mut todo);
            for (_, input) in todo {
                let Input::App(AppInput::Send { request, bundle }) = input else { panic!("a send") };
                sent.push((at.0 / 1_000_000, bundle.payload.len()));
                applications.entries[0].on_result(at, 0, request, true, &mut queue);
            }
        }
        sent
    }

    #[test]
    fn bundles_are_due_at_their_pace() {
        let mut file = applications(r#"file = { size = "25 kB", bundle_size = "10 kB", rate = "80 kbit/s" }"#);
        assert_eq!(sends(&mut file, u64::MAX), [(0, 10_000), (1000, 10_000), (2000, 5000)]);
        let mut flat = applications(r#"bundles = { count = 3, size = "9 B" }"#);
        assert_eq!(sends(&mut flat, u64::MAX), [(0, 9); 3]);
        let mut pings = applications("start = \"1 s\"\nping = { count = 2, interval = \"500 ms\", size = \"8 B\" }");
        assert_eq!(sends(&mut pings, u64::MAX), [(1000, 8), (1500, 8)]);
        let mut drawn = applications(r#"bundles = { count = 100, size = ["1 kB", "2 kB"], interval = "1 ms" }"#);
        let sizes: Vec<u64> = sends(&mut drawn, u64::MAX).into_iter().map(|s| s.1).collect();
        assert!(sizes.iter().all(|s| (1000..=2000).contains(s)) && sizes.iter().any(|s| *s != sizes[0]));
    }

    #[test]
    fn a_full_node_is_asked_again_and_the_window_holds() {
        let mut apps = applications("window = 2\nbundles = { count = 5, size = \"9 B\" }");
        let (mut queue, mut todo) = (Queue::new(), VecDeque::new());
        apps.tick(Instant::ZERO, 0, &mut queue, &mut todo);
        assert_eq!(todo.len(), 2);
        apps.entries[0].on_result(Instant::ZERO, 0, RequestId(0), false, &mut queue);
        assert_eq!(queue.next_deadline(), Some(Instant::ZERO + RETRY));
        let (at, _) = queue.pop_due(Instant::MAX).unwrap();
        todo.clear();
        apps.tick(at, 0, &mut queue, &mut todo);
        assert_eq!((todo.len(), apps.entries[0].outcome.refused), (1, 1));
        assert!(!apps.all_delivered());
    }

    #[test]
    fn a_file_is_complete_only_with_every_part_once() {
        let mut apps = applications(r#"file = { size = "25 kB", bundle_size = "10 kB" }"#);
        let entry = &mut apps.entries[0];
        let parts: Vec<Payload> = (0..3)
            .map(|_| {
                let (offset, size) = entry.draw();
                entry.request(offset, size).payload
            })
            .collect();
        entry.arrive(Instant(1), &parts[2]);
        entry.arrive(Instant(2), &parts[0]);
        assert_eq!(entry.outcome.complete_at, None);
        entry.arrive(Instant(3), &parts[1]);
        assert_eq!(entry.outcome.complete_at, Some(Instant(3)));
        entry.arrive(Instant(4), &parts[1]);
        assert_eq!(entry.outcome.complete_at, None, "a part came twice");
        entry.arrive(Instant(5), &Payload::fill(1, 10_000));
        assert_eq!(entry.outcome.damaged, 1);
    }
}
