//! An idle node in memory costs at most 6 KiB, so that simulations of many thousand nodes fit.

use farlink_base::{Clock, DataVolume, DtnTime, Instant, NodeId};
use farlink_bundle::EndpointId;
use farlink_cla::ltp;
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, Output, SpanConfig, Stack, StoreConfig, StoreKind,
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const STACKS: usize = 500;

/// A relay with one LTP engine and two neighbours.
fn relay() -> Stack {
    let mut config = Config::new(EndpointId::ipn(1, 0));
    config.router = "epidemic".into();
    config.store = StoreConfig { kind: StoreKind::Memory, capacity: DataVolume(1 << 20) };
    let kind = LayerKind::Ltp(ltp::Config { engine: 1, ..ltp::Config::default() });
    config.layers = vec![LayerConfig { name: "ltp".into(), kind }];
    let link = |peer: u64| LinkConfig {
        name: format!("to{peer}"),
        peer: EndpointId::ipn(peer, 0),
        layer: 0,
        rate: None,
        one_way_delay: farlink_base::Duration::from_secs(1),
        span: SpanConfig::Ltp(ltp::SpanConfig { engine: peer, node: NodeId::ipn(peer), ..ltp::SpanConfig::default() }),
    };
    config.links = vec![link(2), link(3)];
    Stack::new(config).expect("the configuration is right")
}

#[test]
fn an_idle_stack_costs_at_most_6_kib() {
    let clock = Clock { at: Instant::ZERO, utc: Some(DtnTime(800_000_000_000)), error_ms: 0 };
    let mut stacks: Vec<Stack> = Vec::with_capacity(STACKS);
    let before = MEMORY.current_usage();
    for _ in 0..STACKS {
        let mut stack = relay();
        let mut out: Vec<Output> = Vec::new();
        stack.handle(Instant::ZERO, Input::Clock(clock), &mut out);
        stacks.push(stack);
    }
    let inline = size_of::<Stack>();
    let each = (MEMORY.current_usage() - before) / STACKS + inline;
    println!("an idle stack with two LTP links: {each} B ({inline} B of them in place)");
    assert!(each <= 6 * 1024, "{each} B");
}
