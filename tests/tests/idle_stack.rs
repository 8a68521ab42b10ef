//! Memory of an idle node, so that simulations of many thousand nodes fit: of one just started, and of one that has
//! carried bundles and is idle again.

use farlink_base::layer::{Destination, Ticket};
use farlink_base::socket;
use farlink_base::{
    Clock, DataVolume, DtnTime, Duration, EndpointId, Facts, Instant, LayerId, LinkId, NodeId, Payload, Priority,
    StreamId,
};
use farlink_bpa::app::{AppInput, AppOutput, RegistrationId, RequestId, SendRequest};
use farlink_cla::{ltp, tcpcl_v4};
use farlink_stack::{
    Config, Input, LayerConfig, LayerKind, LinkConfig, LinkParams, MessageInput, MessageOutput, Output, Stack,
    StoreKind,
};
use peak_alloc::PeakAlloc;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const STACKS: usize = 500;
const BUNDLES: usize = 100;
const EPOCH: DtnTime = DtnTime(800_000_000_000);

/// Makes the node with this number.
type Make = fn(u64) -> Stack;

/// Neighbours of one of the nodes 1 to 3 of a triangle, in the order of its links.
fn peers(own: u64) -> Vec<u64> {
    (1..=3).filter(|peer| *peer != own).collect()
}

/// One of three nodes with two neighbours each.
fn node(own: u64, over: LayerKind, span: fn(u64) -> LinkParams) -> Stack {
    let mut config = Config::new(EndpointId::ipn(own, 0));
    config.router = "epidemic".into();
    config.keep_in(StoreKind::Memory, DataVolume(1 << 20));
    config.layers = vec![LayerConfig { name: "layer".into(), kind: over }];
    let link = |peer: u64| LinkConfig {
        name: format!("to{peer}"),
        peer: EndpointId::ipn(peer, 0),
        layer: 0,
        rate: None,
        one_way_delay: Duration::from_secs(1),
        terms: Default::default(),
        params: span(peer),
    };
    config.links = peers(own).into_iter().map(link).collect();
    Stack::new(config).expect("the configuration is right")
}
fn over_messages(own: u64) -> Stack {
    node(own, LayerKind::Message, |_| LinkParams::Message { wire_bytes_per_million: 0 })
}
fn over_ltp(own: u64) -> Stack {
    let ltp = ltp::Config { engine: own, ..ltp::Config::default() };
    let span =
        |peer| LinkParams::Ltp(ltp::SpanConfig { engine: peer, node: NodeId::ipn(peer), ..ltp::SpanConfig::default() });
    node(own, LayerKind::Ltp(ltp), span)
}
fn over_tcpcl(own: u64) -> Stack {
    let node_id = |n: u64| format!("ipn:{n}.0");
    let tcpcl = tcpcl_v4::Config { node_id: node_id(own), ..tcpcl_v4::Config::default() };
    let span = |peer| {
        LinkParams::Tcpcl(tcpcl_v4::LinkParams { node_id: format!("ipn:{peer}.0"), ..tcpcl_v4::LinkParams::default() })
    };
    node(own, LayerKind::Tcpcl(tcpcl), span)
}

/// Starts a node with its links down, so that it sends nothing to neighbours.
fn begun(mut stack: Stack) -> Stack {
    let mut out: Vec<Output> = Vec::new();
    for link in [0, 1] {
        stack.handle(Instant::ZERO, Input::LinkDown { link: LinkId(link) }, &mut out);
    }
    stack.handle(Instant::ZERO, Input::Clock(Clock { at: Instant::ZERO, utc: Some(EPOCH), error_ms: 0 }), &mut out);
    stack
}

/// Bytes of one stack, as the mean of many that were just started.
fn fresh(make: Make) -> usize {
    let mut stacks: Vec<Stack> = Vec::with_capacity(STACKS);
    let before = MEMORY.current_usage();
    stacks.extend((0..STACKS).map(|_| begun(make(1))));
    (MEMORY.current_usage() - before) / STACKS + size_of::<Stack>()
}

/// Three nodes, whose outputs reach the others at once.
struct Triangle {
    now: Instant,
    nodes: Vec<Stack>,
    todo: VecDeque<(u64, Input)>,
    /// The other end of each stream.
    ends: BTreeMap<(u64, StreamId), (u64, StreamId)>,
    streams: u64,
    delivered: usize,
}

const ROOM: u64 = 1 << 20;

fn address(node: u64) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, node as u8], 1))
}
fn link_to(own: u64, peer: u64) -> LinkId {
    LinkId(peers(own).iter().position(|other| *other == peer).expect("a neighbour") as u32)
}

impl Triangle {
    fn new(make: Make) -> Triangle {
        let nodes = (1..=3).map(|own| begun(make(own))).collect();
        let (todo, ends) = (VecDeque::new(), BTreeMap::new());
        Triangle { now: Instant::ZERO, nodes, todo, ends, streams: 0, delivered: 0 }
    }
    fn tell(&mut self, node: u64, input: Input) {
        self.todo.push_back((node, input));
    }
    fn run(&mut self, duration: Duration) {
        // All inputs of one moment are processed before time jumps to the next timer of any node.
        let end = self.now + duration;
        loop {
            while let Some((node, input)) = self.todo.pop_front() {
                let mut out = Vec::new();
                self.nodes[node as usize - 1].handle(self.now, input, &mut out);
                out.into_iter().for_each(|output| self.said(node, output));
            }
            let Some(next) = self.nodes.iter().filter_map(Stack::next_timeout).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            (1..=3).for_each(|node| self.tell(node, Input::Wake));
        }
        self.now = end;
    }
    fn said(&mut self, node: u64, output: Output) {
        match output {
            Output::Message(MessageOutput::Send { link, id, bundle, hop, .. }) => {
                let peer = peers(node)[link.0 as usize];
                let link = link_to(peer, node);
                self.tell(peer, Input::Message(MessageInput::Arrived { link, ticket: Ticket(id.0), bundle, hop }));
                self.tell(node, Input::Message(MessageInput::Done { id, result: Ok(()) }));
            }
            Output::Socket(layer, socket::Output::Datagrams { to: Destination::Link(link), train }) => {
                self.tell(
                    peers(node)[link.0 as usize],
                    Input::Socket(layer, socket::Input::Datagrams { from: address(node), train }),
                );
            }
            Output::Socket(layer, socket::Output::Connect { stream, link }) => {
                let peer = peers(node)[link.0 as usize];
                self.streams += 1;
                let other = StreamId(StreamId::PASSIVE | self.streams);
                self.ends.insert((node, stream), (peer, other));
                self.ends.insert((peer, other), (node, stream));
                for (at, stream, from) in [(peer, other, node), (node, stream, peer)] {
                    self.tell(at, Input::Socket(layer, socket::Input::Opened { stream, from: address(from) }));
                    self.tell(at, Input::Socket(LayerId(0), socket::Input::Writable { stream, room: ROOM }));
                }
            }
            Output::Socket(_, socket::Output::Write { stream, data }) => {
                let Some((peer, other)) = self.ends.get(&(node, stream)).copied() else { return };
                self.tell(peer, Input::Socket(LayerId(0), socket::Input::Data { stream: other, data }));
                self.tell(node, Input::Socket(LayerId(0), socket::Input::Writable { stream, room: ROOM }));
            }
            Output::Socket(_, socket::Output::Close { stream, abort }) => {
                if let Some((peer, other)) = self.ends.remove(&(node, stream)) {
                    self.ends.remove(&(peer, other));
                    self.tell(peer, Input::Socket(LayerId(0), socket::Input::Closed { stream: other, error: abort }));
                    self.tell(node, Input::Socket(LayerId(0), socket::Input::Closed { stream, error: abort }));
                }
            }
            Output::App(AppOutput::Deliver { registration, delivery, .. }) => {
                self.delivered += 1;
                self.tell(node, Input::App(AppInput::DeliveryDone { registration, delivery, taken: true }));
            }
            _ => {}
        }
    }
}

/// Bytes of a relay that has carried bundles from one neighbour to the other and is idle again.
fn used(make: Make) -> usize {
    let before = MEMORY.current_usage();
    let mut all = Triangle::new(make);
    let registration = RegistrationId(1);
    let to = EndpointId::ipn(3, 1);
    all.tell(3, Input::App(AppInput::Register { registration, endpoint: to.clone(), window: 16 }));
    for (node, peer) in [(1, 2), (2, 1), (1, 3), (3, 1)] {
        all.tell(node, Input::LinkUp { link: link_to(node, peer) });
    }
    all.run(Duration::from_secs(10));
    for n in 0..BUNDLES {
        let bundle = SendRequest {
            source: EndpointId::ipn(2, 1),
            destination: to.clone(),
            report_to: EndpointId::Null,
            facts: Facts::default(),
            lifetime_ms: 100_000,
            priority: Priority::Normal,
            hop_limit: 0,
            reliable: true,
            payload: Payload::fill(n as u64, 1000),
        };
        all.tell(2, Input::App(AppInput::Send { request: RequestId(n as u64), bundle }));
    }
    all.run(Duration::from_secs(1000));
    assert_eq!(all.delivered, BUNDLES);
    for link in [0, 1] {
        all.tell(1, Input::LinkDown { link: LinkId(link) });
    }
    // Longer than any timer that keeps state: a node keeps the remaining memory for good.
    all.run(Duration::from_secs(10_000));
    assert_eq!(all.nodes[0].status(all.now).bundles, 0);
    // Everything but the relay is freed before the measurement.
    let relay = all.nodes.swap_remove(0);
    drop((all, to));
    let bytes = MEMORY.current_usage() - before + size_of::<Stack>();
    drop(relay);
    bytes
}

#[test]
fn idle_stack_takes_at_most_4_kib() {
    // This program has no other test, since the allocator would count the memory of tests that run at the same time.
    println!(
        "a stack of two links, {} B of it in place, and when it has carried {BUNDLES} bundles:",
        size_of::<Stack>()
    );
    let layers: [(&str, Make, usize); 3] =
        [("messages", over_messages, 13_000), ("LTP", over_ltp, 17_000), ("TCPCLv4", over_tcpcl, 17_200)];
    for (name, make, bound) in layers {
        let (fresh, used) = (fresh(make), used(make));
        println!("{name:>9}: {fresh} B, {used} B");
        assert!(fresh <= 4 * 1024, "{name}: {fresh} B");
        assert!(used <= bound, "{name}: {used} B when idle again");
    }
}
