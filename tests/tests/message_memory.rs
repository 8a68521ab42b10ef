//! A thousand nodes of a message-level simulation in memory, each holding a hundred bundles.

use farlink_base::layer::Ticket;
use farlink_base::{
    Accel, BundleMeta, Clock, CreationTimestamp, DataVolume, DtnTime, EndpointId, Facts, HopState, Instant, LinkId,
    Payload,
};
use farlink_bundle::{CrcType, v7};
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, MessageInput, MessageOutput, Output, Stack,
    StoreKind,
};
use peak_alloc::PeakAlloc;
use std::sync::Arc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const EPOCH: DtnTime = DtnTime(800_000_000_000);
const NODES: u64 = 1000;
const WAITING: u64 = 100;
const HOLDERS: u64 = 10;

fn node(n: u64) -> Stack {
    let mut config = Config::new(EndpointId::ipn(n, 0));
    config.router = "epidemic".into();
    config.keep_in(StoreKind::Memory, DataVolume(1 << 30));
    config.layers = vec![LayerConfig { name: "layer".into(), kind: LayerKind::Message }];
    let link = |peer: u64| LinkConfig {
        name: format!("to{peer}"),
        peer: EndpointId::ipn(peer, 0),
        layer: 0,
        rate: None,
        one_way_delay: farlink_base::Duration::ZERO,
        terms: Default::default(),
        params: LinkParams::Message { wire_bytes_per_million: 0 },
    };
    config.links = vec![link(n + 1), link(n + 2)];
    Stack::new(config).expect("the configuration is right")
}

fn bundle(sequence: u64) -> Arc<BundleMeta> {
    let draft = v7::BundleDraft {
        source: EndpointId::ipn(5000, 1),
        destination: EndpointId::ipn(6000 + sequence % 50, 1),
        facts: Facts::default(),
        lifetime_ms: 86_400_000,
        ..v7::BundleDraft::default()
    };
    let creation = CreationTimestamp { time: EPOCH, sequence };
    Arc::new(v7::make(&draft, creation, Payload::fill(sequence, 100_000), CrcType::None, &Accel::default()))
}

/// Passes an input to a node; returns how many bundles it accepted.
fn tell(node: &mut Stack, input: Input) -> u64 {
    let mut kept = 0;
    let mut out = farlink_base::FnSink(|output: Output| {
        kept += u64::from(matches!(output, Output::Message(MessageOutput::Verdict { result: Ok(()), .. })));
    });
    node.handle(Instant::ZERO, input, &mut out);
    kept
}

#[test]
fn thousand_nodes_take_at_most_30_mb() {
    let before = MEMORY.current_usage();
    let mut nodes: Vec<Stack> = (1..=NODES).map(node).collect();
    for node in &mut nodes {
        for link in [0, 1] {
            tell(node, Input::LinkDown { link: LinkId(link) });
        }
        tell(node, Input::Clock(Clock { at: Instant::ZERO, utc: Some(EPOCH), error_ms: 0 }));
    }
    let idle = MEMORY.current_usage() - before;
    let mut kept = 0;
    for sequence in 0..NODES * WAITING / HOLDERS {
        let bundle = bundle(sequence);
        for holder in 0..HOLDERS {
            // Ten nodes hold each bundle, other nodes for the next: the copies share one allocation, and every node
            // holds a hundred bundles.
            let at = (sequence * 7 + holder * (NODES / HOLDERS)) % NODES;
            let (bundle, hop) = (bundle.clone(), Box::new(HopState::default()));
            let input =
                Input::Message(MessageInput::Arrived { link: LinkId(0), ticket: Ticket(sequence), bundle, hop });
            kept += tell(&mut nodes[at as usize], input);
        }
    }
    assert_eq!(kept, NODES * WAITING);
    assert!(nodes.iter().all(|node| node.status(Instant::ZERO).bundles == WAITING));
    let all = MEMORY.current_usage() - before;
    let mb = |bytes: usize| bytes as f64 / 1e6;
    println!("{NODES} nodes: {:.1} MB idle, {:.1} MB with {WAITING} bundles each", mb(idle), mb(all));
    // 300 B for each of the 100,000 entries, the nodes' own memory included.
    assert!(all <= 30_000_000, "{:.1} MB", mb(all));
}
