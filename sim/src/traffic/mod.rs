//! Applications: they send the scenario's traffic, receive bundles and answer pings.
//!
//! Traffic entry `n` sends from service [`SENDER_SERVICE`]` + n` of its node, so that a bundle identifies its entry.
//!
//! A sender whose node is full retries every tenth of a second. If free space is the only criterion, repeated refusals
//! are not simulated: the sender retries after space became free, at the time at which it would have retried anyway.

mod entry;

pub use entry::TrafficOutcome;

use crate::sim_event::Queue;
use entry::Entry;
use farlink_base::{ConfigError, Instant, Refusal};
use farlink_bpa::app::{AppInput, AppOutput, Delivery, RegistrationId, RequestId, SendRequest};
use farlink_bundle::EndpointId;
use farlink_scenario::{SENDER_SERVICE, Scenario, TrafficKind};
use farlink_stack::Input;
use std::collections::{HashMap, HashSet, VecDeque};

/// Number of the low bits of a request number that hold the index of the traffic entry.
const ENTRY_BITS: u32 = 24;
/// Window of a receiver: greatest number of deliveries that await its answer.
const WINDOW: u32 = 64;

/// Inputs for nodes: (node, input).
type Todo = VecDeque<(usize, Input)>;

/// Applications of all nodes.
pub(crate) struct Applications {
    entries: Vec<Entry>,
    /// Index of the entry that sends from each endpoint.
    by_source: HashMap<EndpointId, usize>,
    /// Number of leading entries that are complete.
    complete: usize,
    /// Bundles delivered so far, of all entries.
    delivered: u64,
    /// Registered endpoints with their nodes; the index is the registration number.
    registered: Vec<(usize, EndpointId)>,
    /// Per node, the entries whose sender waits for space there.
    waiting: Vec<Vec<usize>>,
    requests: u64,
}

impl Applications {
    pub fn new(scenario: &Scenario) -> Result<Applications, ConfigError> {
        let mut entries = Vec::new();
        let (mut registered, mut known) = (Vec::new(), HashSet::new());
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let service = SENDER_SERVICE + index as u32;
            let endpoint = |node: usize, service: u32| crate::naming::endpoint(&scenario.nodes[node], service);
            let (source, destination) = (endpoint(traffic.from, service)?, endpoint(traffic.to, traffic.service)?);
            if known.insert((traffic.to, destination.clone())) {
                registered.push((traffic.to, destination.clone()));
            }
            if matches!(traffic.kind, TrafficKind::Ping { .. }) {
                registered.push((traffic.from, source.clone()));
            }
            entries.push(Entry::new(scenario, index, traffic.clone(), source, destination)?);
        }
        let by_source = entries.iter().enumerate().map(|(index, e)| (e.source.clone(), index)).collect();
        let waiting = vec![Vec::new(); scenario.nodes.len()];
        Ok(Applications { entries, by_source, complete: 0, delivered: 0, registered, waiting, requests: 0 })
    }

    /// Registrations, which nodes receive before anything else.
    pub fn registrations(&self) -> Vec<(usize, Input)> {
        let register = |(index, (node, endpoint)): (usize, &(usize, EndpointId))| {
            let registration = RegistrationId(index as u64);
            let input = AppInput::Register { registration, endpoint: endpoint.clone(), window: WINDOW };
            (*node, Input::App(input))
        };
        self.registered.iter().enumerate().map(register).collect()
    }

    /// Registrations of a restarted node; its applications also resume sending.
    pub fn begin_again(&mut self, now: Instant, node: usize, queue: &mut Queue) -> Vec<(usize, Input)> {
        self.waiting[node].clear();
        for (index, entry) in self.entries.iter_mut().enumerate().filter(|(_, entry)| entry.traffic.from == node) {
            entry.asks();
            let start = Instant::ZERO + entry.traffic.start;
            entry.wake_at(now.max(start), index, queue);
        }
        self.registrations().into_iter().filter(|(of, _)| *of == node).collect()
    }
    /// Handles the kill of a node: unanswered bundles will be offered again after its restart.
    pub fn lose(&mut self, node: usize) {
        self.entries.iter_mut().filter(|entry| entry.traffic.from == node).for_each(Entry::lose);
    }

    /// Schedules the start of each entry.
    pub fn start(&mut self, queue: &mut Queue) {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            entry.wake_at(Instant::ZERO + entry.traffic.start, index, queue);
        }
    }

    /// Skips the wake-up of an entry whose node is down.
    pub fn pass(&mut self, index: usize) {
        self.entries[index].woke();
    }
    /// Node that an entry sends from.
    pub fn sender(&self, index: usize) -> usize {
        self.entries[index].traffic.from
    }
    /// Whether a sender waits for space at a node.
    pub fn waits(&self, node: usize) -> bool {
        !self.waiting[node].is_empty()
    }
    /// Retries the waiting senders of a node whose free space may have grown. `room` is that space; `None` if space is
    /// not the only criterion.
    pub fn look(&mut self, now: Instant, node: usize, room: Option<u64>, queue: &mut Queue) {
        let entries = &mut self.entries;
        self.waiting[node].retain(|&index| {
            let waits = entries[index].waits_for_room(room);
            if !waits {
                entries[index].ask_again(now, index, queue);
            }
            waits
        });
    }

    /// Handles the wake-up of an entry: sends as much as it may and schedules its next wake-up. `room` is the node's
    /// free space; `None` if space is not the only criterion.
    pub fn tick(&mut self, now: Instant, index: usize, room: Option<u64>, queue: &mut Queue, todo: &mut Todo) {
        let entry = &mut self.entries[index];
        entry.woke();
        let in_vain = entry.waits_for_room(room);
        let waiting = &mut self.waiting[entry.traffic.from];
        if !in_vain {
            entry.asks();
        } else if entry.wait(now) && !waiting.contains(&index) {
            waiting.push(index);
        }
        // Bundles that would be refused again keep their places in the window.
        let besides = if in_vain { entry.refused() } else { 0 };
        while entry.window_open(besides) {
            let refused = if in_vain { None } else { entry.take_refused() };
            let Some((offset, size)) = refused.or_else(|| {
                let due = entry.due()?;
                if due > now {
                    entry.wake_at(due, index, queue);
                    return None;
                }
                Some(entry.draw())
            }) else {
                return;
            };
            let request = RequestId(self.requests << ENTRY_BITS | index as u64);
            self.requests += 1;
            entry.sent(request, offset, size);
            let bundle = entry.request(offset, size);
            todo.push_back((entry.traffic.from, Input::App(AppInput::Send { request, bundle })));
        }
    }

    /// Handles an application output of a node. `needs` computes the free space that a request needs, if space is the
    /// criterion.
    pub fn on_output(
        &mut self,
        now: Instant,
        node: usize,
        needs: impl FnOnce(SendRequest) -> Option<u64>,
        output: AppOutput,
        queue: &mut Queue,
        todo: &mut Todo,
    ) {
        match output {
            AppOutput::Registered { .. } => {}
            AppOutput::SendResult { request, result } => {
                let index = (request.0 & ((1 << ENTRY_BITS) - 1)) as usize;
                // The request that sends the answer to a ping has a number without an entry; its result needs no
                // handling.
                if let Some(entry) = self.entries.get_mut(index) {
                    let result = result.map(|_| ()).map_err(|why| match why {
                        Refusal::NoResources | Refusal::TooLarge => entry.unanswered(request).and_then(needs),
                        _ => None,
                    });
                    entry.on_result(now, index, request, result, queue);
                }
            }
            AppOutput::Deliver { registration, delivery, bundle } => {
                // Applications take every delivery at once.
                let done = AppInput::DeliveryDone { registration, delivery, taken: true };
                todo.push_back((node, Input::App(done)));
                if let Some(answer) = self.deliver(now, node, &bundle) {
                    todo.push_back((node, Input::App(answer)));
                }
            }
        }
    }

    fn deliver(&mut self, now: Instant, node: usize, bundle: &Delivery) -> Option<AppInput> {
        // A bundle from an entry's source is a ping's request or data; a bundle to that endpoint is the answer to a
        // ping. Other bundles belong to no entry.
        let sender = self.by_source.get(&bundle.source).map(|index| &mut self.entries[*index]);
        if let Some(entry) = sender.filter(|entry| entry.traffic.to == node) {
            if !matches!(entry.traffic.kind, TrafficKind::Ping { .. }) {
                self.delivered += entry.arrive(now, &bundle.payload, bundle.redelivered);
                return None;
            }
            let reply = SendRequest {
                source: bundle.destination.clone(),
                destination: bundle.source.clone(),
                ..entry.request_with(bundle.payload.clone())
            };
            return Some(AppInput::Send { request: RequestId(u64::MAX), bundle: reply });
        }
        if let Some(index) = self.by_source.get(&bundle.destination) {
            self.delivered += self.entries[*index].arrive(now, &bundle.payload, bundle.redelivered);
        }
        None
    }

    /// Whether everything was sent and arrived; never true without traffic.
    pub fn all_delivered(&mut self) -> bool {
        while self.entries.get(self.complete).is_some_and(Entry::is_complete) {
            self.complete += 1;
        }
        !self.entries.is_empty() && self.complete == self.entries.len()
    }
    pub fn delivered(&self) -> u64 {
        self.delivered
    }
    /// Results of all entries in a run that ended at this time.
    pub fn outcomes(&self, ended: Instant) -> Vec<TrafficOutcome> {
        self.entries.iter().map(|entry| entry.outcome(ended)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::entry::RETRY;
    use super::*;
    use crate::sim_event::SimEvent;
    use farlink_base::Payload;

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

    fn sends(applications: &mut Applications, until: u64) -> Vec<(u64, u64)> {
        // Every send is accepted at once; returns its time in milliseconds and size.
        let (mut queue, mut sent) = (Queue::new(), Vec::new());
        applications.start(&mut queue);
        while let Some((at, happening)) = queue.pop_due(Instant(until)) {
            let SimEvent::Traffic(index) = happening else { continue };
            let mut todo = VecDeque::new();
            applications.tick(at, index, None, &mut queue, &mut todo);
            for (_, input) in todo {
                let Input::App(AppInput::Send { request, bundle }) = input else { panic!("a send") };
                sent.push((at.0 / 1_000_000, bundle.payload.len()));
                applications.entries[0].on_result(at, 0, request, Ok(()), &mut queue);
            }
        }
        sent
    }

    #[test]
    fn bundles_are_due_at_pace() {
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
    fn full_node_is_retried_within_window() {
        let mut apps = applications("window = 2\nbundles = { count = 5, size = \"9 B\" }");
        let (mut queue, mut todo) = (Queue::new(), VecDeque::new());
        apps.tick(Instant::ZERO, 0, None, &mut queue, &mut todo);
        assert_eq!(todo.len(), 2);
        apps.entries[0].on_result(Instant::ZERO, 0, RequestId(0), Err(None), &mut queue);
        assert_eq!(queue.next_deadline(), Some(Instant::ZERO + RETRY));
        let (at, _) = queue.pop_due(Instant::MAX).unwrap();
        todo.clear();
        apps.tick(at, 0, None, &mut queue, &mut todo);
        assert_eq!((todo.len(), apps.entries[0].outcome.refused), (1, 1));
        assert!(!apps.all_delivered());
    }

    #[test]
    fn lossy_traffic_drops_refused_bundles() {
        let mut apps = applications("refused = \"lost\"\nwindow = 1\nbundles = { count = 2, size = \"9 B\" }");
        let (mut queue, mut todo) = (Queue::new(), VecDeque::new());
        for number in 0..2 {
            apps.tick(Instant::ZERO, 0, Some(5), &mut queue, &mut todo);
            assert_eq!((todo.len(), apps.entries[0].refused(), apps.waits(0)), (number + 1, 0, false));
            let request = RequestId((number as u64) << ENTRY_BITS);
            apps.entries[0].on_result(Instant::ZERO, 0, request, Err(Some(9)), &mut queue);
        }
        let outcome = &apps.entries[0].outcome;
        assert_eq!((outcome.refused, outcome.created), (2, 0));
        assert_eq!(apps.outcomes(Instant(9))[0].offered, 2);
        assert!(apps.all_delivered(), "nothing is left to deliver");
    }

    #[test]
    fn bundles_behind_a_refused_one_are_offered() {
        let mut apps = applications("window = 1\nbundles = { count = 5, size = \"9 B\" }");
        let (mut queue, mut todo) = (Queue::new(), VecDeque::new());
        apps.tick(Instant::ZERO, 0, Some(0), &mut queue, &mut todo);
        apps.entries[0].on_result(Instant::ZERO, 0, RequestId(0), Err(Some(9)), &mut queue);
        assert_eq!((apps.outcomes(Instant(9))[0].offered, apps.entries[0].refused()), (5, 1));
        let offered = |more: &str, seconds: u64| {
            let apps = applications(&format!("start = \"2 s\"\nbundles = {{ count = 50, size = \"9 B\"{more} }}"));
            apps.outcomes(Instant(seconds * 1_000_000_000))[0].offered
        };
        let slow = [1, 2, 3, 4, 900].map(|seconds| offered(", interval = \"1 s\"", seconds));
        assert_eq!(slow, [0, 1, 2, 3, 50], "one is due at the start, and one at the end");
        assert_eq!([1, 2, 3, 4].map(|seconds| offered(", rate = \"72 bit/s\"", seconds)), [0, 1, 2, 3]);
        assert_eq!([1, 2].map(|seconds| offered("", seconds)), [0, 50]);
    }

    #[test]
    fn freed_room_retries_at_backoff_time() {
        let mut apps = applications("bundles = { count = 3, size = \"9 B\" }");
        let (mut queue, mut todo) = (Queue::new(), VecDeque::new());
        let at = |ms: u64| Instant(ms * 1_000_000);
        apps.tick(at(7), 0, Some(5), &mut queue, &mut todo);
        for (number, needs) in [6, 4, 5].into_iter().enumerate() {
            let request = RequestId((number as u64) << ENTRY_BITS);
            apps.entries[0].on_result(at(7), 0, request, Err(Some(needs)), &mut queue);
        }
        assert_eq!(queue.pop_due(Instant::MAX).map(|(at, _)| at), Some(at(107)));
        todo.clear();
        assert!(!apps.waits(0));
        apps.tick(at(107), 0, Some(3), &mut queue, &mut todo);
        assert_eq!((todo.len(), queue.len(), apps.waits(0)), (0, 0, true), "all would be refused");
        // A check with too little space must neither retry nor set an alarm.
        apps.look(at(250), 0, Some(2), &mut queue);
        assert_eq!((queue.len(), apps.waits(0)), (0, true));
        apps.look(at(251), 0, Some(4), &mut queue);
        // The retry keeps its rhythm of 100 ms since time 7.
        assert_eq!((queue.next_deadline(), apps.waits(0)), (Some(at(307)), false));
        let _ = queue.pop_due(Instant::MAX);
        apps.tick(at(307), 0, Some(4), &mut queue, &mut todo);
        assert_eq!(todo.len(), 3, "each in its turn");
    }

    #[test]
    fn other_refusals_retry_regardless_of_room() {
        let mut apps = applications("bundles = { count = 2, size = \"9 B\" }");
        let (mut queue, mut todo) = (Queue::new(), VecDeque::new());
        apps.tick(Instant::ZERO, 0, Some(5), &mut queue, &mut todo);
        for (number, why) in [Refusal::NoResources, Refusal::NotAcceptable].into_iter().enumerate() {
            let request = RequestId((number as u64) << ENTRY_BITS);
            let refused = AppOutput::SendResult { request, result: Err(why) };
            apps.on_output(Instant::ZERO, 0, |wanted| Some(wanted.payload.len() + 50), refused, &mut queue, &mut todo);
        }
        let (at, _) = queue.pop_due(Instant::MAX).unwrap();
        todo.clear();
        apps.tick(at, 0, Some(5), &mut queue, &mut todo);
        assert_eq!((at, todo.len(), apps.waits(0)), (Instant::ZERO + RETRY, 2, false));
    }

    #[test]
    fn paced_sender_sets_one_alarm_each() {
        let mut apps = applications(r#"bundles = { count = 500, size = "9 B", interval = "1 s" }"#);
        let (mut queue, mut alarms) = (Queue::new(), 0);
        apps.start(&mut queue);
        while let Some((at, _)) = queue.pop_due(Instant::MAX) {
            alarms += 1;
            let mut todo = VecDeque::new();
            apps.tick(at, 0, None, &mut queue, &mut todo);
            for (_, input) in todo {
                let Input::App(AppInput::Send { request, .. }) = input else { panic!("a send") };
                apps.entries[0].on_result(at, 0, request, Ok(()), &mut queue);
                assert!(queue.len() <= 1);
            }
        }
        assert_eq!((alarms, apps.entries[0].outcome.created), (500, 500));
    }

    #[test]
    fn file_needs_every_part_once() {
        let mut apps = applications(r#"file = { size = "25 kB", bundle_size = "10 kB" }"#);
        let entry = &mut apps.entries[0];
        let parts: Vec<Payload> = (0..3)
            .map(|_| {
                let (offset, size) = entry.draw();
                entry.request(offset, size).payload
            })
            .collect();
        entry.arrive(Instant(1), &parts[2], false);
        entry.arrive(Instant(2), &parts[0], false);
        assert_eq!(entry.outcome.complete_at, None);
        entry.arrive(Instant(3), &parts[1], false);
        assert_eq!(entry.outcome.complete_at, Some(Instant(3)));
        entry.arrive(Instant(4), &parts[1], true);
        assert_eq!(entry.outcome.complete_at, Some(Instant(3)), "what may have come before a crash, and has");
        entry.arrive(Instant(4), &parts[1], false);
        assert_eq!(entry.outcome.complete_at, None, "a part came twice");
        entry.arrive(Instant(5), &Payload::fill(1, 10_000), false);
        assert_eq!(entry.outcome.damaged, 1);
    }

    #[test]
    fn restored_content_is_recognized() {
        let mut apps = applications(r#"bundles = { count = 50, size = ["0 B", "300 B"], interval = "1 s" }"#);
        let entry = &mut apps.entries[0];
        let sent: Vec<Payload> = (0..50)
            .map(|_| {
                let (offset, size) = entry.draw();
                entry.request(offset, size).payload
            })
            .collect();
        for payload in &sent {
            let read = Payload::from(payload.to_bytes().unwrap());
            entry.arrive(Instant(1), &read, false);
            let (start, rest) = (read.len() / 2, read.len() - read.len() / 2);
            let mut joined = read.slice(0, start);
            joined.append(payload.slice(start, rest));
            entry.arrive(Instant(2), &joined, true);
        }
        // A repetition is recognized by its content, so each empty payload counts as another delivery.
        let empty = sent.iter().filter(|payload| payload.is_empty()).count() as u64;
        assert_eq!((entry.outcome.damaged, entry.outcome.delivered), (0, 50 + empty));
        let mut wrong = sent.iter().find(|payload| !payload.is_empty()).unwrap().to_bytes().unwrap().to_vec();
        wrong[0] ^= 1;
        entry.arrive(Instant(3), &Payload::from(farlink_base::Bytes::from(wrong)), false);
        assert_eq!(entry.outcome.damaged, 1);
    }

    #[test]
    fn unanswered_bundles_are_reoffered_after_kill() {
        let mut apps = applications("window = 3\nbundles = { count = 3, size = \"9 B\" }");
        let (mut queue, mut todo) = (Queue::new(), VecDeque::new());
        apps.tick(Instant::ZERO, 0, None, &mut queue, &mut todo);
        apps.entries[0].on_result(Instant::ZERO, 0, RequestId(0), Ok(()), &mut queue);
        apps.lose(1);
        apps.lose(0);
        todo.clear();
        assert!(matches!(queue.pop_due(Instant::MAX), Some((_, SimEvent::Traffic(0)))));
        apps.pass(0);
        assert!(apps.begin_again(Instant(7), 1, &mut queue).len() == 1 && queue.is_empty(), "the receiver");
        assert_eq!(apps.begin_again(Instant(9), 0, &mut queue).len(), 0);
        assert_eq!(queue.pop_due(Instant::MAX).map(|(at, _)| at), Some(Instant(9)));
        apps.tick(Instant(9), 0, None, &mut queue, &mut todo);
        assert_eq!((todo.len(), apps.entries[0].outcome.created), (2, 1));
    }
}
