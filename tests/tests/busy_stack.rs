//! Memory of a durable node after much traffic: it must shrink to its size before the traffic.

use farlink_base::store::{DiskAction, DiskAnswer, DiskDone, DiskOp};
use farlink_base::{Clock, DataVolume, DtnTime, Duration, EndpointId, Facts, Instant, Payload, Priority};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId, RequestId, SendRequest};
use farlink_stack::{Config, Input, Output, Stack, StoreKind};
use peak_alloc::PeakAlloc;
use std::collections::VecDeque;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// A node whose disk answers every operation with success, but only when the test calls `work`.
struct BusyNode {
    now: Instant,
    stack: Stack,
    disk: VecDeque<DiskOp>,
    apps: VecDeque<Input>,
    requests: u64,
    delivered: u64,
}

impl BusyNode {
    fn new() -> BusyNode {
        let mut config = Config::new(EndpointId::ipn(1, 0));
        config.keep_in(StoreKind::Durable, DataVolume(1 << 30));
        config.node.limits.remembered = 100;
        let stack = Stack::new(config).expect("the configuration is right");
        let (disk, apps) = (VecDeque::new(), VecDeque::new());
        let mut node = BusyNode { now: Instant::ZERO, stack, disk, apps, requests: 0, delivered: 0 };
        let utc = Some(DtnTime(800_000_000_000));
        node.tell(Input::Clock(Clock { at: Instant::ZERO, utc, error_ms: 0 }));
        let endpoint = EndpointId::ipn(1, 7);
        node.tell(Input::App(AppInput::Register { registration: RegistrationId(1), endpoint, window: 100_000 }));
        node.work();
        node
    }
    fn tell(&mut self, input: Input) {
        let mut out: Vec<Output> = Vec::new();
        self.stack.handle(self.now, input, &mut out);
        for output in out {
            match output {
                Output::Disk(operation) => self.disk.push_back(operation),
                Output::App(AppOutput::Deliver { registration, delivery, .. }) => {
                    self.delivered += 1;
                    let done = AppInput::DeliveryDone { registration, delivery, taken: true };
                    self.apps.push_back(Input::App(done));
                }
                _ => {}
            }
        }
    }
    fn turn(&mut self) {
        // Only timers run here: disk operations stay in their queue until `work`.
        while self.stack.next_timeout().is_some_and(|at| at <= self.now) {
            self.tell(Input::Wake);
        }
    }
    /// Sends bundles from one application to another of the same node.
    fn send(&mut self, bundles: u64) {
        for _ in 0..bundles {
            self.requests += 1;
            let bundle = SendRequest {
                source: EndpointId::ipn(1, 8),
                destination: EndpointId::ipn(1, 7),
                report_to: EndpointId::Null,
                facts: Facts::default(),
                lifetime_ms: 1_000_000,
                priority: Priority::Normal,
                hop_limit: 0,
                reliable: true,
                payload: Payload::from(vec![7; 100]),
            };
            self.tell(Input::App(AppInput::Send { request: RequestId(self.requests), bundle }));
            self.turn();
        }
    }
    fn work(&mut self) {
        // Twenty rounds of 50 ms cover every group commit and every answer of an application.
        for _ in 0..20 {
            self.now += Duration::from_millis(50);
            self.turn();
            while let Some(DiskOp { id, action }) = self.disk.pop_front() {
                let answer = match action {
                    DiskAction::List => DiskAnswer::Files(Vec::new()),
                    _ => DiskAnswer::Done,
                };
                self.tell(Input::DiskDone(DiskDone { id, result: Ok(answer) }));
                while let Some(answer) = self.apps.pop_front() {
                    self.tell(answer);
                }
                self.turn();
            }
        }
        assert_eq!((self.delivered, self.stack.status(self.now).bundles), (self.requests, 0));
        // The test's own queues must not count as the node's memory.
        (self.disk, self.apps) = (VecDeque::new(), VecDeque::new());
        self.stack.rest();
    }
}

#[test]
fn busy_node_returns_its_memory() {
    let mut node = BusyNode::new();
    // The first thousand bundles fill tables and pools that stay allocated on purpose.
    node.send(1000);
    node.work();
    let before = MEMORY.current_usage();
    node.send(20_000);
    let busy = MEMORY.current_usage();
    node.work();
    let after = MEMORY.current_usage();
    println!("{before} B, {busy} B, {after} B");
    // The store keeps a list of the deleted bundles in the file being written, 16 B for each.
    let known = 16 * node.requests as usize;
    assert!(busy > before + 5_000_000 && after < before + known, "{before} B, {busy} B, {after} B");
}
