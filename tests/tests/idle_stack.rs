//! What an idle node costs in memory, so that simulations of many thousand nodes fit.

use farlink_base::{Clock, DataVolume, DtnTime, EndpointId, Instant, LinkId, NodeId};
use farlink_cla::ltp;
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, Output, SpanConfig, Stack, StoreConfig, StoreKind,
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const STACKS: usize = 500;

/// A relay with two neighbours over one layer.
fn relay(over: LayerKind, span: fn(u64) -> SpanConfig) -> Stack {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    config.router = "epidemic".into();
    config.store = StoreConfig { kind: StoreKind::Memory, capacity: DataVolume(1 << 20) };
    config.layers = vec![LayerConfig { name: "layer".into(), kind: over }];
    let link = |peer: u64| LinkConfig {
        name: format!("to{peer}"),
        peer: EndpointId::ipn(peer, 0),
        layer: 0,
        rate: None,
        one_way_delay: farlink_base::Duration::from_secs(1),
        span: span(peer),
    };
    config.links = vec![link(2), link(3)];
    Stack::new(config).expect("the configuration is right")
}
fn over_messages() -> Stack {
    relay(LayerKind::Message, |_| SpanConfig::Message { wire_bytes_per_million: 0 })
}
fn over_ltp() -> Stack {
    let ltp = ltp::Config { engine: 1, ..ltp::Config::default() };
    let span =
        |peer| SpanConfig::Ltp(ltp::SpanConfig { engine: peer, node: NodeId::ipn(peer), ..ltp::SpanConfig::default() });
    relay(LayerKind::Ltp(ltp), span)
}

/// Bytes of one of many that were just started.
fn cost(make: fn() -> Stack) -> usize {
    let clock = Clock { at: Instant::ZERO, utc: Some(DtnTime(800_000_000_000)), error_ms: 0 };
    let mut stacks: Vec<Stack> = Vec::with_capacity(STACKS);
    let before = MEMORY.current_usage();
    for _ in 0..STACKS {
        let mut stack = make();
        let mut out: Vec<Output> = Vec::new();
        // Nobody in reach: otherwise it would be greeting.
        for link in [0, 1] {
            stack.handle(Instant::ZERO, Input::LinkDown { link: LinkId(link) }, &mut out);
        }
        stack.handle(Instant::ZERO, Input::Clock(clock), &mut out);
        stacks.push(stack);
    }
    (MEMORY.current_usage() - before) / STACKS + size_of::<Stack>()
}

#[test]
fn an_idle_stack_costs_at_most_4_kib_and_6_with_an_engine_of_ltp() {
    let messages = cost(over_messages);
    let ltp = cost(over_ltp);
    let inline = size_of::<Stack>();
    println!("an idle stack with two links: {messages} B, with two spans of LTP {ltp} B ({inline} B in place)");
    assert!(messages <= 4 * 1024, "{messages} B");
    assert!(ltp <= 6 * 1024, "{ltp} B");
}
