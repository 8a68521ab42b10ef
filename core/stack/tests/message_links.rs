//! One node whose links carry whole bundles as values: links that come and go, policies and quotas that its driver
//! sets.

use farlink_base::{
    Clock, DataRate, DataVolume, DtnTime, Duration, EndpointId, Facts, Instant, LinkId, Payload, Priority,
};
use farlink_bpa::app::{AppInput, AppOutput, RequestId, SendRequest};
use farlink_bpa::{Oracle, Quota};
use farlink_congestion::make_control;
use farlink_routing::make_router;
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, MessageInput, MessageOutput, Output, Stack,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NOW: Instant = Instant(1_000_000_000);

fn link(name: &str, peer: u64) -> LinkConfig {
    LinkConfig {
        name: name.into(),
        peer: EndpointId::ipn(peer, 0),
        layer: 0,
        rate: Some(DataRate(1_000_000)),
        one_way_delay: Duration::ZERO,
        terms: Default::default(),
        params: LinkParams::Message { wire_bytes_per_million: 1_000_000 },
    }
}
/// Node ipn:1.0, and its outputs since they were last asked for.
struct Node(Stack, Vec<Output>);
impl Node {
    fn new(tune: impl Fn(&mut Config)) -> Node {
        Node::with(tune, |_| {})
    }
    /// A node that is changed by `set` before its first input.
    fn with(tune: impl Fn(&mut Config), set: impl Fn(&mut Stack)) -> Node {
        let mut config = Config::new(EndpointId::ipn(1, 0));
        config.layers = vec![LayerConfig { name: "messages".into(), kind: LayerKind::Message }];
        config.router = "static".into();
        tune(&mut config);
        let mut node = Node(Stack::new(config).expect("right"), Vec::new());
        set(&mut node.0);
        let utc = Some(DtnTime(800_000_000_000));
        node.tell(Input::Clock(Clock { at: NOW, utc, error_ms: 0 }));
        node
    }
    fn tell(&mut self, input: Input) {
        self.0.handle(NOW, input, &mut self.1);
    }
    /// Sends a bundle of `len` bytes to this node; returns whether it was accepted.
    fn send(&mut self, to: u64, len: u64) -> bool {
        let bundle = SendRequest {
            source: EndpointId::ipn(1, 1),
            destination: EndpointId::ipn(to, 1),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 3_600_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::fill(1, len),
        };
        self.tell(Input::App(AppInput::Send { request: RequestId(0), bundle }));
        self.1.iter().any(|output| matches!(output, Output::App(AppOutput::SendResult { result: Ok(_), .. })))
    }
    fn messages(&mut self) -> Vec<MessageOutput> {
        let messages = std::mem::take(&mut self.1).into_iter();
        messages.filter_map(|output| if let Output::Message(message) = output { Some(message) } else { None }).collect()
    }
    /// Links over which bundles left.
    fn left(&mut self) -> Vec<u32> {
        let messages = self.messages().into_iter();
        messages.filter_map(|m| if let MessageOutput::Send { link, .. } = m { Some(link.0) } else { None }).collect()
    }
}

#[test]
fn free_hello_needs_no_turn() {
    // The link's number is beyond those of configured links.
    let mut node = Node::new(|config| config.router = "maxprop".into());
    node.0.add_met_link(NOW, LinkId(5), &link("met", 2), true, &mut node.1).expect("a new link");
    let messages = node.messages();
    assert!(matches!(messages[..], [MessageOutput::Hello { link: LinkId(5), .. }]), "{messages:?}");
}

#[test]
fn met_link_calls_for_its_turn() {
    let mut node = Node::new(|_| {});
    assert!(node.send(2, 10) && node.messages().is_empty());
    node.0.add_met_link(NOW, LinkId(5), &link("met", 2), false, &mut node.1).expect("a new link");
    let messages = node.messages();
    assert!(matches!(messages[..], [MessageOutput::Waits { link: LinkId(5) }]), "{messages:?}");
    node.tell(Input::Message(MessageInput::Turn { link: LinkId(5) }));
    assert_eq!(node.left(), [5]);
}

#[test]
fn found_link_carries_waiting_bundle() {
    let mut node = Node::new(|_| {});
    assert!(node.send(2, 100) && node.left().is_empty());
    node.0.add_found_link(NOW, LinkId(5), &link("found", 2), &mut node.1).expect("a new link");
    assert_eq!(node.left(), [5], "at once");
}

#[test]
fn removed_link_leaves_queue_to_sibling() {
    let mut node = Node::new(|config| config.links = vec![link("one", 2), link("other", 2)]);
    [0, 1].into_iter().for_each(|link| node.tell(Input::LinkDown { link: LinkId(link) }));
    node.send(2, 100);
    let queued = |node: &Node| -> Vec<(String, u64)> {
        let links = node.0.status(NOW).links.into_iter();
        links.map(|link| (link.name, link.queued)).collect()
    };
    assert_eq!(queued(&node), [("one".into(), 1), ("other".into(), 0)]);
    node.0.remove_link(NOW, LinkId(0), &mut node.1);
    assert_eq!(queued(&node), [("other".into(), 1)], "at once");
}

#[test]
fn quota_bounds_source_until_replaced() {
    let one = || vec![Quota { sources: vec!["ipn:1.*".into()], neighbours: vec![], bytes: u64::MAX, bundles: 1 }];
    let mut node = Node::new(|config| config.quotas = one());
    let send = |node: &mut Node| {
        node.1.clear();
        node.send(2, 10)
    };
    assert_eq!([send(&mut node), send(&mut node)], [true, false]);
    node.0.set_quotas(Vec::new());
    assert!(send(&mut node));
    node.0.set_quotas(one());
    assert!(!send(&mut node));
}

#[test]
fn ended_list_has_no_pages() {
    let mut node = Node::new(|_| {});
    node.send(2, 10);
    let [kept, ended] = [node.0.begin_list(), node.0.begin_list()];
    node.0.end_list(ended);
    assert_eq!([kept, ended].map(|list| node.0.page(NOW, list, 0, 9).0.len()), [1, 0]);
}

#[test]
fn replaced_router_routes_instead() {
    for router in ["static", "epidemic"] {
        let links = |config: &mut Config| config.links = vec![link("near", 2)];
        let router = || make_router(router, &[], &[], 1).expect("a router");
        let mut node = Node::with(links, |stack| stack.set_router(router()));
        node.send(9, 10);
        assert_eq!(node.left().len(), usize::from(router().copies()), "only a copying router has a neighbour for it");
    }
}

#[test]
fn replaced_control_evicts_instead() {
    let small = |config: &mut Config| config.node.store.capacity = DataVolume(10_000);
    let evicts = |stack: &mut Stack| stack.set_control(make_control("drop-oldest", &[], 1).expect("a control"));
    let mut node = Node::with(small, evicts);
    for _ in 0..2 {
        node.1.clear();
        assert!(node.send(2, 6000), "the first makes room");
    }
    assert_eq!(node.0.held(), 1);
}

/// Counts the bundles that the node keeps.
struct Counting(Arc<AtomicU64>);
impl Oracle for Counting {
    fn copies(&self, _: u128) -> u64 {
        0
    }
    fn forwards(&self, _: u128) -> u64 {
        0
    }
    fn mean_forwards(&self) -> f64 {
        0.0
    }
    fn kept(&mut self, _: u128) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn oracle_learns_of_kept_bundles() {
    let kept = Arc::new(AtomicU64::new(0));
    let mut node = Node::with(|_| {}, |stack| stack.set_oracle(Box::new(Counting(kept.clone()))));
    node.send(2, 10);
    assert_eq!(kept.load(Ordering::Relaxed), 1);
}
