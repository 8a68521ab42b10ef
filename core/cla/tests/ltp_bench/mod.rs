//! LTP engines driven by hand in virtual time; tests see and pass single datagrams.
#![allow(dead_code, reason = "each test file uses another part")]

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId, Ticket};
use farlink_base::socket;
use farlink_base::{Bytes, Event, Instant, LinkId, Malformed, NodeId, Payload};
use farlink_cla::ltp::segment::{Segment, View, parse};
use farlink_cla::ltp::{Config, Ltp, SpanConfig};
use std::net::SocketAddr;

pub const LINK: LinkId = LinkId(0);

/// Test bundle: length (4 bytes), then bytes that depend on its number.
pub fn bundle(number: u8, len: usize) -> Payload {
    let mut bytes = (len as u32).to_be_bytes().to_vec();
    bytes.resize(len, number);
    Payload::from(bytes)
}
fn split(block: &Payload) -> Result<Option<u64>, Malformed> {
    let mut head = [0; 4];
    if !block.reader().read_exact(&mut head) {
        return Ok(None);
    }
    let len = u64::from(u32::from_be_bytes(head));
    Ok((len <= block.len() && len > 0).then_some(len))
}

/// Address of an engine.
pub fn at(engine: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, engine as u8], 1113))
}

pub struct LtpBench {
    pub ltp: Ltp,
    pub now: Instant,
    /// Reasons for which datagrams were dropped.
    pub dropped: Vec<&'static str>,
    /// Bundles received, and whether each is complete.
    pub arrived: Vec<(Payload, bool)>,
    pub sent: Vec<SendId>,
    pub failed: Vec<SendId>,
    pub aborted: usize,
    /// Whether received bundles are accepted at once.
    pub keeps: bool,
    open: Vec<(Ticket, Payload)>,
}
impl LtpBench {
    /// Creates engine `own`, whose neighbour is engine `peer` at its known address.
    pub fn new(own: u64, peer: u64, tune: impl Fn(&mut Config, &mut SpanConfig)) -> LtpBench {
        let mut config = Config { engine: own, seed: 5 + own, split, ..Config::default() };
        let mut span = SpanConfig { link: LINK, engine: peer, node: NodeId(peer), ..SpanConfig::default() };
        tune(&mut config, &mut span);
        let mut bench = LtpBench {
            ltp: Ltp::new(config, vec![span]),
            now: Instant(1_000_000_000),
            dropped: Vec::new(),
            arrived: Vec::new(),
            sent: Vec::new(),
            failed: Vec::new(),
            aborted: 0,
            keeps: true,
            open: Vec::new(),
        };
        bench.input(Input::Link { link: LINK, state: LinkState::UP });
        bench.input(Input::Socket(socket::Input::Located { link: LINK, addresses: vec![at(peer)] }));
        bench
    }
    /// Passes an input; returns the datagrams sent after it.
    pub fn input(&mut self, input: Input) -> Vec<Bytes> {
        let mut datagrams = Vec::new();
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut out = Vec::new();
            self.ltp.handle(self.now, input, &mut out);
            while self.ltp.next_timeout().is_some_and(|t| t <= self.now) {
                self.ltp.handle(self.now, Input::Wake, &mut out);
            }
            for output in out {
                self.said(output, &mut datagrams, &mut inputs);
            }
        }
        datagrams
    }
    fn said(&mut self, output: Output, datagrams: &mut Vec<Bytes>, inputs: &mut Vec<Input>) {
        match output {
            Output::Socket(socket::Output::Datagrams { train, .. }) => {
                datagrams.extend(train.datagrams().map(|datagram| {
                    let mut bytes = vec![0; datagram.len() as usize];
                    datagram.copy_to(0, &mut bytes);
                    Bytes::from(bytes)
                }));
            }
            Output::Event(Event::Malformed { reason, .. }) => self.dropped.push(reason),
            Output::Sent { id, .. } => self.sent.push(id),
            Output::SendFailed { id, .. } => self.failed.push(id),
            Output::OfferAborted { .. } => self.aborted += 1,
            Output::Offer { ticket, part, last, reliable, .. } => {
                let begun = self.open.iter().position(|(open, _)| *open == ticket);
                let mut whole = begun.map(|at| self.open.remove(at).1).unwrap_or_default();
                whole.append(part);
                if !last {
                    return self.open.push((ticket, whole));
                }
                self.arrived.push((whole, reliable));
                if self.keeps && reliable {
                    inputs.push(Input::Accepted { ticket });
                }
            }
            _ => {}
        }
    }
    pub fn receive_from(&mut self, from: SocketAddr, datagram: impl Into<Bytes>) -> Vec<Bytes> {
        let train = DatagramBatch::single(Payload::from(datagram.into()));
        self.input(Input::Socket(socket::Input::Datagrams { from, train }))
    }
    /// Passes a datagram from an engine; returns the datagrams sent after it.
    pub fn receive(&mut self, engine: u64, datagram: impl Into<Bytes>) -> Vec<Bytes> {
        self.receive_from(at(engine), datagram)
    }
    pub fn send(&mut self, id: u64, payload: Payload, red: bool) -> Vec<Bytes> {
        self.input(Input::send(LINK, SendId(id), payload, red))
    }
    pub fn later(&mut self, seconds: f64) -> Vec<Bytes> {
        self.now = Instant(self.now.0 + (seconds * 1e9) as u64);
        self.input(Input::Wake)
    }
    pub fn bundles(&self) -> Vec<Payload> {
        self.arrived.iter().map(|(bundle, _)| bundle.clone()).collect()
    }
}

pub fn view(datagram: &[u8]) -> View<'_> {
    parse(datagram, datagram.len() as u64).expect("we send what can be read")
}
pub fn segment(datagram: &Bytes) -> Segment {
    Segment::parse(datagram).expect("we send what can be read")
}
pub fn segments(datagrams: &[Bytes]) -> Vec<Segment> {
    datagrams.iter().map(segment).collect()
}

/// Exchanges datagrams between two engines until both are silent, beginning with `first` from the first engine.
/// Datagrams for which `lost` returns true are dropped. Returns all datagrams with their senders.
pub fn talk(
    benches: [&mut LtpBench; 2],
    engines: [u64; 2],
    first: Vec<Bytes>,
    mut lost: impl FnMut(usize, &Bytes) -> bool,
) -> Vec<(usize, Bytes)> {
    let [a, b] = benches;
    let mut went = Vec::new();
    let (mut from_a, mut from_b) = (first, Vec::new());
    for _ in 0..400 {
        for datagram in std::mem::take(&mut from_a) {
            if !lost(0, &datagram) {
                from_b.extend(b.receive(engines[0], datagram.clone()));
            }
            went.push((0, datagram));
        }
        for datagram in std::mem::take(&mut from_b) {
            if !lost(1, &datagram) {
                from_a.extend(a.receive(engines[1], datagram.clone()));
            }
            went.push((1, datagram));
        }
        from_a.extend(a.later(0.1));
        from_b.extend(b.later(0.1));
    }
    went
}
