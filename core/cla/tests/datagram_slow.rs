//! Tests of a row of nodes that relay small bundles over LTP in virtual time: slow nodes, stalled nodes, growing delay.
//! They count unnecessary retransmissions, because a slow node must process each of them, too.

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Destination, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{Duration, Instant, LinkId, NodeId, Payload, Rng};
use farlink_cla::ltp::{Config, Ltp, SpanConfig};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Step of virtual time.
const TICK: Duration = Duration::from_micros(100);
const BUNDLE: u64 = 1000;

struct RelayNode {
    ltp: Ltp,
    /// Datagrams under way, by arrival time and order, with their sender.
    inbox: BTreeMap<(Instant, u64), (usize, Payload)>,
    queue: VecDeque<u64>,
    ready: bool,
    /// Number of datagrams that the node can process per tick.
    speed: usize,
    /// Time until which the node is stalled.
    still_until: Instant,
    next_send: u64,
    data: u64,
    /// Number of bundles received, and number of those that the next node confirmed.
    came: u64,
    sent: u64,
    /// Largest number of bundles that waited to be relayed.
    waiting_max: usize,
}

struct RelayRow {
    now: Instant,
    nodes: Vec<RelayNode>,
    delay: Duration,
    jitter: Duration,
    loss: f64,
    rng: Rng,
    order: u64,
}

fn address(node: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, node as u8 + 1], 1113))
}

impl RelayRow {
    /// Creates a row of nodes: node n processes `speeds[n]` datagrams per tick, and the first has `bundles` bundles for
    /// the last.
    fn new(speeds: &[usize], bundles: u64) -> RelayRow {
        let node = |(at, speed): (usize, &usize)| {
            let engine = at as u64 + 1;
            let span = |to: usize| SpanConfig {
                link: LinkId(to as u32),
                engine: to as u64 + 1,
                node: NodeId(to as u64 + 1),
                margin: Duration::from_millis(50),
                ..SpanConfig::default()
            };
            let peers = [at.checked_sub(1), Some(at + 1).filter(|to| *to < speeds.len())];
            let spans = peers.into_iter().flatten().map(span).collect();
            RelayNode {
                ltp: Ltp::new(Config { engine, seed: engine, ..Config::default() }, spans),
                inbox: BTreeMap::new(),
                queue: if at == 0 { (0..bundles).collect() } else { VecDeque::new() },
                ready: false,
                speed: *speed,
                still_until: Instant::ZERO,
                next_send: 0,
                data: 0,
                came: 0,
                sent: 0,
                waiting_max: 0,
            }
        };
        let nodes = speeds.iter().enumerate().map(node).collect();
        let (now, delay, jitter) = (Instant(1_000_000_000), Duration::from_micros(200), Duration::ZERO);
        let mut row = RelayRow { now, nodes, delay, jitter, loss: 0.0, rng: Rng::new(1), order: 0 };
        for at in 0..speeds.len() {
            for to in 0..speeds.len() {
                let state = LinkState::UP;
                row.tell(at, Input::Link { link: LinkId(to as u32), state });
            }
        }
        row
    }
    fn tell(&mut self, at: usize, input: Input) {
        let mut out = Vec::new();
        self.nodes[at].ltp.handle(self.now, input, &mut out);
        self.follow(at, out);
    }
    fn follow(&mut self, at: usize, out: Vec<Output>) {
        for output in out {
            match output {
                Output::Socket(socket::Output::Datagrams { to, train }) => {
                    let Destination::Link(link) = to else { panic!("all are configured") };
                    train.datagrams().for_each(|datagram| self.carry(at, link.0 as usize, datagram));
                }
                Output::Offer { ticket, last: true, .. } => {
                    let node = &mut self.nodes[at];
                    node.came += 1;
                    node.queue.push_back(node.came);
                    node.waiting_max = node.waiting_max.max(node.queue.len());
                    self.accept(at, ticket);
                }
                Output::Ready { link, ready } if link.0 as usize == at + 1 => self.nodes[at].ready = ready,
                Output::Sent { .. } => self.nodes[at].sent += 1,
                Output::SendFailed { .. } => panic!("nobody gives up"),
                _ => {}
            }
        }
    }
    fn accept(&mut self, at: usize, ticket: Ticket) {
        self.tell(at, Input::Accepted { ticket });
    }
    fn carry(&mut self, from: usize, to: usize, datagram: Payload) {
        let kind = datagram.reader().read_u8().expect("it is not empty") & 0x0f;
        self.nodes[from].data += u64::from(kind < 8);
        if self.rng.chance(self.loss) {
            return;
        }
        let jitter = Duration::from_nanos(self.rng.below(self.jitter.as_nanos() as u64 + 1));
        self.order += 1;
        self.nodes[to].inbox.insert((self.now + self.delay + jitter, self.order), (from, datagram));
    }
    fn tick(&mut self) {
        for at in 0..self.nodes.len() {
            if self.nodes[at].still_until > self.now {
                continue;
            }
            for _ in 0..self.nodes[at].speed {
                let now = self.now;
                let Some(first) = self.nodes[at].inbox.first_entry().filter(|entry| entry.key().0 <= now) else {
                    break;
                };
                let (from, datagram) = first.remove();
                let (from, train) = (address(from), DatagramBatch::single(datagram));
                self.tell(at, Input::Socket(socket::Input::Datagrams { from, train }));
            }
            if at + 1 < self.nodes.len() {
                self.send_on(at);
            }
            if self.nodes[at].ltp.next_timeout().is_some_and(|due| due <= self.now) {
                self.tell(at, Input::Wake);
            }
        }
        self.now += TICK;
    }
    fn send_on(&mut self, at: usize) {
        while self.nodes[at].ready {
            let node = &mut self.nodes[at];
            let Some(number) = node.queue.pop_front() else { break };
            let id = SendId(node.next_send);
            node.next_send += 1;
            let payload = Payload::fill(number, BUNDLE);
            self.tell(at, Input::send(LinkId(at as u32 + 1), id, payload, true));
        }
    }
    /// Runs until the last node has all bundles, or for `seconds`; returns the time that it took, s.
    fn run(&mut self, bundles: u64, seconds: u64) -> f64 {
        let begun = self.now;
        let before_last = self.nodes.len() - 2;
        while self.nodes[before_last].sent < bundles {
            self.tick();
            assert!(
                self.now < begun + Duration::from_secs(seconds),
                "{} of {bundles} sent",
                self.nodes[before_last].sent
            );
        }
        (self.now - begun).as_secs_f64()
    }
    /// Number of retransmissions of a node per bundle.
    fn copies(&self, at: usize) -> f64 {
        let node = &self.nodes[at];
        (node.data - node.next_send) as f64 / node.next_send as f64
    }
}

#[test]
fn slow_receiver_gets_no_duplicates() {
    // Unnecessary copies would slow the peer down further.
    let mut row = RelayRow::new(&[100, 1], 6_000);
    let took = row.run(6_000, 20);
    assert!(row.copies(0) < 0.01, "{} copies of each", row.copies(0));
    // Each bundle takes two datagrams, data and acknowledgment, so at most 5,000 bundles pass per second.
    assert!(took < 2.0, "{took} s");
}

#[test]
fn stalled_peer_gets_one_checkpoint() {
    // While the peer stalls, one repeated checkpoint serves for all sessions.
    let mut row = RelayRow::new(&[100, 20], 20_000);
    for pause in 0..4 {
        (0..1_500).for_each(|_| row.tick());
        let node = pause % 2;
        row.nodes[node].still_until = row.now + Duration::from_millis(300);
    }
    row.run(20_000, 30);
    assert!(row.copies(0) < 0.005, "{} copies of each", row.copies(0));
}

#[test]
fn timers_follow_growing_delay() {
    // A longer delay must not be taken for loss.
    let mut row = RelayRow::new(&[100, 100], 20_000);
    (0..2_000).for_each(|_| row.tick());
    row.delay = Duration::from_millis(150);
    row.run(20_000, 120);
    assert!(row.copies(0) < 0.01, "{} copies of each", row.copies(0));
}

#[test]
fn reordering_causes_no_retransmission() {
    // Segments that overtake others are no sign of loss.
    let mut row = RelayRow::new(&[100, 100], 15_000);
    row.jitter = Duration::from_millis(5);
    row.run(15_000, 60);
    assert!(row.copies(0) < 0.001, "{} copies of each", row.copies(0));
}

#[test]
fn lost_data_are_resent_soon() {
    for loss in [0.001, 0.05] {
        let mut row = RelayRow::new(&[100, 100], 10_000);
        row.loss = loss;
        let took = row.run(10_000, 60);
        assert!(row.copies(0) < 4.0 * loss + 0.01, "loss {loss}: {} copies of each", row.copies(0));
        assert!(took < 20.0, "loss {loss}: {took} s");
    }
}

#[test]
fn relaying_node_keeps_up_without_duplicates() {
    let mut row = RelayRow::new(&[100, 3, 100], 8_000);
    let took = row.run(8_000, 30);
    assert!(row.copies(0) < 0.02 && row.copies(1) < 0.02, "{} and {} copies", row.copies(0), row.copies(1));
    // Each bundle takes four datagrams, so 7,500 bundles pass per second.
    assert!(took < 2.5, "{took} s");
    assert!(row.nodes[1].waiting_max < 8_000, "{} wait", row.nodes[1].waiting_max);
}
