//! Time of one turn of a node that holds very many bundles: a flapping link, starts and ends of contacts, and a hundred
//! thousand bundles that expire at once. Prints a table.
//!
//! `cargo run --release -p farlink-stack --example turns [bundles]`

use farlink_base::layer::Ticket;
use farlink_base::{
    Accel, BundleMeta, Clock, CreationTimestamp, DataVolume, DtnTime, Duration, EndpointId, Facts, HopState, Instant,
    LinkId, Payload, Priority,
};
use farlink_bundle::{CrcType, v7};
use farlink_routing::PlanIndex;
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, MessageInput, MessageOutput, Output, Stack,
    StoreKind,
};
use std::sync::Arc;

const EPOCH: DtnTime = DtnTime(800_000_000_000);

/// Processor seconds of this thread, without other load on the machine.
fn cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

struct Turns {
    stack: Stack,
    now: Instant,
    worst: f64,
    total: f64,
    count: u64,
    deleted: u64,
    verdicts: u64,
}

impl Turns {
    fn tell(&mut self, input: Input) {
        let (mut deleted, mut verdicts) = (0, 0);
        let begun = cpu();
        let mut sink = farlink_base::FnSink(|output: Output| match output {
            Output::Event(farlink_base::Event::Deleted { .. }) => deleted += 1,
            Output::Message(MessageOutput::Verdict { result: Ok(()), .. }) => verdicts += 1,
            _ => {}
        });
        self.stack.handle(self.now, input, &mut sink);
        let took = cpu() - begun;
        self.worst = self.worst.max(took);
        self.total += took;
        self.count += 1;
        self.deleted += deleted;
        self.verdicts += verdicts;
    }
    /// Wakes the node until it has nothing to do before `until`.
    fn run(&mut self, until: Instant) {
        while let Some(next) = self.stack.next_timeout().filter(|t| *t <= until) {
            self.now = self.now.max(next);
            self.tell(Input::Wake);
        }
        self.now = until;
    }
    fn report(&mut self, what: &str) {
        println!(
            "{what:44} {:>9} turns {:>9.1} ms in all {:>8.3} ms the longest",
            self.count,
            self.total * 1e3,
            self.worst * 1e3
        );
        (self.worst, self.total, self.count) = (0.0, 0.0, 0);
    }
}

fn stack(router: &str) -> Stack {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    config.layers = vec![LayerConfig { name: "layer".into(), kind: LayerKind::Message }];
    let link = |n: u64| LinkConfig {
        name: format!("to{n}"),
        peer: EndpointId::ipn(n, 0),
        layer: 0,
        rate: None,
        one_way_delay: Duration::ZERO,
        terms: Default::default(),
        params: LinkParams::Message { wire_bytes_per_million: 1_000_000 },
    };
    config.links = (2..5).map(link).collect();
    config.keep_in(StoreKind::Memory, DataVolume(1 << 50));
    let mut text = String::new();
    for n in 0..1000 {
        let start = 1000 + 10 * n;
        text += &format!("contact 1 4 +{start}..+{} rate 1 Mbit/s\n", start + 5);
    }
    config.plan = Some(Arc::new(PlanIndex::new(farlink_routing::contact_plan::parse(&text).unwrap().plan)));
    config.router = router.into();
    Stack::new(config).unwrap()
}

fn bundle(sequence: u64, lifetime_ms: u64) -> Arc<BundleMeta> {
    let draft = v7::BundleDraft {
        source: EndpointId::ipn(2, 1),
        destination: EndpointId::ipn(9 + sequence % 5, 1),
        facts: Facts::default(),
        lifetime_ms,
        priority: Priority::Normal,
        ..v7::BundleDraft::default()
    };
    let creation = CreationTimestamp { time: EPOCH, sequence };
    Arc::new(v7::make(&draft, creation, Payload::fill(sequence, 1000), CrcType::None, &Accel::default()))
}

fn main() {
    let bundles: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    for router in ["static", "sabr", "epidemic"] {
        let mut turns = Turns {
            stack: stack(router),
            now: Instant::ZERO,
            worst: 0.0,
            total: 0.0,
            count: 0,
            deleted: 0,
            verdicts: 0,
        };
        turns.tell(Input::Clock(Clock { at: Instant::ZERO, utc: Some(EPOCH), error_ms: 0 }));
        turns.tell(Input::LinkDown { link: LinkId(1) });
        turns.report(router);
        for n in 0..bundles {
            // A tenth expires within 16 ms at t+600 s.
            let lifetime_ms = if n % 10 == 0 { 600_000 + n % 16 } else { 86_400_000 };
            let (bundle, hop) = (bundle(n, lifetime_ms), Box::new(HopState::default()));
            turns.tell(Input::Message(MessageInput::Arrived { link: LinkId(0), ticket: Ticket(n), bundle, hop }));
        }
        turns.report("  bundles arrive");
        for n in 0..1000 {
            turns.run(Instant(1_000_000 * (n + 1)));
            let link = LinkId(1);
            turns.tell(if n % 2 == 0 { Input::LinkUp { link } } else { Input::LinkDown { link } });
        }
        turns.run(Instant(10_000_000_000));
        turns.report("  a link flaps 1,000 times");
        turns.run(Instant(599_000_000_000));
        turns.report("  until then");
        turns.run(Instant(601_000_000_000));
        turns.report("  a tenth of all expire at once");
        assert!(turns.deleted >= bundles.div_ceil(10));
        assert_eq!(turns.verdicts, bundles);
        turns.run(Instant(12_000_000_000_000));
        turns.report("  1,000 contacts pass");
        println!("  {} held", turns.stack.status(turns.now).bundles);
    }
}
