//! STCP and MTCP over real sockets: two entities, each with its own sockets, and acknowledgments by the peer's host.

use crate::buffers::Buffers;
use crate::resolve::{Resolver, Wanted};
use crate::streams::{Bounds, Connector, QUEUE_BOUND, Streams};
use farlink_base::layer::{ConvergenceLayer, Input as LayerInput, LinkState, Output, SendId};
use farlink_base::{Duration, LayerId, LinkId, Payload, socket};
use farlink_cla::oneway::{Config, Framing, LinkParams, OneWay};
use farlink_os::poll::Poller;
use farlink_os::stream;
use farlink_stack::Input;
use std::collections::{BTreeSet, VecDeque};

const LISTENER: u64 = 1 << 60;
const LINK: LinkId = LinkId(0);

/// One node, reduced to this layer. A bundle starts with its number, which determines its length.
struct OneWaySide {
    streams: Streams,
    poller: Poller,
    resolver: Resolver<Wanted>,
    buffers: Buffers,
    layer: OneWay,
    inputs: VecDeque<Input>,
    next: u64,
    ready: bool,
    offered: BTreeSet<u64>,
    sent: BTreeSet<u64>,
    failed: Vec<u64>,
    passive: Option<farlink_base::StreamId>,
    connected: u32,
}

fn content(number: u64) -> Vec<u8> {
    let mut bytes = vec![number as u8; 8 + (number * 7919 % 60_000) as usize];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

impl OneWaySide {
    /// Creates a side that connects to `to`, if given; returns it and its listening address.
    fn new(framing: Framing, to: Option<String>) -> (OneWaySide, String) {
        let listener = stream::listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let poller = Poller::new().unwrap();
        poller.add(&listener, LISTENER).unwrap();
        let resolver = Resolver::start(poller.waker()).unwrap();
        let mut streams = Streams::new(vec![(LayerId(0), listener)], Bounds { queue: QUEUE_BOUND, read: 1 << 20 });
        let span = LinkParams { link: LINK, connect: to.is_some(), ..LinkParams::default() };
        let layer = OneWay::new(Config { framing, ..Config::default() }, vec![span]);
        streams.set_address(LayerId(0), LINK, Some(to.unwrap_or_else(|| "127.0.0.1:9".into())));
        let mut inputs = VecDeque::new();
        streams.locate(LINK, &resolver, &mut inputs);
        let mut side = OneWaySide {
            streams,
            poller,
            resolver,
            buffers: Buffers::keeping(16),
            layer,
            inputs,
            next: 0,
            ready: false,
            offered: BTreeSet::new(),
            sent: BTreeSet::new(),
            failed: Vec::new(),
            passive: None,
            connected: 0,
        };
        side.tell(LayerInput::Link { link: LINK, state: LinkState::UP });
        (side, place)
    }
    fn tell(&mut self, input: LayerInput) {
        let now = crate::clock::now();
        let mut todo = VecDeque::from([input]);
        while let Some(input) = todo.pop_front() {
            let mut out = Vec::new();
            self.layer.handle(now, input, &mut out);
            for output in out {
                self.follow(output, &mut todo);
            }
        }
    }
    fn follow(&mut self, output: Output, todo: &mut VecDeque<LayerInput>) {
        use socket::Output as O;
        let now = crate::clock::now();
        match output {
            Output::Socket(O::Connect { stream, link }) => {
                self.connected += 1;
                let register = (&self.poller, 0);
                let mut io = Connector { register, resolver: &self.resolver, inputs: &mut self.inputs };
                self.streams.connect(LayerId(0), stream, link, now, &mut io);
            }
            Output::Socket(O::Write { stream, data }) => self.streams.write(stream, &data, &mut self.inputs),
            Output::Socket(O::Close { stream, abort }) => self.streams.close(stream, abort, now),
            Output::Socket(O::Pause { stream }) => self.streams.pause(stream, true),
            Output::Socket(O::Resume { stream }) => self.streams.pause(stream, false),
            Output::Socket(O::Confirm { stream }) => self.streams.confirm(stream, now),
            Output::Offer { ticket, part, last, .. } => {
                assert!(last, "they are short");
                let bytes = part.to_bytes().unwrap();
                let number = u64::from_be_bytes(bytes[..8].try_into().unwrap());
                assert_eq!(bytes, content(number));
                self.offered.insert(number);
                todo.push_back(LayerInput::Accepted { ticket });
            }
            Output::Sent { id, .. } => assert!(self.sent.insert(id.0), "sent twice"),
            Output::SendFailed { id, .. } => self.failed.push(id.0),
            Output::Ready { ready, .. } => self.ready = ready,
            _ => {}
        }
    }
    /// Sends bundles, first those that failed, up to this number.
    fn send(&mut self, until: u64) {
        while self.ready && (self.next < until || !self.failed.is_empty()) {
            let number = self.failed.pop().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            self.tell(LayerInput::send(LINK, SendId(number), Payload::from(content(number)), true));
        }
    }
    fn turn(&mut self) {
        let now = crate::clock::now();
        if self.layer.next_timeout().is_some_and(|at| at <= now) {
            self.tell(LayerInput::Wake);
        }
        let mut ready = Vec::new();
        let wait = if self.streams.busy() { Duration::ZERO } else { Duration::from_millis(1) };
        self.poller.wait(Some(wait), |report| ready.push(report)).unwrap();
        for report in ready {
            let register = (&self.poller, 0);
            if report.token == LISTENER {
                self.streams.accept(now, 0, &register, &mut self.inputs);
            } else {
                let mut io = Connector { register, resolver: &self.resolver, inputs: &mut self.inputs };
                self.streams.on_ready(report.token, report, now, &mut io);
            }
        }
        self.streams.read(&mut self.buffers, &mut self.inputs);
        self.streams.expire(now, &(&self.poller, 0), &mut self.inputs);
        while let Some(input) = self.inputs.pop_front() {
            let Input::Socket(_, input) = input else { panic!("{input:?}") };
            if let socket::Input::Opened { stream, .. } = &input {
                self.passive = stream.is_passive().then_some(*stream).or(self.passive);
            }
            self.tell(LayerInput::Socket(input));
        }
        self.streams.flush(now, &mut self.inputs);
    }
}

fn run(sides: &mut [&mut OneWaySide], until: impl Fn(&[&mut OneWaySide]) -> bool) {
    let began = std::time::Instant::now();
    while !until(sides) {
        sides.iter_mut().for_each(|side| side.turn());
        assert!(began.elapsed().as_secs() < 60, "it never came");
    }
}

#[test]
fn sent_means_received_by_peer_host() {
    for framing in [Framing::Stcp, Framing::Mtcp] {
        let (mut b, place) = OneWaySide::new(framing, None);
        let (mut a, _) = OneWaySide::new(framing, Some(place));
        const ALL: u64 = 1000;
        run(&mut [&mut a, &mut b], |sides| sides[0].ready);
        // The other node does not read: its host takes bytes for its socket buffers and the window, and no more.
        a.send(ALL);
        let later = std::time::Instant::now() + Duration::from_millis(400);
        run(&mut [&mut a], |_| std::time::Instant::now() > later);
        a.send(ALL);
        let (asleep, taken) = (a.sent.len() as u64, a.next);
        assert!(asleep < taken && taken < ALL, "{asleep} of {taken}");
        let began = std::time::Instant::now();
        while (b.offered.len() as u64) < ALL || (a.sent.len() as u64) < ALL {
            a.send(ALL);
            a.turn();
            b.turn();
            assert!(began.elapsed().as_secs() < 60, "{} sent, {} offered", a.sent.len(), b.offered.len());
        }
        assert_eq!((a.connected, a.failed.len()), (1, 0));
        // With nothing in flight, no timer polls the acknowledgments.
        let quiet = std::time::Instant::now() + Duration::from_millis(100);
        run(&mut [&mut a, &mut b], |_| std::time::Instant::now() > quiet);
        assert_eq!(a.streams.next_timeout(), None);
    }
}

#[test]
fn bundles_are_resent_after_peer_reset() {
    let (mut b, place) = OneWaySide::new(Framing::Stcp, None);
    let (mut a, _) = OneWaySide::new(Framing::Stcp, Some(place));
    for round in 1..=5u64 {
        run(&mut [&mut a, &mut b], |sides| sides[0].ready);
        a.send(round * 20);
        run(&mut [&mut a, &mut b], |sides| sides[0].sent.len() as u64 == round * 20);
        run(&mut [&mut a, &mut b], |sides| sides[1].offered.len() as u64 == round * 20);
        let stream = b.passive.take().unwrap();
        b.streams.close(stream, true, crate::clock::now());
        b.tell(LayerInput::Socket(socket::Input::Closed { stream, error: true }));
        // The sender does not know of the reset yet, and its kernel accepts the data.
        a.send(round * 20 + 10);
        a.streams.flush(crate::clock::now(), &mut a.inputs);
        run(&mut [&mut a, &mut b], |sides| sides[0].failed.len() == 10 && sides[0].ready);
        a.send(round * 20 + 10);
        run(&mut [&mut a, &mut b], |sides| sides[1].offered.len() as u64 == round * 20 + 10);
        run(&mut [&mut a, &mut b], |sides| sides[0].sent.len() as u64 == round * 20 + 10);
        assert_eq!(u64::from(a.connected), round + 1);
    }
}
